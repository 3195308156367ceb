"""The built pages in Firefox: `make firefox`. Not a part of `make test`.

Playwright drives a Firefox of its own alone; a reader's speaks WebDriver BiDi over a web socket.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websocket

PREFERENCES = """user_pref("dom.w3c_touch_events.enabled", 1);
user_pref("network.proxy.type", 1); // nobody answers what a page asks for
user_pref("network.proxy.socks", "127.0.0.1"); user_pref("network.proxy.socks_port", 9);
"""
OPTIONS = ["--headless", "--no-remote", "--remote-debugging-port=0", "--profile"]
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
UP, RIGHT = "\ue013", "\ue014"


class Firefox:
    """One page in a Firefox, which answers programs alone: a page would name its origin."""

    def __init__(self, address: str, site: Path) -> None:
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._site = f"{site.as_uri()}/"
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded", "network.fetchError"])
        self._tab = {"context": self._send("browsingContext.getTree")["contexts"][0]["context"]}

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self.socket.send(json.dumps({"id": 1, "method": method, "params": params}))
        while "id" not in (answer := json.loads(self.socket.recv())):
            assert answer["method"] != "network.fetchError", answer
            assert answer["params"].get("level") != "error", answer
        assert answer["type"] == "success", answer
        return dict(answer["result"])

    def open(self, page: str, size: dict[str, int]) -> None:
        """Open a page, in a window of this size, and wait until its explorers live."""
        self._send("browsingContext.setViewport", **self._tab, viewport=size)
        self._send("browsingContext.navigate", **self._tab, url=self._site + page, wait="complete")
        dead = "document.querySelector('.ln-explorer-output:not(.ln-live)')"
        self.js(f"{{ while ({dead}) await new Promise(requestAnimationFrame); }}")
        self.js("window.MathJax?.startup.promise.then(() => 0)")

    def js(self, what: str, part: str = "html") -> Any:
        """Return what is asked of a part, `e`: a number, a text, a truth or a node."""
        code = f"(async e => {what})(document.querySelector(`{part}`))"
        answer = self._send("script.evaluate", expression=code, target=self._tab, awaitPromise=True)
        assert answer["type"] == "success", answer
        return answer["result"].get("sharedId") or answer["result"].get("value")

    def _act(self, kind: str, *actions: dict[str, Any], **more: Any) -> None:
        source = {"type": kind, "id": kind, "actions": actions, **more}
        self._send("input.performActions", **self._tab, actions=[source])
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def stroke(self, part: str, right: int = 0, down: int = 0, by: str = "mouse") -> None:
        """Press on the middle of a part, move in eight steps, and let go: the page stays."""
        self.js("e.scrollIntoView({ block: 'center', behavior: 'instant' })", part)
        middle = {"type": "element", "element": {"sharedId": self.js("e", part)}}
        start = {"type": "pointerMove", "x": 0, "y": 0, "origin": middle}
        step = {"type": "pointerMove", "x": right // 8, "y": down // 8, "origin": "pointer"}
        press, release = ({"type": f"pointer{way}", "button": 0} for way in ("Down", "Up"))
        # Where a sentence above a number loses a line, the browser scrolls, and the number stays.
        stays = "e.getBoundingClientRect().top" if "ln-number" in part else "scrollY"
        top = self.js(stays, part)
        self._act("pointer", start, press, *8 * [step], release, parameters={"pointerType": by})
        assert right == down == 0 or self.js(stays, part) == pytest.approx(top, abs=1)

    def press(self, part: str, key: str) -> None:
        self.js("e.focus()", part)
        self._act("key", {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})


@pytest.fixture
def firefox(tmp_path: Path, site: Path) -> Iterator[Firefox]:
    path = shutil.which("firefox-esr") or "firefox"
    (tmp_path / "user.js").write_text(PREFERENCES, encoding="utf8")
    said = tmp_path / "stderr"
    with said.open("w") as stderr:
        process = subprocess.Popen([path, *OPTIONS, tmp_path], stderr=stderr)
    while not (address := re.search(r"listening on (ws://\S+)", said.read_text())):
        assert process.poll() is None, said.read_text()
    browser = Firefox(f"{address[1]}/session", site)
    yield browser
    browser.socket.close()
    process.terminate()
    process.wait(timeout=30)


@pytest.mark.parametrize(("size", "by"), [(DESK, "mouse"), (PHONE, "touch")])
def test_a_bar_of_the_row_moves_by_hand_and_by_key(firefox: Firefox, size: Any, by: str) -> None:
    firefox.open("book/index.html", size)
    bar = "[role=slider][aria-label='Feature 8 of x']"
    assert firefox.js("+e.ariaValueNow", bar) == 9
    firefox.stroke(f"{bar} .ln-target", down=-32, by=by)
    moved = firefox.js("+e.ariaValueNow", bar)
    firefox.press(bar, UP)
    assert 9 < moved < firefox.js("+e.ariaValueNow", bar)


def test_guess_link_number_and_symbols_of_the_chapter_on_epsilon(firefox: Firefox) -> None:
    firefox.open("notebooks/02_epsilon.html", DESK)
    firefox.stroke(".ln-epsilon [aria-label^=Your] .ln-target", right=-40)
    assert firefox.js("e.matches('.ln-guessing')", ".ln-epsilon")
    firefox.stroke(".ln-epsilon .ln-see")
    assert "it is √ε" in firefox.js("e.textContent", ".ln-epsilon .ln-answer")
    verdict = ".ln-epsilon .ln-verdict"
    assert firefox.js("e.textContent", verdict) == "ε decides the output"  # float16 waits
    number = "a.ln-number[aria-label^=σ]"
    first = firefox.js("+e.textContent", number)
    firefox.stroke(number, right=64)
    dragged = firefox.js("+e.textContent", number)
    firefox.press(number, RIGHT)
    assert first < dragged < firefox.js("+e.textContent", number)
    firefox.stroke(".ln-epsilon .ln-field .ln-s-sigma")
    lit = firefox.js("getComputedStyle(e).color", "mjx-container .ln-s-sigma")
    assert lit == "rgb(0, 103, 161)"
    firefox.stroke('a[href="#explorer-epsilon?eps=1e-5&spread=0.1"]')
    assert firefox.js("e.textContent", verdict) == "The data decide the output"
    assert firefox.js("location.hash") == "#explorer-epsilon?eps=1e-5&spread=0.1"
