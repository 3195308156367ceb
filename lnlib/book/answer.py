"""What a reader hands in, read and compared: words, numbers, arrays, tuples of arrays."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from lnlib.book.check import distance, to_array

Outcome = str | list[npt.NDArray[Any]]  # what a function gives on one input: a word, or results


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
        if a.shape != b.shape:
            return f"shape {a.shape}{of} where {b.shape} is expected"
        if (a.dtype.kind == "b") != (b.dtype.kind == "b"):
            kinds = ("numbers", "True or False")
            truth_is_bool = b.dtype.kind == "b"
            return f"{kinds[not truth_is_bool]}{of} where {kinds[truth_is_bool]} is expected"
    return None


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
    """Put a or an in front of ``noun``."""
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"
