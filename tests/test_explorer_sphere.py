"""The sphere explorer: its numbers against lnlib.formula, its picture against its numbers."""

from __future__ import annotations

import io
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from conftest import violations
from lnlib import formula
from lnlib.book.explorers import SphereExplorer, sphere
from lnlib.book.explorers.base import number

DEFAULT = (0.0, 0.8, 3.7)
ORDINARY = {"x": DEFAULT, "weight": (1, 1, 1), "bias": (0, 0, 0), "eps": 1e-5}
STARTS = {
    "Ordinary row": ORDINARY,
    "Constant row": {**ORDINARY, "x": (2, 2, 2)},
    "One outlier": {**ORDINARY, "x": (0, 0, 6)},
    "Huge mean": {**ORDINARY, "x": (1000, 1001, 1003)},
    "Large ε": {**ORDINARY, "eps": 1},
    "γ makes an ellipse": {**ORDINARY, "weight": (2, 1, 0.5), "bias": (0, 1, 0)},
}


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def terms_of(state: dict[str, Any]) -> formula.Terms:
    x, weight, bias = (tensor(state[name]) for name in ("x", "weight", "bias"))
    return formula.terms(x, weight, bias, eps=state["eps"])


# --- traits --------------------------------------------------------------------------------------


def test_defaults_lie_clearly_above_the_plane_and_off_the_circle():
    explorer = SphereExplorer()
    assert (explorer.x, explorer.eps) == (DEFAULT, torch.nn.LayerNorm(3).eps)
    assert (explorer.weight, explorer.bias) == ((1, 1, 1), (0, 0, 0))
    terms = explorer.terms()
    assert terms.mean.item() > 1
    assert terms.std.item() > 1.4


# --- the numbers ---------------------------------------------------------------------------------

EPS = [1e-12, 1e-5, 0.37, 10.0]
AFFINE = [((1, 1, 1), (0, 0, 0)), ((2, 1, 0.5), (0, 1, 0)), ((-1.5, 0.3, 3), (0.25, -3, 1))]
AFFINE += [((1, 1, 2), (0, 0, 0)), ((1, 1, 1), (0, 0, 0.5))]  # one of six numbers is changed


def rows() -> list[list[float]]:
    generator = np.random.default_rng(0)
    random = [generator.normal(0, scale, 3).tolist() for scale in (1e-6, 0.1, 1, 3, 30, 3000)]
    return [
        *random,
        *(generator.normal(mean, 1, 3).tolist() for mean in (1e3, -1e3, 5)),
        *([c, c, c] for c in (2.0, 0.1, 0.0, -7.3, 1e4)),
        *([0.0, 0.0, 6.0], [6.0, 0.0, 0.0], [1000.0, 1001.0, 1003.0], [0.0, 0.8, 3.7]),
        *([0.1, 0.2, 0.3], [-0.1, -0.2, 0.3], [-1e4, 1e4, 3.0], [1.0, 1.0, 1.0001]),
        # Six digits for the largest feature alone; a mean that is all rounding errors.
        *([5000.0, 5050.5, 5101.0], [1e4, -9999.9, -0.1]),
    ]


def autograd_jacobian(x: torch.Tensor, eps: float) -> torch.Tensor:
    def x_hat(values):
        return formula.layer_norm(values, eps=eps)

    if x.min() != x.max():
        return torch.autograd.functional.jacobian(x_hat, x)
    # At a constant row autograd meets 0/0 in √; the map is smooth there and the same for every
    # mean. A step of 1e-30 from 0 is so small that the quotient is the derivative to all digits.
    return torch.stack([x_hat(1e-30 * e) / 1e-30 for e in torch.eye(3).double()], dim=1)


def golden_case(x: list[float], eps: float, weight: Any, bias: Any) -> dict[str, Any]:
    state: dict[str, Any] = {"x": x, "weight": list(weight), "bias": list(bias), "eps": eps}
    terms = terms_of(state)
    jacobian = autograd_jacobian(tensor(x), eps)
    return {
        **state,
        "mean": terms.mean.item(),
        "std": terms.std.item(),
        "s": terms.denominator.item(),
        "rstd": terms.rstd.item(),
        "centered": (tensor(x) - terms.mean).tolist(),
        "xHat": terms.x_hat.tolist(),
        "y": terms.y.tolist(),
        "constant": min(x) == max(x),
        "jacobian": jacobian.tolist(),
        "eigenvalues": torch.linalg.eigvalsh((jacobian + jacobian.T) / 2).tolist(),
        "sentence": SphereExplorer(**state).sentence(),
    }


def golden() -> dict[str, Any]:
    traits = SphereExplorer.class_traits()
    triples, numbers = ("x", "weight", "bias"), ("eps", "turn")
    bounds = {name: traits[name].each for name in triples} | {n: traits[n] for n in numbers}
    generator = np.random.default_rng(1)
    points = [(generator.normal(0, 3, 3).tolist(), t) for t in generator.uniform(-180, 180, 40)]
    places = [([0.0, 0.8, 3.7], -90.0), ([1e3, 1001.0, 1003.0], 30.0), ([-6.0, 6.0, -6.0], 10.0)]
    places += [([-2000.0, 1000.0, -900.0], 40.0), ([-3.0, -1.0, -5.0], 120.0), *points]
    affine = itertools.cycle(AFFINE)
    return {
        "defaults": {
            **{name: list(traits[name].default_value) for name in triples},
            **{name: traits[name].default_value for name in numbers},
        },
        "limits": {name: [each.low, each.high] for name, each in bounds.items()},
        "cases": [golden_case(x, eps, *next(affine)) for x in rows() for eps in EPS],
        "projections": [
            {"point": point, "turn": turn, "seen": sphere.project(tensor(point), turn).tolist()}
            for point, turn in points
        ],
        "places": [golden_place(x, turn) for x, turn in places],
    }


