"""The γ and β explorer: whether γ is the standard deviation of y, and β its mean."""

import math
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnlib import formula
from lnlib.book.explorers.base import BLUE, MOVED, Choice, Explorer, Number, Numbers, number

LOADS = ("gamma_beta.css", "gamma_beta*.mjs")

# Eighths whose mean and variance binary holds too: no sum depends on the order of its terms.
ROWS: dict[str, tuple[float, ...]] = {
    "skewed": (1.5, 2.5, 1, 2.25, 5.625, 1.75, 3.125, 8.375, 1.625, 3.75, 2.25, 2.25),
    "wide": (-5.125, 0.625, -7.25, 2, 4.5, -3, -2.125, 6.5, -5.125, -0.5, 1.5, -4),
    "narrow": (2.5, 1.75, 2.125, 1.625, 2, 2.25, 1.875, 1.75, 2.125, 2, 1.75, 2.25),
    "two groups": (-2.25, 4.25, -1.875, 3.875, 4.5, -1, 3.25, -2.875, 3.625, -1.75, 4.25, -2),
    "constant": (1.5,) * 12,
}
SIZE = 12
NEAR, FAR = 11.0, 24.0  # y is drawn to ±11, as x is, and to ±24 once a value passes ±10

TICKS = {3.5: (-2, 0, 2), NEAR: (-10, -5, 0, 5, 10), FAR: (-20, -10, 0, 10, 20)}

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


def bins(values: Sequence[float], width: float) -> list[tuple[float, int]]:
    """Return where each value lies in a dot histogram: the center of its bin, and its level.

    >>> bins((0.1, 0.9, -0.2), 0.5)
    [(0.0, 0), (1.0, 0), (0.0, 1)]
    """
    counts: Counter[int] = Counter()
    placed = []
    for v in values:
        which = math.floor(v / width + 0.5)
        placed.append((which * width, counts[which]))
        counts[which] += 1
    return placed


