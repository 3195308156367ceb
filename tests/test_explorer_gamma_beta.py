from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import Any

import pytest
import torch

from conftest import AT_ONCE, violations
from lnlib import formula
from lnlib.book.explorers import GammaBetaExplorer
from lnlib.book.explorers.gamma_beta import OF_Y, ROWS, room, shared, statistics, tell

ONES, ZEROS = (1.0,) * 8, (0.0,) * 8
RAMP = tuple(i / 2 - 1.75 for i in range(8))
EIGHTH_UP = (*ONES[:7], 3.0)
EDGES = [
    {},
    {"row": "constant"},
    {"row": "constant", "weight": (5,) * 8, "bias": (8,) * 8, "eps": 1e-12},
    {"weight": (5,) * 8, "bias": (8,) * 8, "feature": 8},
    {"row": "wide", "weight": (-5,) * 8, "bias": (-8,) * 8, "feature": 4, "eps": 1},
    {"row": "two groups", "weight": (5, -5) * 4, "bias": (8, -8) * 4, "feature": 1},
    {"row": "narrow", "weight": ZEROS, "bias": RAMP, "eps": 1},
]


# --- traits --------------------------------------------------------------------------------------


def test_defaults_are_those_of_a_fresh_layer():
    explorer, layer = GammaBetaExplorer(), torch.nn.LayerNorm(8)
    assert explorer.weight == tuple(layer.weight.tolist()) == ONES
    assert explorer.bias == tuple(layer.bias.tolist()) == ZEROS
    assert explorer.eps == layer.eps == 1e-5
    assert (explorer.row, explorer.feature) == ("book", 0)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_eighths_and_their_mean_and_variance_have_no_rounding(name):
    x = torch.tensor(ROWS[name], dtype=torch.float64)
    assert x.shape == (8,)
    assert torch.equal(x * 8, (x * 8).round())
    terms = formula.terms(x)
    for exact in (terms.mean.item(), terms.var.item()):
        assert exact * 1024 == round(exact * 1024)
    assert terms.mean.item() == statistics(ROWS[name]).mean
    assert terms.var.item() == statistics(ROWS[name]).variance


# --- verdict and sentence ------------------------------------------------------------------------

ROOT = math.sqrt(4 + 1e-5)
YES = "γ is the spread of y, β its mean"


