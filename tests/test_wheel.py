"""The built wheel, installed in an empty environment away from the checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from lnlib.book.build import ROOT

USE = """
import json, sys
import lnlib, torch
x = torch.randn(3, 769, dtype=torch.float64)
difference = (lnlib.layer_norm(x, (769,)) - torch.layer_norm(x, (769,))).abs().max()
extras = {"triton", "IPython", "anywidget", "matplotlib"}
core = sorted(extras & {name.split(".")[0] for name in sys.modules})
from lnlib.book.explorers import EpsilonExplorer
print(json.dumps({
    "file": lnlib.__file__,
    "difference": float(difference),
    "extras imported by the core": core,
    "script": "outputVariance" in EpsilonExplorer()._esm,
    "style": ".ln-" in EpsilonExplorer()._css,
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: setuptools would pick up what an earlier build left in the checkout.
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "lnlib", source / "lnlib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = (source / "dist").glob("*.whl")
    return path


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lnlib"}
    tracked = subprocess.run(["git", "ls-files", "lnlib"], cwd=ROOT, capture_output=True, text=True)
    assert set(tracked.stdout.split()) <= names
    assert not any(name.endswith((".npz", ".ipynb")) for name in names)


def test_it_needs_torch_alone(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    lines = archive.read(metadata).decode().splitlines()
    needs = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert needs == ["Requires-Dist: torch>=2.11"]


def test_it_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    # Torch and the book's libraries are lent by path; the checkout's own link is not followed,
    # because a .pth file inside a folder that another .pth names is not read.
    site = Path(next((tmp_path / "env" / "lib").glob("python*"))) / "site-packages"
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    run = subprocess.run([python, "-I", "-c", USE], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert str(tmp_path) in result["file"]
    assert result["difference"] < 1e-12
    assert result["extras imported by the core"] == []
    assert result["script"]
    assert result["style"]
