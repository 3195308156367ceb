"""The text and its pictures: links that set a state, numbers to drag, symbols, the address."""

from __future__ import annotations

import base64
import io
import json
import re
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import tied
from docutils import nodes
from docutils.utils import new_document
from hand import DESK, PHONE, WATCH
from PIL import Image
from playwright.sync_api import expect
from runs import WIDGET_VIEW
from sphinx_ext import PairExplorersWithPictures
from stills import KINDS

from lnlib.book.explorers import base
from lnlib.book.home import ROOT

LINK = re.compile(r'\[(?P<text>[^]]*)\]\(#(?P<place>explorer-[a-z-]+) "(?P<title>[^"]*)"\)')
EPSILON = "notebooks/02_epsilon.html"
BY_ANCHOR = {tied.anchor_of(f"{kind.__module__}.{kind.__name__}"): kind for kind in KINDS}


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


@pytest.mark.parametrize("title", ["", "eps", "move eps", "drag eps now", "eps = 1", "eps=1 too"])
def test_a_link_that_says_neither_a_state_nor_a_number_stops_the_build(title: str) -> None:
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


def test_a_kind_that_a_page_shows_twice_has_two_anchors_and_may_lack_a_picture() -> None:
    kinds = {"a": "sphere.SphereExplorer", "b": "gamma_beta.GammaBetaExplorer"}
    models = {
        m: {"state": {"_anywidget_id": f"lnlib.book.explorers.{k}"}} for m, k in kinds.items()
    }
    document = new_document("page")
    for model in "aba":
        parts = {WIDGET_VIEW: f'{{"model_id": "{model}"}}', "text/plain": "in words"}
        children = [nodes.container("", nodes.raw("", p), mime_type=m) for m, p in parts.items()]
        document += nodes.container("", *children, nb_element="mime_bundle")
    scripts = {"ipywidgets_state": (None, {"body": json.dumps({"state": models})})}
    env = SimpleNamespace(docname="page", nb_metadata={"page": {"js_files": scripts}})
    document.settings.env = env
    PairExplorersWithPictures(document).run()
    anchors = [one["ids"] for one in document.findall(nodes.container) if one["ids"]]
    assert anchors == [["explorer-sphere"], ["explorer-gamma-beta"], ["explorer-sphere-2"]]
    assert document.astext().count("in words") == 3


def test_symbols_are_marked_in_equations_alone_and_each_in_braces() -> None:
    math = "math notranslate nohighlight"
    body = (
        rf'<p>\(\sigma\)</p><span class="{math}">\(\frac\gamma\sigma + \hat x_i\)</span>'
        rf'<div class="{math}" id="equation-eq-mu">\[\mu\mug\hat{{x}}\]</div>'
        rf'<div class="amsmath {math}">\[\beta\]</div>'
    )
    marked = tied.mark_symbols(body)
    assert r"<p>\(\sigma\)</p>" in marked
    gamma, sigma = r"{\class{ln-s ln-s-gamma}{\gamma}}", r"{\class{ln-s ln-s-sigma}{\sigma}}"
    x_hat = r"{\class{ln-s ln-s-x-hat}{\hat x}}_i"
    assert rf"\(\frac{gamma}{sigma} + {x_hat}\)" in marked
    assert r"{\class{ln-s ln-s-mu}{\mu}}\mug{\class{ln-s ln-s-x-hat}{\hat{x}}}" in marked
    assert r"\[{\class{ln-s ln-s-beta}{\beta}}\]" in marked


def test_every_link_names_a_state_that_its_explorer_can_take() -> None:
    assert len(links()) >= 20
    for _, place, title, _ in links():
        kind = BY_ANCHOR[place]
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


def test_a_link_writes_only_numbers_that_it_sets() -> None:
    for page, _, title, text in links():
        if "=" in title:
            said = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)
            values = {float(v) for v in re.findall(r"-?\d[\d.e-]*", title)}
            wrong = [n for n in said if float(n) not in values and f"add {n}" not in text]
            assert wrong == [], f"{page}: {text}"


# --- in the reader's hands -----------------------------------------------------------------------

HEARD = """window.heard = [];
document.addEventListener('ln-set', ({ target, detail }) => {
    heard.push([`#${target.closest('.ln-explorer-output').id}`, detail]);
}, true)"""
LIVE = "[...document.querySelectorAll('.ln-explorer-output')].every(e => e.matches('.ln-live'))"
CLICK = """all => all.map(link => {
    link.click();
    return [[link.getAttribute('href'), link.dataset.lnSet], ...heard.splice(0)];
})"""
LIT = "document.documentElement.dataset.lnLit ?? null"


