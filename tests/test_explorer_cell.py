"""The LSTM's explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import pytest
from goldens.cell import case
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import CellExplorer

# Each strip of bars in the step: the name over its box, and how far up there each bar ends.
STRIPS = r"""root => [...root.querySelectorAll('.ln-frame + .ln-bars')].map(bars => {
    const [x, y, w, h] = bars.previousSibling.getAttribute('d').match(/[\d.]+/g).map(Number);
    const name = [...root.querySelectorAll('svg .ln-name')].find(({ attributes: a }) =>
        x <= a.x.value && a.x.value <= x + w && y - 6 < a.y.value && a.y.value < y);
    const ends = [...bars.getAttribute('d').matchAll(/V([\d.]+)H/g)];
    return [name.textContent, ends.map(([, v]) => (y + h - v) / h)];
})"""
LENGTHS = r"e => [...e.getAttribute('d').matchAll(/h([-\d.]+)v/g)].map(([, length]) => +length)"
STATE = {"scale": 8.0, "norm": "none", "row": 7, "eps": 1e-5, "blank": 2, "bias": "random"}


def test_each_strip_of_the_step_shows_the_numbers_of_its_name(reader: Any) -> None:
    before, now = case(**STATE)["steps"][5:7]
    (i, f, new, o), c = now["gates"], now["carried"] / 5  # their axis ends at ±5
    due = {"ct−1": before["carried"] / 5, "ct": c, "ht−1": before["h"], "ht": now["h"], "c̃": new}
    due = {name: (v + 1) / 2 for name, v in due.items()} | {"i": i, "f": f, "o": o}
    places = {name: pytest.approx(v.tolist(), abs=0.002) for name, v in due.items()}  # 0.1 px
    for root in (Hand(reader, CellExplorer(**STATE), **room).root for room in (DESK, PHONE)):
        assert dict(root.evaluate(STRIPS)) == places
        caps = [cap.get_attribute("d").count("M") for cap in root.locator(".ln-caps").all()]
        assert [*caps[:2], caps[3]] == [((v - 0.5).abs() > 0.45).sum() for v in (f, i, o)]


def test_bars_beside_the_digit_are_as_long_as_their_numbers(reader: Any) -> None:
    root, due = Hand(reader, CellExplorer(**STATE), **DESK).root, case(**STATE)
    shown = root.locator(":is(.ln-norm-box, .ln-divisor, .ln-tick):visible").all_text_contents()
    assert shown == ["1", "0", "10⁻²", "1", "10²"]  # and no norm
    powers, sizes = due["gradients"].log10() * 72 / 4, due["sizes"] * 44 / 1.2  # 72 and 44 px
    for kind, lengths in (("gradient", powers), ("cell", sizes)):
        drawn = root.locator(f"svg > .ln-of-{kind}").evaluate(LENGTHS)
        assert drawn == pytest.approx(lengths.tolist(), abs=0.1)


def test_the_norm_of_the_cell_stands_where_the_carry_says(reader: Any) -> None:
    hand = Hand(reader, CellExplorer(), **DESK)
    norm, divisor = (hand.root.locator(css).last for css in (".ln-norm-box rect", ".ln-divisor"))
    for carry, top, told in (("raw", "85", "÷ 0.61"), ("normalized", "41", "÷ 0.75")):
        hand.tell(f"norm={carry}")  # on the way out, or on the line of the cell
        assert (norm.get_attribute("y"), divisor.text_content()) == (top, told)


def test_a_tap_or_an_arrow_chooses_a_row_whose_wires_the_table_tells(reader: Any) -> None:
    hand = Hand(reader, CellExplorer(**STATE), **PHONE)
    hand.root.locator(".ln-rows").tap(position={"x": 60, "y": 89})  # row 9, each 10.5 px high
    hand.root.locator(".ln-handle").press("ArrowUp")
    assert {"saturated": "11", "size": "0.842", "first": "3.66"}.items() <= hand.numbers().items()
    assert "gate i0.02570.9690.298gate f" in hand.root.locator(".ln-table").text_content()
