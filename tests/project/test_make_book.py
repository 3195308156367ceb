"""The build: what makes a notebook run again, what is stored of a run, and when pages are built."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import digests
import make_book
import nbformat
import pytest
import runs
from jupyter_cache import get_cache
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from records import imported

from lnlib.book.home import ROOT

FILES = {
    "_toc.yml": "parts: [{chapters: [{file: notebooks/a}, {file: notebooks/b}, {file: page}]}]",
    "requirements.txt": "torch==1",
    "lnlib/core.py": "from . import formula\ndef f():\n    '''Text.'''\n    return formula.g",
    "lnlib/formula.py": "g = 1",
    "lnlib/k.cpp": "int k = 1;",
    "lnlib/book/explorers/epsilon.mjs": "export const e = 1;",
    "notebooks/data/digits.npz": "data",
    "benchmarks/results/cpu.csv": "result",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the layout of this one and two notebooks."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in "ab":
        of_one_cell(tmp_path, name, f"'{name}'")
    return tmp_path


def of_one_cell(project: Path, name: str, source: str) -> Path:
    path = project / "notebooks" / f"{name}.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [new_code_cell(source), new_markdown_cell("Text.\n```{math}\n:label: eq-a\na = b\n```")]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def stored_run(project: Path, name: str) -> Path:
    """Put a run of a notebook into the cache, and return the file that holds it."""
    path, folder = project / "notebooks" / f"{name}.ipynb", project / "_build" / digests.CACHE
    get_cache(folder).cache_notebook_file(path, check_validity=False)
    (stored,) = folder.glob("executed/*/base.ipynb")
    return stored


# What runs again


@pytest.mark.parametrize(
    ("file", "old", "new", "runs_again"),
    [
        *((file, FILES[file], "other", True) for file in list(FILES)[2:]),
        ("requirements.txt", "1", "2", True),
        ("notebooks/a.ipynb", "a = b", "a = c", True),  # an equation, which a check may read
        ("notebooks/a.ipynb", "Text", "Other text", False),
        ("lnlib/core.py", "Text", "Other text", False),
        ("lnlib/formula.py", "g = 1", "# why\n\ng = 1  # as it is", False),
        ("_toc.yml", "page", "other", False),
    ],
)
def test_a_change_drops_runs_and_pages_where_a_notebook_could_run_or_read_it_else_none(
    project: Path, file: str, old: str, new: str, runs_again: bool
) -> None:
    assert digests.drop_stale_runs(project)
    run, pages = stored_run(project, "b"), project / "_build" / ".doctrees"
    pages.mkdir()
    assert not digests.drop_stale_runs(project)
    text = (project / file).read_text()
    assert old in text
    (project / file).write_text(text.replace(old, new, 1))
    assert digests.drop_stale_runs(project) is runs_again
    assert run.exists() is pages.exists() is not runs_again


# What is stored


def test_a_stored_run_keeps_the_picture_and_joins_and_drops_what_differs_from_run_to_run() -> None:
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "5f0c"}}
    svg = {"image/svg+xml": "for the pages"}
    data = widget | svg | {"image/png": "iVBO", "text/plain": "a sentence"}
    cell = new_code_cell("explorer", metadata={"execution": {"iopub.status": "today"}})
    chunks = [("stdout", "righ"), ("stdout", "t\n"), ("stderr", "!"), ("stdout", "done")]
    cell.outputs = [new_output("stream", name=n, text=t) for n, t in chunks]
    cell.outputs.append(new_output("execute_result", data))
    metadata = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.11.7"}}
    stored = runs.stable(new_notebook(cells=[cell], metadata=metadata))
    *streams, picture = stored.cells[0].outputs
    said = [(output.name, output.text) for output in streams]
    assert said == [("stdout", "right\n"), ("stderr", "!"), ("stdout", "done")]
    assert set(picture.data) == {"image/png", "text/plain"}
    assert "execution" not in stored.cells[0].metadata
    assert "widgets" not in stored.metadata
    assert stored.metadata.language_info == metadata["language_info"]  # else JupyterLab writes it


@pytest.mark.parametrize("left", ["whole", "cut off", "missing"])
def test_an_interrupted_build_loses_its_runs_only_if_one_was_not_stored(
    left: str, project: Path
) -> None:
    stored = stored_run(project, "a")
    if left == "missing":
        stored.unlink()
    elif left == "cut off":
        stored.write_text(stored.read_text(encoding="utf8")[:-20], encoding="utf8")
    runs.drop_broken_cache(project / "_build")
    assert (project / "_build" / digests.CACHE).exists() is (left == "whole")


def in_a_thread(function: Any, *arguments: Any) -> Any:
    """Call where no other test has left an event loop, as Playwright does in its thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


SAYS = "import os\nprint(os.getcwd(), os.environ['OMP_NUM_THREADS'], os.environ['IPYTHONDIR'])"


