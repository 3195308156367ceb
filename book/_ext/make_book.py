"""Build the book and refresh its notebooks: ``python book/_ext/make_book.py html|refresh``.

Jupyter Book's cache knows a notebook by its code alone, so it would go on publishing old numbers
after a change in ``lnlib``. Here each notebook also has a digest of everything its numbers depend
on; where that has changed, its cached run is dropped and the notebook runs again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import yaml

from lnlib.book.equations import latex
from lnlib.book.records.closure import Closure, Code

ROOT = Path(__file__).resolve().parents[2]
NEEDS_TRITON = "07_triton_kernel"  # its stored outputs stand where there is no Triton
JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"  # the package has no __main__
FINISHED = "finished"  # the file in _build that says that the last build went through
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def notebooks(root: Path = ROOT) -> list[Path]:
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


def drop_stale_runs(root: Path = ROOT) -> list[Path]:
    """Forget the cached run of each notebook whose dependencies changed; return those notebooks."""
    from jupyter_cache import get_cache

    build = root / "_build"
    digests = build / "digests.json"
    known: dict[str, str] = json.loads(digests.read_text()) if digests.exists() else {}
    code = Code(root)
    now = {path.relative_to(root).as_posix(): digest(path, code) for path in notebooks(root)}
    stale = [root / name for name in now if known.get(name) != now[name]]
    build.mkdir(exist_ok=True)
    if (build / ".jupyter_cache").exists():
        cache = get_cache(build / ".jupyter_cache")
        for record in cache.list_cache_records():
            if Path(record.uri) in stale:
                cache.remove_cache(record.pk)
    for path in stale:  # without its page, Sphinx reads the notebook anew
        page = path.relative_to(root).with_suffix(".doctree")
        (build / ".doctrees" / page).unlink(missing_ok=True)
    _write(digests, json.dumps(now, indent=1))
    return stale


def forget_unfinished_build(root: Path = ROOT) -> None:
    """Throw away what a build that failed or was interrupted left half-done.

    Its parsed pages: Sphinx warns only about pages it reads, so the next build would pass, and it
    would take a page that was half written for one that is up to date. And the runs, if one of them
    is registered but was not stored: the cache could neither use nor replace it.
    """
    from jupyter_cache import get_cache

    build = root / "_build"
    if (build / FINISHED).exists():
        return
    shutil.rmtree(build / ".doctrees", ignore_errors=True)
    if (build / ".jupyter_cache").exists():
        cache = get_cache(build / ".jupyter_cache")
        try:
            for record in cache.list_cache_records():
                cache.get_cache_bundle(record.pk)
        except (KeyError, ValueError):  # there is no such file, or it is cut off
            shutil.rmtree(build / ".jupyter_cache")


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all: who interrupts keeps the old one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf8")
    part.replace(path)


def build_html() -> int:
    """Execute what changed, build the HTML with warnings as errors, print the page to open."""
    forget_unfinished_build()
    for path in drop_stale_runs():
        print(f"will run {path.relative_to(ROOT)}: it, lnlib or its data changed", flush=True)
    flags = ["-W", "-n", "--keep-going"]
    finished = ROOT / "_build" / FINISHED
    finished.unlink(missing_ok=True)
    command = [sys.executable, "-c", JUPYTER_BOOK, "build", str(ROOT), *flags]
    status = subprocess.run(command, cwd=ROOT).returncode
    if status:
        print("\nThe book was not built: see the warnings and errors above.", file=sys.stderr)
        return status
    finished.touch()
    print(f"\nThe book is built. Open {(ROOT / '_build' / 'html' / 'index.html').as_uri()}")
    return 0


def isolate_kernels() -> None:
    """Keep a reader's own IPython profile, and a warning about local sockets, out of the runs."""
    profile = ROOT / "_build" / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text('c.IPKernelApp.log_level = "ERROR"\n')
    os.environ["IPYTHONDIR"] = str(profile.parent)


def stable(notebook: Any) -> Any:
    """Drop from an executed notebook what differs from run to run: widget ids, times, chunks."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
        for output in cell.get("outputs", []):
            # A picture and a sentence stand for the widget wherever no kernel runs.
            output.get("data", {}).pop(WIDGET_VIEW, None)
    return notebook


def merge_streams(outputs: list[Any]) -> list[Any]:
    """Join what a cell printed: the kernel sends it in chunks, cut where the clock says."""
    merged: list[Any] = []
    for output in outputs:
        last: Any = merged[-1] if merged else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def refresh(paths: list[Path]) -> int:
    """Run notebooks top to bottom in their own folder and store their outputs."""
    from nbclient import NotebookClient

    for path in paths:
        print(f"running {path.relative_to(ROOT)}", flush=True)
        notebook = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": str(path.parent)}}
        NotebookClient(notebook, timeout=180, kernel_name="python3", resources=resources).execute()
        _write(path, nbformat.writes(stable(notebook)) + "\n")
    return 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python book/_ext/make_book.py", description=__doc__)
    parser.add_argument("command", choices=["html", "refresh"])
    parser.add_argument("notebook", nargs="*", type=Path, help="refresh these only (default: all)")
    arguments = parser.parse_args()
    if not os.access(ROOT, os.W_OK):
        print(
            f"Nothing can be written in {ROOT}: copy the checkout and build there.", file=sys.stderr
        )
        return 1
    try:
        isolate_kernels()
        if arguments.command == "html":
            return build_html()
        return refresh([path.resolve() for path in arguments.notebook] or notebooks())
    except KeyboardInterrupt:
        print("\nInterrupted. Finished runs are kept; the same command goes on.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
