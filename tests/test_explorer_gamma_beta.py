from __future__ import annotations

import itertools
import math
from itertools import pairwise
from typing import Any

import pytest
import torch

from conftest import violations
from lnlib import formula
from lnlib.book.explorers import GammaBetaExplorer
from lnlib.book.explorers.gamma_beta import ROWS, bins, statistics, tell

ONES, ZEROS = (1.0,) * 12, (0.0,) * 12
RAMP = tuple(i / 2 - 2.75 for i in range(12))
EIGHTH_UP = (*ONES[:7], 3.0, *ONES[8:])
EDGES = [
    {},
    {"row": "constant"},
    {"row": "constant", "weight": (5,) * 12, "bias": (8,) * 12, "eps": 1e-12},
    {"weight": (5,) * 12, "bias": (8,) * 12, "feature": 8},
    {"row": "wide", "weight": (-5,) * 12, "bias": (-8,) * 12, "feature": 12, "eps": 1},
    {"row": "two groups", "weight": (5, -5) * 6, "bias": (8, -8) * 6, "feature": 1},
    {"row": "narrow", "weight": ZEROS, "bias": RAMP, "eps": 1},
]


# --- traits --------------------------------------------------------------------------------------


def test_defaults_are_those_of_a_fresh_layer():
    explorer, layer = GammaBetaExplorer(), torch.nn.LayerNorm(12)
    assert explorer.weight == tuple(layer.weight.tolist()) == ONES
    assert explorer.bias == tuple(layer.bias.tolist()) == ZEROS
    assert explorer.eps == layer.eps == 1e-5
    assert (explorer.row, explorer.feature) == ("skewed", 0)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_eighths_and_their_mean_and_variance_have_no_rounding(name):
    x = torch.tensor(ROWS[name], dtype=torch.float64)
    assert x.shape == (12,)
    assert torch.equal(x * 8, (x * 8).round())
    terms = formula.terms(x)
    for exact in (terms.mean.item(), terms.var.item()):
        assert exact * 1024 == round(exact * 1024)
    assert terms.mean.item() == statistics(ROWS[name]).mean
    assert terms.var.item() == statistics(ROWS[name]).variance


