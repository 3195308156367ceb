"""Exercises in the built pages: JavaScript judges as Python does, letter for letter, and no truth is read by accident."""

from __future__ import annotations

import base64
import importlib
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import answers
import numpy as np
import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.errors import ExtensionError

from conftest import plain
from lnlib.book.exercises import chapter_02
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.home import ROOT

nan, inf = math.nan, math.inf
CHAPTERS = [importlib.import_module(f"lnlib.book.exercises.chapter_{n:02d}") for n in range(1, 17)]
VALUES: dict[str, Any] = {
    name: exercise
    for chapter in CHAPTERS
    for name, exercise in vars(chapter).items()
    if answers.takes_value(exercise)
}
# Right answers to the searches, and wrong ones that get further than their form.
FOUND: dict[str, list[Any]] = {
    "break_it": [[1, 1, 1, 1.0001], [1, 2, 3, 4], [5, 5, 5, 5], [0, 1e-3, 0, 1e-3]],
    "smallest_half_eps": [2.0**-24, 2.0**-25, 2.0**-23, 6e-8, 1e-5, 2.0**-24 + 2.0**-34, 3e-8],
    "break_variance": [[1e4, 10000.25, 1e4, 10000.25], [1, 2, 3, 4], [1e30, 1, 2, 3], [4096, 4097] * 2],
    "break_mean": [[2, 0, 0, 0, 1, 1, 2, 2], [1] * 8, [0] * 7 + [8], [-0.5, 0.5, 0.5, 0.5, 1, 1, 2, 3]],
    "break_test": [[0] * 4 + [1] + [0] * 3, [1, 2, 3, 4, 5, 6, 7, 8], [6, 3, 6, 2, 6, 3, 6, 6], [0] * 8],
    "break_axis": [[[1, 2], [3, 4]], [[1, 2], [3, 5]], [[1, 2, 4], [4, 2, 1], [2, 4, 1]], [[1, 2, 3], [4, 5, 7]]],
    "break_eps": [[0, 0, 0, 5e-5], [1, 2, 3, 4], [0, 0, 0, 1e-4], [0, 1e-5, 0, 1e-6]],
    "break_careless": [[100, 100, 100, 101, 101, 101], [1, 2, 3, 4, 5, 6], [50, 50, 50, 51, 51, 51], [30] * 6],
    "break_forgetting": [0.02, 0.05, 0.001, 0.5, 1, 0, 0.145, 0.445, 0.125, 0.0305, 0.0445, 0.006, 2],
    "break_modes": [[2, 2, 2, 1.9], [0, 1, 2, -1], [2, 2, 2, 2], [1, 1, 1, 1.5]],
    "break_pre_norm": [[2000, 4000, 4000, 4000, 5e3, 5e3, 7e3, 9e3], [1, 2, 3, 4, 5, 6, 7, 8], [30, -20] * 4, [1e-9, 2e-9] * 4],
    "break_half": [[290, -290, -290, -290], [1, 2, 3, 4], [10.5, 0, 0, 0], [290, -100, 0, 0], [299.9, 300, 1, 1]],
    "gray": [0.01, 1e-5, 1e-3, 0.1, 0.0005, 0.02],
    "one_step": [[5, 4.8, 0.36], [7, 4.8, 0.36], [5, 8, 1], [5, 4.8, 1], [5.011, 4.8, 0.36], [73**0.5, 3, 1], [5, 2.88, 0]],
}
MISFITS: list[Any] = [
    *(..., 0, 1, -1, 3, 0.5, -0.0, 1e300, -1e-300, 5e-324, inf, -inf, nan, True, False),
    *("", "word", "Mean", "it's", 'say "so"', "ε"),
    *([], [[]], [[], []], [0], [1.5], [nan], [True], [[1.0]], [1, 2], [[1, 2], [3, 4]], [[[1]]]),
    *([1, [2]], [[1], [1, 2]], [[1, 2], 3, [4]], ["a"], [1, "a"], [True, 2], [True, False], [[1], "a"]),
]  # fmt: skip
COUNT = 200


def values_of(exercise: Exercise) -> list[Any]:
    """The truth of an exercise and the values of its slips."""
    outcomes = [exercise._truth[0], *(wrong for [wrong] in exercise._slips.values())]
    return [one if isinstance(one, str) else one[0].tolist() for one in outcomes]


def near(value: Any, within: float, rng: Any) -> Iterator[Any]:
    """Yield what lies around a value: at the edge of its tolerance, of another form, or not finite."""
    if isinstance(value, str):
        yield from (value.upper(), f" {value} ", value[:-1], value + "s")
        return
    array = np.asarray(value, dtype=float)
    yield from ([int(x) for x in array.ravel() if abs(x) < 2**63], array.round(2).tolist(), (-array).tolist())
    yield from ([value], (array != 0).tolist(), (2 * array).tolist(), np.append(array, 1.0).tolist())
    yield from ([array.tolist()] * 2, array.ravel()[1:].tolist(), array.ravel()[::-1].tolist())
    for _ in range(30):
        place = tuple(int(rng.integers(n)) for n in array.shape)
        edge = array[place] + rng.choice([-1, 1]) * within
        there = [np.nextafter(edge, -inf), edge, np.nextafter(edge, inf), nan, inf, -inf]
        there += [array[place] + within * rng.normal(), array[place] * (1 + 0.3 * rng.normal())]
        off = array.copy()
        off[place] = rng.choice(there)
        yield off.tolist()


