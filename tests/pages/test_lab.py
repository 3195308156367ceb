"""A real JupyterLab, driven by a real browser: explorers and their Python objects move together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from goldens import states
from jupyter_client import BlockingKernelClient
from stills import KINDS

from conftest import SKIP
from lnlib.book.home import ROOT

pytestmark = pytest.mark.tier("all")


def eventually(condition: Callable[[], bool], what: str, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The page that `make lab` opens, beside a notebook of prose and explorers, one twice."""
    (tmp_path / "START_HERE.md").symlink_to(ROOT / "notebooks" / "START_HERE.md")
    chapter = nbformat.read(ROOT / "notebooks" / "02_epsilon.ipynb", as_version=4)
    chapter.metadata.language_info.version = sys.version.split()[0]
    chapter.cells = [cell for cell in chapter.cells if cell.cell_type == "markdown"]
    shown = "from lnlib.book.explorers import {0}\n{0} = {0}()\n{0}"
    sources = [*(shown.format(kind.__name__) for kind in KINDS), "EpsilonExplorer"]
    chapter.cells += map(nbformat.v4.new_code_cell, sources)
    nbformat.write(chapter, tmp_path / "01_formula.ipynb")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    homes = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "RUNTIME", "DATA")}
    options = ["--no-browser", f"--port={port}", "--IdentityProvider.token=", "--allow-root"]
    command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={tmp_path}"]
    homes |= {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_CONFIG_PATH": f"{ROOT}/book/lab"}
    process = subprocess.Popen(command, env={**os.environ, **homes}, cwd=tmp_path)
    try:
        eventually(lambda: any(tmp_path.glob("RUNTIME/jpserver-*.json")), "no JupyterLab", 60)
        yield f"http://127.0.0.1:{port}/lab/tree/START_HERE.md?reset"
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_explorers_and_objects_move_together(browser: Any, lab: str, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(lab)
    page.get_by_role("link", name="chapter 1").click(timeout=60_000)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)  # else none runs
    unsaved = page.locator(".jp-mod-dirty")
    assert unsaved.count() == 0
    for item in ("Run", "Run All Cells"):
        page.get_by_role("menuitem", name=item, exact=True).click()
    explorers = page.locator(".ln-explorer")
    eventually(lambda: explorers.count() == len(KINDS) + 1, "an explorer is missing", 120)
    (connection,) = tmp_path.glob("RUNTIME/kernel-*.json")
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def ask(expression: str) -> str:
        asked = {"answer": expression}
        reply = client.execute("", user_expressions=asked, reply=True, timeout=30)
        return str(reply["content"]["user_expressions"]["answer"]["data"]["text/plain"])

    explorers.last.evaluate(SKIP)
    assert page.locator(".ln-epsilon.ln-guessing").count() == 0, "another view asks again"
    for kind, explorer in zip(KINDS, explorers.all()[:-1], strict=True):
        name, sentence = kind.__name__, explorer.locator(".ln-sentence")

        def agree(name: str = name, sentence: Any = sentence) -> bool:
            said = sentence.text_content().replace("\xa0", " ")
            return said != "" and ask(f"str({name}).splitlines()[1:]") == repr([said])

        explorer.evaluate(SKIP)
        explorer.locator("summary").click()
        mark = "e => getComputedStyle(e).listStyleType"
        assert explorer.locator("summary").evaluate(mark) == "disclosure-open"
        before = ask(f"{name}.state()")
        ranges = explorer.locator("input[type=range]")
        slider = (ranges if ranges.count() else explorer.get_by_role("slider")).first
        for key in ("ArrowUp", "x"):  # in JupyterLab, X cuts a cell
            slider.press(key)
        assert slider.evaluate("element => element === document.activeElement"), name
        eventually(lambda: ask(f"{name}.state()") != before, f"no step of {name}")  # noqa: B023
        eventually(agree, f"another sentence of {name}")
        trait, value = next((n, v) for n, v in states(kind)[1].items() if v != states(kind)[0][n])
        ask(f"{name}.set_trait({trait!r}, {value!r})")
        eventually(agree, f"the page did not follow {name}")
    page.locator("a[href='#explorer-epsilon?eps=1e-5']").first.click()
    eventually(lambda: ask("EpsilonExplorer.state()") == "{'eps': 1e-05, 'spread': 3e-05}", "link")
    assert explorers.last.bounding_box()["y"] > 1000, "a link leads to the first view"
    page.get_by_role("slider", name="ε, in the explorer").press("ArrowUp")
    eventually(lambda: ask("EpsilonExplorer.eps") == "1.12e-05", "a number in the text")
    slider.press("Control+s")
    eventually(lambda: unsaved.count() == 0, "a control keeps Ctrl+S from JupyterLab")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.matches('.jp-Cell')")
    client.stop_channels()
    for item in ("Kernel", "Shut Down Kernel"):
        page.get_by_role("menuitem", name=item, exact=True).click()
    eventually(lambda: not any(tmp_path.glob("RUNTIME/kernel-*.json")), "a kernel stays")
    page.reload()
    eventually(lambda: explorers.count() == len(KINDS) + 1, "saved, and not alive again", 60)
    prose = page.locator(".jp-MarkdownCell")  # beside them a reference has words
    assert "You need formula (1.2) and the" in prose.first.text_content()
    assert prose.locator("[title='Cross Reference Not Found']").all_text_contents() == []
    page.close()
