"""Figures in the pages: SVG in the theme's colors, small, with text that can be read on a phone."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import Any

import figures
import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from digests import notebooks
from matplotlib.colors import to_rgb

from lnlib.book import style
from lnlib.book.home import ROOT

SHOWN = re.compile(r'<svg class="ln-figure".*?</svg>', re.DOTALL)
# A text of 16 points is drawn from outlines of 100; axes may use two sizes, indices are smaller.
SIZE = re.compile(r'<g style="[^"]*" transform="translate\([^)]*\)[^"]*scale\((0\.\d+) -0')
LARGEST = 60_000  # bytes, compressed
PAGES = sorted([*notebooks(ROOT), ROOT / "book" / "benchmarks.md"])
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


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


def shown(site: Path, path: Path) -> list[str]:
    html = site / path.relative_to(ROOT).with_suffix(".html")
    return SHOWN.findall(html.read_text(encoding="utf8"))


def fixed_colors(svg: str) -> list[str]:
    """Return the colors of a figure that stay as they are on a dark page."""
    follows = r'<style>.*?</style>|var\([^)]*\)|<image[^>]*>|aria-label="[^"]*"'
    without = re.sub(follows, "", svg, flags=re.DOTALL)
    return re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgb\([^)]*\)|\b(?:white|black)\b", without)


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


def test_two_figures_of_a_page_share_no_id_and_one_is_always_the_same() -> None:
    one, other = (figures.inline(drawn(line=color), "") for color in ("#111111", "#222222"))
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (one, other)]
    assert all(ids)
    assert not ids[0] & ids[1]
    assert all(
        name in ids[0] for name in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', one)[0] if name
    )
    assert one == figures.inline(drawn(line="#111111"), "")


@page
def test_figures_of_a_page_are_in_it_with_words_and_small(site: Path, path: Path) -> None:
    for svg in shown(site, path):
        assert len(re.findall(r'aria-label="([^"]+)"', svg)[0].split()) >= 10
        assert fixed_colors(svg) == []
        assert len(gzip.compress(svg.encode())) < LARGEST


@page
def test_text_of_a_figure_can_be_read_on_a_phone(site: Path, path: Path) -> None:
    for svg in shown(site, path):
        sizes = [float(size) for size in SIZE.findall(svg)]
        width = float(re.findall(r'viewBox="0 0 ([\d.]+)', svg)[0])
        assert sizes
        assert 100 * min(sizes) * 350 / width >= 11, (min(sizes), svg[:300])  # px on one of 390


def test_every_picture_of_matplotlib_is_inline(site: Path) -> None:
    counted = 0
    for path in notebooks(ROOT):
        html = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf8")
        without = re.sub(r'<div class="ln-fallback.*?</div>', "", html, flags=re.DOTALL)
        assert not re.findall(r'<img[^>]*src="[^"]*_images/[^"]*\.(?:png|svg)"', without), path.stem
        counted += len(SHOWN.findall(html))
    assert counted > 30


def test_a_figure_turns_dark_with_the_page(reader: Any) -> None:
    page = reader(color_scheme="light").open("notebooks/01_formula.html")
    paper = "getComputedStyle(document.querySelector('svg.ln-figure path')).fill"
    light = page.evaluate(paper)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert page.evaluate(paper) != light
    assert page.evaluate(paper) == page.evaluate("getComputedStyle(document.body).backgroundColor")
