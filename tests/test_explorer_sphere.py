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

from conftest import AT_ONCE, violations
from lnlib import formula
from lnlib.book.explorers import SphereExplorer, sphere
from lnlib.book.explorers.base import number

DEFAULT = (0.0, 2.0, 4.0)
ORDINARY = {"x": DEFAULT, "weight": (1, 1, 1), "bias": (0, 0, 0), "eps": 1e-5}
STARTS = {
    "Ordinary row": ORDINARY,
    "Constant row": {**ORDINARY, "x": (1, 1, 1)},
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


def test_defaults_are_of_the_books_row_and_lie_clearly_above_the_plane_and_off_the_circle():
    explorer = SphereExplorer()
    assert (explorer.x, explorer.eps) == (DEFAULT, torch.nn.LayerNorm(3).eps)
    assert (explorer.weight, explorer.bias) == ((1, 1, 1), (0, 0, 0))
    row = [2, 4, 4, 4, 5, 5, 7, 9]
    assert {v + sum(row) / 8 for v in explorer.x} <= set(row)
    terms = explorer.terms()
    assert terms.mean.item() > 1
    assert terms.std.item() > 1.4


# --- the numbers ---------------------------------------------------------------------------------

EPS = [1e-12, 1e-5, 0.37, 10.0]
AFFINE = [((1, 1, 1), (0, 0, 0)), ((2, 1, 0.5), (0, 1, 0)), ((-1.5, 0.3, 3), (0.25, -3, 1))]
AFFINE += [((1, 1, 2), (0, 0, 0)), ((1, 1, 1), (0, 0, 0.5))]  # one of six numbers is changed
AFFINE += [((-2, -2, -2), (0, 0, 0)), ((0, 0, 0), (1, 2, 3))]


def rows() -> list[list[float]]:
    generator = np.random.default_rng(0)
    random = [generator.normal(0, scale, 3).tolist() for scale in (1e-6, 0.1, 1, 3, 30, 3000)]
    return [
        *random,
        *(generator.normal(mean, 1, 3).tolist() for mean in (1e3, -1e3, 5)),
        *([c, c, c] for c in (2.0, 0.1, 0.0, -7.3, 1e4)),
        *([0.0, 0.0, 6.0], [6.0, 0.0, 0.0], [1000.0, 1001.0, 1003.0], [0.0, 0.8, 3.7], [*DEFAULT]),
        *([0.1, 0.2, 0.3], [-0.1, -0.2, 0.3], [-1e4, 1e4, 3.0], [1.0, 1.0, 1.0001]),
        # Six digits for the largest feature alone; a mean that is all rounding errors.
        *([5000.0, 5050.5, 5101.0], [1e4, -9999.9, -0.1]),
    ]


def autograd_jacobian(x: torch.Tensor, eps: float, weight: Any = (1, 1, 1)) -> torch.Tensor:
    def y(values):
        return formula.layer_norm(values, tensor(weight), eps=eps)

    if x.min() != x.max():
        return torch.autograd.functional.jacobian(y, x)
    # At a constant row autograd meets 0/0 in √; the map is smooth there and the same for every
    # mean. A step of 1e-30 from 0 is so small that the quotient is the derivative to all digits.
    return torch.stack([y(1e-30 * e) / 1e-30 for e in torch.eye(3).double()], dim=1)


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
        "affine": autograd_jacobian(tensor(x), eps, weight).tolist(),
        "eigenvalues": torch.linalg.eigvalsh((jacobian + jacobian.T) / 2).tolist(),
        "sentence": SphereExplorer(**state).sentence(),
        "verdict": SphereExplorer(**state).verdict(),
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
    weight = (-1.5, 0.3, 3)
    affine = autograd_jacobian(tensor(x), eps, weight)
    drawn = sphere.jacobian(terms.x_hat, s, weight)
    torch.testing.assert_close(drawn, affine, rtol=0, atol=3 * bound)


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


# --- verdict and sentence ------------------------------------------------------------------------


def test_the_sentence_tells_the_numbers_and_y_once_gamma_or_beta_is_moved():
    told = SphereExplorer().sentence()
    s = terms_of(ORDINARY).denominator.item()
    assert told == (
        "x = (0, 2, 4): μ = 2, σ = 1.63. J multiplies a step along (1, 1, 1) by 0, "
        f"along x̂ by ε/s³ = {number(1e-5 / s**3)} and along the circle by 1/s = {number(1 / s)}; "
        "s = √(σ² + ε)."
    )
    assert SphereExplorer(weight=(2, 1, 0.5), bias=(0, 1, 0)).sentence() == (
        told + " y = (−2.45, 1, 0.612)."
    )
    assert "y = (−1.22, 0, 2.22)" in SphereExplorer(bias=(0, 0, 1)).sentence()


def test_the_sentence_of_a_constant_row_says_what_is_special():
    told = SphereExplorer(x=(2, 2, 2), bias=(0, 1, 0)).sentence()
    assert told == (
        "x = (2, 2, 2): μ = 2, σ = 0. J multiplies a step along (1, 1, 1) by 0 "
        "and any step in the plane by 1/√ε = 316. y = (0, 1, 0)."
    )
    assert "in the plane" in SphereExplorer(x=(0.1, 0.1, 0.1)).sentence()


def test_the_sentence_keeps_apart_what_three_digits_would_not_and_writes_no_rounding_errors():
    assert "x = (1000, 1001, 1003): μ = 1001.33" in SphereExplorer(x=(1000, 1001, 1003)).sentence()
    assert "e-1" not in SphereExplorer(x=(0.1, 0.2, 0.3)).sentence()
    assert "μ = 0, " in SphereExplorer(x=(-0.1, -0.2, 0.3)).sentence()


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ({}, "x̂ stays on the circle of radius √3"),
        ({"x": (2, 2, 2), "weight": (2, 1, 1)}, "A constant row: x̂ is 0"),
        ({"x": (0, 0.01, 0.02)}, "ε pulls x̂ inside the circle"),
        ({"x": (0, 0.1, 0.2)}, "x̂ stays on the circle of radius √3"),  # as far as can be seen
        ({"weight": (2, 1, 0.5)}, "γ makes an ellipse"),
        ({"weight": (2, 2, 2), "bias": (0, 0, 1)}, "γ scales the circle; β moves it"),
        ({"bias": (0, 0, 1)}, "β moves the circle"),
    ],
    ids=str,
)
def test_the_verdict_says_what_is_seen(state, seen):
    assert SphereExplorer(**state).verdict() == seen
    assert len(seen) <= 45