# --- the sentence --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traits", "parts"),
    [
        (
            {"weight": (2,) * 12, "bias": (1,) * 12},
            "The row has mean 3 and standard deviation 2; x̂ has 0 and 1; y has 1 and 2. γ is 2 and "
            "β is 1 for all features, so they are the standard deviation and the mean of y. "
            "The largest |y − x| is 2.",
        ),
        (
            {"weight": (-2,) * 12},
            "γ is −2 and β is 0 for all features, so |γ| and β are the standard deviation and the "
            "mean of y.",
        ),
        (
            {"weight": EIGHTH_UP},
            "γ differs between features: its mean is 1.17, but the standard deviation of y is "
            "2.37; β is 0 for all features, but the mean of y is 0.448.",
        ),
        (
            {"bias": RAMP, "row": "wide"},
            "γ is 1 for all features, but the standard deviation of y is 2.09; "
            "β differs between features: its mean is 0, and so is the mean of y.",
        ),
        (
            {"weight": ZEROS, "bias": RAMP},
            "y has 0 and 1.73. γ is 0 for all features, so y is β, whatever the row.",
        ),
        (
            {"row": "narrow", "eps": 1, "weight": (2,) * 12},
            "γ is 2 and β is 0 for all features, so β is the mean of y; but ε = 1 is not small "
            "next to σ² = 0.0625, and the standard deviation of y is 0.485.",
        ),
        (
            {"row": "constant", "weight": EIGHTH_UP},
            "standard deviation 0; x̂ has 0 and 0; y has 0 and 0. x̂ is 0, so y is β, whatever γ is. "
            "The largest |y − x| is 1.5.",
        ),
        (
            {"weight": (math.sqrt(4 + 1e-5),) * 12, "bias": (3,) * 12},
            "y has 3 and 2. γ is 2 and β is 3 for all features, so they are the standard deviation "
            "and the mean of y. y is the row itself.",
        ),
        (
            {"row": "wide", "weight": (math.sqrt(4 + 1e-5),) * 12, "bias": (3,) * 12},
            "y has 3 and 2. γ is 2 and β is 3 for all features, so they are the standard deviation "
            "and the mean of y. The largest |y − x| is 7.1",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else ",".join(value),
)
def test_sentence_answers_the_question(traits, parts):
    assert parts in GammaBetaExplorer(**traits).sentence()


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
    *lanes, values = explorer.picture().axes
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
    links = [line.get_xdata() for line in values.lines[:12]]
    assert [x for x, _ in links] == pytest.approx(terms.x_hat.tolist(), abs=1e-12)
    assert [y for _, y in links] == pytest.approx(terms.y.tolist(), abs=1e-12)


def test_picture_marks_what_gamma_and_beta_say_and_the_chosen_feature():
    explorer = GammaBetaExplorer(weight=(2,) * 12, bias=(1,) * 12, feature=5)
    lanes = explorer.picture().axes[:3]
    beam = lanes[2].lines[-1]
    assert list(beam.get_ydata()) == [-1, 1, 3]
    assert lanes[2].get_title() == "β 1, γ 2"
    for ax in lanes:
        chosen = ax.patches[1]
        assert chosen.get_x() + chosen.get_width() / 2 == pytest.approx(5)
    explorer.weight = EIGHTH_UP
    assert explorer.picture().axes[2].get_title() == "β 1, mean γ 1.17"


# --- the page's arithmetic -----------------------------------------------------------------------


def golden_states() -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)

    def random(size: float) -> list[float]:
        values = size * (2 * torch.rand(12, generator=generator, dtype=torch.float64) - 1)
        return [round(v, 2) for v in values.tolist()]

    alike = [[v] * 12 for v in (0.0, 1.0, -2.125, 2.125, 0.1, 5.0, 1e-7)]
    vectors = [list(RAMP), list(EIGHTH_UP), random(5), random(0.01)]
    states = [
        {"row": row, "eps": eps, "weight": weight, "bias": bias, "feature": 0}
        for row in ROWS
        for eps in (1e-12, 1e-5, 0.01, 1.0)
        for weight in (*alike, *vectors, random(5))
        for bias in (*alike, *vectors, random(5))
    ]
    for row, x in ROWS.items():  # undone
        mean, _, variance = statistics(x)
        weight = [math.sqrt(variance + 1e-5)] * 12
        bias = [mean] * 12
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
    }


