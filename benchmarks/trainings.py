"""Training runs by the protocol of `lnlib.book.records.verdicts`: what is left to do, and doing it.

A table is written row by row, so a command that is stopped goes on where it was. Rows that are
there are kept: to train anew, delete the table.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from results_table import provenance, save

from lnlib.book.experiments.trainers import FOLDS
from lnlib.book.records import tables
from lnlib.book.records.verdicts import FRESH, GRID, RATES, own_rates

Row = dict[str, Any]
BEYOND = 3  # rates that are tried at most beyond the first ones, on either side


class Way(NamedTuple):
    """A way of training: the lowest and the highest of the rates to begin with, and one run of it.

    ``run`` takes a rate and a seed, and returns each of ``metrics`` as "valid_..." and "test_...",
    and more if it likes.
    """

    low: float
    high: float
    run: Callable[[float, int], Mapping[str, float]]
    metrics: tuple[str, ...] = ("loss", "error")  # that are reported, each at its own rate


def done(table: str, name: str) -> set[tuple[float, int]]:
    """Return the rates and seeds of a way's runs in a table."""
    rows = tables.rows_of(tables.RESULTS / f"{table}.csv")
    return {(float(row["rate"]), int(row["seed"])) for row in rows if row["way"] == name}


def asked(table: str, name: str, way: Way) -> set[tuple[float, int]]:
    """Return the runs that the protocol asks for by what has been found so far: rate and seed."""
    low, high = RATES.index(way.low), RATES.index(way.high)
    there = done(table, name)
    rates = {*RATES[low : high + 1], *(rate for rate, seed in there if seed in GRID)}
    grid = {(rate, seed) for rate in rates for seed in GRID}
    if not grid <= there:
        return grid
    more = set()
    for best in {own_rates(table, name, metric)[0] for metric in way.metrics}:
        beyond = RATES.index(best) + {min(rates): -1, max(rates): 1}.get(best, 0)
        is_edge = RATES[beyond] != best and low - BEYOND <= beyond <= high + BEYOND
        more |= {(RATES[beyond], s) for s in GRID} if is_edge else {(best, s) for s in FRESH}
    return grid | more


def left(table: str, ways: Mapping[str, Way]) -> list[tuple[str, float, int]]:
    """Return the runs that are to be done next: way, rate and seed."""
    return [
        (name, rate, seed)
        for name, way in ways.items()
        for rate, seed in sorted(asked(table, name, way) - done(table, name))
    ]


def runs_of(table: str, ways: Mapping[str, Way]) -> Iterator[Row]:
    """Yield what the rows of a whole table say of each run."""
    for name, way in ways.items():
        for rate, seed in asked(table, name, way):
            yield {"way": name, "rate": rate, "seed": seed}


def start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops this one
    torch.set_num_threads(1)
    # The gates of an LSTM that has run away saturate, and numbers below the smallest normal one
    # then make a run thirty times as long.
    torch.set_flush_denormal(True)


def sweep(table: str, ways: Mapping[str, Way], jobs: int) -> None:
    """Do all runs that are left, and write each into ``benchmarks/results/TABLE.csv`` at once."""
    path, order = tables.RESULTS / f"{table}.csv", list(ways)
    where = provenance() | {"torch": torch.__version__}
    with multiprocessing.get_context("spawn").Pool(jobs, start) as pool:
        while todo := left(table, ways):
            rows: list[Row] = [*tables.rows_of(path)]
            print(f"{table}: {len(rows)} runs are there, {len(todo)} to do", flush=True)
            for found in pool.imap_unordered(functools.partial(row, ways=ways), todo):
                rows.append(found | where)
                rows.sort(key=lambda r: (order.index(r["way"]), float(r["rate"]), int(r["seed"])))
                save(path, rows)
    print(f"{table} is whole")


def row(job: tuple[str, float, int], ways: Mapping[str, Way]) -> Row:
    """Do one run, and return its row; numbers are rounded to five digits."""
    name, rate, seed = job
    start = time.process_time()
    found = {key: f"{value:.5g}" for key, value in ways[name].run(rate, seed).items()}
    about = {"way": name, "rate": rate, "seed": seed, "fold": seed % FOLDS}
    return about | found | {"cpu_seconds": f"{time.process_time() - start:.3g}"}


def command(about: str, tables: Mapping[str, Mapping[str, Way]]) -> int:
    """Do what the command line asks for, all runs that are left or those of some tables.

    Ctrl-C stops it. Returns the exit status.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(tables), help="fill this table")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    options = parser.parse_args()
    # A shell starts what runs in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for name in options.only or tables:
            sweep(name, tables[name], options.jobs)
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here")
        return 130
    return 0
