"""Explorers in the hand: finger, mouse and keys, each as real input to a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tiers import few

from lnlib.book.explorers import (
    AxesExplorer,
    BackwardExplorer,
    CellExplorer,
    DepthExplorer,
    EpsilonExplorer,
    Explorer,
    GammaBetaExplorer,
    JacobianExplorer,
    SphereExplorer,
    TilesExplorer,
)

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESK = {"viewport": {"width": 900, "height": 700}}
FAMILY = [
    *(EpsilonExplorer, GammaBetaExplorer, SphereExplorer, AxesExplorer, TilesExplorer),
    *(BackwardExplorer, CellExplorer, DepthExplorer),
]

# What can be taken hold of, and a stroke that moves it.
SIGMA, EPS = "[aria-label^=Spread]", "[aria-label^=Constant]"
GRIPS: dict[type[Explorer], list[tuple[str, tuple[int, int]]]] = {
    EpsilonExplorer: [
        *[(SIGMA, (-80, 0)), (SIGMA, (-40, 60)), (EPS, (-60, 20))],
        (".ln-back >> nth=0", (-90, 20)),
    ],
    GammaBetaExplorer: [(".ln-handle >> nth=4", (0, -40))],
    SphereExplorer: [
        *[("[aria-label=x]", (30, -60)), ("[aria-label='x − μ']", (30, 30))],
        (".ln-back", (100, 20)),
    ],
    AxesExplorer: [(".ln-handle", (60, 50))],
    JacobianExplorer: [
        *[("[aria-label^=Feature] >> nth=1", (9, -40)), ("[aria-label^=Scale]", (-30, 12))],
        ("[aria-label^=Output]", (-60, -90)),
    ],
    DepthExplorer: [("[aria-label^=Number]", (-80, 30))],
    BackwardExplorer: [
        ("[aria-label='Feature 4 of x']", (0, 12)),
        ("[aria-label='Feature 1 of dy']", (8, -30)),
    ],
    CellExplorer: [(".ln-handle", (10, 50))],
}
KNEE_ASIDE = {"eps": 1e-5}  # else its handle is where a stroke or a tap should meet none

STATE = """root => [...root.querySelectorAll('input:not([type=radio]), select, [role=slider]')]
    .map(e => [e.value, ...['now', 'text'].map(a => e.getAttribute(`aria-value${a}`))].join())"""
TELL = "(root, said) => root.dispatchEvent(new CustomEvent('ln-set', { detail: said }))"
WATCH = """window.canceled = 0; addEventListener('pointercancel', () => { canceled += 1; }, true)"""
# A place of a drawing where nothing can be dragged but its background.
BARE = """svg => {
    const { left, top, width, height } = svg.getBoundingClientRect();
    for (const [x, y] of [[0.9, 0.4], [0.8, 0.15], [0.6, 0.3], [0.9, 0.9]]) {
        const place = [left + x * width, top + y * height];
        if (!document.elementFromPoint(...place)?.closest('.ln-handle')) return place;
    }
}"""


class Hand:
    """A reader's hand on an explorer that has a page of its own, with room to scroll."""

    def __init__(self, reader: Any, widget: Explorer, **context: Any) -> None:
        someone = reader(**(context or PHONE))
        self.root = someone.alone(widget)
        self.page = someone.page
        self.page.add_style_tag(content="main { padding: 900px 0 }")
        self.page.evaluate(WATCH)
        self._cdp = someone.context.new_cdp_session(self.page)

    def state(self) -> list[str]:
        return list(self.root.evaluate(STATE))

    def reset(self) -> None:
        button = self.root.get_by_role("button", name="Reset")
        if button.is_enabled():  # it is not where there is nothing to bring back
            button.click()

    def scrolled(self) -> float:
        return float(self.page.evaluate("scrollY"))

    def middle_of(self, part: str) -> tuple[float, float]:
        """Put a part in the middle of the screen, and return where it is."""
        found = self.root.locator(part).first
        found.evaluate("e => e.scrollIntoView({ block: 'center' })")
        target = found.locator(".ln-target")
        box = (target if target.count() else found).first.bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def fingers(self, what: str, *places: tuple[float, float]) -> None:
        """Let fingers go down, move or go up: those that are named stay on the screen."""
        points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(places)]
        self._cdp.send("Input.dispatchTouchEvent", {"type": f"touch{what}", "touchPoints": points})

    def stroke(self, start: tuple[float, float], right: float, down: float) -> None:
        """Move one finger little by little, as a hand does."""
        x, y = start
        self.fingers("Start", start)
        for i in range(1, 9):
            self.fingers("Move", (x + right * i / 8, y + down * i / 8))
            self.page.wait_for_timeout(8)
        self.fingers("End")

    def settle(self) -> None:
        """Wait until the page stands still after a swipe."""
        self.page.wait_for_function(
            """() => new Promise(done => {
                const before = scrollY;
                setTimeout(() => done(scrollY === before), 100);
            })"""
        )

    def drag(self, start: tuple[float, float], right: float, down: float) -> None:
        """The same with a mouse."""
        x, y = start
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + right, y + down, steps=8)
        self.page.mouse.up()


