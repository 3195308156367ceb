"""The sphere explorer: what is about it alone, and not in test_explorer_contract.py."""

from typing import Any

import numpy as np
import pytest
from goldens import camera, sphere
from hand import DESK, Hand

from lnlib.book.explorers import SphereExplorer

STATE = {"x": (0.4, 1.3, -0.9), "weight": (2, 1, 0.5), "bias": (0, 1, 0), "eps": 1e-5, "turn": 20}
# The circle of radius √3; the shadow of x, x̂, y and x; the ellipse.
PARTS = ".ln-circle:not(.ln-faint)", ".ln-free, .ln-mark", ".ln-ellipse:not(.ln-thin)"
DRAWN = r"""(root, parts) => parts.map(part => [...root.querySelectorAll(part)].flatMap(
    e => (e.getAttribute('transform') ?? e.getAttribute('d')).match(/\d[\d.]+/g).map(Number)))"""


def test_points_are_where_the_camera_sees_them_and_turn_with_the_hand(reader: Any) -> None:
    hand, terms = Hand(reader, SphereExplorer(**STATE), **DESK), sphere(**STATE)["rows"][0]
    cells = " ".join(hand.root.locator("td").all_text_contents())
    assert cells.startswith(" 1.46 −0.863 −0.597 −0.431 ")  # ∂y₁/∂x, then ∂y₂/∂x₁
    assert cells.endswith(" 0.903 0.903 1 1.16 1.63 1.56 1.73 2.26")  # std and length of all four
    points = np.stack([terms["ofX"]["centered"], terms["xHat"], terms["y"], terms["x"]])
    for turn in (20, 0):
        (left, up, radius, *_), marks, dots = hand.root.evaluate(DRAWN, PARTS)
        right_and_down = points @ camera(turn)[:2].numpy().T * [1, -1]
        seen = right_and_down * radius / 3**0.5 + [left + radius, up]
        assert np.reshape(marks, (4, 2)) == pytest.approx(seen, abs=0.5)
        assert np.hypot(*(np.reshape(dots, (-1, 2)) - seen[2]).T).min() < 5
        x, y = hand.middle_of(".ln-back")
        hand.drag((x + 200, y - 50), 40, 0)  # by 20 degrees


def test_x_hat_leaves_a_trail_during_a_guess_unless_x_goes_up(reader: Any) -> None:
    hand = Hand(reader, SphereExplorer(), guess=True, **DESK)
    see, (x, y) = hand.root.get_by_role("button", name="See"), hand.middle_of(".ln-back")
    hand.drag((x + 200, y - 50), 40, 0)  # to look from elsewhere is no guess
    assert see.is_disabled()
    for right, down, least, most in ((0, -30, 1, 1), (60, 0, 4, 99)):  # up is along (1, 1, 1)
        hand.drag(hand.middle_of(".ln-handle:has(.ln-pill)"), right, down)
        assert least <= hand.root.locator(".ln-trail").get_attribute("d").count("M") <= most
    see.click()
    assert hand.root.locator(".ln-answer").text_content().startswith("Along (1, 1, 1)")
