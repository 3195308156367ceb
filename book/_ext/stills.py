"""Stills: of each explorer's first state, the picture and the sentence that its page shows.

python book/_ext/stills.py   # `make stills`: writes them to lnlib/book/explorers/stills
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from lnlib.book import explorers
from lnlib.book.explorers import Explorer
from lnlib.book.explorers.base import HERE, Still

MOUNT = Path(__file__).resolve().parent.parent / "assets" / "explorers.js"
KINDS: list[type[Explorer]] = [
    kind for name in explorers.__all__ if Explorer in (kind := getattr(explorers, name)).__bases__
]
# The first draws pages alone, without a browser around them, and takes half as long to open one.
CHROMIUM = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# A picture has what can be seen in it, on white, and nothing that asks to be moved.
STILL = """
body { margin: 0 !important; }
main > h1, .ln-explorer > .ln-head, .ln-sentence, .ln-heard,
.ln-explorer :is(.ln-hint, .ln-controls, details) { display: none; }
.ln-explorer { padding: 6px 10px; border: 0; border-radius: 0; }
"""


def page_of(widget: Explorer) -> str:
    """Write a page with ``widget`` as Jupyter Book leaves it, with the mount script."""
    view, state = widget.page_scripts(widget.model_id)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Explorer</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<main><h1>Explorer</h1><div class="ln-explorer-output">{view}'
        '<div class="ln-fallback"></div></div></main>'
        "<style>body{margin:25px} .ln-live .ln-fallback{display:none}</style>"
        f'{state}<script defer src="{MOUNT.as_uri()}"></script></html>'
    )


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the headless Chromium of this machine; raises a LookupError if there is none."""
    from playwright.sync_api import sync_playwright  # the page of an explorer is made without it

    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        raise LookupError(f"no browser: none of {', '.join(CHROMIUM)} is on the PATH")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


def taken(browser: Any, kind: type[Explorer]) -> Still:
    """Show an explorer as it starts, and return what a still has of it."""
    context = browser.new_context(viewport={"width": 640, "height": 900})
    page = context.new_page()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "explorer.html"
        path.write_text(page_of(kind(ask=False)), encoding="utf-8")
        page.goto(path.as_uri())
        page.locator(".ln-live").wait_for()
    page.add_style_tag(content=STILL)
    explorer = page.locator(".ln-explorer")
    sentence = explorer.locator(".ln-sentence").text_content().replace("\xa0", " ")
    page.wait_for_timeout(100)  # drawings take their new width
    shot = explorer.screenshot()
    context.close()
    file = io.BytesIO()
    with Image.open(io.BytesIO(shot)) as pixels:  # 64 colors take a third of the bytes
        pixels.convert("RGB").quantize(64).save(file, format="png", optimize=True)
    return Still(file.getvalue(), sentence)


def main() -> None:
    """Record the stills of all explorers."""
    with chromium() as browser:
        for kind in KINDS:
            still = taken(browser, kind)
            path = HERE / "stills" / f"{kind._files}.png"
            path.write_bytes(still.png)
            path.with_suffix(".txt").write_text(still.sentence + "\n", encoding="utf-8")
            print(f"{path.name:18}{len(still.png):7,} bytes  {still.sentence}")


if __name__ == "__main__":
    main()