@pytest.mark.parametrize("name", sorted({page for page, *_ in links()}))
def test_links_set_what_they_say_and_numbers_say_what_explorers_start_with(
    reader: Any, name: str
) -> None:
    page = reader(guess=True).open(f"notebooks/{name}.html")
    page.wait_for_function(LIVE)
    found = page.locator(".ln-tie[data-ln-drag], .ln-tie[data-ln-shows]").all_inner_texts()
    assert found == [text for p, _, title, text in links() if p == name and "=" not in title]
    page.evaluate(HEARD)
    for said, *heard in page.locator("a[data-ln-set]").evaluate_all(CLICK):
        assert heard == [said]


def test_a_link_shows_its_state_and_back_and_forth_lead_through_states(reader: Any) -> None:
    someone = reader(**DESK)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")

    def state() -> list[str]:
        return [one.input_value() for one in explorer.locator("input[type=number]").all()]

    states = [state()]
    for said in ("eps=1e-5", "eps=1e-5&spread=0.1"):
        page.locator(f'a[data-ln-set="{said}"]').first.evaluate("link => link.click()")
        assert page.evaluate("location.hash") == f"#explorer-epsilon?{said}"
        states.append(state())
    assert explorer.locator(".ln-verdict").inner_text() == "The data decide the output"
    assert explorer.locator("[data-trait=spread].ln-flash").count() > 0
    box = explorer.locator(".ln-explorer").bounding_box()
    assert 0 <= box["y"] <= box["y"] + box["height"] <= 800
    assert len({*map(tuple, states)}) == 3
    page.go_back()
    assert state() == states[1]
    page.go_forward()
    assert state() == states[2]


def test_a_link_is_left_to_the_browser_with_a_key_or_without_an_explorer(reader: Any) -> None:
    someone = reader()
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    page.evaluate(
        "addEventListener('click', e => { taken = e.defaultPrevented; e.preventDefault(); })"
    )
    link = page.locator("a[data-ln-set]").first
    click = """(link, keys) => {
        link.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ...keys }));
        return taken;
    }"""
    taken = [link.evaluate(click, {key: True}) for key in ("ctrlKey", "metaKey", "shiftKey")]
    assert (taken, page.evaluate("location.hash")) == ([False] * 3, "")
    assert link.evaluate(click, {})
    explorer.locator(".ln-explorer").evaluate("root => root.remove()")
    assert not link.evaluate(click, {})


def test_the_address_keeps_up_and_brings_the_picture_as_it_stands(reader: Any) -> None:
    someone = reader(**DESK)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    page.evaluate(
        """() => {
            const replace = history.replaceState;
            window.replaced = 0;
            history.replaceState = (...to) => { replaced += 1; replace.apply(history, to); };
        }"""
    )
    eps = explorer.locator("input[type=number]").nth(1)
    for _ in range(8):
        eps.press("ArrowUp")
    page.wait_for_function("location.hash.startsWith('#explorer-epsilon?eps=')")
    assert page.evaluate("replaced") <= 2  # a gesture, not eight steps
    told, other = explorer.locator(".ln-sentence").inner_text(), reader(**DESK)
    other.page.goto(page.url)
    again = other.explorer("epsilon").locator(".ln-sentence")
    expect(again).to_have_text(told)
    explorer.locator(".ln-reset").click()
    page.wait_for_function("location.hash === '#explorer-epsilon'")


def test_a_hostile_address_is_no_error(reader: Any) -> None:
    someone, state = reader(), "eps=7e9&spread=-3&constructor=1&x=%E0%A4%A"
    someone.page.goto(f"{(someone.site / EPSILON).as_uri()}#explorer-epsilon?{state}")
    told = someone.explorer("epsilon").locator(".ln-sentence")
    expect(told).to_have_text(re.compile("^With σ.=.1e-7 and ε.=.1,"))


def test_a_number_in_the_text_is_dragged_and_what_the_explorer_writes_follows(reader: Any) -> None:
    someone = reader(guess=True, **DESK)
    page, mouse = someone.open(EPSILON), someone.page.mouse
    explorer = someone.explorer("epsilon")
    spread, shown = (
        page.locator(f".ln-tie[data-ln-{to}]") for to in ("drag=spread", "shows=variance")
    )
    before = shown.inner_text()
    spread.scroll_into_view_if_needed()
    box = spread.bounding_box()
    x, y = box["x"] + 5, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 4, y)  # less than a step
    assert explorer.locator(".ln-ask").count() == 1
    mouse.move(x + 61, y, steps=6)
    mouse.up()
    value = 3e-5 * 10 ** (10 / 20)
    assert float(spread.inner_text()) == pytest.approx(value, rel=0.01)
    assert shown.inner_text() != before
    typed = explorer.locator("input[type=number]").first.input_value()
    assert float(typed) == pytest.approx(value, rel=0.01)
    mouse.move(x, y)
    assert float(spread.inner_text()) == pytest.approx(value, rel=0.01)  # it has been let go