def test_the_sentence_of_every_start_is_short():
    for start in STARTS.values():
        assert len(SphereExplorer(**start).sentence()) <= 200


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
        sphere.X_HAT: terms.x_hat,
        sphere.GAMMA: terms.y,
    }
    assert set(marks) == set(points)
    for key, point in points.items():
        seen = camera(-60)[:2] @ point
        assert marks[key] == pytest.approx(seen.numpy(), abs=1e-9), key
    ellipse = next(line for line in space.lines if line.get_color() == sphere.GAMMA)
    to_y = marks[sphere.GAMMA] - ellipse.get_xydata()
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
    assert matrix.get_title() == "J = ∂x̂/∂x"


def test_the_picture_of_an_ellipse_shows_dy_dx_and_says_so():
    state = {**STARTS["γ makes an ellipse"], "x": (0.4, 1.3, -0.9)}
    _, (_, matrix) = drawn(state)
    dy_dx = autograd_jacobian(tensor(state["x"]), 1e-5, state["weight"])
    assert [t.get_text() for t in matrix.texts] == [number(v) for v in dy_dx.flatten().tolist()]
    assert [t.get_text() for t in matrix.get_yticklabels()] == ["y₁", "y₂", "y₃"]
    assert matrix.get_title() == "diag(γ) J = ∂y/∂x"


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
        someone.page.add_init_script(AT_ONCE)  # over the clock's
        self.root = someone.alone(SphereExplorer(**(state or {})))
        self.page = someone.page
        self.x = self.root.get_by_role("slider", name="x", exact=True)
        self.shadow = self.root.get_by_role("slider", name="x − μ", exact=True)
        self.back = self.root.get_by_role("slider", name="Turn", exact=True)
        self.x_hat = self.root.locator("path.ln-mark.ln-s-x-hat")
        self.y = self.root.locator("path.ln-mark.ln-s-gamma")
        if not context.get("guess"):
            self.root.locator("summary").click()

    def said(self) -> str:
        self.page.clock.run_for(400)  # the sentence waits for a pause
        return str(self.root.locator(".ln-sentence").inner_text().replace("\xa0", " "))

    def number(self, name: str) -> Any:
        return self.root.locator(f'input[type=number][aria-label^="{name}"]')

    def row(self) -> list[float]:
        return [float(self.number(f"Feature x{mark}").input_value()) for mark in "₁₂₃"]

    def turn(self) -> float:
        return float(self.back.get_attribute("aria-valuenow"))

    def column(self, k: int) -> list[float]:
        cells = self.root.locator(f".ln-numbers tbody tr td:nth-child({k + 2})").all_inner_texts()
        return [float(text.replace("−", "-")) for text in cells]

    def spot(self, mark: Any) -> tuple[float, float]:
        x, y = re.findall(r"-?[\d.]+", mark.get_attribute("transform"))
        return float(x), float(y)

    def path(self, kind: str) -> list[tuple[float, float]]:
        d = self.root.locator(f"path.{kind}").first.get_attribute("d")
        pairs = re.findall(r"[ML](-?[\d.]+)[ ,](-?[\d.]+)", d)
        return [(float(x), float(y)) for x, y in pairs]

    def label(self, words: str) -> Any:
        texts = self.root.locator(".ln-scene svg text").filter(has_text=re.compile(f"^{words}$"))
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
    d = page.root.locator("path.ln-circle:not(.ln-faint)").get_attribute("d")
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
        page.x_hat: terms.x_hat,
        page.y: terms.y,
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
        "x̂": page.x_hat,
        "y": page.y,
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
    assert not page.y.is_visible()
    assert page.label("y").count() == 0


