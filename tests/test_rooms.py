"""The house: which room imports which, without a circle, and how large each may grow."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from test_import import MODULES, imports_of

from lnlib.book.home import ROOT

CODE = {".py", ".cpp", ".h", ".mjs", ".js", ".css"}
# Lines that a room may have. To grow beyond is a decision: raise it in the commit that does.
CEILINGS = {
    "lnlib": 1940,
    "lnlib/cpp_kernel": 1890,
    "lnlib/triton_kernel": 1000,
    "lnlib/lstm": 2660,
    "lnlib/book": 1080,
    "lnlib/book/equations": 1100,
    "lnlib/book/exercises": 2750,
    "lnlib/book/experiments": 2140,
    "lnlib/book/explorers": 9300,
    "lnlib/book/records": 1460,
    "book": 3950,
    "benchmarks": 5280,
    "tests": 42850,
    ".ci": 130,
}


def room_of(module: str) -> str:
    """Return the room of `lnlib.book` that a module is in; the front is called "book"."""
    return [*module.split("."), "book"][2]


def imports_between_rooms() -> dict[str, set[str]]:
    """Return, for each room of `lnlib.book`, the rooms that it imports."""
    modules = {name: path for name, path in MODULES.items() if f"{name}.".startswith("lnlib.book.")}
    drawing: dict[str, set[str]] = {room_of(name): set() for name in modules}
    for name, path in modules.items():
        rooms = {room_of(other) for other in imports_of(path) & modules.keys()}
        drawing[room_of(name)] |= rooms - {room_of(name)}
    return drawing


def test_no_room_imports_one_that_imports_it() -> None:
    TopologicalSorter(imports_between_rooms()).prepare()  # raises CycleError, which names it


def test_the_drawing_of_the_rooms_is_right() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    lines = re.findall(r"^ +(\w+) +→ (.+)$", text, re.MULTILINE)
    drawn = {room: {name for name in names.split(", ") if name != "–"} for room, names in lines}
    assert drawn == imports_between_rooms()


def lines_in(folder: Path, others: set[Path]) -> int:
    paths = (path for path in folder.rglob("*") if path.suffix in CODE)
    kept = (path for path in paths if not others.intersection(path.parents))
    return sum(len(path.read_text(encoding="utf8").splitlines()) for path in kept)


@pytest.mark.parametrize("room", CEILINGS)
def test_a_room_stays_below_its_ceiling(room: str) -> None:
    others = {ROOT / other for other in CEILINGS if other.startswith(f"{room}/")}
    assert lines_in(ROOT / room, others) <= CEILINGS[room]


def test_all_code_is_in_some_room_with_a_ceiling() -> None:
    made = {"_build", "build", "dist"}
    tops = [path for path in ROOT.iterdir() if path.name == ".ci" or path.name[0] != "."]
    found = [path for top in tops if top.name not in made for path in [top, *top.rglob("*")]]
    rooms = {ROOT / room for room in CEILINGS}
    outside = [path for path in found if not rooms.intersection(path.parents)]
    assert [path.name for path in outside if path.suffix in CODE] == ["conftest.py"]
