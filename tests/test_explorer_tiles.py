"""The tile explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from goldens.tiles import DY, case
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import TilesExplorer

SHAPE = {"rows": 7, "features": 6, "programs": 2}
# The lines of numbers, from 0, that boxes of some kind have in them.
LINES = r"""(root, kind) => {
    const places = [...root.querySelectorAll('svg .ln-cell')].map(e => +e.getAttribute('y'));
    const boxes = [...root.querySelectorAll(`svg path${kind}`)].flatMap(path => [
        ...path.getAttribute('d').matchAll(/M[\d.]+ ([\d.]+)h[\d.]+v([\d.]+)/g)]);
    return [...new Set(places)].sort((a, b) => a - b).flatMap((line, i) =>
        boxes.some(([, y, height]) => line > +y && line < +y + +height) ? [i] : []);
}"""


def values(found: Any) -> list[float]:
    return [float(words.replace("−", "-")) for words in found.all_text_contents() if words != "–"]


def about(tensor: torch.Tensor, within: float = 1e-9) -> Any:
    return pytest.approx(tensor.flatten().tolist(), rel=0.01, abs=within)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_tiles_have_the_color_of_their_program_and_sums_stand_below(reader: Any, size: Any) -> None:
    hand = Hand(reader, TilesExplorer(kernel="backward", rows=11, step=2), **size)
    kinds = (".ln-cell-box.ln-blue", ".ln-cell-box.ln-vermillion", ".ln-now")
    found = [hand.root.evaluate(LINES, kind) for kind in kinds]
    assert found == [[0, 1, 4, 5, 8, 9, 11], [2, 3, 6, 7, 10, 12], [4, 5, 6, 7]]
    hand.tell("kernel=backward&rows=11&step=5")  # the first sum is added
    assert hand.root.evaluate(LINES, ".ln-now") == [11, 13]
    golden = case("backward", **SHAPE | {"rows": 11}, padding="masked", step=5)
    sums, product = golden["sums"], golden["xHat"] * DY[:11, :6]
    cells = torch.cat([product, sums, sums[:1]])
    assert values(hand.root.locator("svg .ln-cell")) == about(cells, 0.0501)
    columns = torch.stack([*sums, sums[0], golden["truth"]], 1)
    assert values(hand.root.locator(".ln-table td")) == about(columns)


def test_lanes_counted_by_mistake_are_drawn_with_what_they_hold(reader: Any) -> None:
    root = Hand(reader, TilesExplorer(padding="counted", step=2), **DESK).root
    rows = case("forward", **SHAPE, padding="counted", step=2)["rows"]
    mean, right, wrong = (rows[name][:4] for name in ("mean", "variance", "counted"))
    assert root.locator(".ln-mistake").count() == 2 * 4
    assert values(root.locator("svg .ln-lane")) == about((-mean).expand(4, 2), 0.0501)
    assert values(root.locator(".ln-beside")) == about(right)
    assert values(root.locator(".ln-wrong")) == about(wrong)
    assert values(root.locator(".ln-table td")) == about(torch.cat([mean, right, wrong], 1))


def test_a_long_row_has_sums_and_a_step_beyond_the_last_is_the_last(reader: Any) -> None:
    hand = Hand(reader, TilesExplorer(kernel="long", step=9), **DESK)
    made = case("long", **SHAPE, padding="masked", step=4)
    columns = [*made["along"].values(), *(made["rows"][n][:, 0] for n in ("mean", "variance"))]
    assert values(hand.root.locator(".ln-table td")) == about(torch.stack(columns, 1))
    for count in ("3 of 4", "2 of 4"):
        hand.root.get_by_role("button", name="Back", exact=True).click()
        hand.sentence()
        assert hand.root.locator(".ln-stepper small").inner_text() == count
    assert [hand.numbers()[n] for n in ("read", "written", "idle")] == ["84", "0", "14"]
