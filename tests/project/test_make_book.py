"""The build: what makes a notebook run again, and what is stored of a run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import digests
import make_book
import nbformat
import proofs
import pytest
import runs
from jupyter_cache import get_cache
from records import imported

from lnlib.book.home import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the package layout of this one and two notebooks."""
    files = {
        "_toc.yml": "parts: [{chapters: [{file: notebooks/a}, {file: notebooks/b}, {file: page}]}]",
        "requirements.txt": "torch==1",
        "lnlib/__init__.py": "from lnlib.core import f",
        "lnlib/core.py": "from . import formula\ndef f():\n    '''Text.'''\n    return formula.g",
        "lnlib/formula.py": "g = 1",
        "lnlib/k.cpp": "int k = 1;",
        "lnlib/book/__init__.py": "",
        "lnlib/book/records/__init__.py": "",
        "lnlib/book/data.py": "folder = 'data'",
        "lnlib/book/records/tables.py": "def recorded(name): ...",
        "lnlib/book/explorers/__init__.py": "from .epsilon import E",
        "lnlib/book/explorers/epsilon.py": "E = 1",
        "lnlib/book/explorers/epsilon.mjs": "export const e = 1;",
        "lnlib/book/explorers/epsilon.css": ".e {}",
        "notebooks/data/digits.npz": "data",
        "benchmarks/results/cpu.csv": "result",
        "benchmarks/results/gpu.csv": "result",
    }
    sources = {
        "a": "import lnlib\nlnlib.f()\nfrom lnlib.book.data import folder\nfolder",
        "b": "from lnlib.book.records.tables import recorded\nrecorded('cpu')\n"
        "from lnlib.book.explorers import E\nE",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, source in sources.items():
        cells = [nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"notebooks/{name}.ipynb")
    return tmp_path


def stale_after(project: Path, file: str, old: str, new: str) -> set[str]:
    """Return the notebooks that run again once a file has changed."""
    digests.drop_stale_runs(project)
    path = project / file
    path.write_text(path.read_text().replace(old, new, 1))
    return {path.stem for path in digests.drop_stale_runs(project)}


def test_only_notebooks_of_the_table_of_contents_count(project: Path) -> None:
    assert [path.stem for path in digests.notebooks(project)] == ["a", "b"]


RUN_ALL = [  # what notebooks can run or read
    ("lnlib/formula.py", "1", "2"),
    ("lnlib/k.cpp", "1", "2"),
    ("lnlib/book/explorers/epsilon.mjs", "1", "2"),
    ("lnlib/book/explorers/epsilon.css", ".e", ".f"),
    ("notebooks/data/digits.npz", "data", "other"),
    ("benchmarks/results/cpu.csv", "result", "other"),
    ("requirements.txt", "1", "2"),
]
RUN_NONE = [  # words about code, and what no notebook reads
    ("lnlib/core.py", "Text", "Other text"),
    ("lnlib/formula.py", "g = 1", "# why\n\ng = 1  # as it is"),
    ("_toc.yml", "page", "other"),
    ("notebooks/a.ipynb", '"metadata": {}', '"metadata": { }'),
]


@pytest.mark.parametrize("change", [*RUN_ALL, *RUN_NONE])
def test_a_change_runs_every_notebook_where_one_could_run_or_read_it_else_none(
    project: Path, change: tuple[str, str, str]
) -> None:
    assert stale_after(project, *change) == ({"a", "b"} if change in RUN_ALL else set())


@pytest.mark.parametrize(
    ("text", "stale"),
    [("Prose.", set()), ("```{math}\n:label: eq-a\na = b\n```", {"a"}), ("$a = b$", set())],
)
def test_an_equation_that_checks_may_read_runs_its_own_notebook_again(
    project: Path, text: str, stale: set[str]
) -> None:
    path = project / "notebooks/a.ipynb"
    digests.drop_stale_runs(project)
    content = nbformat.read(path, as_version=4)
    content.cells.append(nbformat.v4.new_markdown_cell(text))
    nbformat.write(content, path)
    assert {path.stem for path in digests.drop_stale_runs(project)} == stale


def test_a_changed_dependency_drops_the_cached_run_and_the_page(project: Path) -> None:
    digests.drop_stale_runs(project)
    cache = get_cache(project / "_build/.jupyter_cache")
    pages = {}
    for path in digests.notebooks(project):
        content = nbformat.read(path, as_version=4)
        content.cells[0].execution_count = 1
        nbformat.write(content, path)
        cache.cache_notebook_file(path)
        pages[path.stem] = project / f"_build/.doctrees/notebooks/{path.stem}.doctree"
        pages[path.stem].parent.mkdir(parents=True, exist_ok=True)
        pages[path.stem].touch()

    assert digests.drop_stale_runs(project) == []
    (project / "lnlib/book/records/tables.py").write_text("def recorded(name): return 1")
    assert [path.stem for path in digests.drop_stale_runs(project)] == ["a", "b"]
    assert cache.list_cache_records() == []
    assert not any(path.exists() for path in pages.values())
    assert digests.drop_stale_runs(project) == []


@pytest.mark.parametrize("moved", ["the project", "the notebook"])
def test_a_run_is_dropped_also_where_its_file_was_called_otherwise(
    project: Path, moved: str
) -> None:
    digests.drop_stale_runs(project)
    cell = nbformat.v4.new_code_cell("import lnlib\nlnlib.f()", execution_count=1)
    before = project / "notebooks" / ("b.ipynb" if moved == "the notebook" else "a.ipynb")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), before)
    get_cache(project / "_build" / digests.CACHE).cache_notebook_file(before)
    if moved == "the project":
        project = shutil.copytree(project, project / "copy")
    else:
        before.replace(project / "notebooks" / "a.ipynb")
    cache, after = get_cache(project / "_build" / digests.CACHE), project / "notebooks" / "a.ipynb"
    assert runs.stored_run(cache, after) is not None
    (project / "lnlib" / "formula.py").write_text("g = 2")
    digests.drop_stale_runs(project)
    assert runs.stored_run(cache, after) is None


