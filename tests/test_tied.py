"""The text and its pictures: links that set a state, numbers to drag, symbols, the address."""

from __future__ import annotations

import base64
import io
import re
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import tied
from PIL import Image
from test_explorer_hands import PHONE, WATCH

from lnlib.book import explorers
from lnlib.book.explorers import Explorer, base
from lnlib.book.home import ROOT

LINK = re.compile(r'\[(?P<text>[^]]*)\]\(#(?P<place>explorer-[a-z-]+) "(?P<title>[^"]*)"\)')
KINDS = {
    re.sub("(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("Explorer")).lower(): kind
    for name, kind in vars(explorers).items()
    if name.endswith("Explorer") and kind is not Explorer
}
EPSILON, ROW = "notebooks/02_epsilon.html", "book/index.html"


def links() -> list[tuple[str, str, str, str]]:
    """Return page, place, title and text of every link to an explorer in the sources."""
    found = []
    for path in sorted(ROOT.glob("notebooks/*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                each = LINK.finditer(cell.source)
                found += [(path.stem, m["place"], m["title"], m["text"]) for m in each]
    return found


# --- when pages are built ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "title", ["", "eps", "eps=1e-8,", "move eps", "drag eps now", "eps = 1", "eps=1 too"]
)
def test_a_link_that_says_neither_a_state_nor_a_number_stops_the_build(title: str) -> None:
    if title == "eps=1e-8,":
        assert tied.attribute(title)  # a list of one: the trait refuses it, below
        return
    with pytest.raises(ValueError, match="a link to an explorer says"):
        tied.attribute(title)


def test_a_title_is_written_as_the_script_of_the_page_reads_it() -> None:
    link = '<a class="ln-tie reference internal" href="#explorer-axes"'
    assert tied.tie_links(f'{link} title="eps=1 norm=&lt;b&gt;">&amp;</a>') == (
        f'{link} data-ln-set="eps=1&amp;norm=&lt;b&gt;">&amp;</a>'
    )
    assert tied.tie_links(f'{link} title="drag eps">') == f'{link} data-ln-drag="eps">'
    other = '<a class="reference internal" href="#x" title="eps=1">'
    assert tied.tie_links(other) == other


def test_an_explorer_on_a_page_without_code_has_its_picture_in_its_size() -> None:
    rest: list[Any] = [{}, [], 1, 0, "", None, SimpleNamespace(reporter=None)]
    (node,) = tied.Explorer("explorer", ["GammaBetaExplorer"], *rest).run()
    text = node.astext()
    assert text.startswith('<div class="ln-explorer-output" id="explorer-gamma-beta"><script')
    width, height, src = re.findall(r'<img .*?width="(.*?)" height="(.*?)" src=".*?,(.*?)"', text)[
        0
    ]
    with Image.open(io.BytesIO(base64.b64decode(src))) as picture:
        assert picture.size == (int(width), int(height))
    assert text.count("</script>") == 2
    assert base.script("x", "</script>") == '<script type="x">"<\\/script>"</script>'


def test_symbols_are_marked_in_equations_alone_and_each_in_braces() -> None:
    body = (
        r"<p>\(\sigma\) in words</p>"
        r'<span class="math notranslate nohighlight">'
        r"\(\frac\gamma\sigma + \hat x_i\sigma_x\)</span>"
        r'<div class="math notranslate nohighlight" id="equation-eq-mu">'
        "\n"
        r"\[\mu\mug\hat{x}\]</div>"
        r'<div class="amsmath math notranslate nohighlight">\[\beta\]</div>'
    )
    marked = tied.mark_symbols(body)
    assert r"<p>\(\sigma\) in words</p>" in marked
    assert (
        r"\frac{\class{ln-s ln-s-gamma}{\gamma}}{\class{ln-s ln-s-sigma}{\sigma}} + "
        r"{\class{ln-s ln-s-x-hat}{\hat x}}_i{\class{ln-s ln-s-sigma}{\sigma}}_x"
    ) in marked
    assert r"{\class{ln-s ln-s-mu}{\mu}}\mug{\class{ln-s ln-s-x-hat}{\hat{x}}}" in marked
    assert 'id="equation-eq-mu"' in marked
    assert r"\[{\class{ln-s ln-s-beta}{\beta}}\]" in marked


def test_every_link_names_a_state_that_its_explorer_can_take() -> None:
    assert len(links()) >= 20
    for page, place, title, _ in links():
        kind = KINDS[place.removeprefix("explorer-")]
        if "=" not in title:
            continue
        for part in title.split():
            name, _, value = part.partition("=")
            trait = kind.class_traits()[name]
            like = trait.default_value
            if isinstance(like, tuple):
                setattr(kind(), name, [float(v) for v in value.split(",")])
            else:
                setattr(kind(), name, type(like)(value))
            assert name not in ("keys", "layout"), page


def test_a_link_writes_only_numbers_that_it_sets() -> None:
    for page, _, title, text in links():
        if "=" in title:
            said = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)
            values = {float(v) for v in re.findall(r"-?\d[\d.e-]*", title)}
            wrong = [n for n in said if float(n) not in values and f"add {n}" not in text]
            assert wrong == [], f"{page}: {text}"


def test_each_page_that_links_to_an_explorer_shows_it(site: Any) -> None:
    for page, place, _, _ in links():
        html = (site / "notebooks" / f"{page}.html").read_text(encoding="utf8")
        assert f'id="{place}"' in html, f"{page} has no {place}"


def test_what_shows_explorers_is_loaded_before_mathjax(site: Any) -> None:
    for page in (EPSILON, ROW):
        scripts = re.findall(r"<script[^>]*src=\"([^\"]*)\"", (site / page).read_text("utf8"))
        names = [script.split("/")[-1].split("?")[0] for script in scripts]
        if "tex-mml-chtml.js" in names:
            assert names.index("explorers.js") < names.index("tex-mml-chtml.js")
        assert names.count("explorers.js") == 1


# --- in the reader's hands -----------------------------------------------------------------------


def test_a_link_sets_the_state_scrolls_there_flashes_and_is_in_the_address(reader: Any) -> None:
    someone = reader(viewport={"width": 1280, "height": 800})
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    link = page.locator('a[data-ln-set="eps=1e-5&spread=0.1"]')
    link.click()
    assert explorer.locator(".ln-verdict").inner_text() == "The data decide the output"
    assert explorer.locator("[data-trait=eps].ln-flash").count() > 0
    box = explorer.locator(".ln-explorer").bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 800
    assert page.evaluate("location.hash") == "#explorer-epsilon?eps=1e-5&spread=0.1"
    page.go_back()
    page.wait_for_function("location.hash === ''")


HEARD = """window.heard = [];
document.addEventListener('ln-set', ({ target, detail }) => {
    heard.push([`#${target.closest('.ln-explorer-output').id}`, detail]);
}, true)"""
LIVE = "[...document.querySelectorAll('.ln-explorer-output')].every(e => e.matches('.ln-live'))"


@pytest.mark.parametrize("name", sorted({page for page, *_ in links()}))
def test_each_link_sets_what_it_says_in_the_explorer_that_it_names(reader: Any, name: str) -> None:
    page = reader().open(f"notebooks/{name}.html")
    page.wait_for_function(LIVE)
    page.evaluate(HEARD)
    for link in page.locator("a[data-ln-set]").all():
        link.evaluate("link => link.click()")
        said = [link.get_attribute("href"), link.get_attribute("data-ln-set")]
        assert page.evaluate("heard.splice(0)") == [said]


def test_back_and_forth_lead_through_the_states_of_links(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")

    def state() -> list[str]:
        return [one.input_value() for one in explorer.locator("input[type=number]").all()]

    states = [state()]
    for said in ("eps=1e-5", "eps=1e-5&spread=0.1"):
        page.locator(f'a[data-ln-set="{said}"]').first.evaluate("link => link.click()")
        states.append(state())
    assert len({*map(tuple, states)}) == 3
    page.go_back()
    assert state() == states[1]
    page.go_forward()
    assert state() == states[2]


def test_a_link_is_left_to_the_browser_with_a_key_or_without_an_explorer(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    page.evaluate(
        """addEventListener('click', event => {
            window.taken = event.defaultPrevented;
            event.preventDefault();
        })"""
    )
    link = page.locator("a[data-ln-set]").first
    click = """(link, keys) => {
        link.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ...keys }));
        return taken;
    }"""
    for key in ("ctrlKey", "metaKey", "shiftKey"):
        assert not link.evaluate(click, {key: True})
    assert page.evaluate("location.hash") == ""
    assert link.evaluate(click, {})
    explorer.locator(".ln-explorer").evaluate("root => root.remove()")
    assert not link.evaluate(click, {})


def test_a_gesture_is_one_change_of_the_address(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    someone.explorer("epsilon")
    page.evaluate(
        """() => {
            const replace = history.replaceState;
            window.replaced = 0;
            history.replaceState = (...to) => { replaced += 1; replace.apply(history, to); };
        }"""
    )
    page.locator(".ln-tie[data-ln-drag=spread]").evaluate(
        """async number => {
            for (let i = 0; i < 8; i++) {
                number.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp' }));
                await new Promise(requestAnimationFrame);
            }
        }"""
    )
    page.wait_for_function("location.hash.includes('spread=')")
    page.wait_for_timeout(300)
    assert page.evaluate("replaced") == 1


def test_the_address_keeps_up_and_brings_the_picture_as_it_stands(reader: Any) -> None:
    someone = reader(viewport={"width": 1280, "height": 800})
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    explorer.locator("input[type=number]").nth(1).fill("0.001")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash.includes('eps=0.001')")
    told = explorer.locator(".ln-sentence").inner_text()
    url = page.url
    other = reader(viewport={"width": 1280, "height": 800})
    other.page.goto(url)
    again = other.explorer("epsilon")
    other.page.wait_for_function(
        "document.querySelector('.ln-sentence').textContent.includes('0.001')"
    )
    assert again.locator(".ln-sentence").inner_text() == told
    explorer.locator(".ln-reset").click()
    page.wait_for_function("location.hash === '#explorer-epsilon'")


@pytest.mark.parametrize("state", ["eps=7e9&spread=-3", "eps=&x=1", "constructor=1", "%E0%A4%A"])
def test_a_hostile_address_is_no_error(reader: Any, state: str) -> None:
    someone = reader()
    someone.page.goto(f"{(someone.site / EPSILON).as_uri()}#explorer-epsilon?{state}")
    explorer = someone.explorer("epsilon")
    assert explorer.locator(".ln-sentence").inner_text().startswith("With σ")


def test_numbers_in_the_text_move_the_picture_and_each_other(reader: Any) -> None:
    someone = reader(viewport={"width": 1280, "height": 800})
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    spread = page.locator(".ln-tie[data-ln-drag=spread]")
    shown = page.locator(".ln-tie[data-ln-shows=variance]")
    before = shown.inner_text()
    spread.scroll_into_view_if_needed()
    box = spread.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 5 + 60, box["y"] + 5, steps=6)
    page.mouse.up()
    assert float(spread.inner_text()) == pytest.approx(3e-5 * 10 ** (10 / 20), rel=0.01)
    assert shown.inner_text() != before
    value = explorer.locator("input[type=number]").first.input_value()
    assert float(value) == pytest.approx(float(spread.inner_text()), rel=1e-3)
    spread.focus()
    page.keyboard.press("ArrowLeft")
    assert float(spread.inner_text()) == pytest.approx(3e-5 * 10 ** (9 / 20), rel=0.01)
    assert spread.get_attribute("role") == "slider"
    assert spread.get_attribute("aria-valuetext") == spread.inner_text()


def test_a_number_in_the_text_has_the_keys_of_a_slider_and_no_others(reader: Any) -> None:
    someone = reader()
    page = someone.open("notebooks/03_gamma_beta.html")
    someone.explorer("gamma-beta")
    beta = page.locator(".ln-tie[data-ln-drag=bias]")
    assert beta.get_attribute("aria-label") == "bias, in the explorer"
    beta.focus()
    top = page.evaluate("scrollY")
    for key, value in (
        *[("ArrowLeft", "-0.1"), ("ArrowDown", "-0.2"), ("PageUp", "0.8"), ("PageDown", "-0.2")],
        *[("Shift+ArrowRight", "0.8"), ("Shift+ArrowDown", "-0.2"), ("ArrowUp", "-0.1")],
        *[(f"{other}+ArrowRight", "-0.1") for other in ("Alt", "Control", "Meta")],
    ):
        beta.press(key)
        assert beta.get_attribute("aria-valuenow") == value, key
        assert beta.inner_text() == value.replace("-", "−")
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == top


def test_a_number_that_was_let_go_stays_and_less_than_a_step_is_none(reader: Any) -> None:
    someone = reader(guess=True)
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    spread = page.locator(".ln-tie[data-ln-drag=spread]")
    spread.scroll_into_view_if_needed()
    box, mouse = spread.bounding_box(), page.mouse
    x, y = box["x"] + 5, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 4, y)  # less than a step
    assert explorer.locator(".ln-ask").count() == 1
    mouse.move(x + 13, y)
    mouse.up()
    value = spread.inner_text()
    assert float(value) == pytest.approx(3e-5 * 10 ** (2 / 20), rel=0.01)
    mouse.move(x, y)
    mouse.move(x + 20, y)
    assert spread.inner_text() == value


PAGES = sorted({page for page, *_ in links()})


@pytest.mark.parametrize("name", PAGES)
def test_the_sources_say_the_numbers_that_the_explorers_start_with(reader: Any, name: str) -> None:
    someone = reader(guess=True)
    page = someone.open(f"notebooks/{name}.html")
    page.wait_for_function(
        "[...document.querySelectorAll('.ln-explorer-output')].every(e => e.matches('.ln-live'))"
    )
    found = page.locator(".ln-tie[data-ln-drag], .ln-tie[data-ln-shows]").all_inner_texts()
    written = [text for p, _, title, text in links() if p == name and "=" not in title]
    assert found == written


def test_a_symbol_lights_up_wherever_it_stands(reader: Any) -> None:
    someone = reader(viewport={"width": 1280, "height": 800})
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    lit = "document.documentElement.dataset.lnLit ?? null"
    color = "node => getComputedStyle(node).color"
    in_equation = page.locator("mjx-container .ln-s-sigma").first
    plain = in_equation.evaluate(color)
    explorer.locator(".ln-field .ln-s-sigma").first.hover()
    assert page.evaluate(lit) == "sigma"
    assert in_equation.evaluate(color) == "rgb(0, 103, 161)" != plain
    in_equation.scroll_into_view_if_needed()
    in_equation.hover()
    assert page.evaluate(lit) == "sigma"
    page.locator(".bd-article h1").first.hover()
    assert page.evaluate(lit) is None
    equation = page.locator("mjx-container[display]:has(.ln-s-epsilon)").first
    equation.focus()
    page.keyboard.press("ArrowRight")
    first = page.evaluate(lit)
    page.keyboard.press("ArrowRight")
    assert first
    assert page.evaluate(lit) != first
    page.keyboard.press("Escape")
    assert page.evaluate(lit) is None


def test_a_click_keeps_a_symbol_lit_until_escape_and_the_focus_lights_one(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    lit = "document.documentElement.dataset.lnLit ?? null"
    sigma, title = (
        page.locator("mjx-container .ln-s-sigma").first,
        page.locator(".bd-article h1").first,
    )
    page.locator("mjx-container .ln-s-epsilon").first.click()
    title.hover()
    assert page.evaluate(lit) == "epsilon"
    page.keyboard.press("Escape")
    assert page.evaluate(lit) is None
    sigma.hover()  # the mouse lights them again
    assert page.evaluate(lit) == "sigma"
    title.hover()
    assert page.evaluate(lit) is None
    explorer.locator("summary").click()
    explorer.get_by_role("button", name="No ε").focus()
    assert page.evaluate(lit) == "epsilon"
    page.evaluate("addEventListener('keydown', e => { window.taken = e.defaultPrevented; })")
    page.locator("mjx-container[display]:has(.ln-s-epsilon)").first.focus()
    for key, taken in (("ArrowRight", True), ("ArrowDown", False)):
        page.keyboard.press(key)
        assert page.evaluate("taken") is taken


def test_a_tap_lights_a_symbol_until_the_next_tap(reader: Any) -> None:
    someone = reader(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = someone.open(EPSILON)
    explorer = someone.explorer("epsilon")
    lit = "document.documentElement.dataset.lnLit ?? null"
    page.locator("mjx-container .ln-s-epsilon").first.tap()
    assert page.evaluate(lit) == "epsilon"
    page.locator(".bd-article h1").first.tap()
    assert page.evaluate(lit) is None
    explorer.locator(".ln-field label .ln-s-sigma").first.tap()  # which taps its slider too
    assert page.evaluate(lit) == "sigma"
    page.locator(".bd-article h1").first.tap()
    assert page.evaluate(lit) is None


def test_a_finger_drags_a_number_of_the_text_and_the_page_stays(reader: Any) -> None:
    someone = reader(**PHONE)
    page = someone.open(EPSILON)
    someone.explorer("epsilon")
    number = page.locator(".ln-tie[data-ln-drag=spread]")
    number.evaluate("e => e.scrollIntoView({ block: 'center', behavior: 'instant' })")
    page.evaluate(WATCH)
    box, top = number.bounding_box(), page.evaluate("scrollY")
    touch = someone.context.new_cdp_session(page)
    y = box["y"] + box["height"] / 2
    for step, what in enumerate(["Start", *["Move"] * 10]):
        places = [{"x": box["x"] + 5 + 12 * step, "y": y + step, "id": 0}]
        touch.send("Input.dispatchTouchEvent", {"type": f"touch{what}", "touchPoints": places})
        page.wait_for_timeout(8)
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert (page.evaluate("canceled"), page.evaluate("scrollY")) == (0, top)
    assert float(number.inner_text()) == pytest.approx(3e-5 * 10, rel=0.01)  # 20 steps a decade


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_landing_page_has_the_row_machine_above_the_fold(reader: Any, size: Any) -> None:
    someone = reader(viewport={"width": size[0], "height": size[1]})
    someone.open(ROW)
    box = someone.explorer("row").locator("svg").first.bounding_box()
    assert box["y"] + box["height"] <= size[1]
