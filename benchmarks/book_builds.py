"""Builds of a copy of this book, cold and after changes, and its notebooks under nbval."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from digests import digest, notebooks

from lnlib.book.records.closure import Code

Row = dict[str, Any]

OF_ONE = ("lnlib/book/pictures.py", "shared_cells")  # a function that one chapter calls
COUNTED = (
    ("lnlib/composed.py", "normalize"),
    ("lnlib/lstm/function.py", "lstm"),
    ("lnlib/triton_kernel/kernels.py", "layer_norm_fwd_kernel"),
)

START = time.monotonic()


def note(text: str) -> None:
    """Say what goes on, and how many minutes in."""
    print(f"[{(time.monotonic() - START) / 60:4.1f} min] {text}", flush=True)


def row(what: str, subject: str, value: float, unit: str) -> Row:
    """Return a row of ``book.csv`` without its provenance."""
    return {"what": what, "subject": subject, "value": value, "unit": unit}


def copy_checkout(root: Path, target: Path) -> None:
    """Copy what git knows of a checkout, and what it could: as it lies there, without builds."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():  # else it was removed and git was not told
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def environment(book: Path) -> dict[str, str]:
    """Return what makes a copy use its own lnlib, not the one that is installed."""
    return os.environ | {"PYTHONPATH": f"{book}", "OMP_WAIT_POLICY": "passive"}


def run_in(book: Path, *arguments: str) -> tuple[float, str]:
    """Run Python in a copy; return the seconds and what it printed.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, *arguments]
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=book,
        env=environment(book),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stdout[-2000:]}")
    return seconds, done.stdout


def executed(output: str) -> int:
    """Return how many notebooks a build says that it ran."""
    return len(re.findall(r"Executed notebook in [\d.]+ seconds", output))


def change_prose(book: Path) -> None:
    """Add a line to the first text of the first chapter."""
    path = notebooks(book)[0]
    notebook = nbformat.read(path, as_version=4)
    text = next(cell for cell in notebook.cells if cell.cell_type == "markdown")
    text.source += "\n\nOne more line."
    nbformat.write(notebook, path)


def change_function(path: Path, name: str) -> None:
    """Put a ``pass`` into a function: it does the same, by other code."""
    lines = path.read_text(encoding="utf8").splitlines(keepends=True)
    functions = {getattr(each, "name", ""): each for each in ast.parse("".join(lines)).body}
    last = functions[name].body[-1]
    lines.insert(last.lineno - 1, f"{' ' * last.col_offset}pass\n")
    path.write_text("".join(lines), encoding="utf8")


def build_rows(book: Path) -> Iterator[Row]:
    """Build a copy cold, and again after each of an author's changes."""
    edits: dict[str, Callable[[], None]] = {
        "cold": lambda: None,
        "nothing changed": lambda: None,
        "one line of prose changed": lambda: change_prose(book),
        "a function of one chapter changed": lambda: change_function(book / OF_ONE[0], OF_ONE[1]),
    }
    for name, edit in edits.items():
        edit()
        seconds, output = run_in(book, "book/_ext/make_book.py", "html")
        note(f"build, {name}: {seconds:.1f} s, {executed(output)} notebooks ran")
        yield row("build", name, round(seconds, 1), "s")
        yield row("notebooks run by a build", name, executed(output), "notebooks")
    for module, name in COUNTED:
        count = run_again_by(book, module, name)
        yield row("notebooks run by a build", f"{name} of {module} changed", count, "notebooks")


def run_again_by(book: Path, module: str, name: str) -> int:
    """Return how many notebooks a changed function would run again; leave all as it was."""
    file = book / module
    before, text = digests(book), file.read_bytes()
    change_function(file, name)
    after = digests(book)
    file.write_bytes(text)
    return sum(old != new for old, new in zip(before, after, strict=True))


def digests(book: Path) -> list[str]:
    """Return the digest of each notebook of a copy."""
    code = Code(book)
    return [digest(path, code) for path in notebooks(book)]


def nbval_options(root: Path) -> list[str]:
    """Return the options that the Makefile gives nbval."""
    makefile = (root / "Makefile").read_text(encoding="utf8")
    found = re.search(r"^NBVAL\s*:=\s*(.+)$", makefile, re.MULTILINE)
    if found is None:
        raise SystemExit("the Makefile has no line NBVAL := …")
    return found[1].split()


def nbval_rows(book: Path, paths: Sequence[Path]) -> Iterator[Row]:
    """Run notebooks under nbval, one process and one notebook at a time."""
    for path in paths:
        name = path.relative_to(book).as_posix()
        options = ["-q", "-p", "no:cacheprovider", *nbval_options(book)]
        seconds, output = run_in(book, "-m", "pytest", *options, name)
        cells = int(re.findall(r"(\d+) passed", output)[-1])
        note(f"nbval {path.stem}: {seconds:.1f} s, {cells} cells")
        yield row("nbval", path.stem, round(seconds, 1), "s")
        yield row("cells under nbval", path.stem, cells, "cells")
