"""The backward pass: the five small steps of layer norm, gone back through arrow by arrow."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from lnlib.book.explorers.base import BLUE, Choice, Explorer, Number, Numbers, number, sum_by_pairs

# In the order in which the gradient passes them, from a step to what it uses.
ARROWS = (
    *("y-gamma", "y-beta", "y-sigma", "sigma-v", "v-mu"),
    *("y-mu", "mu-m", "m-x", "mu-x"),
)
END = len(ARROWS) + 1
LETTERS = {"gamma": "γ", "beta": "β", "sigma": "σ", "mu": "μ"}
TERMS = ("g", "−ḡ", "−x̂·mean(g x̂)")
# Which of the three terms of dx come through an arrow.
LOST = {
    **{"y-gamma": (), "y-beta": (), "y-sigma": (2,), "sigma-v": (2,), "v-mu": (2,)},
    **{"y-mu": (0, 1), "mu-m": (1,), "m-x": (1,), "mu-x": (0, 2)},
}
# The equation of chapter 05 behind each step, and its number there.
EQUATIONS = {
    **{"y-gamma": ("eq-batch-dgamma", 7), "y-beta": ("eq-batch-dbeta", 8)},
    **{"y-sigma": ("eq-batch-dsigma", 10), "sigma-v": ("eq-batch-dv", 12)},
    **{"v-mu": ("eq-batch-dmu", 14), "y-mu": ("eq-batch-dmu", 14)},
    **{"mu-m": ("eq-batch-dm", 16), "m-x": ("eq-batch-dx", 21), "mu-x": ("eq-batch-dx", 21)},
    "": ("eq-batch-meet", 28),
}
ROUNDING = 1e-14  # of the largest addend: less is what roundings leave of a sum that is 0


class Flow(NamedTuple):
    """What passes one arrow, four numbers or one each.

    ``gathered`` is the gradient of the node where the arrow ends, as far as it is known then.
    """

    given: list[float]
    local: list[float]
    carried: list[float]
    gathered: list[float]


class Pass(NamedTuple):
    """Layer norm of one row forward and back; ``terms`` are the three terms of dx."""

    m: float
    mu: list[float]
    v: float
    sigma: float
    x_hat: list[float]
    y: list[float]
    flows: dict[str, Flow]
    mean_g: float
    mean_gx: float
    terms: list[list[float]]
    dx: list[float]


def passes(
    x: Sequence[float], weight: Sequence[float], dy: Sequence[float], eps: float, forget: str = ""
) -> Pass:
    """Compute both passes as backward.mjs does, to the last bit; nothing passes ``forget``.

    >>> passes((1, 3, 3, 9), (1, 2, 1, 1.5), (-2, 2, -1, 2), eps=0).flows["y-sigma"].gathered
    [-2.0]
    """
    m = sum_by_pairs(x) / 4
    mu = [a - m for a in x]
    v = sum_by_pairs([a * a for a in mu]) / 4
    sigma = math.sqrt(v + eps)
    x_hat = [a / sigma for a in mu]
    y = [w * a for w, a in zip(weight, x_hat, strict=True)]

    flows: dict[str, Flow] = {}

    def flow(arrow: str, given: Sequence[float], local: list[float]) -> list[float]:
        """Send a gradient through an arrow; what arrives alone is all that is gathered."""
        size = max(len(given), len(local))
        pairs = zip(_spread(given, size), _spread(local, size), strict=True)
        carried = [0.0 if arrow == forget else a * b for a, b in pairs]
        flows[arrow] = Flow(list(given), local, carried, carried)
        return carried

    def gather(arrow: str, gathered: list[float]) -> list[float]:
        flows[arrow] = flows[arrow]._replace(gathered=gathered)
        return gathered

    flow("y-gamma", dy, x_hat)
    flow("y-beta", dy, [1.0])
    square = sigma * sigma
    products = flow("y-sigma", dy, [-(w * a) / square for w, a in zip(weight, mu, strict=True)])
    dsigma = gather("y-sigma", [_sum(products)])
    dv = flow("sigma-v", dsigma, [1 / (2 * sigma)])
    by_v = flow("v-mu", dv, [2 * a / 4 for a in mu])
    by_y = flow("y-mu", dy, [w / sigma for w in weight])
    dmu = gather("y-mu", _add(by_v, by_y))
    dm = gather("mu-m", [_sum(flow("mu-m", dmu, [-1.0]))])
    by_m = flow("m-x", dm, [0.25] * 4)
    dx = gather("mu-x", _add(by_m, flow("mu-x", dmu, [1.0])))

    g = [w * a for w, a in zip(weight, dy, strict=True)]
    mean_g = _sum(g) / 4
    mean_gx = _sum([a * b for a, b in zip(g, x_hat, strict=True)]) / 4
    terms = [
        [a / sigma for a in g],
        [-mean_g / sigma] * 4,
        [-(a * mean_gx) / sigma for a in x_hat],
    ]
    return Pass(m, mu, v, sigma, x_hat, y, flows, mean_g, mean_gx, terms, dx)


def _clean(total: float, addends: Sequence[float]) -> float:
    """Return a sum, or 0 if it is only what roundings leave of its addends."""
    return 0.0 if abs(total) <= ROUNDING * max(map(abs, addends)) else total


def _sum(values: Sequence[float]) -> float:
    return _clean(sum_by_pairs(values), values)


def _add(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Add up two addends a feature; what is less than a rounding of the largest is 0."""
    both = [*a, *b]
    return [_clean(p + q, both) for p, q in zip(a, b, strict=True)]


