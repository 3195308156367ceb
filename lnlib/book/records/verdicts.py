"""Whether one way of training is better than another: the protocol, and its verdicts.

A *way* is whatever is compared: initial values, a norm, a network. What is compared is the loss or
the error on test digits, or the bits that a character of a novel costs, at the end of a training
whose learning rate falls linearly to 0.

1. Each way is tried at rates of half a decade, with the seeds 0 to 4. Its own rate is the one at
   which the number that is reported is lowest, on average, on the digits to choose by. Where that
   is the lowest or the highest rate that was tried, one more is tried beyond it.
2. The seeds 5 to 14 then run at that rate alone. Nothing was chosen by them, so they are what is
   reported: the mean of the differences of two ways, seed by seed, with its 95 % interval.
3. Each seed tests on one of five folds of the digits (or of the novel, a tenth of it), so ten
   seeds are two for each fold, which may share their luck. A second interval is therefore that of
   the means of the five folds. Even this is too narrow, because the folds share digits to train
   on, and a digit that helps one seed to choose tests another.
4. The smallest differences of interest are half a point of error, 0.01 nats and 0.03 bits. The
   *resolution* is what a finer grid of rates could gain: how far, on the digits to choose by, the
   vertex of a parabola in the logarithm of the rate, through the own rate and the two beside it,
   lies below the own rate; where one of these diverged, it is the smallest difference of interest.
5. `COMPARISONS` lists the 69 comparisons of the book, and no other has a verdict. Among so many,
   some differ by luck. So the p of the ten seeds, by Student's t, is raised by Holm's method for
   the whole list. That of the folds is not: by five values, 15 of the 39 leads would be too
   unsure, the LSTM's after ten epochs among them.

There is *no difference above* the smallest of interest if both intervals and the resolution of
both ways lie within it. Otherwise, one way is *ahead* if both intervals leave out 0, the raised p
is at most 0.05, and the mean is at least the resolution of both. It is only *a hint* if the
interval of the folds has 0 in it or the raised p is larger. At all other rates that cannot be told
from a way's best (the mean on the digits to choose by is within a standard error of it), the mean
of the first seeds must be on the same side, or within the smallest of interest. Everything else is
*open*; the intervals then say by how much the way that is named first is ahead. What was run with
one seed, or at a rate that was not chosen, is *shown once* and gets no verdict. I added folds,
Holm's method and the resolution after the runs, and they took words back.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from lnlib.book.records import tables
from lnlib.book.records.seeds import holm, interval, p_value
from lnlib.book.records.tables import recorded

__all__ = [
    "COMPARISONS",
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

GRID, FRESH = range(5), range(5, 15)  # a seed for each fold, and two
# The unit of each metric, and the smallest difference of interest.
METRICS = {"loss": ("nats", 0.01), "error": ("points", 0.5), "bits": ("bits", 0.03)}
RATES = tuple(float(f"{digit}e{power}") for power in range(-5, 3) for digit in (1, 3))
Array = npt.NDArray[Any]
Asked = tuple[str, str, str, str]
Ends = tuple[float, float]


class Verdict(NamedTuple):
    """What two ways come to: by how much ``a`` is below ``b``, in points of error, nats or bits."""

    word: str  # "ahead", "hint", "no difference" or "open"
    words: str  # as a page prints it
    low: float  # where the interval of the seeds begins
    high: float
    folds: Ends
    p: float  # raised for the length of the list
    resolution: float


_ALL = ("none", "batch-hidden", "batch")
_LSTMS = ("layer norm, forget bias", "strong LSTM", "LSTM")
_LISTED = (  # table, metrics, way, the ways that it is compared with
    ("runs_gamma_beta", "loss error", "γ = 1", ("γ = 0.1", "γ = 10")),
    ("runs_gamma_beta", "loss error", "γ, β frozen", ("γ = 1",)),
    ("runs_gamma_beta", "loss error", "decay 0.01, γ spared", ("decay 0.01 on γ too", "γ = 1")),
    ("runs_gamma_beta", "loss error", "decay 0.001, γ spared", ("decay 0.001 on γ too",)),
    ("runs_gamma_beta", "error", "dimmed: γ, β", ("dimmed: last layer",)),
    ("runs_gamma_beta", "error", "turned: last layer", ("turned: γ, β",)),
    *(("runs_norms", "error", f"layer, {n}", [f"{way}, {n}" for way in _ALL]) for n in (128, 4)),
    *(("runs_norms", "error", f"{way}, 4", (f"{way}, 128",)) for way in ("layer", *_ALL)),
    *(("runs_norms", "loss error", f"{way}, long", ("layer, long",)) for way in (*_ALL, "rms")),
    ("runs_novel", "bits", "layer norm", ("post-norm", "no norm", "noisy", "jitter", "detached")),
    ("runs_novel", "bits", "layer norm", ("layer norm, no warm-up", "layer norm, zeros")),
    ("runs_novel", "bits", "post-norm", ("post-norm, no warm-up",)),
    ("runs_novel", "bits", "RMS norm", ("layer norm",)),
    ("runs_novel", "bits", "jitter", ("noisy",)),
    ("runs_novel", "bits", "no norm", ("detached",)),
    *((f"runs_novel{n}", "bits", "no norm, zeros", ("layer norm",)) for n in ("", "_longer")),
    *(("runs_lstm", "error", f"{_LSTMS[0]}, {n}", (f"γ = 0.1, {n}",)) for n in (1, 3)),
    *(("runs_lstm", "error", f"{a}, {n}", (f"{b}, {n}",)) for n in (1, 3, 10) for a, b in (
        ("strong LSTM", "LSTM"), ("layer norm", "LSTM"),
        ("strong LSTM", "layer norm"),
        (_LSTMS[0], "layer norm"), (_LSTMS[0], "strong LSTM"),
    )),
    *(("runs_lstm", "error", f"{a}, 3", (f"{a}, 3, ink", f"{a}, 3, bytes")) for a in _LSTMS),
    ("runs_lstm", "error", "layer norm, forget bias, 196 steps", ("strong LSTM, 196 steps",)),
)  # fmt: skip
COMPARISONS = tuple(
    (table, a, b, metric)
    for table, metrics, a, rivals in _LISTED
    for b, metric in itertools.product(rivals, metrics.split())
)


def values(table: str, way: str, rate: float, column: str, seeds: range) -> Array:
    """Return a column for some seeds, in their order.

    Raises:
        FileNotFoundError: as `recorded` does.
        ValueError: a seed has no run at this rate, or two, or another fold than its own.
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
    if any(rows["fold"][here] != rows["seed"][here] % len(GRID)):
        raise ValueError(f"a seed's fold is its rest by {len(GRID)}, so {seeds} has all as often")
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
    """Return the verdict on a comparison of the list; see the module for the rule.

    Args:
        table: of runs, without its ending.
        a: the way that may be ahead: of a lower loss or error.
        b: the other.
        metric: one of `METRICS`.

    Raises:
        FileNotFoundError, ValueError: as `values` does, of all comparisons in the list.
        ValueError: the list lacks the comparison, or a way's own rate is an edge of its rates.
    """
    if (asked := (table, a, b, metric)) not in COMPARISONS:
        raise ValueError(f"{asked} is not in COMPARISONS, whose number each verdict depends on")
    return _verdicts(COMPARISONS, tables.RESULTS)[asked]


