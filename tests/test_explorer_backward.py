"""The backward pass: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import pytest
from goldens import plain
from goldens.backward import case
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import BackwardExplorer

X, DY = [1, 3, 3, 9], [-2, 2, -1, 2]
# How high the bars of each color are, in the work of a step.
HEIGHTS = r"""all => Object.fromEntries(all.map(e => [e.getAttribute('class').replace(/.*-/, ''),
    [...(e.getAttribute('d') ?? '').matchAll(/ ([-\d.]+)h[-\d.]+V([-\d.]+)/g)].map(
        ([, from, to]) => from - to)]))"""
# Where each arrow has its head: 0 is at the step, 1 at what the step uses.
HEADS = r"""root => [...root.querySelectorAll('.ln-head-of')].map((head, i) => {
    const numbers = words => words.match(/[\d.]+/g).map(Number);
    const line = numbers(root.querySelectorAll('path.ln-way')[i].getAttribute('d'));
    const place = numbers(head.getAttribute('transform')).slice(0, 2).join();
    return [0, 1].findIndex(end => line.slice(2 * end, 2 * end + 2).join() === place);
})"""


def values(found: Any) -> list[float]:
    return [float(words.replace("−", "-")) for words in found.all_text_contents() if words]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_work_of_a_step_and_the_table_are_as_autograd_has_them(reader: Any, size: Any) -> None:
    hand = Hand(reader, BackwardExplorer(step=6), **size)
    whole, cut = (plain(case(X, [1, 2, 1, 1.5], DY, 1e-5, way)) for way in ("", "v-mu"))
    way, true, (g, mean, _) = whole["carried"], whole["gathered"]["x"], cut["terms"]
    dmu = {"g": way["y-mu"], "hat": way["v-mu"], "sum": whole["gathered"]["mu"]}
    dx = {"g": g, "mean": mean, "hat": [0] * 4, "sum": cut["gathered"]["x"]}
    for state, rows in (("step=6", dmu), ("step=10&forget=v-mu", dx)):
        hand.tell(state)
        written = values(hand.root.locator(".ln-work .ln-cell"))[-4 * len(rows) :]
        assert written == pytest.approx([v for row in rows.values() for v in row], rel=0.01)
        drawn = hand.root.locator(".ln-work path").evaluate_all(HEIGHTS)
        unit = max(drawn["g"]) / max(rows["g"])
        for kind, row in (rows | {"true": true if "forget" in state else []}).items():
            assert drawn[kind] == pytest.approx([unit * v for v in row], abs=0.3)
    (mu, y), arrived = (cut["values"][name] for name in ("mu", "y")), cut["gathered"]["mu"]
    expected = [column[i] for i in range(4) for column in (X, mu, y, DY, arrived, dx["sum"])]
    assert values(hand.root.locator(".ln-table td")) == pytest.approx(expected, rel=0.01)


def test_each_step_back_turns_an_arrow(reader: Any) -> None:
    hand = Hand(reader, BackwardExplorer(), **DESK)
    steps = [("Step back", 1), ("Undo a step", 0), ("Step back all the way", 10)]
    for name, step in (*steps, ("ArrowRight", 9), ("End", 0), ("ArrowLeft", 1), ("Home", 10)):
        if "tep" in name:
            hand.root.get_by_role("button", name=name, exact=True).click()
        else:
            hand.page.keyboard.press(name)
        hand.sentence()
        assert hand.root.locator(".ln-count").inner_text() == f"{step} of 10"
        assert hand.root.evaluate(HEADS) == [int(arrow < step) for arrow in range(9)]


def test_a_button_forgets_its_arrow_and_a_start_shows_the_share_of_eps(reader: Any) -> None:
    hand = Hand(reader, BackwardExplorer(step=10), **DESK)
    hand.root.get_by_role("button", name="Forget y → σ").click()
    assert hand.verdict() == "Without y → σ, −x̂·mean(g x̂) is missing from dx"
    kind = hand.root.locator("path.ln-way >> nth=2").get_attribute("class")
    assert "ln-forgotten" in kind
    hand.root.get_by_text("dy = y, γ = 1").dispatch_event("click")
    assert hand.verdict() == "Along x̂ only ε’s share is left: ε/σ² = 0.1"


def test_a_ring_stands_at_its_value_on_a_scale_that_stays_while_it_moves(reader: Any) -> None:
    hand = Hand(reader, BackwardExplorer(), **DESK)
    rings = [f"[aria-label='Feature {i} of dy']" for i in (1, 2)]
    low, high = (hand.root.locator(ring).bounding_box()["y"] for ring in rings)
    hand.drag(hand.middle_of(rings[1]), 0, 15)
    value = float(hand.root.locator(rings[1]).get_attribute("aria-valuenow"))
    assert value == pytest.approx(2 - 15 * 4 / (low - high), abs=0.11)
