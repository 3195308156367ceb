"""What a browser does with a built page: what it loads, how soon an explorer moves, what works."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from page_server import body_of

MOVES = 30
PATIENCE_MS = 120_000  # a page with many formulas, on a slow connection and a slow processor


class Network(NamedTuple):
    """A connection and a processor, as the browser plays them: the same for every host."""

    latency_ms: float  # added to each request
    bits_per_s: float  # downward; -1 is as fast as it goes
    slower: float  # times that the processor is slower than this one


# "Fast 4G" of Chromium's own developer tools, with the processor of a cheap phone.
NETWORKS = {
    "this machine": Network(0, -1, 1),
    "fast 4G, slow processor": Network(165, 8.1e6, 4),
}

# In each page before any of its scripts: when its first explorer is on the screen; and then its
# first slider is moved, once a frame.
WATCH = """
  const slider = () => document.querySelector(".ln-explorer svg path.ln-curve")
    && document.querySelector(".ln-explorer input[type=range]");
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  window.lnDrawn = new Promise((done) => {
    const look = () => {
      if (!slider()) return;
      watcher.disconnect();
      frame().then(() => done(performance.now()));
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document, { childList: true, subtree: true });
  });
"""
MOVE = f"""
  window.lnMoved = window.lnDrawn.then(async (live) => {{
    const input = slider();
    const drawing = () => input.closest(".ln-explorer").querySelector("svg").innerHTML;
    const handled = [];
    let first = 0;
    for (let i = 0; i < {MOVES}; i++) {{
      const before = drawing();
      const start = performance.now();
      input.value = 1 + ((i + 1) * 7) % Number(input.max);
      input.dispatchEvent(new Event("input", {{ bubbles: true }}));
      handled.push(performance.now() - start);
      if (drawing() === before) throw new Error("a move of the slider drew nothing");
      await frame();
      first ||= performance.now();
    }}
    return {{ live, first, handled }};
  }});
"""
TYPESET = """() => !document.querySelector(".math") || !!document.querySelector("mjx-container")
  && (window.mathIsSet || MathJax.startup.promise.then(() => { window.mathIsSet = true; }) && false)
"""
PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"

# WCAG's contrast of the explorer's sentence with what lies behind it.
CONTRAST = """() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = numbers(color).map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const text = document.querySelector(".ln-explorer .ln-sentence");
  let behind = text;
  while (behind && numbers(getComputedStyle(behind).backgroundColor)[3] === 0)
    behind = behind.parentElement;
  const back = light(behind ? getComputedStyle(behind).backgroundColor : "rgb(255, 255, 255)");
  const [low, high] = [light(getComputedStyle(text).color), back].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}"""
EXPLORER = '.cell:has(script[type="application/vnd.jupyter.widget-view+json"])'


def load(browser: Any, url: str, network: Network, *, to_the_end: bool = False) -> dict[str, float]:
    """Load a page with an empty cache and move its first explorer; return milliseconds.

    From the start of the navigation: ``painted``, the first text; ``live``, the explorer on the
    screen; ``moved``, the frame after the first move. ``handler``: the median move, from dispatch
    until every listener has returned. With ``to_the_end`` it waits for all that the page asks for.
    """
    context = browser.new_context(viewport={"width": 900, "height": 1000}, ignore_https_errors=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(f"(() => {{ {WATCH} {MOVE} }})();")
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    rate = network.bits_per_s / 8 if network.bits_per_s > 0 else -1
    limits = {"latency": network.latency_ms, "downloadThroughput": rate, "uploadThroughput": rate}
    devtools.send("Network.emulateNetworkConditions", {"offline": False, **limits})
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": network.slower})
    try:
        page.goto(url, wait_until="commit")
        page.wait_for_function("window.lnMoved.then(() => true)")
        found = page.evaluate("window.lnMoved")
        if to_the_end:
            settle(page)
        handled = sorted(found["handled"])
        return {
            "painted": page.evaluate(PAINTED),
            "live": found["live"],
            "moved": found["first"],
            "handler": handled[len(handled) // 2],
        }
    finally:
        context.close()


def settle(page: Any) -> None:
    """Wait until a page has loaded all, its formulas and their fonts too."""
    page.wait_for_load_state("load")
    page.wait_for_function(TYPESET)
    page.evaluate("() => document.fonts.ready.then(() => true)")


def weigh(browser: Any, path: Path) -> dict[str, int]:
    """Open a page from its folder; return its requests, their bytes, and the bytes compressed."""
    context = browser.new_context(viewport={"width": 900, "height": 1000}, offline=True)
    page, asked = context.new_page(), list[str]()
    page.set_default_timeout(PATIENCE_MS)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    settle(page)
    context.close()
    left = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    if left:
        raise SystemExit(f"{path.name} asks for what is not in the book: {left}")
    files = [Path(unquote(urlsplit(url).path)) for url in asked if url.startswith("file:")]
    return weight(files)


def weight(files: list[Path]) -> dict[str, int]:
    """Return the number of files, their bytes, and the bytes a server that compresses sends."""
    bodies = [body_of(path) for path in files]
    return {
        "requests": len(files),
        "bytes": sum(plain for _, plain in bodies),
        "compressed": sum(len(sent) for sent, _ in bodies),
    }


def works(browser: Any, url: str, file: Path) -> dict[str, bool]:
    """Return what a reader can do with the explorer of a page, as served and from its folder."""

    def opened(address: str, **context: Any) -> Any:
        page = browser.new_context(ignore_https_errors=True, **context).new_page()
        page.add_init_script(f"(() => {{ {WATCH} }})();")
        page.goto(address)
        return page

    def shows(page: Any) -> bool:
        wait = "Promise.race([lnDrawn, new Promise((no) => setTimeout(() => no(0), 5000))])"
        return bool(page.evaluate(wait))

    served, errors = opened("about:blank"), list[str]()
    served.on("pageerror", lambda error: errors.append(str(error)))
    served.goto(url)
    found = {"shows the explorer": shows(served)}
    if found["shows the explorer"]:
        slider = served.locator(".ln-explorer input[type=range]").first
        before = slider.get_attribute("aria-valuetext")
        slider.focus()
        for _ in range(3):
            served.keyboard.press("ArrowRight")
        found["follows the arrow keys"] = slider.get_attribute("aria-valuetext") != before
    found["has no error in a script"] = not errors
    dark = opened(url, color_scheme="dark")
    # Contrast that WCAG asks of text.
    found["is legible on a dark page"] = shows(dark) and dark.evaluate(CONTRAST) >= 4.5
    folder = opened(file.as_uri(), offline=True)
    found["shows it from a folder, without a network"] = shows(folder)
    found["sets mathematics there"] = folder.locator("mjx-container").count() > 0
    plain = opened(url, java_script_enabled=False)
    found["has a picture of it without JavaScript"] = plain.locator(f"{EXPLORER} img").count() > 0
    for page in (served, dark, folder, plain):
        page.context.close()
    return found
