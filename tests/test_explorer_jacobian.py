"""The Jacobian explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import pytest
from goldens.jacobian import case
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import JacobianExplorer

X, WEIGHT = (1, 2, 3, 10), (1, 2, -1, -2)
STATE = "x=1,2,3,10&weight=1,2,-1,-2&output=2&input=1&eps=0.5"
# The numbers in what draws a bar, a line or a ring.
DRAWN = r"""all => all.map(e =>
    (e.getAttribute('d') ?? e.getAttribute('transform')).match(/-?[\d.]+/g).map(Number))"""


def values(words: list[str]) -> list[float]:
    return [float(word.replace("−", "-")) for word in words if word]


@pytest.mark.parametrize(("size", "step"), [(DESK, 2), (PHONE, 1)], ids=["desk", "phone"])
def test_a_bar_begins_where_the_last_one_ended(reader: Any, size: Any, step: int) -> None:
    hand, golden = Hand(reader, JacobianExplorer(), **size), case(X, WEIGHT, 0.5, step)
    hand.tell(f"{STATE}&step={step}")
    matrix = golden["matrix"].flatten().tolist()
    a, b, c = (way[1, 0].item() for way in golden["ways"])
    ends = [0, a, a, a + b, a + b, a + b + c, 0, matrix[4]]
    zero, *bars = hand.root.locator(".ln-ways .ln-axis, .ln-bar").evaluate_all(DRAWN)
    unit = (bars[1][2] - bars[1][0]) / b
    drawn = [end for bar in bars for end in (bar[0], bar[2])]
    assert drawn == pytest.approx([zero[0] + unit * v for v in ends], abs=0.3)
    assert unit > 0
    shown = values(hand.root.locator(".ln-value, .ln-entry").all_text_contents())
    assert shown == pytest.approx([*matrix, a, b, c, matrix[4]], abs=5e-3)


def test_a_picked_number_lies_beside_its_mirror_and_keys_go_on_from_there(reader: Any) -> None:
    hand = Hand(reader, JacobianExplorer(), **DESK)
    hand.root.locator(".ln-cell >> nth=6").click()
    for key, k, i in (("Shift", 2, 3), ("ArrowUp", 1, 3), ("ArrowRight", 1, 4)):
        hand.root.locator("[aria-label^=Output]").press(key)
        hand.sentence()
        assert [hand.numbers()[name] for name in ("output", "input")] == [str(k), str(i)]
        for part, nth in ((".ln-mirror", 4 * i + k - 5), ("rect.ln-ring", 4 * k + i - 5)):
            places = [part, f".ln-cell rect >> nth={nth}"]
            mark, cell = (hand.root.locator(place).bounding_box() for place in places)
            assert [mark["x"], mark["y"]] == pytest.approx([cell["x"], cell["y"]], abs=3)


def test_rings_tables_and_readings_have_the_row_and_the_matrix(reader: Any) -> None:
    hand, golden = Hand(reader, JacobianExplorer(), **DESK), case(X, WEIGHT, 0.5, 2)
    hand.tell(STATE)
    lines = [*golden["matrix"].tolist(), golden["matrix"].sum(0).tolist()]
    cells = [v for line in lines for v in (*line, 0)]  # a line adds up to 0
    cells += [*X, *golden["row"]["xHat"].tolist(), *WEIGHT]
    shown = values(hand.root.locator(".ln-table td").all_text_contents())
    assert shown == pytest.approx(cells, rel=0.01, abs=1e-9)
    told = values([hand.numbers()[name] for name in ("entry", "mirror", "direct")])
    assert told == pytest.approx([lines[1][0], lines[0][1], 0], rel=0.01)
    rows = hand.root.locator("[aria-label^=Feature], .ln-mean, .ln-band").evaluate_all(DRAWN)
    (_, above, *_), (_, mean, _), *rings = rows
    unit = (rings[0][1] - rings[3][1]) / 9  # from 1 to 10; μ = 4, σ² = 12.5
    places = [rings[0][1] - unit * (v - 1) for v in (2, 3, 4, 4 + 12.5**0.5)]
    assert [rings[1][1], rings[2][1], mean, above] == pytest.approx(places, abs=0.2)
    assert unit > 0
