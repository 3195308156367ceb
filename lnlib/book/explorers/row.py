"""The row machine: eight numbers, and what layer norm makes of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnlib.book.explorers.base import (
    BETA,
    GAMMA,
    MU,
    SIGMA,
    X_HAT,
    Explorer,
    Number,
    Numbers,
    number,
    sum_by_pairs,
)

BOOK = (2, 4, 4, 4, 5, 5, 7, 9)  # mean 5, σ 2
GRAY = "#929aa1"


class Terms(NamedTuple):
    """Every term of layer norm of one row; ``spread`` is the standard deviation of x̂."""

    mean: float
    centered: list[float]
    variance: float
    std: float
    denominator: float
    spread: float
    x_hat: list[float]
    y: list[float]


def terms(x: Sequence[float], eps: float, weight: float, bias: float) -> Terms:
    """Compute layer norm of eight numbers as row.mjs does, to the last bit.

    >>> terms((2, 4, 4, 4, 5, 5, 7, 9), eps=0, weight=2, bias=1).y
    [-2.0, 0.0, 0.0, 0.0, 1.0, 1.0, 3.0, 5.0]
    """
    mean = sum_by_pairs(x) / 8
    centered = [v - mean for v in x]
    variance = sum_by_pairs([v * v for v in centered]) / 8
    std, denominator = math.sqrt(variance), math.sqrt(variance + eps)
    if denominator == 0:  # Python refuses 0 / 0
        nan = [math.nan] * 8
        return Terms(mean, centered, variance, std, denominator, math.nan, nan, nan)
    x_hat = [v / denominator for v in centered]
    y = [weight * v + bias for v in x_hat]
    return Terms(mean, centered, variance, std, denominator, std / denominator, x_hat, y)


class RowExplorer(Explorer, files="row"):
    """A row of eight numbers, centered, normalized, scaled by one γ and moved by one β.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = RowExplorer()
        explorer.x = (0, 0, 0, 0, 0, 0, 0, 8)
        explorer.observe(print, "x")

    Attributes:
        x: the row, eight numbers from −1e7 to 1e7, in units of x.
        eps: from 1e-12 to 1, or 0, in units of x² where it is added to the variance.
        weight: γ of all features, from −5 to 5, no units.
        bias: β of all features, from −8 to 8, no units.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range, not a number,
            or not eight of them.
    """

    x = Numbers(BOOK, low=-1e7, high=1e7, unit="units of x").tag(sync=True)
    eps = Number(1e-5, low=1e-12, high=1.0, zero=True, unit="units of x²").tag(sync=True)
    weight = Number(1.0, low=-5.0, high=5.0, unit="no units").tag(sync=True)
    bias = Number(0.0, low=-8.0, high=8.0, unit="no units").tag(sync=True)

    def terms(self) -> Terms:
        """Return every term of layer norm for the current traits, in float64."""
        return terms(self.x, self.eps, self.weight, self.bias)

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        shown = self.terms()
        if shown.std == 0:
            return "0 ÷ 0: x̂ is NaN" if self.eps == 0 else "All are equal: σ = 0, and x̂ = 0"
        if shown.spread < 0.995:
            share = "decides" if shown.variance < self.eps else "takes part"
            return f"ε {share}: x̂ has spread {number(shown.spread)}"
        far = max(shown.x_hat, key=abs)
        if abs(far) <= 2:
            return "x̂ has mean 0 and spread 1"
        others = [v for v in shown.x_hat if v != far]
        low, high = min(others), max(others)
        if high - low < 0.3:  # the mean of x̂ is 0
            return f"The others crowd near {number(-far / 7)}"
        return f"The others lie from {number(low)} to {number(high)}"

    def sentence(self) -> str:
        """Tell the numbers of the picture."""
        shown = self.terms()
        start = f"μ = {number(shown.mean)} and σ = {number(shown.std)}"
        if shown.denominator == 0:
            return f"{start}, and ε = 0 as well: x̂ = 0 ÷ 0 is not a number, and so is y."
        root, more = "", ", and can never pass ±√7 = ±2.65"
        if shown.spread < 0.995:
            root, more = f"√(σ² + ε) = {number(shown.denominator)}, so ", ""
        if (self.weight, self.bias) != (1, 0):
            more = f"; y {_reach(shown.y)}"
        return f"{start}; {root}x̂ {_reach(shown.x_hat)}{more}."

    def picture(self) -> Figure:
        """Draw what the page shows: the bars of x, x − μ, x̂ and y."""
        shown = self.terms()
        figure = Figure(figsize=(6.4, 2.5), dpi=100, layout="constrained")
        figure.suptitle(self.verdict(), fontsize=11)
        axes = figure.subplots(1, 4, width_ratios=[5, 3, 3, 3])
        strips = (
            (axes[0], "x", self.x, GRAY, shown.mean, shown.std),
            (axes[1], "x − μ", shown.centered, GRAY, 0.0, shown.std),
            (axes[2], "x̂", shown.x_hat, X_HAT, 0.0, shown.spread),
            (axes[3], "y", shown.y, BETA, self.bias, abs(self.weight) * shown.spread),
        )
        for ax, name, values, color, middle, spread in strips:
            self._bars(ax, values, color)
            band = GAMMA if name == "y" else SIGMA
            ax.axhspan(middle - spread, middle + spread, color=band, alpha=0.16, linewidth=0)
            ax.set_title(name, fontsize=11)
        for ax, middle, name, color in (
            *[(axes[0], shown.mean, "μ", MU), (axes[1], 0.0, "", MU)],
            (axes[3], self.bias, "β", BETA),
        ):
            ax.axhline(middle, color=color, linewidth=1.5)
            ax.text(7.8, middle, name, color=color, va="center")
        axes[2].set(ylim=(-2.9, 2.9), yticks=[-2, -1, 0, 1, 2])
        for side in (-1, 1):
            axes[2].axhline(side * math.sqrt(7), color=X_HAT, linewidth=1, linestyle="--")
            axes[2].text(7.8, side * math.sqrt(7), "−√7"[side == 1 :], color=X_HAT, va="center")
        return figure

    def _bars(self, ax: Axes, values: Sequence[float], color: str) -> None:
        if any(map(math.isnan, values)):
            ax.text(3.5, 0, "NaN", ha="center", va="center")
        else:
            ax.bar(range(8), values, color=color, width=0.62)
        ax.axhline(0, color="0.4", linewidth=0.8)
        ax.set(xticks=[], xlim=(-0.6, 7.6))
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right", "bottom"]].set_visible(False)


def _reach(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return f"is {low} throughout" if low == high else f"goes from {low} to {high}"
