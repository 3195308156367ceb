"""The depth explorer: what is about it alone, and not in test_explorer_contract.py."""

import pytest
from goldens import depth
from hand import DESK, PHONE, Hand

from lnlib.book.explorers import DepthExplorer

POINTS = r"""(root, css) => {
    const tick = words => [...root.querySelectorAll('.ln-tick')].find(e => e.textContent === words);
    const [zero, fifty] = ['layer 0', '50'].map(words => +tick(words).getAttribute('x'));
    const [one, million] = ['1', '10⁶'].map(words => tick(words).getAttribute('y') - 4);
    return [...root.querySelectorAll(css)].map(line => [...line.getAttribute('d').matchAll(
        /[ML]([\d.]+) ([\d.]+)(h4)?/g)].flatMap(([, x, y, square]) => [
            50 * (+x + (square ? 2 : 0) - zero) / Math.abs(fifty - zero),
            6 * (one - y - (square ? 2 : 0)) / Math.abs(million - one)]));
}"""  # the points of each line as the ticks tell them: layers, and powers of ten


def test_lines_and_marks_stand_at_their_numbers(reader: object) -> None:
    for hand in (Hand(reader, DepthExplorer(), **window) for window in (DESK, PHONE)):
        for order, scale, count in ("none", 1.2, 50), ("none", 0.7, 23), ("relu_first", 4, 50):
            hand.tell(f"order={order}&scale={scale}&depth={count}")
            lines = [line for both in depth(order, scale, count).values() for line in both.log10()]
            due = [[v for point in enumerate(line.tolist()) for v in point] for line in lines]
            drawn = hand.root.evaluate(POINTS, "svg :is(.ln-curve, .ln-seen)")
            assert drawn == [pytest.approx(line, abs=0.02) for line in due]  # 0.1 px


def test_a_guess_stays_as_long_as_its_state_and_the_table_tells_both(reader: object) -> None:
    hand = Hand(reader, DepthExplorer(), guess=True, **DESK)
    hand.drag(hand.middle_of("[aria-label^=Your]"), 0, -47)  # half of the way up to 10¹²
    hand.root.get_by_role("button", name="See").click()
    assert "You said 1e6 at layer 50." in hand.root.locator(".ln-answer").text_content()
    assert hand.root.evaluate(POINTS, ".ln-rule")[1] == pytest.approx([0, 0, 50, 6], abs=0.02)
    assert hand.root.get_by_text("your guess").is_visible()
    hand.root.locator("[aria-label^=Number]").press("ArrowDown")  # one layer less
    assert hand.root.locator(".ln-rule").count() == 1
    assert " ".join(hand.root.locator("td").all_text_contents()[-8:-3]) == "431 1470 5.36 5.16 –"
    hand.root.get_by_label("ReLU → norm").check()
    assert {"last": "1", "arrives": "11900", "growth": "1.21"}.items() <= hand.numbers().items()


def test_a_guess_is_taken_anywhere_and_asked_again_for_other_weights(reader: object) -> None:
    hand = Hand(reader, DepthExplorer(), guess=True, **PHONE)
    see = hand.root.get_by_role("button", name="See", exact=True)
    assert see.get_attribute("aria-disabled") == "true"
    ring = hand.root.locator("[aria-label^=Your]")
    x, y = hand.middle_of("[aria-label^=Your]")
    hand.page.touchscreen.tap(x, y)  # where it stands
    assert see.get_attribute("aria-disabled") == "false"
    hand.page.touchscreen.tap(x - 150, y + 94)  # 10⁻¹²
    ring.press("ArrowUp")
    assert ring.get_attribute("aria-valuetext") == "1.8e-12"
    see.click()
    for scale in ("1 % too large", "20 % too small", "100 % too large"):
        hand.root.get_by_role("button", name="Guess again").click()
        assert scale in hand.root.locator(".ln-ask").text_content()
        assert ring.get_attribute("aria-valuetext") == "1"
        hand.drag(hand.middle_of(".ln-asking"), 0, 0)  # a press on the plot
        see.click()
    assert "1 at layer 10. It is 2¹⁰ = 1020" in hand.root.locator(".ln-answer").text_content()
    hand.root.get_by_role("button", name="Guess again").click()
    ring.press("ArrowUp")
    hand.root.get_by_role("button", name="Skip").click()
    assert hand.root.get_by_text("your guess").count() == 0
