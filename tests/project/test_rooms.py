"""The house: which room imports which, without a circle."""

from __future__ import annotations

from graphlib import TopologicalSorter

from test_import import MODULES, imports_of

# The modules of the front, which notebooks import, and behind them five rooms: `equations` reads
# what a page prints, `exercises` has the answers and hints, `experiments` what the chapters train
# and measure, `explorers` the widgets, and `records` what was recorded.
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


def test_a_room_imports_what_the_drawing_says() -> None:
    drawn = {room: {*names.split()} for room, names in DRAWING.items()}
    assert imports_between_rooms() == drawn
