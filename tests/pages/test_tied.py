"""The text and its pictures: links that set a state, numbers to drag, symbols, the address."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

import nbformat
import numpy as np
import pytest
import tied
from goldens import gamma_beta
from hand import DESK, PHONE, WATCH
from playwright.sync_api import expect
from test_style import contrast

from conftest import DRAWN, LIVE, TAKEN
from lnlib.book.explorers import Explorer
from lnlib.book.home import ROOT

LINK = re.compile(r"\[([^]]*)\]\(#(explorer-[a-z-]+)\?([^)]*)\)")
EPSILON, FORMULA = "notebooks/02_epsilon.html", "notebooks/01_formula.html"


def links() -> list[tuple[str, str, str, str]]:
    """Return page, text, place and state of every link to an explorer in the sources."""
    return [
        (path.stem, *link.groups())
        for path in sorted(ROOT.glob("notebooks/*.ipynb"))
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "markdown"
        for link in LINK.finditer(cell.source)
    ]


def is_state(said: str) -> bool:
    return not said.startswith(("drag=", "shows="))


# --- when pages are built ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    ["epsilon?eps=2", "epsilon?eps=x", "epsilon?x=1", "epsilon?drag=x", "eps?eps=1", "row?x=1"],
)
def test_a_link_that_its_explorer_cannot_follow_stops_the_build(said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"#explorer-{said}: ")):
        tied.check(f"#explorer-{said}")


def test_the_words_of_a_link_have_no_number_but_those_of_its_state() -> None:
    for page, text, _, said in links():
        numbers = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text.partition("add ")[0])
        values = {float(v) for v in re.findall(r"-?\d[\d.e-]*", said)}
        assert not is_state(said) or {float(number) for number in numbers} <= values, (page, text)


def test_a_symbol_has_its_class_and_a_command_that_begins_like_it_has_none() -> None:
    math = r'<span class="math notranslate nohighlight">\(\mu\multimap x\)</span>'
    due = math.replace(r"(\mu", r"({\class{ln-s ln-s-mu}{\mu}}")
    assert tied.mark_symbols(math) == due


# --- in the reader's hands -----------------------------------------------------------------------

LISTEN = """document.addEventListener('ln-drawn', ({ target, detail }) => {
    window.told = [target.closest('.ln-explorer-output').id, detail.text];
})"""
CLICK = f"async link => {{ window.told = []; link.click(); {DRAWN}; return told; }}"
LIT = "document.documentElement.dataset.lnLit ?? null"
HASH = "location.hash"


def state_of(kind: type[Explorer], said: str) -> dict[str, Any]:
    """Return the state that an address says."""
    read = {n: json.loads(f"[{w}]") if re.match(r"[-\d]", w) else w for n, w in parse_qsl(said)}
    return {n: list(np.atleast_1d(read.get(n, value))) for n, value in kind().state().items()}


@pytest.mark.parametrize("name", sorted({page for page, *_ in links()}))
def test_links_set_what_they_say_and_numbers_are_those_of_the_start(reader: Any, name: str) -> None:
    page = reader(guess=True).open(f"notebooks/{name}.html")
    mine = [link[1:] for link in links() if link[0] == name]
    found = page.locator("a.ln-number, a.ln-shown").all_inner_texts()
    assert found == [text for text, _, said in mine if not is_state(said)]
    page.evaluate(LISTEN)
    for text, place, said in filter(lambda link: is_state(link[2]), mine):
        kind = tied.PLACES[place]
        at, told = page.locator(f"a[href='#{place}?{said}']").first.evaluate(CLICK)
        assert (at, state_of(kind, told)) == (place, state_of(kind, said)), text


def test_what_the_text_says_of_y_is_true_in_every_state_that_its_links_set(reader: Any) -> None:
    page = reader().open("notebooks/03_gamma_beta.html")
    page.evaluate(LISTEN)
    for place, said in {link[2:] for link in links() if link[0] == "03_gamma_beta"}:
        if is_state(said):
            page.locator(f"a[href='#{place}?{said}']").first.evaluate(CLICK)
            x, weight, bias, (eps,) = state_of(tied.PLACES[place], said).values()
            y = gamma_beta(x, weight, bias, eps)["lanes"]["y"].numpy()
            numbers = page.locator("a.ln-number, a.ln-shown").all_inner_texts()
            due = np.mean(weight), np.mean(bias), y.std(), y.mean()
            assert [float(n.replace("−", "-")) for n in numbers] == pytest.approx(due, 5e-3, 1e-4)


# A flash is over in a second and a half; a busy machine would see none.
FLASHES = """() => new MutationObserver((all) => {
    for (const { target } of all) target.hasFlashed ||= target.classList.contains("ln-flash");
}).observe(document, { subtree: true, attributeFilter: ["class"] })"""


def test_a_link_shows_its_state_and_the_address_leads_to_all_states_again(reader: Any) -> None:
    someone = reader(guess=True, **DESK)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    number, at = page.locator(".ln-number").nth(1), {"x": 5, "y": 8}
    number.drag_to(number, source_position=at, target_position={**at, "x": 9})  # less than a step
    number.hover(position={**at, "x": 20})  # it has been let go
    explorer.locator("[aria-label^=Your]").press("ArrowRight")
    explorer.get_by_role("button", name="See").click()
    explorer.get_by_role("button", name="And with σ + ε?").click()
    told = explorer.locator(".ln-sentence")
    sentences = [told.inner_text()]
    explorer.locator("details").evaluate("fold => { fold.open = true; }")
    page.evaluate(FLASHES)
    for said in ("eps=1e-5", "eps=1e-5&spread=0.1"):
        link = page.locator(f"a[href='#explorer-epsilon?{said}']").first
        link.click()
        page.wait_for_function(f"{HASH} === '#explorer-epsilon?{said}'")
        sentences.append(told.inner_text())
        for seen in (explorer.locator("svg").first, told):  # though the fold is open
            assert seen.evaluate("e => e.getBoundingClientRect().bottom") < 801
        assert link.evaluate("e => e.getBoundingClientRect().top") > 0
    assert [len(set(sentences)), *("float16" in one for one in sentences)] == [3, False, True, True]
    spread = explorer.locator("[data-trait=spread]")
    assert spread.evaluate_all("all => all.some(node => node.hasFlashed)")
    page.go_back()
    page.wait_for_function(f"{HASH} === '#explorer-epsilon?eps=1e-5'")
    assert told.inner_text() == sentences[1]
    page.go_forward()
    expect(told).to_have_text(sentences[2])
    link = page.locator("a[href$='epsilon?eps=1e-5']").first
    link.click(modifiers=["Control"])
    assert link.evaluate(TAKEN) == []
    assert told.inner_text() == sentences[2]  # all that was the browser's
    explorer.locator("input[type=number]").nth(1).press("ArrowUp")
    page.wait_for_function("/eps=(?!1e-5&)/.test(location.hash)")
    last, other = told.inner_text(), reader(**DESK)
    other.page.goto(page.url)
    expect(other.explorer("epsilon").locator(".ln-sentence")).to_have_text(last)
    explorer.locator(".ln-reset").click()
    page.wait_for_function(f"{HASH} === '#explorer-epsilon'")


def test_explorers_of_a_page_keep_their_states_and_back_leads_to_the_start(reader: Any) -> None:
    someone = reader(guess=True, **DESK)
    page, depth = someone.open(FORMULA), someone.explorer("depth")
    row, start = someone.explorer("row").locator(".ln-sentence"), page.url
    first = row.inner_text()
    depth.get_by_role("button", name="Skip").click()
    depth.get_by_label("norm → ReLU").check()
    page.wait_for_function(f"{HASH} === '#explorer-depth?order=norm_first'")
    page.locator("a[href^='#explorer-row?x=102']").first.click()
    both = "explorer-row?x=102,104,104,104,105,105,107,109;explorer-depth?order=norm_first"
    page.wait_for_function(f"{HASH} === '#{both}'")
    moved = row.inner_text()
    page.evaluate("location.hash = 'exercises'")
    page.wait_for_function("history.state?.lnStates?.length === 2")
    page.reload()
    page.wait_for_function(LIVE)
    expect(row).to_have_text(moved)
    assert depth.get_by_label("norm → ReLU").is_checked()
    page.go_back()
    page.go_back()
    expect(row).to_have_text(first)
    assert depth.get_by_label("norm → ReLU").is_checked()
    assert page.url != start


def test_after_a_far_jump_a_button_leads_back(reader: Any) -> None:
    someone = reader(viewport={"width": 1280, "height": 420})
    page, link = someone.open(EPSILON), someone.page.locator("a[href^='#explorer-epsilon?']").first
    someone.explorer("epsilon")
    top = "e => e.getBoundingClientRect().top"
    link.click()
    page.get_by_role("button", name="Back to the text").wait_for()
    assert not 0 < link.evaluate(top) < 420
    page.get_by_role("button", name="Back to the text").click()
    assert 0 < link.evaluate(top) < 420
    assert link.evaluate("e => e === document.activeElement")
    page.wait_for_function("!document.querySelector('.ln-way-back')")


def test_a_number_in_the_text_is_a_slider_by_keys(reader: Any) -> None:
    someone = reader(**DESK)
    page = someone.open("notebooks/03_gamma_beta.html")
    someone.explorer("gamma-beta").get_by_text("Fresh layer").dispatch_event("click")
    beta = page.get_by_role("slider", name="β, in the explorer")
    beta.scroll_into_view_if_needed()
    shown, top = page.locator(".ln-shown").nth(1), page.evaluate("scrollY")
    beta.focus()
    for key, value in (
        *[("PageUp", "1"), ("PageDown", "0")],
        *[("ArrowLeft", "-0.1"), ("ArrowDown", "-0.2"), ("PageUp", "0.8")],
        *[("Shift+ArrowLeft", "-0.2"), ("ArrowRight", "-0.1"), ("ArrowUp", "0")],
    ):
        beta.press(key)
        assert beta.get_attribute("aria-valuenow") == value, key
        told = [beta.get_attribute("aria-valuetext"), beta.inner_text(), shown.inner_text()]
        assert told == 3 * [value.replace("-", "−")]
    assert page.evaluate("scrollY") == top


SHOWN = "node => getComputedStyle(node).color"
# The color that a symbol has in the words and drawings of an explorer.
OF_EXPLORER = """([root, name]) => [...new Set([...root.querySelectorAll(
    `.ln-sentence .ln-s-${name}, svg .ln-s-${name}:is(tspan)`)].map(
    node => getComputedStyle(node).color))]"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_symbol_has_one_color_in_equations_and_in_the_explorer_beside_them(
    reader: Any, theme: str
) -> None:
    someone = reader(color_scheme=theme, **DESK)
    page, colors = someone.open(FORMULA), set()
    root = someone.explorer("row").locator(".ln-explorer").element_handle()
    ground = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    for name in tied.SYMBOLS:
        found = page.locator(f"article mjx-container .ln-s-{name}")
        (color,) = set(found.evaluate_all(f"all => all.map({SHOWN})"))
        assert page.evaluate(OF_EXPLORER, [root, name]) == [color], name
        assert contrast(rgb(color), rgb(ground)) >= 4.5
        colors.add(color)
    assert len(colors) == 6