@pytest.mark.parametrize(
    ("traits", "verdict", "numbers"),
    [
        ({"weight": (2,) * 8, "bias": ONES}, YES, "1 and 2 in y; γ is 2 and β is 1."),
        ({"weight": (-2,) * 8}, "|γ| is the spread of y, β its mean", "γ is −2 and β is 0."),
        (
            {"weight": EIGHTH_UP},
            "γ differs: its mean is not the spread",
            "Mean and standard deviation are 5 and 2 in the row, 0 and 1 in x̂, 0.5 and 2.18 in y; "
            "γ averages 1.25 and β is 0.",
        ),
        ({"weight": (*ONES[:7], 1.0001)}, "γ differs, yet its mean is the spread", "averages 1 "),
        ({"bias": RAMP}, "β differs: γ is not the spread of y", "γ is 1 and β averages 0."),
        ({"bias": (*ZEROS[:7], 1e-4)}, "β differs, yet γ is the spread of y", "averages 1.25e-5."),
        (
            {"weight": (-1,) * 8, "bias": RAMP, "row": "wide"},
            "β differs: |γ| is not the spread of y",
            "−1 and 4 in the row",
        ),
        ({"weight": ZEROS, "bias": RAMP}, "y is β, whatever the row", "0 and 1.15 in y; γ is 0 "),
        (
            {"row": "narrow", "eps": 1, "weight": (2,) * 8},
            "ε keeps the spread below γ",
            "0 and 0.485 in y; γ is 2 and β is 0. ε = 1 is not small next to σ² = 0.0625.",
        ),
        (
            {"row": "constant", "weight": EIGHTH_UP},
            "x̂ is 0: y is β, whatever γ is",
            "1.5 and 0 in the row, 0 and 0 in x̂, 0 and 0 in y;",
        ),
        ({"weight": (ROOT,) * 8, "bias": (5,) * 8}, "y is the row itself", "5 and 2 in y;"),
        ({"weight": (ROOT,) * 8, "bias": (5,) * 8, "row": "wide"}, YES, "5 and 2 in y;"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ",".join(value),
)
def test_verdict_and_sentence_answer_the_question(traits, verdict, numbers):
    explorer = GammaBetaExplorer(**traits)
    assert explorer.verdict() == verdict
    assert numbers in explorer.sentence()
    assert ("ε = " in explorer.sentence()) == (verdict == "ε keeps the spread below γ")


@pytest.mark.parametrize("row", ["book", "wide", "narrow", "two groups"])
def test_gamma_2_and_beta_1_give_y_twice_the_spread_of_x_hat_and_mean_1(row):
    x = torch.tensor(ROWS[row], dtype=torch.float64)
    x_hat = torch.nn.functional.layer_norm(x, (8,))
    y = torch.nn.functional.layer_norm(x, (8,), torch.full_like(x, 2), torch.ones_like(x))
    assert y.std(correction=0).item() == pytest.approx(2 * x_hat.std(correction=0).item())
    assert y.mean().item() == pytest.approx(1)
    lanes = GammaBetaExplorer(row=row, weight=(2,) * 8, bias=ONES).layer().lanes
    assert lanes[2] == pytest.approx(y.tolist(), abs=1e-12)


# --- what stands in for the widget ---------------------------------------------------------------


@pytest.mark.parametrize("traits", EDGES[2:5])
def test_picture_can_be_drawn_at_the_edges_in_15_kb(traits):
    assert len(GammaBetaExplorer(**traits).png()) <= 15_000


@pytest.mark.parametrize("traits", EDGES)
def test_picture_draws_the_terms_of_the_formula(traits):
    explorer = GammaBetaExplorer(**traits)
    terms = formula.terms(
        torch.tensor(ROWS[explorer.row]),
        torch.tensor(explorer.weight, dtype=torch.float64),
        torch.tensor(explorer.bias, dtype=torch.float64),
        eps=explorer.eps,
    )
    lanes = explorer.picture().axes
    for ax, expected in zip(lanes, (ROWS[explorer.row], terms.x_hat, terms.y), strict=True):
        mean_line, dots = ax.lines[:2]
        expected = torch.as_tensor(expected, dtype=torch.float64)
        assert list(dots.get_ydata()) == pytest.approx(expected.tolist(), abs=1e-12)
        assert mean_line.get_ydata()[0] == pytest.approx(expected.mean().item(), abs=1e-12)
        band = ax.patches[0]
        std = expected.std(correction=0).item()
        middle = band.get_y() + band.get_height() / 2
        assert band.get_height() == pytest.approx(2 * std, abs=1e-12)
        assert middle == pytest.approx(expected.mean().item(), abs=1e-12)
        low, high = ax.get_ylim()
        assert low < expected.min() <= expected.max() < high
        told = f"mean {tell(expected.mean().item())}, std {tell(std)}"
        assert ax.get_title(loc="right") == told


def test_picture_marks_what_gamma_and_beta_say_and_the_chosen_feature():
    explorer = GammaBetaExplorer(weight=(2,) * 8, bias=ONES, feature=5)
    figure = explorer.picture()
    lanes = figure.axes
    assert figure.get_suptitle() == YES
    gamma, beta = lanes[2].lines[-2:]
    assert (list(gamma.get_ydata()), list(beta.get_ydata())) == ([-1, 3], [1])
    assert lanes[2].get_title() == "β 1, γ 2"
    for ax in lanes:
        chosen = ax.patches[1]
        assert chosen.get_x() + chosen.get_width() / 2 == pytest.approx(5)
    explorer.weight = EIGHTH_UP
    assert explorer.picture().axes[2].get_title() == "β 1, mean γ 1.25"


# --- the page's arithmetic -----------------------------------------------------------------------


def golden_states() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)

    def random(size: float) -> list[float]:
        values = size * (2 * torch.rand(8, generator=generator, dtype=torch.float64) - 1)
        return [round(v, 2) for v in values.tolist()]

    alike = [[v] * 8 for v in (0.0, 1.0, -2.125, 2.125, 0.1, 5.0, 1e-7)]
    vectors = [list(RAMP), list(EIGHTH_UP), random(5), random(0.01)]
    states = [
        {"row": row, "eps": eps, "weight": weight, "bias": bias, "feature": 0}
        for row in ROWS
        for eps in (1e-12, 0.01)
        for weight in (*alike, *vectors, random(5))
        for bias in (*alike, *vectors, random(5))
    ][::23]  # 23 and 12 share no factor: each weight meets several biases
    for row, x in ROWS.items():  # undone
        mean, _, variance = statistics(x)
        weight = [math.sqrt(variance + 1e-5)] * 8
        bias = [mean] * 8
        states.append({"row": row, "eps": 1e-5, "weight": weight, "bias": bias, "feature": 3})
    return states


def golden_case(state: dict[str, Any]) -> dict[str, Any]:
    def tensor(values: Any) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    x = tensor(ROWS[state["row"]])
    terms = formula.terms(x, tensor(state["weight"]), tensor(state["bias"]), eps=state["eps"])
    lanes = (x, terms.x_hat, terms.y)
    return {
        "state": state,
        "xHat": terms.x_hat.tolist(),
        "y": terms.y.tolist(),
        "means": [lane.mean().item() for lane in lanes],
        "stds": [lane.std(correction=0).item() for lane in lanes],
        "sentence": GammaBetaExplorer(**state).sentence(),
        "verdict": GammaBetaExplorer(**state).verdict(),
        "room": list(room(OF_Y, terms.y.tolist())[0]),
    }


def test_javascript(run_js):
    traits = GammaBetaExplorer.class_traits()
    names = ("row", "weight", "bias", "eps", "feature")
    told = [
        0.0,
        -0.0,
        3e-13,
        -3e-13,
        2e-12,
        2.1249999999999996,
        -2.125,
        0.1 + 0.2,
        1e-7,
        -7.12,
        21.4,
    ]
    golden = {
        "rows": {name: list(row) for name, row in ROWS.items()},
        "defaults": {name: getattr(GammaBetaExplorer(), name) for name in names},
        "limits": {
            **{
                name: [traits[name].each.low, traits[name].each.high] for name in ("weight", "bias")
            },
            "eps": [traits["eps"].low, traits["eps"].high],
        },
        "cases": [golden_case(state) for state in golden_states()],
        "told": [[v, tell(v)] for v in told],
    }
    run_js("gamma_beta", golden, at_least=14)


# --- the page ------------------------------------------------------------------------------------


class Page:
    """The explorer on a page of its own, with what a reader sees of it."""

    def __init__(self, someone: Any, **traits: Any) -> None:
        someone.page.clock.install()
        self.explorer = someone.alone(GammaBetaExplorer(**traits))
        self.page = someone.page
        self.page.evaluate(f"void ({AT_ONCE})")  # the clock has frames of its own
        self.explorer.evaluate("root => root.querySelector('details').open = true")
        self.list = self.explorer.locator("select")
        self.gamma, self.beta = self.explorer.locator("input[type=number]").all()

    def button(self, name: str) -> None:
        by_name = self.explorer.get_by_label(name, exact=True)
        by_name.or_(self.explorer.get_by_text(name, exact=True)).click()

    def row(self, name: str) -> None:
        self.explorer.get_by_role("radio", name=name, exact=True).press("Space")

    def type(self, field: Any, value: str) -> None:
        field.fill(value)
        field.press("Enter")

    def said(self) -> str:
        """The sentence, once it has caught up with the picture."""
        self.page.clock.run_for(400)
        return str(self.explorer.locator(".ln-sentence").inner_text().replace("\xa0", " "))

    def verdict(self) -> str:
        return str(self.explorer.locator(".ln-verdict").inner_text())

    def lanes(self) -> list[list[tuple[float, float]]]:
        """Where the dots of x, x̂ and y lie, read off the drawing and its axes."""
        return self.page.evaluate(READ)

    def y(self) -> list[float]:
        return [value for _, value in self.lanes()[2]]

    def handle(self, feature: int) -> tuple[float, float]:
        handle = self.explorer.locator(".ln-handle").nth(feature - 1)
        handle.scroll_into_view_if_needed()
        box = handle.locator(".ln-ring").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(self, feature: int, right: float, down: float) -> None:
        x, y = self.handle(feature)
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + right / 2, y + down / 2)
        mouse.move(x + right, y + down)
        mouse.up()

    def unit(self) -> float:
        """Pixels per unit of y."""
        return float(self.page.evaluate(READ + ".unit"))

    def table(self) -> list[list[str]]:
        rows = self.explorer.locator(".ln-table tbody tr").all()
        return [row.locator("td").all_inner_texts() for row in rows]

    def chosen(self) -> list[float]:
        """The features whose dots of x are purple."""
        return self.explorer.evaluate(
            """root => [...root.querySelectorAll('[data-trait=row] .ln-dot')]
                .flatMap((dot, i) => dot.classList.contains('ln-on') ? [i + 1] : [])"""
        )


