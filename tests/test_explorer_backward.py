"""The backward pass: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import pytest
from hand import DESK, Hand

from lnlib.book.explorers import BackwardExplorer

# The heights of bars, and where arrows have their heads: 0 is at the step, 1 at what it uses.
HEIGHTS = r"""all => all.flatMap(e => [...(e.getAttribute('d') ?? '').matchAll(
    / (\S+?)h\S+?V([-\d.]+)/g)].map(([, from, to]) => from - to))"""
HEADS = r"""all => all.map(e => e.previousSibling.getAttribute('d').slice(1).split('L').indexOf(
    e.getAttribute('transform').match(/[\d.]+/g).slice(0, 2).map(Number).join(' ')))"""


def test_dx_is_drawn_without_an_arrow_and_a_ring_goes_as_far_as_the_mouse(reader: Any) -> None:
    hand = Hand(reader, BackwardExplorer(step=10, forget="v-mu"))
    sixths = [-4, 8, -2, 6, *[-2] * 4, *[0] * 4, -6, 6, -4, 4, -3, 7, -3, -1]  # g … dx, the true dx
    heights = hand.root.locator(".ln-work path").evaluate_all(HEIGHTS)
    assert heights == pytest.approx([max(heights) / 8 * v for v in sixths], abs=0.3)
    words = " ".join(hand.root.locator(".ln-work .ln-cell, .ln-table td").all_text_contents())
    assert words.split()[14:22] == ["−0.667", "0.667", "1", "−3", "−1", "−2", "−0.667", "−1"]
    low, high = (hand.root.locator(f"[aria-label$='{i} of dy']").bounding_box()["y"] for i in "12")
    hand.drag(hand.middle_of("[aria-label$='2 of dy']"), 0, 15)
    value = hand.root.locator("[aria-label$='2 of dy']").get_attribute("aria-valuenow")
    assert float(value) == pytest.approx(2 - 15 * 4 / (low - high), abs=0.11)


def test_each_step_back_turns_an_arrow_and_one_can_be_forgotten(reader: Any) -> None:
    hand = Hand(reader, BackwardExplorer(), **DESK)
    pressed = [(0, "Enter", 1), (1, "Enter", 0), (2, "Enter", 10), (2, "ArrowRight", 9)]
    for nth, key, step in (*pressed, (0, "End", 0), (1, "ArrowLeft", 1), (2, "Home", 10)):
        hand.root.locator(".ln-stepper button").nth(nth).press(key)
        hand.root.get_by_text(f"{step} of 10", exact=True).wait_for()
        assert hand.root.locator(".ln-head-of").evaluate_all(HEADS) == [i < step for i in range(9)]
    hand.root.get_by_role("button", name="Forget y → σ").click()
    assert hand.verdict() == "Without y → σ, −x̂·mean(g x̂) is missing from dx"
    hand.root.get_by_text("dy = y, γ = 1").dispatch_event("click")
    assert hand.verdict() == "Along x̂ only ε’s share is left: ε/σ² = 0.1"
