import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from test_explorer_hands import DESK, PHONE, TELL, Hand

from conftest import plain
from lnlib import formula
from lnlib.book.explorers import EpsilonExplorer, epsilon
from lnlib.book.explorers.base import number
from lnlib.book.explorers.epsilon import PATTERN

EPS = [0.0, 1e-12, 1e-10, 1e-8, 2.9e-8, 3e-8, 1e-7, 1e-5, 1e-3, 0.37, 1.0]
SPREADS = [0.0, 1e-7, 1e-6, 6.3245553e-5, 1.7e-4, 2.5e-4, 4.1e-4, 1e-3, 0.0123, 0.37, 1.0, 10.0]


# --- traits --------------------------------------------------------------------------------------


def test_it_starts_where_float16_fails_and_a_larger_eps_mends_that_alone():
    explorer = EpsilonExplorer()
    assert (explorer.eps, explorer.spread) == (1e-8, 3e-5)
    assert explorer.spread**2 < explorer.eps
    assert explorer.verdict() == "ε decides; pure float16 fails"
    assert EpsilonExplorer(spread=1e-3, eps=1e-6).verdict() == "ε and the data share the output"
    half = epsilon.versions(explorer.row(), explorer.eps)[2].x_hat
    assert (half.isinf().sum(), half.isnan().sum()) == (6, 2)
    explorer.eps = 1e-5
    assert epsilon.versions(explorer.row(), explorer.eps)[2].x_hat.isfinite().all()
    assert explorer.verdict() == "ε decides the output"
    explorer.spread = 0.1
    assert explorer.verdict() == "The data decide the output"


def test_float16_holds_out_once_eps_is_no_longer_zero_in_it():
    for eps, holds in ((2.9e-8, False), (3e-8, True)):
        explorer = EpsilonExplorer(eps=eps, spread=1e-7)
        assert bool(epsilon.versions(explorer.row(), eps)[2].x_hat.isfinite().all()) == holds


# --- what stands in for the widget ---------------------------------------------------------------


@pytest.mark.parametrize(("eps", "spread"), [(0.0, 0.0), (0.0, 1e-3), (1e-8, 1e-7), (1.0, 10.0)])
def test_picture_can_be_drawn_at_the_edges(eps, spread):
    explorer = EpsilonExplorer(eps=eps, spread=spread)
    assert len(explorer.png()) < 40_000
    title = explorer.picture().axes[0].get_title()
    assert title.startswith(f"{explorer.verdict()}. Output variance, σ = {number(spread)}")


def test_sentence_tells_the_numbers_and_what_became_of_float16():
    for traits, said in (
        ({"eps": 1, "spread": 0.5}, "of 0.2, σ + ε of 0.111, float16 of 0.2."),
        ({}, "of 0.0826, σ + ε of 0.999; in float16, 6 values are ±∞, 2 NaN."),
        ({"spread": 6.3e-5}, "of 0.284, σ + ε of 1; in float16, 6 values are ±∞, 2 NaN."),
        ({"spread": 0}, "of 0, σ + ε of 0; in float16, all 8 values are NaN."),
    ):
        row = "With a constant row (σ = 0)" if traits.get("spread") == 0 else "With σ = "
        told = EpsilonExplorer(**traits).sentence()
        assert told.startswith(row)
        assert told.endswith(f", √(σ² + ε) leaves a variance {said}")
    assert EpsilonExplorer(eps=0, spread=0).sentence() == (
        "With a constant row (σ = 0) and ε = 0, every version divides 0 by 0: all 8 values are NaN."
    )


def test_pattern_has_mean_zero_and_biased_variance_one_exactly():
    terms = formula.terms(torch.tensor(PATTERN, dtype=torch.float64))
    assert terms.mean.item() == 0
    assert terms.var.item() == 1


# --- the page's arithmetic -----------------------------------------------------------------------


