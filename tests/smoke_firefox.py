"""The built pages in Firefox: `make firefox`. Not a part of `make test`.

Playwright drives a Firefox of its own alone. The one that a reader has speaks WebDriver BiDi over
a web socket; what is needed of it is little.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

FIREFOX = ["firefox-esr", "firefox"]
KEYS = {"Right": "\ue014", "Up": "\ue013"}
# No network: what a page asks for, nobody answers. A window of the tests is as dark as it is told.
PREFERENCES = """user_pref("network.proxy.type", 1);
user_pref("network.proxy.socks", "127.0.0.1");
user_pref("network.proxy.socks_port", 9);
user_pref("dom.w3c_touch_events.enabled", 1);
user_pref("layout.css.prefers-color-scheme.content-override", {theme});
"""
DESK, PHONE = (1280, 800), (390, 844)


class Firefox:
    """One page in a Firefox of its own, without a network."""

    def __init__(self, profile: Path, site: Path, *, dark: bool = False) -> None:
        path = next(filter(None, map(shutil.which, FIREFOX)), None)
        if path is None:
            pytest.fail("no Firefox here: apt-get install firefox-esr")
        (profile / "user.js").write_text(
            PREFERENCES.format(theme=0 if dark else 1), encoding="utf8"
        )
        told = profile / "stderr"
        arguments = ["--headless", "--no-remote", "--remote-debugging-port=0", "--profile"]
        with told.open("w") as stderr:
            self._running = subprocess.Popen([path, *arguments, str(profile)], stderr=stderr)
        address = None
        while address is None:
            if self._running.poll() is not None:
                pytest.fail(f"Firefox did not start: {told.read_text()}")
            address = re.search(r"listening on (ws://\S+)", told.read_text())
        # Firefox answers programs, not pages: a page names its origin.
        url = f"{address[1]}/session"
        self._socket = websocket.create_connection(url, timeout=60, suppress_origin=True)
        self._numbers = itertools.count()
        self.errors: list[str] = []
        self._site = site
        self._send("session.new", capabilities={})
        tree = self._send("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]
        self._send("session.subscribe", events=["log.entryAdded", "network.fetchError"])

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return dict(answer["result"])
            said = answer.get("params", {})
            if answer.get("method") == "network.fetchError":
                self.errors.append(f"not loaded: {said['request']['url']}: {said['errorText']}")
            elif said.get("level") == "error":
                self.errors.append(said["text"])

    def close(self) -> None:
        self._socket.close()
        self._running.terminate()
        self._running.wait(timeout=30)

    def open(self, page: str, size: tuple[int, int]) -> None:
        """Open a page, in a window of this size, and wait until its explorers live."""
        width, height = size
        viewport = {"width": width, "height": height}
        self._send("browsingContext.setViewport", context=self._context, viewport=viewport)
        url = f"{self._site.as_uri()}/{page}"
        self._send("browsingContext.navigate", context=self._context, url=url, wait="complete")
        self.until("document.querySelectorAll('.ln-explorer-output:not(.ln-live)').length === 0")
        self.js("window.MathJax?.startup.promise.then(() => 0)")

    def js(self, expression: str) -> Any:
        """Return what an expression is in the page: a number, a text, a truth or none."""
        answer = self._send(
            "script.evaluate",
            expression=expression,
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer.get("exceptionDetails", {}).get("text")
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        self.js(f"""(async () => {{
            for (const start = Date.now(); !({condition}); ) {{
                if (Date.now() - start > 15000) throw Error('not in time');
                await new Promise(requestAnimationFrame);
            }}
        }})()""")

    def _act(self, kind: str, actions: list[dict[str, Any]], **more: Any) -> None:
        source = {"type": kind, "id": kind + str(more), "actions": actions, **more}
        self._send("input.performActions", context=self._context, actions=[source])
        self._send("input.releaseActions", context=self._context)
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def stroke(self, part: str, right: int = 0, down: int = 0, *, by: str = "mouse") -> None:
        """Press on the middle of a part, move, and let go."""
        found, middle = (
            f"document.querySelector(`{part}`)",
            "{ block: 'center', behavior: 'instant' }",
        )
        self.js(f"{found}.scrollIntoView({middle})")
        box = f"{found}.getClientRects()[0]"
        middle = f"(b => `${{b.left + b.width / 2}} ${{b.top + b.height / 2}}`)({box})"
        x, y = (round(float(v)) for v in self.js(middle).split())
        moves = [
            {"type": "pointerMove", "x": x + right * i // 8, "y": y + down * i // 8}
            for i in range(1, 9)
        ]
        start = {"type": "pointerMove", "x": x, "y": y}
        press, release = ({"type": f"pointer{way}", "button": 0} for way in ("Down", "Up"))
        moved = moves if right or down else []
        scrolled = self.js("scrollY")
        self._act("pointer", [start, press, *moved, release], parameters={"pointerType": by})
        assert not moved or self.js("scrollY") == scrolled

    def keys(self, part: str, *names: str) -> None:
        """Press keys while a part has the focus."""
        self.js(f"document.querySelector(`{part}`).focus()")
        pressed = [(way, KEYS[name]) for name in names for way in ("keyDown", "keyUp")]
        self._act("key", [{"type": way, "value": key} for way, key in pressed])

    def words(self, part: str) -> str:
        return str(self.js(f"document.querySelector(`{part}`).textContent"))


@pytest.fixture
def firefox(tmp_path: Path, site: Path, request: Any) -> Iterator[Firefox]:
    browser = Firefox(tmp_path, site, dark=getattr(request, "param", False))
    yield browser
    browser.close()
    assert browser.errors == []


ROW, EPSILON = "book/index.html", "notebooks/02_epsilon.html"
SAID = "document.querySelector('{} .ln-verdict').textContent"


@pytest.mark.parametrize("firefox", [False, True], ids=["light", "dark"], indirect=True)
@pytest.mark.parametrize("size", [DESK, PHONE])
def test_the_landing_page_shows_the_row_above_its_fold(firefox: Firefox, size: Any) -> None:
    firefox.open(ROW, size)
    bottom = firefox.js("document.querySelector('.ln-row svg').getBoundingClientRect().bottom")
    assert bottom <= size[1]
    assert firefox.js("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("by", ["mouse", "touch", "keys"])
def test_a_bar_of_the_row_moves(firefox: Firefox, by: str) -> None:
    firefox.open(ROW, PHONE if by == "touch" else DESK)
    bar = "[role=slider][aria-label='Feature 8 of x']"
    assert firefox.js(f"+document.querySelector(`{bar}`).ariaValueNow") == 9
    if by == "keys":
        firefox.keys(bar, "Up", "Up")
    else:
        firefox.stroke(f"{bar} .ln-target", down=-30, by=by)
    assert firefox.js(f"+document.querySelector(`{bar}`).ariaValueNow") > 9


def test_guess_link_number_and_symbols_of_the_chapter_on_epsilon(firefox: Firefox) -> None:
    firefox.open(EPSILON, DESK)
    firefox.stroke(".ln-epsilon [aria-label^=Your] .ln-target", right=-40)
    assert firefox.js("document.querySelector('.ln-epsilon').matches('.ln-guessing')")
    firefox.stroke(".ln-epsilon .ln-see")
    assert "it is √ε" in firefox.words(".ln-epsilon .ln-answer")
    assert firefox.js(SAID.format(".ln-epsilon")) == "ε decides; pure float16 fails"
    number = ".ln-tie[data-ln-drag=spread]"
    values = [float(firefox.words(number))]
    for move in (lambda: firefox.stroke(number, right=60), lambda: firefox.keys(number, "Right")):
        move()
        values.append(float(firefox.words(number)))
    assert values == sorted({*values})
    color = "getComputedStyle(document.querySelector('mjx-container .ln-s-sigma')).color"
    plain = firefox.js(color)
    firefox.stroke(".ln-epsilon .ln-field .ln-s-sigma")
    assert firefox.js("document.documentElement.dataset.lnLit") == "sigma"
    assert firefox.js(color) != plain
    firefox.stroke('a[data-ln-set="eps=1e-5&spread=0.1"]')
    assert firefox.js(SAID.format(".ln-epsilon")) == "The data decide the output"
    assert firefox.js("location.hash") == "#explorer-epsilon?eps=1e-5&spread=0.1"
