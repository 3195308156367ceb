"""The tile explorer: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import pytest
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import TilesExplorer

# The rows, of two numbers each, that are in boxes of some kind.
ROWS = """(all, kind) => all.flatMap((e, i) => i % 2 === 0 && [...document.querySelectorAll(
    `svg path${kind}`)].some(path => path.isPointInFill(
        { x: +e.getAttribute('x'), y: +e.getAttribute('y') })) ? [i / 2] : [])"""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_tiles_have_the_color_of_their_program_and_sums_stand_below(reader: Any, size: Any) -> None:
    hand = Hand(reader, TilesExplorer(kernel="backward", rows=9, features=2, step=2), **size)
    cells = hand.root.locator("svg .ln-cell")
    kinds = (".ln-cell-box.ln-blue", ".ln-cell-box.ln-vermillion", ".ln-now")
    found = [cells.evaluate_all(ROWS, kind) for kind in kinds]
    assert found == [[0, 1, 2, 3, 8, 9], [4, 5, 6, 7, 10], [8]]
    hand.tell("step=4")  # the first sum is added
    assert cells.evaluate_all(ROWS, ".ln-now") == [9, 11]
    words = hand.root.locator("svg .ln-cell, .ln-table td").all_text_contents()
    sums, table = "1.7 1.7 −1 −0.7 1.7 1.7", "1.75 −1 1.75 0.75 1.75 −0.75 1.75 1"
    assert " ".join(words[16:]) == f"−0.7 0.7 {sums} {table}"


def test_numbers_of_padded_lanes_and_long_rows_and_the_way_back(reader: Any) -> None:
    hand = Hand(reader, TilesExplorer(rows=3, padding="counted"), **DESK)
    beside = hand.root.locator(".ln-beside, .ln-wrong, .ln-lane").all_text_contents()
    assert " ".join(beside) == "6.15 6.33 2.81 5.18 −0.7 −0.7 −2.7 −2.7"  # σ², wrong σ² and −μ
    table = hand.root.locator(".ln-table td")
    assert " ".join(table.all_text_contents()) == "0.75 6.15 6.33 2.67 2.81 5.18 – – –"
    hand.tell("kernel=long&rows=2&step=9")  # the fourth is the last
    assert " ".join(table.all_text_contents()) == "0 36.9 0.75 6.15 −2.75 18.1 2.67 2.81"
    hand.root.get_by_role("button", name="Back", exact=True).click()
    assert hand.sentence().startswith("Sweep 2, right to left: each program reads features 4 and 5")
    assert [hand.numbers()[name] for name in ("read", "written", "idle")] == ["32", "8", "4"]
