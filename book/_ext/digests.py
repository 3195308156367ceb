"""What the outputs of a notebook depend on, and the runs that are out of date.

Jupyter Book's cache knows a notebook by its code alone, so it would go on publishing old numbers
after a change in ``lnlib``. Here each notebook also has a digest of everything that it can run or
read; where that has changed, its cached run is dropped and the notebook runs again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from contextlib import suppress
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
    data, the pins, and the Python that runs.
    """
    total = hashlib.sha256(sys.version.encode())
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


def digest(notebook: Path, of_all: str) -> str:
    """Return a digest of what the outputs of a notebook depend on besides its own code.

    Args:
        notebook: its file.
        of_all: what `runnable` has found.
    """
    # The checks of printed equations read them from the page.
    equations = latex.labeled(_source_of(notebook, "markdown"))
    return hashlib.sha256(f"{of_all} {equations}".encode()).hexdigest()


def drop_stale_runs(root: Path) -> list[Path]:
    """Forget the cached run of each notebook whose dependencies changed; return those notebooks."""
    from jupyter_cache import get_cache

    build = root / "_build"
    digests = build / "digests.json"
    known: dict[str, str] = json.loads(digests.read_text()) if digests.exists() else {}
    of_all = runnable(root)
    now = {path.relative_to(root).as_posix(): digest(path, of_all) for path in notebooks(root)}
    stale = [root / name for name in now if known.get(name) != now[name]]
    build.mkdir(exist_ok=True)
    if (build / CACHE).exists():
        cache = get_cache(build / CACHE)
        old = {record.pk for record in cache.list_cache_records() if Path(record.uri) in stale}
        for path in stale:
            with suppress(KeyError):  # a run is found by its code, whatever file it was made of
                old.add(cache.match_cache_notebook(nbformat.read(path, as_version=4)).pk)
        for run in old:
            cache.remove_cache(run)
    for path in stale:  # without its page, Sphinx reads the notebook anew
        page = path.relative_to(root).with_suffix(".doctree")
        (build / ".doctrees" / page).unlink(missing_ok=True)
    write(digests, json.dumps(now, indent=1))
    return stale


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all: who interrupts keeps the old one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf8")
    part.replace(path)