# Each lane's dots as [feature, value]: features from the ticks below, values from the ticks beside.
READ = r"""(root => {
    const number = t => Number(t.textContent.replace('−', '-'));
    const place = e => e.getAttribute('transform').match(/-?[\d.]+/g).map(Number);
    const svg = root.querySelector('svg');
    const columns = [...svg.querySelectorAll('text.ln-tick')]
        .map(t => [+t.getAttribute('x'), number(t)]);
    const feature = x => columns.find(([at]) => Math.abs(at - x) < 0.2)?.[1];
    const scales = [...svg.children].filter(e => e.tagName === 'g' && e.querySelector('.ln-grid'))
        .map(axis => {
            const ticks = [...axis.querySelectorAll('text')]
                .map(t => [+t.getAttribute('y') - 4, number(t)]);
            const [[y0, v0], [y1, v1]] = [ticks[0], ticks.at(-1)];
            const unit = (y0 - y1) / (v1 - v0);
            return { unit, value: y => v0 + (y0 - y) / unit };
        });
    const marks = ['[data-trait=row] .ln-dot', '.ln-dot.ln-s-x-hat', '.ln-handle'];
    const lanes = marks.map((mark, i) => [...svg.querySelectorAll(mark)].map(place)
        .map(([x, y]) => [feature(x), scales[i].value(y)]));
    lanes.units = scales.map(({ unit }) => unit);
    lanes.unit = lanes.units[2];
    return lanes;
})(document.querySelector('.ln-explorer'))"""
WIDE = {"viewport": {"width": 810, "height": 1000}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
PIXEL = 0.05  # what a tenth of a pixel, in which the drawing is rounded, is at most in units of y


def expected_y(**traits: Any) -> list[float]:
    return GammaBetaExplorer(**traits).terms().y.tolist()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_lanes_agree_with_their_axes(reader: Any, size: Any) -> None:
    page = Page(reader(**size), weight=EIGHTH_UP, bias=RAMP)
    for row in ROWS:
        page.row(row)
        terms = GammaBetaExplorer(row=row, weight=EIGHTH_UP, bias=RAMP).terms()
        for lane, values in zip(page.lanes(), (ROWS[row], terms.x_hat, terms.y), strict=True):
            assert [feature for feature, _ in lane] == list(range(1, 9))
            assert [v for _, v in lane] == pytest.approx(list(map(float, values)), abs=PIXEL)


def test_more_is_higher_and_further_right_and_each_lane_has_its_name(reader: Any) -> None:
    page = Page(reader(**WIDE))
    lanes = page.explorer.locator(".ln-chart svg")
    place = """(all, name) => all.map(t =>
        [Number(t.textContent.replace('−', '-')), +t.getAttribute(name)])"""
    axes = lanes.locator("g:has(> .ln-grid)")
    for i, name in enumerate(["x (units of x)", "x̂ (no units)", "y = γ ⊙ x̂ + β"]):
        ticks = sorted(axes.nth(i).locator("text").evaluate_all(place, "y"))
        heights = [y for _, y in ticks]
        assert heights == sorted(heights, reverse=True)
        title = float(lanes.get_by_text(name, exact=True).get_attribute("y"))
        assert 6 < heights[-1] - title < 22  # right above its highest tick
    across = [x for _, x in sorted(lanes.locator(".ln-tick").evaluate_all(place, "x"))]
    assert across == sorted(across)


def test_a_unit_is_as_high_in_each_lane(reader: Any) -> None:
    units = Page(reader(**WIDE)).page.evaluate(READ + ".units")
    assert units == pytest.approx([8, 8, 8], abs=0.05)


def test_a_typed_number_moves_the_chosen_features(reader: Any) -> None:
    page = Page(reader(**WIDE), row="wide")
    controls = ((page.gamma, "weight", ONES), (page.beta, "bias", ZEROS))
    for feature, (field, trait, before) in itertools.product((0, 1, 8), controls):
        page.list.select_option(f"{feature}")
        page.type(field, "-1.5")
        values = tuple(-1.5 if feature in (0, i + 1) else v for i, v in enumerate(before))
        expected = GammaBetaExplorer(row="wide", **{trait: values})
        assert page.y() == pytest.approx(expected.terms().y.tolist(), abs=PIXEL)
        assert page.said() == expected.sentence()
        page.button("Reset")


def test_an_epsilon_that_python_sets_moves_x_hat_and_y(reader: Any) -> None:
    page = Page(reader(**WIDE), row="narrow", eps=1)
    expected = GammaBetaExplorer(row="narrow", eps=1)
    assert [v for _, v in page.lanes()[1]] == pytest.approx(
        expected.terms().x_hat.tolist(), abs=PIXEL
    )
    assert page.said() == expected.sentence()
    assert page.verdict() == "ε keeps the spread below γ"


def test_a_number_out_of_range_changes_nothing(reader: Any) -> None:
    page = Page(reader(**WIDE))
    before = (page.y(), page.said())
    for field, bounds in ((page.gamma, "−5 to 5"), (page.beta, "−8 to 8")):
        page.type(field, "-9")
        assert field.get_attribute("aria-invalid") == "true"
        assert (
            bounds in page.explorer.get_by_role("alert").filter(has_text="goes").last.inner_text()
        )
    assert (page.y(), page.said()) == before


def test_everything_can_be_moved_with_the_keyboard_alone(reader: Any) -> None:
    page = Page(reader(**WIDE))
    keyboard = page.page.keyboard
    handles = page.explorer.locator(".ln-handle")
    handles.nth(1).focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowDown", "ArrowRight", "Enter"):
        keyboard.press(key)
    assert page.chosen() == [2]
    handles.nth(7).focus()
    keyboard.press("Shift+ArrowDown")
    keyboard.press("Tab")
    for _ in range(4):
        keyboard.press("ArrowRight")  # γ of the chosen feature
    keyboard.press("Tab")
    assert page.gamma.evaluate("e => e === document.activeElement")
    keyboard.press("Tab")
    keyboard.press("ArrowLeft")
    page.explorer.get_by_role("radio", name="book").focus()
    keyboard.press("ArrowRight")
    keyboard.press("Tab")
    weight, bias = (1, 1.2, *ONES[2:]), (0, 0.1, *ZEROS[2:7], -1)
    expected = GammaBetaExplorer(row="wide", weight=weight, bias=bias, feature=2)
    assert page.said() == expected.sentence()
    assert page.y() == pytest.approx(expected.terms().y.tolist(), abs=PIXEL)
    assert page.list.evaluate("e => e === document.activeElement")
    keyboard.press("ArrowUp")
    assert page.chosen() == [1]
    for key, chosen in ((" ", [3]), ("Enter", []), (" ", [3])):
        handles.nth(2).press(key)
        assert page.chosen() == chosen


def test_a_handle_tells_its_beta_and_y_in_words_and_beside_it(reader: Any) -> None:
    page = Page(reader(**WIDE))
    handle = page.explorer.locator(".ln-handle").nth(7)
    beside = page.explorer.locator("svg > .ln-moved")
    assert handle.get_attribute("aria-label") == "β of feature 8"
    assert [handle.get_attribute(f"aria-value{end}") for end in ("min", "max")] == ["-8", "8"]
    assert beside.text_content() == ""
    for key, beta in (("ArrowUp", "0.1"), ("PageDown", "−0.9"), ("End", "8"), ("Home", "−8")):
        handle.press(key)
        number = float(beta.replace("−", "-"))
        assert beside.text_content() == f"β = {beta}"
        told = f"β = {beta}, y = {tell(number + 2 * 2 / ROOT)}"
        assert handle.get_attribute("aria-valuetext") == told
        assert float(handle.get_attribute("aria-valuenow")) == number
    handle.press("Enter")
    assert handle.get_attribute("aria-valuetext").endswith(", chosen")
    handle.blur()
    assert beside.text_content() == ""


def test_what_takes_focus_keeps_its_keys_and_has_a_name(reader: Any) -> None:
    page = Page(reader(**WIDE))
    focusable = page.explorer.locator("button, input, select, summary, [tabindex]")
    assert focusable.count() == 6 + 5 + 1 + 4 + 1 + 8
    keys = "all => all.every(e => e.dataset.lmSuppressShortcuts === 'true')"
    assert focusable.evaluate_all(keys)
    assert page.explorer.get_by_label("The controls of γ and β act on").count() == 1
    assert page.gamma.get_attribute("aria-label") == "γ (no units), as a number"
    assert page.beta.get_attribute("aria-label") == "β (no units), as a number"


def test_what_comes_before_a_frame_of_the_screen_is_not_lost(reader: Any) -> None:
    explorer = reader(frames=True, **WIDE).alone(GammaBetaExplorer(feature=3))
    explorer.evaluate(
        """root => {
            const [range] = root.querySelectorAll('input[type=range]');
            const handles = root.querySelectorAll('.ln-handle');
            const press = (node, key) => node.dispatchEvent(new KeyboardEvent('keydown', { key }));
            for (const node of [handles[1], handles[1], handles[4], range, range]) {
                press(node, 'ArrowUp');
            }
            press(handles[4], 'Enter'); // and so the next one is that of feature 5
            press(range, 'ArrowDown');
        }"""
    )
    explorer.locator("[aria-valuetext$=chosen][aria-label='β of feature 5']").wait_for()
    told = explorer.locator(".ln-handle").evaluate_all("all => all.map(e => e.ariaValueNow)")
    assert told == ["0", "0.2", "0", "0", "0.1", "0", "0", "0"]
    gammas = []
    for feature in ("3", "5"):
        explorer.locator("select").evaluate(
            "(list, v) => { list.value = v; list.dispatchEvent(new Event('change')); }", feature
        )
        explorer.get_by_text(f"of feature {feature}").first.wait_for()
        gammas.append(explorer.locator("input[type=number]").first.input_value())
    assert gammas == ["1.1", "1.05"]


# --- links in the text ---------------------------------------------------------------------------


def test_a_link_sets_what_it_can_and_a_number_moves_all_features(reader: Any) -> None:
    page = Page(reader(**WIDE))
    page.explorer.evaluate(
        """root => root.querySelector('.ln-explorer')
            .addEventListener('ln-drawn', e => { window.numbers = e.detail.numbers(); })"""
    )

    def send(event: str, detail: Any) -> None:
        root = page.explorer.locator(".ln-explorer")
        root.evaluate(
            f"(e, detail) => e.dispatchEvent(new CustomEvent('{event}', {{ detail }}))", detail
        )

    def readings() -> list[str]:
        numbers = page.page.evaluate("numbers")
        return [numbers[name] for name in ("mean", "std", "weight", "bias")]

    send("ln-set", "weight=2,2,2,2,2,2,2,9&bias=1,1,1,1,1,1,1,1&row=nowhere&feature=3.2")
    up = GammaBetaExplorer(weight=(*(2,) * 7, 5), bias=ONES, feature=3)
    assert page.said() == up.sentence()
    assert page.chosen() == [3]
    of_y = up.layer().stats[2]
    assert readings() == [tell(of_y.mean), tell(of_y.std), "2.38", "1"]
    flashed = page.explorer.locator(".ln-flash").evaluate_all(
        "all => all.map(e => e.dataset.trait)"
    )
    assert set(flashed) == {"weight bias", "bias", "weight", "feature"}
    send("ln-set", "weight=2,2,2,2,2,2,2,2&row=wide")
    assert readings() == ["0", "2", "2", "0"]
    send("ln-nudge", {"trait": "weight", "by": -3})
    send("ln-nudge", {"trait": "bias", "by": 2})
    assert readings() == ["0.2", "1.85", "1.85", "0.2"]
    assert (
        page.said() == GammaBetaExplorer(row="wide", weight=(1.85,) * 8, bias=(0.2,) * 8).sentence()
    )


# --- dragging ------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", [0, 3, 8])
def test_dragging_a_dot_chooses_it_and_moves_its_own_beta(reader: Any, feature: int) -> None:
    page = Page(reader(**WIDE), bias=RAMP, feature=feature)
    before = page.y()
    page.drag(3, right=70, down=-3 * page.unit())
    assert page.y() == pytest.approx([*before[:2], before[2] + 3, *before[3:]], abs=2 * PIXEL)
    assert page.explorer.locator("svg > .ln-moved").text_content() == "β = 2.25"
    assert page.beta.input_value() == "2.25"
    assert (page.chosen(), page.list.input_value()) == ([3], "3")
    assert page.verdict() == "β differs: γ is not the spread of y"


def test_a_sideways_drag_moves_nothing(reader: Any) -> None:
    page = Page(reader(**WIDE))
    before = page.lanes()
    page.drag(3, right=150, down=0)
    assert page.lanes() == before


def test_a_drag_ends_at_the_limits_of_beta(reader: Any) -> None:
    page = Page(reader(**WIDE), weight=ZEROS, bias=(*ZEROS[:7], 7.9), feature=4)
    for side in (-1, 1):
        page.drag(4, right=0, down=30 * side * page.unit())
        assert float(page.beta.input_value()) == -8 * side


def test_no_dot_leaves_the_lane_and_its_axis_changes_only_when_a_drag_ends(reader: Any) -> None:
    page = Page(reader(**WIDE))
    mouse, unit = page.page.mouse, page.unit()
    for down, after in ((-30, 6 / 10), (5, 1)):
        x, y = page.handle(8)
        before = page.unit()
        mouse.move(x, y)
        mouse.down()
        mouse.move(x, y + down * unit, steps=2)
        assert page.unit() == before
        assert max(map(abs, page.y())) <= 0.95 * 48 / before + PIXEL
        mouse.up()
        assert page.unit() == pytest.approx(unit * after, rel=1e-2)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["mouse", "touch"])