def rgb(written: str) -> tuple[float, ...]:
    return tuple(int(number) / 255 for number in re.findall(r"\d+", written)[:3])


def test_a_symbol_lights_up_wherever_it_stands(reader: Any) -> None:
    someone = reader(**DESK)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    sigma, title = page.locator("mjx-container .ln-s-sigma").first, page.locator("article h1").first
    for act, lit in (
        (explorer.locator(".ln-field .ln-s-sigma").first.hover, "sigma"),
        (title.hover, None),
        (page.locator("mjx-container .ln-s-epsilon").first.click, "epsilon"),
        (title.hover, "epsilon"),  # a click keeps it lit
        (lambda: page.keyboard.press("Escape"), None),
        (explorer.locator("summary").click, None),
        (explorer.get_by_role("button", name="No ε").focus, "epsilon"),
    ):
        act()
        assert page.evaluate(LIT) == lit
        behind = sigma.evaluate("node => getComputedStyle(node).backgroundColor")
        assert (behind != "rgba(0, 0, 0, 0)") == (lit == "sigma")
    page.evaluate("addEventListener('keydown', e => { window.taken = e.defaultPrevented; })")
    page.locator("mjx-container[display]:has(.ln-s-epsilon)").first.focus()
    seen = []
    keys = {"ArrowRight": True, "ArrowDown": False, "ArrowLeft": True}
    for key, taken in (("ArrowRight", True), *keys.items()):
        page.keyboard.press(key)
        seen.append(page.evaluate(LIT))
        assert page.evaluate("taken") is taken
    assert seen[0] != seen[1] == seen[2]
    assert seen[3] == seen[0]


