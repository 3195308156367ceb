"""The row machine: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import pytest
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import RowExplorer

BOOK = [2, 4, 4, 4, 5, 5, 7, 9]
# The ends of the bars and of the band of each of the four, by where it writes 0 and another number.
DRAWN = r"""(root, others) => {
    const all = name => [...root.querySelectorAll(name)];
    const numbers = e => e.getAttribute('d').match(/-?[\d.]+/g).map(Number);
    return others.map((other, k) => {
        const [zero, one] = ['0', other[0]].map(words => all('.ln-name').slice(8 * k, 8 * k + 8)
            .find(e => e.textContent === words).getAttribute('y') - 4);
        const of = y => (y - zero) / (one - zero) * other[1];
        const [bars, [, top, , bottom]] = [`.ln-bars-${k}`, '.ln-band'].map(
            (name, i) => numbers(all(name)[i * k]));
        return [bars.filter((_, i) => i % 5 === 3).map(of), [top, bottom].map(of)];
    });
}"""


def test_bars_and_bands_are_where_the_axes_say(reader: Any) -> None:
    for size in (DESK, PHONE):
        hand = Hand(reader, RowExplorer(weight=-1, bias=6), **size)
        drawn = hand.root.evaluate(DRAWN, [("10", 10), ("σ", 2), ("√7", 7**0.5), ("β", 6)])
        x_hat = [(v - 5) / 2 for v in BOOK]
        values = [BOOK, [2 * v for v in x_hat], x_hat, [6 - v for v in x_hat]]
        for k, ends in enumerate([[7, 3], [2, -2], [1, -1], [7, 5]]):
            assert drawn[k][0] == pytest.approx(values[k], abs=0.1)
            assert drawn[k][1] == pytest.approx(ends, abs=0.1)


def test_a_bar_is_taken_anywhere_by_a_mouse_and_scrolled_over_by_a_finger(reader: Any) -> None:
    hand, body = Hand(reader, RowExplorer()), ".ln-body >> nth=7"
    first, top, (x, y) = hand.state(), hand.scrolled(), hand.middle_of(body)
    hand.stroke((x, y + 10), 3, -60)
    hand.settle()
    assert (hand.state(), hand.scrolled() > top + 30) == (first, True)
    x, y = hand.middle_of(body)
    hand.drag((x, y + 10), 0, -200)  # out of the picture, whose axis becomes longer
    ((bars, _),) = hand.root.evaluate(DRAWN, [("20", 20)])
    value = hand.root.locator(".ln-handle").last.get_attribute("aria-valuenow")
    assert bars == pytest.approx([*BOOK[:7], float(value)], abs=0.2)
    assert float(value) > 20


def test_a_button_moves_the_row_and_not_x_hat(reader: Any) -> None:
    hand = Hand(reader, RowExplorer(eps=1, weight=-2, bias=3), **DESK)
    hand.root.get_by_role("button", name="+100", exact=True).click()
    assert hand.verdict() == "The row moved, x̂ did not"
    told = {"mean": "105", "std": "2", "spread": "0.894", "largest": "1.79"}
    assert told.items() <= hand.numbers().items()
    cells = " ".join(hand.root.locator(".ln-table td").all_text_contents()[-12:])
    assert cells == "109 4 1.79 −0.578 105 0 0 3 2 2 0.894 1.79"  # feature 8, mean, std
