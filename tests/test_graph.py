"""The dependency graph shows what the formula is made of, and can be read in any theme."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from lnlib.book import style
from lnlib.book.equations import meanings
from lnlib.book.pictures import ARROWS, graph


@pytest.fixture
def ax() -> Iterator[Axes]:
    style.use()
    fig, ax = style.figure(height=2.6)
    yield ax
    plt.close(fig)


def arrows(ax: Axes) -> list[Annotation]:
    return [text for text in ax.texts if isinstance(text, Annotation)]


def thick(ax: Axes) -> set[tuple[tuple[float, float], tuple[float, float]]]:
    """Return (from, to) of the arrows that stand out."""
    return {
        (tuple(arrow.xyann), tuple(arrow.xy))
        for arrow in arrows(ax)
        if arrow.arrow_patch.get_linewidth() > 3
    }


def test_an_arrow_is_drawn_where_a_definition_uses_a_quantity_and_nowhere_else():
    made_of = set()
    meaning = meanings.batch()
    for name in ("m", "mu", "v", "sigma", "y", "l"):
        places = {"l": (), "mu": (1, 1), "y": (1, 1)}.get(name, (1,))
        for used in meaning.define(name, places).free_symbols:
            made_of.add((used.name.split("_")[0], name))
    made_of -= {("epsilon", "sigma"), ("dy", "l")}  # no node: not differentiated by
    assert set(ARROWS) == made_of
    assert len(ARROWS) == len(set(ARROWS))


def test_x_and_mu_have_two_consumers_each_and_nothing_else_has():
    consumers = {start: [end for s, end in ARROWS if s == start] for start, _ in ARROWS}
    assert {name for name, ends in consumers.items() if len(ends) == 2} == {"x", "mu"}
    assert max(map(len, consumers.values())) == 2


def test_every_arrow_is_drawn_from_node_to_node_and_only_chosen_ones_stand_out(ax):
    graph(ax, [("x", "m"), ("mu", "y")])
    places = {tuple(np.ravel(line.get_xydata())) for line in ax.get_lines()}
    assert len(places) == 9
    assert len(arrows(ax)) == len(ARROWS)
    for arrow in arrows(ax):
        assert {tuple(arrow.xyann), tuple(arrow.xy)} <= places
    named = {text.get_text(): text.get_position() for text in ax.texts if text.get_text()}
    x, m, mu, y = (named[f"${s}$"] for s in ("x_{bh}", "m_b", r"\mu_{bh}", "y_{bh}"))
    assert thick(ax) == {(x, m), (mu, y)}


def test_nothing_stands_out_unless_asked(ax):
    graph(ax)
    assert thick(ax) == set()


def test_what_stands_out_does_so_without_color_too(ax):
    graph(ax, [("x", "m")])
    widths = sorted(arrow.arrow_patch.get_linewidth() for arrow in arrows(ax))
    assert widths[-1] > 2 * widths[-2]


def test_an_arrow_that_the_graph_lacks_is_refused(ax):
    with pytest.raises(ValueError, match=r"no arrow \('m', 'x'\)"):
        graph(ax, [("m", "x")])


def test_the_paper_is_opaque_and_the_nodes_lie_inside_it(ax):
    graph(ax)
    fig = ax.get_figure()
    fig.canvas.draw()
    assert fig.get_facecolor()[3] == 1
    assert to_hex(fig.get_facecolor()) == style.PAPER
    for text in ax.texts:
        if text.get_text():
            box = text.get_window_extent()
            assert fig.bbox.contains(box.x0, box.y0)
            assert fig.bbox.contains(box.x1, box.y1)
    for line in ax.get_lines():
        (px, py), radius = ax.transData.transform(line.get_xydata())[0], 18 * fig.dpi / 72
        assert fig.bbox.x0 <= px - radius
        assert px + radius <= fig.bbox.x1
        assert fig.bbox.y0 <= py - radius
        assert py + radius <= fig.bbox.y1


def test_letters_are_10_pixels_high_on_a_phone(ax):
    graph(ax)
    names = [text for text in ax.texts if text.get_text()]
    assert len(names) == 9
    assert min(text.get_fontsize() for text in names) * 100 / 72 * 390 / 700 > 10