@few("explorer", GRIPS, 3)
def test_a_finger_takes_it_where_the_mouse_does_and_the_page_stays(
    reader: Any, explorer: type[Explorer]
) -> None:
    hand = Hand(reader, explorer(**(KNEE_ASIDE if explorer is EpsilonExplorer else {})))
    first = hand.state()
    for part, stroke in GRIPS[explorer]:
        start, top = hand.middle_of(part), hand.scrolled()
        hand.stroke(start, *stroke)
        hand.settle()
        by_finger = hand.state()
        assert hand.page.evaluate("canceled") == 0, part
        assert hand.scrolled() == top, part
        hand.reset()
        assert hand.state() == first
        hand.drag(hand.middle_of(part), *stroke)
        assert by_finger == hand.state() != first, part
        hand.reset()


@few("explorer", FAMILY, 3)
def test_beside_the_handles_a_finger_scrolls_the_page_and_a_mouse_selects_nothing(
    reader: Any, explorer: type[Explorer]
) -> None:
    hand = Hand(reader, explorer())
    first = hand.state()
    selected = "getSelection().toString().trim()"
    for picture in hand.root.locator(".ln-chart svg:visible").all():
        picture.evaluate("e => e.scrollIntoView({ block: 'center' })")
        top = hand.scrolled()
        hand.stroke(picture.evaluate(BARE), 30, -160)
        hand.settle()
        assert hand.scrolled() > top + 80
        assert hand.state() == first
        picture.evaluate("e => e.scrollIntoView({ block: 'center' })")
        hand.drag(picture.evaluate(BARE), -60, 300)
        assert hand.page.evaluate(selected) == ""
        hand.reset()
    hand.root.locator(".ln-sentence").click(click_count=3)
    assert len(hand.page.evaluate(selected)) > 40  # to be copied


@pytest.mark.parametrize("context", [PHONE, DESK], ids=["tap", "click"])
def test_a_tap_on_either_picture_of_sigma_puts_it_there(reader: Any, context: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(**KNEE_ASIDE), **context)
    tap = hand.page.touchscreen.tap if context is PHONE else hand.page.mouse.click
    sigma = hand.root.get_by_label("Spread σ (units of x), as a number")
    hand.root.locator("summary").click()  # the second picture is in the fold
    for picture, power in (("svg >> nth=0", "10⁻⁵"), (".ln-fold .ln-chart svg", "10⁻¹")):
        hand.middle_of(picture)
        tick = hand.root.locator(picture).get_by_text(power, exact=True).last.bounding_box()
        tap(tick["x"] + tick["width"] / 2, tick["y"] - 60)
        # A pixel is a fortieth of a decade on a phone.
        expected = 1e-5 if power == "10⁻⁵" else 0.1
        assert float(sigma.input_value()) == pytest.approx(expected, rel=0.06)


def test_what_a_swipe_began_to_move_goes_back_when_the_page_scrolls(reader: Any) -> None:
    for explorer in (EpsilonExplorer, SphereExplorer):
        hand = Hand(reader, explorer())
        first = hand.state()
        x, y = hand.middle_of(".ln-back")
        hand.fingers("Start", (x - 80, y))
        for right, down in ((9, 1), (10, 4)):  # less than what the browser takes for a direction
            hand.fingers("Move", (x - 80 + right, y + down))
        assert hand.state() != first
        for down in range(20, 160, 20):
            hand.fingers("Move", (x - 70, y - down))
            hand.page.wait_for_timeout(8)
        hand.fingers("End")
        assert hand.page.evaluate("canceled") == 1
        assert hand.state() == first


def test_two_fingers_move_two_handles_and_a_second_one_on_the_same_has_no_say(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer())
    x, y = hand.middle_of(SIGMA)
    hand.stroke((x, y), -40, 0)
    alone = hand.state()
    hand.reset()
    for second in ((x + 12, y + 4), (x, y)):  # beside the first; then the first has gone up
        hand.fingers("Start", (x, y))
        hand.fingers("Start", (x, y), second)
        for i in range(1, 9):
            hand.fingers("Move", (x - 5 * i, y), second)
        hand.fingers("End")
        assert hand.state() == alone
        hand.reset()
    knee = hand.middle_of(EPS)
    x, y = hand.middle_of(SIGMA)
    knee = hand.root.locator(".ln-ring").bounding_box()
    kx, ky = knee["x"] + knee["width"] / 2, knee["y"] + knee["height"] / 2
    first = hand.state()
    hand.fingers("Start", (x, y), (kx, ky))
    for i in range(1, 9):
        hand.fingers("Move", (x - 5 * i, y), (kx + 3 * i, ky))
    hand.fingers("End")
    both = hand.state()
    assert [old == new for old, new in zip(first, both, strict=True)] == [False] * len(first)


