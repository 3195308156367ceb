"""Drawings that more than one chapter uses, or that are too long for a cell."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from torch import Tensor

from lnlib.book import style

Array = npt.NDArray[Any]


def shared_cells(
    ax: Axes, title: str, *, color: str, rows: Sequence[int] = (), columns: Sequence[int] = ()
) -> None:
    """Draw a batch of 4 samples by 6 features and fill the cells that share one mean."""
    cells = np.zeros((4, 6))
    cells[list(rows), :] = 1
    cells[:, list(columns)] = 1
    tint = style.filled(color)["facecolor"]
    ax.pcolormesh(cells, cmap=ListedColormap([style.PAPER, tint]), edgecolor=style.AXIS, lw=0.8)
    whole = [Rectangle((0, row), 6, 1) for row in rows] + [Rectangle((c, 0), 1, 4) for c in columns]
    for frame in whole:
        ax.add_patch(frame).set(fill=False, edgecolor=color, linewidth=2)
    ax.set(title=title, xlabel="features", ylabel="samples", aspect="equal", xticks=[], yticks=[])
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


def roofline(
    ax: Axes, bandwidth: float, rate: float, work: Mapping[str, tuple[float, str]]
) -> None:
    """Draw how fast a GPU can compute at most, against how much it computes with each byte.

    Args:
        ax: where.
        bandwidth: bytes a second between memory and GPU.
        rate: operations a second.
        work: name -> operations a byte, which is marked on the roof, and where its name stands,
            "left", "right" or "below" it.
    """
    ridge = rate / bandwidth
    intensity = np.array([0.2, ridge, 200.0])
    ax.plot(intensity, np.minimum(intensity * bandwidth, rate) / 1e12, **style.THEORY)
    places = {"left": ((-9, 6), "right"), "right": ((9, -6), "left"), "below": ((9, -22), "left")}
    for name, (x, side) in work.items():
        y = min(x * bandwidth, rate) / 1e12
        ax.plot(x, y, "o", color=style.BLUE)
        away, at = places[side]
        ax.annotate(name, (x, y), away, textcoords="offset points", ha=at, va="center")
    ax.axvline(ridge, ymin=0.87, color=style.TEXT, linewidth=0.8)
    ax.text(ridge / 1.1, 150, "memory decides", ha="right", va="center")
    ax.text(ridge * 1.1, 150, "computing decides", va="center")
    ax.set(xscale="log", yscale="log", xlim=(0.2, 200), ylim=(0.8, 200))
    ax.set(xlabel="operations a byte", ylabel="trillion operations a second")


def hierarchy(ax: Axes, levels: Mapping[str, tuple[str, str, str]], chips: int) -> None:
    """Draw where a GPU keeps numbers: two places in each multiprocessor, and two for all of them.

    Args:
        ax: as wide as the figure; the drawing is in inches, so that text has its size.
        levels: name -> size, latency and speed in words, from the fastest to the largest.
        chips: how many multiprocessors there are.
    """
    width, columns = 3.25, (4.25, 5.85)
    for shift in (0.16, 0.08, 0.0):  # one multiprocessor, and the others behind it
        corner = (0.02 + shift, 1.5 + shift)
        card = Rectangle(corner, width + 0.16, 1.72, fc=style.PAPER, ec=style.AXIS, lw=1)
        ax.add_patch(card)
    ax.text(0.12, 2.98, f"{chips} multiprocessors, each:", va="center")
    for x, title in zip(columns, ("latency", "speed"), strict=True):
        ax.text(x, 2.98, title, ha="center", va="center")
    colors = (style.BLUE, style.BLUE, style.GREEN, style.VERMILLION)
    heights = (2.5, 1.9, 1.1, 0.35)
    for (name, words), y, color in zip(levels.items(), heights, colors, strict=True):
        ax.add_patch(Rectangle((0.1, y - 0.24), width, 0.48, **style.filled(color)))
        size, *beside = words
        ax.text(0.22, y, name, va="center")
        ax.text(width, y, size, va="center", ha="right")
        for x, text in zip(columns, beside, strict=True):
            ax.text(x, y, text, ha="center", va="center")
    ax.set(xlim=(0, style.WIDTH - 0.3), ylim=(0, 3.45), aspect="equal")
    ax.axis("off")


# --- one part of a block ------------------------------------------------------------------------

_GAP, _ROW, _BOX, _DOT = 0.34, 0.66, 0.42, 0.16  # inches: an arrow, between rows, a box, a sign
_SIGNS = {ast.Add: "+", ast.Mult: "×"}
_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ"}


def draw_block(ax: Axes, place: Callable[..., Tensor], title: str) -> None:
    """Draw one part of a block from its line of code, so that the two cannot differ.

    A function becomes a box, a norm one in the color of layer norm, and a sum or a product a
    circle. What is used twice is a wire that forks; ``x`` has a thick one. What is computed beside
    the block, such as a gate, enters from below.

    Args:
        ax: as wide as the figure; the drawing is in inches, so that text has its size.
        place: a function that returns an expression of ``+``, ``*``, names and calls.
        title: above the drawing, before the line.
    """
    text = textwrap.dedent(inspect.getsource(place))
    (line,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Return))
    assert line.value is not None
    block = _Block(ax, line.value)
    end = block.put(line.value, 0)
    block.arrow([(end, 0), (end + _GAP, 0)])
    block.write("y", end + _GAP + 0.12, 0)
    ax.set(xlim=(0, style.WIDTH - 0.2), ylim=(-_ROW * block.rows + 0.34, 0.32), aspect="equal")
    ax.set_anchor("W")
    ax.set_title(f"{title}:  {ast.unparse(line.value)}")
    ax.axis("off")


class _Block:
    """A drawing that grows from left to right; each branch has a row of its own."""

    def __init__(self, ax: Axes, line: ast.expr) -> None:
        self.ax, self.rows, self.written = ax, 1, 0.0
        names = [node.id for node in ast.walk(line) if isinstance(node, ast.Name)]
        self.once = {name for name in names if names.count(name) == 1}
        self.stream = 0 if "x" in names else None  # its row
        self.ends: dict[str, tuple[float, int]] = {}

    def put(self, node: ast.expr, row: int) -> float:
        """Draw what ``node`` computes along a row, and return where it ends."""
        self.rows = max(self.rows, row + 1)
        if (key := ast.dump(node)) in self.ends:  # a wire that forks
            end, above = self.ends[key]
            end += 0.14
            self.wire([(end, above), (end, row)], 1.4)
        elif isinstance(node, ast.Name):
            self.write(node.id, 0.15, row)
            end = 0.3
        elif isinstance(node, ast.Call):
            end = self.box(node, row)
        else:
            assert isinstance(node, ast.BinOp)
            end = self.sign(node, row)
        self.ends.setdefault(key, (end, row))
        return end

    def box(self, node: ast.Call, row: int) -> float:
        rows = [row, *range(self.rows, self.rows + len(node.args) - 1)]
        ends = [self.put(value, at) for value, at in zip(node.args, rows, strict=True)]
        name = ast.unparse(node.func).split(".")[-1]
        left, width = max(ends) + _GAP, 0.24 + 0.125 * len(name)
        for end, at in zip(ends, rows, strict=True):
            self.arrow([(end, at), (left, at)])
        bottom, height = -_ROW * rows[-1] - _BOX / 2, _ROW * (rows[-1] - row) + _BOX
        edge = style.BLUE if name == "norm" else style.TEXT
        wide = 2.6 if name == "norm" else 1.2
        at = Rectangle((left, bottom), width, height, fc=style.PAPER, ec=edge, lw=wide, zorder=3)
        self.ax.add_patch(at)
        color = style.darker(edge) if name == "norm" else edge
        self.write(name, left + width / 2, (row + rows[-1]) / 2, color=color)
        return left + width

    def sign(self, node: ast.BinOp, row: int) -> float:
        """Draw a sum or a product: of two branches, or of one and what enters from below."""
        beside = next((each for each in (node.left, node.right) if self.enters(each)), None)
        branch = node.right if beside is node.left else node.left
        end = self.put(branch, row)
        if beside is None:
            lower = self.rows
            other = self.put(node.right, lower)
            x = max(end, other) + _GAP + _DOT
            self.arrow([(other, lower), (x, lower), (x, row + _DOT / _ROW)])
        else:
            self.rows = max(self.rows, row + 2)
            text = ast.unparse(beside)
            half = 0.06 * len(text)
            x = max(end + _GAP + _DOT, self.written + half + 0.12)
            self.written = x + half
            self.write(_GREEK.get(text, text), x, row + 0.9)
            self.arrow([(x, row + 0.62), (x, row + _DOT / _ROW)])
        self.arrow([(end, row), (x - _DOT, row)])
        self.ax.add_patch(Circle((x, -_ROW * row), _DOT, fc=style.PAPER, ec=style.TEXT, zorder=3))
        self.ax.text(x, -_ROW * row, _SIGNS[type(node.op)], ha="center", va="center", zorder=4)
        return x + _DOT

    def enters(self, node: ast.expr) -> bool:
        """Say whether an operand comes from beside: it is computed from what is used once."""
        inside = list(ast.walk(node))
        names = {each.id for each in inside if isinstance(each, ast.Name)}
        return names <= self.once and not any(isinstance(each, ast.Call) for each in inside)

    def arrow(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw a wire through points of (inches, row), with its head at the last."""
        (x, row), (to_x, to_row) = points[-2:]
        self.wire(points, 2.8 if row == to_row == self.stream else 1.4)
        head = {"arrowstyle": "-|>", "color": style.TEXT, "lw": 0, "mutation_scale": 14}
        head |= {"shrinkA": 0, "shrinkB": 0}
        self.ax.annotate("", (to_x, -_ROW * to_row), (x, -_ROW * row), arrowprops=head)

    def wire(self, points: Sequence[tuple[float, float]], width: float) -> None:
        x, row = np.transpose(points)
        self.ax.plot(x, -_ROW * row, color=style.TEXT, lw=width, ls="-", solid_joinstyle="miter")

    def write(self, text: str, x: float, row: float, color: str = style.TEXT) -> None:
        """Write a word whose small letters have their middle at a row."""
        self.ax.text(x, -_ROW * row - 0.06, text, color=color, ha="center", zorder=4)