def jacobian_norm(x: torch.Tensor, eps: float, convention: str) -> float:
    def x_hat(values):
        return formula.terms(values, eps=eps, eps_at=convention).x_hat

    if eps == 0 and not x.any():
        return math.inf  # its limit
    if x.any():
        jacobian = torch.autograd.functional.jacobian(x_hat, x)
    else:
        # At a constant row autograd meets 0/0 in √; the map is smooth there. A step of 1e-30 is
        # at least 1e18 times smaller than ε, so the quotient is the derivative to all digits.
        jacobian = torch.stack([x_hat(1e-30 * e) / 1e-30 for e in torch.eye(8).double()], dim=1)
    return torch.linalg.matrix_norm(jacobian, ord=2).item()


def golden_case(eps: float, spread: float) -> dict:
    x = spread * torch.tensor(PATTERN, dtype=torch.float64)
    case: dict = {"eps": eps, "spread": spread}
    for convention in ("variance", "std"):
        x_hat = formula.terms(x, eps=eps, eps_at=convention).x_hat
        case[convention] = {
            "xHat": [plain(v) for v in x_hat.tolist()],
            "outputVariance": plain(x_hat.var(correction=0).item()),
            "gradientSize": plain(jacobian_norm(x, eps, convention)),
        }
    # numpy rounds float64 to float16 once, as toHalf does; torch goes through float32.
    rounded = torch.from_numpy(x.numpy().astype(np.float16))
    half = formula.terms(rounded, eps=float(np.float16(eps)), dtype=torch.float16)
    case["half"] = {
        "xHat": [plain(v) for v in half.x_hat.tolist()],
        "mean": plain(half.mean.item()),
        "variance": plain(half.var.item()),
        "rstd": plain(half.rstd.item()),
    }
    explorer = EpsilonExplorer(eps=eps, spread=spread)
    return case | {"sentence": explorer.sentence(), "verdict": explorer.verdict()}


def half_pairs() -> np.ndarray:
    """Float64 numbers, then what numpy rounds them to: all float16, all ties, their neighbors."""
    positive = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (positive[:-1] + positive[1:]) / 2
    generator = np.random.default_rng(0)
    x = np.concatenate(
        [
            positive,
            ties,
            np.nextafter(ties, np.inf),
            np.nextafter(ties, 0),
            10 ** generator.uniform(-12, 7, 20_000),
            [65519.99, 65520.0, 65536.0, 1e300, 5e-324, 2.0**-25, np.inf],
        ]
    )
    x = np.concatenate([x, -x, [np.nan]])
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([x, x.astype(np.float16).astype(np.float64)])


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> dict:
    halves = tmp_path_factory.mktemp("golden") / "halves.f64"
    halves.write_bytes(half_pairs().astype("<f8").tobytes())
    numbers = np.concatenate(
        [10 ** np.random.default_rng(1).uniform(-13, 13, 500), np.arange(0, 9, 0.125)]
    )
    edges = [1e5, 99999, 99949, 1e-3, 9.996e-4, 9.994e-4]  # where an exponent begins
    numbers = [*numbers.tolist(), *(-numbers).tolist(), *edges, math.nan, math.inf, -math.inf]
    traits = EpsilonExplorer.class_traits()
    names = ("eps", "spread")
    return {
        "pattern": list(PATTERN),
        "defaults": {name: traits[name].default_value for name in names},
        "limits": {name: [traits[name].low, traits[name].high] for name in names},
        "cases": [golden_case(eps, spread) for eps in EPS for spread in SPREADS],
        "numbers": [[plain(x), number(x)] for x in numbers],
        "halves": str(halves),
    }


def test_javascript(run_js, golden):
    run_js("epsilon", golden)


