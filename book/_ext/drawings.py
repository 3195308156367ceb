"""Pictures of what the benchmarks recorded, which `drawn` puts into the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from lnlib.book import style
from lnlib.book.records import tables
from lnlib.book.records.tables import recorded

__all__ = ["DRAWINGS"]

Columns = Mapping[str, npt.NDArray[Any]]

FORWARD, BOTH = "forward", "forward and backward"
_OPEN = {"markerfacecolor": style.PAPER}  # of variants
# A color for each way to take the statistics, and a marker for each method that goes that way.
METHODS: dict[str, dict[str, Any]] = {
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
# Blue is lnlib, vermillion the formula as one writes it, green PyTorch.
LOOKS: dict[str, dict[str, Any]] = {
    "lnlib": {"color": style.BLUE, "marker": "o"},
    "lnlib reference": {"color": style.BLUE, "marker": "s", **_OPEN},
    "lnlib compiled": {"color": style.BLUE, "marker": "^", **_OPEN},
    "composed formula": {"color": style.VERMILLION, "marker": "D"},
    "PyTorch": {"color": style.GREEN, "marker": "v"},
    "PyTorch compiled": {"color": style.GREEN, "marker": "v", **_OPEN},
}
GPU_LOOKS: dict[str, dict[str, Any]] = {
    "lnlib": LOOKS["lnlib"],
    "chapter 7": {"color": style.BLUE, "marker": "s", **_OPEN},
    "PyTorch": LOOKS["PyTorch"],
    "torch.compile": LOOKS["PyTorch compiled"],
    "Liger-Kernel": {"color": style.VERMILLION, "marker": "D"},
    "QuACK": {"color": style.VERMILLION, "marker": "D", **_OPEN},
}
PASSES = {
    BOTH: {"color": style.BLUE, "marker": "o"},
    FORWARD: {"color": style.VERMILLION, "marker": "D", **_OPEN},
}


def accuracy() -> Figure:
    """Draw the error of y against mean/std: a panel for each type, a line for each method."""
    dtypes = ("float32", "float64", "float16", "bfloat16")
    rows = tables.rows_of(tables.RESULTS / "accuracy.csv")
    means = list(dict.fromkeys(row["mean_over_std"] for row in rows))
    fig: Figure
    fig, axes = style.figure(height=12, nrows=4, sharex=True)
    for ax, dtype in zip(axes, dtypes, strict=True):
        here = [row for row in rows if row["dtype"] == dtype]
        errors = np.array([float(row["y_over_rounding"]) for row in here])
        top = 10 * np.nanmax(errors)  # where NaN is marked
        ax.set(title=dtype, yscale="log", ylim=(0.4, top), xlim=(-0.3, len(means) - 0.7))
        ax.set_xticks(range(len(means)), [_power(mean) for mean in means])
        for name, look in METHODS.items():
            own = [i for i, row in enumerate(here) if row["method"] == name]
            if not own:  # it does not take the type
                continue
            x = np.array([means.index(here[i]["mean_over_std"]) for i in own])
            failed = np.isnan(errors[own])
            y = np.where(failed, top, errors[own])
            marked = np.flatnonzero(~failed).tolist()
            ax.plot(x, y, label=name, markevery=marked, markersize=8, clip_on=False, **look)
            if failed.any():
                cross = {"color": look["color"], "markersize": 9, "clip_on": False}
                ax.plot(x[failed], y[failed], "X", **cross)
    axes[-1].set_xlabel("mean over standard deviation")
    axes[1].set_ylabel("error of $y$, over one rounding")
    _legend(fig, axes[0])
    return fig


def _power(mean: str) -> str:
    """Return a tick's label; 100 and more as a power of ten."""
    digits = len(mean) - 1
    return f"$10^{digits}$" if digits >= 2 else mean


def speed() -> Figure:
    """Draw the time of each layer norm over PyTorch's: a panel for each pass, a line a shape."""
    panels = {}
    for which in (FORWARD, BOTH):
        table = recorded("speed", **{"pass": which})
        panels[which] = _kept(table, table["provider"] != "PyTorch")
    words = "time over that of PyTorch's layer norm"
    return _compared(panels, "over_torch", words, (1, "PyTorch"), 15, _shapes_and_types)


def gpu() -> Figure:
    """Draw the time on a GPU over that of a copy, for inputs that no cache holds."""
    panels = {}
    for which in (FORWARD, "backward"):
        where = {"pass": which, "dtype": "bfloat16", "regime": "memory"}
        table = recorded("layer_norm", device="NVIDIA H200", **where)
        table = _kept(table, (table["roof_fraction"] != "") & (table["provider"] != "copy"))
        table["over_copy"] = 1 / table["roof_fraction"].astype(float)
        panels[which] = _kept(table, np.lexsort((table["rows"], table["features"])))
    words = "time over that of a copy of as many bytes"
    return _compared(panels, "over_copy", words, (1, "a copy"), 15, looks=GPU_LOOKS)


