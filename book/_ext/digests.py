"""What the outputs of a notebook depend on, and the runs that are out of date.

Jupyter Book's cache knows a notebook by its code alone, so it would go on publishing old numbers
after a change in ``lnlib``. Here is a digest of everything that notebooks can run or read; where
that has changed, all of them run again.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
import sys
from pathlib import Path

import nbformat
import yaml

from lnlib.book.equations import latex

CACHE = ".jupyter_cache"  # in _build, where Jupyter Book looks for runs
RUNNABLE = ("lnlib/**/*", "benchmarks/results/*.csv", "notebooks/data/*", "requirements.txt")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
NEEDS_TRITON = "07_triton_kernel"  # its stored outputs stand where there is no Triton


def notebooks(root: Path) -> list[Path]:
    """Return the notebooks that ``_toc.yml`` lists, in its order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf8"))
    files = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    paths = [root / f"{file}.ipynb" for file in files]
    return [path for path in paths if path.exists()]


def code_of(notebook: Path) -> str:
    """Return the source of all code cells of a notebook."""
    return _source_of(notebook, "code")


def _source_of(notebook: Path, kind: str) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == kind)


def runnable(root: Path) -> str:
    """Return one digest of all that a notebook can run or read besides itself.

    That is all of ``lnlib``, its Python without docstrings, comments and layout, the tables, the
    data, the pins, the Python that runs, and the equations of the pages, which checks read.
    """
    total = hashlib.sha256(sys.version.encode())
    for path in notebooks(root):
        total.update(f"{latex.labeled(_source_of(path, 'markdown'))}".encode())
    for pattern in RUNNABLE:
        for path in sorted(path for path in root.glob(pattern) if path.is_file()):
            if "__pycache__" not in path.parts:
                total.update(path.relative_to(root).as_posix().encode() + b"\0" + _said_by(path))
    return total.hexdigest()


def _said_by(path: Path) -> bytes:
    if path.suffix != ".py":
        return path.read_bytes()
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree).encode()


def drop_stale_runs(root: Path) -> bool:
    """Forget all runs, and what Sphinx has read, if something that they depend on has changed.

    Returns: whether it had.
    """
    build = root / "_build"
    known, now = build / "digest", runnable(root)
    if known.exists() and known.read_text() == now:
        return False
    for folder in (CACHE, ".doctrees"):
        shutil.rmtree(build / folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    write(known, now)
    return True


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all: who interrupts keeps the old one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf8")
    part.replace(path)
