"""What a reader hands in, read and compared: words, numbers, arrays, tuples of arrays."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

from lnlib.book.check import distance, to_array

Outcome = str | list[npt.NDArray[Any]]  # what a function gives on one input: a word, or results
COUNTED = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]


class NotAnAnswer(Exception):  # noqa: N818  (it reads as what it is)
    """The answer cannot be compared; the message is the hint."""


def read(value: object) -> Outcome:
    """Read a word, one array, or a tuple of arrays such as (dx, dweight, dbias)."""
    if isinstance(value, str):
        return value.strip().casefold()
    several = isinstance(value, list | tuple) and any(getattr(v, "ndim", 0) for v in value)
    results = list(value) if several else [value]  # type: ignore[call-overload]
    arrays = []
    for number, result in enumerate(results):
        try:
            array = to_array(result)
        except Exception as error:
            raise NotAnAnswer(f"not yet: the result cannot be read: {error}") from None
        if array.dtype.kind not in "biufc":
            which = f"result {number + 1} of {len(results)} is" if several else "that is"
            kind = article(type(result).__name__)
            raise NotAnAnswer(f"not yet: {which} {kind}, not numbers")
        arrays.append(array)
    return arrays


def misfit(mine: Outcome, truth: Outcome) -> str | None:
    """Say why two outcomes cannot be compared element by element, or None if they can."""
    if isinstance(mine, str) or isinstance(truth, str):
        if isinstance(mine, str) and isinstance(truth, str):
            return None
        return f"the answer is {'a word' if isinstance(truth, str) else 'not a word'}"
    if len(mine) != len(truth):
        are = "is" if len(truth) == 1 else "are"
        return f"{len(mine)} result{'s' * (len(mine) != 1)} where {len(truth)} {are} expected"
    for number, (a, b) in enumerate(zip(mine, truth, strict=True)):
        of = f" in result {number + 1} of {len(mine)}" if len(mine) > 1 else ""
        truth_is_bool = b.dtype.kind == "b"
        if a.shape != b.shape:
            noun = "value" if truth_is_bool else "number"
            return f"{form(a.shape, noun)}{of} instead of {form(b.shape, noun)}"
        if (a.dtype.kind == "b") != truth_is_bool:
            kinds = ("numbers", "True or False")
            return f"{kinds[not truth_is_bool]}{of} instead of {kinds[truth_is_bool]}"
    return None


def form(shape: Sequence[int], noun: str = "number") -> str:
    """Say how many there are, for those who know no arrays.

    >>> form(()), form((1,)), form((4,)), form((2, 3), "value")
    ('one number', 'a list of one number', '4 numbers', '2 × 3 values')
    """
    if len(shape) == 1 and shape[0] == 1:
        return f"a list of one {noun}"
    return f"{' × '.join(map(str, shape))} {noun}s" if shape else f"one {noun}"


def counted(n: int) -> str:
    """Write a count out, if it is small."""
    return COUNTED[n] if n < len(COUNTED) else str(n)


def digits_asked(mine: npt.NDArray[Any], truth: npt.NDArray[Any], within: float) -> int:
    """Return how many digits are asked for, if ``mine`` is ``truth`` with fewer; else 0.

    >>> [digits_asked(np.array(x), np.array(1.1111e-5), 2e-8) for x in (1.1e-5, 1.2e-5)]
    [3, 0]
    """

    def rounded(digits: int) -> npt.NDArray[Any]:
        return np.asarray([float(f"{x:.{digits}g}") for x in truth.ravel()]).reshape(truth.shape)

    asked = next(n for n in range(1, 18) if (distance(rounded(n), truth) <= within).all())
    near = distance(mine, truth) <= within
    for fewer in range(1, asked):
        near |= np.isclose(mine, rounded(fewer), rtol=1e-9, atol=0)
    return asked if near.all() else 0


def is_empty(function: object) -> bool:
    """Tell a body that is only ``...`` from one that computes something and does not return it."""
    if not isinstance(function, FunctionType):
        return False
    return len(function.__code__.co_code) <= len((lambda: None).__code__.co_code)


def place_in(place: Sequence[int], shape: Sequence[int]) -> str:
    """Say where an element is, counted from 1 where words can say so.

    >>> place_in((6,), (8,)), place_in((0, 2), (2, 3)), place_in((0, 1, 2), (4, 4, 4))
    (' at place 7 of 8', ' in row 1 of 2, column 3 of 3', ' at [0, 1, 2], counted from 0')
    """
    if len(place) > 2:
        return f" at {list(place)}, counted from 0"
    named = [f"{i + 1} of {n}" for i, n in zip(place, shape, strict=True)]
    return {0: "", 1: " at place {}", 2: " in row {}, column {}"}[len(place)].format(*named)


def as_asked(mine: Outcome, truth: Outcome) -> Outcome:
    """Read 0 and 1 as False and True where those are asked for."""
    if isinstance(mine, str) or isinstance(truth, str):
        return mine
    asked = [b.dtype.kind == "b" for b in truth] + [False] * len(mine)
    return [
        a.astype(bool) if want and np.isin(a, (0, 1)).all() else a
        for a, want in zip(mine, asked, strict=False)
    ]


def gap(mine: Outcome, truth: Outcome) -> tuple[float, int, tuple[int, ...]]:
    """Return the largest difference of two outcomes that fit, its part and its place."""
    if isinstance(mine, str) or isinstance(truth, str):
        return (0.0 if mine == truth else np.inf), 0, ()
    worst: tuple[float, int, tuple[int, ...]] = (0.0, 0, ())
    for part, (a, b) in enumerate(zip(mine, truth, strict=True)):
        gap = distance(a, b)
        gap = np.where(np.isnan(gap), np.inf, gap)  # NaN is far from every number
        if gap.size and gap.max() > worst[0]:
            place = np.unravel_index(int(gap.argmax()), gap.shape)
            worst = float(gap.max()), part, tuple(int(i) for i in place)
    return worst


def copy_of(value: Any) -> Any:
    """Copy arguments, so that a function that writes into them spoils only its own."""
    if isinstance(value, tuple | list):
        return type(value)(copy_of(item) for item in value)
    if hasattr(value, "detach"):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return copy.deepcopy(value)


def show(argument: Any) -> str:
    """Show a short argument itself, and of a long one its type and shape."""
    if isinstance(argument, bool | int | float | str):
        return repr(argument)
    if hasattr(argument, "tolist") and hasattr(argument, "shape"):
        count = int(np.prod(tuple(argument.shape)))
        if count <= 6:
            return str(to_array(argument).round(4).tolist())
        return f"{type(argument).__name__} of shape {tuple(argument.shape)}"
    if isinstance(argument, tuple | list) and all(isinstance(item, int) for item in argument):
        return repr(argument)
    return article(type(argument).__name__)


def article(noun: str) -> str:
    """Put a or an before ``noun``."""
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"
