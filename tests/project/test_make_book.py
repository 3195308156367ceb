"""The build: what makes a notebook run again, what is stored of a run, and when pages are built."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import contents
import digests
import make_book
import nbformat
import pytest
import runs
import sphinx_ext
from jupyter_cache import get_cache
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from records import imported
from stills import KINDS

from lnlib.book.home import ROOT

FILES = {
    "_toc.yml": "root: book/page\nparts: [{chapters: [{file: notebooks/a}, {file: notebooks/b}]}]",
    "book/page.md": "A page.",
    "requirements.txt": "torch==1",
    "lnlib/__init__.py": "",
    "lnlib/core.py": "from . import formula\ndef f():\n    '''Text.'''\n    return formula.g",
    "lnlib/formula.py": "g = 1",
    "lnlib/other.py": "g = 1",
    "lnlib/book/explorers/epsilon.mjs": "export const e = 1;",
    "lnlib/book/explorers/sphere.mjs": "export const e = 1;",
    "notebooks/data/digits.npz": "data",
    "benchmarks/results/cpu.csv": "result",
    "benchmarks/results/gpu.csv": "result",
    "benchmarks/results/forked.csv": "result",
    "benchmarks/results/started.csv": "result",
}
A = """import sys
sys.path.insert(0, "..")
from lnlib import core
open("../lnlib/book/explorers/epsilon.mjs").read()
open("../benchmarks/results/cpu.csv").read()
open("../benchmarks/results/made.csv", "w").close()"""
B = """import ctypes, os, subprocess, sys
try:
    ctypes.CDLL("../lnlib/kernel.so")
except OSError:
    pass
open("data/digits.npz").read(), open("a.ipynb").read()
if not os.fork():
    open("../benchmarks/results/forked.csv").read()
    os._exit(0)
subprocess.run([sys.executable, "-c", "open('../benchmarks/results/started.csv').read()"])"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the layout of this one and two notebooks."""
    return small(tmp_path)


def small(folder: Path) -> Path:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, code in (("a", A), ("b", B)):
        of_one_cell(folder, name, code)
    return folder


def of_one_cell(project: Path, name: str, source: str) -> Path:
    path = project / "notebooks" / f"{name}.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [new_code_cell(source), new_markdown_cell("Text.\n```{math}\n:label: eq-a\na = b\n```")]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def in_a_thread(function: Any, *arguments: Any) -> Any:
    """Call where no other test has left an event loop, as Playwright does in its thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


# What runs again


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project whose notebooks have run."""
    project = small(tmp_path_factory.mktemp("ran"))
    assert in_a_thread(runs.fill_cache, project, digests.notebooks(project))
    return project


@contextmanager
def changed(path: Path, old: str, new: str) -> Iterator[None]:
    before = path.read_text() if path.exists() else None
    assert before is None or old in before
    path.write_text((before or old).replace(old, new, 1))
    yield
    path.unlink() if before is None else path.write_text(before)


@pytest.mark.parametrize(
    ("file", "old", "new", "again"),
    [
        ("lnlib/core.py", "formula.g", "2", "a"),
        ("lnlib/core.py", "Text", "Other text", ""),
        ("lnlib/formula.py", "g = 1", "g = 2", "a"),  # which core imports
        ("lnlib/formula.py", "g = 1", "# why\n\ng = 1  # as it is", ""),
        ("lnlib/other.py", "1", "2", ""),
        ("lnlib/kernel.so", "", "compiled since", "b"),
        ("lnlib/book/explorers/epsilon.mjs", "1", "2", "a"),
        ("lnlib/book/explorers/sphere.mjs", "1", "2", ""),
        ("benchmarks/results/cpu.csv", "result", "other", "a"),
        ("benchmarks/results/gpu.csv", "result", "other", ""),
        ("benchmarks/results/made.csv", "", "other", ""),  # by the notebook itself
        ("benchmarks/results/forked.csv", "result", "other", "b"),  # by a child
        ("benchmarks/results/started.csv", "result", "other", "b"),
        ("notebooks/data/digits.npz", "data", "other", "b"),
        ("notebooks/a.ipynb", "core", "formula", "a"),
        ("notebooks/a.ipynb", "a = b", "a = c", "b"),  # an equation, which a check may read
        ("notebooks/a.ipynb", "Text", "Other text", ""),
        ("requirements.txt", "1", "2", "ab"),
        ("_toc.yml", "parts", "parts", ""),
    ],
)
def test_a_change_makes_exactly_those_notebooks_run_that_have_read_it(
    ran: Path, file: str, old: str, new: str, again: str
) -> None:
    with changed(ran / file, old, new):
        will = {p.stem: runs.why_it_runs(ran, p) for p in digests.notebooks(ran)}
    assert {name for name, why in will.items() if why} == {*again}
    assert all(why in ("", "its code is new", f"{file} changed") for why in will.values())
    assert not any(runs.why_it_runs(ran, path) for path in digests.notebooks(ran))  # changed back


