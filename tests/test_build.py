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

import nbformat
import pytest

from lnlib.book import build


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with the package layout of this one and two notebooks."""
    files = {
        "_toc.yml": "parts: [{chapters: [{file: notebooks/a}, {file: notebooks/b}, {file: page}]}]",
        "requirements.txt": "torch==1",
        "lnlib/__init__.py": "from lnlib.core import f",
        "lnlib/core.py": "from . import formula\nf = 1",
        "lnlib/formula.py": "g = 1",
        "lnlib/book/__init__.py": "",
        "lnlib/book/style.py": "import torch",
        "lnlib/book/explorers/__init__.py": "from .epsilon import E",
        "lnlib/book/explorers/epsilon.py": "E = 1",
        "lnlib/book/explorers/epsilon.mjs": "export const e = 1;",
        "lnlib/book/explorers/epsilon.css": ".e {}",
        "notebooks/data/digits.npz": "data",
        "benchmarks/results/cpu.csv": "result",
    }
    sources = {
        "a": "import lnlib",
        "b": "from lnlib.book import style\nfrom lnlib.book.explorers import E",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, source in sources.items():
        cells = [nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"notebooks/{name}.ipynb")
    return tmp_path


def changed_by(project: Path, file: str) -> set[str]:
    """Return the notebooks whose digest changes when a file does."""
    before = {path.stem: build.digest(path, project) for path in build.notebooks(project)}
    with (project / file).open("a") as stream:
        stream.write("\n# a change")
    after = {path.stem: build.digest(path, project) for path in build.notebooks(project)}
    return {name for name in after if after[name] != before[name]}


def test_only_notebooks_of_the_table_of_contents_count(project: Path) -> None:
    assert [path.stem for path in build.notebooks(project)] == ["a", "b"]


@pytest.mark.parametrize(
    ("file", "notebooks"),
    [
        ("lnlib/__init__.py", {"a", "b"}),
        ("lnlib/core.py", {"a", "b"}),
        ("lnlib/formula.py", {"a", "b"}),  # imported by core, which lnlib imports
        ("lnlib/book/style.py", {"b"}),
        ("lnlib/book/explorers/epsilon.py", {"b"}),
        ("lnlib/book/explorers/epsilon.mjs", {"b"}),
        ("lnlib/book/explorers/epsilon.css", {"b"}),
        ("notebooks/data/digits.npz", {"a", "b"}),
        ("benchmarks/results/cpu.csv", {"a", "b"}),
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
    path = project / "notebooks/a.ipynb"
    before = build.digest(path, project)
    content = nbformat.read(path, as_version=4)
    content.cells.append(nbformat.v4.new_markdown_cell(text))
    nbformat.write(content, path)
    assert (build.digest(path, project) != before) is matters


def test_every_notebook_of_the_book_depends_on_the_formula_and_the_reference() -> None:
    core = {build.ROOT / "lnlib" / name for name in ("formula.py", "reference.py", "functional.py")}
    for path in build.notebooks():
        assert core <= build.lnlib_files(build.code_of(path)), path.name


def test_a_changed_dependency_drops_the_cached_run_and_the_page(project: Path) -> None:
    from jupyter_cache import get_cache

    build.drop_stale_runs(project)
    cache = get_cache(project / "_build/.jupyter_cache")
    pages = {}
    for path in build.notebooks(project):
        content = nbformat.read(path, as_version=4)
        content.cells[0].execution_count = 1
        nbformat.write(content, path)
        cache.cache_notebook_file(path)
        pages[path.stem] = project / f"_build/.doctrees/notebooks/{path.stem}.doctree"
        pages[path.stem].parent.mkdir(parents=True, exist_ok=True)
        pages[path.stem].touch()

    assert build.drop_stale_runs(project) == []
    (project / "lnlib/book/style.py").write_text("import numpy")
    assert [path.stem for path in build.drop_stale_runs(project)] == ["b"]
    assert [Path(record.uri).stem for record in cache.list_cache_records()] == ["a"]
    assert {name: path.exists() for name, path in pages.items()} == {"a": True, "b": False}
    assert build.drop_stale_runs(project) == []


def test_a_stored_run_keeps_the_picture_and_drops_what_differs_from_run_to_run() -> None:
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "5f0c"},
        "image/png": "iVBO",
        "text/plain": "a sentence",
    }
    cell = nbformat.v4.new_code_cell("explorer", metadata={"execution": {"iopub.status": "today"}})
    cell.outputs = [nbformat.v4.new_output("execute_result", data)]
    metadata = {"widgets": {"state": {}}, "language_info": {"name": "python", "version": "3.11.7"}}
    stored = build.stable(nbformat.v4.new_notebook(cells=[cell], metadata=metadata))
    assert set(stored.cells[0].outputs[0].data) == {"image/png", "text/plain"}
    assert "execution" not in stored.cells[0].metadata
    assert "widgets" not in stored.metadata
    assert "version" not in stored.metadata.language_info


def test_what_a_cell_printed_is_stored_as_one_piece() -> None:
    chunks = [("stdout", "righ"), ("stdout", "t\n"), ("stderr", "!"), ("stdout", "done")]
    cell = nbformat.v4.new_code_cell("print()")
    cell.outputs = [nbformat.v4.new_output("stream", name=n, text=t) for n, t in chunks]
    stored = build.stable(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
    assert [(output.name, output.text) for output in stored] == [
        ("stdout", "right\n"),
        ("stderr", "!"),
        ("stdout", "done"),
    ]


def test_warnings_are_errors_and_a_failed_build_fails_and_forgets_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 3)

    pages = tmp_path / "_build" / ".doctrees"
    pages.mkdir(parents=True)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "drop_stale_runs", lambda: [])
    monkeypatch.setattr(build.subprocess, "run", run)
    assert build.build_html() == 3
    assert {"-W", "-n", "--keep-going"} <= set(commands[0])
    assert not pages.exists()


def test_make_check_runs_every_kind_of_check_and_ci_runs_make_check() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    plan = subprocess.run(
        ["make", "--dry-run", "check"],
        cwd=build.ROOT,
        capture_output=True,
        text=True,
        env=environment,
    ).stdout
    tests = [line for line in plan.splitlines() if "-m pytest" in line]
    assert [("--nbval " in line, "notebooks" in line) for line in tests] == [(True, True)] * 2
    assert "--doctest-modules" in tests[0]
    assert {"tests", "lnlib"} <= set(tests[0].split())
    assert "ATEN_CPU_CAPABILITY=default" in tests[1]
    for part in ("ruff check .", "ruff format --check .", "-m mypy", "lnlib.book.build html"):
        assert part in plan, part
    script = (build.ROOT / ".ci" / "run").read_text(encoding="utf8")
    assert "export CI=true" in script
    assert "make check" in script
    assert "bash .ci/run" in (build.ROOT / ".github/workflows/book.yml").read_text(encoding="utf8")


def test_what_is_installed_is_what_is_pinned() -> None:
    lines = (build.ROOT / "requirements.txt").read_text(encoding="utf8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    if sys.platform != "linux":
        lines = [line for line in lines if not line.endswith('; sys_platform == "linux"')]
    pins = dict(line.split(";")[0].split("==") for line in lines)
    installed = {name: metadata.version(name).split("+")[0] for name in pins}
    assert installed == pins


def test_the_tools_are_as_strict_as_they_were() -> None:
    tool = tomllib.loads((build.ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]
    assert tool["mypy"]["strict"] is True
    assert tool["mypy"]["files"] == ["lnlib"]
    assert tool["pytest"]["ini_options"]["filterwarnings"][0] == "error"
    assert {"E", "F", "W", "I", "B", "UP", "RUF", "D1"} <= set(tool["ruff"]["lint"]["select"])


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
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setenv("IPYTHONDIR", "the reader's own")
    seen: list[str] = []
    for name in ("build_html", "refresh"):
        monkeypatch.setattr(build, name, lambda *_: seen.append(os.environ["IPYTHONDIR"]) or 0)
    monkeypatch.setattr(build, "notebooks", lambda: [])
    monkeypatch.setattr(sys, "argv", ["build", command])
    assert build.main() == 0
    assert seen == [str(tmp_path / "_build" / "ipython")]


def test_the_book_extra_names_what_the_chapters_import() -> None:
    project = tomllib.loads((build.ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    extra = {need.split(">")[0] for need in project["optional-dependencies"]["book"]}
    sources = [build.code_of(path) for path in build.notebooks()]
    files = build.lnlib_files("\n".join(sources))
    sources += [path.read_text(encoding="utf8") for path in files if path.suffix == ".py"]
    tops = {name.split(".")[0] for source in sources for name in build.imported_names(source)}
    with_them = {"PIL", "cycler", "traitlets", "matplotlib_inline", "IPython"}  # needed by those
    assert tops - {"", "lnlib", "torch"} - with_them - set(sys.stdlib_module_names) <= extra
