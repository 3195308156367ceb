"""Whether one way of training is better than another: the protocol, and its verdicts.

A *way* is whatever is compared: initial values, a norm, a network. What is compared is the loss or
the error on test digits, or the bits that a character of a novel costs, at the end of a training
whose learning rate falls linearly to 0.

1. Each way is tried at rates of half a decade, with the seeds 0 to 4. Its own rate is the one of
   the lowest mean on the digits to choose by, of the very number that is reported. Where that is
   the lowest or the highest rate that was tried, one more is tried beyond it.
2. The seeds 5 to 14 then run at that rate alone. Nothing was chosen by them, so they are what is
   reported: the mean of the differences of two ways, seed by seed, with its 95 % interval.
3. Each seed tests on one of five folds of the digits (or of the novel, a tenth of it), so luck
   with digits is in the interval. It is a little too narrow all the same: the folds share digits
   to train on, ten seeds are two for each fold, and a digit that helps one seed to choose tests
   another.
4. The smallest differences of interest were named beforehand: half a point of error, 0.01 nats,
   0.03 bits. If the interval lies within that, the verdict is "no difference above" it. If the
   interval leaves out 0, one way is ahead. Both must also be so, by the mean of the first seeds,
   at a rate that cannot be told from the best: that is one whose mean on the digits to choose by
   is within a standard error. Everything else is open, and then the interval says by how much the
   way that is named first is ahead.

Of twenty intervals of 95 %, one misses the truth on average.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from lnlib.book.records.seeds import interval
from lnlib.book.records.tables import recorded

__all__ = [
    "FRESH",
    "GRID",
    "METRICS",
    "RATES",
    "Verdict",
    "by_rate",
    "difference",
    "draw",
    "lines",
    "own_rates",
    "reported",
    "values",
]

GRID, FRESH = range(5), range(5, 15)
# The unit of each metric, and the smallest difference of interest.
METRICS = {"loss": ("nats", 0.01), "error": ("points", 0.5), "bits": ("bits", 0.03)}
RATES = tuple(float(f"{digit}e{power}") for power in range(-5, 3) for digit in (1, 3))
Array = npt.NDArray[Any]


class Verdict(NamedTuple):
    """What two ways come to: by how much ``a`` is below ``b``, in points of error, nats or bits."""

    words: str
    low: float
    high: float


def values(table: str, way: str, rate: float, column: str, seeds: range) -> Array:
    """Return a column for some seeds, in their order.

    Raises:
        FileNotFoundError: as `recorded` does.
        ValueError: a seed has no run at this rate, or two.
    """
    return _of_seeds(recorded(table, way=way), rate, column, seeds)


def by_rate(table: str, way: str, column: str) -> dict[float, Array]:
    """Return a column for the first seeds, in their order, at each rate that was tried.

    Raises:
        FileNotFoundError, ValueError: as `values` does.
    """
    rows = recorded(table, way=way)
    tried = np.unique(rows["rate"][np.isin(rows["seed"], GRID)]).tolist()
    return {rate: _of_seeds(rows, rate, column, GRID) for rate in tried}


def _of_seeds(rows: Mapping[str, Array], rate: float, column: str, seeds: range) -> Array:
    here = (rows["rate"] == rate) & np.isin(rows["seed"], seeds)
    if sorted(rows["seed"][here]) != list(seeds):
        way = ", ".join(np.unique(rows["way"]))
        raise ValueError(f"{way} at {rate:g} has not one run for each of {seeds}")
    found: Array = rows[column][here][np.argsort(rows["seed"][here])]
    return found


def own_rates(table: str, way: str, metric: str) -> list[float]:
    """Return a way's own rate, and after it those that cannot be told from it.

    Args:
        table: of runs, without its ending.
        way: of training, one of the table's column of that name.
        metric: one of `METRICS`.

    Raises:
        FileNotFoundError, ValueError: as `values` does.
    """
    found = by_rate(table, way, f"valid_{metric}")
    first, *others = sorted(found, key=lambda rate: _mean(found[rate]))
    error = found[first].std(ddof=1) / math.sqrt(len(GRID))
    near = (rate for rate in others if _mean(found[rate]) <= _mean(found[first]) + error)
    return [first, *near]


def _mean(values: Array) -> float:
    """Return the mean, or infinity where a run has diverged."""
    return float(values.mean()) if np.isfinite(values).all() else math.inf


def reported(table: str, way: str, metric: str) -> Array:
    """Return the test loss (nats), error (%) or bits of the fresh seeds at a way's own rate.

    Raises:
        FileNotFoundError, ValueError: as `values` does.
    """
    rate = own_rates(table, way, metric)[0]
    return _in_units(values(table, way, rate, f"test_{metric}", FRESH), metric)


def _in_units(values: Array, metric: str) -> Array:
    scaled: Array = 100 * values if metric == "error" else values
    return scaled


def lines(table: str, ways: Mapping[str, str], metric: str) -> Iterator[str]:
    """Yield for each way its name, what its fresh seeds have on average, and its own rate.

    Args:
        table: of runs, without its ending.
        ways: a name for each way.
        metric: one of `METRICS`.

    Raises:
        FileNotFoundError, ValueError: as `values` does.
    """
    places, unit = (1, " %") if metric == "error" else (3, "")
    for way, name in ways.items():
        mean = reported(table, way, metric).mean()
        rate = own_rates(table, way, metric)[0]
        yield f"{name:{max(map(len, ways.values()))}} {mean:6.{places}f}{unit}  {rate:g}"


def draw(ax: Axes, table: str, way: str, metric: str, name: str, look: Mapping[str, Any]) -> None:
    """Draw the mean of a metric on test data of the first seeds against the rate, and each seed's.

    The fresh seeds' mean at the way's own rate is a dot. A rate at which a run diverged is left
    out.

    Raises:
        FileNotFoundError, ValueError: as `reported` does.
    """
    found = by_rate(table, way, f"test_{metric}").items()
    kept = {rate: _in_units(each, metric) for rate, each in found if np.isfinite(each).all()}
    ax.plot([*kept], [each.mean() for each in kept.values()], label=name, **look)
    for rate, each in kept.items():
        ax.plot([rate] * len(each), each, ".", color=look["color"], alpha=0.4, markersize=5)
    own = own_rates(table, way, metric)[0]
    ax.plot([own], [reported(table, way, metric).mean()], "o", color=look["color"])


def difference(table: str, a: str, b: str, metric: str) -> Verdict:
    """Return the verdict on two ways; see the module for the rule.

    Args:
        table: of runs, without its ending.
        a: the way that may be ahead: of a lower loss or error.
        b: the other.
        metric: one of `METRICS`.

    Raises:
        FileNotFoundError, ValueError: as `values` does.
    """
    gaps = reported(table, b, metric) - reported(table, a, metric)
    low, high = interval(gaps)
    pairs = itertools.product(_as_good(table, b, metric), _as_good(table, a, metric))
    _, *others = (float((theirs - ours).mean()) for theirs, ours in pairs)
    return Verdict(judge(a, b, low, high, others, metric), low, high)


def _as_good(table: str, way: str, metric: str) -> list[Array]:
    """Return what the first seeds found on test digits, at each of `own_rates`."""
    found = by_rate(table, way, f"test_{metric}")
    return [_in_units(found[rate], metric) for rate in own_rates(table, way, metric)]


def judge(a: str, b: str, low: float, high: float, others: Sequence[float], metric: str) -> str:
    """Return a verdict in words.

    >>> judge("γ = 1", "γ = 10", 0.02, 0.041, [0.03], "loss")
    'γ = 1 ahead of γ = 10 by 0.020 to 0.041 nats'
    >>> judge("γ = 1", "γ = 10", -0.002, 0.004, [], "loss")
    'γ = 1 and γ = 10: no difference above 0.01 nats'
    >>> judge("γ = 1", "γ = 10", 0.02, 0.7, [0.3, -0.1], "error")
    'γ = 1 against γ = 10: open, ahead by 0.02 to 0.7 points'

    Args:
        a: the name of the one that may be ahead.
        b: the name of the other.
        low: where the interval of b − a begins.
        high: where it ends.
        others: the means of b − a at other rates that are as good.
        metric: as in `difference`.
    """
    unit, least = METRICS[metric]

    def said(value: float) -> str:
        return f"{value:.{1 + (abs(value) < 0.1)}f}" if metric == "error" else f"{value:.3f}"

    if max(map(abs, (low, high, *others))) <= least:
        return f"{a} and {b}: no difference above {least:g} {unit}"
    if min([low, *others]) > 0:
        return f"{a} ahead of {b} by {said(low)} to {said(high)} {unit}"
    if max([high, *others]) < 0:
        return f"{b} ahead of {a} by {said(-high)} to {said(-low)} {unit}"
    return f"{a} against {b}: open, ahead by {said(low)} to {said(high)} {unit}"
