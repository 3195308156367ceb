"""The Jacobian of one row: the three ways from each feature to each output."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from lnlib.book.explorers.base import (
    BLUE,
    MOVED,
    MU,
    SIGMA,
    VERMILLION,
    Choice,
    Explorer,
    Number,
    Numbers,
    number,
    sum_by_pairs,
)

DIRECT, TOTAL = "#6e7781", "#1f2328"
WAYS = "directly", "through μ", "through σ"


class Row(NamedTuple):
    """What the Jacobian is made of; ``denominator`` is s = √(σ² + ε)."""

    mean: float
    std: float
    denominator: float
    x_hat: list[float]


def row(x: Sequence[float], eps: float) -> Row:
    """Normalize four numbers as jacobian.mjs does, to the last bit.

    >>> row((1, 1, 5, 5), eps=0)
    Row(mean=3.0, std=2.0, denominator=2.0, x_hat=[-1.0, -1.0, 1.0, 1.0])
    """
    mean = sum_by_pairs(x) / 4
    centered = [v - mean for v in x]
    variance = sum_by_pairs([v * v for v in centered]) / 4
    denominator = math.sqrt(variance + eps)
    x_hat = [v / denominator if denominator else math.nan for v in centered]  # Python refuses 0 / 0
    return Row(mean, math.sqrt(variance), denominator, x_hat)


def ways(shown: Row, weight: Sequence[float], k: int, i: int) -> tuple[float, float, float]:
    """Return what reaches y_k from a nudge of x_i directly, through μ and through σ.

    >>> ways(row((1, 1, 5, 5), eps=0), (1, 1, 1, 1), 3, 3)
    (0.5, -0.125, -0.125)
    """
    if shown.denominator == 0:
        return math.nan, math.nan, math.nan
    own = weight[k] / shown.denominator
    return (
        own if k == i else 0.0,
        -(own / 4),
        -(own * (shown.x_hat[k] * shown.x_hat[i]) / 4),
    )


def entry(shown: Row, weight: Sequence[float], k: int, i: int, step: int = 2) -> float:
    """Return the sum of the first ways, as many as ``step`` says; with all of them ∂y_k/∂x_i."""
    direct, through_mean, through_std = ways(shown, weight, k, i)
    return [direct, direct + through_mean, direct + through_mean + through_std][step]


class JacobianExplorer(Explorer, files="jacobian"):
    """The Jacobian of a row of four features, and each of its numbers as the sum of three ways.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = JacobianExplorer()
        explorer.weight = (1, 2, -1, 0)
        explorer.observe(print, "input")

    Attributes:
        x: the row, four numbers from 0 to 10, in units of x.
        weight: γ, four numbers from −2 to 2, no units.
        eps: ε, from 1e-12 to 100, or 0, in units of x².
        output: the k of ∂y_k/∂x_i, 1 to 4.
        input: the i of ∂y_k/∂x_i, 1 to 4.
        step: 0 counts the direct way alone, 1 also that through μ, 2 also that through σ.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range, not a number,
            or not four of them.
    """

    x = Numbers((1, 1, 5, 5), low=0, high=10, unit="units of x").tag(sync=True)
    weight = Numbers((1, 1, 1, 1), low=-2, high=2, unit="no units").tag(sync=True)
    eps = Number(0.0, low=1e-12, high=100.0, zero=True, unit="units of x²").tag(sync=True)
    output = Choice(4, 1, 2, 3).tag(sync=True)
    input = Choice(4, 1, 2, 3).tag(sync=True)
    step = Choice(2, 1, 0).tag(sync=True)

    def row(self) -> Row:
        """Return mean, σ, s and x̂ of the row, in float64."""
        return row(self.x, self.eps)

    def matrix(self) -> list[list[float]]:
        """Return what is drawn: a line for each output, a column for each feature."""
        shown = self.row()
        return [[entry(shown, self.weight, k, i, self.step) for i in range(4)] for k in range(4)]

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        k, i = self.output - 1, self.input - 1
        shown = self.row()
        if shown.denominator == 0:
            return "0 ÷ 0: there is no derivative"
        said, mirror = self._told(k, i), self._told(i, k)
        if self.step < 2:
            return f"{('The direct way alone', 'With the way through μ')[self.step]}: {said}"
        if self.weight[k] == 0:
            return f"γ{_sub(k)} = 0: no way leads to y{_sub(k)}"
        if said == "0":
            return f"{_name(k, i)} = 0: the {'three' if k == i else 'two'} ways cancel"
        if k == i:
            direct = self._write(ways(shown, self.weight, k, i)[0])
            return f"{_name(k, i)} = {said}; directly {direct}"
        if said == mirror:
            return f"{_name(k, i)} = {said}, like its mirror"
        return f"γ{_sub(k)} ≠ γ{_sub(i)}: {said}, its mirror {mirror}"

    def sentence(self) -> str:
        """Tell the numbers of the picture."""
        k, i = self.output - 1, self.input - 1
        shown = self.row()
        if shown.denominator == 0:
            return "All features are equal and ε = 0: s is 0, and x̂ = 0 ÷ 0 has no derivative."
        each = zip(map(self._write, ways(shown, self.weight, k, i)), WAYS, strict=True)
        said = [f"{value} {way}" for value, way in each][: self.step + 1]
        start = f"With ε = {number(self.eps)}, s is {number(shown.denominator)}"
        if self.step == 0:
            return f"{start}: {said[0]}. The ways through μ and σ are left out."
        left_out = " The way through σ is left out." if self.step == 1 else ""
        parts = f"{', '.join(said[:-1])} and {said[-1]}"
        return f"{start}: {parts} make {self._told(k, i)}.{left_out}"

    def most(self) -> float:
        """Return a number that none of the matrix exceeds."""
        return max(1.0, *map(abs, self.weight)) / (self.row().denominator or math.inf)

    def _write(self, value: float) -> str:
        """Write a number of the matrix; what is nothing but rounding is 0."""
        return number(0.0 if abs(value) <= 1e-12 * self.most() else value)

    def in_cell(self, value: float) -> str:
        """Write a number as finely as a cell of the picture has room for."""
        if math.isnan(value):
            return "NaN"
        grain = 10.0 ** (math.floor(math.log10(self.most())) - 2)
        return number(math.floor(value / grain + 0.5) * grain)

    def _told(self, k: int, i: int) -> str:
        return self._write(entry(self.row(), self.weight, k, i, self.step))

    def picture(self) -> Figure:
        """Draw what the page shows: the matrix, and the three ways of one of its numbers."""
        figure = Figure(figsize=(6.4, 2.7), dpi=100, layout="constrained")
        figure.suptitle(self.verdict(), fontsize=11)
        matrix, bars = figure.subplots(1, 2, width_ratios=(6, 5))
        self._draw_matrix(matrix)
        self._draw_ways(bars)
        return figure

    def _draw_matrix(self, ax: Axes) -> None:
        for k, line in enumerate(self.matrix()):
            for i, value in enumerate(line):
                shade = 0.0 if math.isnan(value) else min(abs(value) / self.most() * 0.75, 0.5)
                color = [1 - shade * (1 - c) for c in to_rgb(VERMILLION if value < 0 else BLUE)]
                edge = MOVED if (k, i) == (self.output - 1, self.input - 1) else "white"
                ax.barh(k, 0.9, 0.9, left=i - 0.45, color=color, edgecolor=edge, linewidth=2)
                ax.text(i, k, self.in_cell(value), ha="center", va="center", fontsize=9)
        names = [f"x{_sub(i)} = {number(v)}" for i, v in enumerate(self.x)]
        ax.set_xticks(range(4), names, fontsize=9)
        rows = [f"y{_sub(k)}, γ{_sub(k)} = {number(v)}" for k, v in enumerate(self.weight)]
        ax.set_yticks(range(4), rows, fontsize=9)
        ax.set(xlim=(-0.5, 3.5), ylim=(3.5, -0.5))
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)

    def _draw_ways(self, ax: Axes) -> None:
        k, i, end = self.output - 1, self.input - 1, 0.0
        each = ways(self.row(), self.weight, k, i)[: self.step + 1]
        if not math.isnan(each[0]):
            for j, (value, color) in enumerate(zip(each, (DIRECT, MU, SIGMA), strict=False)):
                ax.barh(j, value, left=end, color=color)
                end += value
            ax.barh(3, end, color=TOTAL)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_yticks(range(4), [*WAYS, _name(k, i)], fontsize=9)
        ax.set_ylim(3.6, -0.6)
        ax.tick_params(axis="x", labelsize=8)
        ax.spines[["top", "right", "left"]].set_visible(False)


def _sub(i: int) -> str:
    return "₁₂₃₄"[i]


def _name(k: int, i: int) -> str:
    return f"∂y{_sub(k)}/∂x{_sub(i)}"