@functools.cache
def _verdicts(listed: Sequence[Asked], results: Path) -> dict[Asked, Verdict]:
    """Return all verdicts of one folder of results: the p of each depends on the others."""
    gaps = [reported(t, b, metric) - reported(t, a, metric) for t, a, b, metric in listed]
    every = zip(listed, gaps, holm(np.array([p_value(gap) for gap in gaps])).tolist(), strict=True)
    return {each: _verdict(*each, gap, p) for each, gap, p in every}


def _verdict(table: str, a: str, b: str, metric: str, gaps: Array, p: float) -> Verdict:
    seeds, folds = interval(gaps), interval(gaps.reshape(-1, len(GRID)).mean(0))
    finer = max(resolution(table, way, metric) for way in (a, b))
    pairs = itertools.product(_as_good(table, b, metric), _as_good(table, a, metric))
    _, *others = (float((theirs - ours).mean()) for theirs, ours in pairs)
    word = judge(seeds, folds, p, finer, others, METRICS[metric][1])
    return Verdict(word, say(a, b, word, seeds, folds, metric), *seeds, folds, p, finer)


def _as_good(table: str, way: str, metric: str) -> list[Array]:
    """Return what the first seeds found on test digits, at each of `own_rates`."""
    found = by_rate(table, way, f"test_{metric}")
    return [_in_units(found[rate], metric) for rate in own_rates(table, way, metric)]


def resolution(table: str, way: str, metric: str) -> float:
    """Return by how much a finer grid of rates could better a way."""
    found, own = by_rate(table, way, f"valid_{metric}"), own_rates(table, way, metric)[0]
    place = sorted(found).index(own)
    beside = sorted(found)[max(place - 1, 0) : place + 2]
    if len(beside) < 3:
        raise ValueError(f"{way} is best at {own:g}, an edge of its rates: try the next one too")
    means = [_mean(_in_units(found[rate], metric)) for rate in beside]
    if math.inf in means:
        return METRICS[metric][1]
    bend, slope, _ = np.polyfit(np.log(beside) - math.log(own), means, 2)
    return float(slope**2 / (4 * bend)) if bend > 0 else 0.0


def judge(
    seeds: Ends, folds: Ends, p: float, resolution: float, others: Sequence[float], least: float
) -> str:
    """Return the word for what is known of b − a; least is the smallest difference of interest."""
    if all(abs(value) <= least for value in (*seeds, *folds, *others, resolution)):
        return "no difference"
    sign = 1 if seeds[0] > 0 else -1
    if not all(sign * value > 0 for value in (*seeds, *others)) or abs(sum(seeds)) < 2 * resolution:
        return "open"
    return "ahead" if all(sign * end > 0 for end in folds) and p <= 0.05 else "hint"


def say(a: str, b: str, word: str, seeds: Ends, folds: Ends, metric: str) -> str:
    r"""Return a verdict as a sentence with both intervals.

    >>> say("γ = 1", "γ = 10", "hint", (-0.7, -0.02), (-0.9, 0.12), "error")
    'a hint: γ = 10 ahead of γ = 1\n  by 0.02 to 0.7 points (folds: -0.1 to 0.9)'
    """
    unit, least = METRICS[metric]
    if seeds[1] < 0 and word in ("ahead", "hint"):
        (a, b), (seeds, folds) = (b, a), ((-high, -low) for low, high in (seeds, folds))

    def places(size: float) -> int:
        return 1 + (size < 0.1) + (size < 0.01) if metric == "error" else 3

    by, also = (
        " to ".join(f"{end:.{places(abs(end))}f}" for end in ends) for ends in (seeds, folds)
    )
    return {
        "ahead": f"{a} ahead of {b}\n  by",
        "hint": f"a hint: {a} ahead of {b}\n  by",
        "no difference": f"{a} and {b}: no difference above {least:g} {unit}\n ",
        "open": f"{a} against {b}: open\n  ahead by",
    }[word] + f" {by} {unit} (folds: {also})"
