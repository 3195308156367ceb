"""What ``import lnlib`` promises: torch alone, and the names of ``__all__``; and who imports whom.

The modules of the book's front, which notebooks import, stand before five rooms: `equations` reads
what a page prints, `exercises` has the answers and hints, `experiments` what the chapters train
and measure, `explorers` the widgets, and `records` what was recorded.
"""

import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter

from records import imported

import lnlib
from lnlib.book.home import ROOT

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "lnlib").rglob("*.py")
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
DRAWING = {
    "book": "check exercises",
    "check": "",
    "data": "home",
    "equations": "check home",
    "exercises": "check",
    "experiments": "data",
    "explorers": "",
    "home": "",
    "pictures": "style",
    "records": "home",
    "style": "",
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
new = set(sys.modules) - before
print(*{n.split(".")[0] for n in new} - set(sys.stdlib_module_names) - {"lnlib", "torch"})
print(*(name for name in new if name.startswith("lnlib.book")))
"""


def test_importing_lnlib_loads_nothing_but_torch():
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_WITHOUT_NUMPY]
    assert subprocess.check_output(command, text=True, cwd=ROOT).split() == []


def imports_of(path):
    """Return the modules of lnlib that one of them imports, at its top or later."""
    found = set(imported(path.read_text(encoding="utf8"))) & set(MODULES)
    return {name for name in found if not any(other.startswith(f"{name}.") for other in found)}


def test_no_module_imports_one_that_imports_it_and_a_room_those_that_the_drawing_says():
    graph = {name: imports_of(path) for name, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
    rooms = {}
    for name, imports in graph.items():
        if name.startswith("lnlib.book"):
            room = [*name.split("."), "book"][2]
            others = {[*n.split("."), "book"][2] for n in imports if n.startswith("lnlib.book")}
            rooms[room] = rooms.get(room, set()) | others - {room}
        else:
            assert not [n for n in imports if n.startswith("lnlib.book")], name
    assert rooms == {room: {*names.split()} for room, names in DRAWING.items()}
    TopologicalSorter(rooms).prepare()


def test_every_public_name_is_there_and_documented():
    classes = ["LayerNorm", "LayerNormLSTM", "LayerNormLSTMCell"]
    functions = ["formula", "layer_norm", "swap"]
    assert lnlib.__all__ == [*classes, "__version__", "backends", *functions]
    for name in lnlib.__all__:
        assert getattr(lnlib, name).__doc__, name


def test_every_place_that_states_a_version_states_this_one():
    assert lnlib.__version__ == PROJECT["version"]
    for file, pattern in (
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"^## (\d\S*?),"),
    ):
        text = (ROOT / file).read_text(encoding="utf8")
        assert re.findall(pattern, text, re.MULTILINE)[0] == lnlib.__version__
    python, torch, triton = (
        re.search(r">=(\d+\.\d+)", requirement)[1]
        for requirement in (
            PROJECT["requires-python"],
            PROJECT["dependencies"][0],
            PROJECT["optional-dependencies"]["triton"][0],
        )
    )
    pins = (ROOT / "requirements.txt").read_text(encoding="utf8")
    pinned = dict(re.findall(r"^(torch|triton)==(\d+\.\d+)", pins, re.MULTILINE))
    page = (ROOT / "book" / "api.md").read_text(encoding="utf8")
    assert f"| Python | {python} or newer | {python}: " in page
    assert f"| PyTorch | {torch} or newer | {pinned['torch']}: " in page
    assert f"| Triton | {triton} or {pinned['triton']}, on Linux | " in page