def test_a_run_is_stored_where_jupyter_book_looks_for_it_and_a_failed_one_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its own folder, with one thread, and without the reader's profile."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "IPYTHONDIR"):
        monkeypatch.setenv(name, "the reader's own")
    fine, wrong = of_one_cell(project, "fine", SAYS), of_one_cell(project, "wrong", "1 / 0")
    before = wrong.read_text(encoding="utf8")
    assert in_a_thread(make_book.refresh, project, [fine, wrong]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    said = nbformat.read(fine, as_version=4).cells[0].outputs[0].text.split()
    assert said == [f"{project / 'notebooks'}", "1", f"{project / '_build' / 'ipython'}"]
    assert wrong.read_text(encoding="utf8") == before
    assert in_a_thread(runs.fill_cache, project / "_build", [fine])
    assert capsys.readouterr().out == ""  # it was not run again
    cache = get_cache(project / "_build" / digests.CACHE)
    assert [runs.stored_run(cache, path) is None for path in (fine, wrong)] == [False, True]


def interrupt(*_: Any) -> int:
    raise KeyboardInterrupt


def test_a_notebook_is_stored_whole_or_not_at_all(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "notebooks" / "a.ipynb"
    before = path.read_text(encoding="utf8")
    monkeypatch.setattr(Path, "replace", interrupt)  # the last moment to interrupt
    with pytest.raises(KeyboardInterrupt):
        digests.write(path, "{}")
    assert path.read_text(encoding="utf8") == before


# A build


@pytest.fixture
def jupyter_book(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stand in for Jupyter Book, which writes a page; return the commands it was called by."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (project / "_build" / "html").mkdir(parents=True, exist_ok=True)
        (project / "_build" / "html" / "index.html").touch()
        return subprocess.CompletedProcess(command, 0)

    (project / "_build").mkdir()
    monkeypatch.setattr(runs, "fill_cache", lambda *_: True)
    monkeypatch.setattr(make_book.subprocess, "run", run)
    return commands


def test_warnings_are_errors_and_nothing_is_built_again_until_something_changes(
    project: Path, jupyter_book: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_book.build_html(project) == 0
    assert {"-W", "-n", "--keep-going"} <= set(jupyter_book[0])
    for file in ("lnlib/__pycache__/core.pyc", "tests/test_a.py", "_build/log"):
        (project / file).parent.mkdir(exist_ok=True)
        (project / file).touch()
    assert make_book.build_html(project) == 0
    assert len(jupyter_book) == 1
    assert "Nothing has changed" in capsys.readouterr().out
    changed = [*FILES, "notebooks/a.ipynb", "book/new.md"]
    for number, file in enumerate(changed, start=2):
        (project / file).parent.mkdir(exist_ok=True)
        old = (project / file).read_text() if (project / file).exists() else ""
        (project / file).write_text(f"{old}\n")
        assert make_book.build_html(project) == 0
        assert len(jupyter_book) == number, file
    pages = project / "_build" / ".doctrees"
    pages.mkdir()
    (project / "_build" / "html" / "index.html").unlink()
    make_book.build_html(project)
    assert len(jupyter_book) == len(changed) + 2
    assert pages.exists()  # all went through before


def test_a_failed_build_fails_and_forgets_its_pages(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_book.build_html(project) == 0
    (project / "lnlib" / "formula.py").write_text("g = 2")
    failed = subprocess.CompletedProcess[str]([], 3)
    with monkeypatch.context() as patch:
        patch.setattr(make_book.subprocess, "run", lambda *_, **__: failed)
        assert make_book.build_html(project) == 3
    pages = project / "_build" / ".doctrees"
    pages.mkdir(exist_ok=True)
    assert make_book.run_what_changed(project)
    assert not pages.exists()


def test_where_a_run_fails_nothing_is_built_and_what_went_through_before_is_built_again(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_book.build_html(project)
    formula = project / "lnlib" / "formula.py"
    formula.write_text("g =  1")
    with monkeypatch.context() as broken:
        broken.setattr(runs, "fill_cache", lambda *_: False)
        assert make_book.build_html(project) == 1
    assert len(jupyter_book) == 1
    formula.write_text(FILES["lnlib/formula.py"])  # but the runs are those of the failed build
    assert make_book.build_html(project) == 0
    assert len(jupyter_book) == 2


# The command


def test_what_is_installed_is_what_is_pinned() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf8")
    pins = dict(re.findall(r"^([\w.-]+)==([^;\s]+)", text, re.MULTILINE))
    if sys.platform != "linux":
        pins.pop("triton")
    assert {name: metadata.version(name).split("+")[0] for name in pins} == pins


def test_the_book_extra_names_what_the_chapters_import() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    extra = {need.split(">")[0] for need in project["optional-dependencies"]["book"]}
    texts = [digests.code_of(path) for path in digests.notebooks(ROOT)]
    texts += [path.read_text(encoding="utf8") for path in (ROOT / "lnlib" / "book").rglob("*.py")]
    tops = {name.split(".")[0] for text in texts for name in imported(text)}
    with_them = {"PIL", "cycler", "traitlets", "matplotlib_inline", "IPython"}  # needed by those
    assert tops - {"", "lnlib", "torch"} - with_them - set(sys.stdlib_module_names) <= extra
