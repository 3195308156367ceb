"""The Jacobian explorer: its ways against autograd, its bars against its numbers, and the page."""

from __future__ import annotations

import itertools
import math
import random
import re
from typing import Any

import pytest
import torch
from test_explorer_gamma_beta import OVERLAPS
from test_explorer_hands import DESK, PHONE, TELL, Hand
from torch.autograd.functional import jacobian

from conftest import AT_ONCE, DRAWN, LISTEN, plain, violations
from lnlib import formula
from lnlib.book.explorers import JacobianExplorer
from lnlib.book.explorers.base import number
from lnlib.book.explorers.jacobian import row, ways
from lnlib.book.home import ROOT

TRAITS = ("x", "weight", "eps", "output", "input", "step")
OUTLIER = (1.0, 2.0, 3.0, 10.0)
GAMMA = (1.0, 2.0, -1.0, 0.0)
EACH = tuple(itertools.product(range(4), range(4)))

# --- arithmetic and words ------------------------------------------------------------------------


def cases() -> list[JacobianExplorer]:
    dice = random.Random(0)

    def around(middle: float, size: float) -> list[float]:
        return [min(max(middle + size * dice.gauss(0, 1), 0), 10) for _ in range(4)]

    rows = [around(dice.uniform(1, 9), 10 ** dice.uniform(-3, 1)) for _ in range(500)]
    rows += [(1, 1, 5, 5), OUTLIER, (0, 0, 0, 8), (5,) * 4, (0.1,) * 4, (10, 0, 10, 0)] * 4
    equal = [(v,) * 4 for v in (1, 2, -2, 0.3)]
    found = []
    for x, even in itertools.product(rows, (False, True)):
        weight = dice.choice(equal) if even else [dice.uniform(-2, 2) for _ in range(4)]
        eps = dice.choice((0, 1e-5, 10 ** dice.uniform(-12, 2)))
        output, input_, step = dice.randint(1, 4), dice.randint(1, 4), dice.choice((0, 1, 2, 2, 2))
        traits = {"x": x, "weight": weight, "eps": eps}
        found.append(JacobianExplorer(**traits, output=output, input=input_, step=step))
    assert len(found) > 1000
    return found


def by_autograd(explorers: list[JacobianExplorer]) -> list[list[list[list[float]]]]:
    """Return the three ways, each with what it does not go through held, and the Jacobian."""
    lists = [[e.x for e in explorers], [e.weight for e in explorers], [[e.eps] for e in explorers]]
    x, weight, eps = (torch.tensor(v, dtype=torch.float64) for v in lists)
    t = formula.terms(x, eps=eps)

    def s_of(v: Any) -> Any:
        return ((v - t.mean).square().mean(-1, keepdim=True) + eps).sqrt()

    each = (
        lambda v: weight * (v - t.mean) / t.denominator,
        lambda v: weight * (x - v.mean(-1, keepdim=True)) / t.denominator,
        lambda v: weight * (x - t.mean) / s_of(v),
        lambda v: weight * formula.layer_norm(v, eps=eps),
    )
    # A row reaches its own outputs alone, so a sum over all rows has the Jacobian of each.
    found = [jacobian(lambda v, way=way: way(v).sum(0), x).permute(1, 0, 2) for way in each]
    return torch.stack(found, dim=1).tolist()


def golden_case(explorer: JacobianExplorer, autograd: Any) -> dict[str, Any]:
    traits = {name: getattr(explorer, name) for name in TRAITS}
    shown = explorer.row()
    ours = [[[*map(plain, ways(shown, explorer.weight, k, i))] for i in range(4)] for k in range(4)]
    spread = max(map(abs, explorer.x)) / (shown.denominator or 1)
    return {
        **traits,
        "slack": spread,  # x − μ is off by a rounding of x, which x̂ divides by s
        "row": [*map(plain, shown[:3]), *map(plain, shown.x_hat)],
        "ways": ours,
        "matrix": [[*map(plain, line)] for line in explorer.matrix()],
        "cells": [explorer.in_cell(v) for line in explorer.matrix() for v in line],
        "autograd": autograd if shown.denominator else None,
        "sentence": explorer.sentence(),
        "verdict": explorer.verdict(),
    }