def test_the_picture_draws_the_curves_of_its_eps_with_their_names() -> None:
    figure = EpsilonExplorer(eps=1e-4).picture()
    variance, _, gradient = figure.axes
    half = [  # where each curve crosses ½ and ¼, from Var = σ²/(σ²+ε) and (σ/(σ+ε))²
        np.interp(level, line.get_ydata(), line.get_xdata())
        for level, line in ((0.5, variance.lines[0]), (0.25, variance.lines[2]))
    ]
    assert half == pytest.approx([1e-2, 1e-4], rel=0.05)
    assert gradient.lines[0].get_ydata()[0] == pytest.approx(1e2, rel=1e-2)
    assert gradient.lines[2].get_ydata()[0] == pytest.approx(1e4, rel=1e-2)
    legend = variance.get_legend()
    handles, texts = legend.legend_handles, legend.get_texts()
    names = {h.get_color(): t.get_text() for h, t in zip(handles, texts, strict=True)}
    assert names[epsilon.BLUE].startswith("√(σ² + ε), PyTorch")
    assert names[epsilon.VERMILLION] == "σ + ε"


# --- the page ------------------------------------------------------------------------------------

SIGMA, KNEE, GUESS = "[aria-label^=Spread]", "[aria-label^=Constant]", ".ln-guess"
# What a browser cannot place, and says so on its console.
LOST = """root => [...root.querySelectorAll('svg *')].flatMap(e => [...e.attributes]).filter(
    a => !a.name.startsWith('aria') && /NaN|Infinity|undefined/.test(a.value)).length"""
# What is wrong with a state: a height, and words in a drawing that lie on others or leave it; a
# line of text is taller than its letters.
LOOK = """(root, [state, said, tallest]) => {
    const [fold, told] = ['details', '.ln-sentence'].map(name => root.querySelector(name));
    root.dispatchEvent(new CustomEvent('ln-set', { detail: state }));
    return new Promise(requestAnimationFrame).then(() => {
        told.textContent = said;
        fold.open = false;
        const { height } = root.getBoundingClientRect();
        fold.open = true;
        const wrong = [...root.querySelectorAll('.ln-chart svg')].flatMap(canvas => {
            const place = canvas.getBoundingClientRect();
            const words = [...canvas.querySelectorAll('text')].filter(t => t.textContent).map(t => {
                const { left, right, top, bottom, height } = t.getBoundingClientRect();
                return [t.textContent, left, right, top + height / 4, bottom - height / 5];
            });
            const out = words.filter(([, left, right, top, bottom]) => left < place.left - 2
                || right > place.right + 2 || top < place.top || bottom > place.bottom);
            const over = (a, b) => a[1] < b[2] && b[1] < a[2] && a[3] < b[4] && b[3] < a[4];
            const pairs = words.flatMap((a, i) => words.slice(i + 1).map(b => [a, b]));
            return [...out, ...pairs.filter(pair => over(...pair)).flat()].map(([said]) => said);
        });
        return wrong.concat(height > tallest ? [height] : []).map(w => `${state}: ${w}`);
    });
}"""
# An explorer of a model that Python changes.
KERNEL = """async ([esm, state]) => {
    const url = URL.createObjectURL(new Blob([esm], { type: 'text/javascript' }));
    const heard = {};
    window.kernel = {
        get: name => state[name],
        set(name, value) { state[name] = value; heard[`change:${name}`](); },
        on(event, action) { heard[event] = action; },
        ...{ off() {}, save_changes() {} },
    };
    const { default: widget } = await import(url);
    widget.render({ model: kernel, el: document.querySelector('.ln-mount') });
}"""


def field(page: Any, trait: str, kind: str) -> Any:
    return page.locator(f".ln-field[data-trait={trait}] input[type={kind}]")


def drawn(page: Any) -> Any:
    """Wait for the next frame, with which a change is drawn."""
    page.evaluate("() => new Promise(requestAnimationFrame)")
    return page


def check_words(page: Any, **traits: float) -> None:
    """The page says what Python says of the same traits."""
    drawn(page)
    explorer = EpsilonExplorer(**traits)
    assert page.locator(".ln-verdict").inner_text() == explorer.verdict()
    expect(page.locator(".ln-sentence")).to_have_text(explorer.sentence())
    assert page.evaluate(LOST) == 0


