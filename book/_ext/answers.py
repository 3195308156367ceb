"""Exercises that a built page takes the answers to.

An exercise whose answer is a value, or a search, goes into its page as data, from the Python object
that a notebook calls: what is asked, the truth, the slips and the tolerance. `assets/answers.js`
and `assets/searches.js` judge by it as Python does, `assets/exercises.js` puts a field under the
question. The data is encoded, so that who looks at the source does not read the answer by accident.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from docutils import nodes
from marks import is_cell
from sphinx.errors import ExtensionError

from lnlib.book.exercises import (
    chapter_03,
    chapter_04,
    chapter_06,
    chapter_08,
    chapter_10,
    chapter_11,
)
from lnlib.book.exercises.answer import Outcome
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.game import Derivation

__all__ = ["as_data", "encoded", "is_exercise", "page_data", "scripts_for", "takes_value"]

NODE = "ln-exercises"  # the id of the data in a page
SEARCHED = " data-searched"  # where a search is among the exercises
XOR = 90
UNBROKEN = ",\u00a0"
OF_ALL = {"weight": "γ", "bias": "β", "eps": "ε"}
OF_A_ROW = {"x": "x", "mean": "μ", "centered": "x̃", "var": "σ²", "s": "s", "dy": "dy"}
NOT_FINITE = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}  # as JavaScript reads them
MODULE = re.compile(r"^from lnlib\.book\.exercises import (\w+) as exercises$", re.MULTILINE)
CALL = re.compile(r"^exercises\.(\w+)\(", re.MULTILINE)
GIVEN: dict[str, dict[str, Any]] = {  # what a predicate in searches.js takes over from Python
    "break_mean": {"row": chapter_03._ROW.tolist()},
    "break_test": {"row": chapter_04._ROW.tolist(), "weight": chapter_04._GAMMA.tolist()},
    "break_eps": {"said": chapter_06._SAID, "meant": chapter_06._MEANT},
    "break_forgetting": {"cell": chapter_08.CELL.tolist()},
    "break_pre_norm": {"branch": chapter_10.BRANCH.tolist()},
    "break_half": {"below": chapter_06.LARGEST},
    "gray": {"variance": chapter_08.VARIANCE},
    "one_step": {
        "steps": [(name, truth, [*slips.items()]) for name, truth, slips in chapter_11._ONE_STEP]
    },
}


def is_exercise(node: nodes.Node) -> bool:
    """Whether ``node`` is the box of an exercise."""
    return isinstance(node, nodes.Element) and "exercise" in node.get("classes", [])


def scripts_for(body: str) -> list[str]:
    """Return the scripts that a page needs for its exercises, in their order."""
    if f'id="{NODE}"' not in body:
        return []
    return ["answers.js", *["searches.js"] * (SEARCHED in body), "exercises.js"]


def page_data(document: nodes.document, page: str) -> nodes.raw | None:
    """Return the data of a page's exercises, or None if a page cannot take any of their answers.

    Args:
        document: a page, with its cells.
        page: its name, such as "notebooks/02_epsilon".

    Raises: ExtensionError if an exercise calls none of its chapter's, or one that takes a value is
        on no page.
    """
    code = "\n".join(block.astext() for block in document.findall(nodes.literal_block))
    chapter = MODULE.search(code)
    if not chapter:
        return None
    module = import_module(f"lnlib.book.exercises.{chapter[1]}")
    called = dict(exercises_of(document, module, page))
    used = {name for name, _ in called.values()}
    unused = [n for n, e in vars(module).items() if takes_value(e) and n not in used]
    if unused:
        raise ExtensionError(f"{page}: no exercise of the page calls {names(unused)}")
    data = {label: as_data(name, exercise) for label, (name, exercise) in called.items()}
    if not any(data.values()):
        return None
    text = (
        f'<script type="text/plain" id="{NODE}" data-page="{html.escape(page)}"'
        f"{SEARCHED * any('search' in (each or {}) for each in data.values())}>"
        f"{encoded(data)}</script>"
    )
    return nodes.raw("", text, format="html")


def exercises_of(
    document: nodes.document, module: ModuleType, page: str
) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield the label of each exercise, with the name and the object that its cell calls."""
    for box in document.findall(is_exercise):
        label = box["ids"][0]
        names_called = [name for cell in cells_behind(box) for name in CALL.findall(source(cell))]
        known = {name: vars(module).get(name) for name in names_called}
        if len(known) != 1 or None in known.values():
            said = f"calls {names(names_called)}" if known else "is followed by no call"
            raise ExtensionError(
                f"{page}: the exercise {label!r} {said}; one cell between it and its solution "
                f"calls exercises.NAME(answer), where {module.__name__} has NAME"
            )
        yield label, *known.items()


