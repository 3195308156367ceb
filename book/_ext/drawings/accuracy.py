"""What `bench_accuracy` recorded: how far each layer norm is from the truth, and where."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnlib.book import style
from lnlib.book.records import tables

__all__ = ["outputs"]

Row = Mapping[str, str]

# Three ways to take the statistics; a marker for each method that goes that way.
_OPEN = {"markerfacecolor": style.PAPER}
LOOKS: dict[str, dict[str, Any]] = {
    "lnlib reference": {**style.LAYER_NORM, "marker": "o"},
    "lnlib cpp": {**style.LAYER_NORM, "marker": "s", **_OPEN},
    "lnlib triton": {**style.LAYER_NORM, "marker": "^"},
    "PyTorch": {**style.RIVAL, "marker": "o"},
    "composed": {**style.RIVAL, "marker": "s", **_OPEN},
    "Flax two-pass": {**style.RIVAL, "marker": "^"},
    "Keras on JAX": {**style.RIVAL, "marker": "v", **_OPEN},
    "ONNX Runtime": {**style.RIVAL, "marker": "D"},
    "one pass": {**style.THIRD, "marker": "o"},
    "Flax": {**style.THIRD, "marker": "s", **_OPEN},
}
DTYPES = {"float32": 4.4, "float64": 4.0, "float16": 2.6, "bfloat16": 2.9}  # panels, in inches
# Ends of lines that are nearer than this share a label: powers of ten, by whether colors differ.
CLOSE = {True: 0.15, False: 1.0}
LINE = 20.0  # points from one name to the next


def outputs() -> Figure:
    """Draw the error of y against mean/std: a panel for each type, a line for each method."""
    rows = tables.rows_of(tables.RESULTS / "accuracy.csv")
    means = list(dict.fromkeys(row["mean_over_std"] for row in rows))
    heights = list(DTYPES.values())
    fig: Figure
    fig, axes = style.figure(
        height=sum(heights), nrows=len(DTYPES), sharex=True, height_ratios=heights
    )
    ends = []
    for ax, dtype in zip(axes, DTYPES, strict=True):
        ends.append(_lines(ax, [row for row in rows if row["dtype"] == dtype], means))
        ax.set_title(dtype)
    axes[-1].set_xlabel("mean over standard deviation")
    fig.supylabel("error of $y$, over that of one rounding")
    fig.draw_without_rendering()  # from here on, it is known how much room there is for labels
    for ax, each in zip(axes, ends, strict=True):
        _label(ax, each, fig.dpi)
    return fig


End = tuple[str, str, int, float]  # of a line: text, color, and where; y is a power of ten


def _lines(ax: Axes, rows: Sequence[Row], means: Sequence[str]) -> list[End]:
    """Draw a line for each method, through marks at the top where it gives NaN."""
    largest = max(float(row["y_over_rounding"]) for row in rows if _is_number(row))
    top = 10 ** (math.log10(largest) * 1.1 + 0.4)  # where NaN is marked
    ax.set(yscale="log", ylim=(0.4, top), xlim=(-0.3, len(means) + 2.6))
    ax.set_xticks(range(len(means)), [_power(mean) for mean in means])
    ax.tick_params(labelbottom=True)
    ends = []
    for name, look in LOOKS.items():
        here = [row for row in rows if row["method"] == name]
        x = [means.index(row["mean_over_std"]) for row in here]
        y = [float(row["y_over_rounding"]) if _is_number(row) else top for row in here]
        failed = [at for at, row in zip(x, here, strict=True) if not _is_number(row)]
        if here:
            numbers = [i for i, at in enumerate(x) if at not in failed]
            ax.plot(x, y, label=name, markevery=numbers, clip_on=False, **look)
            text = f"{name}: NaN" if x[-1] in failed else name
            ends.append((text, look["color"], x[-1], math.log10(y[-1])))
        if failed:
            ax.plot(failed, [top] * len(failed), "X", color=look["color"], ms=9, clip_on=False)
    return ends


def _is_number(row: Row) -> bool:
    return not math.isnan(float(row["y_over_rounding"]))


def _together(ends: Sequence[End]) -> list[list[End]]:
    """Return the ends in groups that share a label: their names would overlap."""
    groups: list[list[End]] = []
    for end in sorted(ends, key=lambda end: end[2:]):
        near = bool(groups) and groups[-1][-1][2] == end[2]
        if near:
            differ = any(other[1] != end[1] for other in groups[-1])
            near = end[3] - groups[-1][-1][3] < CLOSE[differ]
        if near:
            groups[-1].append(end)
        else:
            groups.append([end])
    return groups


def _label(ax: Axes, ends: Sequence[End], dpi: float) -> None:
    """Name the lines at their ends, from the lowest up, each above the one before."""
    free = ax.bbox.y0 * 72 / dpi
    for group in _together(ends):
        text = _names(group)
        at = group[0][2], 10 ** ((group[0][3] + group[-1][3]) / 2)
        height = LINE * (text.count("\n") + 1)
        wanted = ax.transData.transform(at)[1] * 72 / dpi - height / 2
        bottom = max(wanted, free)
        free = bottom + height
        label = ax.annotate(
            text,
            at,
            xytext=(9, bottom - wanted),
            textcoords="offset points",
            color=_ink(group),
            va="center",
            linespacing=1.05,
            annotation_clip=False,
        )
        label.set_in_layout(False)


def _names(group: Sequence[End]) -> str:
    """Return a name a line or, where lines of several colors end together, a list of names."""
    names = sorted((text for text, *_ in group), key=_place)
    if len({color for _, color, *_ in group}) == 1:
        return "\n".join(names)
    whole = [name.replace(" ", "\N{NO-BREAK SPACE}") for name in names]
    return textwrap.fill(", ".join(whole), 32)


def _ink(group: Sequence[End]) -> Any:
    """Return the color of the lines, darker since text needs 4.5:1; or of text, if they differ."""
    colors = {color for _, color, *_ in group}
    return style.darker(*colors) if len(colors) == 1 else style.TEXT


def _place(label: str) -> int:
    return list(LOOKS).index(label.removesuffix(": NaN"))


def _power(mean: str) -> str:
    """Return a tick's label; 100 and more as a power of ten."""
    digits = len(mean) - 1
    return f"$10^{digits}$" if digits >= 2 else mean