def test_a_tap_chooses_a_feature_and_a_second_one_all(reader: Any, size: Any) -> None:
    page = Page(reader(**size))
    before = page.y()
    hit = page.page.touchscreen.tap if size is PHONE else page.page.mouse.click
    x, y = page.handle(5)
    hit(x, y + 18)  # beside the ring, within 44 px
    assert (page.chosen(), page.list.input_value()) == ([5], "5")
    hit(x, y)
    assert (page.chosen(), page.list.input_value()) == ([], "0")
    assert page.y() == before


def test_a_key_that_chooses_does_not_scroll_and_a_click_without_a_pointer_chooses(
    reader: Any,
) -> None:
    page = Page(reader(**WIDE))
    handle = page.explorer.locator(".ln-handle").nth(2)
    kept = "e => e.addEventListener('keydown', e => { window.kept = e.defaultPrevented; })"
    handle.evaluate(kept)
    for key, chosen in ((" ", [3]), ("Enter", [])):
        handle.press(key)
        assert (page.page.evaluate("kept"), page.chosen()) == (True, chosen)
    handle.dispatch_event("click")  # as a screen reader's double tap comes
    assert page.chosen() == [3]


def test_a_hand_that_trembles_taps(reader: Any) -> None:
    page = Page(reader(**WIDE))
    before = page.y()
    page.drag(5, right=1, down=3)
    assert (page.chosen(), page.y()) == ([5], before)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_dot_can_be_hit_44_px_high_and_as_wide_as_its_column(reader: Any, size: Any) -> None:
    page = Page(reader(**size))
    boxes = [box.bounding_box() for box in page.explorer.locator(".ln-handle .ln-target").all()]
    assert len(boxes) == 8
    assert page.explorer.locator(".ln-chart svg").bounding_box()["height"] <= 300
    for box, after in pairwise(boxes):
        assert box["height"] >= 44
        assert after["x"] == pytest.approx(box["x"] + box["width"], abs=0.5)
    rest = page.explorer.locator("button, select, input[type=range], .ln-choice label").all()
    assert all(part.bounding_box()["height"] >= 44 for part in rest)