def test_the_near_half_of_the_circle_is_the_lower_one_and_the_far_half_is_faint(reader):
    page = Page(reader)
    _, _, cy = scale(page)
    for kind, below in ((":not(.ln-faint)", True), (".ln-faint", False)):
        half = page.root.locator(f"path.ln-circle{kind}")
        box = half.evaluate("e => { const b = e.getBBox(); return [b.y, b.y + b.height]; }")
        assert box == pytest.approx([cy, box[1]] if below else [box[0], cy], abs=0.5)
        assert box[1] - box[0] > 40
    assert float(half.evaluate("e => getComputedStyle(e).opacity")) < 1


def test_x_dragged_straight_up_lifts_the_mean_and_leaves_x_hat(reader):
    page = Page(reader)
    before, x_hat, told = page.column(0), page.column(2), page.said()
    k, _, _ = scale(page)
    page.drag(page.x, 0, -30)
    lifted = 30 / (k * math.cos(math.pi / 7) * math.sqrt(3))
    assert page.column(0)[3] == pytest.approx(before[3] + lifted, abs=0.006)
    up = page.row()[0] - DEFAULT[0]  # a drag goes by whole thousandths
    assert up == pytest.approx(lifted, abs=5.1e-4)
    assert page.row() == pytest.approx([v + up for v in DEFAULT], abs=1e-9)
    assert page.column(2) == x_hat
    assert page.said() != told
    assert f": μ = {number(before[3] + up)}, " in page.said()