def golden_place(x: list[float], turn: float) -> dict[str, Any]:
    mean = sum(x) / 3
    placed = sphere.place(mean, tensor(x) - mean, turn)
    return {
        "x": x,
        "turn": turn,
        "shadow": placed.shadow.tolist(),
        "top": placed.top.tolist(),
        "far": placed.far,
        "cut": placed.cut,
    }


def test_javascript(run_js):
    run_js("sphere", golden(), at_least=25)


@pytest.mark.parametrize("x", rows(), ids=str)
@pytest.mark.parametrize("eps", EPS)
def test_the_pictures_jacobian_and_factors_are_autograds(x, eps):
    jacobian = autograd_jacobian(tensor(x), eps)
    terms = SphereExplorer(x=x, eps=eps).terms()
    s = terms.denominator.item()
    noise = 4e-16 * max(map(abs, x)) / s  # how far rounding moves x − μ, in units of s
    bound = (1e-12 + noise) / s
    torch.testing.assert_close(sphere.jacobian(terms.x_hat, s), jacobian, rtol=0, atol=bound)
    values = torch.linalg.eigvalsh((jacobian + jacobian.T) / 2)
    torch.testing.assert_close(tensor(sorted(sphere.steps(s, eps))), values, rtol=0, atol=bound)


def camera(turn: float) -> torch.Tensor:
    """Right, up and towards the camera, by turning the first feature's axis about (1, 1, 1)."""
    up = torch.ones(3, dtype=torch.float64) / math.sqrt(3)
    first = tensor([1.0, 0, 0]) - up * up[0]
    skew = torch.stack([torch.linalg.cross(up, e) for e in torch.eye(3).double()], dim=1)
    front = torch.linalg.matrix_exp(math.radians(turn) * skew) @ (first / first.norm())
    near = math.cos(math.pi / 7) * front + math.sin(math.pi / 7) * up
    right = torch.linalg.cross(up, front)
    return torch.stack([right, torch.linalg.cross(near, right), near])


@pytest.mark.parametrize("turn", [-180, -90, 0, 33, 150])
def test_what_is_seen_is_a_camera_turned_about_one_one_one(turn):
    points = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    seen = sphere.project(points, turn)
    torch.testing.assert_close(seen, points @ camera(turn).T, rtol=0, atol=1e-12)


# --- the sentence --------------------------------------------------------------------------------


def test_the_sentence_tells_the_numbers():
    told = SphereExplorer().sentence()
    terms = terms_of(ORDINARY)
    assert told.startswith("x = (0, 0.8, 3.7) has mean μ = 1.5 and standard deviation σ = 1.59.")
    assert "x̂ = (−0.944, −0.44, 1.38) has length 1.73; √3 is 1.73." in told
    s = terms.denominator.item()
    assert f"by 0, along x̂ by ε/s³ = {number(1e-5 / s**3)} and along the circle by 1/s = " in told
    assert f"1/s = {number(1 / s)}." in told
    assert told.endswith("With γ = 1 and β = 0, y is x̂.")


def test_the_sentence_tells_y_once_gamma_or_beta_is_moved():
    told = SphereExplorer(weight=(2, 1, 0.5), bias=(0, 1, 0)).sentence()
    assert "With γ = (2, 1, 0.5) and β = (0, 1, 0), y = (−1.89, 0.56, 0.692)." in told
    assert "y = (−0.944, −0.44, 2.38)" in SphereExplorer(bias=(0, 0, 1)).sentence()


def test_the_sentence_of_a_constant_row_says_what_is_special():
    told = SphereExplorer(x=(2, 2, 2), bias=(0, 1, 0)).sentence()
    assert "x = (2, 2, 2) is a constant row: σ = 0, so x̂ = (0, 0, 0), the center" in told
    assert "y = β = (0, 1, 0)" in told
    assert "1/√ε = 316, an eigenvalue that it has twice" in told
    assert "constant row" in SphereExplorer(x=(0.1, 0.1, 0.1)).sentence()


def test_the_sentence_keeps_apart_what_three_digits_would_not():
    assert (
        "x = (1000, 1001, 1003) has mean μ = 1001.33"
        in SphereExplorer(x=(1000, 1001, 1003)).sentence()
    )


def test_the_sentence_writes_no_rounding_errors():
    assert "e-1" not in SphereExplorer(x=(0.1, 0.2, 0.3)).sentence()
    assert "mean μ = 0 " in SphereExplorer(x=(-0.1, -0.2, 0.3)).sentence()


# --- the still picture ---------------------------------------------------------------------------

EDGES = [
    *STARTS.values(),
    *({"x": x, "turn": turn} for x in [(-1e4, 1e4, 0), (1e4, 1e4, 1e4)] for turn in (-180, 77)),
    {"x": (-3, -1, -5), "eps": 1e-12, "turn": 120},
    {"x": (6, -6, 5), "weight": (3, -3, 2), "bias": (3, 3, -3), "eps": 10, "turn": 180},
]