# --- choosing a feature --------------------------------------------------------------------------


def test_the_chosen_feature_is_purple_in_all_lanes_and_has_arrows(reader: Any) -> None:
    page = Page(reader(**WIDE))
    page.list.select_option("6")
    svg = page.explorer.locator("svg").first
    assert page.chosen() == [6]
    assert svg.locator(".ln-on").count() == 3
    arrows = svg.locator(".ln-handle .ln-arrows").all()
    assert [i + 1 for i, one in enumerate(arrows) if one.is_visible()] == [6]
    column, dot = svg.locator(".ln-column").bounding_box(), page.handle(6)
    assert column["x"] + column["width"] / 2 == pytest.approx(dot[0], abs=1)
    page.list.select_option("0")
    assert page.chosen() == []


def test_a_field_says_what_it_acts_on(reader: Any) -> None:
    page = Page(reader(**WIDE), weight=EIGHTH_UP)
    label = page.explorer.locator(".ln-controls label").first
    slider = label.locator("input")
    assert label.inner_text() == "γ on average"
    assert slider.get_attribute("aria-valuetext") == "γ on average = 1.25"
    assert float(page.gamma.input_value()) == 1.25
    page.list.select_option("8")
    assert label.inner_text() == "γ of feature 8"
    assert slider.get_attribute("aria-valuetext") == "γ of feature 8 = 3"
    page.list.select_option("0")
    page.type(page.gamma, "2")
    assert label.inner_text() == "γ of all features"
    assert page.y() == pytest.approx(expected_y(weight=(2,) * 8), abs=PIXEL)


