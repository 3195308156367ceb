"""Fixtures that the test files share."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nursery import Nursery
from stills import chromium, page_of

from lnlib.book.explorers import Explorer
from lnlib.book.home import ROOT

collect_ignore = ["models"]  # needs what test-models installs
SITE = ROOT / "_build" / "html"
LOCAL = ("file:", "data:", "blob:")


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built pages."""
    if not (SITE / "index.html").exists():
        pytest.fail("the pages are not built; run `make book` first, or `make test`, which does")
    return SITE


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium of this machine, driven by Playwright."""
    try:
        with chromium() as running:
            yield running
    except LookupError as none:
        pytest.skip(str(none))


# A frame of the screen comes at once: what an input has changed is drawn when it is looked at. Only
# one that comes right after another, as of a script that waits, lets the page do other things.
AT_ONCE = """(() => {
    const { port1, port2 } = new MessageChannel(), due = []; // none overtakes one that is due
    let last = -1;
    port1.onmessage = () => due.shift()(performance.now());
    window.requestAnimationFrame = f => {
        const now = performance.now();
        if (!due.length && now - last > 0.5) queueMicrotask(() => f(now));
        else {
            due.push(f);
            port2.postMessage(0);
        }
        last = now;
        return 1;
    };
})()"""
# What is looked at has been drawn: frames of the screen come in order.
DRAWN = "await new Promise(requestAnimationFrame)"
LIVE = "[...document.querySelectorAll('.ln-explorer-output')].every(e => e.matches('.ln-live'))"
# Without JavaScript there is nothing to wait for.
READY = f"""() => !window.MathJax || {LIVE}
    && MathJax.startup.promise?.then(() => true)"""
# Say to an explorer what a link or a number in the text says to it, and listen to what it draws.
SEND = f"""async (root, [event, detail]) => {{
    root.querySelector('.ln-explorer').dispatchEvent(new CustomEvent(event, {{ detail }}));
    {DRAWN};
}}"""
LISTEN = "root => root.addEventListener('ln-drawn', e => { window.told = e.detail; })"
# The keys with which a click on a link is taken from the browser.
TAKEN = """link => ['ctrlKey', 'metaKey', 'shiftKey'].filter(held => {
    let taken;
    const look = event => { taken = event.defaultPrevented; event.preventDefault(); };
    addEventListener('click', look, { once: true });
    link.dispatchEvent(new MouseEvent('click', { [held]: true, bubbles: true, cancelable: true }));
    return taken;
})"""
SKIP = """async root => {
    root.querySelectorAll('.ln-skip').forEach(button => button.click());
    await new Promise(requestAnimationFrame); // frames come in order
}"""


class Reader:
    """A reader with a window of their own: opens pages and notes what went wrong.

    With ``frames`` the browser draws in its own time; with ``guess`` an explorer still asks.
    """

    def __init__(
        self,
        browser: Any,
        site: Path,
        folder: Path,
        *,
        frames: bool = False,
        guess: bool = False,
        **context: Any,
    ) -> None:
        self.site = site
        self.folder = folder
        self.guess = guess
        self.context = browser.new_context(offline=True, **context)
        if not frames:
            self.context.add_init_script(AT_ONCE)
        self.page = self.context.new_page()
        self.left_the_machine: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", self._request)
        self.page.on("requestfailed", lambda r: self.errors.append(f"not loaded: {r.url}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._console)

    def _request(self, request: Any) -> None:
        if not request.url.startswith(LOCAL):
            self.left_the_machine.append(request.url)

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def alone(self, widget: Explorer) -> Any:
        """Open a page that shows nothing but ``widget``, and return the explorer in it."""
        path = Path(self.folder) / f"{type(widget).__name__}{len(self.context.pages)}.html"
        path.write_text(page_of(widget), encoding="utf8")
        self.page.goto(path.as_uri())
        return self.explorer()

    def open(self, name: str) -> Any:
        path, _, query = name.partition("?")
        if not (self.site / path).exists():
            pytest.fail(f"{path} is not built; run `make book` first, or `make test`, which does")
        self.page.goto(f"{(self.site / path).as_uri()}?{query}", wait_until="load")
        self.page.wait_for_function(READY)
        return self.page

    def explorer(self, kind: str = "") -> Any:
        """Wait for the first explorer of this page, or the first of one kind."""
        found = self.page.locator(f".ln-explorer-output:has(.ln-{kind or 'explorer'})").first
        found.and_(self.page.locator(".ln-live")).wait_for()
        if not self.guess:
            found.evaluate(SKIP)
        return found


def violations(page: Any, within: Any = None, **options: Any) -> list[dict[str, Any]]:
    """Return what axe finds on a page, of any impact."""
    from axe_playwright_python.sync_playwright import Axe

    # To describe what is in order takes axe four fifths of its time.
    options |= {"preload": False, "resultTypes": ["violations"]}
    found: list[dict[str, Any]] = Axe().run(page, within, options).response["violations"]
    return found


@pytest.fixture
def reader(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Make readers, and check at the end that no request left and nothing failed."""
    readers: list[Reader] = []

    def new(**context: Any) -> Reader:
        readers.append(Reader(browser, SITE, tmp_path, **context))
        return readers[-1]

    yield new
    for each in readers:
        each.context.close()
        assert each.left_the_machine == []
        assert each.errors == []


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """A process whose children each run one of tests/norm/hostile_cases.py."""
    nursery = Nursery("hostile_cases")
    yield nursery
    nursery.close()


def plain(x: float) -> float | str:
    """Return ``x`` for a golden file: what JSON cannot hold becomes what JS's Number reads."""
    if math.isnan(x):
        return "NaN"
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return "-0" if x == 0 and math.copysign(1, x) < 0 else x


@pytest.fixture(scope="session")
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed: the explorers' JavaScript is not tested")
    return found


@pytest.fixture
def run_js(node: str, tmp_path: Path) -> Callable[..., None]:
    """Run tests/js/NAME.test.mjs of some names with golden cases: all tests, and none skipped."""

    def run(*names: str, golden: dict[str, Any], at_least: int, **env: str) -> None:
        path = tmp_path / "golden.json"
        path.write_text(json.dumps(golden, allow_nan=False), encoding="utf8")
        files = [ROOT / "tests" / "js" / f"{name}.test.mjs" for name in names]
        result = subprocess.run(
            [node, "--test", "--test-reporter=tap", *files],
            env={**os.environ, "LN_GOLDEN": str(path), **env},
            capture_output=True,
            text=True,
            encoding="utf8",
            timeout=120,
        )
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
        counts = dict(re.findall(r"^# (pass|fail|skipped) (\d+)$", result.stdout, re.MULTILINE))
        assert counts["fail"] == counts["skipped"] == "0"
        assert int(counts["pass"]) >= at_least

    return run