@pytest.mark.parametrize("state", EDGES, ids=str)
def test_picture_can_be_drawn_at_every_edge_and_is_small(state):
    png = SphereExplorer(**state).png()
    assert len(png) < 15_000
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width == 640


def drawn(state: dict[str, Any]) -> tuple[dict[str, np.ndarray], Any]:
    """The marks of the still picture by color and shape, and its axes."""
    space, matrix = SphereExplorer(**state).picture().axes
    marks = {}
    for line in space.lines:
        if line.get_marker() != "None":
            hollow = line.get_markerfacecolor() == "white"
            marks[line.get_color() + ("hollow" if hollow else "")] = line.get_xydata()[0]
    return marks, (space, matrix)


def test_the_picture_draws_the_points_of_the_formula():
    state = {**STARTS["γ makes an ellipse"], "turn": -60}
    marks, (space, _) = drawn(state)
    terms = terms_of(state)
    points = {
        sphere.MOVED: tensor(state["x"]),
        sphere.MOVED + "hollow": tensor(state["x"]) - terms.mean,
        sphere.BLUE: terms.x_hat,
        sphere.GREEN: terms.y,
    }
    assert set(marks) == set(points)
    for key, point in points.items():
        seen = camera(-60)[:2] @ point
        assert marks[key] == pytest.approx(seen.numpy(), abs=1e-9), key
    ellipse = next(line for line in space.lines if line.get_color() == sphere.GREEN)
    to_y = marks[sphere.GREEN] - ellipse.get_xydata()
    assert np.hypot(*to_y.T).min() < 0.1  # y lies on the ellipse


def test_the_picture_labels_its_matrix_and_colors_it_by_sign():
    _, (_, matrix) = drawn({})
    jacobian = autograd_jacobian(tensor(DEFAULT), 1e-5)
    words = {tuple(int(v) for v in t.get_position()): t.get_text() for t in matrix.texts}
    for i, j in itertools.product(range(3), range(3)):
        assert words[j, -i] == number(jacobian[i, j].item())
    for patch, value in zip(matrix.patches, jacobian.flatten().tolist(), strict=True):
        red, _, blue, _ = patch.get_facecolor()
        assert (blue > red) == (value > 0)
    assert [t.get_text() for t in matrix.get_xticklabels()] == ["x₁", "x₂", "x₃"]
    assert [t.get_text() for t in matrix.get_yticklabels()] == ["x̂₁", "x̂₂", "x̂₃"]


def test_the_picture_draws_what_is_far_away_at_the_rim():
    marks, (space, _) = drawn({"x": (1000, 1001, 1003)})
    assert marks[sphere.MOVED][1] == 3.2
    assert "x, μ = 1001.33" in {t.get_text() for t in space.texts}
    marks, (space, _) = drawn({"x": (-6000, 6000, 0)})
    assert np.abs(marks[sphere.MOVED + "hollow"]).max() <= 4
    assert "x − μ, σ = 4900" in {t.get_text() for t in space.texts}


# --- the page ------------------------------------------------------------------------------------

WIDE = {"width": 1000, "height": 1300}
PHONE = {"width": 390, "height": 844}


class Page:
    """The explorer on a page of its own, and how to take hold of it."""

    def __init__(self, reader: Any, state: dict[str, Any] | None = None, **context: Any) -> None:
        context.setdefault("viewport", WIDE)
        someone = reader(**context)
        someone.page.clock.install()
        self.root = someone.alone(SphereExplorer(**(state or {})))
        self.page = someone.page
        self.x = self.root.get_by_role("slider", name="x", exact=True)
        self.shadow = self.root.get_by_role("slider", name="x − μ", exact=True)

    def said(self) -> str:
        self.page.clock.run_for(400)  # the sentence waits for a pause
        return str(self.root.locator(".ln-sentence").inner_text().replace("\xa0", " "))

    def number(self, name: str) -> Any:
        return self.root.locator(f'input[type=number][aria-label^="{name}"]')

    def row(self) -> list[float]:
        return [float(self.number(f"Feature x{mark}").input_value()) for mark in "₁₂₃"]

    def column(self, k: int) -> list[float]:
        cells = self.root.locator(f".ln-pair tbody tr td:nth-child({k + 2})").all_inner_texts()
        return [float(text.replace("−", "-")) for text in cells]

    def spot(self, mark: Any) -> tuple[float, float]:
        x, y = re.findall(r"-?[\d.]+", mark.get_attribute("transform"))
        return float(x), float(y)

    def path(self, kind: str) -> list[tuple[float, float]]:
        d = self.root.locator(f"path.{kind}").first.get_attribute("d")
        pairs = re.findall(r"[ML](-?[\d.]+)[ ,](-?[\d.]+)", d)
        return [(float(x), float(y)) for x, y in pairs]

    def label(self, words: str) -> Any:
        texts = self.root.locator(".ln-scene text").filter(has_text=re.compile(f"^{words}$"))
        return texts.and_(self.root.locator("text:not([visibility=hidden])"))

    def drag(self, mark: Any, dx: float, dy: float) -> None:
        mark.scroll_into_view_if_needed()
        box = mark.locator(".ln-target").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + dx / 2, y + dy / 2)
        self.page.mouse.move(x + dx, y + dy)
        self.page.mouse.up()