def equations_of_the_chapter() -> dict[str, str]:
    """Return the number that the book gives each equation of chapter 04."""
    text = (ROOT / "notebooks" / "04_scalar_jacobian.ipynb").read_text(encoding="utf8")
    labels = re.findall(r"```\{math\}\\n\",\s*\":label: ([a-z-]+)", text)
    return {label: f"4.{n}" for n, label in enumerate(labels, 1)}


def test_javascript(run_js: Any) -> None:
    traits = JacobianExplorer.class_own_traits()
    bounds = {name: getattr(traits[name], "each", traits[name]) for name in ("x", "weight", "eps")}
    numbers = equations_of_the_chapter()
    states = cases()
    named = ("eq-row-delta", "eq-row-dmu", "eq-row-ds", "eq-row-root")
    golden = {
        "defaults": {name: getattr(JacobianExplorer(), name) for name in TRAITS},
        "limits": {name: [trait.low, trait.high] for name, trait in bounds.items()},
        "equations": {label: numbers[label] for label in named},
        "cases": [*map(golden_case, states, by_autograd(states))],
    }
    run_js("jacobian", golden)


STATES: list[dict[str, Any]] = [
    {},
    {"input": 3},
    {"input": 1},
    {"x": OUTLIER, "weight": GAMMA, "output": 2, "input": 1},
    {"weight": GAMMA},
    {"x": (0, 0, 0, 8)},
    {"eps": 12, "step": 1},
    {"step": 0, "input": 2},
    {"x": (5,) * 4, "eps": 0.01, "input": 1},
    {"x": (5,) * 4},
]
SAID = """∂y₄/∂x₄ = 0.25; directly 0.5
With ε = 0, s is 2: 0.5 directly, −0.125 through μ and −0.125 through σ make 0.25.
∂y₄/∂x₃ = −0.25, like its mirror
With ε = 0, s is 2: 0 directly, −0.125 through μ and −0.125 through σ make −0.25.
∂y₄/∂x₁ = 0: the two ways cancel
With ε = 0, s is 2: 0 directly, −0.125 through μ and 0.125 through σ make 0.
γ₂ ≠ γ₁: −0.209, its mirror −0.105
With ε = 0, s is 3.54: 0 directly, −0.141 through μ and −0.0679 through σ make −0.209.
γ₄ = 0: no way leads to y₄
With ε = 0, s is 2: 0 directly, 0 through μ and 0 through σ make 0.
∂y₄/∂x₄ = 0: the three ways cancel
With ε = 0, s is 3.46: 0.289 directly, −0.0722 through μ and −0.217 through σ make 0.
With the way through μ: 0.188
With ε = 12, s is 4: 0.25 directly and −0.0625 through μ make 0.188. The way through σ is left out.
The direct way alone: 0
With ε = 0, s is 2: 0 directly. The ways through μ and σ are left out.
∂y₄/∂x₁ = −2.5, like its mirror
With ε = 0.01, s is 0.1: 0 directly, −2.5 through μ and 0 through σ make −2.5.
0 ÷ 0: there is no derivative
All features are equal and ε = 0: s is 0, and x̂ = 0 ÷ 0 has no derivative.""".splitlines()


def test_words_and_picture_tell_each_kind_of_row() -> None:
    for traits, verdict, sentence in zip(STATES, SAID[::2], SAID[1::2], strict=True):
        explorer = JacobianExplorer(**traits)
        assert (explorer.verdict(), explorer.sentence()) == (verdict, sentence)
        figure = explorer.picture()
        assert figure.get_suptitle() == verdict
        matrix, bars = figure.axes
        flat = [v for line in explorer.matrix() for v in line]
        assert [t.get_text() for t in matrix.texts] == [explorer.in_cell(v) for v in flat]
        for patch, value in zip(matrix.patches, flat, strict=True):
            red, _, blue, _ = patch.get_facecolor()
            assert abs(value) < 1e-12 or (blue > red) == (value > 0)
        k, i = explorer.output - 1, explorer.input - 1
        each = [*ways(explorer.row(), explorer.weight, k, i)][: explorer.step + 1]
        drawn = [bar.get_width() for bar in bars.patches]
        total = explorer.matrix()[k][i]
        assert drawn == ([] if math.isnan(total) else pytest.approx([*each, total]))
    assert len(JacobianExplorer(**STATES[3]).png()) < 14_000