def test_javascript(run_js):
    traits = GammaBetaExplorer.class_traits()
    names = ("row", "weight", "bias", "eps", "feature")
    spread = torch.linspace(-3, 3, 41, dtype=torch.float64).tolist()
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
        "bins": [
            {"values": values, "width": width, "placed": bins(values, width)}
            for values in (spread, list(ROWS["skewed"]), list(RAMP))
            for width in (0.5, 1.0)
        ],
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
        self.list = self.explorer.locator("select")
        self.gamma, self.beta = self.explorer.locator("input[type=number]").all()

    def button(self, name: str) -> None:
        self.explorer.get_by_role("button", name=name, exact=True).click()

    def row(self, name: str) -> None:
        self.explorer.get_by_role("radio", name=name, exact=True).check(force=True)

    def type(self, field: Any, value: str) -> None:
        field.fill(value)
        field.press("Enter")

    def said(self) -> str:
        """The sentence, once it has caught up with the picture."""
        self.page.clock.run_for(400)
        return str(self.explorer.locator(".ln-sentence").inner_text().replace("\xa0", " "))

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
            """root => [...root.querySelector('svg').querySelectorAll('.ln-dot:not(.ln-hollow)')]
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
    const marks = ['.ln-dot:not(.ln-hollow)', '.ln-hollow', '.ln-handle'];
    const lanes = marks.map((mark, i) => [...svg.querySelectorAll(mark)].map(place)
        .map(([x, y]) => [feature(x), scales[i].value(y)]));
    lanes.unit = scales[2].unit;
    return lanes;
})(document.querySelector('.ln-explorer'))"""
WIDE = {"viewport": {"width": 810, "height": 1000}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
PIXEL = 0.06  # what a tenth of a pixel, in which the drawing is rounded, is at most in units of y


def expected_y(**traits: Any) -> list[float]:
    return GammaBetaExplorer(**traits).terms().y.tolist()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_lanes_agree_with_their_axes(reader: Any, size: Any) -> None:
    page = Page(reader(**size), weight=EIGHTH_UP, bias=RAMP)
    for row in ROWS:
        page.row(row)
        terms = GammaBetaExplorer(row=row, weight=EIGHTH_UP, bias=RAMP).terms()
        for lane, values in zip(page.lanes(), (ROWS[row], terms.x_hat, terms.y), strict=True):
            assert [feature for feature, _ in lane] == list(range(1, 13))
            assert [v for _, v in lane] == pytest.approx(list(map(float, values)), abs=PIXEL)


def test_more_is_higher_and_further_right_and_each_lane_has_its_name(reader: Any) -> None:
    page = Page(reader(**WIDE))
    lanes, values = (page.explorer.locator("svg").nth(i) for i in (0, 1))
    place = """(all, name) => all.map(t =>
        [Number(t.textContent.replace('−', '-')), +t.getAttribute(name)])"""
    axes = lanes.locator("g:has(> .ln-grid)")
    names = ["x (units of x)", "x̂ (no units)", "y = γ ⊙ x̂ + β"]
    for i, name in enumerate(names):
        ticks = sorted(axes.nth(i).locator("text").evaluate_all(place, "y"))
        heights = [y for _, y in ticks]
        assert heights == sorted(heights, reverse=True)
        title = float(lanes.get_by_text(name, exact=True).get_attribute("y"))
        assert 10 < heights[-1] - title < 50  # right above its highest tick
    for ticks in (lanes, values):
        across = [x for _, x in sorted(ticks.locator(".ln-tick").evaluate_all(place, "x"))]
        assert across == sorted(across)
    above, below = (values.get_by_text(name, exact=True) for name in ("x̂", "y"))
    assert float(above.get_attribute("y")) < float(below.get_attribute("y"))


def test_a_typed_number_moves_the_chosen_features(reader: Any) -> None:
    page = Page(reader(**WIDE), row="wide")
    controls = ((page.gamma, "weight", ONES), (page.beta, "bias", ZEROS))
    for feature, (field, trait, before) in itertools.product((0, 1, 12), controls):
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
    assert "ε = 1 is not small" in page.said()


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
    page.explorer.get_by_role("radio", name="skewed").focus()
    keyboard.press("ArrowRight")
    keyboard.press("Tab")  # from the rows to the list: the drawing takes no focus
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    keyboard.press("Tab")
    for _ in range(4):
        keyboard.press("ArrowRight")
    keyboard.press("Tab")
    assert page.gamma.evaluate("e => e === document.activeElement")
    keyboard.press("Tab")
    keyboard.press("ArrowLeft")
    weight, bias = (1, 1.2, *ONES[2:]), (0, -0.1, *ZEROS[2:])
    expected = GammaBetaExplorer(row="wide", weight=weight, bias=bias, feature=2)
    assert page.said() == expected.sentence()
    assert page.chosen() == [2]


def test_what_takes_focus_keeps_its_keys_and_has_a_name(reader: Any) -> None:
    page = Page(reader(**WIDE))
    focusable = page.explorer.locator("button, input, select, [tabindex]")
    assert focusable.count() == 6 + 5 + 1 + 4
    keys = "all => all.every(e => e.dataset.lmSuppressShortcuts === 'true')"
    assert focusable.evaluate_all(keys)
    assert page.explorer.get_by_label("γ and β of").count() == 1
    assert page.gamma.get_attribute("aria-label") == "Scale γ (no units), as a number"
    assert page.beta.get_attribute("aria-label") == "Shift β (no units), as a number"


# --- dragging ------------------------------------------------------------------------------------


def test_dragging_a_dot_moves_every_beta_while_all_features_are_chosen(reader: Any) -> None:
    page = Page(reader(**WIDE))
    before = page.y()
    page.drag(3, right=70, down=-3 * page.unit())
    assert page.y() == pytest.approx([v + 3 for v in before], abs=2 * PIXEL)
    assert float(page.beta.input_value()) == pytest.approx(3, abs=0.01)
    assert page.list.input_value() == "0"


def test_dragging_a_dot_keeps_the_differences_between_betas(reader: Any) -> None:
    page = Page(reader(**WIDE), weight=ZEROS, bias=RAMP)
    page.drag(3, right=0, down=2 * page.unit())
    assert page.y() == pytest.approx([v - 2 for v in RAMP], abs=2 * PIXEL)


def test_dragging_the_dot_of_the_chosen_feature_moves_it_alone(reader: Any) -> None:
    page = Page(reader(**WIDE), feature=3)
    before = page.y()
    page.drag(3, right=-30, down=4 * page.unit())
    assert page.y() == pytest.approx([*before[:2], before[2] - 4, *before[3:]], abs=2 * PIXEL)


def test_dragging_the_dot_of_another_feature_chooses_it(reader: Any) -> None:
    page = Page(reader(**WIDE), feature=3)
    before = page.y()
    page.drag(9, right=0, down=-4 * page.unit())
    assert page.y() == pytest.approx([*before[:8], before[8] + 4, *before[9:]], abs=2 * PIXEL)
    assert page.chosen() == [9]
    assert page.list.input_value() == "9"


def test_a_sideways_drag_moves_nothing(reader: Any) -> None:
    page = Page(reader(**WIDE))
    before = page.lanes()
    page.drag(3, right=150, down=0)
    assert page.lanes() == before


def test_a_drag_ends_at_the_limits_of_beta(reader: Any) -> None:
    page = Page(reader(**WIDE), weight=ZEROS, feature=4)
    page.drag(4, right=0, down=-30 * page.unit())
    assert float(page.beta.input_value()) == 8
    page.drag(4, right=0, down=30 * page.unit())
    assert float(page.beta.input_value()) == -8


def test_no_dot_leaves_the_lane_while_it_is_dragged(reader: Any) -> None:
    page = Page(reader(**WIDE))
    unit = page.unit()
    page.drag(1, right=0, down=-30 * unit)
    assert max(page.y()) == pytest.approx(10, abs=PIXEL)
    assert page.unit() == unit  # the axis is the same


def test_the_axis_narrows_only_when_a_drag_ends(reader: Any) -> None:
    page = Page(reader(**WIDE), bias=(*ZEROS[:7], 8.0, *ZEROS[8:]), feature=8)
    wide = page.unit()
    x, y = page.handle(8)
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x, y + 5 * wide)
    assert page.unit() == wide
    page.page.mouse.up()
    assert page.unit() == pytest.approx(wide * 24 / 11, rel=1e-2)
    assert page.y()[7] == pytest.approx(2.6875 + 3, abs=0.2)


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


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_dot_can_be_hit_44_px_high_and_as_wide_as_its_column(reader: Any, size: Any) -> None:
    page = Page(reader(**size))
    boxes = [box.bounding_box() for box in page.explorer.locator(".ln-handle .ln-target").all()]
    assert len(boxes) == 12
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
    assert svg.locator(".ln-hollow").evaluate_all(
        "all => all.flatMap((e, i) => e.classList.contains('ln-on') ? [i + 1] : [])"
    ) == [6]
    arrows = svg.locator(".ln-handle .ln-arrows").all()
    assert [i + 1 for i, one in enumerate(arrows) if one.is_visible()] == [6]
    column, dot = svg.locator(".ln-column").bounding_box(), page.handle(6)
    assert column["x"] + column["width"] / 2 == pytest.approx(dot[0], abs=1)
    page.list.select_option("0")
    assert page.chosen() == []