def scale(page: Page) -> tuple[float, float, float]:
    """Pixels a unit and the place of the origin, from the circle of radius √3."""
    d = page.root.locator("path.ln-curve.ln-blue:not(.ln-faint)").first.get_attribute("d")
    left, middle, radius = (float(v) for v in re.findall(r"[-\d.]+", d)[:3])
    return radius / math.sqrt(3), left + radius, middle


def seen(page: Page, point: Any, turn: float) -> tuple[float, float]:
    """The place in px where a point must be drawn."""
    k, cx, cy = scale(page)
    right, up, _ = (camera(turn) @ torch.as_tensor(point, dtype=torch.float64)).tolist()
    return cx + k * right, cy - k * up


def test_every_point_is_drawn_where_the_formula_puts_it(reader):
    state = {**STARTS["γ makes an ellipse"], "x": (0.4, 1.3, -0.9), "turn": 20}
    page = Page(reader, state)
    terms = terms_of(state)
    x = tensor(state["x"])
    points = {
        page.x: x,
        page.shadow: x - terms.mean,
        page.root.locator("path.ln-mark.ln-blue"): terms.x_hat,
        page.root.locator("path.ln-mark.ln-green"): terms.y,
    }
    for mark, point in points.items():
        assert page.spot(mark) == pytest.approx(seen(page, point, 20), abs=0.11)


def test_the_axes_of_the_features_end_where_they_point_and_bear_their_names(reader):
    page = Page(reader, {"x": (-2, -2.5, -3), "turn": 35})
    tips = page.path("ln-axis")[1:6:2]  # each line starts at the origin
    for i, tip in enumerate(tips):
        assert tip == pytest.approx(seen(page, 2.6 * torch.eye(3)[i], 35), abs=0.11)
        words = page.label("x" + "₁₂₃"[i])
        place = float(words.get_attribute("x")), float(words.get_attribute("y"))
        assert math.dist(place, tip) < 45


@pytest.mark.parametrize(("turn", "x"), [(-90, DEFAULT), (60, (0.4, 2.3, -0.3))])
def test_each_name_stands_beside_what_it_names(reader, turn, x):
    state = {**STARTS["γ makes an ellipse"], "x": x, "turn": turn}
    page = Page(reader, state)
    marks = {
        "x": page.x,
        "x − μ": page.shadow,
        "x̂": page.root.locator("path.ln-mark.ln-blue"),
        "y": page.root.locator("path.ln-mark.ln-green"),
    }
    places = {words: page.spot(mark) for words, mark in marks.items()}
    svg = page.root.locator(".ln-scene svg").bounding_box()
    for words, place in places.items():
        box = page.label(words).bounding_box()
        middle = box["x"] - svg["x"] + box["width"] / 2, box["y"] - svg["y"] + box["height"] / 2
        assert math.dist(middle, place) < 45
        assert math.dist(middle, place) == min(
            math.dist(middle, other) for other in places.values()
        )


def test_the_ellipse_is_the_image_of_the_circle_and_is_drawn_only_if_it_is_another(reader):
    state = {"weight": (2, 1, 0.5), "bias": (0, 1, 0), "turn": 35}
    page = Page(reader, state)
    angles = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)
    first = camera(0)[0], tensor([2.0, -1, -1]) / math.sqrt(6)
    circle = math.sqrt(3) * (angles.sin()[:, None] * first[0] + angles.cos()[:, None] * first[1])
    image = circle * tensor(state["weight"]) + tensor(state["bias"])
    k, cx, cy = scale(page)
    places = np.array([cx, cy]) + k * (image @ camera(35)[:2].T).numpy() * [1, -1]
    nearness = (image - tensor(state["bias"])) @ camera(35)[2]  # before the center or behind it
    for half, sign in (("ln-ellipse:not(.ln-faint)", 1), ("ln-ellipse.ln-faint", -1)):
        dots = np.array(page.path(half))
        assert len(dots) > 20
        distances = [np.hypot(*(places - dot).T) for dot in dots]
        assert max(each.min() for each in distances) < 1.2
        assert min(sign * nearness[each.argmin()].item() for each in distances) > -0.2
    page.root.get_by_role("button", name="Ordinary row").click()
    assert page.path("ln-ellipse:not(.ln-faint)") == page.path("ln-ellipse.ln-faint") == []
    assert not page.root.locator("path.ln-mark.ln-green").is_visible()
    assert page.label("y").count() == 0


def test_the_near_half_of_the_circle_is_the_lower_one_and_the_far_half_is_faint(reader):
    page = Page(reader)
    _, _, cy = scale(page)
    for kind, below in ((":not(.ln-faint)", True), (".ln-faint", False)):
        half = page.root.locator(f"path.ln-curve.ln-blue{kind}").first
        box = half.evaluate("e => { const b = e.getBBox(); return [b.y, b.y + b.height]; }")
        assert box == pytest.approx([cy, box[1]] if below else [box[0], cy], abs=0.5)
        assert box[1] - box[0] > 40
    assert float(half.evaluate("e => getComputedStyle(e).opacity")) < 1


def test_x_dragged_straight_up_lifts_the_mean_and_leaves_x_hat(reader):
    page = Page(reader)
    before, x_hat, told = page.column(0), page.column(2), page.said()
    k, _, _ = scale(page)
    page.drag(page.x, 0, -60)
    lifted = 60 / (k * math.cos(math.pi / 7) * math.sqrt(3))
    assert page.column(0)[3] == pytest.approx(before[3] + lifted, abs=0.006)
    up = page.row()[0] - DEFAULT[0]  # a drag goes by whole thousandths
    assert up == pytest.approx(lifted, abs=5.1e-4)
    assert page.row() == pytest.approx([v + up for v in DEFAULT], abs=1e-9)
    assert page.column(2) == x_hat
    assert page.said() != told
    assert f"mean μ = {number(before[3] + up)}" in page.said()


