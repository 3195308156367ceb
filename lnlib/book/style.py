"""One look for every figure of the book.

A chapter calls ``style.use()`` in its first cell and sets no other rcParams. A cell that draws ends
with ``plt.show()``, so that its output is the picture and not also ``<Figure size ...>`` or
``<matplotlib.lines.Line2D at 0x...>``, an address that is different in every run.

Colors have roles: ``BLUE`` is layer norm, ``VERMILLION`` its rival, ``GREEN`` a third. Blue and
green come close for some eyes, so the three lines also differ in dash:
``ax.plot(x, y, **style.LAYER_NORM)``, ``**style.RIVAL``, ``**style.THIRD``, and ``**style.THEORY``.
What has an area is tinted and has a thin edge: ``ax.barh(place, width, **style.filled(BLUE))``.
Axes, grid and numbers have the grays of the explorers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

__all__ = [
    "AXIS",
    "BLUE",
    "FACE",
    "GREEN",
    "GRID",
    "LAYER_NORM",
    "MUTED",
    "PAGES",
    "PAPER",
    "RIVAL",
    "TEXT",
    "THEORY",
    "THIRD",
    "VERMILLION",
    "WIDTH",
    "darker",
    "figure",
    "filled",
    "label",
    "label_lines",
    "use",
]

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"  # Okabe and Ito
TEXT, PAPER = "#24292f", "#fcfbf8"  # opaque paper: legible on dark pages too
AXIS, MUTED, GRID = "#6e7781", "#57606a", "#d8dee4"  # as in the explorers' common.css
WIDTH = 7.0  # inches; 16 points become 16 px on a desk (book.css), and 11 px on a phone of 390
FACE = Path(__file__).parent / "fonts" / "sans.ttf"  # that of the pages, so that none differs
PAGES = "LNLIB_PAGES"  # set in the environment while the book is built: figures become SVG too

LAYER_NORM: dict[str, Any] = {"color": BLUE, "linestyle": "-"}
RIVAL: dict[str, Any] = {"color": VERMILLION, "linestyle": "-."}
THIRD: dict[str, Any] = {"color": GREEN, "linestyle": ":"}
THEORY: dict[str, Any] = {"color": TEXT, "linestyle": "--", "linewidth": 1.3}

_LINES = (LAYER_NORM, RIVAL, THIRD)
_RC: Any = {
    "font.family": ["LN Sans", "DejaVu Sans"],  # the second ships with matplotlib
    "mathtext.fontset": "dejavusans",
    "font.size": 16,
    "axes.titlesize": 16,
    "axes.labelsize": 16,
    "xtick.labelsize": 16,
    "ytick.labelsize": 16,
    "legend.fontsize": 16,
    "figure.titlesize": 16,
    "figure.labelsize": 16,
    "text.color": TEXT,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": AXIS,
    "xtick.color": AXIS,
    "ytick.color": AXIS,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.prop_cycle": cycler(color=[line["color"] for line in _LINES])
    + cycler(linestyle=[line["linestyle"] for line in _LINES]),
    "lines.linewidth": 1.9,
    "lines.markersize": 6,
    "legend.frameon": False,
    "figure.figsize": (WIDTH, 3.6),
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "lnlib",  # else its ids differ from run to run
}


def use() -> None:
    """Give every later figure the look of the book; calling it again changes nothing.

    It starts from matplotlib's own defaults, so a reader's matplotlibrc has no say. In a notebook,
    figures become PNG at twice the resolution, at exactly the size asked for; SVG as well while
    the book is built.
    """
    mpl.rcdefaults()
    if not any(face.name == "LN Sans" for face in fontManager.ttflist):
        fontManager.addfont(FACE)
    mpl.rcParams.update(_RC)
    ipython = sys.modules.get("IPython")  # if it runs, it is imported
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        from matplotlib_inline.config import InlineBackend

        inline: Any = InlineBackend.instance(parent=shell)
        inline.shell = shell
        inline.print_figure_kwargs = {"bbox_inches": None}  # "tight" would crop to another width
        inline.figure_formats = {"retina", "svg"} if os.environ.get(PAGES) else {"retina"}


def figure(ncols: int = 1, height: float = 3.6, *, nrows: int = 1, **kwargs: Any) -> Any:
    """Return ``plt.subplots(nrows, ncols)`` at the book's width; ``height`` is in inches.

    Other arguments, such as ``sharey=True``, go to ``plt.subplots``.
    """
    layout = _LayoutOfPng() if os.environ.get(PAGES) else "constrained"
    return plt.subplots(nrows, ncols, figsize=(WIDTH, height), layout=layout, **kwargs)


class _LayoutOfPng(ConstrainedLayoutEngine):
    """Gives a figure's SVG, which IPython draws first, the layout of its PNG; that stays."""

    laid = False

    def execute(self, fig: Figure) -> None:
        if self.laid:
            return
        self.laid = True
        canvas, dpi = fig.canvas, fig.dpi
        FigureCanvasAgg(fig)
        fig.set_dpi(200)
        super().execute(fig)
        fig.set_canvas(canvas)
        fig.set_dpi(dpi)


