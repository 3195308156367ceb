"""Run every benchmark that this machine can, one after the other: ``make bench``.

    python benchmarks/run_all.py                      # under 20 minutes on two cores
    python benchmarks/run_all.py --long               # and what trains for long: two hours
    python benchmarks/run_all.py --only bench_speed   # one, or a few

What does not fit into that time is left out; ``--long`` and ``--only`` set no limit. Each benchmark
is a process of its own and writes its own table. Before each, a line says how many there are,
how long it has taken so far, and how long the rest will take, by the last run if there was one. A
benchmark that fails is named at the end, and the exit status is 1; the others run all the same.
Ctrl-C stops the one that runs and leaves what the earlier ones wrote.

``benchmarks/results/runs.csv`` has a row for each: seconds, ``done``, ``skipped`` or ``failed`` and
why, when, on which machine, and with which versions. A benchmark that did not get its turn keeps
the row it had.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from results_table import RESULTS, provenance, save

import lnlib
from lnlib.book.records.tables import rows_of

HERE = Path(__file__).resolve().parent
LIMIT = 20 * 60  # seconds that all may take
PATIENCE = 20  # seconds that a benchmark may take to put things away after Ctrl-C

Row = dict[str, Any]


def needs_nothing() -> str:
    return ""


def needs_gpu() -> str:
    return "" if torch.cuda.is_available() else "there is no GPU"


def needs_chromium() -> str:
    path = os.environ.get("LN_CHROMIUM", "/usr/bin/chromium")
    return "" if shutil.which(path) else f"there is no {path}; LN_CHROMIUM names another"


class Benchmark(NamedTuple):
    """What is run.

    Attributes:
        name: of the file, without its ending.
        seconds: that it takes on two cores.
        why_not: says what is missing on this machine, or nothing.
        is_long: not without ``--long``.
    """

    name: str
    seconds: float
    why_not: Callable[[], str] = needs_nothing
    is_long: bool = False


BENCHMARKS = (
    Benchmark("bench_accuracy", 100),
    Benchmark("bench_speed", 130),
    Benchmark("bench_growth", 120),
    Benchmark("bench_memory", 15),
    Benchmark("bench_pieces", 50),
    Benchmark("bench_gamma_beta", 20),
    Benchmark("bench_explorers", 130, needs_chromium),
    Benchmark("bench_lstm", 240),
    Benchmark("bench_book", 940, needs_chromium),
    Benchmark("bench_layer_norm", 480, needs_gpu),
    Benchmark("bench_triton_compiled", 15 * 60, is_long=True),
    Benchmark("sweep_lstm", 30 * 60, is_long=True),
    Benchmark("sweep_norms", 45 * 60, is_long=True),
)


def plan(
    benchmarks: Sequence[Benchmark], expected: dict[str, float], with_long: bool
) -> dict[str, str]:
    """Return why each benchmark is left out, or nothing for one that is run."""
    reasons, total = {}, 0.0
    for benchmark in benchmarks:
        seconds = expected[benchmark.name]
        why = benchmark.why_not()
        if not why and not with_long and (benchmark.is_long or total + seconds > LIMIT):
            why = f"it takes {clock(seconds)} minutes, too long for this run"
        reasons[benchmark.name] = why
        total += 0 if why else seconds
    return reasons


def run(command: Sequence[str]) -> str:
    """Run a command, and return why it failed, or nothing."""
    # A group of its own: Ctrl-C comes to this process alone, which passes it on once, to all in it.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        # PyTorch's profiler would announce each of its hundred starts.
        env=os.environ | {"KINETO_LOG_LEVEL": "99"},
    )
    assert process.stderr is not None
    last = ""
    with process.stderr:
        try:
            for line in process.stderr:
                print(line, end="", file=sys.stderr, flush=True)
                last = line.strip() or last
            status = process.wait()
        except KeyboardInterrupt:
            stop(process)
            raise
    return f"exit status {status}: {last[:200]}" if status else ""


def stop(process: subprocess.Popen[str]) -> None:
    """Interrupt a process and all that it started; end them if that does not help."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_all(benchmarks: Sequence[Benchmark], folder: Path, table: Path, with_long: bool) -> int:
    """Run ``benchmarks``, which are files in ``folder``; return the exit status."""
    rows: dict[str, Row] = {row["benchmark"]: row for row in rows_of(table)}
    expected = {each.name: expected_seconds(each, rows.get(each.name)) for each in benchmarks}
    reasons = plan(benchmarks, expected, with_long)
    for name, why in reasons.items():
        if why:
            rows[name] = row_of(name, 0, "skipped", why)
            print(f"{name} is skipped: {why}", flush=True)
            save(table, list(rows.values()))
    todo = [name for name, why in reasons.items() if not why]
    failed, start = [], time.monotonic()
    for number, name in enumerate(todo, 1):
        before = time.monotonic()
        so_far, left = before - start, sum(expected[each] for each in todo[number - 1 :])
        counted = f"[{number}/{len(todo)}] {name}"
        print(f"{counted}: {clock(so_far)} so far, about {clock(left)} to go", flush=True)
        try:
            why = run([sys.executable, str(folder / f"{name}.py")])
        except KeyboardInterrupt:
            print(f"stopped in {name}; what was done before is written", flush=True)
            return 130
        failed += [f"{name}: {why}"] if why else []
        rows[name] = row_of(name, time.monotonic() - before, "failed" if why else "done", why)
        save(table, list(rows.values()))
    print(f"{len(todo) - len(failed)} of {len(todo)} done in {clock(time.monotonic() - start)}")
    for each in failed:
        print(f"failed: {each}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def expected_seconds(benchmark: Benchmark, row: Row | None) -> float:
    """Return how long a benchmark took when it was last done, or else what is known of it."""
    if row is None or row["status"] != "done":
        return benchmark.seconds
    return float(row["seconds"])


def clock(seconds: float) -> str:
    """Return minutes and seconds, as 3:07."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def row_of(name: str, seconds: float, status: str, why: str) -> Row:
    """Return what the table says of one benchmark."""
    return {
        "benchmark": name,
        "seconds": f"{seconds:.0f}",
        "status": status,
        "why": why,
        **provenance(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "lnlib": lnlib.__version__,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="run what takes hours, too")
    parser.add_argument("--only", action="append", choices=names, help="run this one")
    options = parser.parse_args(arguments)
    # A shell starts what runs in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = [b for b in BENCHMARKS if b.name in (options.only or names)]
    return run_all(chosen, HERE, RESULTS / "runs.csv", options.long or bool(options.only))


if __name__ == "__main__":
    raise SystemExit(main())
