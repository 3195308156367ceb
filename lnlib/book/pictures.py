"""Drawings that more than one chapter uses, or that are too long for a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from lnlib.book import style

Array = npt.NDArray[Any]


def shared_cells(
    ax: Axes, title: str, *, color: str, rows: Sequence[int] = (), columns: Sequence[int] = ()
) -> None:
    """Draw a batch of 4 samples by 6 features and fill the cells that share one mean."""
    cells = np.zeros((4, 6))
    cells[list(rows), :] = 1
    cells[:, list(columns)] = 1
    ax.pcolormesh(cells, cmap=ListedColormap([style.PAPER, color]), edgecolor=style.TEXT, lw=0.8)
    ax.set(title=title, xlabel="features", ylabel="samples", aspect="equal", xticks=[], yticks=[])
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


def band(
    ax: Axes, curve: Mapping[str, Array], column: str, name: str, look: Mapping[str, Any]
) -> None:
    """Draw a recorded mean over the training steps, with its interval as a band around it."""
    steps, mean, half = curve["step"], curve[column], curve[f"{column}_pm"]
    ax.plot(steps, mean, label=name, **look)
    ax.fill_between(steps, mean - half, mean + half, color=look["color"], alpha=0.25, linewidth=0)
