"""Every table of results, a line each; ``python benchmarks/records.py`` says which are stale.

For each table it prints, by ``git log``, what has changed since its commit in the code that makes
it. Whether that changed a number, only a new run can tell.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lnlib.book.home import ROOT
from lnlib.book.records.tables import RESULTS, rows_of

HERE = Path(__file__).resolve().parent
# Of the chapters' code, what makes numbers; of the package, all may.
MAKES = ("lnlib.book.data", "lnlib.book.experiments")
PACKAGE = (":(glob)lnlib/*.py", "lnlib/cpp_kernel", "lnlib/lstm", "lnlib/triton_kernel")


class Record(NamedTuple):
    """How a table comes to be.

    Attributes:
        script: in this folder, that measures it.
        columns: what tells its rows apart.
        also: files and folders that it is made by, and that no import shows.
    """

    script: str
    columns: str
    also: tuple[str, ...] = ()


RECORDS = {
    "accuracy": Record("bench_accuracy", "dtype mean_over_std method"),
    "accuracy_constant_rows": Record("bench_accuracy", "method"),
    "layer_norm": Record(
        "bench_layer_norm",
        "provider pass dtype rows features regime device",
        also=("notebooks/07_triton_kernel.ipynb",),
    ),
    "lstm": Record("bench_lstm", "provider pass kind batch steps input_size hidden_size device"),
    "memory": Record("bench_memory", "dtype rows features provider"),
    "models": Record("bench_models", "model dtype norms"),
    "models_gpu": Record("bench_models", "model dtype norms"),
    "runs_gamma_beta": Record("sweep_digits", "way rate seed"),
    "runs_lstm": Record("sweep_digits", "way rate seed"),
    "runs_norms": Record("sweep_digits", "way rate seed"),
    "runs_novel": Record("sweep_novel", "way rate seed"),
    "runs_novel_longer": Record("sweep_novel", "way rate seed"),
    "speed": Record("bench_speed", "provider pass dtype rows features"),
    "speed_pinned": Record("bench_speed", "provider pass dtype rows features"),
    "trained_changes": Record("trained", "model text front after change"),
    **dict.fromkeys(
        [f"trained_{what}" for what in ("statistics", "gamma", "epsilon", "mean", "digits")],
        Record("norms_changed", "model norms change"),
    ),
    "trained_same": Record("norms_changed", "model change"),
    "trained_norms": Record("trained", "model text front norm"),
    "trained_path": Record("trained", "change block"),
    "trained_rows": Record("trained", "model norm position feature"),
}
# Nothing here makes these any more: studies of one day, which chapter 7 and the page of benchmarks
# quote with their date and commit.
KEPT = ("gpu_choices", "pieces")
LAST = 3  # commits that are told of each


def git(*arguments: str) -> str:
    """Return what git says; "" where this is no checkout, or there is no git."""
    command = ["git", *arguments]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


@functools.cache
def commit() -> str:
    """Return the commit of this checkout; "-dirty" says that more than results is not in it."""
    said = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return f"{said}-dirty" if changed else said


def code_of(script: str) -> list[Path]:
    """Return the modules that make the numbers of a script: itself, and what it imports of ours."""
    todo, found = [HERE / f"{script}.py"], set()
    while todo:
        path = todo.pop()
        if path.is_file() and path not in found:
            found.add(path)
            for name in imported(path.read_text(encoding="utf8")):
                todo.append(HERE / f"{name}.py")
                if name.startswith(MAKES):
                    todo.append(ROOT / f"{name.replace('.', '/')}.py")
    return sorted(found - {HERE / "records.py", HERE / "results_table.py"})


def paths_of(table: str) -> list[str]:
    """Return where the code is that makes a table, as git takes it."""
    paths = [path.relative_to(ROOT).as_posix() for path in code_of(RECORDS[table].script)]
    return [*paths, *RECORDS[table].also, *PACKAGE]


def imported(text: str) -> Iterator[str]:
    """Yield the modules that a program imports, and what it imports from them, which may be one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def main() -> None:
    for name, record in RECORDS.items():
        print(f"\n{name}: python benchmarks/{record.script}.py")
        for row in {row["commit"]: row for row in rows_of(RESULTS / f"{name}.csv")}.values():
            made = row["commit"].removesuffix("-dirty")
            print(f"  {row['date']}, commit {row['commit']}; since then:")
            if not git("rev-parse", "--verify", "--quiet", f"{made}^{{commit}}"):
                print("    unknown: this checkout has no such commit")
                continue
            pretty = ("--format=    %h %ad %s", "--date=short")
            log = git("log", *pretty, f"{made}..", "--", *paths_of(name)).splitlines()
            for line in log[:LAST] or ["nothing"]:
                print(f"    {line.strip()}")
            if len(log) > LAST:
                print(f"    and {len(log) - LAST} before")


if __name__ == "__main__":
    main()
