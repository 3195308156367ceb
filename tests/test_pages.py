"""The built pages in a real browser: from a folder, with no network, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

PAGES = [
    "book/index.html",
    "notebooks/01_formula.html",
    "notebooks/02_epsilon.html",
    "book/notation.html",
    "book/api.html",
    "book/benchmarks.html",
    "book/bibliography.html",
]
EPSILON = "notebooks/02_epsilon.html"
LOCAL = ("file:", "data:", "blob:")
EXPLORER_BUDGET = 150_000  # bytes that a page loads for its explorers, MathJax aside


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


def test_the_list_of_pages_is_complete(site: Path) -> None:
    built = {path.relative_to(site).as_posix() for path in site.glob("[bn]*/*.html")}
    assert built == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_works_offline_and_is_accessible(reader: Any, name: str, scheme: str) -> None:
    page = reader(color_scheme=scheme, viewport={"width": 1200, "height": 900}).open(name)
    assert page.locator("html").get_attribute("data-theme") == scheme
    violations = Axe().run(page, options={"preload": False}).response["violations"]
    serious = {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]]
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    }
    assert serious == {}


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_never_scrolls_sideways(reader: Any, name: str) -> None:
    page = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(name)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_is_described(reader: Any, name: str) -> None:
    page = reader().open(name)
    alts = page.locator("article img").evaluate_all("all => all.map(i => i.getAttribute('alt'))")
    assert all(alt and len(alt.split()) >= 10 for alt in alts), alts


@pytest.mark.parametrize("name", [page for page in PAGES if page.startswith("notebooks/")])
def test_mathematics_is_set(reader: Any, name: str) -> None:
    page = reader().open(name)
    assert page.locator("article mjx-container").count() > 20
    assert page.locator("mjx-merror").count() == 0
    assert page.locator("article mjx-container mjx-assistive-mml").count() > 20


@pytest.mark.parametrize("name", PAGES)
def test_no_reference_is_left_unresolved(reader: Any, name: str) -> None:
    text = reader().open(name).locator("article").inner_text()
    for sign in ("{eq}", "{numref}", "{cite", "{doc}", "??", ":label:", "TODO"):
        assert sign not in text


def test_search_works_from_a_folder(reader: Any) -> None:
    page = reader().open("search.html?q=float16")
    page.locator("#search-results li a").first.wait_for()
    assert "02_epsilon" in page.locator("#search-results li a").first.get_attribute("href")


def test_the_explorer_follows_the_keyboard(reader: Any) -> None:
    someone = reader()
    someone.open(EPSILON)
    explorer = someone.explorer()
    sentence = explorer.locator(".ln-sentence")
    before, picture = sentence.inner_text(), explorer.locator("svg").first.inner_html()
    slider = explorer.get_by_role("slider", name="ε").last
    slider.focus()
    for _ in range(10):
        someone.page.keyboard.press("ArrowRight")
    someone.page.wait_for_function(
        "([before]) => document.querySelector('.ln-sentence').innerText !== before", arg=[before]
    )
    assert explorer.locator("svg").first.inner_html() != picture
    assert "ε = " in slider.get_attribute("aria-valuetext")


def test_a_typed_number_moves_the_picture_and_nonsense_does_not(reader: Any) -> None:
    someone = reader()
    someone.open(EPSILON)
    explorer = someone.explorer()
    sentence = explorer.locator(".ln-sentence")
    field = explorer.locator("input:not([type=range])").last
    field.fill("1e-3")
    field.press("Enter")
    someone.page.wait_for_timeout(600)
    assert "0.001" in sentence.inner_text()
    before = sentence.inner_text()
    field.fill("-5")
    field.press("Enter")
    someone.page.wait_for_timeout(600)
    assert sentence.inner_text() == before


def test_the_explorer_can_be_dragged(reader: Any) -> None:
    someone = reader(viewport={"width": 1200, "height": 1000})
    someone.open(EPSILON)
    explorer = someone.explorer()
    handle = explorer.locator(".ln-handle").first
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    before = explorer.locator("input[type=range]").evaluate_all("all => all.map(i => i.value)")
    mouse = someone.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    mouse.move(box["x"] + box["width"] / 2 + 60, box["y"] + box["height"] / 2, steps=5)
    mouse.up()
    after = explorer.locator("input[type=range]").evaluate_all("all => all.map(i => i.value)")
    assert after != before


def test_a_constant_row_says_what_float16_makes_of_it(reader: Any) -> None:
    someone = reader()
    someone.open(EPSILON)
    explorer = someone.explorer()
    explorer.get_by_role("button", name="0 ÷ 0").click()
    someone.page.wait_for_timeout(600)
    assert "NaN" in explorer.locator(".ln-sentence").inner_text()


def test_an_explorer_costs_little(reader: Any, site: Path) -> None:
    page = reader().open(EPSILON)
    inline = page.evaluate(
        "[...document.querySelectorAll('script[type^=\"application/vnd.jupyter\"]')]"
        ".reduce((sum, script) => sum + new Blob([script.textContent]).size, 0)"
    )
    images = page.locator(".ln-fallback img").evaluate_all("all => all.map(i => i.src)")
    pictures = sum((site / "_images" / Path(src).name).stat().st_size for src in images)
    script = (site / "_static" / "explorers.js").stat().st_size
    assert inline > 10_000  # the explorer is really there
    assert inline + script + pictures < EXPLORER_BUDGET


def test_pages_without_an_explorer_load_nothing_for_it(site: Path) -> None:
    for name in set(PAGES) - {EPSILON}:
        html = (site / name).read_text(encoding="utf8")
        assert "explorers.js" not in html
        assert "require" not in html.lower().split("<article")[0]


def test_without_javascript_a_picture_and_a_sentence_remain(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / EPSILON).as_uri())
    fallback = page.locator(".ln-fallback").first
    assert fallback.locator("img").is_visible()
    assert "output variance" in fallback.inner_text()
    context.close()


def test_on_paper_the_picture_stands_in_and_answers_are_open(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    someone.explorer()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".ln-fallback img").first.is_visible()
    assert page.locator("article details:not([open], .hide)").count() == 0


def test_the_plain_interact_example_says_that_it_needs_a_kernel(reader: Any) -> None:
    page = reader().open(EPSILON)
    assert "live kernel" in page.locator(".ln-needs-kernel").inner_text()


def test_a_guess_is_folded_until_the_reader_opens_it(reader: Any) -> None:
    page = reader().open("notebooks/01_formula.html")
    answer = page.locator("article details").first
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()
