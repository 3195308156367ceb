"""The explorers in the built pages: moved by key, number and hand, and told in words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils import nodes
from docutils.utils import new_document
from playwright.sync_api import expect
from runs import WIDGET_VIEW
from sphinx_ext import WIDGET_STATE, PairExplorersWithPictures
from test_explorer_hands import TELL
from tiers import few

from lnlib.book import explorers
from lnlib.book.explorers import EpsilonExplorer, Explorer

EPSILON = "notebooks/02_epsilon.html"
INDEX, FORMULA = "book/index.html", "notebooks/01_formula.html"
SPHERE = "notebooks/04_scalar_jacobian.html"
SHOWN = {
    INDEX: ["row"],
    FORMULA: ["depth", "row", "axes"],
    EPSILON: ["epsilon"],
    "notebooks/03_gamma_beta.html": ["gamma-beta", "sphere"],
    SPHERE: ["jacobian", "sphere"],
    "notebooks/05_index_notation.html": ["backward"],
    "notebooks/07_triton_kernel.html": ["tiles"],
    "notebooks/08_ln_lstm.html": ["cell"],
}
each_page = few("name", [*SHOWN], 3)
# The first page shows one that another page shows too.
each_kind = few("name", [n for n in SHOWN if n != INDEX], 2)
KINDS = [kind for kind in vars(explorers).values() if Explorer in getattr(kind, "__bases__", ())]
PHONE = {"width": 390, "height": 844}
BUDGET = 140_000  # bytes that a page loads for its explorers, of which chapter 01 has three

UNFOLD = "explorer => explorer.querySelectorAll('details').forEach(fold => { fold.open = true; })"

TICKS = """explorer => Object.fromEntries(
    [...explorer.querySelector('svg').querySelectorAll('.ln-tick')].map(
        t => [t.textContent, [+t.getAttribute('x'), +t.getAttribute('y') - 4]]))"""


@each_kind
def test_every_slider_follows_the_keyboard_and_is_drawn_and_told(reader: Any, name: str) -> None:
    someone = reader(viewport=PHONE)
    someone.open(name)
    for kind in SHOWN[name]:
        explorer = someone.explorer(kind)
        for fold in explorer.locator("details:not([open])").all():
            fold.locator("summary").click()
        sentence = explorer.locator(".ln-sentence")
        told, drawn = sentence.inner_text(), explorer.locator("svg").first.inner_html()
        sliders = explorer.locator("input[type=range]").all()
        assert sliders
        for slider in sliders:
            assert slider.bounding_box()["width"] > 135  # px, of which a finger takes 44
            before = slider.get_attribute("aria-valuetext")
            slider.focus()
            for _ in range(3):
                someone.page.keyboard.press("ArrowRight")
            if slider.get_attribute("aria-valuetext") == before:  # it stood at its end
                someone.page.keyboard.press("ArrowLeft")
            assert slider.get_attribute("aria-valuetext") != before
        assert someone.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert explorer.locator("svg").first.inner_html() != drawn
        someone.page.wait_for_timeout(350)  # the sentence waits for a pause
        assert sentence.inner_text() != told


# Radio buttons are one stop, and show their focus on the word beside them.
STOPS = """explorer => [...explorer.querySelectorAll('button, input, select, summary, [tabindex]')]
    .filter(e => e.checkVisibility() && !e.disabled && (e.type !== 'radio' || e.checked))"""
STOP = """kind => {
    const e = document.activeElement, radio = e.type === 'radio';
    const ring = getComputedStyle(radio ? e.nextElementSibling : e);
    return {
        inside: e.closest('.ln-' + kind) !== null,
        seen: ring.outlineStyle !== 'none' && parseFloat(ring.outlineWidth) >= 1,
        folded: e.tagName === 'SUMMARY' && !e.parentElement.open,
        moves: !['BUTTON', 'SUMMARY'].includes(e.tagName),
        state: e.getAttribute('aria-valuetext') ?? e.value,
    };
}"""


@each_kind
def test_an_explorer_is_worked_with_the_keyboard_alone(reader: Any, name: str) -> None:
    someone = reader(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page = someone.open(name)
    for kind in SHOWN[name]:
        explorer, keyboard = someone.explorer(kind), page.keyboard
        sentence = explorer.locator(".ln-sentence")
        stops, told = explorer.evaluate(f"e => ({STOPS})(e).length"), sentence.inner_text()

        def enter(explorer: Any = explorer, kind: str = kind) -> Any:
            explorer.evaluate(f"e => ({STOPS})(e)[0].focus()")  # Tab leads there too, in time
            page.keyboard.press("Shift+Tab")
            page.keyboard.press("Tab")
            return page.evaluate(STOP, kind)

        here, reached = enter(), 0
        while here["inside"]:
            reached += 1
            assert here["seen"], f"the focus does not show at stop {reached}"
            keyboard.press("Tab")
            here = page.evaluate(STOP, kind)
        assert reached == stops

        here = enter()
        while here["inside"]:
            if here["folded"]:
                keyboard.press("Enter")
            if here["moves"]:
                for key in ("ArrowDown", "ArrowUp"):  # one of them may be at its end
                    keyboard.press(key)
                    if page.evaluate(STOP, kind)["state"] != here["state"]:
                        break
                assert page.evaluate(STOP, kind)["state"] != here["state"]
            keyboard.press("Tab")
            here = page.evaluate(STOP, kind)
        page.wait_for_timeout(350)
        assert sentence.inner_text() != told


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_it_opens_with_a_question_and_resets(reader: Any, kind: type[Explorer]) -> None:
    someone = reader()
    someone.page.clock.install()
    explorer = someone.alone(kind())
    assert explorer.locator(".ln-question").inner_text().endswith("?")
    sentence = explorer.locator(".ln-sentence")
    someone.page.clock.run_for(400)
    first, told = sentence.inner_text(), set()
    explorer.evaluate(UNFOLD)
    starts = explorer.locator(".ln-presets button").all()
    assert len(starts) >= 4
    for button in starts:
        button.click()
        someone.page.clock.run_for(400)
        told.add(sentence.inner_text())
        pressed = [one.get_attribute("aria-pressed") == "true" for one in starts]
        assert pressed == [one is button for one in starts]
    assert len(told) == len(starts), "two buttons do the same"
    explorer.get_by_role("button", name="Reset").click()
    someone.page.clock.run_for(400)
    assert sentence.inner_text() == first


def test_a_typed_number_moves_the_picture_and_nonsense_does_not(reader: Any) -> None:
    someone = reader()
    someone.page.clock.install()
    explorer = someone.alone(EpsilonExplorer())
    sentence = explorer.locator(".ln-sentence")
    field = explorer.locator("input[type=number]").last
    field.fill("1e-3")
    field.press("Enter")
    someone.page.clock.run_for(600)
    assert "0.001" in sentence.inner_text()
    before = sentence.inner_text()
    field.fill("-5")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert "1e-12 to 1" in explorer.get_by_role("alert").last.inner_text()
    someone.page.clock.run_for(600)
    assert sentence.inner_text() == before


def test_the_table_tells_the_numbers_of_the_sentence(reader: Any) -> None:
    someone = reader()
    explorer = someone.alone(EpsilonExplorer(spread=1e-3))
    explorer.evaluate(UNFOLD)
    told = explorer.locator(".ln-sentence").inner_text()
    heads = explorer.locator(".ln-table thead th").all_inner_texts()
    assert heads == ["divided by", "output variance", "largest gradient factor"]
    variances = explorer.locator(".ln-table tbody td:nth-child(2)").all_inner_texts()
    assert len(variances) == 3
    for variance in variances:
        assert f" of {variance}" in told


def test_the_drawing_agrees_with_its_axes(reader: Any) -> None:
    someone = reader(viewport={"width": 1200, "height": 1000})
    explorer = someone.alone(EpsilonExplorer())
    ticks = explorer.evaluate(TICKS)  # name -> place
    path = explorer.locator("svg path.ln-curve.ln-blue").first.get_attribute("d")
    curve = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([-\d.]+)", path)]
    zero = 2 * ticks["½"][1] - ticks["1"][1]
    assert curve[0][1] == pytest.approx(zero, abs=2)  # far below the knee
    assert curve[-1][1] == pytest.approx(ticks["1"][1], abs=2)
    knee = (ticks["10⁻⁵"][0] + ticks["10⁻³"][0]) / 2  # √(1e-8)
    nearest = min(curve, key=lambda point: abs(point[0] - knee))
    assert nearest[1] == pytest.approx(ticks["½"][1], abs=8)
    ring = explorer.locator(".ln-handle").last.get_attribute("transform")
    assert [float(n) for n in re.findall(r"[\d.]+", ring)] == pytest.approx(
        [knee, ticks["½"][1]], abs=2
    )


def test_the_eight_marks_stand_at_their_values(reader: Any) -> None:
    someone = reader()
    explorer = someone.alone(EpsilonExplorer())
    explorer.evaluate(UNFOLD)
    explorer.get_by_role("button", name="Ordinary row").click()  # ε is nothing: x̂ is the pattern
    marks = "m => m.map(e => +/-?[\\d.]+/.exec(e.getAttribute('transform'))[0])"
    strip = explorer.locator("svg[aria-label^='The eight values']")
    ghosts = strip.locator(".ln-ghost").evaluate_all(marks)
    values = strip.locator(".ln-mark").evaluate_all(marks)
    assert len(values) == 24
    assert sorted(values[:8]) == pytest.approx(sorted(ghosts[:8]), abs=1)
    assert values[:8] == pytest.approx(ghosts[:8], abs=1)


def test_the_knee_is_dragged_to_the_root_of_eps(reader: Any) -> None:
    someone = reader(viewport={"width": 1200, "height": 1000})
    explorer = someone.alone(EpsilonExplorer())
    ticks = explorer.evaluate(TICKS)
    decade = (ticks["10⁻³"][0] - ticks["10⁻⁵"][0]) / 2
    handle = explorer.locator(".ln-handle").last
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    someone.page.mouse.move(x, y)
    someone.page.mouse.down()
    someone.page.mouse.move(x + decade, y, steps=5)
    someone.page.mouse.up()
    eps = float(explorer.locator("input[type=number]").last.input_value())
    assert 0.8e-6 < eps < 1.25e-6  # one decade of σ is two of ε


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader: Any) -> None:
    someone = reader()
    someone.page.clock.install()
    explorer = someone.alone(EpsilonExplorer())

    def said() -> str:
        someone.page.clock.run_for(400)
        return str(explorer.locator(".ln-sentence").inner_text().replace("\xa0", " "))

    first = said()
    explorer.evaluate(UNFOLD)
    for name, start in (
        ("Ordinary row", "With σ = 1 and ε = 1e-5,"),
        ("Constant row", "With a constant row (σ = 0) and ε = 1e-5,"),
        ("0 ÷ 0", "With a constant row (σ = 0) and ε = 1e-8,"),
        ("BERT’s ε = 1e-12", "With σ = 1e-6 and ε = 1e-12,"),
    ):
        explorer.get_by_role("button", name=name).click()
        assert said().startswith(start)
        assert ("NaN" in said()) == (name not in ("Ordinary row", "Constant row"))
        explorer.get_by_role("button", name="Reset").click()
        assert said() == first


def test_the_sentence_changes_at_once_and_is_announced_after_a_pause(reader: Any) -> None:
    someone = reader()
    someone.page.clock.install()
    explorer = someone.alone(EpsilonExplorer())
    someone.page.clock.run_for(300)
    assert "σ\xa0=\xa03e-5 and ε\xa0=\xa01e-8," in explorer.locator(".ln-sentence").inner_text()
    heard = explorer.locator(".ln-heard")
    assert heard.get_attribute("aria-live") == "polite"
    assert explorer.locator(".ln-sentence").get_attribute("aria-hidden") == "true"
    before = heard.text_content()
    assert before == explorer.locator(".ln-sentence").inner_text()
    explorer.locator("input[type=range]").first.press("ArrowRight")
    someone.page.clock.run_for(50)
    assert heard.text_content() == before != explorer.locator(".ln-sentence").inner_text()
    someone.page.clock.run_for(300)
    assert heard.text_content() == explorer.locator(".ln-sentence").inner_text()


def test_it_has_a_name_and_says_the_answer_to_a_guess(reader: Any) -> None:
    explorer = reader(guess=True).alone(EpsilonExplorer())
    region = explorer.get_by_role("region", name="Explorer: ε and the spread of a row")
    region.get_by_role("button", name="See").click()
    assert region.evaluate("region => region === document.activeElement")  # not lost with it
    answer = region.get_by_role("status")
    assert answer.inner_text() == "You said σ = 0.01; it is √ε = 1e-4."
    assert answer.locator(".ln-whole").inner_text() == "1e-4"
    assert answer.get_attribute("class") == "ln-answer"


def test_what_is_set_again_flashes_again(reader: Any) -> None:
    someone = reader()
    explorer = someone.alone(EpsilonExplorer())
    explorer.evaluate(
        """root => {
            window.flashed = [];
            root.addEventListener('animationstart', ({ target }) => flashed.push(target));
        }"""
    )
    for eps, flashes in (("1e-5", 2), ("1e-3", 4)):  # the handle and the field, each time
        explorer.locator(".ln-explorer").evaluate(TELL, f"eps={eps}")
        someone.page.wait_for_function("n => flashed.length === n", arg=flashes)


def test_a_refused_number_goes_with_the_next_state_though_it_is_the_same(reader: Any) -> None:
    explorer = reader().alone(EpsilonExplorer())
    number = explorer.locator("input[type=number]").last
    number.fill("7")
    number.press("Enter")
    expect(number).to_have_attribute("aria-invalid", "true")  # waits, on a busy machine
    explorer.locator(".ln-explorer").evaluate(TELL, "eps=1e-8")
    assert (number.get_attribute("aria-invalid"), number.input_value()) == (None, "1e-8")


def test_every_drawing_follows_the_width_and_is_drawn_anew(reader: Any) -> None:
    someone = reader(viewport={"width": 900, "height": 700})
    explorer = someone.alone(EpsilonExplorer(eps=1e-6))
    explorer.evaluate(UNFOLD)
    someone.page.set_viewport_size({"width": 500, "height": 700})
    fits = """root => [...root.querySelectorAll('.ln-chart')].every(chart =>
        +chart.querySelector('svg').getAttribute('width') === Math.floor(chart.clientWidth))"""
    someone.page.wait_for_function(f"({fits})(document)")
    explorer.evaluate("() => new Promise(requestAnimationFrame)")
    ticks = explorer.evaluate(TICKS)
    knee = explorer.locator(".ln-handle[aria-label^=Constant]").get_attribute("transform")
    x, _ = re.findall(r"[\d.]+", knee)
    assert float(x) == pytest.approx(ticks["10⁻³"][0], abs=0.1)  # the root of ε


# What is left of an explorer once its cell is run again: a model that hears it no more.
LEAVE = """async ([esm, state]) => {
    const url = URL.createObjectURL(new Blob([esm], { type: 'text/javascript' }));
    const heard = {}, place = document.createElement('div');
    let [saved, read] = [0, 0];
    const model = {
        get: name => (read += 1, state[name]),
        set(name, value) { state[name] = value; heard[`change:${name}`](); },
        on(event, action) { heard[event] = action; },
        off(event, action) { if (heard[event] === action) delete heard[event]; },
        save_changes() { saved += 1; },
    };
    const { default: widget } = await import(url);
    document.body.append(place);
    const leave = widget.render({ model, el: place });
    const steps = place.querySelector('input[type=range]');
    const up = { key: 'ArrowUp' };
    for (const key of [up, up]) steps.dispatchEvent(new KeyboardEvent('keydown', key));
    leave();
    read = 0;
    await new Promise(done => setTimeout(done, 400));
    return { heard: Object.keys(heard), parts: place.children.length, saved, read };
}"""


def test_an_explorer_leaves_nothing_behind_and_saves_what_it_has(reader: Any) -> None:
    someone = reader(frames=True)
    someone.alone(EpsilonExplorer())
    state = {"eps": 0, "spread": 1e-3}
    left = someone.page.evaluate(LEAVE, [EpsilonExplorer._esm, state])
    assert left == {"heard": [], "parts": 0, "saved": 2, "read": 0}


def test_an_explorer_has_no_white_panel_on_a_dark_page(reader: Any) -> None:
    someone = reader(color_scheme="dark")
    page = someone.open(EPSILON)
    someone.explorer()
    color = "e => getComputedStyle(e).backgroundColor"
    assert page.locator(".ln-explorer-output").first.evaluate(color) == "rgba(0, 0, 0, 0)"


@each_page
def test_explorers_cost_a_page_little(site: Path, name: str) -> None:
    html = (site / name).read_text(encoding="utf8")
    states = re.findall(
        r'<script type="application/vnd\.jupyter[^>]*>(.*?)</script>', html, re.DOTALL
    )
    inline = sum(len(state.encode()) for state in states)
    images = re.findall(r'class="ln-fallback[^>]*>.*?<img[^>]* src="([^"]+)"', html, re.DOTALL)
    assert len(images) == len(SHOWN[name])
    pictures = sum(
        len(src) if src.startswith("data:") else (site / "_images" / Path(src).name).stat().st_size
        for src in images
    )
    script = (site / "_static" / "explorers.js").stat().st_size
    assert inline > 10_000  # the explorer is really there
    assert inline + script + pictures < BUDGET


def test_what_the_explorers_of_a_page_share_is_there_once(site: Path) -> None:
    html = (site / FORMULA).read_text(encoding="utf8")
    start = html.index(">", html.index(f'<script type="{WIDGET_STATE}"')) + 1
    content = json.loads(html[start : html.index("</script>", start)])
    shared = content["shared"]
    assert all(len(text) > 10_000 for text in shared.values())
    states = [model["state"] for model in content["state"].values()]
    whole = {(shared["_esm"] + one["_esm"], shared["_css"] + one["_css"]) for one in states}
    assert whole == {
        (str(kind._esm), str(kind._css))
        for kind in KINDS
        if any(kind.__name__.lower().startswith(name) for name in SHOWN[FORMULA])
    }


def test_pages_without_an_explorer_load_nothing_for_it(site: Path) -> None:
    for path in site.glob("[bn]*/*.html"):
        if path.relative_to(site).as_posix() in SHOWN:
            continue
        html = path.read_text(encoding="utf8")
        assert "explorers.js" not in html
        assert "require" not in html.lower().split("<article")[0]


@each_page
def test_without_javascript_a_picture_and_a_sentence_remain(
    browser: Any, site: Path, name: str
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / name).as_uri())
    assert page.locator(".ln-noscript").get_by_text("formulas are shown as TeX").is_visible()
    page.emulate_media(media="print")
    stand_ins = page.locator(".ln-fallback").all()
    assert len(stand_ins) == len(SHOWN[name])
    for stand_in in stand_ins:
        assert stand_in.locator("img").is_visible()
        assert len(stand_in.inner_text().split()) > 10
    context.close()


@each_page
def test_paper_has_the_explorer_as_it_stands_and_open_answers(reader: Any, name: str) -> None:
    someone = reader()
    page = someone.open(name)
    explorer = someone.explorer()
    assert not page.locator(".ln-fallback").first.is_visible()
    told, drawn = explorer.locator(".ln-sentence"), explorer.locator(".ln-chart svg:visible")
    charts = drawn.count()
    explorer.evaluate(UNFOLD)
    explorer.locator(".ln-presets button").nth(1).click()
    page.wait_for_timeout(350)
    stands = told.inner_text()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert told.inner_text() == stands
    assert told.is_visible()
    assert drawn.count() == charts > 0
    assert explorer.locator("button:visible, input:visible, .ln-fallback:visible").count() == 0
    assert (
        page.locator("article details:not([open], .hide, .ln-proof, .ln-explorer *)").count() == 0
    )
    hidden = page.locator("article .toggle.admonition > section").all()
    assert all(part.is_visible() for part in hidden)  # the solutions
    assert hidden or name == INDEX


@each_page
def test_a_page_carries_the_explorers_it_shows_and_no_others(site: Path, name: str) -> None:
    html = (site / name).read_text(encoding="utf8")
    kinds = [rf"vnd.jupyter.widget-{kind}\+json\">(.*?)</script>" for kind in ("state", "view")]
    states, views = (re.findall(kind, html, re.DOTALL) for kind in kinds)
    (state,) = states
    shown = {json.loads(view)["model_id"] for view in views}
    assert shown == set(json.loads(state)["state"])
    assert len(shown) == len(SHOWN[name])
    anchors = re.findall(r'<div class="ln-explorer-output[^>]* id="([^"]*)"', html)
    assert anchors == [f"explorer-{kind}" for kind in SHOWN[name]]


def test_a_kind_that_a_page_shows_twice_has_two_anchors() -> None:
    kinds = {"a": "sphere.SphereExplorer", "b": "gamma_beta.GammaBetaExplorer"}
    models = {
        model: {"state": {"_anywidget_id": f"lnlib.book.explorers.{kind}"}}
        for model, kind in kinds.items()
    }
    document = new_document("page")
    for model in "aba":
        parts = {WIDGET_VIEW: f'{{"model_id": "{model}"}}', "image/png": "", "text/plain": ""}
        children = [
            nodes.container("", nodes.raw("", text), mime_type=mime) for mime, text in parts.items()
        ]
        document += nodes.container("", *children, nb_element="mime_bundle")
    scripts = {"ipywidgets_state": (None, {"body": json.dumps({"state": models})})}
    env = SimpleNamespace(docname="page", nb_metadata={"page": {"js_files": scripts}})
    document.settings.env = env
    PairExplorersWithPictures(document).run()
    anchors = [one["ids"] for one in document.findall(nodes.container) if one["ids"]]
    assert anchors == [["explorer-sphere"], ["explorer-gamma-beta"], ["explorer-sphere-2"]]


# --- links ---------------------------------------------------------------------------------------

# Something behind every explorer of a page.
BEHIND = dict.fromkeys(SHOWN, "exercises")
BEHIND[INDEX] = "how-to-run-it"
# How far a target is from where a link to it leads: below the bar at the top.
MISSED_BY = """id => document.getElementById(id).getBoundingClientRect().top
    - parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop)"""
STANDS = """count => document.querySelectorAll('.ln-live').length === count
    && document.readyState === 'complete' && !!window.MathJax?.startup?.promise
    && MathJax.startup.promise.then(() => new Promise(done => {
        const before = scrollY;
        setTimeout(() => done(scrollY === before), 250);
    }))"""
# As in a browser that keeps nothing in its place while the page above it grows.
DOES_NOT_ANCHOR = """document.addEventListener('DOMContentLoaded', () => setTimeout(() => {
    document.documentElement.style.overflowAnchor = 'none';
}))"""


def follow_a_link(someone: Any, folder: Path, name: str, to: str = "") -> Any:
    """Click a link on another page, to what is behind the explorers of a page or to ``to``."""
    links = folder / "links.html"
    address = (someone.site / name).as_uri()
    links.write_text(f"<a href='{address}#{to or BEHIND[name]}'>there</a>", encoding="utf8")
    someone.page.goto(links.as_uri())
    someone.page.locator("a").click(no_wait_after=True)
    return someone.page


def until_it_stands(page: Any, name: str) -> float:
    """Wait for explorers, formulas and the scroll position; return how far off the target is."""
    page.wait_for_function(STANDS, arg=len(SHOWN[name]))
    return float(page.evaluate(MISSED_BY, BEHIND[name]))


@pytest.mark.parametrize(
    ("name", "width"), [*((name, 390) for name in SHOWN), ("notebooks/03_gamma_beta.html", 1280)]
)
def test_a_link_to_what_is_behind_an_explorer_lands_there(
    reader: Any, tmp_path: Path, name: str, width: int
) -> None:
    someone = reader(viewport={"width": width, "height": 844})
    page = follow_a_link(someone, tmp_path, name)
    assert abs(until_it_stands(page, name)) <= 2
    page.evaluate("scrollTo(0, 0)")
    page.locator(f"a.headerlink[href='#{BEHIND[name]}']").evaluate("link => link.click()")
    assert abs(until_it_stands(page, name)) <= 2


SPHERES = "notebooks/03_gamma_beta.html"


@pytest.mark.parametrize("name", [SPHERES, FORMULA])
def test_a_link_to_an_explorer_lands_at_its_top(reader: Any, tmp_path: Path, name: str) -> None:
    someone = reader(viewport=PHONE)
    last = f"explorer-{SHOWN[name][-1]}"
    page = follow_a_link(someone, tmp_path, name, last)
    page.wait_for_function(STANDS, arg=len(SHOWN[name]))
    assert abs(page.evaluate(MISSED_BY, last)) <= 2


def test_it_lands_in_a_browser_that_keeps_nothing_in_place(reader: Any, tmp_path: Path) -> None:
    someone = reader(viewport=PHONE)
    someone.page.add_init_script(DOES_NOT_ANCHOR)
    page = follow_a_link(someone, tmp_path, SPHERES)
    assert abs(until_it_stands(page, SPHERES)) <= 2


# As on a slow machine: the explorers' modules wait until they are let go.
SLOW = """window.waiting = new Promise(done => { window.letGo = done; });
window.Blob = class extends Blob {
    constructor(parts, options) { super(['await waiting;', ...parts], options); }
};"""


RESTS = """() => new Promise(done => {
    const before = scrollY;
    setTimeout(() => done(scrollY === before), 100);
})"""


def turn_the_wheel(page: Any, down: int) -> float:
    """Scroll once the browser has led to where the link, or the past, leads; return how far off."""
    page.wait_for_function("document.readyState === 'complete' && scrollY > 2000")
    page.evaluate("MathJax.startup.promise.then(() => 0)")  # equations wait for no one forever
    page.mouse.move(200, 400)
    page.mouse.wheel(0, down)
    page.wait_for_timeout(300)
    page.wait_for_function(RESTS)
    return float(page.evaluate(MISSED_BY, "exercises"))


@pytest.mark.parametrize("kind", ["", DOES_NOT_ANCHOR], ids=["any", "keeps nothing in place"])
def test_who_scrolls_before_the_explorers_stand_stays_there(
    kind: str, reader: Any, tmp_path: Path
) -> None:
    someone = reader(viewport=PHONE)
    someone.page.add_init_script(f"{SLOW}{kind}")
    page = follow_a_link(someone, tmp_path, SPHERES)
    moved = turn_the_wheel(page, -600)
    assert moved > 500
    page.evaluate("letGo()")
    assert until_it_stands(page, SPHERES) == pytest.approx(moved, abs=2)


SEEN_TOP = "seen.getBoundingClientRect().top"


def test_going_back_and_loading_again_lead_to_where_one_was(reader: Any, tmp_path: Path) -> None:
    someone = reader(viewport=PHONE)
    page = follow_a_link(someone, tmp_path, SPHERES)
    until_it_stands(page, SPHERES)
    before = turn_the_wheel(page, 150)
    assert before == pytest.approx(-150, abs=2)
    page.go_back()
    page.go_forward()
    assert until_it_stands(page, SPHERES) == pytest.approx(before, abs=2)
    page.reload()
    assert until_it_stands(page, SPHERES) == pytest.approx(before, abs=2)
    page.go_back()
    page.add_init_script(SLOW)
    page.go_forward()
    turn_the_wheel(page, -900)  # a reader who moves meanwhile is not brought back
    page.evaluate("window.seen = document.elementFromPoint(200, 400)")
    top = page.evaluate(SEEN_TOP)
    page.evaluate("letGo()")
    until_it_stands(page, SPHERES)
    assert page.evaluate(SEEN_TOP) == pytest.approx(top, abs=2)
