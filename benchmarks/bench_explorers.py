"""Time the explorers in headless Chromium on a slowed processor, and weigh what they add to a page.

To every slider, every group of radio buttons and every handle of every explorer the page sends 200
input events, one a frame. `frame_ms` is from the event until the frame that shows it has been
painted: a task after the next animation frame. At 60 Hz one frame is 16.7 ms. Chromium runs scripts
4 times slower meanwhile, about as a phone of some years ago does. A fold is open while a control in
it moves, and else closed.

    python benchmarks/bench_explorers.py   # prints, and writes benchmarks/results/explorers.csv
"""

import argparse
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from explorer_page import MOUNT, page_of
from playwright.sync_api import sync_playwright
from results_table import provenance, write

from lnlib.book import explorers
from lnlib.book.explorers import Explorer

EVENTS = 200
SLOWER = 4
KINDS = [name for name in explorers.__all__ if name.endswith("Explorer") and name != "Explorer"]

# Each control of the page: its name, its node, and a function that makes its i-th event.
CONTROLS = """
  const root = document.querySelector(".ln-explorer");
  const pointer = (handle, type, clientX, clientY) =>
    handle.dispatchEvent(new PointerEvent(type, { clientX, clientY, pointerId: 1, bubbles: true }));
  const controls = [];
  for (const slider of root.querySelectorAll("input[type=range]")) {
    const last = Number(slider.max);
    const name = slider.closest("label").textContent.trim().replace(/\\s+/g, " ");
    controls.push([`slider ${name}`, slider, (i) => {
      slider.value = 1 + (i * 7) % last;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    }]);
  }
  for (const group of root.querySelectorAll("fieldset")) {
    const radios = group.querySelectorAll("input");
    const name = `choice ${group.querySelector("legend").textContent}`;
    controls.push([name, group, (i) => radios[i % radios.length].click()]);
  }
  root.querySelectorAll(".ln-handle").forEach((handle, k) => {
    handle.setPointerCapture = () => {};
    controls.push([`handle ${handle.getAttribute("aria-label") ?? k + 1}`, handle, (i) => {
      if (i === 0) pointer(handle, "pointerdown", 300, 300);
      pointer(handle, "pointermove", 300 + 150 * Math.sin(i), 300 + 90 * Math.cos(2 * i));
    }]);
  });
"""
NAMES = f"() => {{ {CONTROLS} return controls.map(([name]) => name); }}"
TIME = f"""async ([place, events]) => {{
  {CONTROLS}
  const [, node, send] = controls[place];
  for (const fold of root.querySelectorAll("details")) fold.open = fold.contains(node);
  const times = [];
  for (let i = 0; i < events; i++) {{
    const start = performance.now();
    send(i);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - start);
  }}
  return times;
}}"""

# Without the guess, once that has been drawn.
SKIP = """async () => {
  document.querySelector(".ln-skip")?.click();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}"""


def weigh(widget: Explorer) -> dict[str, int]:
    """Return bytes: module and sheet, mount script, and the JSON that carries the first two."""
    state = widget.page_state()
    esm, css = (len(str(state.pop(key)).encode()) for key in ("_esm", "_css"))
    parts = {"esm": esm, "css": css, "mount": MOUNT.stat().st_size}
    parts["state"] = len(json.dumps(state))
    return {**parts, "total": sum(parts.values())}


def percentile(values: list[float], q: float) -> float:
    return sorted(values)[min(int(q * len(values)), len(values) - 1)]


def table(browser: Any, kinds: Sequence[str], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each control of each explorer."""
    for kind in kinds:
        widget = getattr(explorers, kind)()
        path = folder / f"{kind}.html"
        path.write_text(page_of(widget), encoding="utf-8")
        page = browser.new_page(viewport={"width": 900, "height": 1000})
        page.goto(path.as_uri())
        page.wait_for_selector(".ln-live")
        page.evaluate(SKIP)
        throttle = page.context.new_cdp_session(page)
        throttle.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        for place, control in enumerate(page.evaluate(NAMES)):
            times = page.evaluate(TIME, [place, EVENTS])
            row = {"explorer": kind, "control": control, "events": EVENTS}
            for q in (50, 95):
                row[f"frame_ms_p{q}"] = round(percentile(times, q / 100), 1)
            print(" ".join(f"{k}={v}" for k, v in row.items()))
            yield row | {"bytes": weigh(widget)["total"]}
        print(kind, " ".join(f"{k}={v} B" for k, v in weigh(widget).items()))
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=os.environ.get("LN_CHROMIUM", "/usr/bin/chromium"))
    parser.add_argument("kinds", nargs="*", default=KINDS, help="EpsilonExplorer, …")
    args = parser.parse_args()
    with sync_playwright() as p, tempfile.TemporaryDirectory() as folder:
        browser = p.chromium.launch(
            executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        where = provenance() | {
            "chromium": browser.version,
            "anywidget": importlib.metadata.version("anywidget"),
        }
        rows = [row | where for row in table(browser, args.kinds, Path(folder))]
        browser.close()
    if args.kinds == KINDS:
        write("explorers", rows)


if __name__ == "__main__":
    main()
