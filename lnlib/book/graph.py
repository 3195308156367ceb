"""The dependency graph of layer norm: what is made of what, drawn for chapter 05."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes

from lnlib.book import style

__all__ = ["ARROWS", "graph"]

Arrow = tuple[str, str]  # from what is used to what is made of it

ARROWS: tuple[Arrow, ...] = (
    ("x", "m"),
    ("x", "mu"),
    ("m", "mu"),
    ("mu", "v"),
    ("v", "sigma"),
    ("mu", "y"),
    ("sigma", "y"),
    ("gamma", "y"),
    ("beta", "y"),
    ("y", "l"),
)

# Where each quantity stands, and how it is written.
_NODES = {
    "x": ((0.0, 0.0), "x_{bh}"),
    "m": ((1.0, 1.0), "m_b"),
    "mu": ((2.0, 0.0), r"\mu_{bh}"),
    "v": ((3.0, 1.0), "v_b"),
    "sigma": ((4.1, 1.0), r"\sigma_b"),
    "y": ((5.1, 0.0), "y_{bh}"),
    "l": ((6.4, 0.0), "l"),
    "gamma": ((4.5, -1.0), r"\gamma_h"),
    "beta": ((5.7, -1.0), r"\beta_h"),
}
_DIAMETER = 36  # points


def graph(ax: Axes, highlight: Iterable[Arrow] = ()) -> None:
    """Draw the graph on ``ax``, arrows in the direction of the forward pass.

    Args:
        ax: its frame, ticks and grid are taken away.
        highlight: the arrows to draw thick and blue, such as ``[("x", "m")]``.

    Raises: ValueError if the graph has no such arrow.
    """
    chosen = set(highlight)
    if unknown := chosen - set(ARROWS):
        raise ValueError(f"the graph has no arrow {min(unknown)}; it has {ARROWS}")
    ax.set_axis_off()
    ax.set(xlim=(-0.4, 6.8), ylim=(-1.5, 1.5))
    for arrow in ARROWS:
        _draw_arrow(ax, arrow, thick=arrow in chosen)
    for place, name in _NODES.values():
        ax.plot(
            *place,
            "o",
            markersize=_DIAMETER,
            markerfacecolor=style.PAPER,
            markeredgecolor=style.TEXT,
            markeredgewidth=1.2,
        )
        ax.text(*place, f"${name}$", fontsize=16, ha="center", va="center_baseline")


def _draw_arrow(ax: Axes, arrow: Arrow, *, thick: bool) -> None:
    (start, _), (end, _) = (_NODES[name] for name in arrow)
    look = {"arrowstyle": "-|>", "shrinkA": _DIAMETER / 2, "shrinkB": _DIAMETER / 2 + 1}
    color, width, head = (style.BLUE, 3.5, 22) if thick else (style.TEXT, 1.2, 14)
    ax.annotate(
        "", end, start, arrowprops={**look, "color": color, "lw": width, "mutation_scale": head}
    )