def test_a_point_stays_under_the_pointer_while_the_page_scrolls(reader: Any) -> None:
    for explorer in (GammaBetaExplorer, SphereExplorer):
        part = GRIPS[explorer][0][0]
        hand = Hand(reader, explorer(), **DESK)
        x, y = hand.middle_of(part)
        hand.drag((x, y), 0, 25)
        moved = hand.state()
        hand.reset()
        x, y = hand.middle_of(part)
        top = hand.scrolled()
        hand.page.mouse.move(x, y)
        hand.page.mouse.down()
        hand.page.evaluate("scrollBy(0, 60)")
        hand.page.mouse.move(x, y + 25 - 60, steps=3)
        hand.page.mouse.up()
        assert hand.scrolled() == top + 60
        assert hand.state() == moved


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("explorer", [EpsilonExplorer, SphereExplorer, AxesExplorer, DepthExplorer])
def test_a_handle_keeps_its_keys_from_the_page_and_leaves_the_browser_its_own(
    reader: Any, explorer: type[Explorer]
) -> None:
    hand = Hand(reader, explorer(), **DESK)
    for handle in hand.root.locator(".ln-handle[role=slider]").all():
        handle.focus()
        hand.page.wait_for_timeout(300)  # the sentence waits for a pause, and may take another line
        handle.evaluate("e => e.scrollIntoView({ block: 'center' })")
        top, told = hand.scrolled(), [handle.get_attribute("aria-valuetext")]
        for key in ("End", "Home", "PageUp", "PageDown"):
            hand.page.keyboard.press(key)
            told.append(handle.get_attribute("aria-valuetext"))
        hand.settle()
        assert hand.scrolled() == top
        assert len(set(told)) >= 3
        handle.evaluate(
            "e => e.addEventListener('keydown', e => { window.kept = e.defaultPrevented; })"
        )
        for key in ("Alt+ArrowLeft", "Control+Home", "Meta+ArrowUp"):
            before = hand.state()
            hand.page.keyboard.press(key)
            assert (hand.page.evaluate("kept"), hand.state()) == (False, before)
        hand.settle()


def test_home_and_end_lead_a_slider_to_its_ends_and_a_page_is_ten_steps(reader: Any) -> None:
    hand = Hand(reader, EpsilonExplorer(), **DESK)
    for name, low, high in (("Spread", 0, 10), ("Constant", 0, 1)):
        handle = hand.root.locator(f"[aria-label^={name}][role=slider]")

        def now(attribute: str = "aria-valuenow", handle: Any = handle) -> float:
            return float(handle.get_attribute(attribute))

        first = now()
        handle.press("PageUp")
        assert now() == pytest.approx(first * 10**0.5, rel=2e-3)
        handle.press("PageDown")
        assert now() == first
        handle.press("End")
        assert now() == now("aria-valuemax") == high
        handle.press("Home")
        assert now() == now("aria-valuemin") == low


def test_home_and_end_lead_a_point_ten_steps_to_the_side_and_back(reader: Any) -> None:
    hand = Hand(reader, SphereExplorer(), **DESK)
    for handle in hand.root.locator(".ln-handle").all():
        for key, same, back in (
            ("End", "Shift+ArrowRight", "Home"),
            ("PageUp", "Shift+ArrowUp", "PageDown"),
        ):
            first = hand.state()
            handle.press(key)
            leapt = hand.state()
            handle.press(back)
            assert hand.state() == first != leapt
            handle.press(same)
            assert hand.state() == leapt
            handle.press(back)
    ring = Hand(reader, AxesExplorer(sample=2, channel=2, position=3), **DESK)
    for key, place in (
        ("End", "sample 3, channel 2, position 5"),
        ("Home", "sample 1, channel 2, position 1"),
        ("PageDown", "sample 1, channel 4, position 1"),
        ("PageUp", "sample 1, channel 1, position 1"),
    ):
        handle = ring.root.locator(".ln-handle")
        handle.press(key)
        assert handle.get_attribute("aria-valuetext").startswith(place)


@pytest.mark.parametrize("explorer", [EpsilonExplorer, GammaBetaExplorer, SphereExplorer])
def test_arrows_back_undo_arrows_forth_exactly_also_after_a_drag(
    reader: Any, explorer: type[Explorer]
) -> None:
    hand = Hand(reader, explorer(), **DESK)

    def there_and_back() -> None:
        for one in hand.root.locator(".ln-handle[role=slider]:visible, .ln-controls input").all():
            one.focus()
            before = hand.state()
            for key in 2 * ["ArrowUp"] + 2 * ["ArrowDown"]:
                hand.page.keyboard.press(key)
            assert hand.state() == before, one.get_attribute("aria-label")

    there_and_back()
    for part, move in GRIPS[explorer][:3]:
        hand.drag(hand.middle_of(part), *move)
    there_and_back()
    for field in hand.root.locator("input[type=number]:visible").all():
        digits = re.sub(r"e.*|[-.]", "", field.input_value()).lstrip("0")
        assert len(digits) <= 4  # 1.234 or 0.311, not 0.310926
    if explorer is not SphereExplorer:  # values between a slider's steps
        hand.root.locator("summary").click()
        hand.root.locator(".ln-presets button").filter(has_text=re.compile("Undo|4e-9")).click()
        there_and_back()
