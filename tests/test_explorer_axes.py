"""The axes explorer: what is about it alone, and not in test_explorer_contract.py."""

import pytest
from goldens import DIMS, axes
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import AxesExplorer

# For each kind of mark, the cells it lies on: 0 to 59 are x, 60 to 119 are x̂. Then their numbers.
SEEN = """root => ['.ln-group', '.ln-lit', '.ln-corner', '.ln-changed', '.ln-ring'].map(kind => {
    const [cells, marks] = ['.ln-tint', kind].map(css => [...root.querySelectorAll(css)].map(
        e => e.checkVisibility({ visibilityProperty: true }) ? e.getBoundingClientRect() : {}));
    return cells.flatMap((c, i) => marks.some(m => m.left + 4 < c.right && c.left + 4 < m.right
        && m.top + 4 < c.bottom && c.top + 4 < m.bottom) ? [i] : []);
}).concat([[...root.querySelectorAll('.ln-cell')].map(e => +e.textContent.replace('−', '-'))])"""


def test_frames_marks_and_numbers_stand_on_the_cells_of_the_norm(reader: object) -> None:
    cell = {"sample": 2, "channel": 3, "position": 4, "changed": 3, "change": -0.5}
    for root in (Hand(reader, AxesExplorer(**cell), **room).root for room in (DESK, PHONE)):
        for norm in DIMS:
            root.locator("select").select_option(norm)
            due = axes(norm, **cell)
            shared = [*due["places"].tolist(), *(60 + due["places"]).tolist()]
            moved = (60 + due["marks"].nonzero()[:, 0]).tolist()
            told = pytest.approx([v for row in due["now"][:2] for v in row.tolist()], abs=0.051)
            assert root.evaluate(SEEN) == [shared, shared, moved, [*range(40, 60)], [33, 93], told]
        assert " ".join(root.locator("td").all_text_contents()[2:]) == "– – 4.64 4.64 −0.431 −0.431"


def test_after_a_guess_a_tap_selects_an_output_which_the_table_tells(reader: object) -> None:
    hand = Hand(reader, AxesExplorer(norm="group"), guess=True, **PHONE)
    assert hand.root.evaluate(SEEN)[:5] == [[], [], [], [*range(20, 40)], []]
    see = hand.root.get_by_role("button", name="See")
    bets = [hand.root.get_by_role("button", name=f"Outputs of sample {n} will") for n in (1, 2, 3)]
    assert see.get_attribute("aria-disabled") == "true"
    for n in (0, 2, 0):  # a second tap takes the first back
        bets[n].click()
    assert [bet.get_attribute("aria-pressed") for bet in bets] == ["false", "false", "true"]
    see.click()
    assert "You said sample 3; sample 2 moved." in hand.root.text_content()
    for tapped in (".ln-tint >> nth=80", "text=input x"):  # of x̂, and a title, which is no cell
        hand.page.touchscreen.tap(*hand.middle_of(tapped))
        assert " ".join(hand.root.locator("td").all_text_contents()[2:6]) == "3.15 4.95 1.66 4.56"
    assert [hand.numbers()[name] for name in ("mean", "std", "moved")] == ["4.95", "4.56", "20"]
