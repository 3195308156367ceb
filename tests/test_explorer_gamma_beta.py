"""The γ and β explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

from typing import Any

import pytest
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import GammaBetaExplorer

# Of each lane, by its ticks: of each feature the px from its number to its dot and to its stem, and
# the values at which these end; then the lines that mark mean ± standard deviation, and β ± γ.
DRAWN = r"""root => {
    const all = name => [...root.querySelectorAll(name)];
    const numbers = (e, name = 'd') => e.getAttribute(name).match(/-?[\d.]+/g).map(Number);
    return ['[data-trait=row] .ln-dot', '.ln-dot.ln-s-x-hat', '.ln-handle'].map((dots, k) => {
        const ticks = [...all('svg > g:has(.ln-grid)')[k].querySelectorAll('text')];
        const [[p, a], [q, b]] = [ticks[0], ticks.at(-1)].map(
            e => [e.getAttribute('y') - 4, +e.textContent.replace('−', '-')]);
        const of = y => a + (y - p) / (q - p) * (b - a);
        const [stem, band, mean] = ['stems', 'band', 'mean'].map(
            name => numbers(all(`.ln-${name}`)[k]));
        const [gamma, beta] = all('.ln-said').map(e => numbers(e));
        return [all('.ln-tick').flatMap((tick, i) => {
            const [from, [x, y]] = [tick.getAttribute('x'), numbers(all(dots)[i], 'transform')];
            return [x - from, stem[3 * i] - from, of(y), of(stem[3 * i + 2])];
        }), [band[3], mean[1], band[1], gamma[1], beta[1], gamma[4]].map(of)];
    });
}"""


def test_dots_stems_and_bands_are_where_the_axes_say(reader: Any) -> None:
    hand = Hand(reader, GammaBetaExplorer(weight=[1] * 7 + [3], bias=[1] * 8), **PHONE)
    x, x_hat = [2, 4, 4, 4, 5, 5, 7, 9], [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2]
    y, bands = [-0.5, 0.5, 0.5, 0.5, 1, 1, 2, 7], [[3, 5, 7], [-1, 0, 1], [-0.68, 1.5, 3.68]]
    for (marks, lines), *told in zip(hand.root.evaluate(DRAWN), (x, x_hat, y), bands, strict=True):
        assert marks == pytest.approx([n for v in told[0] for n in (0, 0, v, v)], abs=0.1)
        assert lines[:3] == pytest.approx(told[1], abs=0.05)
    assert lines[3:] == pytest.approx([-0.25, 1, 2.25], abs=0.05)  # γ averages 1.25


def test_a_dot_follows_the_hand_whatever_its_gamma_and_a_tap_lets_go(reader: Any) -> None:
    hand, dot = Hand(reader, GammaBetaExplorer(weight=[3] * 8), **DESK), ".ln-handle >> nth=6"
    x, y = hand.middle_of(dot)
    hand.drag((x, y), 5, -20)
    assert hand.root.locator(dot).bounding_box()["y"] + 22 == pytest.approx(y - 20, abs=0.1)
    assert hand.root.locator("select").input_value() == "7"
    hand.page.mouse.click(*hand.middle_of(dot))
    assert hand.root.locator("select").input_value() == "0"


def test_a_start_looks_at_the_row(reader: Any) -> None:
    hand = Hand(reader, GammaBetaExplorer(row="wide"), **DESK)
    hand.root.locator("summary").click()
    hand.root.get_by_role("button", name="One feature up").click()
    readings = {"mean": "0.453", "std": "2.02", "weight": "1.25", "bias": "0"}
    assert hand.numbers() == {"eps": "1e-5", "feature": "2", **readings}
    table = " ".join(hand.root.locator(".ln-table td").all_text_contents())
    assert table == " −1 4 0 1 0.453 2.02 ≠ β 0 ≠ mean γ 1.25"
