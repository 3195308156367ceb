"""The built pages in a real browser: from a folder, with no network, on a desk and on a phone."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import bench_pages
import pytest
import torch
from digests import notebooks
from tiers import few, thinned

import lnlib
from conftest import SITE, Reader, violations
from lnlib.book.equations import latex
from lnlib.book.home import ROOT

PAGES = [
    "book/index.html",
    "notebooks/01_formula.html",
    "notebooks/02_epsilon.html",
    "notebooks/03_gamma_beta.html",
    "notebooks/04_scalar_jacobian.html",
    "notebooks/05_index_notation.html",
    "notebooks/06_autograd_function.html",
    "notebooks/07_triton_kernel.html",
    "notebooks/08_ln_lstm.html",
    "notebooks/09_batch_or_layer.html",
    "notebooks/10_in_context.html",
    "notebooks/11_training_gamma_beta.html",
    "notebooks/12_in_production.html",
    "notebooks/13_lstm_experiments.html",
    "notebooks/14_claims.html",
    "notebooks/15_norms_without_the_mean.html",
    "notebooks/16_choosing_a_norm.html",
    "notebooks/17_placing_a_norm.html",
    "notebooks/which_layer_norm.html",
    "notebooks/when_it_goes_wrong.html",
    "notebooks/when_not_to_use.html",
    "notebooks/using_lnlib.html",
    "notebooks/usual_explanations.html",
    "book/summary.html",
    "book/notation.html",
    "book/api.html",
    "book/internals.html",
    "book/policy.html",
    "book/benchmarks.html",
    "book/how_built.html",
    "book/sources.html",
    "book/bibliography.html",
]
EPSILON = "notebooks/02_epsilon.html"
SUMMARY = "book/summary.html"
DESK = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 844}

HEADINGS = """[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
    .filter(heading => heading.checkVisibility()).map(heading => Number(heading.tagName[1]))"""


def opened(browser: Any, folder: Path, name: str, **context: Any) -> Iterator[Reader]:
    """One load of one page, which several tests look at and none changes."""
    someone = Reader(browser, SITE, folder, **context)
    someone.asked = []
    someone.page.on("request", lambda request: someone.asked.append(request.url))
    someone.open(name)
    yield someone
    someone.context.close()
    assert someone.left_the_machine == []
    assert someone.errors == []


# Six of all kinds; in `make test-all` each.
SOME = [PAGES[0], PAGES[1], PAGES[8], "notebooks/which_layer_norm.html", *PAGES[25:29:3]]


@pytest.fixture(scope="module", params=thinned(PAGES, SOME))
def desk(request: Any, browser: Any, site: Path, tmp_path_factory: Any) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("desk")
    yield from opened(browser, folder, request.param, color_scheme="light", viewport=DESK)


@pytest.fixture(scope="module", params=PAGES)
def phone(request: Any, browser: Any, site: Path, tmp_path_factory: Any) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("phone")
    yield from opened(browser, folder, request.param, viewport=PHONE, has_touch=True)


def test_a_page_is_no_heavier_than_promised(desk: Reader) -> None:
    budget = 1e6  # bytes, compressed and besides MathJax, as book/how_built.md says
    asked = [url for url in desk.asked if "mathjax" not in url]
    assert len(asked) < len(desk.asked) or 'class="math ' not in desk.page.content()
    assert bench_pages.weight(asked)["compressed"] < budget


# axe counts a header cell of nothing but mathematics as empty; its MathML is read aloud.
MATH_HEADERS = {"exclude": [["th:has(> p > .math)"]]}


# Of all text that looks the same, before the same colors, mark one piece.
MARK_LOOKS = """() => {
    document.querySelectorAll('[data-look]').forEach(one => one.removeAttribute('data-look'));
    const seen = new Set(), behind = new Map([[null, '']]);
    const under = one => {
        if (!behind.has(one)) {
            const {backgroundColor, backgroundImage, filter, opacity} = getComputedStyle(one);
            const own = [backgroundColor, backgroundImage, filter, opacity].join();
            const is_clear = own === 'rgba(0, 0, 0, 0),none,none,1';
            behind.set(one, under(one.parentElement) + (is_clear ? '' : own + ';'));
        }
        return behind.get(one);
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const one = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !one.checkVisibility()) continue;
        const {color, fontSize, fontWeight, textShadow} = getComputedStyle(one);
        const link = one.closest('a[href]'), around = link && getComputedStyle(link.parentElement);
        const line = link && getComputedStyle(link).textDecorationLine;
        const inText = [line, around?.color, around?.fontWeight, around?.display];
        const look = [color, fontSize, fontWeight, textShadow, under(one), inText].join();
        if (!seen.has(look)) (link ?? one).setAttribute('data-look', '');
        seen.add(look);
    }
    return seen.size;
}"""
# What MathJax and Pygments made is most of a page, and one like the other: put it aside, except
# for what is marked, and leave its text, or its room.
THIN = """() => {
    const aside = window.aside = [], marked = ':is([data-look], :has([data-look]))';
    const put = (one, ...rest) => {
        aside.push([one, one.style.cssText, [...one.childNodes]]);
        one.replaceChildren(...rest);
    };
    const formulas = [...document.querySelectorAll(`mjx-math:not(${marked})`)];
    const rooms = formulas.map(one => one.getBoundingClientRect());
    formulas.forEach((one, i) => {
        put(one);
        const {width, height} = rooms[i];
        one.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px`;
    });
    for (const one of document.querySelectorAll(`mjx-assistive-mml > math:not(${marked})`))
        put(one, one.textContent);
    for (const one of document.querySelectorAll('.highlight pre'))
        put(one, ...[...one.childNodes].map(
            part => part.matches?.(marked + ', :has(a), a') ? part : part.textContent));
}"""
FILL = """() => {
    for (const [one, style, parts] of window.aside) {
        one.replaceChildren(...parts);
        one.style.cssText = style;
    }
}"""
OF_LOOKS = ["color-contrast", "link-in-text-block"]
OTHERS = {"rules": {rule: {"enabled": False} for rule in OF_LOOKS}}


def wrong(page: Any, within: Any = MATH_HEADERS, **options: Any) -> dict[str, list[str]]:
    """What axe finds: the rule's name and the places."""
    found = violations(page, within, **options)
    return {each["id"]: [node["html"][:200] for node in each["nodes"]] for each in found}


@contextmanager
def thin(page: Any) -> Iterator[None]:
    """Mark one piece of text for each way that text looks, and thin out what axe need not walk."""
    assert page.evaluate(MARK_LOOKS) > 5
    page.evaluate(THIN)
    try:
        yield
    finally:
        page.evaluate(FILL)


def faint(page: Any) -> dict[str, list[str]]:
    """What axe finds too faint, or too like the text around it, of the pieces that are marked."""
    return wrong(page, within={"include": [["[data-look]"]]}, runOnly=OF_LOOKS)


def test_the_list_of_pages_is_complete(site: Path) -> None:
    built = {path.relative_to(site).as_posix() for path in site.glob("[bn]*/*.html")}
    assert built == set(PAGES)


def test_a_page_is_accessible(desk: Reader) -> None:
    assert desk.page.locator("html").get_attribute("data-theme") == "light"
    with thin(desk.page):
        assert wrong(desk.page, **OTHERS) == {}
        assert faint(desk.page) == {}


SLIPS = {
    "color-contrast": ".highlight .n { color: #ddd !important; }",
    "link-in-text-block": "p a { text-decoration: none !important; color: #222 !important; }",
}


@pytest.mark.parametrize("rule", SLIPS)
def test_a_faint_letter_and_a_link_like_its_text_are_found(reader: Any, rule: str) -> None:
    page = reader(color_scheme="light", viewport=DESK).open("notebooks/01_formula.html")
    with thin(page):
        assert faint(page) == {}
    page.add_style_tag(content=SLIPS[rule])
    with thin(page):
        assert set(faint(page)) == {rule}


def test_what_is_thinned_out_is_in_order_too_and_is_put_back(reader: Any) -> None:
    page = reader(color_scheme="light", viewport=DESK).open("notebooks/02_epsilon.html")
    size = "document.querySelectorAll('*').length"
    everything = page.evaluate(size)
    with thin(page):
        assert page.evaluate(size) < everything / 2
    assert page.evaluate(size) == everything
    assert wrong(page) == {}


def test_a_page_that_turns_dark_has_contrast(desk: Reader) -> None:
    page, theme = desk.page, "document.documentElement.dataset.theme"
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{theme} === 'dark'")
    page.wait_for_function("document.getAnimations().every(one => one.playState !== 'running')")
    with thin(page):
        assert faint(page) == {}
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{theme} === 'light'")


@few("phone", PAGES, SOME, indirect=True, scope="module")
def test_a_phone_page_is_accessible_and_its_targets_are_large_enough(phone: Reader) -> None:
    # What is on a phone alone comes from the theme, the same on every page: one page gets all
    # rules. Colors are those of the desk, and take the most time to check.
    if "book/index" in phone.page.url:
        options = {"rules": {**OTHERS["rules"], "target-size": {"enabled": True}}}
    else:
        options = {"runOnly": ["target-size", "scrollable-region-focusable"]}
    with thin(phone.page):
        assert wrong(phone.page, **options) == {}


def test_headings_begin_with_one_title_and_skip_no_level(phone: Reader) -> None:
    levels = phone.page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    deeper = [after - before for before, after in pairwise(levels)]
    assert max(deeper, default=0) <= 1


def test_a_phone_never_scrolls_sideways(phone: Reader) -> None:
    phone.page.wait_for_timeout(300)
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


CUT_OFF = """() => [...document.querySelectorAll('article .pst-scrollable-table-container')]
    .filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
    .map(box => box.innerText)"""


def test_a_table_fits_a_phone(phone: Reader) -> None:
    assert phone.page.evaluate(CUT_OFF) == []


def test_a_fourth_column_of_words_alone_goes_below_with_its_title(reader: Any) -> None:
    for viewport, folded in ((PHONE, True), (DESK, False)):
        someone = reader(viewport=viewport)
        for name, title, is_below in (
            ("17_placing_a_norm", "× 5", False),
            ("16_choosing_a_norm", "Split", folded),
        ):
            page = someone.open(f"notebooks/{name}.html")
            head = page.get_by_role("columnheader", name=title, exact=True)
            table = page.locator("article table").filter(has=head)
            cells = table.locator("tbody tr").first.locator("td")
            first, last = (cells.nth(n).bounding_box() for n in (0, 3))
            assert (last["y"] >= first["y"] + first["height"] - 1) == is_below
            assert cells.nth(3).locator(".ln-column:visible").count() == is_below


BROKEN = """() => [...document.querySelectorAll('article table code')]
    .filter(code => code.getClientRects().length > 1).length"""


@pytest.mark.parametrize(
    ("viewport", "some"), [(PHONE, True), (DESK, False)], ids=["phone", "desk"]
)
def test_a_name_in_a_table_is_broken_on_a_phone_alone(
    reader: Any, viewport: dict[str, int], some: bool
) -> None:
    page = reader(viewport=viewport).open("notebooks/17_placing_a_norm.html")
    assert bool(page.evaluate(BROKEN)) == some


TOO_WIDE = """() => [...document.querySelectorAll('div.math')].filter(div => {
    const formula = div.querySelector('mjx-math'), number = div.querySelector('.eqno');
    const end = number ? number.getBoundingClientRect().left : 375;
    return formula && formula.getBoundingClientRect().right > end;
}).map(div => div.id)"""


def test_an_equation_fits_a_phone_and_leaves_its_number_alone(phone: Reader) -> None:
    assert phone.page.evaluate(TOO_WIDE) == []
    equations = phone.page.locator("mjx-container")
    sizes = equations.evaluate_all("all => all.map(one => one.style.fontSize)")
    assert set(sizes) <= {"110%"}  # in any font


def test_an_equation_uses_the_width_of_a_desk_and_leaves_its_number_alone(desk: Reader) -> None:
    wide = TOO_WIDE.replace("375", "innerWidth")
    assert desk.page.evaluate(wide) == []
    words = "[...document.querySelectorAll('.math')].map(e => e.textContent).join()"
    assert "softbreak" not in desk.page.evaluate(words)  # each has been set


def test_an_equation_is_broken_on_a_phone_alone(reader: Any) -> None:
    heights = []
    for width in (1280, 390):
        page = reader(viewport={"width": width, "height": 900}).open("notebooks/08_ln_lstm.html")
        box = page.locator("#equation-eq-lstm-carry mjx-container").bounding_box()
        heights.append(box["height"])
    assert heights[1] > 1.5 * heights[0]


def test_an_id_is_given_once(phone: Reader) -> None:
    ids = phone.page.locator("[id]").evaluate_all("all => all.map(e => e.id)")
    assert len(ids) > 20
    assert sorted(ids) == sorted(set(ids))


MARKS = """() => Object.fromEntries([...document.querySelectorAll('.output.stream pre')].map(pre =>
    [pre.textContent.trim().slice(0, 17), getComputedStyle(pre).borderLeftColor]))"""


WHERE = re.compile(r"Write your answers (here or )?in JupyterLab \(make lab\), or open the sol")


def test_exercises_say_where_to_answer_and_do_not_look_answered(phone: Reader) -> None:
    exercises = phone.page.locator("article .exercise.admonition")
    note = phone.page.get_by_text(WHERE)
    assert note.count() == min(exercises.count(), 1)
    if exercises.count() == 0:
        return
    assert note.bounding_box()["y"] < exercises.first.bounding_box()["y"]
    colors = phone.page.evaluate(MARKS)
    unanswered = colors.pop("not answered yet:")
    assert len(colors) > 5
    assert unanswered not in colors.values()


def test_every_picture_is_described(phone: Reader) -> None:
    images = phone.page.locator("article img")
    alts = images.evaluate_all("all => all.map(i => i.getAttribute('alt'))")
    assert all(alt and len(alt.split()) >= 10 for alt in alts), alts


def test_mathematics_is_set_and_can_be_read_aloud(phone: Reader) -> None:
    formulas = phone.page.locator("article .math").count()
    if "/notebooks/" in phone.page.url and "using_lnlib" not in phone.page.url:
        assert formulas > 20
    assert phone.page.locator("article mjx-container").count() == formulas
    assert phone.page.locator("article mjx-assistive-mml math").count() == formulas
    assert phone.page.locator("mjx-merror").count() == 0


def test_no_reference_is_left_unresolved(phone: Reader) -> None:
    text = phone.page.locator("article").inner_text()
    for sign in ("{eq}", "{numref}", "{cite", "{doc}", "??", ":label:"):
        assert sign not in text


@pytest.mark.parametrize("path", notebooks(ROOT), ids=lambda path: path.stem)
def test_the_words_of_a_reference_are_the_number_that_the_page_shows(
    path: Path, site: Path
) -> None:
    source = path.read_text(encoding="utf8")
    page = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf8")
    for role, words, label in re.findall(r"\{(eq|numref)\}`([^`<]+) <([\w-]+)>`", source):
        target = f"equation-{label}" if role == "eq" else label
        links = re.findall(rf'<a class="reference[^>]*#{target}"[^>]*>(.*?)</a>', page)
        assert {re.sub("<[^>]+>", "", link) for link in links} == {words}, label


def test_nothing_moves_for_a_reader_who_asked_for_stillness(reader: Any) -> None:
    page = reader(reduced_motion="reduce").open("notebooks/01_formula.html")
    page.locator("article details").first.locator("summary").click()
    page.locator(".primary-toggle:visible, .sidebar-toggle:visible").first.click()
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


# --- paper ---------------------------------------------------------------------------------------


def sheets(page: Any, paper: str) -> int:
    """How many sheets the page fills when it is printed."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format=paper)))


def test_the_summary_fills_one_sheet_of_either_paper(reader: Any) -> None:
    page = reader(viewport=DESK).open(SUMMARY)
    assert [sheets(page, paper) for paper in ("A4", "Letter")] == [1, 1]


def test_a_dark_page_is_printed_light_and_is_dark_again_afterwards(reader: Any) -> None:
    page = reader(color_scheme="dark").open("notebooks/01_formula.html")
    theme = "document.documentElement.dataset.theme"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(theme) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(theme) == "dark"


def test_paper_has_the_chapter_and_its_number_and_no_navigation(reader: Any) -> None:
    page = reader(viewport={"width": 700, "height": 900}).open("notebooks/08_ln_lstm.html")
    page.emulate_media(media="print")
    assert page.locator("h1:visible").all_inner_texts() == ["8. The layer-normalized LSTM"]
    assert page.locator("nav:visible, button:visible").count() == 0
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert page.locator("article pre:visible, article table:visible").evaluate_all(cut) == []


# --- the summary, and the map of the four sources ------------------------------------------------


def source_of(page: str) -> str:
    return (ROOT / "book" / f"{page}.md").read_text(encoding="utf8")


def book_equations() -> dict[str, str]:
    """Every labeled equation of the chapters."""
    found = {}
    for path in notebooks(ROOT):
        cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        found.update(latex.labeled(text))
    return found


def plain(formula: str) -> str:
    """A formula without its spaces and the mark behind it."""
    return re.sub(r"\s+|[.,]\s*(?=(\\end\{aligned\}\s*)?$)", "", formula)


def test_each_formula_of_the_summary_is_the_one_its_number_leads_to() -> None:
    text, equations = source_of("summary"), book_equations()
    linked = re.findall(r"\{eq\}`([\w-]+)`", text)
    printed = re.findall(r"```\{math\}\n(.*?)```", text, re.DOTALL)
    assert list(map(plain, printed)) == [plain(equations[label]) for label in linked]


def test_the_five_lines_of_code_in_the_summary_run() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", source_of("summary"), re.DOTALL)
    assert len(code.splitlines()) == 5
    H, x = 7, torch.randn(3, 7)
    made: dict[str, Any] = {
        **{"lnlib": lnlib, "H": H, "I": 5, "x": x, "weight": torch.randn(H)},
        **{"bias": torch.randn(H), "model": torch.nn.Sequential(torch.nn.LayerNorm(H))},
    }
    exec(textwrap.dedent(code), made)
    assert isinstance(made["model"][0], lnlib.LayerNorm)
    truth = made["truth"] * made["weight"].double() + made["bias"].double()
    # One float32 rounding of the output, and one of each product: some 1e-7 of values below 10.
    torch.testing.assert_close(made["y"].double(), truth, rtol=1e-6, atol=1e-6)
    assert made["lstm"](torch.randn(2, 3, 5))[0].shape == (2, 3, H)


def test_the_map_leads_each_topic_of_the_four_sources_into_the_book() -> None:
    maps = re.findall(
        r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", source_of("sources"), re.DOTALL | re.MULTILINE
    )
    assert [re.search("Jacobian|index|formula|LSTM", title)[0] for title, _ in maps] == [
        "Jacobian",
        "index",
        "formula",
        "LSTM",
    ]
    for _, table in maps:
        rows = table.strip().splitlines()[2:]
        assert len(rows) >= 10
        assert all(re.search(r"\| .*\{(ref|eq|numref|doc)\}`[^`]+` \|$", row) for row in rows)


# --- one by one ----------------------------------------------------------------------------------


def test_a_guess_is_folded_until_the_reader_opens_it(reader: Any) -> None:
    page = reader().open("notebooks/01_formula.html")
    answer = page.locator("article details").first
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


def test_long_outputs_wrap(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}).open("notebooks/01_formula.html")
    wide = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert page.locator("div.cell_output pre").evaluate_all(wide) == []


def test_numbers_of_equations_name_their_chapter(reader: Any) -> None:
    page = reader().open(EPSILON)
    assert "(1.1)" in page.locator("article").inner_text()  # the variance of chapter 1


def test_a_chapter_can_be_downloaded_as_a_notebook(reader: Any) -> None:
    page = reader().open(EPSILON)
    assert page.locator("a[href$='02_epsilon.ipynb']").count() == 1


def test_mathjax_comes_with_its_licence(site: Path) -> None:
    assert (site / "_static" / "mathjax" / "LICENSE").exists()