def test_a_constant_row_leaves_the_way_through_sigma_out() -> None:
    shown = row((0.3,) * 4, eps=0.25)
    assert (shown.std, shown.x_hat) == (0.0, [0.0] * 4)
    for k, i in EACH:
        assert ways(shown, (1,) * 4, k, i)[2] == 0


# --- the page ------------------------------------------------------------------------------------

BARS = f"""async root => {{
    {DRAWN};
    return [...root.querySelectorAll('.ln-bar')].map(bar => bar.getAttribute('d'))
        .map(d => d && /M([-\\d.]+) ([-\\d.]+)H([-\\d.]+)/.exec(d).slice(1).map(Number));
}}"""
ZERO = r"root => +/M([\d.]+)/.exec(root.querySelector('.ln-ways .ln-axis').getAttribute('d'))[1]"
CELLS = f"""async root => {{
    {DRAWN};
    return [...root.querySelectorAll('.ln-cell')].map(cell => cell.textContent);
}}"""
STATE = f"""async root => {{
    {DRAWN};
    const now = label => +root.querySelector(`.ln-handle[aria-label^="${{label}}"]`).ariaValueNow;
    return {{
        x: [1, 2, 3, 4].map(i => now(`Feature x${{'₁₂₃₄'[i - 1]}}`)),
        weight: [1, 2, 3, 4].map(i => now(`Scale γ${{'₁₂₃₄'[i - 1]}}`)),
        cell: now('Output'),
        step: +root.querySelector('.ln-ways input:checked').value,
    }};
}}"""
PICKED, FIRST, SCALE = "[aria-label^=Output]", "[aria-label^=Feature]", "[aria-label^=Scale]"


def cell(k: int, i: int) -> str:
    return f".ln-cell >> nth={4 * k + i - 5}"


class Page:
    """The explorer on a page of its own; one page is led through many states."""

    def __init__(self, reader: Any, **context: Any) -> None:
        someone = reader(**(context or DESK))
        someone.page.clock.install()
        someone.page.add_init_script(AT_ONCE)  # over the clock's
        self.root, self.page = someone.alone(JacobianExplorer()), someone.page

    def put(self, traits: dict[str, Any]) -> JacobianExplorer:
        """Set a state as a link does, and return an explorer that holds the same."""
        said = {k: ",".join(map(str, v)) if isinstance(v, tuple) else v for k, v in traits.items()}
        words = "&".join(f"{name}={value}" for name, value in said.items())
        self.root.locator(".ln-explorer").evaluate(TELL, words)
        return JacobianExplorer(**traits)


