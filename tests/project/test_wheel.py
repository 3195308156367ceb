"""The built wheel, installed in an empty environment away from the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import digests
import nbformat
import pytest

from lnlib.book.home import ROOT

pytestmark = pytest.mark.tier("all")
HAS_GPP = sys.platform == "linux" and shutil.which("g++") is not None

USE = """
import json, sys
import lnlib, torch
cpu = {each.layer_norm for each in lnlib.backends() if each.device == "cpu"}
x = torch.randn(3, 769, dtype=torch.float64)
difference = (lnlib.layer_norm(x, (769,)) - torch.layer_norm(x, (769,))).abs().max()
extras = {"triton", "IPython", "anywidget", "matplotlib"}
core = sorted(extras & {name.split(".")[0] for name in sys.modules})
from lnlib.book.explorers import EpsilonExplorer
print(json.dumps({
    "file": lnlib.__file__,
    "cpu": sorted(cpu),
    "difference": float(difference),
    "extras imported by the core": core,
    "script": "outputVariance" in EpsilonExplorer()._esm,
    "style": ".ln-" in EpsilonExplorer()._css,
}))
"""


READ_ALL = """
import json, sys
from lnlib.book import data
from lnlib.book.equations.printed import Printed
from lnlib.book.records.tables import recorded
printed, tables = json.loads(sys.argv[1])
assert all(Printed(page).equations for page in printed)
assert all(recorded(table) for table in tables)
data.mnist(), data.novel()
"""

# As JupyterLab does, and then says which Python ran it.
RUN = """
import nbclient, nbformat
notebook = nbformat.read("downloaded (1).ipynb", as_version=4)
notebook.cells.append(nbformat.v4.new_code_cell("import sys; print(sys.executable)"))
nbclient.execute(notebook, kernel_name="python3")
print(notebook.cells[-1].outputs[0].text)
"""

IGNORED = shutil.ignore_patterns("__pycache__", "*.so")
PACKED = ("lnlib", "notebooks", "benchmarks")
SHIPPED = "lnlib/book/shipped/"  # what chapters read, laid out as in the checkout
READ = ("benchmarks/results/*.csv", "notebooks/data/*")


def shipped() -> set[str]:
    """Return the files of the checkout that the chapters read while they run."""
    read = {path for pattern in READ for path in ROOT.glob(pattern)}
    read |= {path for path in digests.notebooks(ROOT) if "Printed(" in digests.code_of(path)}
    return {path.relative_to(ROOT).as_posix() for path in read}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: setuptools would pick up what an earlier build left in the checkout.
    source = tmp_path_factory.mktemp("source")
    for name in PACKED:
        shutil.copytree(ROOT / name, source / name, ignore=IGNORED)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # From the sdist, as an index would have both: what the sdist lacks, the wheel lacks.
    command = [sys.executable, "-m", "build", "--no-isolation", str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = (source / "dist").glob("*.whl")
    return path


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lnlib"}
    tracked = subprocess.run(["git", "ls-files", "lnlib"], cwd=ROOT, capture_output=True, text=True)
    assert set(tracked.stdout.split()) <= names
    assert {n.removeprefix(SHIPPED) for n in names if n.startswith(SHIPPED)} == shipped()


def test_without_a_compiler_there_is_a_wheel_too_and_it_says_so(
    wheel: Path, tmp_path: Path
) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    none = {"CC": "no-compiler", "CXX": "no-compiler"}
    subprocess.run(
        [*build, f"--wheel-dir={tmp_path}", sdist],
        env=os.environ | none,
        check=True,
        capture_output=True,
    )
    (bare,) = tmp_path.glob("*.whl")
    assert [name for name in zipfile.ZipFile(bare).namelist() if name.endswith(".so")] == []
    zipfile.ZipFile(bare).extractall(tmp_path / "lib")
    said = subprocess.run(
        [sys.executable, "-c", "import lnlib; print(lnlib.__file__, lnlib.backends())"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path / 'lib'}", "LNLIB_CPP": ""},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.startswith(f"{tmp_path}")
    assert "installed without a compiler" in said


def test_it_needs_torch_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    lines = archive.read(metadata).decode().splitlines()
    needs = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert needs == ["Requires-Dist: torch>=2.11"]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and no way into the checkout."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", wheel], check=True)
    # Torch and the book's libraries are lent by path; the checkout's own link is not followed,
    # because a .pth file inside a folder that another .pth names is not read.
    site = Path(next((folder / "lib").glob("python*"))) / "site-packages"
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def test_it_works_away_from_the_checkout(python: Path, tmp_path: Path) -> None:
    command = ["env", f"PATH={tmp_path}", "LNLIB_CPP=", python, "-I", "-c", USE]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert str(python.parents[1]) in result["file"]
    assert result["cpu"] == ["cpp" if HAS_GPP else "reference"]
    assert result["difference"] < 1e-12
    assert result["extras imported by the core"] == []
    assert result["script"]
    assert result["style"]


def test_what_the_chapters_read_comes_with_it(python: Path, tmp_path: Path) -> None:
    printed = [path.stem for path in digests.notebooks(ROOT) if "Printed(" in digests.code_of(path)]
    tables = [path.stem for path in (ROOT / "benchmarks" / "results").glob("*.csv")]
    assert len(printed) > 2
    command = [python, "-I", "-c", READ_ALL, json.dumps([printed, tables])]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_downloaded_notebook_runs_alone_in_an_empty_folder(python: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "notebooks" / "02_epsilon.ipynb", tmp_path / "downloaded (1).ipynb")
    run = subprocess.run(
        [python, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [str(python)]
    assert [path.name for path in tmp_path.iterdir()] == ["downloaded (1).ipynb"]


INSTALL = '  # missing? %pip install "PATH/TO/REPOSITORY[book]"'


def first_cell(path: Path) -> str:
    return next(
        cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
    )


@pytest.mark.parametrize("path", digests.notebooks(ROOT), ids=lambda path: path.stem)
def test_the_first_cell_imports_lnlib_and_says_how_to_get_it(path: Path) -> None:
    ours = [line for line in first_cell(path).splitlines() if re.search(r"\blnlib\b", line)]
    assert ours[0].endswith(INSTALL)  # a traceback shows the line that failed, comment included
    assert path.read_text(encoding="utf8").count("missing? %pip") == 1


def test_where_lnlib_is_missing_the_error_shows_how_to_get_it(tmp_path: Path) -> None:
    cell = first_cell(ROOT / "notebooks" / "01_formula.ipynb")
    hide = "import sys; sys.modules['lnlib'] = None\n"
    shell = [sys.executable, "-m", "IPython", "--simple-prompt", "--colors=nocolor", "-c"]
    run = subprocess.run([*shell, hide + cell], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode != 0
    assert "ModuleNotFoundError" in run.stdout
    assert INSTALL.strip() in run.stdout
