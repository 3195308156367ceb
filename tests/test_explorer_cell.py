"""The LSTM's explorer: what is about it alone, and not in test_explorer_contract.py."""

import pytest
from goldens import cell
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import CellExplorer

STATE = {"scale": 8.0, "norm": "none", "row": 7, "eps": 1e-5, "blank": 2, "bias": "random"}
BARS = r"""root => Object.fromEntries([...root.querySelectorAll('.ln-frame + .ln-bars')].map(e => {
    const [x, y, w] = e.previousSibling.getAttribute('d').match(/[\d.]+/g).map(Number);
    const name = [...root.querySelectorAll('svg .ln-name')].find(({ attributes: a }) =>
        x <= a.x.value && a.x.value <= x + w && y - 6 < a.y.value && a.y.value < y);
    const [, zero, ...ends] = e.getAttribute('d').split(/[ V]/).map(parseFloat);
    return [name.textContent, ends.slice(0, -1).map(v => (zero - v) / (zero - y))];
}))"""  # the name over each strip of the step, and the numbers of its bars
LENGTHS = r"all => all.flatMap(e => e.getAttribute('d').match(/(?<=h)[-\d.]+(?=v)/g).map(Number))"


def test_bars_are_as_long_as_the_numbers_of_their_names(reader: object) -> None:
    root, run = Hand(reader, CellExplorer(**STATE), **DESK).root, cell(**STATE)
    before, now = run["steps"][5:7]
    due = dict(zip(("i", "f", "c̃", "o"), now["gates"], strict=True)) | {"ht−1": before["h"]}
    due |= {"ht": now["h"], "ct−1": before["carried"] / 5, "ct": now["carried"] / 5}  # up to ±5
    assert root.evaluate(BARS) == {k: pytest.approx(v.tolist(), abs=4e-3) for k, v in due.items()}
    assert sum(cap.get_attribute("d").count("M") for cap in root.locator(".ln-caps").all()) == 13
    lengths = (run["sizes"] * 44 / 1.2).tolist() + (run["gradients"].log10() * 72 / 4).tolist()
    bars = root.locator(".ln-axis ~ .ln-bars")
    assert bars.evaluate_all(LENGTHS) == pytest.approx(lengths, abs=0.1)


def test_a_tap_or_an_arrow_chooses_a_row_and_the_carry_puts_the_norm(reader: object) -> None:
    hand = Hand(reader, CellExplorer(**STATE), **PHONE)
    hand.root.locator(".ln-rows").tap(position={"x": 60, "y": 89})  # row 9, each 10.5 px high
    hand.root.locator(".ln-handle").press("ArrowUp")
    assert {"saturated": "11", "size": "0.842", "first": "3.66"}.items() <= hand.numbers().items()
    assert "gate i0.02570.9690.298gate f" in hand.root.locator(".ln-table").text_content()
    for carry, top, told in (("raw", "51", "÷ 0.49"), ("normalized", "23", "÷ 0.6")):
        hand.tell(f"norm={carry}")  # on the way out, or on the line of the cell
        assert hand.root.locator(".ln-norm-box rect").last.get_attribute("y") == top
        assert hand.root.locator(".ln-divisor").last.text_content() == told