@pytest.mark.parametrize("turn", [-90, 25])
def test_x_and_its_shadow_stay_under_the_pointer(reader, turn):
    page = Page(reader, {"turn": turn, "x": (0.5, 0.8, 1.9)})
    for mark in (page.x, page.shadow):
        before, mean = page.spot(mark), page.column(0)[3]
        page.drag(mark, -34, 22)
        after = page.spot(mark)
        assert after == pytest.approx((before[0] - 34, before[1] + 22), abs=0.11)
        assert (page.column(0)[3] == mean) == (mark is page.shadow)


def test_x_dragged_sideways_moves_x_hat_and_keeps_the_mean(reader):
    page = Page(reader)
    mean, x_hat = page.column(0)[3], page.column(2)
    page.drag(page.x, 50, 0)
    assert page.column(0)[3] == mean
    assert page.column(2)[:3] != x_hat[:3]


def test_the_shadow_dragged_along_its_radius_leaves_x_hat(reader):
    page = Page(reader)
    std, x_hat = page.column(0)[4], page.column(2)
    (x, y), (_, cx, cy) = page.spot(page.shadow), scale(page)
    page.drag(page.shadow, (cx - x) / 4, (cy - y) / 4)
    assert page.column(0)[4] == pytest.approx(std * 0.75, abs=0.02)
    assert page.column(2) == pytest.approx(x_hat, abs=0.02)  # the drag ends on a whole pixel
    page.drag(page.shadow, 60, 0)
    assert page.column(2)[:3] != pytest.approx(x_hat[:3], abs=0.1)


def test_the_background_turns_the_view_and_moves_nothing(reader):
    page = Page(reader, {"turn": -90})
    row, x_hat = page.row(), page.spot(page.root.locator("path.ln-mark.ln-blue"))
    back = page.root.locator(".ln-back")
    box = back.bounding_box()
    x, y = box["x"] + box["width"] - 40, box["y"] + 60
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + 40, y, steps=3)
    page.page.mouse.up()
    assert float(page.number("Turn").input_value()) == -110
    assert page.row() == row
    after = page.spot(page.root.locator("path.ln-mark.ln-blue"))
    assert after[0] > x_hat[0]  # what is in front follows the pointer
    assert after == pytest.approx(seen(page, terms_of(ORDINARY).x_hat, -110), abs=0.11)


def test_a_turn_past_half_a_circle_comes_in_at_the_other_end(reader):
    page = Page(reader, {"turn": -170})
    box = page.root.locator(".ln-back").bounding_box()
    page.page.mouse.move(box["x"] + 400, box["y"] + 30)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 440, box["y"] + 30)
    page.page.mouse.up()
    assert float(page.number("Turn").input_value()) == 170


def test_keys_move_x_and_its_shadow_and_shift_moves_them_ten_times(reader):
    page = Page(reader)
    page.x.focus()
    page.page.keyboard.press("ArrowUp")
    assert page.row() == pytest.approx([0.1, 0.9, 3.8], abs=1e-5)
    page.page.keyboard.press("Shift+ArrowDown")
    assert page.row() == pytest.approx([-0.9, -0.1, 2.8], abs=1e-5)
    before = page.spot(page.x)
    page.page.keyboard.press("Shift+ArrowRight")
    k, _, _ = scale(page)
    assert page.spot(page.x) == pytest.approx((before[0] + k, before[1]), abs=0.11)

    mean, before = page.column(0)[3], page.spot(page.shadow)
    page.shadow.focus()
    page.page.keyboard.press("Shift+ArrowUp")
    assert page.column(0)[3] == mean
    lifted = k * math.sin(math.pi / 7)  # away from the reader is up
    assert page.spot(page.shadow) == pytest.approx((before[0], before[1] - lifted), abs=0.11)
    page.page.keyboard.press("Shift+ArrowLeft")
    assert page.spot(page.shadow)[0] == pytest.approx(before[0] - k, abs=0.11)
    assert page.column(0)[3] == mean


def test_a_handle_says_what_it_is_and_where(reader):
    page = Page(reader)
    assert float(page.x.get_attribute("aria-valuenow")) == pytest.approx(1.5)
    assert page.x.get_attribute("aria-valuetext") == "x = (0, 0.8, 3.7), mean 1.5"
    assert float(page.shadow.get_attribute("aria-valuenow")) == pytest.approx(1.59, abs=0.01)
    words = "x − μ = (−1.5, −0.7, 2.2), standard deviation 1.59"
    assert page.shadow.get_attribute("aria-valuetext") == words
    assert page.root.locator("svg[role=group]").get_attribute("aria-label").startswith("x = (0, ")


CONTROLS = [
    *((f"Feature x{mark}", "-1.25", "x", i) for i, mark in enumerate("₁₂₃")),
    *((f"Weight γ{mark}", "2.5", "weight", i) for i, mark in enumerate("₁₂₃")),
    *((f"Bias β{mark}", "-0.75", "bias", i) for i, mark in enumerate("₁₂₃")),
    ("Constant ε", "0.5", "eps", None),
]


