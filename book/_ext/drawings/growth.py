"""What `bench_growth` recorded: time and memory against size, on logarithmic axes, with slopes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lnlib.book import style
from lnlib.book.records.tables import recorded

__all__ = ["lstm", "memory", "time"]

_OPEN = {"markerfacecolor": style.PAPER}
LAYER_NORMS: dict[str, dict[str, Any]] = {
    "lnlib": {**style.LAYER_NORM, "marker": "o"},
    "lnlib reference": {"color": style.BLUE, "linestyle": "--", "marker": "s", **_OPEN},
    "composed formula": {**style.RIVAL, "marker": "D"},
    "PyTorch": {**style.THIRD, "marker": "v"},
}
LSTMS: dict[str, dict[str, Any]] = {
    "lnlib": LAYER_NORMS["lnlib"],
    "naive loop": LAYER_NORMS["composed formula"],
    "nn.LSTM": LAYER_NORMS["PyTorch"],
}
WHILE = {  # what stays, while the size on the axis grows
    ("layer norm", "rows"): "rows of 768 features",
    ("layer norm", "features"): "features, in 257 rows",
    ("LSTM", "steps"): "steps of 8 sequences, with 32 numbers of state",
    ("LSTM", "sequences"): "sequences of 8 steps, with 32 numbers of state",
    ("LSTM", "numbers of state"): "numbers of state, for 16 sequences of 4 steps",
}


def time() -> Figure:
    """Draw the time of both passes of each layer norm against rows, and against features."""
    return _growth("layer norm", "ms", "time_slope", "time in ms", LAYER_NORMS)


def memory() -> Figure:
    """Draw the peak memory of both passes of each layer norm against rows, and features."""
    return _growth("layer norm", "peak_bytes", "memory_slope", "peak in bytes", LAYER_NORMS)


def lstm() -> Figure:
    """Draw the time of both passes of each LSTM against steps, sequences and numbers of state."""
    return _growth("LSTM", "ms", "time_slope", "time in ms", LSTMS)


def _growth(
    what: str, column: str, slope: str, axis: str, looks: Mapping[str, Mapping[str, Any]]
) -> Figure:
    panels = {along: text for (each, along), text in WHILE.items() if each == what}
    fig: Figure
    fig, axes = style.figure(height=4.2 * len(panels), nrows=len(panels))
    for ax, (along, text) in zip(axes, panels.items(), strict=True):
        table = recorded("growth", what=what, along=along)
        for name, look in looks.items():
            here = table["provider"] == name
            if here.any():
                label = f"{name}: {table[slope][here][0]:.2f}"
                ax.plot(table["size"][here], table[column][here], label=label, **look)
        ax.set(xscale="log", yscale="log", xlabel=text, ylabel=axis)
        _theory(ax, table["size"], table[column], power=2 if along == "numbers of state" else 1)
        style.label_lines(ax)
    axes[0].set_title("name: slope at the large end")
    return fig


def _theory(ax: Axes, sizes: Any, values: Any, power: int) -> None:
    """Draw a line of slope ``power``, below all others and ending where they end."""
    ends = np.array([max(sizes) / 10 ** (2 / power), max(sizes)])
    lowest = min(values[sizes == max(sizes)]) / 2
    ax.plot(ends, lowest * (ends / ends[-1]) ** power, label=f"slope {power}", **style.THEORY)