@pytest.mark.parametrize("width", [320, 390, 810])
def test_bars_and_cells_are_their_numbers_and_no_word_lies_on_another(
    reader: Any, width: int
) -> None:
    page = Page(reader, viewport={"width": width, "height": 844})
    for traits in (*STATES, {"x": (10, 0, 10, 0), "weight": (-2, -1.5, 2, 0.7), "input": 2}):
        explorer = page.put(traits)
        k, i = explorer.output - 1, explorer.input - 1
        bars, total = page.root.evaluate(BARS), explorer.matrix()[k][i]
        if math.isnan(total):
            assert bars == ["", "", "", ""]
        else:
            zero, each = page.root.evaluate(ZERO), ways(explorer.row(), explorer.weight, k, i)
            unit = next(((b[2] - b[0]) / v for b, v in zip(bars, each, strict=False) if v), 1)
            assert unit > 0
            sizes = [b[2] - b[0] for b in bars]
            assert sizes == pytest.approx([unit * v for v in (*each, total)], abs=0.3)
            starts = [0, each[0], each[0] + each[1], 0]
            for j, start in enumerate(starts[: explorer.step + 1]):  # where the last one ended
                assert bars[j][0] == pytest.approx(zero + unit * start, abs=0.4)
            assert bars[3][0] == pytest.approx(zero, abs=0.1)
            assert all(0 <= end <= width for bar in bars for end in (bar[0], bar[2]))
        out = page.root.locator(".ln-lane").evaluate_all("a => a.map(e => e.matches('.ln-out'))")
        assert out == [j > explorer.step for j in range(3)] + [False]
        flat = [v for line in explorer.matrix() for v in line]
        if width > 320:
            assert page.root.evaluate(CELLS) == [explorer.in_cell(v) for v in flat]
        kinds = page.root.locator(".ln-cell rect").evaluate_all(
            "a => a.map(e => e.className.baseVal)"
        )
        assert kinds == ["ln-minus" if v < 0 else "ln-plus" for v in flat]
        assert page.root.locator(".ln-explorer").evaluate(OVERLAPS) == [], traits
        most = {320: 840, 390: 760, 810: 620}[width]
        assert page.root.locator(".ln-explorer").bounding_box()["height"] <= most, traits
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.root.locator(".ln-mirror").is_visible() == (k != i)


def test_a_click_picks_a_number_and_a_way_and_keys_go_on_from_there(reader: Any) -> None:
    page = Page(reader)
    root, keyboard = page.root, page.page.keyboard
    state = {"x": [1, 1, 5, 5], "weight": [1, 1, 1, 1], "cell": 16, "step": 2}
    assert root.evaluate(STATE) == state
    root.locator(cell(1, 3)).click()
    assert root.evaluate(STATE) == {**state, "cell": 3}
    mirror, third = (root.locator(where).bounding_box() for where in (".ln-mirror", cell(3, 1)))
    assert (mirror["x"], mirror["y"]) == pytest.approx((third["x"], third["y"]), abs=4)
    picked = root.locator(PICKED)
    picked.focus()
    for key, place in (
        *[("ArrowDown", 7), ("ArrowRight", 8), ("ArrowRight", 8), ("ArrowUp", 4)],
        *[("Home", 1), ("End", 4), ("PageDown", 16), ("ArrowLeft", 15)],
    ):
        keyboard.press(key)
        assert root.evaluate(STATE)["cell"] == place, key
    assert picked.get_attribute("aria-valuetext") == "∂y₄/∂x₃ = −0.25"
    lanes = root.locator(".ln-ways label").all()
    lanes[0].click()
    assert root.evaluate(STATE) == {**state, "cell": 15, "step": 0}
    assert root.locator(".ln-verdict").inner_text() == "The direct way alone: 0"
    keyboard.press("ArrowDown")
    assert root.evaluate(STATE)["step"] == 1
    names = root.locator(".ln-way").all()
    for lane, bar, name in zip(lanes, root.evaluate(BARS), names, strict=False):
        box, chart = lane.bounding_box(), root.locator(".ln-ways svg").bounding_box()
        assert box["height"] >= 44
        middle = name.bounding_box()["y"] + name.bounding_box()["height"] / 2
        assert box["y"] < middle < box["y"] + 20
        assert chart["y"] + bar[1] < box["y"] + box["height"]


def test_keys_move_a_feature_and_a_scale_and_lead_back_exactly(reader: Any) -> None:
    page = Page(reader)
    for part, name, ends in ((FIRST, "x", (0, 10)), (SCALE, "weight", (-2, 2))):
        handle = page.root.locator(f"{part} >> nth=2")
        first = page.root.evaluate(STATE)[name]
        for key, back in (("ArrowUp", "ArrowDown"), ("Shift+ArrowRight", "Shift+ArrowLeft")):
            for keys in ([key] * 2, [back] * 2):
                for each in keys:
                    handle.press(each)
                now = page.root.evaluate(STATE)[name]
                assert (now == first) == (keys[0] == back) or name == "weight"
        for key, end in (("Home", ends[0]), ("End", ends[1])):
            handle.press(key)
            assert page.root.evaluate(STATE)[name] == [*first[:2], end, first[3]]
        assert handle.get_attribute("aria-valuetext") == number(ends[1])


