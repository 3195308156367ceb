"""The explorer of the layer-normalized LSTM: its cell, with a digit that is read row by row."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from lnlib.book.explorers.base import (
    GREEN,
    MOVED,
    SIGMA,
    VERMILLION,
    Choice,
    Explorer,
    Number,
    Whole,
    number,
)
from lnlib.book.explorers.vectors import Row, back_through, dot, normalize, size

SIZE, ROWS, PIXELS = 16, 14, 10
# A five, with quarters of ink. It has nine rows; the other five are blank, above or below it.
INK = (
    *("0444444440", "0440000000", "0440000000", "0444444300", "0120002440"),
    *("0000000440", "0000000440", "0430002440", "0144444310"),
)
BLANKS = ROWS - len(INK)
GRAY = "#6e7781"


class Weights(NamedTuple):
    """Those of PyTorch at the start: uniform within ±1/√H, which is ±1/4."""

    hh: list[list[float]]  # (4H, H)
    ih: list[list[float]]  # (4H, pixels)
    bias: list[float]
    back: list[float]  # the gradient that reaches the last h


class Step(NamedTuple):
    """What one row of the digit makes of the state: all that is on the wires."""

    x: Row
    h_before: Row
    c_before: Row
    from_h: Row  # W_h h, before its norm
    from_x: Row
    hat_h: Row  # and behind it
    gates: list[list[float]]  # i, f, the candidate and o
    c: Row
    n: Row  # the cell behind its norm
    tanh_n: Row
    h: Row
    carried: Row  # the cell that goes on
    divisors: tuple[float, float, float]  # of the norms of W_h h, of W_x x and of the cell


class Look(NamedTuple):
    """A run over all rows, and the gradient of each row's sums beside that of the last row's."""

    steps: list[Step]
    gradients: list[float]


def draw_weights(seed: int = 1) -> Weights:
    """Return the weights of the network, which every reader has: those of a generator of integers.

    Its multiplier is that of Press et al., "Numerical Recipes", section 7.1.
    """
    drawn = []
    for _ in range(4 * SIZE * (SIZE + PIXELS + 1) + SIZE):
        seed = (1664525 * seed + 1013904223) % 2**32
        drawn.append((seed / 2**32 - 0.5) / 2)

    def rows(width: int) -> list[list[float]]:
        return [[drawn.pop(0) for _ in range(width)] for _ in range(4 * SIZE)]

    hh, ih, bias = rows(SIZE), rows(PIXELS), rows(1)
    return Weights(hh, ih, [one for (one,) in bias], drawn)


WEIGHTS = draw_weights()


def digit(blank: int) -> list[list[float]]:
    """Return the rows of the digit, with so many blank ones above it."""
    empty = [[0.0] * PIXELS for _ in range(BLANKS)]
    return empty[:blank] + [[int(ink) / 4 for ink in row] for row in INK] + empty[blank:]


def tanh(x: float) -> float:
    """Return the hyperbolic tangent within 1e-15 of it, from what every machine rounds alike.

    It is Lambert's continued fraction of tanh(x / 32), doubled five times.
    """
    if abs(x) > 20:
        return math.copysign(1, x)
    y = x / 32
    q = y * y
    t = y / (1 + q / (3 + q / (5 + q / (7 + q / (9 + q / 11)))))
    for _ in range(5):
        t = 2 * t / (1 + t * t)
    return t


def sigmoid(x: float) -> float:
    """Return the logistic function, likewise."""
    return 0.5 + 0.5 * tanh(0.5 * x)


def step(x: Row, h: Row, c: Row, scale: float, norm: str, eps: float, bias: str) -> Step:
    """Return what one row makes of the state."""
    from_h = [scale * dot(row, h) for row in WEIGHTS.hh]
    from_x = [scale * dot(row, x) for row in WEIGHTS.ih]
    norms = norm != "none"
    hat_h, by_h = normalize(from_h, eps) if norms else (from_h, 1.0)
    hat_x, by_x = normalize(from_x, eps) if norms else (from_x, 1.0)
    b = WEIGHTS.bias if bias == "random" else [0.0] * (4 * SIZE)
    sums = [u + v + w for u, v, w in zip(hat_h, hat_x, b, strict=True)]
    quarters = [sums[k * SIZE : (k + 1) * SIZE] for k in range(4)]
    ways = sigmoid, sigmoid, tanh, sigmoid
    gates = [[way(v) for v in quarter] for way, quarter in zip(ways, quarters, strict=True)]
    i, f, candidate, o = gates
    new = [f[k] * c[k] + i[k] * candidate[k] for k in range(SIZE)]
    n, by_c = normalize(new, eps) if norms else (new, 1.0)
    tanh_n = [tanh(v) for v in n]
    shown = [o[k] * tanh_n[k] for k in range(SIZE)]
    carried = n if norm == "normalized" else new
    divisors = by_h, by_x, by_c
    return Step(x, h, c, from_h, from_x, hat_h, gates, new, n, tanh_n, shown, carried, divisors)


def back(steps: Sequence[Step], scale: float, norm: str) -> list[float]:
    """Return the size of the gradient of each row's 4H sums, from a gradient of the last h."""
    dh, dc, sizes = WEIGHTS.back, [0.0] * SIZE, []
    each = range(SIZE)
    for now in reversed(steps):
        i, f, candidate, o = now.gates
        by_h, _, by_c = now.divisors
        dn = [dh[k] * o[k] * (1 - now.tanh_n[k] * now.tanh_n[k]) for k in each]
        if norm == "normalized":
            dc = back_through([dn[k] + dc[k] for k in each], now.n, by_c)
        else:
            through = back_through(dn, now.n, by_c) if norm == "raw" else dn
            dc = [dc[k] + through[k] for k in each]
        dv = [dc[k] * candidate[k] * i[k] * (1 - i[k]) for k in each]
        dv += [dc[k] * now.c_before[k] * f[k] * (1 - f[k]) for k in each]
        dv += [dc[k] * i[k] * (1 - candidate[k] * candidate[k]) for k in each]
        dv += [dh[k] * now.tanh_n[k] * o[k] * (1 - o[k]) for k in each]
        sizes.append(math.sqrt(dot(dv, dv)))
        da = dv if norm == "none" else back_through(dv, now.hat_h, by_h)
        dh = [scale * dot([row[k] for row in WEIGHTS.hh], da) for k in each]
        dc = [dc[k] * f[k] for k in each]
    return sizes[::-1]


