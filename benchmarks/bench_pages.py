"""What do the built pages ask of a reader? Weighed and timed in headless Chromium, from the folder.

    python benchmarks/bench_pages.py   # after `make book`; writes benchmarks/results/pages.csv

Each page is opened offline in a fresh window, three times, and medians are kept: `requests`, with
their `bytes` and these as a server that compresses sends them; `first_text_ms` and `explorer_ms`,
from the start of the load until the first text and the first explorer are painted; and
`frame_ms_p95`. For that the explorer's first slider moves once a frame, and 95 of 100 times the
next frame is there as soon. At 60 Hz one frame is 16.7 ms.
"""

import argparse
import gzip
import importlib.metadata
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.sync_api import sync_playwright
from results_table import Row, noted, provenance, write

from lnlib.book.home import ROOT

SITE = ROOT / "_build" / "html"
LOADS, MOVES = 3, 100
PATIENCE_MS = 120_000  # a page with many formulas on a machine with other work
TEXT = {".html", ".css", ".js", ".mjs", ".json", ".svg", ".txt", ""}  # what servers compress

# In each page before its own scripts: when its first explorer is on the screen.
WATCH = """
  window.lnFrame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  window.lnDrawn = new Promise((done) => {
    const watcher = new MutationObserver(() => {
      if (!document.querySelector(".ln-live .ln-explorer svg")) return;
      watcher.disconnect();
      lnFrame().then(() => done(performance.now()));
    });
    watcher.observe(document, { childList: true, subtree: true, attributes: true });
  });
"""
MOVE = """async (moves) => {
  const slider = document.querySelector(".ln-live input[type=range]");
  slider.scrollIntoView({ behavior: "instant" });
  await lnFrame();
  const frames = [];
  for (let i = 0; i < moves; i++) {
    const start = performance.now();
    slider.value = 1 + ((i + 1) * 7) % Number(slider.max);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await lnFrame();
    frames.push(performance.now() - start);
  }
  return frames.sort((a, b) => a - b)[Math.floor(0.95 * moves)];
}"""
TYPESET = """() => !document.querySelector(".math") || !!document.querySelector("mjx-container")
  && (window.lnSet || MathJax.startup.promise.then(() => { window.lnSet = true; }) && false)"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
HAS_EXPLORER = "() => !!document.querySelector('.ln-explorer-output')"


def pages_of(site: Path) -> list[Path]:
    """Return the pages of a built book, without the one that leads to the first."""
    pages = [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]
    return [page for page in pages if b'http-equiv="Refresh"' not in page.read_bytes()[:400]]


def weight(asked: list[str]) -> dict[str, int]:
    """Return the number of the files that a page asked for, their bytes, and these compressed.

    Raises:
        ValueError: something asked for is not a file of this machine.
    """
    asked = [url for url in asked if not url.startswith(("data:", "blob:"))]
    if away := [url for url in asked if not url.startswith("file:")]:
        raise ValueError(f"a page asks for what is not in the book: {away}")
    files = [Path(unquote(urlsplit(url).path)) for url in asked]
    bodies = [(file.read_bytes(), file.suffix in TEXT) for file in files]
    return {
        "requests": len(files),
        "bytes": sum(len(body) for body, _ in bodies),
        "compressed": sum(len(gzip.compress(b) if is_text else b) for b, is_text in bodies),
    }


def load(browser: Any, path: Path) -> tuple[list[str], dict[str, float]]:
    """Open a page and move its first slider; return what it asked for, and milliseconds."""
    context = browser.new_context(viewport={"width": 900, "height": 1000}, offline=True)
    page, asked, times = context.new_page(), list[str](), {}
    page.set_default_timeout(PATIENCE_MS)
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(WATCH)
    page.goto(path.as_uri())
    if page.evaluate(HAS_EXPLORER):
        times["explorer_ms"] = page.evaluate("lnDrawn")
    page.wait_for_function(TYPESET)
    page.evaluate("() => document.fonts.ready.then(() => true)")
    times["first_text_ms"] = page.evaluate(PAINTED)
    if "explorer_ms" in times:
        times["frame_ms_p95"] = page.evaluate(MOVE, MOVES)
    context.close()
    return asked, times


def table(browser: Any, site: Path) -> Iterator[Row]:
    """Yield a row for each page."""
    for page in pages_of(site):
        loads = [load(browser, page) for _ in range(LOADS)]
        row: Row = {"page": page.relative_to(site).with_suffix("").as_posix()}
        row |= weight(loads[0][0])
        for what in ("first_text_ms", "explorer_ms", "frame_ms_p95"):
            found = [times[what] for _, times in loads if what in times]
            row[what] = round(statistics.median(found), 1) if found else ""
        yield row


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chromium", default=os.environ.get("LN_CHROMIUM", "/usr/bin/chromium"))
    options = parser.parse_args()
    if not (SITE / "index.html").is_file():
        raise SystemExit("the pages are not built; run make book first")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=options.chromium, args=flags)
        where = provenance() | {"chromium": browser.version}
        for package in ("jupyter-book", "anywidget"):
            where[package] = importlib.metadata.version(package)
        rows = noted(table(browser, SITE), lambda: where)
        browser.close()
    write("pages", rows)


if __name__ == "__main__":
    main()