def test_values_that_differ_are_said_to_be_a_mean(reader: Any) -> None:
    page = Page(reader(**WIDE), weight=EIGHTH_UP)
    label = page.explorer.locator(".ln-field label").filter(has_text="Scale γ")
    slider = label.locator("input")
    assert "(mean of 12 values)" in label.inner_text()
    assert slider.get_attribute("aria-valuetext") == "γ = 1.17, the mean of 12 values"
    assert float(page.gamma.input_value()) == pytest.approx(14 / 12, abs=1e-4)
    page.list.select_option("8")
    assert "(no units)" in label.inner_text()
    assert slider.get_attribute("aria-valuetext") == "γ = 3"
    page.list.select_option("0")
    page.type(page.gamma, "2")
    assert "(no units)" in label.inner_text()
    assert page.y() == pytest.approx(expected_y(weight=(2,) * 12), abs=PIXEL)


# --- starts --------------------------------------------------------------------------------------

STARTS = {
    "Fresh layer": {"weight": ONES, "bias": ZEROS, "feature": 0},
    "One γ, one β": {"weight": (2,) * 12, "bias": ONES, "feature": 0},
    "One feature up": {"weight": EIGHTH_UP, "bias": ZEROS, "feature": 8},
    "γ = 0": {"weight": ZEROS, "bias": RAMP, "feature": 0},
    "Undo this row": {"weight": (math.sqrt(4 + 1e-5),) * 12, "bias": (3.0,) * 12, "feature": 0},
}


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader: Any) -> None:
    first = {"weight": (-3,) * 12, "bias": (-2,) * 12, "feature": 2}
    page = Page(reader(**WIDE), **first)
    for name, start in STARTS.items():
        page.button(name)
        assert page.y() == pytest.approx(expected_y(**start), abs=PIXEL)
        assert page.said() == GammaBetaExplorer(**start).sentence()
        assert page.list.input_value() == str(start["feature"])
        page.row("wide")
        page.type(page.beta, "0.5")
        page.button("Reset")
        assert page.said() == GammaBetaExplorer(**first).sentence()
        assert page.list.input_value() == "2"