def test_another_python_makes_a_notebook_run_again_and_of_several_reasons_one_is_named(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ran / "notebooks" / "a.ipynb"
    monkeypatch.setattr(digests, "sys", SimpleNamespace(version="another"))
    assert runs.why_it_runs(ran, path) == "Python changed"
    with changed(ran / "requirements.txt", "1", "2"):
        assert runs.why_it_runs(ran, path) == "Python and 1 more changed"


def test_a_run_does_not_count_if_a_file_changed_while_it_ran(project: Path) -> None:
    slow = of_one_cell(project, "slow", "open('data/digits.npz', 'a').write('more')\n" + B)
    assert in_a_thread(runs.fill_cache, project, [slow])
    assert runs.why_it_runs(project, slow) == "notebooks/data/digits.npz changed"


def test_a_chapter_has_read_its_own_exercises_and_explorers_and_no_others(site: Path) -> None:
    explorers = {kind._files for kind in KINDS}
    for path in digests.notebooks(ROOT):
        run, code = runs.record_of(ROOT, path), digests.code_of(path)
        assert run is not None
        read = {Path(name).stem for name in run.data["read"] if name.startswith("lnlib/book/")}
        shown = {name.lower() for name in re.findall(r"(\w+)Explorer\(", code)}
        assert {name.replace("_", "") for name in read & explorers} == shown
        exercises = {name for name in read if name.startswith("chapter_")}
        assert exercises == {*re.findall(r"import (chapter_\w+)", code)}
        assert {"requirements.txt", "lnlib/formula.py"} <= run.data["read"].keys()


def test_the_page_of_a_notebook_is_read_again_when_it_has_run_again(ran: Path) -> None:
    noted: list[str] = []
    env = SimpleNamespace(doc2path=lambda page: ran / page, note_dependency=noted.append)
    app: Any = SimpleNamespace(srcdir=ran, env=env)
    sphinx_ext.depend_on_run(app, "book/page.md", [])
    assert noted == []
    sphinx_ext.depend_on_run(app, "notebooks/a.ipynb", [])
    (run,) = map(Path, noted)
    before = run.stat().st_mtime_ns
    with changed(ran / "lnlib/core.py", "formula.g", "2"):
        in_a_thread(runs.fill_cache, ran, digests.notebooks(ran))
    assert run.stat().st_mtime_ns > before


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
    path, folder = project / "notebooks" / "a.ipynb", project / "_build" / digests.CACHE
    get_cache(folder).cache_notebook_file(path, check_validity=False)
    (stored,) = folder.glob("executed/*/base.ipynb")
    if left == "missing":
        stored.unlink()
    elif left == "cut off":
        stored.write_text(stored.read_text(encoding="utf8")[:-20], encoding="utf8")
    runs.drop_broken_cache(project / "_build")
    assert folder.exists() is (left == "whole")


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
    assert in_a_thread(runs.fill_cache, project, [fine])
    assert capsys.readouterr().out == ""  # it was not run again
    assert [runs.stored_run(project, path) is None for path in (fine, wrong)] == [False, True]
    with changed(project / "requirements.txt", "1", "2"):
        assert runs.stored_run(project, fine) is None


COMMAND = """import sys, pathlib, make_book
make_book.ROOT = pathlib.Path(sys.argv.pop(1))
sys.exit(make_book.main())"""
SLEEPS = "import os, time\nprint(os.getpid(), file=open('pid', 'w'), flush=True)\ntime.sleep(100)"


def test_ctrl_c_ends_every_kernel_says_one_sentence_and_keeps_what_has_run(project: Path) -> None:
    (project / "notebooks" / "b.ipynb").rename(project / "notebooks" / "c.ipynb")
    of_one_cell(project, "b", SLEEPS)
    command = [sys.executable, "-c", COMMAND, project, "html"]
    env = os.environ | {"PYTHONPATH": f"{Path(make_book.__file__).parent}"}
    pid = project / "notebooks" / "pid"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=env, text=True, **pipes) as made:
        assert made.stdout is not None
        while "ran a.ipynb" not in (line := made.stdout.readline()):
            assert line
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.1)
        made.send_signal(signal.SIGINT)
        told, said = made.communicate(timeout=20)
    wanted = "\nInterrupted. Finished runs are kept; the same command goes on.\n"
    assert (told, said, made.returncode) == ("", wanted, 130)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert not runs.why_it_runs(project, project / "notebooks" / "a.ipynb")


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
    """Stand in for Jupyter Book, which writes a page; return the arguments of each call."""
    calls: list[list[str]] = []

    def main(arguments: list[str], standalone_mode: bool) -> None:
        calls.append(arguments)
        (project / "_build" / "html").mkdir(parents=True, exist_ok=True)
        (project / "_build" / "html" / "index.html").touch()

    (project / "_build").mkdir()
    monkeypatch.setattr(runs, "fill_cache", lambda *_: True)
    monkeypatch.setitem(sys.modules, "jupyter_book.cli.main", SimpleNamespace(main=main))
    return calls


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