def filled(color: str) -> dict[str, Any]:
    """Return how an area of a color looks: lightly filled, with a thin edge.

    >>> filled(BLUE)["edgecolor"], filled(BLUE)["facecolor"][3]
    ('#0072B2', 0.25)
    """
    return {"facecolor": (*to_rgb(color), 0.25), "edgecolor": color, "linewidth": 1.2}


def label(ax: Axes, line: Line2D, text: str, *, dy: float = 0.0) -> Annotation:
    """Write ``text`` after the last visible point of ``line``, in a darker shade of its color.

    Set the axes' scale and limits first. ``dy`` moves the text up, in points.

    Raises: ValueError if no point of the line is visible.
    """
    x, y = _end(ax, line)
    return ax.annotate(
        text,
        (x, y),
        xytext=(6, dy),
        textcoords="offset points",
        color=darker(line.get_color()),
        va="center",
        annotation_clip=False,
    )


def darker(color: Any) -> str:
    """Return the shade of a color for text, which needs a contrast of 4.5:1.

    >>> darker(BLUE)
    '#00507d'
    """
    red, green, blue = (0.7 * channel for channel in to_rgb(color))
    return to_hex((red, green, blue))


def label_lines(ax: Axes) -> list[Annotation]:
    """Label every line that was drawn with ``label=...`` at its end, instead of a legend.

    Labels that would overlap are moved up, lowest line first.
    """
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    points_per_pixel = 72 / figure.dpi
    room = 1.25 * float(mpl.rcParams["font.size"])
    named = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    ends = [ax.transData.transform(_end(ax, line)) * points_per_pixel for line in named]
    placed: list[tuple[float, float]] = []
    labels = []
    for i in sorted(range(len(named)), key=lambda i: float(ends[i][1])):
        x, y = (float(c) for c in ends[i])
        height = y
        for other_x, other_height in placed:  # lowest first, so one pass is enough
            if abs(x - other_x) < 72 and height < other_height + room:
                height = other_height + room
        placed.append((x, height))
        labels.append(label(ax, named[i], str(named[i].get_label()), dy=height - y))
    return labels


def _end(ax: Axes, line: Line2D) -> tuple[float, float]:
    x, y = (np.asarray(data, dtype=float) for data in line.get_data(orig=False))
    (left, right), (bottom, top) = sorted(ax.get_xlim()), sorted(ax.get_ylim())
    visible = np.flatnonzero((x >= left) & (x <= right) & (y >= bottom) & (y <= top))
    if not visible.size:
        raise ValueError(f"no point of the line {line.get_label()!r} lies inside the axes")
    return float(x[visible[-1]]), float(y[visible[-1]])