def test_a_stored_run_keeps_the_picture_and_drops_what_differs_from_run_to_run() -> None:
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "5f0c"},
        "image/png": "iVBO",
        "text/plain": "a sentence",
    }
    cell = nbformat.v4.new_code_cell("explorer", metadata={"execution": {"iopub.status": "today"}})
    cell.outputs = [nbformat.v4.new_output("execute_result", data)]
    metadata = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.11.7"}}
    stored = runs.stable(nbformat.v4.new_notebook(cells=[cell], metadata=metadata))
    assert set(stored.cells[0].outputs[0].data) == {"image/png", "text/plain"}
    assert "execution" not in stored.cells[0].metadata
    assert "widgets" not in stored.metadata
    assert stored.metadata.language_info == metadata["language_info"]  # else JupyterLab writes it


def test_what_a_cell_printed_is_stored_as_one_piece() -> None:
    chunks = [("stdout", "righ"), ("stdout", "t\n"), ("stderr", "!"), ("stdout", "done")]
    cell = nbformat.v4.new_code_cell("print()")
    cell.outputs = [nbformat.v4.new_output("stream", name=n, text=t) for n, t in chunks]
    notebook = nbformat.v4.new_notebook(
        cells=[cell], metadata={"language_info": {"name": "python"}}
    )
    stored = runs.stable(notebook).cells[0].outputs
    assert [(output.name, output.text) for output in stored] == [
        ("stdout", "right\n"),
        ("stderr", "!"),
        ("stdout", "done"),
    ]


# A build


