"""The interval in which the true mean of runs that differ in their seed may lie."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "half_interval",
    "holm",
    "interval",
    "p_value",
    "students_t",
]

Array = npt.NDArray[Any]


def half_interval(values: Array) -> Array:
    """Return half of the 95 % interval of the mean over the last axis."""
    count = values.shape[-1]
    half: Array = students_t(count) * values.std(-1, ddof=1) / math.sqrt(count)
    return half


def interval(values: Array) -> tuple[float, float]:
    """Return the ends of the 95 % interval of the mean.

    >>> import numpy as np
    >>> [round(end, 2) for end in interval(np.array([1.0, 2.0, 6.0]))]
    [-3.57, 9.57]
    """
    mean, half = values.mean(), half_interval(values)
    return float(mean - half), float(mean + half)


def p_value(values: Array) -> float:
    """Return how often a mean would be as far from 0, on either side, if the true one were 0.

    >>> import numpy as np
    >>> round(p_value(np.array([1.0, 2.0, 6.0])), 3)  # t = 1.96, two degrees of freedom
    0.188
    """
    count = len(values)
    far = abs(values.mean()) * math.sqrt(count)
    return 1 - _share(math.atan2(far, values.std(ddof=1) * math.sqrt(count - 1)), count - 1)


def holm(p_values: Array) -> Array:
    """Return each p, raised for being one of many.

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, 0.03, 0.9])).round(2).tolist()
    [0.04, 0.09, 0.09, 0.9]
    """
    order = np.argsort(p_values)
    raised = p_values[order] * np.arange(len(order), 0, -1)
    return np.maximum.accumulate(raised).clip(max=1)[np.argsort(order)]


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