@pytest.mark.parametrize("turn", [-90, 25])
def test_x_and_its_shadow_stay_under_the_pointer(reader, turn):
    page = Page(reader, {"turn": turn, "x": (0.5, 0.8, 1.9)})
    for mark in (page.x, page.shadow):
        before, mean = page.spot(mark), page.column(0)[3]
        page.drag(mark, -34, 22)
        after = page.spot(mark)
        assert after == pytest.approx((before[0] - 34, before[1] + 22), abs=0.11)
        assert (page.column(0)[3] == mean) == (mark is page.shadow)


def test_the_background_turns_the_view_and_moves_nothing(reader):
    page = Page(reader, {"turn": -90})
    row, x_hat = page.row(), page.spot(page.x_hat)
    assert page.back.get_attribute("aria-valuetext") == "−90 degrees"
    box = page.back.bounding_box()
    x, y = box["x"] + box["width"] - 60, box["y"] + 60
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + 40, y, steps=3)
    page.page.mouse.up()
    assert page.turn() == -110
    assert page.row() == row
    after = page.spot(page.x_hat)
    assert after[0] > x_hat[0]  # what is in front follows the pointer
    assert after == pytest.approx(seen(page, terms_of(ORDINARY).x_hat, -110), abs=0.11)
    keys = {"ArrowRight": -109, "Shift+ArrowDown": -119, "Home": 151, "End": -119}
    for key, turn in keys.items():
        page.back.press(key)
        assert page.turn() == turn


def test_keys_move_x_and_its_shadow_and_shift_moves_them_ten_times(reader):
    page = Page(reader)
    page.x.focus()
    page.page.keyboard.press("ArrowUp")
    assert page.row() == pytest.approx([0.1, 2.1, 4.1], abs=1e-5)
    page.page.keyboard.press("Shift+ArrowDown")
    assert page.row() == pytest.approx([-0.9, 1.1, 3.1], abs=1e-5)
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
    x_hat = "; x̂ = (−1.22, 0, 1.22)"  # what a guess is about, for those who cannot see it
    assert float(page.x.get_attribute("aria-valuenow")) == pytest.approx(2)
    assert page.x.get_attribute("aria-valuetext") == "x = (0, 2, 4), mean 2" + x_hat
    assert float(page.shadow.get_attribute("aria-valuenow")) == pytest.approx(1.63, abs=0.01)
    words = "x − μ = (−2, 0, 2), standard deviation 1.63" + x_hat
    assert page.shadow.get_attribute("aria-valuetext") == words
    assert page.root.locator("svg[role=group]").get_attribute("aria-label").startswith("x = (0, ")


CONTROLS = [
    *((f"Feature x{mark}", "-1.25", "x", i) for i, mark in enumerate("₁₂₃")),
    *((f"Scale γ{mark}", "2.5", "weight", i) for i, mark in enumerate("₁₂₃")),
    *((f"Shift β{mark}", "-0.75", "bias", i) for i, mark in enumerate("₁₂₃")),
    ("Constant ε", "0.5", "eps", None),
]


def test_typed_numbers_and_sliders_move_the_picture_and_the_sentence(reader):
    page = Page(reader)
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
        slider = field.locator("xpath=..").locator("input[type=range]")
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


def test_a_number_far_beyond_the_slider_is_taken_and_one_out_of_range_is_refused(reader):
    page = Page(reader)
    field = page.number("Feature x₂")
    field.fill("5000")
    field.press("Enter")
    assert "x = (0, 5000, 4)" in page.said()
    field.fill("20000")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert "x₂ goes from −10000 to 10000" in page.root.get_by_role("alert").all_inner_texts()
    assert "x = (0, 5000, 4)" in page.said()


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader):
    page = Page(reader)
    first = page.said()
    field = page.number("Feature x₁")
    for name, start in STARTS.items():
        page.back.press("End")
        field.fill("-5")
        field.press("Enter")
        page.root.get_by_role("button", name=name).click()
        assert page.said() == SphereExplorer(**start).sentence()
        verdict = page.root.locator(".ln-verdict").inner_text()
        assert verdict == SphereExplorer(**start).verdict()
        assert page.turn() == -15  # the view is the reader's
        page.root.get_by_role("button", name="Reset").click()
        assert page.said() == first == SphereExplorer().sentence()
        assert page.turn() == -105
        assert page.row() == list(DEFAULT)


