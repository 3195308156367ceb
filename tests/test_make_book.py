"""The build: what makes a notebook run again, and what is stored of a run."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import make_book
import nbformat
import pytest

from lnlib.book.home import ROOT
from lnlib.book.records.closure import Code


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the package layout of this one and two notebooks."""
    files = {
        "_toc.yml": "parts: [{chapters: [{file: notebooks/a}, {file: notebooks/b}, {file: page}]}]",
        "requirements.txt": "torch==1",
        "lnlib/__init__.py": "from lnlib.core import f",
        "lnlib/core.py": "from . import formula\nLOADS = ('k.cpp',)\ndef f(): return formula.g",
        "lnlib/formula.py": "g = 1",
        "lnlib/k.cpp": "int k = 1;",
        "lnlib/book/__init__.py": "",
        "lnlib/book/records/__init__.py": "",
        "lnlib/book/data.py": "folder = 'data'",
        "lnlib/book/records/tables.py": "def recorded(name): ...",
        "lnlib/book/explorers/__init__.py": "from .epsilon import E",
        "lnlib/book/explorers/epsilon.py": "LOADS = ('epsilon.*s',)\nE = 1",
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


def digests(project: Path) -> dict[str, str]:
    code = Code(project)
    return {path.stem: make_book.digest(path, code) for path in make_book.notebooks(project)}


def changed_by(project: Path, file: str) -> set[str]:
    """Return the notebooks whose digest changes when a file does; its first 1 becomes a 2."""
    before, text = digests(project), (project / file).read_text()
    changed = text.replace("1", "2", 1)
    (project / file).write_text(changed if changed != text else f"{text}\n# more")
    after = digests(project)
    return {name for name in after if after[name] != before[name]}


def test_only_notebooks_of_the_table_of_contents_count(project: Path) -> None:
    assert [path.stem for path in make_book.notebooks(project)] == ["a", "b"]


@pytest.mark.parametrize(
    ("file", "notebooks"),
    [
        ("lnlib/formula.py", {"a"}),  # which core reads, and both import
        ("lnlib/k.cpp", {"a"}),
        ("lnlib/book/explorers/epsilon.py", {"b"}),
        ("lnlib/book/explorers/epsilon.mjs", {"b"}),
        ("lnlib/book/explorers/epsilon.css", {"b"}),
        ("notebooks/data/digits.npz", {"a"}),
        ("benchmarks/results/cpu.csv", {"b"}),
        ("benchmarks/results/gpu.csv", set()),
        ("requirements.txt", {"a", "b"}),
        ("_toc.yml", set()),
    ],
)
def test_a_change_runs_what_it_touches_and_nothing_else(
    project: Path, file: str, notebooks: set[str]
) -> None:
    assert changed_by(project, file) == notebooks


@pytest.mark.parametrize(
    ("text", "matters"),
    [("Prose.", False), ("```{math}\n:label: eq-a\na = b\n```", True), ("$a = b$", False)],
)
def test_a_change_in_an_equation_that_checks_may_read_runs_its_notebook_again(
    project: Path, text: str, matters: bool
) -> None:
    path, code = project / "notebooks/a.ipynb", Code(project)
    before = make_book.digest(path, code)
    content = nbformat.read(path, as_version=4)
    content.cells.append(nbformat.v4.new_markdown_cell(text))
    nbformat.write(content, path)
    assert (make_book.digest(path, code) != before) is matters


def test_a_changed_dependency_drops_the_cached_run_and_the_page(project: Path) -> None:
    from jupyter_cache import get_cache

    make_book.drop_stale_runs(project)
    cache = get_cache(project / "_build/.jupyter_cache")
    pages = {}
    for path in make_book.notebooks(project):
        content = nbformat.read(path, as_version=4)
        content.cells[0].execution_count = 1
        nbformat.write(content, path)
        cache.cache_notebook_file(path)
        pages[path.stem] = project / f"_build/.doctrees/notebooks/{path.stem}.doctree"
        pages[path.stem].parent.mkdir(parents=True, exist_ok=True)
        pages[path.stem].touch()

    assert make_book.drop_stale_runs(project) == []
    (project / "lnlib/book/records/tables.py").write_text("def recorded(name): return 1")
    assert [path.stem for path in make_book.drop_stale_runs(project)] == ["b"]
    assert [Path(record.uri).stem for record in cache.list_cache_records()] == ["a"]
    assert {name: path.exists() for name, path in pages.items()} == {"a": True, "b": False}
    assert make_book.drop_stale_runs(project) == []


def test_a_stored_run_keeps_the_picture_and_drops_what_differs_from_run_to_run() -> None:
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "5f0c"},
        "image/png": "iVBO",
        "text/plain": "a sentence",
    }
    cell = nbformat.v4.new_code_cell("explorer", metadata={"execution": {"iopub.status": "today"}})
    cell.outputs = [nbformat.v4.new_output("execute_result", data)]
    metadata = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.11.7"}}
    stored = make_book.stable(nbformat.v4.new_notebook(cells=[cell], metadata=metadata))
    assert set(stored.cells[0].outputs[0].data) == {"image/png", "text/plain"}
    assert "execution" not in stored.cells[0].metadata
    assert "widgets" not in stored.metadata
    assert "version" not in stored.metadata.language_info


