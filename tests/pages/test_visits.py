"""The built pages in a real browser: from a folder, with no network; each once on a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hand import DESK, PHONE, RESTS
from stills import KINDS
from test_pages import PAGES
from tiers import few

from conftest import LIVE, Reader, violations

NARROW = {"viewport": PHONE["viewport"]}
FORMULA, SUMMARY = "notebooks/01_formula.html", "book/summary.html"
# Six of all kinds; in `make test-all` each.
REST = ("notebooks/08_ln_lstm", "book/api", "book/benchmarks", "notebooks/which_layer_norm")
SOME = [PAGES[0], FORMULA, *(f"{name}.html" for name in REST)]

# What is wrong with a page on a phone, by name: something wider than it, tables and equations that
# are cut, mathematics that is not set or cannot be read aloud.
WRONG = """() => {
    const all = query => [...document.querySelectorAll(query)];
    const cut = box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1;
    const wrong = {
        'scrolls sideways': document.documentElement.scrollWidth > innerWidth ? ['page'] : [],
        'cut': all('article :is(.pst-scrollable-table-container, .cell_output pre)').filter(cut),
        'wide equations': all('div.math > mjx-container').filter(cut),
        'cut equations': all('div.math > mjx-container').filter(box =>
            box.firstChild.getBoundingClientRect().top < box.getBoundingClientRect().top + 2),
        'errors of MathJax': all('mjx-merror'),
        'not read aloud': all('article .math:not(:has(mjx-assistive-mml math))'),
        'dead explorers': all('.ln-explorer-output:not(.ln-live)'),
    };
    const said = e => e.id || e.textContent?.slice(0, 80) || `${e}`;
    return Object.fromEntries(Object.entries(wrong).map(([name, found]) => [name, found.map(said)])
        .filter(([, found]) => found.length));
}"""

# What the browser has noted since the page was opened: how far things moved, how long tasks took.
LOADING = """type => new Promise(done => {
    const tell = list => done(list.getEntries().map(e => e.value ?? e.duration));
    new PerformanceObserver(tell).observe({ type, buffered: true });
    setTimeout(done, 300, []);
})"""
ALL_SCROLLED_BY_KEYS = """
() => [...document.querySelectorAll("pre")].every(
    (code) => code.scrollWidth <= code.clientWidth || code.tabIndex === 0
)"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_a_phone(reader: Any, name: str) -> None:
    page = reader(**PHONE).open(name)
    assert page.evaluate(WRONG) == {}
    assert sum(page.evaluate(LOADING, "layout-shift")) < 0.1  # as good as search engines ask for


# axe counts a header cell of nothing but mathematics as empty; its MathML is read aloud. What
# MathJax and Pygments made is most of a page, and one like the other.
WITHIN = {"exclude": [["th:has(> p > .math)"], ["mjx-container"], [".highlight span"]]}
OF_COLOR = ["color-contrast", "link-in-text-block"]


def wrong(page: Any, **options: Any) -> dict[str, Any]:
    """What axe finds: the name of a rule, and the places."""
    found = violations(page, WITHIN, **options)
    return {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in found}


@few("name", PAGES, SOME)
def test_a_page_is_accessible_light_dark_and_on_a_phone(reader: Any, name: str) -> None:
    page = reader(color_scheme="light", **DESK).open(name)
    assert sum(page.evaluate(LOADING, "layout-shift")) < 0.1
    assert wrong(page) == {}
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    page.wait_for_function("document.getAnimations().every(one => one.playState !== 'running')")
    assert wrong(page, runOnly=OF_COLOR) == {}
    page.set_viewport_size(PHONE["viewport"])
    page.wait_for_function(ALL_SCROLLED_BY_KEYS)  # the theme sees to it, a moment later
    assert wrong(page, runOnly=["target-size", "scrollable-region-focusable"]) == {}


# --- on a desk -----------------------------------------------------------------------------------