@pytest.fixture
def jupyter_book(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stand in for Jupyter Book, which writes a page; return the commands it was called by."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (project / "_build" / "html").mkdir(parents=True, exist_ok=True)
        (project / "_build" / "html" / "index.html").touch()
        return subprocess.CompletedProcess(command, 0)

    (project / "_build").mkdir()
    monkeypatch.setattr(make_book, "run_what_changed", lambda root: True)
    monkeypatch.setattr(make_book.subprocess, "run", run)
    monkeypatch.setattr(proofs, "store", lambda root: None)  # there are no runs
    return commands


def test_warnings_are_errors(project: Path, jupyter_book: list[list[str]]) -> None:
    assert make_book.build_html(project) == 0
    assert {"-W", "-n", "--keep-going"} <= set(jupyter_book[0])


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
    pages.mkdir()
    monkeypatch.undo()
    monkeypatch.setattr(runs, "fill_cache", lambda *_: True)
    assert make_book.run_what_changed(project)
    assert not pages.exists()


def test_a_book_with_a_failed_run_is_not_built(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_book, "run_what_changed", lambda root: False)
    assert make_book.build_html(project) == 1
    assert jupyter_book == []


def test_after_a_failed_run_what_went_through_before_is_built_again(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_book.build_html(project)
    right, formula = "g = 1", project / "lnlib" / "formula.py"
    formula.write_text("g =")
    with monkeypatch.context() as broken:
        broken.setattr(make_book, "run_what_changed", lambda root: False)
        assert make_book.build_html(project) == 1
    formula.write_text(right)  # as it was: but the runs are those of the failed build
    assert make_book.build_html(project) == 0
    assert len(jupyter_book) == 2


def test_a_build_that_went_through_keeps_its_pages_and_runs(
    project: Path, jupyter_book: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_book.build_html(project) == 0
    (project / "_build" / ".doctrees").mkdir()
    stored_run(project).write_text("{", encoding="utf8")  # nobody looks into a finished build
    monkeypatch.undo()
    monkeypatch.setattr(runs, "fill_cache", lambda *_: True)
    monkeypatch.setattr(digests, "drop_stale_runs", lambda root: [])
    assert make_book.run_what_changed(project)
    assert (project / "_build" / ".doctrees").exists()
    assert (project / "_build" / digests.CACHE).exists()


def test_nothing_is_built_again_until_something_changes(
    project: Path, jupyter_book: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert make_book.build_html(project) == 0
    assert len(jupyter_book) == 1
    assert "Nothing has changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "file",
    [
        "_toc.yml",
        "requirements.txt",
        "lnlib/k.cpp",
        "lnlib/book/explorers/epsilon.mjs",
        "notebooks/a.ipynb",
        "notebooks/data/digits.npz",
        "benchmarks/results/gpu.csv",
        "book/new.md",
        "_build/html/index.html",
    ],
)
def test_whatever_the_pages_are_made_of_is_built_when_it_changes(
    file: str, project: Path, jupyter_book: list[list[str]]
) -> None:
    make_book.build_html(project)
    (project / file).parent.mkdir(exist_ok=True)
    if file.startswith("_build"):
        (project / file).unlink()
    else:
        (project / file).write_text("changed")
    make_book.build_html(project)
    assert len(jupyter_book) == 2


@pytest.mark.parametrize("file", ["lnlib/__pycache__/core.pyc", "tests/test_a.py", "_build/log"])
def test_what_no_page_is_made_of_builds_nothing(
    file: str, project: Path, jupyter_book: list[list[str]]
) -> None:
    make_book.build_html(project)
    (project / file).parent.mkdir(exist_ok=True)
    (project / file).touch()
    make_book.build_html(project)
    assert len(jupyter_book) == 1


# The runs


def stored_run(project: Path) -> Path:
    """Put a run of one notebook into the cache, and return the file that holds it."""
    path = project / "notebooks" / "a.ipynb"
    content = nbformat.read(path, as_version=4)
    content.cells[0].execution_count = 1
    nbformat.write(content, path)
    folder = project / "_build" / digests.CACHE
    get_cache(folder).cache_notebook_file(path)
    (stored,) = folder.glob("executed/*/base.ipynb")
    return stored


@pytest.mark.parametrize("left", ["whole", "cut off", "missing"])
def test_an_interrupted_build_loses_its_runs_only_if_one_was_not_stored(
    left: str, project: Path
) -> None:
    stored = stored_run(project)
    if left == "missing":
        stored.unlink()
    elif left == "cut off":
        stored.write_text(stored.read_text(encoding="utf8")[:-20], encoding="utf8")
    runs.drop_broken_cache(project / "_build")
    assert (project / "_build" / digests.CACHE).exists() is (left == "whole")


SAYS = "import os\nprint(os.getcwd(), os.environ['OMP_NUM_THREADS'], os.environ['IPYTHONDIR'])"


def in_a_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call where no other test has left an event loop, as Playwright does in its thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def of_one_cell(project: Path, name: str, source: str) -> Path:
    path = project / "notebooks" / f"{name}.ipynb"
    cells = [nbformat.v4.new_code_cell(source)]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


@pytest.fixture
def ran(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """Run two notebooks, one of which fails: what was said, and the runs that were stored."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "IPYTHONDIR"):
        monkeypatch.setenv(name, "the reader's own")
    paths = [of_one_cell(project, "fine", SAYS), of_one_cell(project, "wrong", "1 / 0")]
    build = project / "_build"
    found = {"is_fine": in_a_thread(runs.fill_cache, build, paths)}
    found["said"] = capsys.readouterr().out
    cache = get_cache(build / digests.CACHE)
    return {**found, **{path.stem: runs.stored_run(cache, path) for path in paths}}


def test_a_run_is_stored_where_jupyter_book_looks_for_it(
    ran: dict[str, Any], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its own folder, with one thread, and without the reader's profile."""
    said = ran["fine"].cells[0].outputs[0].text.split()
    assert said == [f"{project / 'notebooks'}", "1", f"{project / '_build' / 'ipython'}"]
    again = [project / "notebooks" / "fine.ipynb"]
    assert in_a_thread(runs.fill_cache, project / "_build", again)
    assert capsys.readouterr().out == ""  # it was not run again


def test_a_run_that_fails_is_told_and_not_stored(ran: dict[str, Any]) -> None:
    assert not ran["is_fine"]
    assert ran["wrong"] is None
    assert "ZeroDivisionError" in ran["said"]


def test_refreshed_outputs_are_stored_and_those_of_a_failed_run_kept(project: Path) -> None:
    fine, wrong = of_one_cell(project, "fine", "1 + 1"), of_one_cell(project, "wrong", "1 / 0")
    before = wrong.read_text(encoding="utf8")
    assert in_a_thread(make_book.refresh, project, [fine, wrong]) == 1
    (output,) = nbformat.read(fine, as_version=4).cells[0].outputs
    assert output.data == {"text/plain": "2"}
    assert wrong.read_text(encoding="utf8") == before


def test_a_notebook_is_stored_whole_or_not_at_all(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "notebooks" / "a.ipynb"
    before = path.read_text(encoding="utf8")
    monkeypatch.setattr(Path, "replace", lambda *_: interrupt())  # the last moment to interrupt
    with pytest.raises(KeyboardInterrupt):
        digests.write(path, "{}")
    assert path.read_text(encoding="utf8") == before


# The command


def interrupt(*_: Any) -> int:
    raise KeyboardInterrupt


def test_who_interrupts_is_told_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_book, "build_html", interrupt)
    monkeypatch.setattr(sys, "argv", ["build", "html"])
    assert make_book.main() == 130
    assert "the same command goes on" in capsys.readouterr().err


def test_a_checkout_that_cannot_be_written_to_is_said_to_be_one(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(project.rglob("*"))
    monkeypatch.setattr(make_book, "ROOT", project)
    monkeypatch.setattr(make_book.os, "access", lambda path, _: path != project)
    monkeypatch.setattr(sys, "argv", ["build", "html"])
    assert make_book.main() == 1
    assert f"Nothing can be written in {project}" in capsys.readouterr().err
    assert set(project.rglob("*")) == before


def commands_of(target: str) -> list[str]:
    """Return the lines that make would run for a target."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    command = ["make", "--dry-run", *target.split()]
    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=environment, check=True
    )
    return run.stdout.splitlines()


def test_what_is_installed_is_what_is_pinned() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    if sys.platform != "linux":
        lines = [line for line in lines if not line.endswith('; sys_platform == "linux"')]
    pins = dict(line.split(";")[0].split("==") for line in lines)
    installed = {name: metadata.version(name).split("+")[0] for name in pins}
    assert installed == pins


SKIPS = """import pytest

def test_one_that_skips_itself(): pytest.skip("no browser")
@pytest.mark.gpu
def test_one_that_takes_a_gpu(): raise AssertionError
@pytest.mark.xfail
def test_one_that_is_known_to_fail(): raise AssertionError
"""


@pytest.mark.tier("all")
@pytest.mark.parametrize(
    ("ci", "expected"),
    [("true", {"failed": 2, "skipped": 1, "xfailed": 1}), ("", {"skipped": 3, "xfailed": 1})],
)
def test_in_ci_nothing_is_skipped_but_what_takes_a_gpu(
    ci: str, expected: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_lacks.py").write_text("import pytest\npytest.importorskip('no_such_module')")
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "book" / "_ext")])
    environment = os.environ | {"CI": ci, "PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTEST_ADDOPTS", None)  # which is for the tests, not for those of these tests
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-o", "markers=gpu", "--rootdir", "."]
    command = [sys.executable, "-m", "pytest", *options, "--continue-on-collection-errors"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    counts = re.findall(r"(\d+) (\w+)", done.stdout.splitlines()[-1].split(" in ")[0])
    found = {what.replace("error", "failed"): 0 for _, what in counts}
    for number, what in counts:
        found[what.replace("error", "failed")] += int(number)
    assert found == expected


def test_the_book_extra_names_what_the_chapters_import() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    extra = {need.split(">")[0] for need in project["optional-dependencies"]["book"]}
    texts = [digests.code_of(path) for path in digests.notebooks(ROOT)]
    texts += [path.read_text(encoding="utf8") for path in (ROOT / "lnlib" / "book").rglob("*.py")]
    tops = {name.split(".")[0] for text in texts for name in imported(text)}
    with_them = {"PIL", "cycler", "traitlets", "matplotlib_inline", "IPython"}  # needed by those
    assert tops - {"", "lnlib", "torch"} - with_them - set(sys.stdlib_module_names) <= extra


def test_an_environment_that_an_interrupt_left_without_pip_is_made_anew() -> None:
    checks = [line for line in commands_of("--always-make book") if "-m venv" in line]
    assert checks
    assert all("-m pip --version" in line and "--clear" in line for line in checks)
