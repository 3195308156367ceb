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
from typing import Any

import digests
import nbformat
import pytest

from lnlib.book.home import ROOT

pytestmark = pytest.mark.tier("all")
HAS_GPP = sys.platform == "linux" and shutil.which("g++") is not None
PRINTED = [path for path in digests.notebooks(ROOT) if "Printed(" in digests.code_of(path)]
TABLES = [*(ROOT / "benchmarks" / "results").glob("*.csv")]
SHIPPED = "lnlib/book/shipped/"  # what chapters read, laid out as in the checkout
INSTALL = '  # missing? %pip install "PATH/TO/REPOSITORY[book]"'

USE = """
import json, sys
import lnlib, torch
x = torch.randn(3, 769, dtype=torch.float64)
difference = (lnlib.layer_norm(x, (769,)) - torch.layer_norm(x, (769,))).abs().max()
assert difference < 1e-12
assert not {"triton", "IPython", "anywidget", "matplotlib"} & {*sys.modules}
from lnlib.book import data
from lnlib.book.equations.printed import Printed
from lnlib.book.explorers import EpsilonExplorer
from lnlib.book.records.tables import recorded
assert "outputVariance" in EpsilonExplorer()._esm
assert ".ln-" in EpsilonExplorer()._css
printed, tables = json.loads(sys.argv[1])
assert all(Printed(page).equations for page in printed)
assert all(recorded(table) for table in tables)
data.mnist(), data.novel()
print(lnlib.__file__, *{each.layer_norm for each in lnlib.backends() if each.device == "cpu"})
"""

# As JupyterLab does, and then says which Python ran it.
RUN = """
import nbclient, nbformat
notebook = nbformat.read("downloaded (1).ipynb", as_version=4)
notebook.cells.append(nbformat.v4.new_code_cell("import sys; print(sys.executable)"))
nbclient.execute(notebook, kernel_name="python3")
print(notebook.cells[-1].outputs[0].text)
"""


def said_by(*command: Any, **options: Any) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: setuptools would pick up what an earlier build left in the checkout.
    source, ignored = tmp_path_factory.mktemp("source"), shutil.ignore_patterns("*cache*", "*.so")
    for name in ("lnlib", "notebooks", "benchmarks"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # From the sdist, as an index would have both: what the sdist lacks, the wheel lacks.
    said_by(sys.executable, "-m", "build", "--no-isolation", source)
    (path,) = (source / "dist").glob("*.whl")
    return path


def test_it_holds_the_package_and_what_chapters_read_and_needs_torch_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lnlib"}
    assert {*said_by("git", "ls-files", "lnlib", cwd=ROOT).split()} <= names
    read = {*PRINTED, *TABLES, *(ROOT / "notebooks" / "data").glob("*")}
    shipped = {path.relative_to(ROOT).as_posix() for path in read}
    assert {n.removeprefix(SHIPPED) for n in names if n.startswith(SHIPPED)} == shipped
    (metadata,) = [name for name in names if name.endswith("METADATA")]
    lines = archive.read(metadata).decode().splitlines()
    needs = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert needs == ["Requires-Dist: torch>=2.11"]


def test_without_a_compiler_there_is_a_wheel_too_and_it_says_so(
    wheel: Path, tmp_path: Path
) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    build = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    none = os.environ | {"CC": "no-compiler", "CXX": "no-compiler"}
    said_by(*build, f"--wheel-dir={tmp_path}", sdist, env=none)
    (bare,) = tmp_path.glob("*.whl")
    assert [name for name in zipfile.ZipFile(bare).namelist() if name.endswith(".so")] == []
    zipfile.ZipFile(bare).extractall(tmp_path / "lib")
    env = os.environ | {"PYTHONPATH": f"{tmp_path / 'lib'}", "LNLIB_CPP": ""}
    ask = "import lnlib; print(lnlib.__file__, lnlib.backends())"
    said = said_by(sys.executable, "-c", ask, cwd=tmp_path, env=env)
    assert said.startswith(f"{tmp_path}")
    assert "installed without a compiler" in said


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and no way into the checkout."""
    folder = tmp_path_factory.mktemp("env")
    said_by(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    said_by(*pip, "install", "--quiet", "--no-deps", wheel)
    # Torch and the book's libraries are lent by path; the checkout's own link is not followed,
    # because a .pth file inside a folder that another .pth names is not read.
    site = Path(next((folder / "lib").glob("python*"))) / "site-packages"
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def test_it_works_away_from_the_checkout_with_all_that_chapters_read(
    python: Path, tmp_path: Path
) -> None:
    files = json.dumps([[path.stem for path in PRINTED], [path.stem for path in TABLES]])
    command = ("env", f"PATH={tmp_path}", "LNLIB_CPP=", python, "-I", "-c", USE, files)
    place, backend = said_by(*command, cwd=tmp_path).split()
    assert str(python.parents[1]) in place
    assert backend == ("cpp" if HAS_GPP else "reference")


def test_a_downloaded_notebook_runs_alone_in_an_empty_folder(python: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "notebooks" / "02_epsilon.ipynb", tmp_path / "downloaded (1).ipynb")
    said = said_by(python, "-c", RUN, cwd=tmp_path, timeout=300)
    assert said.split() == [str(python)]
    assert [path.name for path in tmp_path.iterdir()] == ["downloaded (1).ipynb"]


def test_the_first_cell_imports_lnlib_and_says_how_to_get_it() -> None:
    for path in digests.notebooks(ROOT):
        cells = nbformat.read(path, as_version=4).cells
        first = next(cell.source for cell in cells if cell.cell_type == "code")
        ours = [line for line in first.splitlines() if re.search(r"\blnlib\b", line)]
        assert ours[0].endswith(INSTALL), path  # a traceback shows it, comment included
        assert path.read_text(encoding="utf8").count("missing? %pip") == 1
