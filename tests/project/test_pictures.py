"""The drawings that chapters share show what they are given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle

from lnlib.book import pictures, style


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


@pytest.mark.parametrize(
    ("chosen", "filled"),
    [
        ({"rows": [1]}, [[0] * 6, [1] * 6, [0] * 6, [0] * 6]),
        ({"columns": [2]}, [[0, 0, 1, 0, 0, 0]] * 4),
    ],
)
def test_shared_cells_are_filled(ax, chosen, filled):
    pictures.shared_cells(ax, "a norm", color=style.BLUE, **chosen)
    (mesh,) = ax.collections
    np.testing.assert_array_equal(mesh.get_array(), filled)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first sample is on top
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("features", "samples")


ROW = pictures._ROW  # inches


def post(x, f, norm):
    return norm(x + f(x))


def behind(x, f, norm):
    return x + norm(f(x))


def parallel(x, f, g, norm):
    return x + f(norm(x)) + g(norm(x))


def inside(q, k, v, attention, norm):
    return attention(norm(q), norm(k), v)


def gated(x, f, gate):
    return x + gate * f(torch.tanh(x))


def words(ax):
    """Return what is written, row by row, each from left to right."""
    placed = [(*text.get_position(), text.get_text()) for text in ax.texts]
    return [text for _, _, text in sorted((int(0.2 - y / ROW), x, t) for x, y, t in placed) if text]


@pytest.mark.parametrize(
    ("place", "line", "written"),
    [
        (post, "norm(x + f(x))", "x + norm y f"),
        (behind, "x + norm(f(x))", "x + y f norm"),
        (parallel, "x + f(norm(x)) + g(norm(x))", "x + + y norm f g"),
        (inside, "attention(norm(q), norm(k), v)", "q norm y k norm attention v"),
        (gated, "x + gate * f(torch.tanh(x))", "x + y tanh f × gate"),
    ],
)
def test_a_block_is_drawn_from_its_line(ax, place, line, written):
    pictures.draw_block(ax, place, "a name")
    assert ax.get_title() == f"a name:  {line}"
    assert words(ax) == written.split()


def test_a_norm_that_serves_two_parts_is_one_box(ax):
    pictures.draw_block(ax, parallel, "a name")
    edges = [patch.get_linewidth() for patch in ax.patches if isinstance(patch, Rectangle)]
    assert sorted(edges) == [1.2, 1.2, 2.6]  # f, g and the norm
    assert len([patch for patch in ax.patches if isinstance(patch, Circle)]) == 2


def test_only_the_stream_is_thick_and_a_norm_on_it_stands_on_its_row(ax):
    pictures.draw_block(ax, post, "a name")
    thick = [line for line in ax.lines if line.get_linewidth() > 2]
    assert all(set(line.get_ydata()) == {0} for line in thick)
    (norm,) = (patch for patch in ax.patches if patch.get_linewidth() > 2)
    assert norm.get_y() < 0 < norm.get_y() + norm.get_height()
    (_, to_sum), (_, to_norm), (from_norm, _) = sorted(tuple(line.get_xdata()) for line in thick)
    assert to_sum < to_norm == norm.get_x() < from_norm == norm.get_x() + norm.get_width()


def test_a_graph_has_an_arrow_for_each_pair_and_a_cross_on_a_lost_one(ax):
    boxes = {"x": (1.0, 1.0), "mean": (3.0, 2.0), "y": (5.0, 1.0)}
    pictures.draw_graph(ax, boxes, [("x", "y"), ("mean", "y")], lost=[("x", "mean")])
    assert [text.get_text() for text in ax.texts] == [*boxes]
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    ends = [(arrow.patchA, arrow.patchB) for arrow in arrows]
    x, mean, y = (patch for patch in ax.patches if isinstance(patch, FancyBboxPatch))
    assert ends == [(x, y), (mean, y), (x, mean)]
    assert [arrow.get_linestyle() for arrow in arrows] == ["-", "-", "--"]
    assert {(*line.get_xdata(), *line.get_ydata()) for line in ax.lines} == {(2.0, 1.5)}