def _spread(values: Sequence[float], size: int) -> list[float]:
    return [*values] if len(values) == size else [*values] * size


def _arrow(name: str) -> str:
    """Return an arrow as words write it: v → μ."""
    return " → ".join(LETTERS.get(node, node) for node in name.split("-"))


def _row(values: Sequence[float]) -> str:
    """Return a row as words write it: (1, 2.5, −3, 0)."""
    return f"({', '.join(map(number, values))})"


def _is_zero(values: Sequence[float], size: float) -> bool:
    return max(map(abs, values)) <= 1e-9 * size


class BackwardExplorer(Explorer, files="backward"):
    """A row of four features, and the gradient on its way back from y to x, arrow by arrow.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = BackwardExplorer(step=6)
        explorer.forget = "v-mu"
        explorer.observe(print, "dy")

    Attributes:
        x: the row, four numbers from −100 to 100, in units of x.
        weight: γ, four numbers from −5 to 5, no units.
        dy: what arrives at y, four numbers from −10 to 10, in units of the loss.
        eps: from 1e-12 to 1, in units of x².
        step: how many arrows the gradient has passed, 0 to 9; 10 shows the three terms of dx.
        forget: the arrow that carries nothing back, such as "v-mu", or "".

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range, not a number,
            not four of them, or no step or arrow.
    """

    x = Numbers((1, 3, 3, 9), low=-100, high=100, unit="units of x").tag(sync=True)
    weight = Numbers((1, 2, 1, 1.5), low=-5, high=5, unit="no units").tag(sync=True)
    dy = Numbers((-2, 2, -1, 2), low=-10, high=10, unit="units of the loss").tag(sync=True)
    eps = Number(1e-5, low=1e-12, high=1.0, unit="units of x²").tag(sync=True)
    step = Choice(*range(END + 1)).tag(sync=True)
    forget = Choice("", *ARROWS).tag(sync=True)

    def passes(self) -> Pass:
        """Return both passes for the current traits, in float64."""
        return passes(self.x, self.weight, self.dy, self.eps, self.forget)

    def whole(self) -> Pass:
        """Return both passes with nothing forgotten."""
        return passes(self.x, self.weight, self.dy, self.eps)

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        if self.forget:
            return self._missing()
        if self.step == END:
            return self._seen_at_x()
        return (
            "Forward is done; dy waits at y",
            "∂l/∂γ is dy times μ/σ",
            "∂l/∂β is dy itself",
            "Four products add up at σ",
            "Only σ uses v: one factor",
            "The first addend of ∂l/∂μ",
            "Two addends make ∂l/∂μ",
            "Four numbers add up at m",
            "The first addend of dx",
            "Two addends make dx",
        )[self.step]

    def _missing(self) -> str:
        without, lost = f"Without {_arrow(self.forget)}", LOST[self.forget]
        if not lost:
            return f"{without}, ∂l/∂{_arrow(self.forget)[-1]} is missing, and dx is whole"
        terms = self.whole().terms
        what = " and ".join(TERMS[i] for i in lost)
        are, they = ("are", "they are") if len(lost) > 1 else ("is", "it is")
        size = max(map(abs, terms[0])) or 1.0
        none = all(_is_zero(terms[i], size) for i in lost)
        return f"{without}, {what} {are} missing from dx{f'; here {they} 0' if none else ''}"

    def _seen_at_x(self) -> str:
        shown = self.passes()
        size = max(map(abs, shown.terms[0])) or 1.0
        if _is_zero(shown.dx, size):
            return "Nothing arrives at x: dx is 0"
        if shown.v == 0:
            return "x̂ is 0, and so is the third term"
        share = self.eps / (shown.sigma * shown.sigma)
        along = shown.mean_gx / (1 - share)
        g = [a * shown.sigma for a in shown.terms[0]]
        rest = [a - shown.mean_g - along * b for a, b in zip(g, shown.x_hat, strict=True)]
        if _is_zero(rest, size * shown.sigma):
            return f"Along x̂ only ε’s share is left: ε/σ² = {number(share)}"
        if max(map(abs, shown.x_hat)) > 1.73:  # it can never pass √3
            return "The outlier gets nearly nothing"
        return "Three roads back, three terms"

    def sentence(self) -> str:
        """Tell the numbers of the picture."""
        shown = self.passes()
        arrow = ARROWS[self.step - 1] if 0 < self.step < END else ""
        if arrow and arrow == self.forget:
            carries = self.whole().flows[arrow].carried
            would = _row(carries) if len(carries) == 4 else number(carries[0])
            return f"{_arrow(arrow)} carries nothing back here. It would carry {would}."
        if self.step == END and self.forget:
            true = "" if not LOST[self.forget] else f"; the true dx is {_row(self.whole().dx)}"
            return f"What arrives at x is {_row(shown.dx)}{true}."
        flows = shown.flows
        dsigma, dv, dm = (number(flows[k].gathered[0]) for k in ("y-sigma", "sigma-v", "mu-m"))
        slope, sigma = number(flows["sigma-v"].local[0]), number(shown.sigma)
        return (
            f"x gives m = {number(shown.m)}, v = {number(shown.v)}, σ = {sigma} and "
            f"y = {_row(shown.y)}. Each arrow takes dy a step back.",
            "γ multiplies μ/σ, so that is the slope. In a batch, rows add up.",
            "β is only added, so the slope is 1. In a batch, rows add up.",
            f"Each y is divided by the same σ. The four products add up to ∂l/∂σ = {dsigma}.",
            f"σ = √(v + ε) has the slope 1/(2σ) = {slope}: ∂l/∂v is {slope} times {dsigma}, "
            f"which is {dv}.",
            "v is the mean of μ², so its slope is 2μ/4. Four numbers wait at μ for those from y.",
            "y uses μ with the slope γ/σ. μ has two users, so two addends add up.",
            f"m is subtracted from each x, so ∂l/∂m = {dm} is minus the sum of ∂l/∂μ. What came "
            "from v sums to 0, as μ does.",
            f"m is the mean of x, so each x gets a quarter of {dm}, which is "
            f"{number(flows['m-x'].carried[0])}.",
            "Each μ has its own x, with the slope 1. x has two users, m and μ, so two addends "
            "add up.",
            "g comes straight from y, −ḡ through m, and −x̂·mean(g x̂) through σ and v, each "
            f"divided by σ = {sigma}. Here ḡ = {number(shown.mean_g)} and mean(g x̂) = "
            f"{number(shown.mean_gx)}.",
        )[self.step]

    def picture(self) -> Figure:
        """Draw the graph with its numbers; arrows that the gradient has passed point back."""
        figure = Figure(figsize=(6.4, 3.0), dpi=100, layout="constrained")
        figure.suptitle(self.verdict(), fontsize=11)
        ax = figure.subplots()
        ax.set_axis_off()
        ax.set(xlim=(-0.7, 6.9), ylim=(-1.75, 1.5))
        shown, known = self.passes(), self.gradients()
        values = {
            **{"x": self.x, "m": [shown.m], "mu": shown.mu, "v": [shown.v]},
            **{"sigma": [shown.sigma], "y": shown.y, "gamma": self.weight, "beta": [0.0] * 4},
        }
        boxes = {}
        for node, (x, y, right, up) in _PLACES.items():
            letter = LETTERS.get(node, node)
            look: dict[str, Any] = {"fontsize": 9, "ha": "center", "va": "center"}
            words = f"{letter} = {_lines(values[node])}"
            boxes[node] = ax.text(x, y, words, bbox=_BOX, **look).get_bbox_patch()
            if node in known:
                words = f"∂l/∂{letter} = {_lines(known[node])}"
                ax.text(x + right, y + up, words, color=BLUE, **look)
        for number_of, arrow in enumerate(ARROWS, start=1):
            user, used = arrow.split("-")
            back = number_of <= self.step
            start, end = (user, used) if back else (used, user)
            look = {"arrowstyle": "-|>", "mutation_scale": 12, "color": BLUE if back else "0.45"}
            look |= {"linewidth": 1.8 if back else 1.0, "shrinkA": 2, "shrinkB": 2}
            look |= {"linestyle": ":" if arrow == self.forget else "-"}
            look |= {"patchA": boxes[start], "patchB": boxes[end]}
            ax.annotate("", _PLACES[end][:2], _PLACES[start][:2], arrowprops=look)
        return figure

    def gradients(self) -> dict[str, list[float]]:
        """Return the gradient of each node, as far as it is known at this step."""
        flows = self.passes().flows
        passed = {arrow.split("-")[1]: flows[arrow].gathered for arrow in ARROWS[: self.step]}
        return {"y": list(self.dy), **passed}


def _lines(values: Sequence[float]) -> str:
    """Return one number, or four in two lines."""
    words = [*map(number, values)]
    return words[0] if len(words) == 1 else f"({words[0]}, {words[1]},\n{words[2]}, {words[3]})"


_BOX = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.3"}
# Where each node stands in the picture, and how far from it its gradient.
_PLACES = {
    **{"x": (0.0, 0.0, 0.0, -0.55), "m": (1.2, 1.0, 0.0, 0.4), "mu": (2.3, 0.0, 0.0, -0.55)},
    **{"v": (3.2, 1.0, 0.0, 0.4), "sigma": (4.5, 1.0, 0.2, 0.4), "y": (5.5, 0.0, 0.6, 0.6)},
    **{"gamma": (4.4, -1.0, 0.0, -0.55), "beta": (6.2, -1.0, 0.0, -0.55)},
}
