"""The house: which room imports which, without a circle."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from test_import import MODULES, imports_of

from lnlib.book.home import ROOT


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
