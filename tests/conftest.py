"""Fixtures that the test files share, and the rule that nothing is skipped in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lnlib.book.build import ROOT

LOCAL = ("file:", "data:", "blob:")
CHROMIUM = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Turn a skip into a failure in CI: what a laptop may lack, CI installs."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be: {report.longrepr}"


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built pages."""
    path = ROOT / "_build" / "html"
    if not (path / "index.html").exists():
        pytest.fail("the pages are not built; run `make book` first, or `make test`, which does")
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium of this machine, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM)} is on the PATH")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        running = playwright.chromium.launch(executable_path=path, args=flags)
        yield running
        running.close()


class Reader:
    """A reader with a window of their own: opens pages and notes what went wrong."""

    def __init__(self, browser: Any, site: Path, **context: Any) -> None:
        self.site = site
        self.context = browser.new_context(offline=True, **context)
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

    def open(self, name: str) -> Any:
        path, _, query = name.partition("?")
        self.page.goto(f"{(self.site / path).as_uri()}?{query}", wait_until="load")
        self.page.wait_for_function(
            "!window.MathJax?.startup?.promise || window.mathIsSet === true ||"
            " (MathJax.startup.promise.then(() => { window.mathIsSet = true; }), false)"
        )
        return self.page

    def explorer(self) -> Any:
        self.page.locator(".ln-explorer-output.ln-live").first.wait_for()
        return self.page.locator(".ln-explorer-output").first


@pytest.fixture
def reader(browser: Any, site: Path) -> Iterator[Any]:
    """Make readers, and check at the end that no request left and nothing failed."""
    readers: list[Reader] = []

    def new(**context: Any) -> Reader:
        readers.append(Reader(browser, site, **context))
        return readers[-1]

    yield new
    for each in readers:
        each.context.close()
        assert each.left_the_machine == []
        assert each.errors == []