def test_the_table_tells_the_numbers_of_the_formula(reader):
    state = {"x": (0.4, 1.3, -0.9), "weight": (2, 1, 0.5), "bias": (0, 1, 0), "eps": 0.02}
    page = Page(reader, state)
    terms = terms_of(state)
    x = tensor(state["x"])
    for k, values in enumerate([x, x - terms.mean, terms.x_hat, terms.y]):
        about = [*values, values.mean(), values.std(correction=0), values.norm()]
        assert page.column(k) == pytest.approx([float(v) for v in about], rel=6e-3, abs=1e-9)
    heads = page.root.locator(".ln-numbers th").all_inner_texts()
    assert heads == [*["feature", "x", "x − μ", "x̂", "y"], *"123", "mean", "std", "length"]


def test_the_matrix_tells_the_jacobian_and_its_colors_the_signs(reader):
    state = {"x": (0.4, 1.3, -0.9), "eps": 0.02}
    page = Page(reader, state)
    jacobian = autograd_jacobian(tensor(state["x"]), 0.02)
    cells = page.root.locator(".ln-matrix tbody td")
    assert cells.all_inner_texts() == [number(v) for v in jacobian.flatten().tolist()]
    colors = cells.evaluate_all("all => all.map(e => getComputedStyle(e).backgroundColor)")
    shares = cells.evaluate_all("all => all.map(e => e.style.getPropertyValue('--ln-share'))")
    rstd = terms_of({**ORDINARY, **state}).rstd.item()
    for color, share, value in zip(colors, shares, jacobian.flatten().tolist(), strict=True):
        _, _, b = (float(v) for v in re.findall(r"-?[\d.]+", color)[:3])  # oklab(L a b / share)
        assert (b < 0) == (value > 0)  # blue, not vermillion
        assert float(share[:-1]) == pytest.approx(75 * abs(value) / rstd, abs=0.06)
    assert matrix_heads(page) == ["J = ∂x̂/∂x", "x₁", "x₂", "x₃", "x̂₁", "x̂₂", "x̂₃"]


def matrix_heads(page: Page) -> list[str]:
    return [str(t) for t in page.root.locator(".ln-side :is(.ln-title, th)").all_inner_texts()]


def test_with_gamma_the_matrix_is_dy_dx_and_says_so(reader):
    state = {"x": (0.4, 1.3, -0.9), "weight": (2, -3, 0.5), "eps": 0.02}
    page = Page(reader, state)
    dy_dx = autograd_jacobian(tensor(state["x"]), 0.02, state["weight"]).flatten().tolist()
    cells = page.root.locator(".ln-matrix tbody td")
    assert cells.all_inner_texts() == [number(v) for v in dy_dx]
    kinds = cells.evaluate_all("all => all.map(e => e.className)")
    assert [kind == "ln-plus" for kind in kinds] == [v > 0 for v in dy_dx]
    shares = cells.evaluate_all("all => all.map(e => e.style.getPropertyValue('--ln-share'))")
    assert max(float(share[:-1]) for share in shares) <= 50
    heads = matrix_heads(page)
    assert heads == ["diag(γ) J = ∂y/∂x", "x₁", "x₂", "x₃", "y₁", "y₂", "y₃"]


def test_the_factors_stand_at_the_arrows(reader):
    page = Page(reader)
    s = terms_of(ORDINARY).denominator.item()
    assert page.label("lost").count() == 2
    assert page.label(f"× {number(1 / s)}").count() == 1
    page.root.get_by_role("button", name="Large ε").click()
    s = terms_of(STARTS["Large ε"]).denominator.item()
    assert page.label("lost").count() == 1  # the radius is not lost
    assert page.label(f"× {number(1 / s**3)}").count() == 1
    page.root.get_by_role("button", name="Constant row").click()
    _, cx, cy = scale(page)
    assert page.spot(page.x_hat) == pytest.approx((cx, cy), abs=0.1)
    assert page.label("lost").count() == 1
    assert page.label("× 316").count() == 1


