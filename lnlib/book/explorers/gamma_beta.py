"""The γ and β explorer: whether γ is the standard deviation of y, and β its mean."""

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnlib import formula
from lnlib.book.explorers.base import (
    BETA,
    GAMMA,
    MOVED,
    MU,
    SIGMA,
    X_HAT,
    Choice,
    Explorer,
    Number,
    Numbers,
    number,
)

# Eighths whose mean and variance binary holds too: no sum depends on the order of its terms.
ROWS: dict[str, tuple[float, ...]] = {
    "book": (2, 4, 4, 4, 5, 5, 7, 9),
    "wide": (2.875, 6.25, -1.875, -5.625, 0.25, -5.75, -4.5, 0.375),
    "narrow": (2.5, 1.875, 2, 1.75, 2.125, 2, 1.625, 2.125),
    "two groups": (-1.875, 3.75, 3.5, 4.375, -2.625, 4.25, -2.125, -1.25),
    "constant": (1.5,) * 8,
}
SIZE = 8
# From where to where each lane is drawn, with its ticks: the first that has room.
Axis = tuple[tuple[float, float], tuple[int, ...]]
OF_X: tuple[Axis, ...] = (
    ((0, 10), (0, 5, 10)),
    ((-5, 5), (-5, 0, 5)),
    ((-7.5, 7.5), (-5, 0, 5)),
)
OF_X_HAT: tuple[Axis, ...] = (((-2.5, 2.5), (-2, 0, 2)),)
OF_Y: tuple[Axis, ...] = (
    ((-6, 6), (-5, 0, 5)),
    ((-10, 10), (-10, -5, 0, 5, 10)),
    ((-20, 20), (-20, -10, 0, 10, 20)),
)

# As in common.css.
GRAY = "#6e7781"


class Statistics(NamedTuple):
    """Mean and biased standard deviation of a row, and the variance."""

    mean: float
    std: float
    variance: float


def statistics(values: Sequence[float]) -> Statistics:
    """Return the statistics of ``values``, added up from left to right as gamma_beta.mjs does.

    The order matters: the sentence of the page is this one's, to the last digit.

    >>> statistics((1.0, 3.0))
    Statistics(mean=2.0, std=1.0, variance=1.0)
    """
    total = squares = 0.0
    for v in values:
        total += v
    mean = total / len(values)
    for v in values:
        squares += (v - mean) * (v - mean)
    variance = squares / len(values)
    return Statistics(mean, math.sqrt(variance), variance)


class Shared(NamedTuple):
    """Whether all features have the same γ, or β, and the mean over the features."""

    same: bool
    mean: float


def shared(values: Sequence[float]) -> Shared:
    """Return whether all ``values`` are one, and their mean."""
    same = all(v == values[0] for v in values)
    return Shared(same, values[0] if same else statistics(values).mean)


def tell(v: float) -> str:
    """Write three digits of a number whose last bits are rounding errors: those of 0 become 0.

    >>> tell(2.1249999999999996), tell(-1.8e-17)
    ('2.13', '0')
    """
    if abs(v) < 1e-12:
        return "0"
    return number(float(Context(prec=10, rounding=ROUND_HALF_UP).create_decimal(Decimal(v))))


def room(axes: Sequence[Axis], values: Sequence[float]) -> Axis:
    """Return the first of ``axes`` with room for ``values``, and a tenth of its upper end to spare.

    >>> room(OF_Y, (0, -5.5))[0]
    (-10, 10)
    """
    for axis in axes:
        low, high = axis[0]
        if low + 0.1 * high <= min(values) and max(values) <= 0.9 * high:
            return axis
    return axes[-1]


class Layer(NamedTuple):
    """The three rows, their statistics, and what γ and β say of those of y."""

    lanes: tuple[list[float], list[float], list[float]]
    stats: tuple[Statistics, Statistics, Statistics]
    gamma: Shared
    beta: Shared
    bars: bool
    """Whether |γ| is meant: the same for all features, and negative."""
    agrees: bool
    """Whether γ is the standard deviation of y, to within a rounding of three digits."""
    undone: bool
    """Whether y is the row itself."""


