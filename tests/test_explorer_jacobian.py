"""The Jacobian explorer: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import pytest
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import JacobianExplorer

# The numbers in what draws a bar, a line or a ring.
DRAWN = r"""all => all.map(e =>
    (e.getAttribute('d') ?? e.getAttribute('transform')).match(/-?[\d.]+/g).map(Number))"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_bars_begin_where_the_last_ended_and_rings_stand_at_values(reader: Any, size: Any) -> None:
    root = Hand(reader, JacobianExplorer(eps=12), **size).root  # s = 4: 1/4 − 1/16 − 1/64
    zero, *bars = root.locator(".ln-ways .ln-axis, .ln-bar").evaluate_all(DRAWN)
    ends = [(end - zero[0]) / abs(bars[0][2] - zero[0]) for bar in bars for end in bar[:3:2]]
    assert ends == pytest.approx([0, 1, 1, 3 / 4, 3 / 4, 11 / 16, 0, 11 / 16], abs=0.005)
    rows = root.locator("[aria-label^=Feature], .ln-mean, .ln-band").evaluate_all(DRAWN)
    band, *places = (numbers[1::2] for numbers in rows)  # each feature is μ − σ or μ + σ
    high, low = sorted(band)
    assert [y for (y,) in places] == pytest.approx([sum(band) / 2, low, low, high, high], abs=0.1)


def test_a_picked_number_lies_beside_its_mirror_and_tables_have_both(reader: Any) -> None:
    hand = Hand(reader, JacobianExplorer(weight=(1, 2, 0, 0)), **DESK)
    _, *sums = hand.root.locator(".ln-table td").all_text_contents()[:26]
    assert " ".join(sums) == "0.25 −0.25 0 0 0 −0.5 0.5 0 0 0 0 0 0 0 0 0 0 0 0 0 −0.25 0.25 0 0 0"
    assert hand.root.locator(".ln-entry").all_text_contents() == [*sums[:4], *sums[5:9], *8 * "0"]
    hand.root.locator(".ln-cell >> nth=9").click()
    for key in ("ArrowUp", "ArrowLeft"):
        hand.root.locator("[aria-label^=Output]").press(key)
    hand.sentence()
    assert {"entry": "−0.5", "mirror": "−0.25", "direct": "0"}.items() <= hand.numbers().items()
    for part, nth in ((".ln-mirror", 1), ("rect.ln-ring", 4)):
        pair = (hand.root.locator(part), hand.root.locator(".ln-cell rect").nth(nth))
        mark, cell = (one.bounding_box() for one in pair)
        assert [mark["x"], mark["y"]] == pytest.approx([cell["x"], cell["y"]], abs=3)