class GammaBetaExplorer(Explorer, files="gamma_beta"):
    """A row of twelve features, normalized, then scaled by γ and moved by β.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = GammaBetaExplorer()
        explorer.weight = [2] * 12
        explorer.observe(print, "bias")

    Attributes:
        row: "skewed", "wide", "narrow", "two groups" or "constant"; the values are in ``ROWS``.
        weight: γ, twelve numbers from −5 to 5, no units.
        bias: β, twelve numbers from −8 to 8, no units.
        eps: from 1e-12 to 1, in units of x² where it is added to the variance. It has no slider:
            on all but the narrow row it moves little that one could see.
        feature: the one that the controls of γ and β act on, 1 to 12; or 0, all of them.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range, not a number,
            not twelve of them, or not one of the choices.
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

    def lanes(self) -> tuple[list[float], list[float], list[float]]:
        """Return the row, x̂ and y."""
        terms = self.terms()
        return list(ROWS[self.row]), terms.x_hat.tolist(), terms.y.tolist()

    def sentence(self) -> str:
        """Tell the statistics of the three rows, and whether γ and β are those of y."""
        x, x_hat, y = self.lanes()
        told = [f"{tell(s.mean)} and {tell(s.std)}" for s in map(statistics, (x_hat, y))]
        of_x = statistics(x)
        gap = max(abs(a - b) for a, b in zip(y, x, strict=True))
        undone = gap <= 1e-9 * max(1.0, *map(abs, x))
        last = "y is the row itself." if undone else f"The largest |y − x| is {tell(gap)}."
        return (
            f"The row has mean {tell(of_x.mean)} and standard deviation {tell(of_x.std)}; "
            f"x̂ has {told[0]}; y has {told[1]}. {self._verdict(of_x, statistics(y))} {last}"
        )

    def _verdict(self, of_x: Statistics, of_y: Statistics) -> str:
        """Tell whether γ and β are what the question asks."""
        gamma, beta = shared(self.weight), shared(self.bias)
        if of_x.std == 0:
            return "x̂ is 0, so y is β, whatever γ is."
        if gamma == (True, 0.0):
            return "γ is 0 for all features, so y is β, whatever the row."
        mean, std = tell(of_y.mean), tell(of_y.std)
        g, b = tell(gamma.mean), tell(beta.mean)
        if gamma.same and beta.same:
            both = f"γ is {g} and β is {b} for all features, so"
            if tell(abs(gamma.mean)) == std:
                they = "|γ| and β" if gamma.mean < 0 else "they"
                return f"{both} {they} are the standard deviation and the mean of y."
            return (
                f"{both} β is the mean of y; but ε = {tell(self.eps)} is not small next to "
                f"σ² = {tell(of_x.variance)}, and the standard deviation of y is {std}."
            )

        def says(symbol: str, same: bool, value: str) -> str:
            if same:
                return f"{symbol} is {value} for all features"
            return f"{symbol} differs between features: its mean is {value}"

        def is_(said: str, what: str, value: str) -> str:
            same = said == value
            return f"and so is the {what} of y" if same else f"but the {what} of y is {value}"

        return (
            f"{says('γ', gamma.same, g)}, {is_(g, 'standard deviation', std)}; "
            f"{says('β', beta.same, b)}, {is_(b, 'mean', mean)}."
        )

    def picture(self) -> Figure:
        """Draw what the page shows: x, x̂ and y over the features, and the last two on one axis."""
        figure = Figure(figsize=(6.4, 6.2), dpi=100, layout="constrained")
        axes = figure.subplots(4, 1, height_ratios=[3, 3, 4, 4.4])
        x, x_hat, y = self.lanes()
        reach = NEAR if max(map(abs, y)) <= NEAR - 1 else FAR
        self._draw_lane(axes[0], x, "x (units of x)", NEAR)
        self._draw_lane(axes[1], x_hat, "x̂ (no units)", 3.5, face="white")
        self._draw_lane(axes[2], y, "y = γ ⊙ x̂ + β", reach, color=BLUE)
        self._draw_said(axes[2])
        axes[2].set_xlabel("feature", fontsize=8)
        self._draw_values(axes[3], x_hat, y, reach)
        for ax in axes:
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=8)
        return figure

    def _draw_lane(
        self,
        ax: Axes,
        values: list[float],
        name: str,
        reach: float,
        color: str = GRAY,
        face: str | None = None,
    ) -> None:
        """Draw one row over the features, with its mean and the band of its standard deviation."""
        mean, std, _ = statistics(values)
        at = range(1, SIZE + 1)
        ax.axhspan(mean - std, mean + std, color=color, alpha=0.18, linewidth=0)
        ax.axhline(mean, color=color, linewidth=1.5)
        ax.vlines(at, 0, values, color=GRAY, linewidth=1)
        ax.plot(at, values, "o", color=color, markersize=5, markerfacecolor=face or color)
        if self.feature:
            ax.axvspan(self.feature - 0.4, self.feature + 0.4, color=MOVED, alpha=0.12, linewidth=0)
        ax.set(xlim=(0.4, SIZE + 0.8), ylim=(-reach, reach), xticks=at, yticks=TICKS[reach])
        ax.set_title(name, fontsize=9, loc="left")
        ax.set_title(f"mean {tell(mean)}, std {tell(std)}", fontsize=9, loc="right")

    def _draw_said(self, ax: Axes) -> None:
        """Draw what γ and β say of y: a beam from β − γ to β + γ beside the band."""
        gamma, beta = shared(self.weight), shared(self.bias)
        reach = ax.get_ylim()[1]
        ends = [min(max(beta.mean + side * gamma.mean, -reach), reach) for side in (-1, 0, 1)]
        ax.plot([SIZE + 0.55] * 3, ends, "_-", color=MOVED, linewidth=3, markeredgewidth=3)
        of_beta, of_gamma = ("" if one.same else "mean " for one in (beta, gamma))
        words = f"{of_beta}β {tell(beta.mean)}, {of_gamma}γ {tell(gamma.mean)}"
        ax.set_title(words, fontsize=10, color=MOVED, weight="bold")

    def _draw_values(self, ax: Axes, x_hat: list[float], y: list[float], reach: float) -> None:
        """Draw x̂ as stacked dots, those of y hanging below, and a line from each to its own."""
        for a, b in zip(x_hat, y, strict=True):
            ax.plot((a, b), (1, -1), color=GRAY, linewidth=0.8)
        for values, side, color, face in ((x_hat, 1, GRAY, "white"), (y, -1, BLUE, BLUE)):
            placed = bins(values, 0.5)
            pitch = min(0.32, 2 / (1 + max(level for _, level in placed)))
            heights = [side * (1.2 + pitch * level) for _, level in placed]
            centers = [center for center, _ in placed]
            ax.plot(centers, heights, "o", color=color, markersize=4, markerfacecolor=face)
            ax.axhline(side, color=GRAY, linewidth=0.8)
        ax.set(xlim=(-reach, reach), ylim=(-3.3, 3.3), xticks=TICKS[reach])
        ax.set_yticks([1, -1], ["x̂", "y"])
        ax.set_title("the same values on one axis, in bins of 0.5", fontsize=9, loc="left")