def test_a_tap_lights_a_symbol_and_a_finger_drags_a_number_while_the_page_stays(
    reader: Any,
) -> None:
    someone = reader(**PHONE)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    for symbol, name in (
        (page.locator("mjx-container .ln-s-epsilon"), "epsilon"),
        (explorer.locator(".ln-field label .ln-s-sigma"), "sigma"),  # this taps its slider too
    ):
        symbol.first.tap()
        assert page.evaluate(LIT) == name
        page.locator("article h1").first.tap()
        assert page.evaluate(LIT) is None
    number = page.get_by_role("slider", name="σ, in the explorer")
    number.evaluate("e => e.scrollIntoView({ block: 'center', behavior: 'instant' })")
    page.evaluate(WATCH)
    box = number.bounding_box()
    touch, y = someone.context.new_cdp_session(page), box["y"] + box["height"] / 2
    for step, what in enumerate(["Start", *["Move"] * 10, "End"]):
        places = [{"x": box["x"] + 5 + 12 * step, "y": y + step, "id": 0}][: step <= 10]
        touch.send("Input.dispatchTouchEvent", {"type": f"touch{what}", "touchPoints": places})
        page.wait_for_timeout(8)
    assert page.evaluate("canceled") == 0
    assert number.bounding_box()["y"] == pytest.approx(box["y"], abs=1)  # under the finger
    assert float(number.inner_text()) == pytest.approx(3e-5 * 10, rel=0.01)  # 20 steps a decade