# --- the guess -----------------------------------------------------------------------------------


def test_while_guessing_x_is_dragged_and_nothing_tells_where(reader):
    page = Page(reader, guess=True)
    hidden = [page.root.locator(k) for k in (".ln-matrix", ".ln-lost", ".ln-kept", ".ln-sentence")]
    hidden += [page.root.locator(".ln-verdict"), page.number("Constant")]
    page.drag(page.x, 0, -20)
    page.drag(page.x, 0, 30)
    page.drag(page.shadow, -10, 5)
    page.x.press("ArrowUp")
    page.back.press("ArrowRight")
    for part in hidden:
        assert not part.is_visible() or part.inner_text() == ""
    assert page.label("lost").count() == page.label("× .*").count() == 0
    assert page.said() == ""
    page.root.get_by_role("button", name="See").click()
    for part in hidden:
        assert part.first.is_visible()
    assert page.label("lost").count() == 2
    assert page.root.locator(".ln-answer").inner_text() == (
        "Along (1, 1, 1) and, but for ε, along x − μ."
    )


def test_the_trail_shows_where_x_hat_has_been_and_goes_with_the_guess(reader):
    page = Page(reader, guess=True)

    def trail() -> list[tuple[float, float]]:
        return page.path("ln-trail")

    assert trail() == [pytest.approx(page.spot(page.x_hat), abs=0.11)]
    page.drag(page.x, 0, 40)  # along (1, 1, 1)
    (x, y), (_, cx, cy) = page.spot(page.shadow), scale(page)
    page.drag(page.shadow, (cx - x) / 4, (cy - y) / 4)  # along x − μ
    assert len(trail()) == 1
    for _ in range(4):
        before = page.spot(page.x_hat)
        page.x.press("Shift+ArrowRight")
        assert trail()[-2:] == [
            pytest.approx(before, abs=0.11),
            pytest.approx(page.spot(page.x_hat), abs=0.11),
        ]
    page.back.press("End")  # the trail turns with the circle
    assert trail()[-1] == pytest.approx(page.spot(page.x_hat), abs=0.11)
    k, cx, cy = scale(page)
    for dx, dy in ((x - cx, y - cy) for x, y in trail()):
        across, up = dx / k, dy / k / math.sin(math.pi / 7)
        assert math.hypot(across, up) == pytest.approx(math.sqrt(3), abs=0.02)
    page.root.get_by_role("button", name="Skip").click()
    assert trail() == []
    assert page.root.locator(".ln-answer").inner_text() == ""
    page.x.press("Shift+ArrowRight")
    assert trail() == []


@pytest.mark.parametrize(
    ("part", "event"),
    [
        *[
            ("", "'ln-set', { detail: 'x=1,2,4' }"),
            ("", "'ln-nudge', { detail: { trait: 'eps', by: 1 } }"),
        ],
        ("input[aria-label^=Constant]", "'change'"),
    ],
)
def test_a_link_in_the_text_or_another_trait_ends_the_guess(reader, part, event):
    page = Page(reader, guess=True)
    found = page.root.locator(f".ln-explorer {part}")
    found.evaluate(f"e => {{ e.value = 0.1; e.dispatchEvent(new CustomEvent({event})); }}")
    assert page.root.locator(".ln-matrix").is_visible()


def test_the_text_may_nudge_eps_and_turn_and_show_what_x_hat_is_multiplied_by(reader):
    page = Page(reader, {"x": (0.4, 1.3, -0.9)})
    numbers = """(e, [trait, by]) => new Promise(done => {
        e.addEventListener('ln-drawn', ({ detail }) => done(detail.numbers()), { once: true });
        e.dispatchEvent(new CustomEvent('ln-nudge', { detail: { trait, by } }));
    })"""
    explorer = page.root.locator(".ln-explorer")
    told = explorer.evaluate(numbers, ["eps", 100])
    assert told["turn"] == "−105"
    state = {**ORDINARY, "x": (0.4, 1.3, -0.9), "eps": 1.0}
    s = terms_of(state).denominator.item()
    length = terms_of(state).x_hat.norm().item()
    expected = {"eps": 1, "length": length, "along": 1 / s**3, "around": 1 / s}
    assert {name: told[name] for name in expected} == {k: number(v) for k, v in expected.items()}
    assert explorer.evaluate(numbers, ["turn", -80])["turn"] == "175"


