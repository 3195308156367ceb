"""The sphere explorer: layer norm of three features as geometry."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from torch import Tensor

from lnlib import formula
from lnlib.book.explorers.base import (
    BLUE,
    GAMMA,
    MOVED,
    MU,
    SIGMA,
    VERMILLION,
    X_HAT,
    Explorer,
    Number,
    Numbers,
    number,
)

ROOT3 = math.sqrt(3)
CLOSE = 0.03  # units from the circle, or from its center, that cannot be told apart
LOW, HIGH = math.sin(math.pi / 7), math.cos(math.pi / 7)  # the camera stands 26° above the plane
DISK = 2.7  # units, the part of the plane that is drawn
RIM = {"right": 4.0, "bottom": -2.0, "top": 3.2, "far": 1.7}  # units of the drawing


class Steps(NamedTuple):
    """What the Jacobian makes of a step along (1, 1, 1), along x̂ and along the circle."""

    ones: float
    radial: float
    around: float


def is_constant(x: tuple[float, ...]) -> bool:
    """Whether all features are the same number; rounding gives 0.1, 0.1, 0.1 a variance."""
    return min(x) == max(x)


def steps(denominator: float, eps: float) -> Steps:
    """Return the eigenvalues of dx̂/dx for a row whose √(σ² + eps) is ``denominator``."""
    rstd = 1 / denominator
    return Steps(0.0, eps * rstd * rstd * rstd, rstd)


def jacobian(x_hat: Tensor, denominator: float, weight: Sequence[float] = (1, 1, 1)) -> Tensor:
    """Return dy/dx = diag(weight) J, (3, 3), with J = (I − 11ᵀ/3 − x̂x̂ᵀ/3) / √(σ² + eps)."""
    kept = torch.eye(3, dtype=torch.float64) - 1 / 3 - x_hat[:, None] * x_hat / 3
    return x_hat.new_tensor(weight)[:, None] * kept / denominator


def project(points: Tensor, turn: float) -> Tensor:
    """Return what a far camera at azimuth ``turn`` sees of ``points``: right, up, near.

    Args:
        points: (..., 3), with (1, 1, 1) to be seen as pointing up.
        turn: in degrees; at 0 the axis of the first feature points at the camera.
    """
    a, b, c = points.unbind(-1)
    angle = math.radians(turn)
    p, q = (2 * a - b - c) / math.sqrt(6), (b - c) / math.sqrt(2)
    front, up = p * math.cos(angle) + q * math.sin(angle), (a + b + c) / ROOT3
    right = q * math.cos(angle) - p * math.sin(angle)
    return torch.stack([right, up * HIGH - front * LOW, front * HIGH + up * LOW], dim=-1)


class Place(NamedTuple):
    """Where x and its shadow x − μ are drawn, and which of them lies outside the frame."""

    shadow: Tensor
    top: Tensor
    far: bool
    cut: bool


def to_rim(point: Tensor, top: float = RIM["top"]) -> tuple[Tensor, bool]:
    """Return ``point``, or where the ray to it from the origin leaves the frame, and whether."""
    room = (RIM["right"], top if point[1] > 0 else -RIM["bottom"])
    reach = min(1.0, *(r / abs(v) for r, v in zip(room, point.tolist(), strict=True) if v), 1.0)
    return reach * point, reach < 1


def place(mean: float, centered: Tensor, turn: float) -> Place:
    """Place x and its shadow as the page does: at the rim, should they lie outside the frame."""
    shadow, far = to_rim(project(centered, turn)[:2], RIM["far"])
    height = shadow[1].item() + HIGH * ROOT3 * mean
    drawn = min(max(height, RIM["bottom"]), RIM["top"])
    return Place(shadow, shadow.new_tensor([shadow[0].item(), drawn]), far, drawn != height)


class Space:
    """Three dimensions on an ``Axes``, as a far camera at azimuth ``turn`` sees them."""

    def __init__(self, ax: Axes, turn: float) -> None:
        self.ax, self.turn = ax, turn

    def see(self, points: Any) -> Tensor:
        """Return where points (..., 3) are drawn, (..., 2)."""
        return project(torch.as_tensor(points, dtype=torch.float64), self.turn)[..., :2]

    def line(self, points: Any, color: str, style: str = "-", width: float = 1.2) -> None:
        """Draw a line through places (N, 2)."""
        places = torch.stack(tuple(points))
        self.ax.plot(*places.T, color=color, linestyle=style, linewidth=width)

    def join(self, a: Tensor, b: Tensor, color: str, style: str, broken: bool) -> None:
        """Draw a step; it is broken if its end lies outside the frame."""
        self.line((a, b), color, style)
        if broken:
            x, y = ((a + b) / 2).tolist()
            self.ax.text(x, y, "//", color=color, ha="center", va="center", fontweight="bold")

    def name(self, place: Tensor, words: str, color: str, offset: tuple[int, int]) -> None:
        """Write beside a place, ``offset`` in points."""
        x, y = place.tolist()
        self.ax.annotate(words, (x, y), offset, textcoords="offset points", color=color)

    def point(self, place: Tensor, **style: Any) -> None:
        """Mark a place."""
        self.ax.plot(*place, **style)


def circle() -> Tensor:
    """Return points on the circle of radius √3 in the plane Σ = 0, (97, 3)."""
    angles = torch.linspace(0, 2 * math.pi, 97, dtype=torch.float64)
    across = torch.tensor([(2, -1, -1), (0, 1, -1)], dtype=torch.float64)
    across = across / across.norm(dim=1, keepdim=True)
    points: Tensor = ROOT3 * torch.stack([angles.cos(), angles.sin()], dim=1) @ across
    return points


class SphereExplorer(Explorer, files="sphere"):
    """Three features in space, and where layer norm takes them: a plane, a circle, an ellipse.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = SphereExplorer()
        explorer.x = (0, 0, 6)
        explorer.observe(print, "x")

    Attributes:
        x: the row, three numbers from -10000 to 10000 in units of x.
        weight: γ, three numbers from -3 to 3, without units.
        bias: β, three numbers from -3 to 3, without units.
        eps: ε, from 1e-12 to 10 in units of x².
        turn: where the picture is seen from, -180 to 180 degrees about (1, 1, 1).

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range or not a number.
    """

    # 5, 7, 9 of the book's row, less the row's mean: within the picture.
    x = Numbers((0, 2, 4), low=-10000, high=10000, unit="units of x").tag(sync=True)
    weight = Numbers((1, 1, 1), low=-3, high=3, unit="no units").tag(sync=True)
    bias = Numbers((0, 0, 0), low=-3, high=3, unit="no units").tag(sync=True)
    eps = Number(1e-5, low=1e-12, high=10, unit="units of x²").tag(sync=True)
    turn = Number(-105, low=-180, high=180, unit="degrees").tag(sync=True)

    def terms(self) -> formula.Terms:
        """Return the formula's terms for the row; a constant one has its mean exactly."""
        x, weight, bias = (
            torch.tensor(v, dtype=torch.float64) for v in (self.x, self.weight, self.bias)
        )
        if not is_constant(self.x):
            return formula.terms(x, weight, bias, eps=self.eps)
        mean = x[:1]
        return formula.terms(x - mean, weight, bias, eps=self.eps)._replace(mean=mean)

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        if is_constant(self.x):
            return "A constant row: x̂ is 0"
        if ROOT3 - length(self.terms().x_hat) > CLOSE:
            return "ε pulls x̂ inside the circle"
        shifted = any(self.bias)
        if set(self.weight) == {1.0}:
            return "β moves the circle" if shifted else "x̂ stays on the circle of radius √3"
        shape = "scales the circle" if is_constant(self.weight) else "makes an ellipse"
        return f"γ {shape}" + "; β moves it" * shifted

    def sentence(self) -> str:
        """Tell mean and deviation of x, the Jacobian's eigenvalues, and y."""
        terms = self.terms()
        step = steps(terms.denominator.item(), self.eps)
        mean = number(tidy(terms.mean.item(), noise(self.x)), digits_of(self.x))
        subject = f"x = {told(self.x, digits_of(self.x))}: μ = {mean}"
        along, around = number(step.radial), number(step.around)
        plane = (
            f" and any step in the plane by 1/√ε = {around}."
            if is_constant(self.x)
            else f", along x̂ by ε/s³ = {along} and along the circle by 1/s = {around}; "
            "s = √(σ² + ε)."
        )
        y = "" if self._plain() else f" y = {told([tidy(v) for v in terms.y.tolist()])}."
        return (
            f"{subject}, σ = {number(terms.std.item())}. "
            f"J multiplies a step along (1, 1, 1) by 0{plane}{y}"
        )

    def _plain(self) -> bool:
        return set(self.weight) == {1.0} and not any(self.bias)

    def picture(self) -> Figure:
        """Draw what the page shows: x, its shadow, x̂ and y in space, and the Jacobian."""
        figure = Figure(figsize=(6.4, 3.3), dpi=100, layout="constrained")
        space, matrix = figure.subplots(1, 2, width_ratios=(8, 5))
        self._draw_space(space)
        self._draw_matrix(matrix)
        return figure

    def _draw_space(self, ax: Axes) -> None:
        space = Space(ax, self.turn)
        origin = torch.zeros(2, dtype=torch.float64)
        ax.fill(*(DISK / ROOT3 * space.see(circle())).T, color="0.95")
        for i, tip in enumerate(space.see(2.6 * torch.eye(3))):
            space.line((origin, tip), "0.6", width=0.8)
            space.name(tip, ["x₁", "x₂", "x₃"][i], "0.4", (2, 2))
        normal = space.see((ROOT3, ROOT3, ROOT3))
        space.line((origin, normal), MU, width=0.8)
        space.name(normal, "(1, 1, 1)", MU, (-20, 3))
        space.line(space.see(circle()), X_HAT, width=2)
        self._draw_steps(space)
        ax.set(xlim=(-4.4, 4.4), ylim=(-2.6, 3.6), aspect="equal")
        ax.set_title(self.verdict(), fontsize=10)
        ax.axis("off")

    def _draw_steps(self, space: Space) -> None:
        """Draw x, its shadow, x̂ and, unless it is x̂, y."""
        terms = self.terms()
        inner = length(terms.x_hat)
        if CLOSE < inner < ROOT3 - CLOSE:
            space.line(inner / ROOT3 * space.see(circle()), X_HAT, ":")
        mean, std = terms.mean.item(), terms.std.item()
        shadow, top, far, cut = place(mean, terms.x_hat * terms.denominator, self.turn)
        x_hat = space.see(terms.x_hat)
        space.line((torch.zeros_like(shadow), shadow), SIGMA, width=0.8)
        space.join(shadow, top, MU, "--", cut)
        space.join(shadow, x_hat, X_HAT, "-", far)
        if not self._plain():
            y, outside = to_rim(space.see(terms.y))
            weight, bias = torch.tensor(self.weight), torch.tensor(self.bias)
            space.line(space.see(circle() * weight + bias), GAMMA, "--")
            space.join(x_hat, y, GAMMA, ":", outside)
            space.point(y, color=GAMMA, marker="D")
            space.name(y, "y", GAMMA, (-4, 8))
        space.point(shadow, color=MOVED, marker="o", markerfacecolor="white", markersize=9)
        space.point(x_hat, color=X_HAT, marker="o", markersize=5)
        space.point(top, color=MOVED, marker="o", markersize=9)
        space.name(x_hat, "x̂", X_HAT, (6, -11))
        label, offset = (f"x − μ, σ = {number(std)}", (6, 5)) if far else ("x − μ", (-42, -13))
        space.name(shadow, label, MOVED, offset)
        words = f"x, μ = {number(mean, digits_of(self.x))}" if cut else "x"
        space.name(top, words, MOVED, (8, 3))

    def _draw_matrix(self, ax: Axes) -> None:
        terms = self.terms()
        s = terms.denominator.item()
        most = max(1.0, *map(abs, self.weight)) / s  # J's numbers are at most ⅔ of 1/s
        for i, row in enumerate(jacobian(terms.x_hat, s, self.weight).tolist()):
            for j, value in enumerate(row):
                shade = min(abs(value) / most * 0.75, 0.5)
                color = [1 - shade * (1 - c) for c in to_rgb(VERMILLION if value < 0 else BLUE)]
                ax.fill([j, j + 0.95, j + 0.95, j], [-i, -i, -i - 0.95, -i - 0.95], color=color)
                words = number(tidy(value, 1e-12 / s))
                ax.text(j + 0.475, -i - 0.475, words, ha="center", va="center", fontsize=9)
        ax.set(xlim=(0, 3), ylim=(-3, 0), aspect="equal")
        plain = set(self.weight) == {1.0}
        ax.set_title("J = ∂x̂/∂x" if plain else "diag(γ) J = ∂y/∂x", fontsize=10)
        ax.set_xticks([0.475, 1.475, 2.475], ["x₁", "x₂", "x₃"])
        ax.set_yticks([-0.475, -1.475, -2.475], [("x̂" if plain else "y") + i for i in "₁₂₃"])
        ax.xaxis.tick_top()
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)


def length(values: Tensor) -> float:
    """Return the length of three numbers, added up from left to right as the page does."""
    a, b, c = values.tolist()
    return math.sqrt(a * a + b * b + c * c)


def digits_of(x: tuple[float, ...]) -> int:
    """Return how many digits of x to tell: six where three would not tell the features apart."""
    return 6 if max(map(abs, x)) > 50 * (max(x) - min(x)) else 3


def noise(x: tuple[float, ...]) -> float:
    """Return how large a mean may be that is nothing but rounding."""
    return 1e-12 * max(map(abs, x))


def tidy(value: float, below: float = 1e-9) -> float:
    """Return ``value``, or 0 where rounding left 1e-17 in its place."""
    return 0.0 if abs(value) <= below else value


def told(values: Any, digits: int = 3) -> str:
    """Write a row.

    >>> told((0, -0.5, 1e-5))
    '(0, −0.5, 1e-5)'
    """
    return f"({', '.join(number(v, digits) for v in values)})"
