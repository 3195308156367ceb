"""What the outputs of a notebook depend on, and the runs that are out of date.

Jupyter Book's cache knows a notebook by its code alone, so it would go on publishing old numbers
after a change in ``lnlib``. Here each notebook also has a digest of everything its numbers depend
on; where that has changed, its cached run is dropped and the notebook runs again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from pathlib import Path

import nbformat
import yaml

from lnlib.book.equations import latex
from lnlib.book.records.closure import Closure, Code

CACHE = ".jupyter_cache"  # in _build, where Jupyter Book looks for runs
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


def digest(notebook: Path, code: Code) -> str:
    """Return a digest of all that the outputs of a notebook depend on, and of its own code.

    Args:
        notebook: its file.
        code: of the checkout that it is in.
    """
    closure = code.of_text(code_of(notebook))
    total = hashlib.sha256(f"{sys.version} {closure.digest}".encode())
    # The checks of printed equations read them from the page.
    total.update(repr(latex.labeled(_source_of(notebook, "markdown"))).encode())
    for path in sorted(read_by(closure, code.root)):
        total.update(path.relative_to(code.root).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def read_by(closure: Closure, root: Path) -> set[Path]:
    """Return the files that code may read: the pins, the data, and the tables that it names."""
    modules = {statement.module.name for statement in closure.statements}
    found = {root / "requirements.txt"}
    if "lnlib.book.data" in modules:
        found |= set(root.glob("notebooks/data/*"))
    if "lnlib.book.records.tables" in modules:
        tables = root.glob("benchmarks/results/*.csv")
        found |= {path for path in tables if {path.stem, path.name} & closure.strings}
    return found


def drop_stale_runs(root: Path) -> list[Path]:
    """Forget the cached run of each notebook whose dependencies changed; return those notebooks."""
    from jupyter_cache import get_cache

    build = root / "_build"
    digests = build / "digests.json"
    known: dict[str, str] = json.loads(digests.read_text()) if digests.exists() else {}
    code = Code(root)
    now = {path.relative_to(root).as_posix(): digest(path, code) for path in notebooks(root)}
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