def test_the_handles_are_moved_by_keys(reader) -> None:
    explorer = reader().alone(EpsilonExplorer(spread=1e-3))
    for handle, trait, key, end in (
        (SIGMA, "spread", "ArrowRight", 1e-3 * 10**0.05),
        (SIGMA, "spread", "ArrowDown", 1e-3),
        (SIGMA, "spread", "Home", 0),
        (SIGMA, "spread", "ArrowLeft", 0),
        (SIGMA, "spread", "ArrowRight", 1e-7),
        (SIGMA, "spread", "ArrowRight", 1e-7 * 10**0.05),
        (KNEE, "eps", "ArrowRight", 1e-8 * 10**0.05),
        (KNEE, "eps", "Shift+ArrowLeft", 1e-8 * 10**-0.45),
        (KNEE, "eps", "End", 1),
        (KNEE, "eps", "ArrowRight", 1),
    ):
        explorer.locator(f".ln-handle{handle}").press(key)
        shown = field(drawn(explorer), trait, "number").input_value()
        assert float(shown) == pytest.approx(end, rel=2e-3), (handle, key)


def test_two_keys_within_one_frame_are_two_steps(reader) -> None:
    someone = reader(frames=True, viewport={"width": 810, "height": 800})
    explorer = someone.alone(EpsilonExplorer())
    press = """(e, key) => { for (const each of [key, key])
        e.dispatchEvent(new KeyboardEvent('keydown', { key: each, bubbles: true })) }"""
    for trait, handle, first in (("spread", SIGMA, 3e-5), ("eps", KNEE, 1e-8)):
        slider, number = field(explorer, trait, "range"), field(explorer, trait, "number")
        for node in (explorer.locator(f".ln-handle{handle}"), slider, number):
            for key, end in (("ArrowUp", first * 10**0.1), ("ArrowDown", first)):
                node.evaluate(press, key)
                drawn(explorer)
                assert float(number.input_value()) == pytest.approx(end, rel=2e-3)


def test_eps_reaches_zero_and_all_stays_right_there(reader) -> None:
    hand = Hand(reader, EpsilonExplorer(spread=1e-3), **DESK)

    def pull() -> None:
        hand.drag(hand.middle_of(KNEE), -400, 0)

    for way in (
        lambda: field(hand.root, "eps", "range").press("Home"),
        lambda: (field(hand.root, "eps", "number").fill("0"), hand.page.keyboard.press("Enter")),
        lambda: hand.root.locator(f".ln-handle{KNEE}").press("Home"),
        pull,
    ):
        check_words(hand.root, eps=1e-8, spread=1e-3)
        way()
        check_words(hand.root, eps=0, spread=1e-3)
        for kind in ("range", "number"):
            assert float(field(hand.root, "eps", kind).input_value()) == 0
        # Without ε both curves are 1 from end to end, and the knee stands over σ = 0.
        one, zero = (
            hand.root.locator(".ln-chart >> nth=0").get_by_text(t, exact=True) for t in "10"
        )
        height = float(one.first.get_attribute("y")) - 4
        for tone in ("blue", "vermillion"):
            path = hand.root.locator(f".ln-curve.ln-{tone}").first.get_attribute("d")
            points = re.findall(r"[ML]([\d.]+) ([\d.]+)", path)
            assert len(points) == 161
            assert {float(y) for _, y in points} == {height}
        knee = hand.root.locator(f".ln-handle{KNEE}").get_attribute("transform")
        assert knee.startswith(f"translate({zero.last.get_attribute('x')}.0 ")
        hand.reset()


def test_zero_over_zero_is_said_in_words(reader) -> None:
    page = reader(**DESK).alone(EpsilonExplorer(spread=0))
    page.locator(f".ln-handle{KNEE}").press("Home")
    check_words(page, eps=0, spread=0)
    assert page.locator(".ln-wreck").all_text_contents() == 3 * ["all 8 values are NaN"]
    assert page.locator("td").all_text_contents() == 3 * ["NaN", "× ∞"]
    page.locator(f".ln-handle{SIGMA}").press("ArrowRight")
    check_words(page, eps=0, spread=1e-7)
    words = ["", "", "6 values are ±∞, 2 NaN"]
    assert page.locator(".ln-wreck").all_text_contents() == words