def test_the_tables_have_the_sums_and_the_address_the_state(reader: Any) -> None:
    page = Page(reader)
    explorer = page.put({"x": OUTLIER, "weight": GAMMA, "output": 2, "input": 1, "eps": 0.5})
    page.root.locator("summary").click()
    sums, terms = page.root.locator(".ln-table").all()
    lines = [one.locator("td").all_inner_texts() for one in sums.locator("tbody tr").all()]
    dx = torch.tensor(explorer.matrix()).sum(0).tolist()  # the gradient of y.sum()
    assert [line[4] for line in lines[:4]] == ["0"] * 4
    assert lines[4] == [*map(number, dx), "0"]
    rows = [one.locator("td").all_inner_texts() for one in terms.locator("tbody tr").all()]
    values = (explorer.x, explorer.row().x_hat, explorer.weight)
    assert rows == [[number(v) for v in each] for each in values]
    page.root.evaluate(LISTEN)
    page.put({"x": OUTLIER, "weight": GAMMA, "output": 2, "input": 1})
    told = page.page.evaluate("told")
    assert told["text"] == "x=1,2,3,10&weight=1,2,-1,0&output=2&input=1"
    numbers = page.page.evaluate("told.numbers()")
    assert [numbers[n] for n in ("entry", "mirror", "direct")] == ["−0.209", "−0.105", "0"]
    nudge = "new CustomEvent('ln-nudge', { detail: { trait: 'eps', by: 1 } })"
    page.root.locator(".ln-explorer").evaluate(f"root => root.dispatchEvent({nudge})")
    assert page.page.evaluate("told.numbers().eps") == "0.01"


def test_a_finger_takes_what_the_mouse_does_and_taps_a_number(reader: Any) -> None:
    hand = Hand(reader, JacobianExplorer())
    first = hand.root.evaluate(STATE)
    for part, stroke, trait in (
        *[(f"{FIRST} >> nth=1", (9, -40), "x"), (f"{SCALE} >> nth=3", (-30, 12), "weight")],
        (PICKED, (-60, -90), "cell"),
    ):
        start, top = hand.middle_of(part), hand.scrolled()
        hand.stroke(start, *stroke)
        hand.settle()
        by_finger = hand.root.evaluate(STATE)
        assert (hand.page.evaluate("canceled"), hand.scrolled()) == (0, top)
        assert [name for name in first if by_finger[name] != first[name]] == [trait]
        hand.reset()
        hand.drag(hand.middle_of(part), *stroke)
        assert hand.root.evaluate(STATE) == by_finger
        hand.reset()
    hand.page.touchscreen.tap(*hand.middle_of(cell(2, 4)))
    assert hand.root.evaluate(STATE) == {**first, "cell": 8}
    hand.page.touchscreen.tap(*hand.middle_of(".ln-ways label >> nth=1"))
    assert hand.root.evaluate(STATE) == {**first, "cell": 8, "step": 1}
    for part in (cell(4, 1), ".ln-ways label >> nth=0"):  # a stroke scrolls the page
        start, top = hand.middle_of(part), hand.scrolled()
        hand.stroke(start, 4, -160)
        hand.page.wait_for_function("top => scrollY > top", arg=top, timeout=5000)
        assert hand.root.evaluate(STATE) == {**first, "cell": 8, "step": 1}


def test_axe_finds_nothing_serious(reader: Any) -> None:
    page = Page(reader, **PHONE)
    page.put({"x": OUTLIER, "weight": GAMMA, "output": 2, "input": 1, "step": 1})
    dark = (
        "document.documentElement.dataset.theme = 'dark';"
        "document.body.style.cssText = 'background: #14181e; color: #e6edf3'"
    )
    for theme in ("0", dark):
        page.page.evaluate(theme)
        found = violations(page.page)
        serious = {v["id"]: v["nodes"] for v in found if v["impact"] in ("serious", "critical")}
        assert serious == {}