def test_typed_numbers_and_sliders_move_the_picture_and_the_sentence(reader):
    page = Page(reader)
    page.root.locator("details").evaluate("e => { e.open = true; }")
    svg = page.root.locator(".ln-scene svg")
    ends = {"x": "6", "weight": "3", "bias": "3", "eps": "10"}
    for name, typed, trait, i in CONTROLS:
        before, field = svg.inner_html(), page.number(name)
        field.fill(typed)
        field.press("Enter")
        value = list(ORDINARY[trait]) if i is not None else float(typed)
        if i is not None:
            value[i] = float(typed)
        assert page.said() == SphereExplorer(**{trait: value}).sentence()
        middle = svg.inner_html()
        assert middle != before
        slider = page.root.get_by_role("slider", name=name.split()[-1]).and_(
            page.root.locator("input[type=range]")
        )
        slider.focus()
        for _ in range(5):
            page.page.keyboard.press("ArrowRight")
        step = 10 ** (5 / 20) if trait == "eps" else None
        expected = float(typed) * step if step else round(float(typed) + 0.05, 1) + 0.45
        assert float(field.input_value()) == pytest.approx(expected, abs=0.11)
        assert svg.inner_html() != middle
        page.page.keyboard.press("End")
        assert field.input_value() == ends[trait]
        page.root.get_by_role("button", name="Reset").click()
        page.root.locator("details").evaluate("e => { e.open = true; }")


def test_the_turn_slider_turns(reader):
    page = Page(reader, {"turn": 10})
    field = page.number("Turn")
    field.fill("-50")
    field.press("Enter")
    mark = page.root.locator("path.ln-mark.ln-blue")
    x_hat = terms_of(ORDINARY).x_hat
    assert page.spot(mark) == pytest.approx(seen(page, x_hat, -50), abs=0.11)
    slider = page.root.get_by_role("slider", name="Turn")
    slider.focus()
    page.page.keyboard.press("ArrowLeft")
    assert page.spot(mark) == pytest.approx(seen(page, x_hat, -51), abs=0.11)
    assert slider.get_attribute("aria-valuetext") == "−51 degrees"


def test_a_number_far_beyond_the_slider_is_taken_and_one_out_of_range_is_refused(reader):
    page = Page(reader)
    field = page.number("Feature x₂")
    field.fill("5000")
    field.press("Enter")
    assert "x = (0, 5000, 3.7)" in page.said()
    field.fill("20000")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert "x₂ goes from −10000 to 10000" in page.root.get_by_role("alert").all_inner_texts()
    assert "x = (0, 5000, 3.7)" in page.said()


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader):
    page = Page(reader)
    first = page.said()
    field = page.number("Feature x₁")
    for name, start in STARTS.items():
        page.number("Turn").fill("40")
        page.number("Turn").press("Enter")
        field.fill("-5")
        field.press("Enter")
        page.root.get_by_role("button", name=name).click()
        assert page.said() == SphereExplorer(**start).sentence()
        assert page.number("Turn").input_value() == "40"  # the view is the reader's
        page.root.get_by_role("button", name="Reset").click()
        assert page.said() == first == SphereExplorer().sentence()
        assert page.number("Turn").input_value() == "-90"
        assert page.row() == list(DEFAULT)


def test_gamma_and_beta_come_into_view_with_the_ellipse_and_can_be_folded_away(reader):
    page = Page(reader)
    weight = page.number("Weight γ₁")
    assert not weight.is_visible()
    page.root.get_by_role("button", name="γ makes an ellipse").click()
    assert weight.is_visible()
    page.root.get_by_text("Change γ and β").click()
    page.x.press("ArrowUp")
    assert not weight.is_visible()
    page.root.get_by_text("Change γ and β").click()
    page.root.get_by_role("button", name="Reset").click()
    assert not weight.is_visible()


def test_the_tables_tell_the_numbers_of_the_formula(reader):
    state = {"x": (0.4, 1.3, -0.9), "weight": (2, 1, 0.5), "bias": (0, 1, 0), "eps": 0.02}
    page = Page(reader, state)
    terms = terms_of(state)
    x = tensor(state["x"])
    for k, values in enumerate([x, x - terms.mean, terms.x_hat, terms.y]):
        about = [*values, values.mean(), values.std(correction=0), values.norm()]
        assert page.column(k) == pytest.approx([float(v) for v in about], rel=6e-3, abs=1e-9)
    heads = page.root.locator(".ln-pair thead th").all_inner_texts()
    assert heads == ["feature", "x", "x − μ", "x̂", "y"]
    names = page.root.locator(".ln-pair tbody th").all_inner_texts()
    assert names == ["1", "2", "3", "mean", "std", "length"]


def test_the_matrix_tells_the_jacobian_and_its_colors_the_signs(reader):
    state = {"x": (0.4, 1.3, -0.9), "eps": 0.02}
    page = Page(reader, state)
    jacobian = autograd_jacobian(tensor(state["x"]), 0.02)
    cells = page.root.locator(".ln-matrix td")
    assert cells.all_inner_texts() == [number(v) for v in jacobian.flatten().tolist()]
    colors = cells.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
    shares = cells.evaluate_all("all => all.map(e => e.style.getPropertyValue('--ln-share'))")
    rstd = terms_of({**ORDINARY, **state}).rstd.item()
    for color, share, value in zip(colors, shares, jacobian.flatten().tolist(), strict=True):
        _, _, b = (float(v) for v in re.findall(r"-?[\d.]+", color)[:3])  # oklab(L a b / share)
        assert (b < 0) == (value > 0)  # blue, not vermillion
        assert float(share[:-1]) == pytest.approx(75 * abs(value) / rstd, abs=0.06)
    heads = page.root.locator(".ln-matrix th").all_inner_texts()
    assert heads == ["J", "x₁", "x₂", "x₃", "x̂₁", "x̂₂", "x̂₃"]