def memory() -> Figure:
    """Draw the peak memory of each layer norm over the bytes of x: a panel for each type."""
    panels = {}
    for dtype in ("bfloat16", "float32", "float64"):
        table = dict(recorded("memory", dtype=dtype))
        panels[dtype] = table | {"over_x": table["peak_bytes"] / table["bytes_of_x"]}
    words = "most bytes in use in both passes, over those of x"
    return _compared(panels, "over_x", words, (2, "y and dx"), 8.5)


def lstm() -> Figure:
    """Draw the time of each LSTM over `torch.nn.LSTM`'s: a panel for each shape of 64 sequences."""
    table = recorded("lstm", device="cpu", kind="sequences", batch="64")
    panels = {}
    for steps, hidden in dict.fromkeys(zip(table["steps"], table["hidden_size"], strict=True)):
        here = (table["steps"] == steps) & (table["hidden_size"] == hidden)
        kept = _kept(table, here & (table["provider"] != "nn.LSTM"))
        panels[f"{steps:.0f} steps, {hidden:.0f} numbers of state"] = kept
    words, height = "time over that of PyTorch's LSTM", 4 * len(panels)
    mark = 1, "nn.LSTM"
    return _compared(panels, "over_lstm", words, mark, height, _providers, "pass", PASSES)


def _shapes(table: Columns) -> list[str]:
    pairs = zip(table["rows"], table["features"], strict=True)
    return [f"{rows:,.0f} × {features:,.0f}" for rows, features in pairs]


def _shapes_and_types(table: Columns) -> list[str]:
    return [
        shape if dtype == "float32" else f"{shape}\n{dtype}"
        for shape, dtype in zip(_shapes(table), table["dtype"], strict=True)
    ]


def _providers(table: Columns) -> list[str]:
    return list(table["provider"])


def _compared(
    panels: Mapping[str, Columns],
    column: str,
    words: str,
    mark: tuple[float, str],
    height: float,
    lines: Callable[[Columns], list[str]] = _shapes,
    by: str = "provider",
    looks: Mapping[str, Mapping[str, Any]] = LOOKS,
) -> Figure:
    """Draw ``column`` of each table in a panel with its title, and a line with a name in each."""
    fig: Figure
    fig, axes = style.figure(height=height, nrows=len(panels), sharex=True)
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        _compare(ax, table, column, lines(table), by, looks)
        _reference_line(ax, *mark)
        ax.set_title(title, pad=24)
    axes[-1].set_xlabel(words)
    _legend(fig, axes[0])
    return fig


def _compare(
    ax: Axes,
    table: Columns,
    column: str,
    lines: Sequence[str],
    by: str,
    looks: Mapping[str, Mapping[str, Any]],
) -> None:
    """Draw ``column`` of each row in its line, with its quartiles if it has some."""
    places = list(dict.fromkeys(lines))
    names = [name for name in looks if name in table[by]]
    for number, name in enumerate(names):
        kept = _kept(table, table[by] == name)
        y = np.array([places.index(line) for line, each in zip(lines, table[by], strict=True)
                      if each == name], dtype=float)  # fmt: skip
        y += 0.7 * (number + 0.5) / len(names) - 0.35  # beside each other, in the order of looks
        error = _bars(kept, column) if "quartiles" in kept else None
        look = {"linestyle": "none", "markersize": 8, "linewidth": 1.6, **looks[name]}
        ax.errorbar(kept[column], y, xerr=error, label=name, **look)
    for between in range(1, len(places)):
        ax.axhline(between - 0.5, color=style.GRID, linewidth=0.8)
    ax.set(yticks=range(len(places)), yticklabels=places, ylim=(len(places) - 0.5, -0.5))
    ax.set_xscale("log")
    ax.grid(visible=False, axis="y")
    _plain_ticks(ax)


def _bars(table: Columns, column: str) -> npt.NDArray[Any]:
    """Return how far the quartiles are below and above the medians."""
    low, high = np.array([text.split(" to ") for text in table["quartiles"]], dtype=float).T
    return np.array([table[column] - low, high - table[column]])


def _kept(table: Columns, where: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    return {column: values[where] for column, values in table.items()}


def _reference_line(ax: Axes, at: float, name: str) -> None:
    ax.axvline(at, **style.THEORY)
    ax.annotate(name, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 5),
                textcoords="offset points", ha="center")  # fmt: skip


def _plain_ticks(ax: Axes) -> None:
    """Write 0.5, 1, 2, 5, 10, 20 along a logarithmic axis, which has few decades here."""
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _legend(fig: Figure, ax: Axes) -> None:
    """Name the marks above all panels."""
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=2)


# A name that pages use, and what draws it in the look of `lnlib.book.style`.
DRAWINGS: dict[str, Callable[[], Figure]] = {
    "accuracy": accuracy,
    "gpu": gpu,
    "lstm": lstm,
    "memory": memory,
    "speed": speed,
}
