"""Which norm, and where? The runs that chapters 09, 10, 14 and 15 draw, several seeds each.

Run ``python benchmarks/sweep_norms.py``; it takes about three quarters of an hour on two cores.
Stop it with Ctrl-C and start it again: runs that are finished are kept in ``--work``, until
the code that makes their numbers changes. ``--only small-batch`` does one experiment (say it again
for another), and leaves the others' rows as they are; ``--quick`` tries all of it with tiny
networks, and writes its tables into ``--work``.

Tables: ``mlp_training.csv`` has a row for each epoch of each run on digits, ``characters.csv`` a
row for each twentieth of each run on the novel, and ``characters_written.csv`` what the networks
of two minutes write. All runs have one thread each.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import results_table
import sweeping
import torch
from sweeping import Rows, start_worker, until_stopped
from tqdm import tqdm

from lnlib.book.experiments import characters, mlp

WORK = Path(__file__).parents[1] / "build" / "sweep_norms"
RATES = (3e-4, 1e-3, 3e-3)
SMALL_RATES = (1e-4, 3e-4, 1e-3)  # a batch of 4 takes 32 times as many steps
DEPTH_RATES = (3e-4, 1e-3, 3e-3, 1e-2)
WARMUP = 100
FIRST_WORDS, WRITTEN = "She had ", 400
TABLES = ("mlp_training", "characters", "characters_written")

AnyConfig = mlp.Config | characters.Config


def experiments() -> dict[str, list[AnyConfig]]:
    """Return the runs of each experiment."""
    batch, small = mlp.Config(epochs=15), mlp.Config(batch=4, epochs=3)
    compared = ("none", "batch", "batch-hidden", "layer")
    varied = ("rms", "weight", "layer-detached", "layer-noisy")
    short = characters.Config(steps=300)
    long = characters.Config(lr=3e-3, warmup=WARMUP, steps=2000)
    kinds = (("post", "layer"), ("pre", "layer"), ("pre", "rms"), ("none", "layer"))
    plans: dict[str, tuple[int, list[AnyConfig]]] = {
        "batch": (5, [replace(batch, norm=n, lr=lr) for n in compared for lr in RATES]),
        "variants": (3, [replace(batch, norm=n, lr=lr) for n in varied for lr in RATES]),
        "small-batch": (3, [replace(small, norm=n, lr=lr) for n in compared for lr in SMALL_RATES]),
        "placements": (
            3,
            [
                replace(short, placement=placement, lr=lr, warmup=warmup)
                for placement in characters.PLACEMENTS
                for lr in DEPTH_RATES
                for warmup in (0, WARMUP)
            ],
        ),
        "two-minutes": (
            3,
            [replace(long, placement=placement, norm=norm) for placement, norm in kinds],
        ),
    }
    return {
        name: [replace(config, seed=seed) for config in plan for seed in range(seeds)]
        for name, (seeds, plan) in plans.items()
    }


def tiny(config: AnyConfig) -> AnyConfig:
    """Return a run of a second, for ``--quick``."""
    if isinstance(config, mlp.Config):
        return replace(config, hidden=8, rows=96, epochs=2)
    return replace(config, layers=2, width=8, heads=2, context=8, batch=4, steps=40)


@functools.cache
def digits() -> mlp.Rows:
    return mlp.permutation_invariant_mnist()


@functools.cache
def text() -> characters.Text:
    return characters.persuasion()


def do(config: AnyConfig) -> dict[str, Any]:
    """Do a run; return its records, and what the network writes afterwards, if it can."""
    return on_digits(config) if isinstance(config, mlp.Config) else on_the_novel(config)


def on_digits(config: mlp.Config) -> dict[str, Any]:
    return {"records": [record._asdict() for record in mlp.run(config, digits())]}


def on_the_novel(config: characters.Config) -> dict[str, Any]:
    model = characters.build(config, len(text().alphabet))
    records = [record._asdict() for record in characters.run(config, text(), model)]
    return {
        "records": records,
        "written": characters.sample(model, text(), FIRST_WORDS, WRITTEN),
    }


def table_of(config: AnyConfig) -> str:
    return "mlp_training" if isinstance(config, mlp.Config) else "characters"


def path_of(config: AnyConfig, folder: Path) -> Path:
    """Return where the result of a run is kept."""
    return folder / f"{hashlib.sha256(repr(config).encode()).hexdigest()[:16]}.json"


def finish(job: tuple[AnyConfig, Path]) -> tuple[AnyConfig, dict[str, Any]]:
    """Do a run unless it is done; return its result."""
    config, path = job
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(do(config)), encoding="utf8")
        unfinished.replace(path)
    return config, json.loads(path.read_text(encoding="utf8"))


def rows_of(experiment: str, config: AnyConfig, records: Sequence[dict[str, Any]]) -> Rows:
    about = {"experiment": experiment, **dataclasses.asdict(config)}
    return [
        about | {name: f"{v:.5g}" if isinstance(v, float) else v for name, v in record.items()}
        for record in records
    ]


def sweep(runs: dict[str, list[AnyConfig]], work: Path, jobs: int, results: Path) -> None:
    """Do the runs, and write the tables into ``results``."""
    where = results_table.provenance() | {
        "threads": 1,
        "jobs": jobs,
        "torch": torch.__version__,
    }
    folder = sweeping.folder_of("sweep_norms", work)
    todo = [(config, path_of(config, folder)) for plan in runs.values() for config in plan]
    done: dict[AnyConfig, dict[str, Any]] = {}
    with (
        multiprocessing.get_context("spawn").Pool(jobs, start_worker) as pool,
        tqdm(total=len(todo), unit="run") as bar,
    ):
        for config, result in pool.imap_unordered(finish, todo):
            done[config] = result
            bar.update()
    tables: dict[str, Rows] = {table: [] for table in TABLES}
    for name, plan in runs.items():
        for config in plan:
            tables[table_of(config)] += rows_of(name, config, done[config]["records"])
            if name == "two-minutes":
                tables["characters_written"] += rows_of(
                    name, config, [{"written": done[config]["written"]}]
                )
    for name, rows in tables.items():
        rows = [row | where for row in rows]
        sweeping.write(results / f"{name}.csv", rows, set(runs), list(RUNS))


RUNS = experiments()


def runs_of(table: str) -> Iterator[dict[str, Any]]:
    """Yield what the rows of each run in ``table`` say of it."""
    for name, plan in RUNS.items():
        for config in plan:
            written = table == "characters_written" and name == "two-minutes"
            if written or table == table_of(config):
                yield {"experiment": name, **dataclasses.asdict(config)}


def main(arguments: Sequence[str] | None = None) -> int:
    options = sweeping.parser(__doc__, list(RUNS), WORK).parse_args(arguments)
    names = [name for name in RUNS if options.only is None or name in options.only]
    runs = {name: [tiny(c) if options.quick else c for c in RUNS[name]] for name in names}
    results = options.work if options.quick else results_table.RESULTS
    return until_stopped(lambda: sweep(runs, options.work, options.jobs, results))


if __name__ == "__main__":
    raise SystemExit(main())
