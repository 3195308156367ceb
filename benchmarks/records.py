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
MAKES = ("lnlib.book.experiments", "lnlib.book.explorers")
PACKAGE = (":(glob)lnlib/*.py", "lnlib/cpp_kernel", "lnlib/lstm", "lnlib/triton_kernel")


class Record(NamedTuple):
    """How a table comes to be.

    Attributes:
        script: in this folder, that measures it.
        columns: what tells its rows apart.
        plan: the function of the script that yields, for the name of the table, what some row of
            it has to say; "" where the script writes a table whole or not at all.
    """

    script: str
    columns: str
    plan: str = ""


_RUN = "experiment batch lr seed"
RECORDS = {
    "accuracy": Record("bench_accuracy", "dtype mean_over_std method"),
    "accuracy_constant_rows": Record("bench_accuracy", "method"),
    "characters": Record("sweep_norms", f"{_RUN} placement norm warmup step", "runs_of"),
    "characters_written": Record("sweep_norms", f"{_RUN} placement norm", "runs_of"),
    "compiled": Record("bench_compiled", "chip pass dtype rows features kernel"),
    "explorers": Record("bench_explorers", "explorer control"),
    "gamma_beta": Record("bench_gamma_beta", "setting step"),
    "growth": Record("bench_growth", "what along provider size"),
    "layer_norm": Record("bench_layer_norm", "provider pass dtype rows features regime device"),
    "lstm": Record("bench_lstm", "provider pass kind batch steps input_size hidden_size device"),
    "lstm_memory": Record("sweep_lstm", "experiment probe model lr scaling seed at", "runs_of"),
    "lstm_training": Record(
        "sweep_lstm", f"{_RUN} model layout scaling gamma zero_bias clip rows epoch", "runs_of"
    ),
    "memory": Record("bench_memory", "dtype rows features provider"),
    "mlp_training": Record("sweep_norms", f"{_RUN} norm epoch", "runs_of"),
    "models": Record("bench_models", "model dtype norms"),
    "pages": Record("bench_pages", "page"),
    "pieces": Record("bench_pieces", "way rows features dtype"),
    "speed": Record("bench_speed", "provider pass dtype rows features"),
    "speed_pinned": Record("bench_speed", "provider pass dtype rows features"),
    "tricks": Record("bench_tricks", "kernel pass dtype rows features malloc"),
}
# Nothing here makes these: "compiled" as it was before the launches were mended, and what others
# have published.
KEPT = ("compiled_before", "published")


def git(*arguments: str) -> str:
    """Return what git says; "" where this is no checkout, or there is no git."""
    command = ["git", *arguments]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


@functools.cache
def commit(*paths: str) -> str:
    """Return the commit of this checkout, or the last one that touched ``paths``.

    It ends in "-dirty" where something is not committed, other than results.
    """
    paths = paths or (".", ":!benchmarks/results")
    said = git("log", "-1", "--format=%h", "--abbrev=12", "--", *paths)
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *paths)
    return f"{said}-dirty" if changed else said


def paths_of(script: str) -> list[str]:
    """Return where the code is that makes the numbers of a script, as git takes it."""
    todo, found = [HERE / f"{script}.py"], set()
    while todo:
        path = todo.pop()
        if path.is_file() and path not in found:
            found.add(path)
            for name in imported(path.read_text(encoding="utf8")):
                todo.append(HERE / f"{name}.py")
                if name.startswith(MAKES):
                    todo.append(ROOT / f"{name.replace('.', '/')}.py")
    return [*sorted(path.relative_to(ROOT).as_posix() for path in found), *PACKAGE]


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
        rows, paths = rows_of(RESULTS / f"{name}.csv"), paths_of(record.script)
        for made in dict.fromkeys((row["commit"], row["date"]) for row in rows):
            print("  by {} on {}; since then:".format(*made))
            since = f"{made[0].removesuffix('-dirty')}.."
            log = git("log", "--format=    %h %ad %s", "--date=short", since, "--", *paths)
            print(f"    {log}" if log else "    nothing")


if __name__ == "__main__":
    main()