def cells_behind(box: nodes.Element) -> Iterator[nodes.Element]:
    """Yield the cells between an exercise and its solution, or the next exercise."""
    for node in box.parent.children[box.parent.index(box) + 1 :]:
        if is_exercise(node) or "solution" in getattr(node, "attributes", {}).get("classes", []):
            return
        if is_cell(node):
            yield node


def source(cell: nodes.Element) -> str:
    """Return the code of a cell, without what it prints."""
    return str(next(cell.findall(nodes.literal_block)).astext())


def names(several: Iterable[str]) -> str:
    """Write names in the order of the alphabet."""
    return ", ".join(f"exercises.{name}" for name in sorted(set(several)))


def takes_value(exercise: object) -> bool:
    """Whether an answer to ``exercise`` can be typed: a number, a list, a word, true or false."""
    if isinstance(exercise, Search | Derivation):
        return True
    return isinstance(exercise, Exercise) and not exercise._takes_function


def as_data(name: str, exercise: Any) -> dict[str, Any] | None:
    """Return what a page needs to judge an answer, or None if it is to be written in Python."""
    if isinstance(exercise, Search):
        asked = {"search": name, "shape": exercise._shape, "given": GIVEN.get(name)}
        return {"ask": exercise._ask, "why": exercise._why, **asked}
    if isinstance(exercise, Derivation):
        steps = [(step.name, as_data(key, step)) for key, step in exercise.by_hand.items()]
        return {"steps": steps, **numbers_as_data(exercise.numbers)}
    if not takes_value(exercise):
        return None
    [truth] = exercise._truth
    slips = [(hint, outcome_as_data(wrong)) for hint, [wrong] in exercise._slips.items()]
    return {
        "ask": exercise._ask,
        "why": exercise._why,
        "truth": outcome_as_data(truth),
        "slips": slips,
        "within": exercise._within,
    }


def numbers_as_data(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of a game as words: a line for all rows, and what each row has."""
    both = ", ".join(
        f"{symbol}\u00a0=\u00a0{in_words(known[name])}" for name, symbol in OF_ALL.items()
    )
    rows = [(symbol, *map(in_words, known[name])) for name, symbol in OF_A_ROW.items()]
    return {"all": both, "rows": rows}


def in_words(numbers: Any) -> str:
    r"""Write a whole number, or a row of them.

    >>> in_words(-2.0), in_words(np.array([4.0, -2.0]))
    ('−2', '(4,\xa0−2)')
    """
    array = np.asarray(numbers)
    if array.ndim:
        return f"({UNBROKEN.join(map(in_words, array))})"
    return f"{float(array):.0f}".replace("-", "−")


def outcome_as_data(outcome: Outcome) -> str | dict[str, Any]:
    """Return a word, or an array as its shape and its elements; JSON has no infinity."""
    if isinstance(outcome, str):
        return outcome
    [array] = outcome
    values = [x if math.isfinite(x) else NOT_FINITE[str(x)] for x in array.ravel().tolist()]
    return {"shape": list(array.shape), "data": values, "bool": array.dtype.kind == "b"}


def encoded(data: object) -> str:
    """Return data as text that says nothing to an eye."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(bytes(byte ^ XOR for byte in text.encode())).decode("ascii")
