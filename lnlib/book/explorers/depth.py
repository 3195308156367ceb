"""The depth explorer: what 50 layers make of the size of a signal and of its gradient."""

import functools
import math
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from lnlib.book.explorers import vectors
from lnlib.book.explorers.base import BLUE, VERMILLION, Choice, Explorer, Number, Whole, number

WIDTH = 128  # features of a layer
MOST = 50  # layers
SEED = 5 << 20  # a network like most: about two times off the law after 50 layers
Row = NDArray[np.float64]


class Sizes(NamedTuple):
    """The RMS of the activations and of the gradient, from the input to the last layer."""

    activations: list[float]
    gradients: list[float]


def draw(first: int, count: int) -> Row:
    """Return ``count`` numbers that look like chance, from −√3 to √3: mean 0, variance 1.

    They are those of depth.mjs to the last bit, since whole numbers make them: the last step of
    MurmurHash3 stirs the bits of each one's place.

    >>> draw(0, 2).tolist() == [*draw(0, 1), *draw(1, 1)]
    True
    """
    bits = np.arange(SEED + first, SEED + first + count, dtype=np.uint32) * np.uint32(0x9E3779B9)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> np.uint32(shift))) * np.uint32(factor)
    return ((bits ^ (bits >> np.uint32(16))) / 2**31 - 1) * math.sqrt(3)


@functools.cache
def network() -> tuple[Row, Row, Row]:
    """Return weights (layer, input, output), a row and a gradient of it, each with RMS 1."""
    size = MOST * WIDTH * WIDTH
    x, dy = draw(size, WIDTH), draw(size + WIDTH, WIDTH)
    return draw(0, size).reshape(MOST, WIDTH, WIDTH), x / _rms(x), dy / _rms(dy)


def _total(values: Row) -> Row:
    """Add up along the last axis, term by term from the first, as depth.mjs does."""
    return np.asarray(np.cumsum(values, axis=-1)[..., -1])


def _rms(values: Row) -> float:
    return vectors.size(values.tolist())


def measured(order: str, scale: float, depth: int) -> Sizes:
    """Measure a real network, 128 features wide, to the last bit as depth.mjs does.

    A scale of the weights multiplies both sizes layer by layer, and a norm divides it out: so each
    network is measured once.
    """
    found = _measured_at_one(order, depth)
    if order != "none":
        return found
    pairs = zip(found, law(order, scale, depth), strict=True)
    activations, gradients = ([v * s for v, s in zip(*pair, strict=True)] for pair in pairs)
    return Sizes(activations, gradients)


@functools.lru_cache(maxsize=8)
def _measured_at_one(order: str, depth: int) -> Sizes:
    """Return the sizes where the weights have the spread √(2/n)."""
    weights, h, dy = network()
    spread = math.sqrt(2 / WIDTH)
    activations, gradients = [_rms(h)], [_rms(dy)]
    layers = []
    for w in weights[:depth]:
        a = _total(w.T * h) * spread
        b = np.maximum(a, 0) if order == "relu_first" else a
        b, std = (b, 1.0) if order == "none" else _norm(b)
        h = b if order == "relu_first" else np.maximum(b, 0)
        layers.append((w, a if order == "relu_first" else b, b, std))
        activations.append(_rms(h))
    for w, a, y, std in reversed(layers):
        if order == "relu_first":
            dy = _norm_back(dy, y, std) * (a > 0)
        else:
            dy = dy * (a > 0)
            dy = dy if order == "none" else _norm_back(dy, y, std)
        dy = _total(w * dy) * spread
        gradients.append(_rms(dy))
    return Sizes(activations, gradients[::-1])


def _norm(a: Row) -> tuple[Row, float]:
    x_hat, std = vectors.normalize(a.tolist(), eps=0)
    return np.array(x_hat), std


def _norm_back(dy: Row, x_hat: Row, std: float) -> Row:
    return np.array(vectors.back_through(dy.tolist(), x_hat.tolist(), std))


def growth(order: str, scale: float) -> tuple[float, float]:
    """Return by how much one layer multiplies the activations, and the gradient going back.

    >>> growth("none", 1.2), round(growth("relu_first", 3)[1], 2)
    ((1.2, 1.2), 1.21)
    """
    if order == "none":
        return scale, scale
    return 1.0, 1.0 if order == "norm_first" else 1 / math.sqrt(1 - 1 / math.pi)