def test_on_a_dark_page_figures_and_explorers_are_dark(reader: Any) -> None:
    page = reader(color_scheme="dark", **DESK).open(FORMULA)
    color = "e => getComputedStyle(e).backgroundColor"
    paper = page.locator("svg.ln-figure path").first.evaluate("e => getComputedStyle(e).fill")
    assert page.locator("body").evaluate(color) == paper == "rgb(18, 18, 18)"
    assert page.locator(".ln-explorer").first.evaluate(color) == "rgb(20, 24, 30)"
    assert page.locator(".ln-explorer-output").first.evaluate(color) == "rgba(0, 0, 0, 0)"


def test_nothing_moves_for_who_asked_for_stillness(reader: Any) -> None:
    page = reader(reduced_motion="reduce", **DESK).open(FORMULA)
    page.locator(".primary-toggle:visible, .sidebar-toggle:visible").first.click()
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


@pytest.mark.parametrize("context", [DESK, PHONE], ids=["desk", "phone"])
def test_the_landing_page_has_its_explorer_above_the_fold(reader: Any, context: Any) -> None:
    someone = reader(**context)
    page = someone.open(PAGES[0])
    box = someone.explorer("row").locator("svg").first.bounding_box()
    assert box["y"] + box["height"] <= page.viewport_size["height"]


# --- paper, and without JavaScript ---------------------------------------------------------------


def test_the_summary_fills_one_sheet_of_either_paper(reader: Any) -> None:
    page = reader(**DESK).open(SUMMARY)
    sheets = [re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper)) for paper in ("A4", "Letter")]
    assert list(map(len, sheets)) == [1, 1]


def test_paper_is_light_and_has_the_explorer_as_it_stands_and_open_answers(reader: Any) -> None:
    someone = reader(viewport={"width": 700, "height": 900}, color_scheme="dark")
    page = someone.open("notebooks/07_triton_kernel.html")
    explorer = someone.explorer()
    explorer.locator(".ln-presets button").nth(1).dispatch_event("click")
    stands = explorer.locator(".ln-sentence").inner_text()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "light"
    assert page.locator("nav:visible, button:visible, input:visible").count() == 0
    assert explorer.locator(".ln-sentence").inner_text() == stands
    assert explorer.locator(".ln-chart svg:visible").count() > 0
    assert explorer.locator(".ln-fallback:visible").count() == 0
    closed = "article details:not([open], .hide, .ln-check, .ln-explorer *)"
    assert page.locator(closed).count() == 0
    open_now = page.locator("article :is(.toggle.admonition > section, .sidenote)")
    assert open_now.count() == open_now.locator("visible=true").count() > 10
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert page.locator("article pre:visible, article table:visible").evaluate_all(cut) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(theme) == "dark"


def test_without_javascript_a_picture_and_a_sentence_remain(reader: Any, site: Path) -> None:
    page = reader(java_script_enabled=False).page
    page.goto((site / FORMULA).as_uri())
    assert page.locator(".ln-noscript").get_by_text("formulas are shown as TeX").is_visible()
    assert page.locator("article span.math").first.is_visible()
    assert page.locator(".ln-fallback img:visible").count() == 4


# --- where one lands -----------------------------------------------------------------------------

# How far a target is from where a link to it leads: below the bar at the top.
MISSED_BY = """id => document.getElementById(id).getBoundingClientRect().top
    - parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop)"""
STANDS = f"""() => {LIVE} && document.readyState === 'complete'
    && MathJax.startup.promise?.then({RESTS})"""
# As in a browser that keeps nothing in its place while the page above it grows, and on a slow
# machine: the explorers' modules wait until they are let go.
DOES_NOT_ANCHOR = """document.addEventListener('DOMContentLoaded', () => {
    document.head.append(Object.assign(document.createElement('style'),
        { textContent: 'html { overflow-anchor: none !important; }' }));
});"""
SLOW = """window.waiting = new Promise(done => { window.letGo = done; });
window.Blob = class extends Blob {
    constructor(parts, options) { super(['await waiting;', ...parts], options); }
};"""


def follow_a_link(someone: Reader, name: str, to: str) -> Any:
    links = Path(someone.folder) / "links.html"
    links.write_text(f"<a href='{(someone.site / name).as_uri()}#{to}'>there</a>", encoding="utf8")
    someone.page.goto(links.as_uri())
    someone.page.locator("a").click(no_wait_after=True)
    return someone.page


