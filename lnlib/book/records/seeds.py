"""Means over runs that differ in their seed, with the interval in which the true mean may lie."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Means",
    "half_interval",
    "over_seeds",
    "paired",
    "students_t",
]

Array = npt.NDArray[Any]


class Means(NamedTuple):
    """Means over seeds at some places, each with half of its 95 % interval."""

    at: Array
    mean: Array
    half: Array
    each: Array  # (places, seeds): what the means are of, in the order of the seeds


def over_seeds(at: Array, values: Array, seeds: Array) -> Means:
    """Return means over seeds, of which each has one value at each place.

    Raises:
        ValueError: if one has not: then the rows are of more than one kind of run. Or if there is
            one seed alone, which has no interval.
    """
    places, count = np.unique(at), len(np.unique(seeds))
    if len(at) != len(places) * count or len(set(zip(at, seeds, strict=True))) != len(at):
        raise ValueError("these are rows of several kinds of run; say more of what they share")
    order = np.argsort(seeds, kind="stable")
    table = np.stack([values[order][at[order] == place] for place in places])
    return Means(places, table.mean(1), half_interval(table), table)


def half_interval(values: Array) -> Array:
    """Return half of the 95 % interval of the mean over the last axis."""
    count = values.shape[-1]
    half: Array = students_t(count) * values.std(-1, ddof=1) / math.sqrt(count)
    return half


@functools.cache
def students_t(count: int) -> float:
    """Return half of the two-sided 95 % interval of Student's t, to the three decimals of tables.

    Args:
        count: of the values whose mean is taken, one more than the degrees of freedom.

    Raises:
        ValueError: one value, or none, has no spread to tell an interval from.

    >>> students_t(3), students_t(5)
    (4.303, 2.776)
    """
    if count < 2:
        raise ValueError(f"an interval takes two seeds or more, got {count}")
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _share(middle, count - 1) < 0.95 else (low, middle)
    return round(math.tan(low) * math.sqrt(count - 1), 3)


def _share(angle: float, degrees: int) -> float:
    """Return the share of Student's t between -t and t, where t = tan(angle) √degrees.

    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4, finite sums for whole degrees.
    """
    is_odd = degrees % 2
    cosine = math.cos(angle)
    term = cosine if is_odd else 1.0
    total = 0.0
    for power in range(2 + is_odd, degrees + 1, 2):
        total += term
        term *= (power - 1) / power * cosine**2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if is_odd else total


def paired(a: Means, b: Means) -> Means:
    """Return the means of a − b, seed by seed, of the seeds that both have.

    Runs of one seed share their first weights and the order of their data, so much of what makes
    seeds differ is in both, and the difference knows more than two intervals side by side: where
    zero lies outside its own interval, ``a`` and ``b`` differ.
    """
    count = min(a.each.shape[1], b.each.shape[1])
    table = a.each[:, :count] - b.each[:, :count]
    return Means(a.at, table.mean(1), half_interval(table), table)
