"""The axes explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import torch
from goldens.axes import DIMS, case
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import AxesExplorer

# For each kind of mark, the cells it lies on: 0 to 59 are x, 60 to 119 are x̂.
LIES_ON = """root => ['.ln-group', '.ln-lit', '.ln-corner', '.ln-changed', '.ln-ring'].map(kind => {
    const seen = e => e.checkVisibility({ visibilityProperty: true });
    const [cells, marks] = ['.ln-tint', kind].map(css => [...root.querySelectorAll(css)]
        .filter(seen).map(e => e.getBoundingClientRect()));
    const holds = (a, b) => a.left < (b.left + b.right) / 2 && (b.left + b.right) / 2 < a.right
        && a.top < (b.top + b.bottom) / 2 && (b.top + b.bottom) / 2 < a.bottom;
    return cells.flatMap((c, i) => (marks.some(m => holds(m, c) || holds(c, m)) ? [i] : []));
})"""
NUMBERS = "cells => cells.map(cell => +cell.textContent.replace('−', '-'))"


def test_frames_marks_and_numbers_stand_on_the_cells_of_the_norm(reader: Any) -> None:
    cell = {"sample": 2, "channel": 3, "position": 4, "changed": 3, "change": -0.5}
    for hand in (Hand(reader, AxesExplorer(**cell), **window) for window in (DESK, PHONE)):
        for norm in DIMS:
            hand.root.locator("select").select_option(norm)
            due = case(norm, **cell)
            shared = torch.cat([due["places"], due["places"] + 60]).tolist()
            moved = (60 + due["marks"].nonzero()[:, 0]).tolist()
            on = [shared, shared, moved, [*range(40, 60)], [33, 93]]
            assert hand.root.evaluate(LIES_ON) == on
            told = hand.root.locator(".ln-cell").evaluate_all(NUMBERS)
            assert (torch.cat(due["now"][:2]) - torch.tensor(told)).abs().max() < 0.051


def test_the_table_tells_the_selected_cell_before_the_change_and_now(reader: Any) -> None:
    hand = Hand(reader, AxesExplorer(), **DESK)
    cells = hand.root.locator(".ln-table td")
    assert " ".join(cells.all_text_contents()) == "2 2 2.13 2.8 1.81 3.52 −0.0736 −0.227"
    hand.tell("norm=rms&sample=2")
    assert " ".join(cells.all_text_contents()) == "5 3 – – 4.66 6.76 1.07 0.444"
    assert [hand.numbers()[name] for name in ("mean", "std", "moved")] == ["0", "6.76", "20"]


def test_a_tap_on_an_output_selects_it_and_one_beside_them_nothing(reader: Any) -> None:
    hand = Hand(reader, AxesExplorer(norm="group"), **PHONE)
    for tapped in (".ln-tint >> nth=87", "text=input x"):  # of x̂, and a title
        hand.page.touchscreen.tap(*hand.middle_of(tapped))
        assert hand.root.locator("[aria-valuetext^='sample 2, channel 2, position 3']").count()


def test_a_guess_is_made_before_the_change_and_told_beside_what_moved(reader: Any) -> None:
    hand = Hand(reader, AxesExplorer(), guess=True, **DESK)
    assert hand.root.evaluate(LIES_ON) == [[], [], [], [*range(20, 40)], []]
    hand.root.get_by_role("button", name="Outputs of sample 3 will move").click()
    hand.root.get_by_role("button", name="See").click()
    assert "You said sample 3; samples 1, 2 and 3 moved." in hand.root.text_content()