# --- starts --------------------------------------------------------------------------------------

STARTS = {
    "Fresh layer": {"weight": ONES, "bias": ZEROS, "feature": 0},
    "One γ, one β": {"weight": (2,) * 8, "bias": ONES, "feature": 0},
    "One feature up": {"weight": EIGHTH_UP, "bias": ZEROS, "feature": 8},
    "γ = 0": {"weight": ZEROS, "bias": RAMP, "feature": 0},
    "Undo this row": {"weight": (ROOT,) * 8, "bias": (5.0,) * 8, "feature": 0},
}


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader: Any) -> None:
    first = {"weight": (-3,) * 8, "bias": (-2,) * 8, "feature": 2}
    page = Page(reader(**WIDE), **first)
    for name, start in STARTS.items():
        page.button(name)
        assert page.y() == pytest.approx(expected_y(**start), abs=PIXEL)
        assert page.said() == GammaBetaExplorer(**start).sentence()
        assert page.verdict() == GammaBetaExplorer(**start).verdict()
        assert page.list.input_value() == str(start["feature"])
        page.row("wide")
        page.type(page.beta, "0.5")
        page.button("Reset")
        assert page.said() == GammaBetaExplorer(**first).sentence()
        assert page.list.input_value() == "2"


@pytest.mark.parametrize("eps", [1e-5, 1.0])
def test_undo_makes_y_the_row_that_is_shown_and_no_other(reader: Any, eps: float) -> None:
    page = Page(reader(**WIDE), eps=eps)
    advice = page.explorer.get_by_text("now choose another")
    for row in ROWS:
        page.row(row)
        page.button("Undo this row")
        assert page.y() == pytest.approx(ROWS[row], abs=PIXEL)
        assert page.verdict() == "y is the row itself"
        assert advice.is_visible()
        other = "wide" if row != "wide" else "book"
        page.row(other)
        assert page.y() != pytest.approx(ROWS[other], abs=0.1)
        assert page.verdict() != "y is the row itself"
        assert advice.count() == 0


