"""The drawings that chapters share show what they are given."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
import torch

from lnlib.book import pictures


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


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
