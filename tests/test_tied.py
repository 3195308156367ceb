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
    return [
        (path.stem, link["place"], link["title"], link["text"])
        for path in sorted(ROOT.glob("notebooks/*.ipynb"))
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "markdown"
        for link in LINK.finditer(cell.source)
    ]


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


def test_a_picture_has_its_size_and_no_sentence_ends_a_script_of_the_page() -> None:
    shown = re.search(r'width="(.*?)" height="(.*?)" src=".*?,(.*?)"', tied.picture_of(KINDS[0]()))
    with Image.open(io.BytesIO(base64.b64decode(shown[3]))) as picture:
        assert picture.size == (int(shown[1]), int(shown[2]))
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


def test_a_link_sets_what_its_explorer_can_take_and_writes_no_other_number() -> None:
    setting = [link for link in links() if "=" in link[2]]
    assert len(setting) >= 20
    for page, place, title, text in setting:
        explorer = BY_ANCHOR[place]()
        for name, value in (part.split("=") for part in title.split()):
            like = explorer.class_traits()[name].default_value
            numbers = [float(v) for v in value.split(",")] if isinstance(like, tuple) else None
            setattr(explorer, name, numbers or type(like)(value))
        said = re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text.partition("add ")[0])
        values = {float(v) for v in re.findall(r"-?\d[\d.e-]*", title)}
        assert {float(number) for number in said} <= values, f"{page}: {text}"


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
EIGHT_STEPS = """async number => {
    for (let i = 0; i < 8; i++) {
        number.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp' }));
        await new Promise(requestAnimationFrame);
    }
}"""
COUNT_REPLACED = """() => {
    const replace = history.replaceState;
    window.replaced = 0;
    history.replaceState = (...to) => { replaced += 1; replace.apply(history, to); };
}"""
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


def test_a_link_shows_its_state_and_the_address_leads_to_all_states_again(reader: Any) -> None:
    someone = reader(guess=True, **DESK)
    page, explorer = someone.open(EPSILON), someone.explorer("epsilon")
    number, at = page.locator("[data-ln-drag=spread]"), {"x": 5, "y": 8}
    number.drag_to(number, source_position=at, target_position={**at, "x": 9})  # less than a step
    assert explorer.locator(".ln-ask").count() == 1
    told = explorer.locator(".ln-sentence")
    sentences = [told.inner_text()]
    for said in ("eps=1e-5", "eps=1e-5&spread=0.1"):
        page.locator(f'a[data-ln-set="{said}"]').first.evaluate("link => link.click()")
        assert page.evaluate("location.hash") == f"#explorer-epsilon?{said}"
        sentences.append(told.inner_text())
    assert len(set(sentences)) == 3
    assert explorer.locator("[data-trait=spread].ln-flash").count() > 0
    box = explorer.locator(".ln-explorer").bounding_box()
    assert 0 <= box["y"] <= box["y"] + box["height"] <= 800
    page.go_back()
    assert told.inner_text() == sentences[1]
    page.go_forward()
    assert told.inner_text() == sentences[2]
    page.evaluate(COUNT_REPLACED)
    explorer.locator("input[type=number]").nth(1).evaluate(EIGHT_STEPS)
    page.wait_for_function("/eps=(?!1e-5&)/.test(location.hash)")
    page.wait_for_timeout(400)
    assert page.evaluate("replaced") <= 2  # a gesture, not eight steps
    last, other = told.inner_text(), reader(**DESK)
    other.page.goto(page.url)
    expect(other.explorer("epsilon").locator(".ln-sentence")).to_have_text(last)
    explorer.locator(".ln-reset").click()
    page.wait_for_function("location.hash === '#explorer-epsilon'")


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
    held = [link.evaluate(click, {key: True}) for key in ("ctrlKey", "metaKey", "shiftKey")]
    assert (held, page.evaluate("location.hash")) == ([False] * 3, "")
    assert link.evaluate(click, {})
    explorer.locator(".ln-explorer").evaluate("root => root.remove()")
    assert not link.evaluate(click, {})


def test_a_number_in_the_text_is_a_slider_by_mouse_and_keys_and_no_other_key(reader: Any) -> None:
    someone = reader(**DESK)
    page, mouse = someone.open("notebooks/03_gamma_beta.html"), someone.page.mouse
    someone.explorer("gamma-beta")
    beta = page.locator("[data-ln-drag=bias]")
    assert beta.get_attribute("aria-label") == "bias, in the explorer"
    assert beta.get_attribute("role") == "slider"
    beta.scroll_into_view_if_needed()
    box, top = beta.bounding_box(), page.evaluate("scrollY")
    x, y = box["x"] + 5, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 61, y, steps=6)
    mouse.up()
    mouse.move(x, y)  # it has been let go
    assert beta.inner_text() == page.locator("[data-ln-shows=mean]").inner_text() == "1"
    beta.focus()
    for key, value in (
        *[("PageDown", "0"), ("ArrowLeft", "-0.1"), ("ArrowDown", "-0.2"), ("PageUp", "0.8")],
        *[("Shift+ArrowLeft", "-0.2"), ("ArrowRight", "-0.1"), ("ArrowUp", "0")],
        *[(f"{other}+ArrowRight", "0") for other in ("Alt", "Control", "Meta")],
    ):
        beta.press(key)
        assert beta.get_attribute("aria-valuenow") == value, key
        assert beta.inner_text() == beta.get_attribute("aria-valuetext") == value.replace("-", "−")
    assert page.evaluate("scrollY") == top


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
        color = sigma.evaluate("node => getComputedStyle(node).color")
        assert (color == "rgb(0, 103, 161)") == (lit == "sigma")
    page.evaluate("addEventListener('keydown', e => { window.taken = e.defaultPrevented; })")
    page.locator("mjx-container[display]:has(.ln-s-epsilon)").first.focus()
    seen = []
    for key, taken in (("ArrowRight", True), ("ArrowRight", True), ("ArrowDown", False)):
        page.keyboard.press(key)
        seen.append(page.evaluate(LIT))
        assert page.evaluate("taken") is taken
    assert seen[0] != seen[1] == seen[2]


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