def arrows(page: Page, kind: str) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The tips of two-headed arrows, pair by pair: each half is a shaft and a head."""
    dots = page.path(kind)
    tips = [dots[i + 1] for i in range(0, len(dots), 5)]
    return list(zip(tips[::2], tips[1::2], strict=True))


def test_the_arrows_point_along_the_eigenvectors_and_shrink_to_their_images(reader):
    state = {**ORDINARY, "x": (0.4, 1.3, -0.9), "eps": 1.0, "turn": 35}
    page = Page(reader, state)
    terms = terms_of(state)
    x_hat = terms.x_hat / terms.x_hat.norm()
    ones = torch.ones(3, dtype=torch.float64) / math.sqrt(3)
    around = torch.linalg.cross(ones, x_hat)
    s = terms.denominator.item()
    lost = arrows(page, "ln-lost")
    kept = arrows(page, "ln-kept")
    assert (len(lost), len(kept)) == (3, 2)  # (1, 1, 1) has no image
    at_x, at_x_hat = page.spot(page.x), page.spot(page.x_hat)
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


def test_a_constant_row_loses_one_direction_alone(reader):
    page = Page(reader, STARTS["Constant row"])
    assert [len(arrows(page, kind)) for kind in ("ln-lost", "ln-kept")] == [1, 4]
    assert page.label("lost").count() == 1


def test_an_arrow_that_would_leave_the_circle_is_shorter(reader):
    page = Page(reader, {"x": (0, 0.1, 0.2), "turn": 35})  # 1/s = 12
    step, image = arrows(page, "ln-kept")
    assert math.dist(*image) / math.dist(*step) == pytest.approx(2.2, abs=0.02)


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


def test_a_line_to_y_beyond_the_frame_is_broken(reader):
    for bias, broken in ((0, False), (3, True)):
        page = Page(reader, {"weight": (2, 2, 2), "bias": 3 * (bias,)})
        cuts = page.root.locator(".ln-scene path.ln-rule:not(.ln-drop)").get_attribute("d")
        assert bool(cuts) == broken


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
    const { Turn, ...typed } = state;
    root.dispatchEvent(new CustomEvent('ln-set', { detail: `turn=${Turn}` }));
    for (const [name, value] of Object.entries(typed)) {
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
                f"Scale γ{mark}": 1 if plain else round(g, 1),
                f"Shift β{mark}": 0 if plain else round(b, 1),
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
        assert page.page.evaluate("document.documentElement.scrollWidth") == 390
        box = page.root.locator(".ln-explorer").bounding_box()
        over = page.root.locator(
            ".ln-explorer :is(table, input, button, p, summary, svg)"
        ).evaluate_all(
            "(all, right) => all.filter(e => e.getBoundingClientRect().right > right).length",
            box["x"] + box["width"],
        )
        assert over == 0


@pytest.mark.parametrize(
    ("viewport", "highest"), [({"width": 810, "height": 800}, 620), (PHONE, 760)]
)
def test_it_is_no_higher_than_a_screen(reader, viewport, highest):
    page = Page(reader, viewport=viewport, guess=True)
    margin = (viewport["width"] - min(760, viewport["width"] - 24)) / 2
    page.page.add_style_tag(content=f"body {{ margin: {margin}px !important }}")
    page.root.get_by_role("button", name="See").click()
    boxes = page.root.locator(".ln-explorer, .ln-scene svg")
    assert [box.bounding_box()["height"] for box in boxes.all()] < [highest, 380]


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
