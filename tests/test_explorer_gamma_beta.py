"""The γ and β explorer: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import numpy as np
import pytest
from goldens import gamma_beta
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import GammaBetaExplorer

NUMBERS = r"""all => all.flatMap(e => (e.getAttribute('d') ?? e.getAttribute('transform') ??
    `${e.getAttribute('y')} ${e.textContent}`).replace('−', '-').match(/-?[\d.]+/g).map(Number))"""
PARTS = ":has(>.ln-grid) text", ".ln-dot[transform], .ln-handle", ".ln-stems", ".ln-band, .ln-mean"


def test_dots_stems_and_bands_are_where_the_axes_say(reader: Any) -> None:
    widget = GammaBetaExplorer(weight=[1] * 7 + [2], bias=[1] * 8)
    root, lanes = Hand(reader, widget, **PHONE).root, gamma_beta(**widget.state())["lanes"].values()
    parts = [np.reshape(root.locator(part).evaluate_all(NUMBERS), (3, -1)) for part in PARTS]
    for v, ticks, dots, stems, lines in zip(lanes, *parts, strict=True):
        slope, zero = np.polyfit(ticks[1::2], ticks[::2] - 4, 1)
        drawn = np.array([*dots[1::2], *stems[2::3], *lines[[3, 6, 1]]])  # low, mean, high
        band = [v.mean() + side * v.std(correction=0) for side in (-1, 0, 1)]
        assert (drawn - zero) / slope == pytest.approx(np.array([*v, *v, *band]), abs=0.05)
        assert dots[::2] == pytest.approx(stems[::3], abs=0.1)


def test_a_dot_follows_the_hand_a_tap_lets_go_and_a_start_looks_at_the_row(reader: Any) -> None:
    hand = Hand(reader, GammaBetaExplorer(row="wide", weight=[3] * 8), **DESK)
    (x, y), dot = hand.middle_of(".ln-handle >> nth=6"), hand.root.locator(".ln-handle").nth(6)
    hand.drag((x, y), 5, -20)
    assert dot.bounding_box()["y"] + 22 == pytest.approx(y - 20, abs=0.1)
    hand.page.mouse.click(x, y - 20)
    assert hand.numbers()["feature"] == "0"
    hand.root.get_by_text("One feature up").dispatch_event("click")
    told = {"feature": "2", "mean": "0.453", "std": "2.02", "weight": "1.25", "bias": "0"}
    assert told.items() <= hand.numbers().items()
    table = " ".join(hand.root.locator(".ln-table td").all_text_contents())
    assert table == " −1 4 0 1 0.453 2.02 ≠ β 0 ≠ mean γ 1.25"