def test_the_factors_stand_beside_the_matrix_and_at_the_arrows_once_x_was_moved(reader):
    page = Page(reader)
    factors = page.root.locator(".ln-scene .ln-table:not(.ln-matrix) tbody tr")
    s = terms_of(ORDINARY).denominator.item()
    assert [row.replace("\t", " ") for row in factors.all_inner_texts()] == [
        "(1, 1, 1) × 0",
        f"x̂ × ε/s³ = {number(1e-5 / s**3)}",
        f"the circle × 1/s = {number(1 / s)}",
    ]
    drawn = page.root.locator("path.ln-lost")
    assert (page.label("lost").count(), drawn.get_attribute("d")) == (0, "")
    page.drag(page.x, 0, -20)  # the question is where x can be dragged without moving x̂
    assert page.label("lost").count() == 2
    assert page.label(f"× {number(1 / s)}").count() == 1
    assert drawn.get_attribute("d")
    page.root.get_by_role("button", name="Large ε").click()
    s = terms_of(STARTS["Large ε"]).denominator.item()
    assert page.label("lost").count() == 1  # the radius is not lost
    assert page.label(f"× {number(1 / s**3)}").count() == 1


def test_a_constant_row_has_one_factor_for_the_whole_plane(reader):
    page = Page(reader, {"x": (2, 2, 2)})
    factors = page.root.locator(".ln-scene .ln-table:not(.ln-matrix) tbody tr")
    visible = [row.inner_text().replace("\t", " ") for row in factors.all() if row.is_visible()]
    assert visible == ["(1, 1, 1) × 0", "any direction in the plane × 1/√ε = 316, twice"]
    _, cx, cy = scale(page)
    assert page.spot(page.root.locator("path.ln-mark.ln-blue")) == pytest.approx((cx, cy), abs=0.1)
    page.x.press("ArrowUp")
    assert page.label("lost").count() == 1