@pytest.mark.parametrize("eps", [1e-5, 1.0])
def test_undo_makes_y_the_row_that_is_shown_and_no_other(reader: Any, eps: float) -> None:
    page = Page(reader(**WIDE), eps=eps)
    advice = page.explorer.get_by_text("y = x for this row; choose another")
    for row in ROWS:
        page.row(row)
        page.button("Undo this row")
        assert page.y() == pytest.approx(ROWS[row], abs=PIXEL)
        assert page.said().endswith("y is the row itself.")
        assert advice.is_visible()
        other = "wide" if row != "wide" else "skewed"
        page.row(other)
        assert page.y() != pytest.approx(ROWS[other], abs=0.1)
        assert "The largest |y − x| is" in page.said()
        assert advice.count() == 0


def test_one_feature_up_is_the_highest_of_the_row_that_is_shown(reader: Any) -> None:
    page = Page(reader(**WIDE), row="two groups")
    page.button("One feature up")
    assert page.chosen() == [5]
    assert float(page.gamma.input_value()) == 3


# --- the rest of the picture ---------------------------------------------------------------------

H_AND_V = r"path => path.getAttribute('d').match(/-?[\d.]+/g).map(Number)"


@pytest.mark.parametrize(
    "traits",
    [
        {"weight": (-2,) * 12, "bias": (3,) * 12},
        {"weight": EIGHTH_UP, "bias": RAMP, "row": "wide"},
    ],
    ids=["one", "vector"],
)
def test_band_mean_and_beam_lie_where_the_numbers_say(reader: Any, traits: Any) -> None:
    page = Page(reader(**WIDE), **traits)
    svg = page.explorer.locator("svg").first
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
    _, top, _, bottom, _ = svg.locator(".ln-band.ln-blue").evaluate(H_AND_V)
    assert [value(top), value(bottom)] == pytest.approx(
        [of_y.mean + of_y.std, of_y.mean - of_y.std], abs=PIXEL
    )
    assert value(svg.locator(".ln-mean.ln-blue").evaluate(H_AND_V)[1]) == pytest.approx(
        of_y.mean, abs=PIXEL
    )
    *_, low, high = svg.locator(".ln-beam").evaluate(H_AND_V)
    gamma, beta = (
        sum(GammaBetaExplorer(**traits).trait_values()[n]) / 12 for n in ("weight", "bias")
    )
    assert [value(low), value(high)] == pytest.approx(
        [beta - abs(gamma), beta + abs(gamma)], abs=PIXEL
    )