def test_one_feature_up_is_the_highest_of_the_row_that_is_shown(reader: Any) -> None:
    page = Page(reader(**WIDE), row="two groups")
    page.button("One feature up")
    assert page.chosen() == [4]
    assert float(page.gamma.input_value()) == 3


# --- the rest of the picture ---------------------------------------------------------------------

H_AND_V = r"path => path.getAttribute('d').match(/-?[\d.]+/g).map(Number)"


@pytest.mark.parametrize(
    "traits",
    [
        {"weight": (-2,) * 8, "bias": (3,) * 8},
        {"weight": EIGHTH_UP, "bias": RAMP, "row": "wide"},
    ],
    ids=["one", "vector"],
)
def test_band_mean_and_what_gamma_and_beta_say_lie_where_the_numbers_say(
    reader: Any, traits: Any
) -> None:
    page = Page(reader(**WIDE), **traits)
    svg = page.explorer.locator(".ln-chart svg")
    ticks = (
        svg.locator("g:has(> .ln-grid)")
        .nth(2)
        .locator("text")
        .evaluate_all(
            "all => all.map(t => [+t.getAttribute('y') - 4, +t.textContent.replace('−', '-')])"
        )
    )
    (y0, v0), (y1, v1) = ticks[0], ticks[-1]

    def value(y: float) -> float:
        return float(v0 + (y - y0) * (v1 - v0) / (y1 - y0))

    of_y = statistics(GammaBetaExplorer(**traits).terms().y.tolist())
    _, top, _, bottom, _ = svg.locator(".ln-band.ln-s-sigma").nth(2).evaluate(H_AND_V)
    assert [value(top), value(bottom)] == pytest.approx(
        [of_y.mean + of_y.std, of_y.mean - of_y.std], abs=PIXEL
    )
    mean = svg.locator(".ln-mean.ln-s-mu").nth(2).evaluate(H_AND_V)[1]
    assert value(mean) == pytest.approx(of_y.mean, abs=PIXEL)
    *_, low, high = svg.locator(".ln-said.ln-s-gamma").evaluate(H_AND_V)
    _, middle, _ = svg.locator(".ln-said.ln-s-beta").evaluate(H_AND_V)
    gamma, beta = (shared(traits[name]).mean for name in ("weight", "bias"))
    said = [beta - abs(gamma), beta, beta + abs(gamma)]
    assert [value(low), value(middle), value(high)] == pytest.approx(said, abs=PIXEL)
    letter = svg.locator(".ln-letter").first.text_content()
    assert letter == ("|γ|" if traits["weight"] == (-2,) * 8 else "γ")