class GammaBetaExplorer(Explorer, files="gamma_beta"):
    """A row of eight features, normalized, then scaled by γ and moved by β.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = GammaBetaExplorer()
        explorer.weight = [2] * 8
        explorer.observe(print, "bias")

    Attributes:
        row: "book", "wide", "narrow", "two groups" or "constant"; the values are in ``ROWS``.
        weight: γ, eight numbers from −5 to 5, no units.
        bias: β, eight numbers from −8 to 8, no units.
        eps: from 1e-12 to 1, in units of x² where it is added to the variance. It has no slider:
            on all but the narrow row it moves little that one could see.
        feature: the one that the controls of γ and β act on, 1 to 8; or 0, all of them.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range, not a number,
            not eight of them, or not one of the choices.
    """

    row = Choice(*ROWS).tag(sync=True)
    weight = Numbers((1,) * SIZE, low=-5.0, high=5.0, unit="no units").tag(sync=True)
    bias = Numbers((0,) * SIZE, low=-8.0, high=8.0, unit="no units").tag(sync=True)
    eps = Number(1e-5, low=1e-12, high=1.0, unit="units of x²").tag(sync=True)
    feature = Choice(*range(SIZE + 1)).tag(sync=True)

    def terms(self) -> formula.Terms:
        """Return every term of layer norm for the current traits, in float64."""
        x, weight, bias = (
            torch.tensor(values, dtype=torch.float64)
            for values in (ROWS[self.row], self.weight, self.bias)
        )
        return formula.terms(x, weight, bias, eps=self.eps)

    def layer(self) -> Layer:
        """Return all that is drawn and told."""
        terms = self.terms()
        x, y = list(ROWS[self.row]), terms.y.tolist()
        lanes = (x, terms.x_hat.tolist(), y)
        of_x, of_x_hat, of_y = map(statistics, lanes)
        gamma, beta = shared(self.weight), shared(self.bias)
        bars = gamma.same and gamma.mean < 0
        said = -gamma.mean if bars else gamma.mean
        agrees = abs(said - of_y.std) <= 5e-4 * max(abs(said), of_y.std) + 1e-12
        gap = max(abs(a - b) for a, b in zip(y, x, strict=True))
        undone = gap <= 1e-9 * max(1.0, *map(abs, x))
        return Layer(lanes, (of_x, of_x_hat, of_y), gamma, beta, bars, agrees, undone)

    def verdict(self) -> str:
        """Say in a few words whether γ and β are what the question asks."""
        _, (of_x, *_), gamma, beta, bars, agrees, undone = self.layer()
        if gamma == (True, 0.0):
            return "y is β, whatever the row"
        if undone:
            return "y is the row itself"
        if of_x.std == 0:
            return "x̂ is 0: y is β, whatever γ is"
        if not gamma.same:
            return f"γ differs{', yet its mean is' if agrees else ': its mean is not'} the spread"
        g = "|γ|" if bars else "γ"
        if not beta.same:
            rest = f", yet {g} is" if agrees else f": {g} is not"
            return f"β differs{rest} the spread of y"
        return f"{g} is the spread of y, β its mean" if agrees else f"ε keeps the spread below {g}"

    def sentence(self) -> str:
        """Tell the statistics of the three rows, γ and β."""
        _, stats, gamma, beta, _, agrees, _ = self.layer()
        of_x, x_hat, y = (f"{tell(s.mean)} and {tell(s.std)}" for s in stats)
        parameters = " and ".join(
            f"{symbol} {'is' if one.same else 'averages'} {tell(one.mean)}"
            for symbol, one in (("γ", gamma), ("β", beta))
        )
        variance = stats[0].variance
        blurred = gamma.same and beta.same and variance > 0 and not agrees
        small = f" ε = {tell(self.eps)} is not small next to σ² = {tell(variance)}."
        return (
            f"Mean and standard deviation are {of_x} in the row, {x_hat} in x̂, {y} in y; "
            f"{parameters}.{small * blurred}"
        )

    def picture(self) -> Figure:
        """Draw what the page shows: x, x̂ and y over the features, a unit as high in each."""
        figure = Figure(figsize=(6.4, 4.6), dpi=100, layout="constrained")
        figure.suptitle(self.verdict(), fontsize=11)
        layer = self.layer()
        axes = figure.subplots(3, 1, height_ratios=[10, 5, 12], sharex=True)
        names = ("x (units of x)", "x̂ (no units)", "y = γ ⊙ x̂ + β")
        for i, choices in enumerate((OF_X, OF_X_HAT, OF_Y)):
            self._draw_lane(axes[i], layer.lanes[i], layer.stats[i], X_HAT if i == 1 else GRAY)
            reach, ticks = room(choices, layer.lanes[i])
            axes[i].set(ylim=reach, yticks=ticks)
            axes[i].set_title(names[i], fontsize=9, loc="left")
        self._draw_said(axes[2], layer)
        axes[2].set_xlabel("feature", fontsize=8)
        return figure

    def _draw_lane(self, ax: Axes, values: list[float], stats: Statistics, color: str) -> None:
        """Draw one row over the features, with its mean and the band of its standard deviation."""
        mean, std, _ = stats
        at = range(1, SIZE + 1)
        ax.axhspan(mean - std, mean + std, color=SIGMA, alpha=0.18, linewidth=0)
        ax.axhline(mean, color=MU, linewidth=1.5)
        ax.vlines(at, 0, values, color=GRAY, linewidth=1)
        ax.plot(at, values, "o", color=color, markersize=5)
        if self.feature:
            ax.axvspan(self.feature - 0.4, self.feature + 0.4, color=MOVED, alpha=0.12, linewidth=0)
        ax.set(xlim=(0.4, SIZE + 0.9), xticks=at)
        ax.set_title(f"mean {tell(mean)}, std {tell(std)}", fontsize=9, loc="right")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)

    def _draw_said(self, ax: Axes, layer: Layer) -> None:
        """Draw what γ and β say of y: β as a mark beside the mean, γ as one beside the band."""
        low, high = ax.get_ylim()
        beta, size = layer.beta.mean, abs(layer.gamma.mean)
        ends = [min(max(end, low), high) for end in (beta - size, beta + size)]
        ax.plot([SIZE + 0.6] * 2, ends, "_-", color=GAMMA, linewidth=2, markeredgewidth=2)
        ax.plot(SIZE + 0.6, beta, "_", color=BETA, markersize=12, markeredgewidth=3)
        words = [
            f"{'' if one.same else 'mean '}{symbol} {tell(one.mean)}"
            for symbol, one in (("β", layer.beta), ("γ", layer.gamma))
        ]
        ax.set_title(", ".join(words), fontsize=10)