def test_the_histogram_stands_at_the_values_and_its_lines_join_them(reader: Any) -> None:
    traits = {"weight": EIGHTH_UP, "bias": RAMP, "feature": 8}
    page = Page(reader(**WIDE), **traits)
    svg = page.explorer.locator("svg").nth(1)
    ticks = svg.locator(".ln-tick").evaluate_all(
        "all => all.map(t => [+t.getAttribute('x'), +t.textContent.replace('−', '-')])"
    )
    (x0, v0), (x1, v1) = ticks[0], ticks[-1]

    def value(x: float) -> float:
        return float(v0 + (x - x0) * (v1 - v0) / (x1 - x0))

    terms = GammaBetaExplorer(**traits).terms()
    place = "all => all.map(e => e.getAttribute('transform').match(/-?[\\d.]+/g).map(Number))"
    for mark, values, side in ((".ln-hollow", terms.x_hat, -1), (".ln-mark", terms.y, 1)):
        dots = svg.locator(mark).evaluate_all(place)
        placed = bins(values.tolist(), 0.5)
        assert [value(x) for x, _ in dots] == pytest.approx([x for x, _ in placed], abs=PIXEL)
        first = next(y for (_, y), (_, level) in zip(dots, placed, strict=True) if level == 0)
        for (_, y), (_, level) in zip(dots, placed, strict=True):
            assert (y - first) * side == pytest.approx(8.4 * level, abs=0.11)
    path = svg.locator(".ln-stems").evaluate(H_AND_V)
    assert [value(x) for x in path[0::4]] == pytest.approx(terms.x_hat.tolist(), abs=PIXEL)
    assert [value(x) for x in path[2::4]] == pytest.approx(terms.y.tolist(), abs=PIXEL)
    own = svg.locator(".ln-rule").evaluate(H_AND_V)
    assert own == path[28:32]  # feature 8


def test_one_gamma_multiplies_every_gap_and_many_change_the_shape(reader: Any) -> None:
    page = Page(reader(**WIDE))
    words = page.explorer.locator(".ln-title small").nth(1)
    assert words.inner_text() == "every gap × 1"
    page.button("One γ, one β")
    assert words.inner_text() == "every gap × 2"
    page.type(page.gamma, "-2.5")
    assert words.inner_text() == "every gap × −2.5"
    for name in ("One feature up", "γ = 0"):
        page.button(name)
        assert words.inner_text() == "another shape"


@pytest.mark.parametrize("traits", [*EDGES[2:], {"weight": EIGHTH_UP, "row": "wide"}])
def test_table_and_labels_tell_the_numbers_of_the_sentence(reader: Any, traits: Any) -> None:
    page = Page(reader(**WIDE), **traits)
    x, x_hat, y, said = page.table()
    told = page.said()
    assert f"The row has mean {x[0]} and standard deviation {x[1]};" in told
    assert f"x̂ has {x_hat[0]} and {x_hat[1]};" in told
    assert f"y has {y[0]} and {y[1]}." in told
    labels = page.explorer.locator("svg").first.locator("text").all_text_contents()
    for mean, std in (x, x_hat, y):
        assert f"mean {mean}, std {std}" in labels
    assert f"{said[0]}, {said[1]}" in labels
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
LONG = {"weight": (-9.99e-4, *ZEROS[1:]), "bias": (-9.99e-4 * 12, *ZEROS[1:]), "eps": 0.5}


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
        for part in explorer.locator("> *").all():
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
