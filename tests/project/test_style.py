"""Every figure of the book has one look, whoever draws it and wherever."""

import re
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from fontTools.ttLib import TTFont

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont

from lnlib.book import style
from lnlib.book.home import ROOT


@pytest.fixture(autouse=True)
def _own_figures():
    with mpl.rc_context():
        style.use()
        yield
        plt.close("all")


def contrast(a, b):
    """WCAG 2 contrast ratio of two colors."""

    def luminance(color):
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)
        ]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lines_stand_out_from_the_paper_and_text_more_so():
    for color in style.BLUE, style.VERMILLION, style.GREEN:
        assert contrast(color, style.PAPER) >= 3
        assert contrast(style.darker(color), style.PAPER) >= 4.5  # of a label
        area = style.filled(color)
        *tint, alpha = area["facecolor"]
        seen = alpha * np.array(tint) + (1 - alpha) * np.array(to_rgb(style.PAPER))
        assert contrast(style.TEXT, seen) >= 7
        assert contrast(area["edgecolor"], seen) >= 2.3
    assert contrast(style.TEXT, style.PAPER) >= 7
    assert contrast(style.MUTED, style.PAPER) >= 4.5  # numbers at the axes, and their names
    assert contrast(style.GRID, style.PAPER) < contrast(style.AXIS, style.PAPER) < 4.6


def test_explorers_have_the_colors_of_the_figures() -> None:
    css = (ROOT / "lnlib/book/explorers/common.css").read_text(encoding="utf8")
    light = dict(re.findall(r"--ln-([a-z-]+): (#\w+)", css.split("}")[0]))
    colors = {"blue": style.BLUE, "vermillion": style.VERMILLION, "green": style.GREEN}
    for name, color in colors.items():
        assert light[name] == color.lower()


def test_text_is_at_least_16_points():
    fig, ax = style.figure()
    (line,) = ax.plot([0, 1], [0, 1], label="line")
    texts = [ax.set_title("t", loc="left"), ax.set_xlabel("x"), ax.set_ylabel("y")]
    texts += ax.get_xticklabels() + ax.get_yticklabels() + ax.legend().get_texts()
    texts += [style.label(ax, line, "end"), ax.text(0, 0, "t"), fig.suptitle("s")]
    assert len(texts) > 10
    assert min(text.get_fontsize() for text in texts) >= 16


def test_the_font_is_the_one_that_the_book_ships():
    assert mpl.rcParams["font.family"] == ["LN Sans", "DejaVu Sans"]
    assert findfont("LN Sans") == str(style.FACE)
    glyphs = TTFont(style.FACE)
    outlines = {letter: glyphs["glyf"][glyphs.getBestCmap()[ord(letter)]] for letter in "lI"}
    assert len(outlines["l"].coordinates) > len(outlines["I"].coordinates) == 4  # l has a tail
    assert (style.FACE.parent / "LICENSE-Inter").read_text(encoding="utf8").startswith("Copyright")


def test_using_it_twice_is_using_it_once_and_removes_what_others_set():
    once = dict(mpl.rcParams)
    mpl.rcParams["lines.marker"] = "x"  # as a reader's matplotlibrc might
    style.use()
    assert dict(mpl.rcParams) == once
    mpl.rcdefaults()
    assert dict(mpl.rcParams) != once


def test_lines_differ_in_dash_as_well_as_color_and_theory_is_dashed():
    _, ax = style.figure()
    look = lambda line: (line.get_color(), line.get_linestyle())  # noqa: E731
    roles = (style.LAYER_NORM, style.RIVAL, style.THIRD, style.THEORY)
    looks = [look(ax.plot([0, 1], [5, 5], **role)[0]) for role in roles]
    assert looks[-1] == (style.TEXT, "--")
    assert [color for color, _ in looks[:3]] == [style.BLUE, style.VERMILLION, style.GREEN]
    assert len({dash for _, dash in looks}) == 4
    fresh = style.figure()[1]
    assert [look(fresh.plot([0, 1], [i, i])[0]) for i in range(3)] == looks[:3]


def test_a_label_sits_at_the_last_visible_point_and_a_line_out_of_sight_has_none():
    _, ax = style.figure()
    (line,) = ax.plot([0, 1, 2, 3, 4], [0, 1, 2, 9, float("nan")], color=style.GREEN, label="far")
    ax.set_ylim(0, 5)
    text = style.label(ax, line, "group norm")
    assert (text.get_text(), text.xy) == ("group norm", (2, 2))
    assert text.get_color() == style.darker(style.GREEN)
    ax.set_ylim(20, 30)
    with pytest.raises(ValueError, match="'far'"):
        style.label(ax, line, "far")


@pytest.mark.parametrize("ends", [(1.0, 1.01, 1.02), (1.02, 1.0, 1.01), (0.0, 1.0, 1.001)])
def test_labels_do_not_overlap_even_where_lines_meet(ends):
    fig, ax = style.figure()
    for number, end in enumerate(ends):
        ax.plot([0, 1], [0, end], label=f"line {number}")
    ax.plot([0, 1], [0, 2])  # no label, so none is drawn
    labels = style.label_lines(ax)
    assert sorted(text.get_text() for text in labels) == ["line 0", "line 1", "line 2"]
    fig.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in labels), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= fig.bbox.x1  # the layout makes room for them