def test_a_finger_drags_a_number_of_the_text_and_the_page_stays(reader: Any) -> None:
    someone = reader(**PHONE)
    page = someone.open(EPSILON)
    someone.explorer("epsilon")
    number = page.locator(".ln-tie[data-ln-drag=spread]")
    number.evaluate("e => e.scrollIntoView({ block: 'center', behavior: 'instant' })")
    page.evaluate(WATCH)
    box, top = number.bounding_box(), page.evaluate("scrollY")
    touch, y = someone.context.new_cdp_session(page), box["y"] + box["height"] / 2
    for step, what in enumerate(["Start", *["Move"] * 10, "End"]):
        places = [{"x": box["x"] + 5 + 12 * step, "y": y + step, "id": 0}][: step <= 10]
        touch.send("Input.dispatchTouchEvent", {"type": f"touch{what}", "touchPoints": places})
        page.wait_for_timeout(8)
    assert (page.evaluate("canceled"), page.evaluate("scrollY")) == (0, top)
    assert float(number.inner_text()) == pytest.approx(3e-5 * 10, rel=0.01)  # 20 steps a decade


def test_a_number_in_the_text_has_the_keys_of_a_slider_and_no_others(reader: Any) -> None:
    someone = reader()
    page = someone.open("notebooks/03_gamma_beta.html")
    someone.explorer("gamma-beta")
    beta = page.locator(".ln-tie[data-ln-drag=bias]")
    assert beta.get_attribute("aria-label") == "bias, in the explorer"
    assert beta.get_attribute("role") == "slider"
    beta.focus()
    top = page.evaluate("scrollY")
    for key, value in (
        *[("ArrowLeft", "-0.1"), ("ArrowDown", "-0.2"), ("PageUp", "0.8"), ("PageDown", "-0.2")],
        *[("Shift+ArrowRight", "0.8"), ("Shift+ArrowDown", "-0.2"), ("ArrowUp", "-0.1")],
        *[(f"{other}+ArrowRight", "-0.1") for other in ("Alt", "Control", "Meta")],
    ):
        beta.press(key)
        assert beta.get_attribute("aria-valuenow") == value, key
        assert beta.inner_text() == beta.get_attribute("aria-valuetext") == value.replace("-", "−")
    assert page.evaluate("scrollY") == top


def test_a_symbol_lights_up_wherever_it_stands(reader: Any) -> None:
    someone = reader(**DESK)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    sigma, title = page.locator("mjx-container .ln-s-sigma").first, page.locator("article h1").first
    color = "node => getComputedStyle(node).color"
    plain = sigma.evaluate(color)
    explorer.locator(".ln-field .ln-s-sigma").first.hover()
    assert page.evaluate(LIT) == "sigma"
    assert sigma.evaluate(color) == "rgb(0, 103, 161)" != plain
    title.hover()
    assert page.evaluate(LIT) is None
    page.locator("mjx-container .ln-s-epsilon").first.click()  # which keeps it lit
    title.hover()
    assert page.evaluate(LIT) == "epsilon"
    page.keyboard.press("Escape")
    assert page.evaluate(LIT) is None
    explorer.locator("summary").click()
    explorer.get_by_role("button", name="No ε").focus()
    assert page.evaluate(LIT) == "epsilon"
    page.evaluate("addEventListener('keydown', e => { window.taken = e.defaultPrevented; })")
    page.locator("mjx-container[display]:has(.ln-s-epsilon)").first.focus()
    seen = []
    for key, taken in (("ArrowRight", True), ("ArrowRight", True), ("ArrowDown", False)):
        page.keyboard.press(key)
        seen.append(page.evaluate(LIT))
        assert page.evaluate("taken") is taken
    assert seen[0] != seen[1]


def test_a_tap_lights_a_symbol_until_the_next_tap(reader: Any) -> None:
    someone = reader(**PHONE)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    label = explorer.locator(".ln-field label .ln-s-sigma").first  # a tap on it taps its slider too
    for symbol, name in (
        (page.locator("mjx-container .ln-s-epsilon").first, "epsilon"),
        (label, "sigma"),
    ):
        symbol.tap()
        assert page.evaluate(LIT) == name
        page.locator("article h1").first.tap()
        assert page.evaluate(LIT) is None