def between(search: Search, some: Any, other: Any) -> Iterator[Any]:
    """Yield two answers on either side of where, on the way from one to another, the words change."""
    a, b = np.asarray(some, dtype=float), np.asarray(other, dtype=float)
    if a.shape != b.shape:
        return

    def said(at: float) -> str:
        return re.sub(r"[-\d.]+(e[-+]\d+)?", "", search.verdict((a + at * (b - a)).tolist()).message)

    low, high = 0.0, 1.0
    if said(low) == said(high):
        return
    while high - low > 1e-12:  # PyTorch and JavaScript round in another order here and there
        middle = (low + high) / 2
        low, high = (middle, high) if said(middle) == said(low) else (low, middle)
    for at in (low - 1e-10, high + 1e-10):
        yield (a + at * (b - a)).tolist()


def tried_on(name: str, exercise: Any) -> list[Any]:
    """At least `COUNT` answers to an exercise: right ones, slips, near misses and nonsense."""
    rng = np.random.default_rng(len(name))
    made = list(MISFITS)
    if isinstance(exercise, Search):
        bases = FOUND[name]
        made += bases
        made += [one for a in bases for b in bases for one in between(exercise, a, b)]
        within = 1e-3
    else:
        bases, within = values_of(exercise), exercise._within
        made += bases
    pool = [one for base in bases for one in near(base, within, rng)]
    made += pool if len(pool) < COUNT else [pool[i] for i in rng.permutation(len(pool))[:COUNT]]
    while len(made) < COUNT:
        base = bases[int(rng.integers(len(bases)))]
        if isinstance(base, str):
            made.append("".join(rng.choice([*"mean_x hat"], size=4)))
        else:
            made.append((np.asarray(base) * 10.0 ** rng.normal() + 0.1 * rng.normal()).tolist())
    return made


def typed(answer: Any, exercise: Any) -> str:
    """What a reader types for an answer; a word in a list needs its quotes."""
    if answer is ...:
        return ""
    if isinstance(answer, str) and isinstance(exercise, Exercise):
        return answer if isinstance(exercise._truth[0], str) else repr(answer)
    return repr(answer)


def judged(exercise: Any, answer: Any) -> dict[str, Any]:
    """What Python says; a word is all that can be typed where one is asked for."""
    takes_word = isinstance(exercise, Exercise) and isinstance(exercise._truth[0], str)
    as_read = answer if not takes_word or answer is ... else typed(answer, exercise)
    verdict = exercise.verdict(as_read if as_read != "" or takes_word else ...)
    return {"typed": typed(answer, exercise) if as_read != "" else "", "right": verdict.right, "message": verdict.message}


NUMBERS = [0.0, -0.0, 0.125, 0.375, 2.5, 3.5, -0.005, 0.145, 1e-5, 9.5e-5, 0.95, 9.95, 99.5, 1e21, 1e22, -1e25, 110.5, 111.5]


def test_javascript_judges_as_python_does(run_js: Callable[..., None]) -> None:
    rng = np.random.default_rng(0)
    numbers = [*NUMBERS, *(rng.normal(size=300) * 10.0 ** rng.integers(-9, 9, size=300)).tolist()]
    numbers += (rng.integers(-999, 999, size=300) / 8).tolist() + [nan, inf, -inf]
    golden = {
        "exercises": [
            {
                "name": name,
                "asked": answers.as_data(name, exercise),
                "cases": [judged(exercise, answer) for answer in tried_on(name, exercise)],
            }
            for name, exercise in VALUES.items()
        ],
        "numbers": [
            [plain(x), [f"{x:.{n}g}" for n in (1, 2, 3)], [f"{x:.{n}f}" for n in (0, 1, 2)]]
            for x in numbers
        ],
    }
    assert min(len(each["cases"]) for each in golden["exercises"]) >= COUNT
    run_js("exercises", golden, at_least=4 + len(VALUES))


def test_the_answers_that_are_tried_reach_every_line() -> None:
    for name, exercise in VALUES.items():
        said = [judged(exercise, answer) for answer in tried_on(name, exercise)]
        assert any(one["right"] for one in said), name
        kinds = {re.sub(r"[-\d.]+(e[-+]\d+)?", "", one["message"]) for one in said}
        hints = getattr(exercise, "_slips", ())
        assert {f"not yet: {hint}" for hint in hints} <= {one["message"] for one in said}
        assert len(kinds) >= 5 + len(hints) / 2, (name, kinds)
