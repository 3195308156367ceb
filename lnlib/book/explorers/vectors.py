"""Arithmetic of rows whose gradient is taken back through many steps, as in vectors.mjs."""

import math
from collections.abc import Sequence

Row = Sequence[float]


def total(values: Row) -> float:
    """Add up from the left; Python's own sum rounds in another way, and not in each version."""
    result = 0.0
    for v in values:
        result += v
    return result


def dot(a: Row, b: Row) -> float:
    """Return the sum of products."""
    return total([v * w for v, w in zip(a, b, strict=True)])


def normalize(a: Row, eps: float) -> tuple[list[float], float]:
    """Return layer norm of ``a``, without γ and β, and what it divides by."""
    mean = total(a) / len(a)
    centered = [v - mean for v in a]
    divisor = math.sqrt(dot(centered, centered) / len(a) + eps)
    return [v / divisor for v in centered], divisor


def back_through(u: Row, x_hat: Row, divisor: float) -> list[float]:
    """Return the gradient in front of a norm, from ``u``, the one behind it."""
    mean, along = total(u) / len(u), dot(u, x_hat) / len(u)
    return [(v - mean - w * along) / divisor for v, w in zip(u, x_hat, strict=True)]


def size(a: Row) -> float:
    """Return the root mean square."""
    return math.sqrt(dot(a, a) / len(a))