def law(order: str, scale: float, depth: int) -> Sizes:
    """Return the same sizes in layers so wide that chance cancels."""
    forth, back = growth(order, scale)
    activations, gradients = [1.0], [1.0]
    for _ in range(depth):
        activations.append(activations[-1] * forth)
        gradients.append(gradients[-1] * back)
    gradients.reverse()
    if order == "norm_first":  # a ReLU leaves half of the mean square; the input met none
        activations[1:] = [math.sqrt(0.5)] * depth
        gradients[0] = math.sqrt(0.5)
    return Sizes(activations, gradients)


class DepthExplorer(Explorer, files="depth"):
    """A stack of linear layers with a ReLU each, without a norm, with one before or one behind.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = DepthExplorer()
        explorer.order = "relu_first"
        explorer.observe(print, "scale")

    The norm is layer norm with ε = 0, γ = 1 and β = 0. There are no biases.

    Attributes:
        order: "none", "norm_first" (the norm before the ReLU) or "relu_first".
        scale: the standard deviation of the weights over √(2/H), for H features, from 0.25 to 4.
        depth: how many layers, 1 to 50.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range or no option.
    """

    order = Choice("none", "norm_first", "relu_first").tag(sync=True)
    scale = Number(1.2, low=0.25, high=4, unit="times √(2/H)").tag(sync=True)
    depth = Whole(MOST, low=1, high=MOST, things="layers").tag(sync=True)

    def measured(self) -> Sizes:
        """Return the sizes in a real network of 128 features, in float64."""
        return measured(self.order, self.scale, self.depth)

    def law(self) -> Sizes:
        """Return the sizes in layers so wide that chance cancels."""
        return law(self.order, self.scale, self.depth)

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        most = self.law().gradients[0]
        if self.order == "norm_first":
            return "Both stay level, whatever the weights"
        if self.order == "relu_first":
            how = "grows" if most < 10 else "explodes"
            return f"The activations stay level, the gradient {how}"
        what = "explode" if most >= 10 else "vanish" if most <= 0.1 else "stay near 1"
        return f"Both {what}: × {number(self.scale, 6)} a layer"

    def sentence(self) -> str:
        """Tell the numbers of the picture."""
        exact, seen = self.law(), self.measured()
        a, g = number(seen.activations[-1]), number(seen.gradients[0])
        found = f"a real network of {WIDTH} features ends at {a}, and its gradient at {g}."
        layers = "one layer" if self.depth == 1 else f"{self.depth} layers"
        if self.order == "none":
            s = number(self.scale, 6)
            power = str(self.depth).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
            return (
                f"Each layer multiplies the activations by {s}, and the gradient on its way back "
                f"too. After {layers} that is {s}{power} = {number(exact.activations[-1])}; {found}"
            )
        rms = "1/√2" if self.order == "norm_first" else "1"
        start = f"The norm divides the scale of the weights out: the activations keep the RMS {rms}"
        if self.order == "norm_first":
            return f"{start}, and the gradient keeps its size. After {layers} {found}"
        _, back = growth(self.order, self.scale)
        return (
            f"{start}. But each layer multiplies the gradient by 1/√(1 − 1/π) = {number(back)}, "
            f"and {layers} by {number(exact.gradients[0])}; {found}"
        )

    def picture(self) -> Figure:
        """Draw what the page shows: both sizes by layer, the law as lines, a network as marks."""
        figure = Figure(figsize=(6.4, 3.2), dpi=100, layout="constrained")
        ax = figure.subplots()
        exact, seen = self.law(), self.measured()
        layers = range(self.depth + 1)
        for name, color, line, mark, fill in (
            ("activations", BLUE, "-", "o", BLUE),
            ("gradients", VERMILLION, "--", "s", "none"),
        ):
            ax.semilogy(layers, getattr(exact, name), line, color=color, label=name)
            marks = {"markersize": 3, "color": color, "markerfacecolor": fill}
            ax.semilogy(layers, getattr(seen, name), mark, **marks)
        every = [v for sizes in (*exact, *seen) for v in sizes]
        most = max(3.0, *(abs(math.log10(v)) for v in every)) * 1.05
        ax.set(ylim=(10**-most, 10**most), xlim=(-0.5, MOST + 0.5), xlabel="layer")
        ax.set_ylabel("root mean square")
        ax.set_title(self.verdict(), fontsize=11)
        ax.legend(frameon=False, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        return figure