def missed_by(page: Any, target: str) -> float:
    """Wait for explorers, formulas and the scroll position; return how far off the target is."""
    page.wait_for_function(STANDS)
    return float(page.evaluate(MISSED_BY, target))


@pytest.mark.parametrize("kind", ["", DOES_NOT_ANCHOR], ids=["any", "keeps nothing in place"])
@pytest.mark.parametrize("to", ["exercises", "explorer-axes", "explorer-sphere"])
def test_a_link_lands_though_explorers_grow_above_it(reader: Any, to: str, kind: str) -> None:
    someone = reader(**NARROW)
    someone.page.add_init_script(kind)
    assert abs(missed_by(follow_a_link(someone, FORMULA, to), to)) <= 2


def turn_the_wheel(page: Any, down: int, key: str = "") -> float:
    """Scroll once the browser has led to where the link leads; return how far off it is then."""
    page.wait_for_function("document.readyState === 'complete' && scrollY > 2000")
    page.evaluate("MathJax.startup.promise.then(() => 0)")  # equations wait for no one forever
    page.mouse.move(200, 400)
    if key:
        page.keyboard.press(key)
    else:
        page.mouse.wheel(0, down)
    page.wait_for_timeout(300)
    page.wait_for_function(RESTS)
    return float(page.evaluate(MISSED_BY, "exercises"))


@pytest.mark.parametrize("key", ["", "PageUp"], ids=["wheel", "key"])
def test_who_scrolls_before_the_explorers_stand_stays_there(reader: Any, key: str) -> None:
    someone = reader(**NARROW)
    someone.page.add_init_script(SLOW)
    page = follow_a_link(someone, FORMULA, "exercises")
    for _ in ("a link leads there", "the page is loaded again"):
        moved = turn_the_wheel(page, -600, key)
        assert moved > 300
        page.evaluate("letGo()")
        assert missed_by(page, "exercises") == pytest.approx(moved, abs=2)
        page.reload()


def test_going_back_and_loading_again_lead_to_where_one_was(reader: Any) -> None:
    page = follow_a_link(reader(**NARROW), FORMULA, "exercises")
    missed_by(page, "exercises")
    before = turn_the_wheel(page, 150)
    page.go_back()
    page.go_forward()
    assert missed_by(page, "exercises") == pytest.approx(before, abs=2)
    page.reload()
    assert missed_by(page, "exercises") == pytest.approx(before, abs=2)


# --- what a page asks of a machine ---------------------------------------------------------------

# The time from an event until the frame that shows it has been painted, 95 times of 100.
FRAMES = """async () => {
    const slider = document.querySelector(".ln-explorer input[type=range]"), frames = [];
    for (let i = 0; i < 60; i++) {
        const start = performance.now();
        slider.value = 1 + ((i + 1) * 7) % Number(slider.max);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        frames.push(performance.now() - start);
    }
    return frames.sort((a, b) => a - b)[57];
}"""


@pytest.mark.tier("all")
def test_a_page_answers_while_its_equations_are_set(reader: Any) -> None:
    go = reader(frames=True, **DESK).open
    loads = [go("notebooks/05_index_notation.html").evaluate(LOADING, "longtask") for _ in "1234"]
    assert min(max(load, default=0) for load in loads) < 150  # ms; others may slow some of them


@pytest.mark.tier("all")
@pytest.mark.parametrize("name", ["row", "axes", "tiles"])
def test_an_explorer_keeps_to_its_budget_of_frames(reader: Any, name: str) -> None:
    someone = reader(frames=True, **DESK)
    someone.alone(next(kind for kind in KINDS if kind._files == name)(ask=False))
    slowed = someone.context.new_cdp_session(someone.page)
    slowed.send("Emulation.setCPUThrottlingRate", {"rate": 4})  # as a phone of some years ago
    assert someone.page.evaluate(FRAMES) < 3 * 33  # two frames of a screen, on a busy machine
