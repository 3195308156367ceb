"""The depth explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

import re
from typing import Any

import torch
from goldens.depth import case
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import DepthExplorer

TICKS = """root => Object.fromEntries([...root.querySelectorAll('.ln-tick')].map(
    tick => [tick.textContent, [+tick.getAttribute('x'), tick.getAttribute('y') - 4]]))"""
GUESS = "svg > g:last-child > .ln-rule"


def drawn(hand: Hand, css: str) -> list[torch.Tensor]:
    """Return the points of each line as the ticks tell them: layers, and powers of ten."""
    ticks, lines = hand.root.evaluate(TICKS), []
    zero = torch.tensor([ticks["layer 0"][0], ticks["1"][1]])
    far = torch.tensor([ticks["50"][0], ticks["10⁶"][1]]) - zero
    assert far[0] > 0 > far[1]
    for d in (line.get_attribute("d") for line in hand.root.locator(css).all()):
        corner = 2 if d.endswith("Z") else 0  # of a square, 2 px from its middle
        points = [[*map(float, point)] for point in re.findall(r"[ML]([\d.]+) ([\d.]+)", d)]
        lines.append((torch.tensor(points) + corner - zero) / far * torch.tensor([50.0, 6.0]))
    return lines


def test_lines_and_marks_stand_at_their_numbers(reader: Any) -> None:
    for hand in (Hand(reader, DepthExplorer(), **window) for window in (DESK, PHONE)):
        for order, scale, depth in ("none", 1.2, 50), ("none", 0.7, 23), ("relu_first", 4, 50):
            hand.tell(f"order={order}&scale={scale}&depth={depth}")
            sizes = torch.tensor([*case(order, scale, depth).values()]).flatten(0, 1).log10()
            lines = [*drawn(hand, "svg .ln-seen"), *drawn(hand, "svg .ln-curve")]
            for line, powers in zip(lines, sizes, strict=True):
                expected = torch.stack([torch.arange(depth + 1.0), powers], 1)
                assert (line - expected).abs().max() < 0.02  # places are rounded to 0.1 px


def test_the_table_tells_measured_sizes_beside_the_law(reader: Any) -> None:
    hand = Hand(reader, DepthExplorer(order="relu_first", depth=22), **DESK)
    hand.root.locator("[aria-label^=Number]").press("ArrowUp")  # one layer more
    told = hand.root.locator(".ln-table td").all_text_contents()
    assert told[:4] + told[8:13] == ["1", "1", "88.4", "82", "1", "1", "2.2", "1.78", "–"]
    assert [hand.numbers()[name] for name in ("last", "arrives", "growth")] == ["1", "82", "1.21"]


def test_a_guess_stays_in_the_picture_as_long_as_its_state(reader: Any) -> None:
    hand = Hand(reader, DepthExplorer(), guess=True, **DESK)
    hand.drag(hand.middle_of("[aria-label^=Your]"), 0, -47)  # half of the way up to 10¹²
    hand.root.get_by_role("button", name="See").click()
    said = "You said 1e6 at layer 50. It is 1.2⁵⁰ = 9100: you were off by a factor of 110."
    assert hand.root.locator(".ln-answer").text_content() == said
    assert (drawn(hand, GUESS)[0] - torch.tensor([[0.0, 0.0], [50.0, 6.0]])).abs().max() < 0.02
    hand.root.get_by_label("norm → ReLU").check()
    assert not hand.root.locator(GUESS).is_visible()