def test_what_is_changed_while_a_book_is_built_is_built_next(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, before = project / "book" / "page.md", make_book.write_pages

    def write(root: Path) -> int:
        page.write_text("Another page.")
        return before(root)

    monkeypatch.setattr(make_book, "write_pages", write)
    make_book.build_html(project)
    make_book.build_html(project)
    make_book.build_html(project)
    assert len(jupyter_book) == 2


def test_a_failed_build_fails_and_forgets_its_pages(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_book.build_html(project) == 0
    (project / "lnlib" / "formula.py").write_text("g = 2")
    with monkeypatch.context() as patch:
        failed = SimpleNamespace(main=lambda *_, **__: sys.exit(3))
        patch.setitem(sys.modules, "jupyter_book.cli.main", failed)
        assert make_book.build_html(project) == 3
    pages = project / "_build" / ".doctrees"
    pages.mkdir(exist_ok=True)
    assert make_book.run_what_changed(project)
    assert not pages.exists()


def test_ctrl_c_while_pages_are_written_is_one_too(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(*_: Any, **__: Any) -> None:
        sys.exit(KeyboardInterrupt())  # type: ignore[arg-type]

    monkeypatch.setitem(sys.modules, "jupyter_book.cli.main", SimpleNamespace(main=main))
    with pytest.raises(KeyboardInterrupt):
        make_book.build_html(project)


def test_of_a_page_that_left_the_contents_nothing_stays_unless_a_build_fails(
    tmp_path: Path,
) -> None:
    left = ["notebooks/b.html", "_sources/notebooks/b.ipynb"]
    stay = ["notebooks/a.html", "_sources/notebooks/a.ipynb", "index.html", "_static/some.html"]
    for name in (*left, *stay):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    builder, env = SimpleNamespace(format="html"), SimpleNamespace(found_docs={"notebooks/a"})
    app: Any = SimpleNamespace(builder=builder, env=env, outdir=tmp_path)
    for failure, there in ((RuntimeError(), [*left, *stay]), (None, stay)):
        sphinx_ext.drop_old_pages(app, failure)
        assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.*")} == {*there}


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


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("notebooks/b}", "notebooks/c}", "_toc.yml, line 2: there is no notebooks/c.ipynb"),
        ("{file: notebooks/a", "{file: x}, {file: y", "2: there is no x.ipynb.*2: there is no y.i"),
        ("]}]", "]}", r"_toc.yml: while parsing .* line 2"),
    ],
)
def test_contents_that_name_what_is_not_there_are_refused_with_their_line(
    project: Path, old: str, new: str, told: str
) -> None:
    with (
        changed(project / "_toc.yml", old, new),
        pytest.raises(contents.ContentsError, match=re.compile(told, re.DOTALL)),
    ):
        contents.pages(project)


def test_a_second_build_is_told_who_is_at_work(project: Path) -> None:
    told = rf"^Process {os.getpid()} has been at work in \S+ since \d\d:\d\d\. Wait for it, .*\.$"
    with make_book.alone(project):  # which is over
        pass
    with make_book.alone(project):  # noqa: SIM117
        with pytest.raises(make_book.BusyError, match=told), make_book.alone(project):
            pass
    with make_book.alone(project):
        pass


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