def test_what_gamma_says_beyond_the_lane_ends_with_it(reader: Any) -> None:
    page = Page(reader(**WIDE), row="constant", weight=(5,) * 8, bias=(5,) * 8)
    svg = page.explorer.locator(".ln-chart svg")
    name = float(svg.get_by_text("y = γ ⊙ x̂ + β", exact=True).get_attribute("y"))
    *_, low, high = svg.locator(".ln-said.ln-s-gamma").evaluate(H_AND_V)
    assert name < high < low  # 5 + 5 lies above the axis, which ends at 6


@pytest.mark.parametrize("traits", [*EDGES[2:], {"weight": EIGHTH_UP, "row": "wide"}])
def test_table_and_labels_tell_the_numbers_of_the_sentence(reader: Any, traits: Any) -> None:
    page = Page(reader(**WIDE), **traits)
    x, x_hat, y, said = page.table()
    lanes = ((x, "in the row"), (x_hat, "in x̂"), (y, "in y"))
    told = ", ".join(f"{mean} and {std} {where}" for (mean, std), where in lanes)
    assert f"deviation are {told};" in page.said()
    labels = page.explorer.locator(".ln-chart svg text").all_text_contents()
    assert f"mean μ {x[0]}, std σ {x[1]}" in labels
    for mean, std in (x_hat, y):
        assert f"mean {mean}, std {std}" in labels
    explorer = GammaBetaExplorer(**traits)
    for words, values, measured in (
        (said[0], explorer.bias, y[0]),
        (said[1], explorer.weight, y[1]),
    ):
        agrees = words.split()[-1] == measured
        assert words.startswith("= " if agrees else "≠ ")
        assert ("mean" in words) == (len(set(values)) > 1)


# --- phones and themes ---------------------------------------------------------------------------

OVERLAPS = """root => {
    const problems = [];
    for (const svg of root.querySelectorAll('svg')) {
        const box = e => e.getBoundingClientRect();
        const room = box(root);
        const all = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim());
        const boxes = all.map(box);
        boxes.forEach((a, i) => {
            if (a.left < room.left || a.right > room.right) problems.push(all[i].textContent);
            boxes.slice(0, i).forEach((b, j) => {
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                // A line box is 4 px higher than its letters.
                if (wide > 0 && high > 4) problems.push([all[i].textContent, all[j].textContent]);
            });
        });
    }
    return problems;
}"""
LONG = {"weight": (-9.99e-4, *ZEROS[1:]), "bias": (-9.99e-4 * 8, *ZEROS[1:]), "eps": 0.5}


# As much room as in the book on a phone of 320 px.
NARROW = {"viewport": {"width": 338, "height": 700}}


@pytest.mark.parametrize(
    ("size", "states"),
    [(WIDE, [*EDGES, LONG]), (PHONE, [*EDGES, LONG]), (NARROW, [{}])],
    ids=["wide", "phone", "narrow"],
)
def test_no_text_overlaps_another_and_nothing_is_wider_than_the_window(
    reader: Any, size: Any, states: Any
) -> None:
    someone = reader(**size)
    for traits in states:
        explorer = someone.alone(GammaBetaExplorer(**traits)).locator(".ln-explorer")
        assert explorer.evaluate(OVERLAPS) == [], traits
        width = size["viewport"]["width"]
        assert someone.page.evaluate("document.documentElement.scrollWidth") <= width
        frame = explorer.bounding_box()
        for part in explorer.locator("> :visible").all():
            box = part.bounding_box()
            assert box["x"] >= frame["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(reader: Any, theme: str) -> None:
    someone = reader(**PHONE)
    page = Page(someone, weight=EIGHTH_UP, feature=8)
    if theme == "dark":
        # The page around the explorer has no dark theme of its own.
        someone.page.evaluate(
            "document.documentElement.dataset.theme = 'dark';"
            "document.body.style.cssText = 'background: #14181e; color: #e6edf3'"
        )
    found = violations(page.page)
    serious = {v["id"]: v["nodes"] for v in found if v["impact"] in ("serious", "critical")}
    assert serious == {}
    assert page.page.locator("main h1").count() == 1
