"""What ``import lnlib`` promises: torch alone, and the names of ``__all__``."""

import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from records import imported

import lnlib

ROOT = Path(__file__).parents[2]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "lnlib").rglob("*.py")
}

# torch imports numpy itself where there is one; lnlib must do without.
IMPORT_WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import torch
before = set(sys.modules)
import lnlib
lnlib.layer_norm(torch.ones(2, 3), (3,))
lnlib.LayerNorm(3)(torch.ones(2, 3))
lnlib.formula.terms(torch.ones(2, 3))
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(loaded - set(sys.stdlib_module_names)))
"""


def test_importing_lnlib_loads_nothing_but_torch():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_WITHOUT_NUMPY],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert set(done.stdout.split()) <= {"lnlib", "torch"}


def test_importing_lnlib_does_not_load_what_the_chapters_use():
    code = "import sys, lnlib; print(*[n for n in sys.modules if n.startswith('lnlib.book')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []


def imports_of(path):
    """Return the modules of lnlib that one of them imports, at its top or later."""
    found = set(imported(path.read_text(encoding="utf8"))) & set(MODULES)
    return {name for name in found if not any(other.startswith(f"{name}.") for other in found)}


def test_no_module_imports_one_that_imports_it():
    graph = {name: imports_of(path) for name, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_the_package_never_imports_what_only_the_chapters_use():
    package = {name: path for name, path in MODULES.items() if not name.startswith("lnlib.book")}
    assert len(package) > 20
    for name, path in package.items():
        assert not [n for n in imports_of(path) if n.startswith("lnlib.book")], name


def test_every_public_name_is_there_and_documented():
    classes = ["LayerNorm", "LayerNormLSTM", "LayerNormLSTMCell"]
    functions = ["formula", "layer_norm", "swap"]
    assert lnlib.__all__ == [*classes, "__version__", "backends", *functions]
    for name in lnlib.__all__:
        assert getattr(lnlib, name).__doc__, name


def test_the_version_is_the_one_that_is_packaged():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lnlib.__version__ == project["version"]


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"^## (\d\S*?),"),
    ],
)
def test_every_place_that_states_the_version_states_this_one(file, pattern):
    text = (ROOT / file).read_text(encoding="utf8")
    assert re.findall(pattern, text, re.MULTILINE)[0] == lnlib.__version__


def test_the_page_of_the_api_names_the_versions_that_are_allowed_and_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    python, torch, triton = (
        re.search(r">=(\d+\.\d+)", requirement)[1]
        for requirement in (
            project["requires-python"],
            project["dependencies"][0],
            project["optional-dependencies"]["triton"][0],
        )
    )
    pins = (ROOT / "requirements.txt").read_text(encoding="utf8")
    pinned = dict(re.findall(r"^(torch|triton)==(\d+\.\d+)", pins, re.MULTILINE))
    page = (ROOT / "book" / "api.md").read_text(encoding="utf8")
    assert f"| Python | {python} or newer | {python}: " in page
    assert f"| PyTorch | {torch} or newer | {pinned['torch']}: " in page
    assert f"| Triton | {triton} or {pinned['triton']}, on Linux | " in page