def arrows(page: Page, kind: str) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The tips of two-headed arrows, pair by pair: each half is a shaft and a head."""
    dots = page.path(kind)
    tips = [dots[i + 1] for i in range(0, len(dots), 5)]
    return list(zip(tips[::2], tips[1::2], strict=True))


def test_the_arrows_point_along_the_eigenvectors_and_shrink_to_their_images(reader):
    state = {**ORDINARY, "x": (0.4, 1.3, -0.9), "eps": 1.0, "turn": 35}
    page = Page(reader, state)
    page.x.press("ArrowUp")
    terms = terms_of(state)
    x_hat = terms.x_hat / terms.x_hat.norm()
    ones = torch.ones(3, dtype=torch.float64) / math.sqrt(3)
    around = torch.linalg.cross(ones, x_hat)
    s = terms.denominator.item()
    lost = arrows(page, "ln-lost")
    kept = arrows(page, "ln-curve.ln-blue:not(.ln-faint):not(.ln-thin) >> nth=1")
    assert (len(lost), len(kept)) == (3, 2)  # (1, 1, 1) has no image
    at_x, at_x_hat = page.spot(page.x), page.spot(page.root.locator("path.ln-mark.ln-blue"))
    radial = [lost[1], lost[2], x_hat, 1.0 / s**3]
    for step, image, direction, factor in ([*kept, around, 1 / s], radial):
        (ax, ay), (bx, by) = step
        right, up = (camera(35) @ direction)[:2].tolist()
        assert abs((bx - ax) * -up - (by - ay) * right) / math.dist(*step) < 0.02
        middles = [np.mean(arrow, axis=0) for arrow in (step, image)]
        assert middles[0] == pytest.approx(at_x, abs=0.2)
        assert middles[1] == pytest.approx(at_x_hat, abs=0.2)
        assert math.dist(*image) / math.dist(*step) == pytest.approx(factor, abs=0.01)
    (ax, ay), (bx, by) = lost[0]
    assert ax == pytest.approx(bx, abs=0.11)
    assert ay != by


def test_a_circle_missed_because_of_eps_is_dotted_and_has_its_radius(reader):
    page = Page(reader)
    dotted = page.root.locator("path.ln-dotted")
    assert not dotted.get_attribute("d")
    page.root.get_by_role("button", name="Large ε").click()
    length = terms_of(STARTS["Large ε"]).x_hat.norm().item()
    k, cx, _ = scale(page)
    left, radius = (float(re.findall(r"[\d.]+", dotted.get_attribute("d"))[i]) for i in (0, 2))
    assert (radius, left) == pytest.approx((length * k, cx - length * k), abs=0.1)
    assert page.label(f"radius {number(length)}").count() == 1
    assert page.label("radius √3").count() == 1


def test_a_huge_mean_is_drawn_at_the_edge_and_survives_a_drag_sideways(reader):
    page = Page(reader, STARTS["Huge mean"])
    assert page.label("x, μ = 1001.33").count() == 1
    cuts = page.root.locator(".ln-scene path.ln-rule:not(.ln-drop)")
    assert cuts.get_attribute("d")
    x_hat = page.column(2)
    page.drag(page.x, 30, 2)
    assert page.column(0)[3] == 1001.33
    assert page.column(2) != x_hat
    x_hat = page.column(2)
    page.drag(page.x, 0, 60)
    assert page.column(0)[3] < 4
    assert page.column(2) == pytest.approx(x_hat, abs=0.006)
    assert not cuts.get_attribute("d")


def test_a_huge_deviation_is_drawn_at_the_edge_and_survives_a_drag_up(reader):
    page = Page(reader, {"x": (-600, 500, 103)})
    assert page.label("x − μ, σ = 455").count() == 1
    std = page.column(0)[4]
    page.drag(page.x, 2, -30)
    assert page.column(0)[4] == std
    x, _ = page.spot(page.shadow)
    _, cx, cy = scale(page)
    page.drag(page.shadow, (cx - x) / 2, (cy - page.spot(page.shadow)[1]) / 2)
    assert page.column(0)[4] < 3


TEXTS = """([states]) => {
  const root = document.querySelector('.ln-explorer');
  const inputs = [...root.querySelectorAll('input[type=number]')];
  const find = (name) => inputs.find((i) => i.getAttribute('aria-label').startsWith(name));
  const svg = root.querySelector('.ln-scene svg');
  const texts = () => [...svg.querySelectorAll('text:not([visibility=hidden])')]
    .filter((t) => t.textContent).map((t) => [t.textContent, t.getBoundingClientRect()]);
  const marks = () => [...svg.querySelectorAll(
    '.ln-handle > :last-child, path.ln-mark:not([visibility=hidden])')]
    .map((m) => [m.getAttribute('class'), m.getBoundingClientRect()]);
  const outside = (a, b) =>
    a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 2 || a.bottom > b.bottom + 2;
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const problems = [];
  for (const state of states) {
    for (const [name, value] of Object.entries(state)) {
      const input = find(name);
      input.value = value;
      input.dispatchEvent(new Event('change'));
    }
    const [frame, words] = [svg.getBoundingClientRect(), texts()];
    const found = [...words, ...marks()].filter(([, box]) => outside(box, frame))
      .map(([name]) => `${name} is outside`);
    words.forEach(([name, box], i) => words.slice(i + 1).forEach(([other, next]) => {
      if (meet(box, next)) found.push(`${name} meets ${other}`);
    }));
    for (const must of [/^x(,.*)?$/, /^x − μ(,.*)?$/, /^x̂$/])
      if (!words.some(([name]) => must.test(name))) found.push(`${must} is missing`);
    if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the window');
    problems.push(...found.map((what) => `${what}: ${JSON.stringify(state)}`));
  }
  return problems;
}"""


def wild_states(count: int) -> list[dict[str, float]]:
    generator = np.random.default_rng(3)
    states = []
    for i in range(count):
        middle = generator.choice([0, 1, 3, -4, 2000])
        spread = generator.choice([0, 0.3, 2, 6, 700])
        x = np.round(middle + spread * generator.normal(size=3), 2)
        gamma, bias = generator.uniform(-3, 3, 3), generator.uniform(-3, 3, 3)
        plain = i % 2 == 0
        state = {f"Feature x{m}": float(v) for m, v in zip("₁₂₃", x, strict=True)}
        for mark, g, b in zip("₁₂₃", gamma, bias, strict=True):
            state |= {
                f"Weight γ{mark}": 1 if plain else round(g, 1),
                f"Bias β{mark}": 0 if plain else round(b, 1),
            }
        state |= {"Turn": int(generator.integers(-180, 180))}
        state |= {"Constant ε": float(generator.choice([1e-12, 1e-5, 1, 10]))}
        states.append(state)
    return states


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_no_label_meets_another_or_leaves_the_frame_in_any_state(reader, viewport):
    page = Page(reader, viewport=viewport)
    assert page.page.evaluate(TEXTS, [wild_states(150)]) == []


def test_nothing_is_wider_than_a_phone(reader):
    page = Page(reader, viewport=PHONE)
    for name in STARTS:
        page.root.get_by_role("button", name=name).click()
        page.root.locator("details").evaluate("e => { e.open = true; }")
        assert page.page.evaluate("document.documentElement.scrollWidth") == 390
        box = page.root.locator(".ln-explorer").bounding_box()
        over = page.root.locator(
            ".ln-explorer :is(table, input, button, p, summary, svg)"
        ).evaluate_all(
            "(all, right) => all.filter(e => e.getBoundingClientRect().right > right).length",
            box["x"] + box["width"],
        )
        assert over == 0


def test_what_can_be_grabbed_is_44_pixels(reader):
    page = Page(reader, viewport=PHONE)
    for target in page.root.locator(".ln-handle .ln-target, button, summary, input").all():
        if target.is_visible():
            assert target.bounding_box()["height"] >= 44


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(reader, theme):
    """In the state with most on show; what a chapter opens with is checked in the built pages."""
    page = Page(reader, STARTS["γ makes an ellipse"])
    page.page.evaluate(
        """theme => {
            document.documentElement.dataset.theme = theme;
            document.body.style.background = theme === 'dark' ? '#14181e' : '#fff';
            document.body.style.color = theme === 'dark' ? '#e6edf3' : '#1f2328';
        }""",
        theme,
    )
    serious = [v for v in violations(page.page) if v["impact"] in ("serious", "critical")]
    assert serious == []
