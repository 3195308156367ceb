"""The sphere explorer: what is about it alone, and not in test_explorer_contract.py."""

from __future__ import annotations

import math
from typing import Any

import pytest
from goldens.sphere import camera, case
from hand import DESK, Hand

from lnlib.book.explorers import SphereExplorer

STATE = {"x": (0.4, 1.3, -0.9), "weight": (2, 1, 0.5), "bias": (0, 1, 0), "eps": 1e-5, "turn": 20}
# The marks of x, its shadow, x̂ and y, then the dots of the ellipse, to the right of the origin and
# above it: in units, by the circle of radius √3.
DRAWN = r"""root => {
    const all = name => [...root.querySelectorAll(name)];
    const numbers = (e, name) => e.getAttribute(name).match(/-?[\d.]+/g).map(Number);
    const [left, cy, radius] = numbers(all('.ln-circle:not(.ln-faint)')[0], 'd');
    const of = ([x, y]) => [x - left - radius, cy - y].map(v => v / radius * Math.sqrt(3));
    const marks = ['.ln-handle:has(.ln-pill)', '.ln-handle:has(.ln-ring)', '.ln-mark.ln-s-x-hat',
        '.ln-mark.ln-s-gamma'].map(name => of(numbers(all(name)[0], 'transform')));
    const ellipse = all('.ln-ellipse:not(.ln-thin)').map(e => e.getAttribute('d')).join('');
    return [marks, [...ellipse.matchAll(/[ML](\S+) ([\d.]+)/g)].map(([, ...dot]) => of(dot))];
}"""


def test_points_are_where_the_camera_sees_them_and_y_is_on_the_ellipse(reader: Any) -> None:
    hand, terms = Hand(reader, SphereExplorer(**STATE), **DESK), case(**STATE)["rows"][0]
    marks, ellipse = hand.root.evaluate(DRAWN)
    points = terms["x"], terms["ofX"]["centered"], terms["xHat"], terms["y"]
    for mark, point in zip(marks, points, strict=True):
        assert mark == pytest.approx((camera(20)[:2] @ point).tolist(), abs=0.01)
    assert min(math.dist(marks[3], dot) for dot in ellipse) < 0.1
    cells = " ".join(hand.root.locator("td").all_text_contents())
    assert cells.startswith(" 1.46 −0.863 −0.597 −0.431 ")  # ∂y₁/∂x, then ∂y₂/∂x₁
    assert cells.endswith(" 0.903 0.903 1 1.16 1.63 1.56 1.73 2.26")  # std and length of all four


def test_what_is_in_front_turns_with_the_hand(reader: Any) -> None:
    hand = Hand(reader, SphereExplorer(), **DESK)
    (_, (before, low), *_), _ = hand.root.evaluate(DRAWN)
    x, y = hand.middle_of(".ln-back")
    hand.drag((x + 200, y - 50), 40, 0)
    (_, (after, _), *_), _ = hand.root.evaluate(DRAWN)
    assert low < 0  # nearer than the origin
    assert after > before + 0.5
    assert hand.numbers()["turn"] == "−125"


def test_a_guess_is_answered_by_the_trail_of_x_hat(reader: Any) -> None:
    hand = Hand(reader, SphereExplorer(), guess=True, **DESK)
    for right, down, least, most in ((0, -30, 1, 1), (60, 0, 4, 99)):  # up is along (1, 1, 1)
        hand.drag(hand.middle_of(".ln-handle:has(.ln-pill)"), right, down)
        assert least <= hand.root.locator(".ln-trail").get_attribute("d").count("M") <= most
    hand.root.get_by_role("button", name="See").click()
    answer = hand.root.locator(".ln-answer").text_content()
    assert answer == "Along (1, 1, 1) and, but for ε, along x − μ."
