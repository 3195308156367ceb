"""Handles, areas and fields: several fingers, swipes, keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hand import DESK, RESTS, Hand
from stills import MOUNT

from lnlib.book.explorers import EpsilonExplorer, GammaBetaExplorer, SphereExplorer
from lnlib.book.explorers.base import script

SIGMA = "[aria-label^=Spread]"


def test_two_fingers_move_two_handles_and_a_second_one_on_the_same_has_no_say(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer())
    x, y = hand.middle_of(SIGMA)
    hand.stroke((x, y), -40, 0)
    alone, first = hand.state(), hand.reset() or hand.state()
    for second in ((x + 12, y + 4), (x, y)):  # beside the first; then the first has gone up
        hand.fingers("Start", (x, y))
        hand.fingers("Start", (x, y), second)
        for i in range(1, 9):
            hand.fingers("Move", (x - 5 * i, y), second)
        hand.fingers("End")
        assert hand.state() == alone
        hand.reset()
    ring = hand.root.locator("[data-trait=eps] .ln-ring").bounding_box()
    kx, ky = ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2
    hand.fingers("Start", (x, y), (kx, ky))
    for i in range(1, 9):
        hand.fingers("Move", (x - 5 * i, y), (kx + 3 * i, ky))
    hand.fingers("End")
    assert [old == new for old, new in zip(first, hand.state(), strict=True)] == [False] * 6


@pytest.mark.parametrize("kind", [EpsilonExplorer, SphereExplorer])
def test_what_a_swipe_began_to_move_goes_back_when_the_page_scrolls(reader: Any, kind: Any) -> None:
    hand = Hand(reader, kind())
    first, (x, y) = hand.state(), hand.middle_of(".ln-back")
    hand.fingers("Start", (x - 80, y))
    for right, down in ((9, 1), (10, 4)):  # less than what the browser takes for a direction
        hand.fingers("Move", (x - 80 + right, y + down))
    assert hand.state() != first
    for down in range(20, 160, 20):
        hand.fingers("Move", (x - 70, y - down))
        hand.page.wait_for_timeout(8)
    hand.fingers("End")
    assert (hand.page.evaluate("canceled"), hand.state()) == (1, first)


def test_where_rings_crowd_a_finger_beside_one_scrolls_and_a_tap_takes_it(reader: Any) -> None:
    hand = Hand(reader, GammaBetaExplorer())
    first, ring = hand.state(), "[data-trait=weight] .ln-handle >> nth=4"
    for moves in (False, True):
        (x, y), top = hand.middle_of(ring), hand.scrolled()
        hand.stroke((x, y + 19), 2, -120)
        hand.page.wait_for_function(RESTS)
        assert (hand.state() != first, hand.scrolled() < top + 60) == (moves, moves)
        x, y = hand.middle_of(ring)
        hand.page.touchscreen.tap(x, y + 19)


def test_reset_brings_back_what_a_cell_chose_and_a_drawing_follows_the_width(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(eps=1e-3), **DESK)
    first = hand.sentence()
    assert "ε = 0.001" in first
    hand.page.set_viewport_size({"width": 500, "height": 700})
    fits = """[...document.querySelectorAll('.ln-chart')].filter(c => c.clientWidth).every(chart =>
        +chart.querySelector('svg').getAttribute('width') === Math.floor(chart.clientWidth))"""
    hand.page.wait_for_function(fits)
    assert hand.tell("eps=1e-5") != first
    hand.root.get_by_role("button", name="Reset").click()
    assert hand.sentence() == first


def test_an_arrow_with_shift_and_a_page_up_are_ten_arrows_and_a_page_down_takes_them_back(
    reader: Any,
) -> None:
    hand = Hand(reader, EpsilonExplorer(), **DESK)
    first, moved, handle = hand.state(), [], hand.root.locator(SIGMA).first
    for keys in (["ArrowUp"] * 10, ["Shift+ArrowUp"], ["PageUp"]):
        for key in keys:
            handle.press(key)
        moved.append(hand.state())
        handle.press("PageDown")
        assert hand.state() == first
    assert moved[0] == moved[1] == moved[2] != first


def test_a_box_takes_a_comma_and_a_true_minus_and_escape_takes_back(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(), **DESK)
    box = hand.root.locator("input[type=number]").first
    for typed, key, shown in (("1,5e−6", "Enter", "1.5e-6"), ("0.7", "Escape", "1.5e-6")):
        box.select_text()
        hand.page.keyboard.type(typed)
        hand.page.keyboard.press(key)
        box.blur()
        assert "With σ = 1.5e-6 and" in hand.sentence()
        assert box.input_value() == shown


VIEWS = """root => [...root.querySelectorAll('.ln-explorer-output')].map(place => [
    place.matches('.ln-live'), place.querySelector('.ln-verdict')?.textContent ?? ''])"""


def test_what_cannot_be_shown_keeps_its_place_and_the_views_of_a_model_move_together(
    browser: Any, tmp_path: Path
) -> None:
    explorer, throws = EpsilonExplorer(ask=False), "export default { render() { throw 1 } };"
    states = {"a": throws, "b": "export default {{", "c": str(explorer._esm)}
    models = {name: {"state": {**explorer.page_state(), "_esm": e}} for name, e in states.items()}
    places = "".join(
        f'<div class="ln-explorer-output">{explorer.page_scripts(name)[0]}</div>' for name in "abcc"
    )
    state = script("application/vnd.jupyter.widget-state+json", {"state": models})
    path = tmp_path / "views.html"
    path.write_text(f'{places}{state}<script defer src="{MOUNT.as_uri()}"></script>', "utf8")
    page, errors = browser.new_page(), []
    page.on("console", lambda message: errors.append(message.text))
    page.goto(path.as_uri())
    page.locator(".ln-live").nth(1).wait_for()
    page.locator(".ln-presets button", has_text="No ε").first.dispatch_event("click")
    page.wait_for_function("document.querySelectorAll('[aria-pressed=true]').length === 2")
    views = page.locator("body").evaluate(VIEWS)
    assert [live for live, _ in views] == [False, False, True, True]
    assert views[2] == views[3] == [True, "The data decide the output"]
    assert [text.startswith("An explorer could not be shown") for text in errors] == [True, True]
    assert page.locator("head style").count() == 1
    page.close()
