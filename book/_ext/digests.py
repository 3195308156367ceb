"""What the files say that a notebook can read.

Jupyter Book's cache knows a notebook by its code alone, so it would go on publishing old numbers
after a change in ``lnlib``. Each run is therefore stored with a digest of every file of the project
that its kernel has read (``reads.py``), and counts no longer once one of them says something else.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
from contents import pages

from lnlib.book.equations import latex

CACHE = ".jupyter_cache"  # in _build, where Jupyter Book looks for runs
PINS = "requirements.txt"  # every run depends on them, and on the Python that runs
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
NEEDS_TRITON = "07_triton_kernel"  # its stored outputs stand where there is no Triton


def notebooks(root: Path) -> list[Path]:
    """Return the notebooks that ``_toc.yml`` lists, in its order."""
    return [path for path in pages(root) if path.suffix == ".ipynb"]


def code_of(notebook: Path) -> str:
    """Return the source of all code cells of a notebook."""
    return _source_of(notebook, "code")


def _source_of(notebook: Path, kind: str) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == kind)


def digests_of(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return a digest of what each file says, by its name from ``root``; "" where there is none."""
    said = {}
    for name in sorted({PINS, *names}):
        path = root / name
        said[name] = _digest(path, path.stat().st_mtime_ns) if path.is_file() else ""
    return {**said, "Python": sys.version}


@functools.cache
def _digest(path: Path, changed: int) -> str:
    return hashlib.sha256(_said_by(path)).hexdigest()


def _said_by(path: Path) -> bytes:
    """Return what a notebook can learn from a file.

    That is its bytes; of Python, what is left without docstrings, comments and layout; of another
    notebook, the equations, which checks read.
    """
    if path.suffix == ".ipynb":
        return f"{latex.labeled(_source_of(path, 'markdown'))}".encode()
    if path.suffix != ".py":
        return path.read_bytes()
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree).encode()


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all: who interrupts keeps the old one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf8")
    part.replace(path)