@pytest.mark.parametrize(("width", "tallest"), [(390, 760), (810, 620)])
def test_one_screen_holds_it_and_no_word_lies_on_another(reader, width, tallest) -> None:
    someone = reader(viewport={"width": width, "height": 844}, guess=True)
    page = someone.alone(EpsilonExplorer())
    someone.page.add_style_tag(content=f"body {{ margin: {12 if width == 390 else 25}px }}")
    root = page.locator(".ln-explorer")
    assert root.bounding_box()["height"] < tallest / 1.5
    page.get_by_role("button", name="See").click()
    for eps in (0, 1e-12, 1e-8, 2.9e-8, 3e-8, 1e-4, 0.01, 0.1, 0.2, 1):
        for spread in (0, 1e-7, 3e-5, 1e-3, 10):
            said = EpsilonExplorer(eps=eps, spread=spread).sentence()
            assert root.evaluate(LOOK, [f"eps={eps}&spread={spread}", said, tallest]) == []
    assert someone.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 900])
def test_the_pictures_agree_about_what_float16_gives(reader, width) -> None:
    explorer = reader(viewport={"width": width, "height": 900}).alone(EpsilonExplorer())
    explorer.locator("summary").click()
    for start, values in (
        ("0 ÷ 0", "all 8 values are NaN"),
        ("σ² = 4e-9, ε = 1e-8", "6 values are ±∞, 2 NaN"),
    ):
        explorer.get_by_role("button", name=start).click()
        drawn(explorer)
        variance, strip, _ = explorer.locator(".ln-chart svg").all()
        assert strip.locator(".ln-wreck").all_text_contents()[-1] == values
        name = variance.locator(".ln-text.ln-green").first.text_content()
        assert name == ("float16 divides by 0" if width == 900 else "float16: ÷ 0")


# --- the guess -----------------------------------------------------------------------------------


def shown(page: Any) -> list[bool]:
    """Whether each part is visible that would give the answer away."""
    parts = [".ln-curve", f".ln-handle{KNEE}", f".ln-handle{SIGMA}", ".ln-back", "svg >> nth=1"]
    parts += [".ln-controls", ".ln-verdict", "details", ".ln-sentence"]
    return [drawn(page).locator(part).first.is_visible() for part in parts]


@pytest.mark.parametrize("context", [PHONE, DESK], ids=["finger", "mouse"])
def test_a_guess_comes_first_and_is_answered(reader, context) -> None:
    hand = Hand(reader, EpsilonExplorer(eps=1e-6), guess=True, **context)
    page, marker = hand.root, hand.root.locator(GUESS)
    assert not any(shown(page))
    assert page.locator(".ln-ask p").inner_text().startswith("ε is 1e-6. Drag the marker to the σ")
    start = hand.middle_of(GUESS)
    tick = page.get_by_text("10⁻⁵", exact=True).first.bounding_box()
    top, move = hand.scrolled(), hand.stroke if context is PHONE else hand.drag
    move(start, tick["x"] + tick["width"] / 2 - start[0], 30)
    hand.settle()
    assert (hand.page.evaluate("canceled"), hand.scrolled()) == (0, top)
    assert float(marker.get_attribute("aria-valuenow")) == pytest.approx(1e-5, rel=0.06)
    for key, value in (("Home", 0), ("ArrowUp", 1e-7), ("End", 10), ("PageDown", 10**0.5)):
        marker.press(key)
        assert float(marker.get_attribute("aria-valuenow")) == pytest.approx(value, rel=2e-3)
    assert not any(shown(page))
    page.get_by_role("button", name="See").click()
    assert all(shown(page))
    assert page.locator(".ln-answer").inner_text() == "You said σ = 3.16; it is √ε = 0.001."
    assert page.locator(f"{GUESS}, .ln-ask").count() == 0
    check_words(page, eps=1e-6, spread=3e-5)
    field(page, "eps", "range").press("ArrowRight")
    assert drawn(page).locator(".ln-answer").inner_text() == ""  # it spoke of another state


