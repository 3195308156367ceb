"""The row machine: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import pytest
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import RowExplorer

# The ends of the bars and of the band of each of the four, by where it writes 0 and another number.
DRAWN = r"""(root, others) => others.flatMap(([words, value], k) => {
    const panel = root.querySelectorAll('.ln-panel')[k];
    const labels = Object.fromEntries([...panel.querySelectorAll('.ln-name')]
        .map(e => [e.textContent, e.getAttribute('y') - 4]));
    const d = name => panel.querySelector(name).getAttribute('d').match(/-?[\d.]+/g);
    return [...d('.ln-bars').filter((_, i) => i % 5 === 3), d('.ln-band')[1], d('.ln-band')[3]].map(
        y => (y - labels[0]) / (labels[words] - labels[0]) * value);
})"""


def test_bars_and_bands_keep_to_the_axes_and_a_bar_is_taken_by_a_mouse_alone(reader: Any) -> None:
    x, x_hat = [2, 4, 4, 4, 5, 5, 7, 9], [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2]
    ends = [*x, 7, 3, *(v - 5 for v in x), 2, -2, *x_hat, 1, -1, *(6 - v for v in x_hat), 7, 5]
    for size in (DESK, PHONE):
        hand = Hand(reader, RowExplorer(weight=-1, bias=6), **size)
        drawn = hand.root.evaluate(DRAWN, [("10", 10), ("σ", 2), ("√7", 7**0.5), ("β", 6)])
        assert drawn == pytest.approx(ends, abs=0.1)
    hand.drag(hand.middle_of(".ln-body >> nth=7"), 0, -200)  # beyond the axis, which grows
    assert hand.root.evaluate(DRAWN, [("20", 20)])[:7] == pytest.approx(x[:7], abs=0.2)
    start, top, before = hand.middle_of(".ln-body >> nth=7"), hand.scrolled(), hand.state()
    hand.stroke(start, 3, -160)
    assert (hand.state(), hand.scrolled() > top + 30) == (before, True)


def test_a_button_moves_the_row_and_not_x_hat(reader: Any) -> None:
    hand = Hand(reader, RowExplorer(eps=1, weight=-2, bias=3), **DESK)
    hand.root.get_by_role("button", name="+100", exact=True).click()
    assert hand.verdict() == "The row moved, x̂ did not"
    assert [*hand.numbers().values()][-4:] == ["105", "2", "0.894", "1.79"]
    cells = " ".join(hand.root.locator(".ln-table td").all_text_contents()[-12:])
    assert cells == "109 4 1.79 −0.578 105 0 0 3 2 2 0.894 1.79"  # feature 8, mean, std
