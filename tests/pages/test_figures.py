"""Figures as SVG in the theme's colors; what pages show of them is in test_pages.py."""

from __future__ import annotations

import io

import figures
import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from test_pages import fixed_colors

from lnlib.book import style


def drawn(**colors: str) -> str:
    """Return a figure with a line of each color, as matplotlib saves it."""
    with mpl.rc_context():
        style.use()
        fig, ax = style.figure(height=2)
        for name, color in colors.items():
            ax.plot([0, 1], [0, 1], color=color, label=name)
        stream = io.StringIO()
        fig.savefig(stream, format="svg")
        plt.close(fig)
    return stream.getvalue()


def test_no_color_is_fixed_and_the_light_ones_are_those_drawn() -> None:
    svg = figures.inline(drawn(layer=style.BLUE, other="#123456"), "words")
    assert fixed_colors(svg) == []
    assert "var(--ln-c123456,#123456)" in svg
    assert f"--ln-c0072b2:{figures.dark('#0072b2')};" in svg
    assert fixed_colors(svg.replace("var(--pst-color-background)", "#ffffff")) != []


def test_what_is_dark_becomes_light_and_keeps_its_hue() -> None:
    for color in ("#000000", style.TEXT.lower(), "#0a2a6a"):
        assert sum(to_rgb(figures.dark(color))) > 1.5
    for color in ("#ffffff", "#fff8e0", "#bfe0f5"):
        assert sum(to_rgb(figures.dark(color))) < 1
    red, green, blue = to_rgb(figures.dark("#bfe0f5"))
    assert red < green < blue