@pytest.mark.parametrize("way", ["Skip", "a start", "a link", "Python", "no ε", "not asked"])
def test_the_guess_can_be_left_out(reader, way) -> None:
    someone = reader(guess=True, **DESK)
    kept = {"no ε": {"eps": 0}, "not asked": {"ask": False}}
    page = someone.alone(EpsilonExplorer(**kept.get(way, {})))
    if way == "Python":
        page.locator(".ln-explorer").evaluate("e => e.remove()")
        state = {"eps": 1e-8, "spread": 3e-5}
        someone.page.evaluate(KERNEL, [EpsilonExplorer._esm, state])
    assert way in kept or not any(shown(page))
    if way == "Skip":
        page.get_by_role("button", name="Skip").click()
    elif way == "a start":
        page.get_by_role("button", name="Reset").click()
    elif way == "a link":
        page.locator(".ln-explorer").evaluate(TELL, "eps=1e-5")
    elif way == "Python":
        someone.page.evaluate("kernel.set('eps', 1e-5)")
    assert all(shown(page))
    assert page.locator(f".ln-ask, {GUESS}").count() == 0
    assert page.locator(".ln-answer").inner_text() == ""
    eps = {"no ε": 0, "a link": 1e-5, "Python": 1e-5}.get(way, 1e-8)
    check_words(page, eps=eps, spread=3e-5)


def test_the_name_of_the_picture_speaks_of_the_sentence_once_there_is_one(reader) -> None:
    page = reader(guess=True, **DESK).alone(EpsilonExplorer())
    picture = page.locator("svg").first
    assert "sentence" not in picture.get_attribute("aria-label")
    page.get_by_role("button", name="Skip").click()
    assert "The sentence below" in drawn(page).locator("svg").first.get_attribute("aria-label")


def test_a_constant_row_is_named_and_what_is_no_number_stands_above_the_curves(reader) -> None:
    page = reader(**DESK).alone(EpsilonExplorer(eps=1e-8, spread=0))
    told = field(page, "spread", "range").get_attribute("aria-valuetext")
    assert told == "σ = 0, a constant row"
    canvas = page.locator("svg").first
    half = canvas.locator(".ln-mark.ln-green").get_attribute("transform")
    top = float(canvas.get_by_text("1", exact=True).first.get_attribute("y"))
    assert float(re.findall(r"[\d.]+", half)[1]) < top - 30


def test_the_text_is_told_what_is_left_of_the_variance(reader) -> None:
    page = reader(**DESK).alone(EpsilonExplorer())
    told = page.locator(".ln-explorer").evaluate(
        """root => new Promise(done => {
            root.addEventListener('ln-drawn', ({ detail }) => done(detail.numbers()));
            root.dispatchEvent(new CustomEvent('ln-set', { detail: 'eps=1&spread=0.5' }));
        })"""
    )
    assert told == {"eps": "1", "spread": "0.5", "variance": "0.2", "factor": "0.894", "knee": "1"}


def test_the_name_of_the_knee_stands_away_from_the_other_curve(reader) -> None:
    for eps, anchor in ((1e-8, "start"), (1, "end")):
        page = reader(**DESK).alone(EpsilonExplorer(eps=eps))
        name = page.locator("svg").first.get_by_text(f"ε = {number(eps)}", exact=True)
        assert name.get_attribute("text-anchor") == anchor


def test_a_field_leaves_the_browser_its_keys(reader) -> None:
    page = reader(**DESK).alone(EpsilonExplorer())
    press = "(e, key) => e.dispatchEvent(new KeyboardEvent('keydown', key))"
    for kind in ("range", "number"):
        one = field(page, "eps", kind)
        assert one.evaluate(press, {"key": "ArrowUp", "altKey": True, "cancelable": True})
        assert field(drawn(page), "eps", "number").input_value() == "1e-8"
