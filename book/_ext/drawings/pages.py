"""What `bench_book` recorded: what a page weighs, and how soon an explorer moves by each route."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lnlib.book import style
from lnlib.book.records.tables import recorded

__all__ = ["loads", "weight"]

ROUTES: dict[str, dict[str, Any]] = {
    "this book": {"color": style.BLUE, "marker": "o"},
    "stock Jupyter Book": {"color": style.VERMILLION, "marker": "D", "markerfacecolor": "none"},
}
STEPS = {"painted": "first text", "live": "explorer shown", "moved": "first move shown"}


def loads() -> Figure:
    """Draw when the first text, the explorer and its first move are on the screen, in seconds.

    A panel for each network. A mark is the median over the loads, a bar its quartiles.
    """
    table = recorded("book_loads", unit="ms")
    networks = list(dict.fromkeys(table["network"]))
    fig: Figure
    fig, axes = style.figure(height=1.2 + 2.4 * len(networks), nrows=len(networks))
    for ax, network in zip(axes, networks, strict=True):
        for number, (route, look) in enumerate(ROUTES.items()):
            kept = (table["network"] == network) & (table["route"] == route)
            for line, step in enumerate(STEPS):
                where = kept & (table["what"] == step)
                if not where.any():
                    continue
                low, middle, high = (
                    table[column][where][0] / 1000 for column in ("low", "value", "high")
                )
                ax.errorbar(
                    middle,
                    line + 0.3 * number - 0.15,
                    xerr=[[middle - low], [high - middle]],
                    linestyle="none",
                    markersize=8,
                    label=route if line == 0 else None,
                    **look,
                )
        ax.set(yticks=range(len(STEPS)), yticklabels=STEPS.values(), ylim=(len(STEPS) - 0.5, -0.5))
        ax.set_xlim(left=0)
        ax.grid(visible=False, axis="y")
        ax.set_title(network)
    axes[-1].set_xlabel("seconds after the page was asked for")
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return fig


def weight() -> Figure:
    """Draw the bytes that each page loads, as a server that compresses sends them, in megabytes."""
    table = recorded("book", what="page compressed")
    order = np.argsort(-table["value"], kind="stable")
    values = table["value"][order] / 1e6
    fig: Figure
    fig, ax = style.figure(height=1.0 + 0.32 * len(values))
    ax.barh(range(len(values)), values, height=0.6, color=style.BLUE)
    names = [name.rsplit("/", 1)[-1] for name in table["subject"][order]]
    ax.set(yticks=range(len(values)), yticklabels=names, ylim=(len(values) - 0.5, -0.5))
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("megabytes sent for a first visit, compressed")
    return fig
