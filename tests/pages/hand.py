"""A hand on an explorer: finger, mouse and keys, each as real input to a real browser."""

from __future__ import annotations

from typing import Any

from conftest import DRAWN, LISTEN, SEND
from lnlib.book.explorers import Explorer

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESK = {"viewport": {"width": 1280, "height": 800}}
# All that is set, as one sees and hears it.
STATE = """root => [...root.querySelectorAll(
        'input:not([type=radio]), input:checked, [role=slider]:not(.ln-asking)')]
    .map(e => [e.value, ...['now', 'text'].map(a => e.getAttribute(`aria-value${a}`))].join())"""
# Room to scroll, and as much on both sides as a page of the book has.
ROOM = """main { padding: 900px 0 }
@media (width < 600px) { body { margin: 0 12px !important; } }"""
RESTS = """() => new Promise(done => {
    const before = scrollY;
    setTimeout(() => done(scrollY === before), 100);
})"""
WATCH = """window.canceled = 0; addEventListener('pointercancel', () => { canceled += 1; }, true)"""


class Hand:
    """A reader's hand on an explorer that has a page of its own, with room to scroll."""

    def __init__(self, reader: Any, widget: Explorer, **context: Any) -> None:
        someone = reader(**(context or PHONE))
        self.root = someone.alone(widget)
        self.page = someone.page
        self.page.set_default_timeout(10_000)
        self.page.add_style_tag(content=ROOM)
        self.page.evaluate(WATCH)
        self.root.evaluate(LISTEN)
        self._cdp = someone.context.new_cdp_session(self.page)

    def state(self) -> list[str]:
        return list(self.root.evaluate(STATE))

    def tell(self, state: str) -> str:
        """Set a state in words, as a link in the text does; return the sentence of it."""
        self.root.evaluate(SEND, ["ln-set", state])
        return self.sentence()

    def sentence(self) -> str:
        self.page.evaluate(f"async () => {{ {DRAWN} }}")
        return str(self.root.locator(".ln-sentence").text_content()).replace("\xa0", " ")

    def verdict(self) -> str:
        self.page.evaluate(f"async () => {{ {DRAWN} }}")
        return str(self.root.locator(".ln-verdict").text_content())

    def words(self, part: str) -> str:
        return " ".join(self.root.locator(part).all_text_contents())

    def numbers(self) -> dict[str, str]:
        """Return what the explorer told the text of its numbers when something changed last."""
        return dict(self.page.evaluate("told.numbers()"))

    def reset(self) -> None:
        self.root.evaluate(SEND, ["ln-set", ""])

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
            self.page.wait_for_timeout(8 if i < 8 else 8 + abs(down) / 2)  # else a swipe goes on
        self.fingers("End")

    def drag(self, start: tuple[float, float], right: float, down: float) -> None:
        """The same with a mouse."""
        x, y = start
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + right, y + down, steps=8)
        self.page.mouse.up()
