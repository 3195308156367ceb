"""The ε explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hand import DESK, Hand

from lnlib.book.explorers import EpsilonExplorer

TICKS = """root => Object.fromEntries(
    [...root.querySelector('svg').querySelectorAll('.ln-tick')].map(
        tick => [tick.textContent, [+tick.getAttribute('x'), +tick.getAttribute('y') - 4]]))"""


def place(found: Any, attribute: str = "transform") -> list[float]:
    return [float(n) for n in re.findall(r"-?[\d.]+", found.get_attribute(attribute))][:2]


def test_curve_knee_and_marks_stand_where_the_axes_say(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(spread=1e-2), **DESK)
    ticks, svg = hand.root.evaluate(TICKS), hand.root.locator("svg").first
    across, half = (ticks["10⁻⁵"][0] + ticks["10⁻³"][0]) / 2, ticks["½"][1]  # σ = √ε = 1e-4
    assert place(hand.root.locator(".ln-handle").last) == pytest.approx([across, half], abs=1)
    curve = svg.locator("path.ln-curve.ln-blue").first.get_attribute("d")
    points = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", curve)]
    assert points[-1][1] == pytest.approx(ticks["1"][1], abs=1)
    assert min(points, key=lambda p: abs(p[0] - across))[1] == pytest.approx(half, abs=8)
    spread = (3 * ticks["10⁻³"][0] - ticks["10⁻⁵"][0]) / 2  # 1e-2
    mark = place(svg.locator(".ln-mark.ln-blue"))
    assert mark == pytest.approx([spread, ticks["1"][1]], abs=1)


def test_what_float16_breaks_is_said_in_every_picture(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(), **DESK)
    for state, values in (
        ("spread=0", "all 8 values are NaN"),
        ("spread=6e-5", "6 values are ±∞, 2 NaN"),
    ):
        hand.tell(state)
        assert hand.root.locator(".ln-wreck").all_text_contents()[-1] == values
    hand.tell("eps=1&spread=0.5")
    variances = hand.root.locator(".ln-table td:nth-child(2)").all_text_contents()
    assert variances == ["0.2", "0.111", "0.2"]
    assert hand.numbers() == {
        "eps": "1",
        "spread": "0.5",
        "variance": "0.2",
        "factor": "0.894",
        "knee": "1",
    }
