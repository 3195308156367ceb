"""The ε explorer: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import pytest
from hand import DESK, Hand

from lnlib.book.explorers import EpsilonExplorer

# The knee, the mark of σ and the points of the curve, as the axes have them: log₁₀ σ and variance.
DRAWN = r"""root => {
    const all = name => [...root.querySelector('svg').querySelectorAll(name)];
    const [a, b, half, one] = [['10⁻⁵', 'x'], ['10⁻³', 'x'], ['½', 'y'], ['1', 'y']].map(
        ([words, at]) => +all('.ln-tick').find(e => e.textContent === words).getAttribute(at));
    return ['[data-trait=eps]', '.ln-mark', '.ln-curve'].map(name => all(name).at(-1))
        .flatMap(e => (e.getAttribute('transform') ?? e.getAttribute('d')).match(/\d[\d.]+/g))
        .map((p, i) => i % 2 ? 1 - (p - one + 4) / (half - one) / 2 : 2 * (p - a) / (b - a) - 5);
}"""


def test_knee_mark_and_curve_stand_where_the_axes_say_and_the_knee_is_dragged(reader: Any) -> None:
    hand, handle = Hand(reader, EpsilonExplorer(spread=1e-2), **DESK), ".ln-handle[data-trait=eps]"
    knee, half, *points = hand.root.evaluate(DRAWN)
    assert [knee, half, *points[:2]] == pytest.approx([-4, 0.5, -2, 1], abs=0.02)
    variances = [1 / (1 + 1e-8 / 100**log_spread) for log_spread in points[::2]]  # ε = 1e-8
    assert points[1::2] == pytest.approx(variances, abs=0.02)
    x, y = hand.middle_of(handle)
    hand.drag((x, y), 40, 0)
    assert hand.middle_of(handle)[0] == pytest.approx(x + 40, abs=1)


def test_fields_strips_table_and_readings_are_of_the_state(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(spread=0), **DESK)
    assert hand.root.locator(".ln-wreck").all_text_contents() == ["", "", "all 8 values are NaN"]
    fields = hand.root.locator("label").all_text_contents()
    assert fields == ["Spread σ (units of x)", "Constant ε (units of x²)"]
    hand.tell("eps=1&spread=0.5")
    table = " ".join(hand.root.locator(".ln-table td").all_text_contents())
    assert table == "0.2 × 0.894 0.111 × 0.667 0.2 × 0.895"
    assert {"variance": "0.2", "factor": "0.894", "knee": "1"}.items() <= hand.numbers().items()