def test_what_a_cell_printed_is_stored_as_one_piece() -> None:
    chunks = [("stdout", "righ"), ("stdout", "t\n"), ("stderr", "!"), ("stdout", "done")]
    cell = nbformat.v4.new_code_cell("print()")
    cell.outputs = [nbformat.v4.new_output("stream", name=n, text=t) for n, t in chunks]
    stored = make_book.stable(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
    assert [(output.name, output.text) for output in stored] == [
        ("stdout", "right\n"),
        ("stderr", "!"),
        ("stdout", "done"),
    ]


def test_warnings_are_errors_and_a_failed_build_fails_and_forgets_its_pages(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(make_book, "ROOT", project)
    monkeypatch.setattr(make_book, "drop_stale_runs", lambda: [])
    monkeypatch.setattr(make_book.subprocess, "run", run)
    (project / "_build").mkdir()
    (project / "_build" / make_book.FINISHED).touch()
    assert make_book.build_html() == 3
    assert {"-W", "-n", "--keep-going"} <= set(commands[0])
    pages = project / "_build" / ".doctrees"
    pages.mkdir()
    make_book.forget_unfinished_build(project)
    assert not pages.exists()


def test_a_build_that_went_through_keeps_its_pages_and_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess[str]([], 0)
    monkeypatch.setattr(make_book, "ROOT", project)
    monkeypatch.setattr(make_book, "drop_stale_runs", lambda: [])
    monkeypatch.setattr(make_book.subprocess, "run", lambda *_, **__: done)
    (project / "_build").mkdir()
    assert make_book.build_html() == 0
    (project / "_build" / ".doctrees").mkdir()
    stored_run(project).write_text("{", encoding="utf8")  # nobody looks into a finished build
    make_book.forget_unfinished_build(project)
    assert (project / "_build" / ".doctrees").exists()
    assert (project / "_build" / ".jupyter_cache").exists()


def stored_run(project: Path) -> Path:
    """Put a run of one notebook into the cache, and return the file that holds it."""
    from jupyter_cache import get_cache

    path = project / "notebooks" / "a.ipynb"
    content = nbformat.read(path, as_version=4)
    content.cells[0].execution_count = 1
    nbformat.write(content, path)
    folder = project / "_build" / ".jupyter_cache"
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
    make_book.forget_unfinished_build(project)
    assert (project / "_build" / ".jupyter_cache").exists() is (left == "whole")


def test_a_notebook_is_stored_whole_or_not_at_all(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "notebooks" / "a.ipynb"
    before = path.read_text(encoding="utf8")
    client = SimpleNamespace(execute=lambda: None)
    monkeypatch.setattr("nbclient.NotebookClient", lambda *_, **__: client)
    monkeypatch.setattr(make_book, "ROOT", project)
    monkeypatch.setattr(Path, "replace", lambda *_: interrupt())  # the last moment to interrupt
    with pytest.raises(KeyboardInterrupt):
        make_book.refresh([path])
    assert path.read_text(encoding="utf8") == before


def interrupt() -> None:
    raise KeyboardInterrupt


def test_who_interrupts_is_told_what_is_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_book, "ROOT", project)
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


@pytest.mark.parametrize(("ci", "outcome"), [("true", "failed"), ("", "skipped")])
def test_a_skip_is_a_failure_in_ci_and_only_there(
    ci: str, outcome: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("CI", ci)
    here = str(Path(__file__).with_name("conftest.py"))
    plugins = request.config.pluginmanager.get_plugins()
    (conftest,) = [plugin for plugin in plugins if getattr(plugin, "__file__", None) == here]
    report = SimpleNamespace(skipped=True, outcome="skipped", longrepr="no browser")
    hook = conftest.pytest_runtest_makereport(request.node, None)
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(SimpleNamespace(get_result=lambda: report))
    assert report.outcome == outcome


@pytest.mark.parametrize("command", ["html", "refresh"])
def test_no_command_runs_a_kernel_with_the_readers_profile(
    command: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_book, "ROOT", project)
    monkeypatch.setenv("IPYTHONDIR", "the reader's own")
    seen: list[str] = []
    for name in ("build_html", "refresh"):
        monkeypatch.setattr(make_book, name, lambda *_: seen.append(os.environ["IPYTHONDIR"]) or 0)
    monkeypatch.setattr(make_book, "notebooks", lambda: [])
    monkeypatch.setattr(sys, "argv", ["build", command])
    assert make_book.main() == 0
    assert seen == [str(project / "_build" / "ipython")]


def test_the_book_extra_names_what_the_chapters_import() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    extra = {need.split(">")[0] for need in project["optional-dependencies"]["book"]}
    code = Code(ROOT)
    sources = "\n".join(make_book.code_of(path) for path in make_book.notebooks())
    modules = [code.module(name) for name in code.of_text(sources).executed]
    tops = {name.split(".")[0] for module in modules for name in module.imported}
    with_them = {"PIL", "cycler", "traitlets", "matplotlib_inline", "IPython"}  # needed by those
    assert tops - {"", "lnlib", "torch"} - with_them - set(sys.stdlib_module_names) <= extra


def test_an_environment_that_an_interrupt_left_without_pip_is_made_anew() -> None:
    checks = [line for line in commands_of("--always-make book") if "-m venv" in line]
    assert checks
    assert all("-m pip --version" in line and "--clear" in line for line in checks)
