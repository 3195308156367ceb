"""Drawings that more than one chapter uses, or that are too long for a cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from lnlib.book import style


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
