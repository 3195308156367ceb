"""Fixtures that the test files share, and the rule that nothing is skipped in CI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