@lru_cache(maxsize=8)
def look(scale: float, norm: str, eps: float, blank: int, bias: str) -> Look:
    """Run over the rows and back, as cell.mjs does, to the last bit."""
    steps: list[Step] = []
    h = c = [0.0] * SIZE
    for x in digit(blank):
        steps.append(step(x, h, c, scale, norm, eps, bias))
        h, c = list(steps[-1].h), list(steps[-1].carried)
    sizes = back(steps, scale, norm)
    return Look(steps, [v / sizes[-1] for v in sizes])


def saturated(gate: float) -> bool:
    """Whether a gate is nearly open or nearly closed: within 0.05 of 1 or of 0."""
    return abs(2 * gate - 1) > 0.9


class CellExplorer(Explorer, files="cell"):
    """One step of an LSTM that reads a small digit row by row, and the gradient back through rows.

    The state has 16 features and each row ten pixels. Weights are PyTorch's first ones, times
    ``scale``; γ is 1, and first state and β are 0. The first row is row 1::

        explorer = CellExplorer(norm="none", scale=8)

    Attributes:
        scale: what all weights are multiplied by, 0.1 to 100, no units; biases are not.
        norm: "raw" (three norms, and the raw cell goes on), "normalized" (what goes on is the
            normalized cell) or "none" (PyTorch's LSTM).
        row: the row whose step is drawn, 1 to 14.
        eps: from 1e-12 to 1, in units of x² where it is added to the variance.
        blank: rows above the digit, 0 to 5; below it are as many as are left of five.
        bias: "random" as PyTorch starts, within ±1/4, or "zero".

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range or no option.
    """

    scale = Number(1.0, low=0.1, high=100.0, unit="no units").tag(sync=True)
    norm = Choice("raw", "normalized", "none").tag(sync=True)
    row = Whole(6, low=1, high=ROWS, things="rows").tag(sync=True)
    eps = Number(1e-5, low=1e-12, high=1.0, unit="units of x²").tag(sync=True)
    blank = Whole(2, low=0, high=BLANKS, things="rows").tag(sync=True)
    bias = Choice("random", "zero").tag(sync=True)

    def look(self) -> Look:
        """Return all steps and gradients for the current traits, in float64."""
        return look(self.scale, self.norm, self.eps, self.blank, self.bias)

    def saturated(self) -> int:
        """Return how many of the row's 48 gates are saturated."""
        i, f, _, o = self.look().steps[self.row - 1].gates
        return sum(map(saturated, i + f + o))

    def carried(self) -> list[Row]:
        """Return the cell that goes on, after each row."""
        return [now.carried for now in self.look().steps]

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        gradients, count = self.look().gradients, self.saturated()
        if max(gradients) >= 1e4:
            return f"The gradient explodes to {number(max(gradients))}"
        if count >= 12:
            return f"{count} of 48 gates are saturated"
        if gradients[0] < 0.01:
            return f"The gradient fades to {number(gradients[0])}"
        if self.norm == "normalized" and min(map(size, self.carried())) > 0.99:
            return "The cell has size 1 at every row"
        return f"{count} of 48 gates are saturated" if count > 1 else "Hardly a gate is saturated"

    def sentence(self) -> str:
        """Tell the numbers of the picture."""
        now, gradient = self.look().steps[self.row - 1], number(self.look().gradients[0])
        sources = ["state"] * any(now.h_before) + ["bias"] * (self.bias == "random")
        start, root = f"At row {self.row}, ", number(math.sqrt(self.eps))
        count, cell = self.saturated(), number(size(now.carried))
        are = "is" if count == 1 else "are"
        known = f"{count} of 48 gates {are} saturated, and the cell goes on with size {cell}"
        if not any(now.x) and sources:
            alone = "state and bias alone set" if sources[1:] else f"the {sources[0]} alone sets"
            start = f"Row {self.row} is blank: {alone} the gates; "
        elif not any(now.x):
            start = f"Row {self.row} is blank, and state and bias are 0: "
            by = "" if self.norm == "none" else f", and each norm divides by √ε = {root}"
            known = f"all gates are half open{by}"
        return f"{start}{known}. Row 1 gets {gradient} times the last row’s gradient."

    def picture(self) -> Figure:
        """Draw what the page shows: the rows of the digit, and a step with what is on its wires."""
        figure = Figure(figsize=(6.4, 3.3), dpi=100)
        figure.text(0.01, 0.95, self.verdict(), fontsize=11)
        ax = figure.add_axes((0, 0, 1, 0.94))
        ax.set(xlim=(0, 640), ylim=(310, 0))
        ax.set_axis_off()
        self._rows(ax)
        self._step(ax)
        return figure

    def _rows(self, ax: Axes) -> None:
        gradients, sizes = self.look().gradients, list(map(size, self.carried()))
        ax.imshow(digit(self.blank), cmap="gray_r", extent=(12, 112, 286, 34), aspect="auto")
        _box(ax, 12, 34, 100, 252)
        _box(ax, 11, 16 + 18 * self.row, 271, 18, color=MOVED, linewidth=1.5)
        powers = [math.log10(max(v, 1e-40)) for v in gradients]
        unit = min(35 / max(2, -min(powers)), 35 / max(2, *powers))
        for middle, lengths, color in (
            (132, [v * 52 / max(1.2, *sizes) for v in sizes], GREEN),
            (242, [v * unit for v in powers], VERMILLION),
        ):
            ax.barh([43 + 18 * r for r in range(ROWS)], lengths, 12.6, middle, color=color)
            ax.plot([middle, middle], [34, 286], color=GRAY, linewidth=0.8)
        now = self.row - 1
        ax.text(12, 29, f"row {self.row}", fontsize=8, color=MOVED)
        ax.text(132, 29, f"size of c\n{number(sizes[now])}", fontsize=8)
        ax.text(206, 29, f"gradient\n× {number(gradients[now])}", fontsize=8)
        ax.text(242, 299, "1", fontsize=8, ha="center")

    def _step(self, ax: Axes) -> None:
        now = self.look().steps[self.row - 1]
        for wire in _WIRES:
            ax.plot(*zip(*wire, strict=True), color=GRAY, linewidth=1, zorder=0)
        for x, name, k in zip(_GATES, ("f", "i", "c̃", "o"), (1, 0, 2, 3), strict=True):
            gate = now.gates[k]
            marked = [j for j, v in enumerate(gate) if k != 2 and saturated(v)]
            _bars(ax, (x - 20, 122, 40, 76), gate, (-1 if k == 2 else 0, 1), GRAY, marked)
            ax.text(x - 20, 118, name, fontsize=9)
        most = max(0.5, *(abs(v) for c in self.carried() for v in c))
        for x, y, state, far, color, name in (
            (308, 48, now.c_before, most, GREEN, "$c_{t-1}$"),
            (594, 48, now.carried, most, GREEN, "$c_t$"),
            (308, 248, now.h_before, 1.0, GRAY, "$h_{t-1}$"),
            (594, 168, now.h, 1.0, GRAY, "$h_t$"),
        ):
            _bars(ax, (x, y - 18, 44, 36), state, (-far, far), color)
            ax.text(x + 22, y - 22, name, fontsize=9, ha="center")
        ax.imshow([list(now.x)], cmap="gray_r", vmin=0, vmax=1, extent=(308, 352, 296, 284))
        ax.set(aspect="auto", xlim=(0, 640), ylim=(310, 0))
        _box(ax, 308, 284, 44, 12, color=MOVED, linewidth=1.5)
        ax.text(330, 280, "$x_t$", fontsize=9, ha="center")
        self._boxes(ax, now.divisors)

    def _boxes(self, ax: Axes, divisors: Sequence[float]) -> None:
        f, _, _, o = _GATES
        signs = [(f, 48, "×"), (_MIXED, 48, "+"), (_MIXED, 92, "×"), (o, 248, "+"), (582, 168, "×")]
        signs += [(366, 248, "$W_h$"), (366, 290, "$W_x$"), (582, 130, "tanh")]
        if self.bias == "random":
            signs += [(o + 24, 248, "b")]
        for x, y, sign in signs:
            ax.text(x, y, sign, **_MIDDLE, bbox={"boxstyle": "round,pad=0.15", "fc": "w"})
        if self.norm == "none":
            return
        cell = (540, 48) if self.norm == "normalized" else (582, 92)
        for (x, y), divisor in zip(((398, 248), (398, 290), cell), divisors, strict=True):
            ax.text(x, y, "N", **_MIDDLE, color="w", bbox={"boxstyle": "round", "fc": SIGMA})
            ax.text(x + 12, y - 5, f"÷ {number(divisor, 2)}", fontsize=8, color=SIGMA)


