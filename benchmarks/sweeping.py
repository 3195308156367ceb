"""What every sweep does: it runs in several processes, can be stopped, and merges tables."""

from __future__ import annotations

import argparse
import hashlib
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import records
import torch
from results_table import save

from lnlib.book.home import ROOT
from lnlib.book.records.tables import rows_of

Rows = list[dict[str, Any]]
RUNS_ON_A_CPU = {".py", ".cpp", ".h"}
APART = {"book", "triton_kernel"}  # of which a sweep runs what it imports alone


def parser(about: str, experiments: Sequence[str], work: Path | None) -> argparse.ArgumentParser:
    """Return what reads the options of a sweep; two of them need a folder of finished runs."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--only", action="append", choices=experiments, help="do this experiment")
    parser.add_argument("--jobs", type=_jobs, default=2, help="runs at a time (default: 2)")
    if work is not None:
        parser.add_argument("--work", type=Path, default=work, help="folder of finished runs")
        parser.add_argument("--quick", action="store_true", help="try it with tiny networks")
    return parser


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it is {text}, expected a whole number from 1")
    return int(text)


def folder_of(script: str, work: Path) -> Path:
    """Return where finished runs are kept: another folder for each state of the code they run."""
    package = ROOT / "lnlib"
    code = [path for path in sorted(package.rglob("*")) if path.suffix in RUNS_ON_A_CPU]
    code = [path for path in code if not APART & {*path.relative_to(package).parts}]
    code += records.code_of(script)
    state = hashlib.sha256(b"\0".join(path.read_bytes() for path in code))
    folder = work / state.hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which stops this one
    torch.set_num_threads(1)


def until_stopped(work: Callable[[], None]) -> int:
    """Do the work, which Ctrl-C may stop; return the exit status."""
    # A shell starts what runs in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        work()
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here")
        return 130
    return 0


def write(path: Path, rows: Rows, redone: set[str], order: Sequence[str]) -> None:
    """Write a table, with the rows it already has of experiments that were not done again."""
    kept: Rows = [row for row in rows_of(path) if row["experiment"] not in redone]
    if not kept + rows:
        return
    ordered = sorted(kept + rows, key=lambda row: order.index(row["experiment"]))
    save(path, ordered, columns=(rows or kept)[0])
    print(f"wrote {path.name}: {len(rows)} new rows, {len(kept)} kept")