# --- a small graph ------------------------------------------------------------------------------


def draw_graph(
    ax: Axes,
    boxes: Mapping[str, tuple[float, float]],
    arrows: Iterable[tuple[str, str]],
    lost: Iterable[tuple[str, str]] = (),
) -> None:
    """Draw what is computed from what, in the style of the explorers.

    Args:
        ax: as wide as the figure; the drawing is in inches, so that text has its size.
        boxes: what stands in a box -> where its middle is.
        arrows: from one box to another.
        lost: arrows that are missing: dashed, with a cross on a disc.
    """
    drawn = {}
    for text, (x, y) in boxes.items():
        width, height = 0.3 + 0.125 * len(text), 0.48
        at = (x - width / 2, y - height / 2)
        drawn[text] = FancyBboxPatch(
            at, width, height, "round,pad=0,rounding_size=0.08", fc=style.PAPER, ec=style.AXIS
        )
        ax.add_patch(drawn[text])
        ax.text(x, y - 0.01, text, ha="center", va="center")
    whole, missing = (style.AXIS, "-"), (style.VERMILLION, "--")
    every = [(pair, *whole) for pair in arrows] + [(pair, *missing) for pair in lost]
    for (start, end), color, dash in every:
        arrow = FancyArrowPatch(
            boxes[start],
            boxes[end],
            patchA=drawn[start],
            patchB=drawn[end],
            arrowstyle="-|>",
            mutation_scale=16,
            color=color,
            linestyle=dash,
            lw=1.6,
        )
        ax.add_patch(arrow)
        if color == style.VERMILLION:
            (x, y), (to_x, to_y) = boxes[start], boxes[end]
            middle = (x + to_x) / 2, (y + to_y) / 2
            ax.plot(*middle, "o", color=color, mfc=style.PAPER, markersize=17, zorder=3)
            ax.plot(*middle, "x", color=color, zorder=4)
    ax.set(xlim=(0, style.WIDTH - 0.2), aspect="equal")
    ax.axis("off")