# Of the picture: the middles of f, i, c̃ and o, where i meets c̃, and lines between places.
_GATES = (406, 452, 498, 544)
_MIXED = (452 + 498) / 2
_WIRES: tuple[tuple[tuple[float, float], ...], ...] = (
    ((352, 48), (594, 48)),
    ((352, 248), (544, 248)),
    ((352, 290), (544, 290), (544, 200)),
    ((406, 200), (406, 218), (544, 218)),
    ((406, 122), (406, 48)),
    ((452, 218), (452, 92), (498, 92), (498, 218)),
    ((_MIXED, 92), (_MIXED, 48)),
    ((544, 168), (594, 168)),
    ((582, 48), (582, 168)),
)
_MIDDLE: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "center"}


def _box(ax: Axes, x: float, y: float, width: float, height: float, **look: Any) -> None:
    ax.add_patch(Rectangle((x, y), width, height, fill=False, **({"color": "0.85"} | look)))


def _bars(
    ax: Axes,
    place: tuple[float, float, float, float],
    values: Row,
    axis: tuple[float, float],
    color: str,
    marked: Sequence[int] = (),
) -> None:
    """Draw ``values`` in a box, on an axis from the least to the most, some of them ``marked``."""
    (x, y, width, height), (least, most) = place, axis
    ax.add_patch(Rectangle((x, y), width, height, facecolor="w", edgecolor="0.85"))
    pitch, unit = width / len(values), height / (most - least)
    zero = y + most * unit
    lefts = [x + (k + 0.5) * pitch for k in range(len(values))]
    ax.bar(lefts, [-v * unit for v in values], pitch, zero, color=color, alpha=0.6)
    for k in marked:
        top = zero - values[k] * unit
        ax.plot([lefts[k] - pitch / 2, lefts[k] + pitch / 2], [top, top], color=VERMILLION)
