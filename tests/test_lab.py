"""A real JupyterLab, driven by a real browser: explorers and their Python objects move together."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import stills
from goldens import states

from lnlib.book.home import ROOT

pytestmark = pytest.mark.tier("all")

NOTEBOOK = "02_epsilon.ipynb"
FAMILY = "family.ipynb"
KINDS = [kind.__name__ for kind in stills.KINDS]

# No guess, and nothing folded.
PREPARE = """root => {
    root.querySelector('.ln-skip')?.click();
    root.querySelectorAll('details').forEach(fold => { fold.open = true; });
}"""


def family() -> nbformat.NotebookNode:
    """A notebook that shows every explorer, each under its own name."""
    cells = [
        nbformat.v4.new_code_cell(
            f"from lnlib.book.explorers import {kind}\n{kind} = {kind}()\n{kind}"
        )
        for kind in KINDS
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab on a copy of the notebook; yields its address and its runtime folder."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copy(ROOT / "notebooks" / NOTEBOOK, folder)
    shutil.copytree(ROOT / "notebooks" / "data", folder / "data")
    nbformat.write(family(), folder / FAMILY)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    home = {name: str(folder / name.lower()) for name in names}
    options = ["--no-browser", f"--port={port}", "--IdentityProvider.token=", "--allow-root"]
    command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | home, cwd=folder, stderr=log)
    address = f"http://127.0.0.1:{port}"
    for _ in range(240):
        try:
            urllib.request.urlopen(f"{address}/api", timeout=1).close()
            break
        except OSError:
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.25)
    yield address, Path(home["JUPYTER_RUNTIME_DIR"])
    process.terminate()
    process.wait(timeout=30)


def ask(client: Any, expression: str) -> str:
    """Evaluate an expression in the notebook's kernel."""
    reply = client.execute("", user_expressions={"answer": expression}, reply=True, timeout=30)
    return str(reply["content"]["user_expressions"]["answer"]["data"]["text/plain"])


def eventually(condition: Any, what: str, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def open_notebook(browser: Any, address: str, name: str) -> Any:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.goto(f"{address}/lab/tree/{name}?reset")
    page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(timeout=60_000)
    return page


def run_all(browser: Any, address: str, name: str) -> Any:
    """Open a notebook and run all of its cells; return the page."""
    page = open_notebook(browser, address, name)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(
        timeout=60_000
    )  # else Run does nothing
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    eventually(lambda: page.locator(".ln-explorer").count() > 0, "no explorer appeared", 90)
    return page


def connect(runtime: Path) -> Any:
    """Return a client of the kernel that was started last."""
    from jupyter_client import BlockingKernelClient

    connection = max(runtime.glob("kernel-*.json"), key=lambda path: path.stat().st_mtime)
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    return client


def test_references_have_words_in_jupyterlab(browser: Any, lab: tuple[str, Path]) -> None:
    page = open_notebook(browser, lab[0], NOTEBOOK)
    prose = page.locator(".jp-MarkdownCell")
    words = "You need the formula, (1.2), and"
    eventually(lambda: words in prose.first.text_content(), "the prose was not drawn")
    assert prose.locator("[title='Cross Reference Not Found']").all_text_contents() == []
    page.close()


def test_every_explorer_and_its_object_move_together(browser: Any, lab: tuple[str, Path]) -> None:
    address, runtime = lab
    page = run_all(browser, address, FAMILY)
    eventually(lambda: page.locator(".ln-explorer").count() == len(KINDS), "one is missing", 60)
    client = connect(runtime)
    for kind, explorer in zip(stills.KINDS, page.locator(".ln-explorer").all(), strict=True):
        name, sentence = kind.__name__, explorer.locator(".ln-sentence")

        def python_says_what_is_shown(name: str = name, sentence: Any = sentence) -> bool:
            said = sentence.text_content().replace("\xa0", " ")
            return said != "" and ask(client, f"str({name}).splitlines()[1:]") == repr([said])

        before = ask(client, f"{name}.state()")
        explorer.evaluate(PREPARE)
        slider = explorer.locator("input[type=range]").first
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        assert slider.evaluate("element => element === document.activeElement"), name
        eventually(lambda: ask(client, f"{name}.state()") != before, f"no step of {name}")  # noqa: B023
        eventually(python_says_what_is_shown, f"another sentence of {name}")
        told = sentence.text_content()
        trait, value = next((n, v) for n, v in states(kind)[1].items() if v != states(kind)[0][n])
        ask(client, f"{name}.set_trait({trait!r}, {value!r})")
        eventually(lambda: sentence.text_content() != told, f"the page did not follow {name}")  # noqa: B023
        eventually(python_says_what_is_shown, f"an old sentence of {name}")
    client.stop_channels()
    page.close()
