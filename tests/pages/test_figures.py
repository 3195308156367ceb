"""Figures as SVG in the theme's colors; what pages show of them is in test_pages.py."""

from __future__ import annotations

import figures
from matplotlib.colors import to_rgb

from lnlib.book import style


def test_what_is_dark_becomes_light_and_keeps_its_hue() -> None:
    for color in ("#000000", style.TEXT.lower(), "#0a2a6a"):
        assert sum(to_rgb(figures.dark(color))) > 1.5
    for color in ("#ffffff", "#fff8e0", "#bfe0f5"):
        assert sum(to_rgb(figures.dark(color))) < 1
    red, green, blue = to_rgb(figures.dark("#bfe0f5"))
    assert red < green < blue
