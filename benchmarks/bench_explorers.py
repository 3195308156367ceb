"""Time the explorers in headless Chromium, and weigh what they add to a page.

For each control of the ε explorer the page dispatches input events, one a frame. Counted per
event: `handler_ms`, from dispatch until every listener has returned (model, arithmetic and SVG
included, since drawing is synchronous), and `frame_ms`, from dispatch until the frame that shows it
has been painted (a task after the next animation frame; at 60 Hz one frame is 16.7 ms).

    python benchmarks/bench_explorers.py   # prints, and writes benchmarks/results/explorers.csv
"""

import argparse
import importlib.metadata
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from results_table import provenance, write

from lnlib.book.explorers import EpsilonExplorer, Explorer

ROOT = Path(__file__).resolve().parent.parent
MOUNT = ROOT / "book" / "assets" / "explorers.js"
EVENTS = 200

# Each control gets a function that makes its i-th event.
CONTROLS = {
    "spread slider": "i => slide(0, 1 + (i * 7) % 160)",
    "eps slider": "i => slide(1, (i * 7) % 240)",
    "drag of spread": "i => drag(0, i)",
    "drag of eps": "i => drag(1, i)",
}
TIME = """async ([make, events]) => {
  const root = document.querySelector(".ln-epsilon");
  const sliders = root.querySelectorAll("input[type=range]");
  const handles = root.querySelectorAll(".ln-handle");
  const slide = (which, value) => {
    sliders[which].value = value;
    sliders[which].dispatchEvent(new Event("input", { bubbles: true }));
  };
  const pointer = (handle, type, clientX) =>
    handle.dispatchEvent(new PointerEvent(type, { clientX, pointerId: 1, bubbles: true }));
  for (const handle of handles) handle.setPointerCapture = () => {};
  const drag = (which, i) => {
    if (i === 0) pointer(handles[which], "pointerdown", 300);
    pointer(handles[which], "pointermove", 300 + 150 * Math.sin(i));
  };
  const event = eval(make);
  const times = [];
  for (let i = 0; i < events; i++) {
    await new Promise(requestAnimationFrame);
    const start = performance.now();
    event(i);
    const handled = performance.now();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push([handled - start, performance.now() - start]);
  }
  return times;
}"""


def page_of(widget: Explorer) -> str:
    """Write a page with ``widget`` as Jupyter Book leaves it, with the mount script."""
    state = {k: v for k, v in widget.get_state().items() if isinstance(v, str | int | float)}
    models = {"version_major": 2, "state": {widget.model_id: {"state": state}}}

    def script(kind: str, content: Any) -> str:
        text = json.dumps(content).replace("</", "<\\/")
        return f'<script type="application/vnd.jupyter.widget-{kind}+json">{text}</script>'

    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Explorer</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<main><h1>Explorer</h1><div class="ln-explorer-output">'
        f"{script('view', {'model_id': widget.model_id})}"
        f'<div class="ln-fallback"><p>{widget.sentence()}</p></div></div></main>'
        "<style>body{margin:25px} .ln-live .ln-fallback{display:none}</style>"
        f'{script("state", models)}<script defer src="{MOUNT.as_uri()}"></script></html>'
    )


def weigh(widget: Explorer) -> dict[str, int]:
    """Return bytes: module and sheet, mount script, and the JSON that carries the first two."""
    state = {k: v for k, v in widget.get_state().items() if isinstance(v, str | int | float)}
    esm, css = (len(str(state.pop(key)).encode()) for key in ("_esm", "_css"))
    parts = {"esm": esm, "css": css, "mount": MOUNT.stat().st_size}
    parts["state"] = len(json.dumps(state))
    return {**parts, "total": sum(parts.values())}


def percentile(values: list[float], q: float) -> float:
    return sorted(values)[min(int(q * len(values)), len(values) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=os.environ.get("LN_CHROMIUM", "/usr/bin/chromium"))
    args = parser.parse_args()
    widget = EpsilonExplorer()
    rows = []
    with sync_playwright() as p, tempfile.TemporaryDirectory() as folder:
        browser = p.chromium.launch(
            executable_path=args.chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        path = Path(folder) / "explorer.html"
        path.write_text(page_of(widget), encoding="utf-8")
        page = browser.new_page(viewport={"width": 900, "height": 1000})
        page.goto(path.as_uri())
        page.wait_for_selector(".ln-live")
        where = provenance() | {
            "chromium": browser.version,
            "anywidget": importlib.metadata.version("anywidget"),
            "bytes": weigh(widget)["total"],
        }
        for control, make in CONTROLS.items():
            times = page.evaluate(TIME, [make, EVENTS])
            handler, frame = ([t[i] for t in times] for i in (0, 1))
            row = {"explorer": "epsilon", "control": control, "events": EVENTS}
            row |= {f"handler_ms_p{q}": round(percentile(handler, q / 100), 2) for q in (50, 95)}
            row |= {f"frame_ms_p{q}": round(percentile(frame, q / 100), 2) for q in (50, 95)}
            rows.append({**row, **where})
            print(" ".join(f"{k}={v}" for k, v in row.items()))
        browser.close()
    print(" ".join(f"{k}={v} B" for k, v in weigh(widget).items()))
    write("explorers", rows)


if __name__ == "__main__":
    main()
