"""The ε explorer: how close together the values of a row may lie before ε decides the output."""

from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from lnlib import formula
from lnlib.book.explorers.base import BLUE, GREEN, MOVED, VERMILLION, Explorer, Number, number

# The book's row, 2, 4, 4, 4, 5, 5, 7, 9, less its mean and over its σ: halves, which binary holds.
PATTERN = tuple(n / 2 for n in (-3, -1, -1, -1, 0, 0, 2, 4))

GREEN_TEXT = "#00704f"  # letters need more contrast than lines
STYLES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-", "marker": "o", "markersize": 4},
    {
        "color": VERMILLION,
        "linestyle": "--",
        "marker": "s",
        "markersize": 8,
        "markerfacecolor": "none",
    },
    {"color": GREEN, "linestyle": ":", "marker": "D", "markersize": 8, "markerfacecolor": "none"},
)
ZERO_AT = 3.5e-8  # a log axis has no 0: the constant row stands here, named "0"


class Version(NamedTuple):
    """One way of normalizing rows: x̂, its biased variance, and the factor on a gradient."""

    x_hat: Tensor
    output_variance: Tensor
    gradient_size: Tensor


def versions(x: Tensor, eps: float) -> tuple[Version, Version, Version]:
    """Normalize the rows of ``x`` by √(σ² + eps), by σ + eps, and by the first in float16.

    Args:
        x: (..., H), float64.
        eps: in units of x² for the first and third, of x for the second.

    Returns: x_hat (..., H) in float64; output_variance and gradient_size (...), the latter being
        the spectral norm of the Jacobian, which is 1 over the denominator.
    """
    half_eps = torch.tensor(eps, dtype=torch.float16).item()  # ε, too, is rounded: 1e-8 to 0
    each = (
        formula.terms(x, eps=eps),
        formula.terms(x, eps=eps, eps_at="std"),
        formula.terms(x, eps=half_eps, dtype=torch.float16),
    )

    def version(terms: formula.Terms) -> Version:
        x_hat = terms.x_hat.double()
        return Version(x_hat, x_hat.var(-1, correction=0), terms.rstd.double()[..., 0])

    pytorch, std, half = map(version, each)
    return pytorch, std, half


class EpsilonExplorer(Explorer, files="epsilon"):
    """The book's row with mean 0 and a spread you choose, normalized three ways.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = EpsilonExplorer()
        explorer.eps = 1e-3
        explorer.observe(print, "eps")

    Attributes:
        eps: from 1e-12 to 1, or 0, in units of x² where it is added to the variance.
        spread: σ, the biased standard deviation of the row, from 1e-7 to 10 in units of x; or 0,
            a constant row.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range or not a number.
    """

    eps = Number(1e-8, low=1e-12, high=1.0, zero=True, unit="units of x²").tag(sync=True)
    spread = Number(3e-5, low=1e-7, high=10.0, zero=True, unit="units of x").tag(sync=True)

    def row(self) -> Tensor:
        """Return the row, (8,) in float64."""
        return self.spread * torch.tensor(PATTERN, dtype=torch.float64)

    def verdict(self) -> str:
        """Say in a few words what is seen."""
        if self.spread == 0 and self.eps == 0:
            return "0 ÷ 0: every version fails"
        pytorch, _, half = versions(self.row(), self.eps)
        left = pytorch.output_variance.item()
        who = "ε decides" if left < 0.25 else "ε and the data share"
        who = "The data decide" if left > 0.75 else who
        return who + ("; pure float16 fails" if wreckage(half.x_hat) else " the output")

    def sentence(self) -> str:
        """Tell the output variance of the three versions."""
        pytorch, std, half = versions(self.row(), self.eps)
        left = [number(v.output_variance.item()) for v in (pytorch, std, half)]
        constant = "With a constant row (σ = 0)"
        subject = constant if self.spread == 0 else f"With σ = {number(self.spread)}"
        wreck = wreckage(half.x_hat)
        if self.spread == 0 and self.eps == 0:
            return f"{subject} and ε = 0, every version divides 0 by 0: {wreck}."
        last = f"; in float16, {wreck}" if wreck else f", float16 of {left[2]}"
        return (
            f"{subject} and ε = {number(self.eps)}, √(σ² + ε) leaves a variance of {left[0]}, "
            f"σ + ε of {left[1]}{last}."
        )

    def picture(self) -> Figure:
        """Draw what the page shows: output variance, the eight values, the factor on gradients."""
        figure = Figure(figsize=(6.4, 4.6), dpi=100, layout="constrained")
        axes = figure.subplot_mosaic([["variance", "variance"], ["x_hat", "gradient"]])
        spreads = torch.logspace(-7, 1, 321, dtype=torch.float64)
        curves = versions(spreads[:, None] * torch.tensor(PATTERN, dtype=torch.float64), self.eps)
        shown = versions(self.row(), self.eps)
        for name, field in (("variance", "output_variance"), ("gradient", "gradient_size")):
            for style, curve, point in zip(STYLES, curves, shown, strict=True):
                axes[name].plot(spreads, getattr(curve, field), **{**style, "marker": ""})
                here = getattr(point, field)
                axes[name].plot(self.spread or ZERO_AT, here, **{**style, "linestyle": ""})
            self._dress_spreads(axes[name], every=2 if name == "variance" else 3)
        self._dress_variance(axes["variance"], spreads[curves[2].gradient_size.isinf()])
        self._dress_strip(axes["x_hat"], shown)
        axes["gradient"].set(yscale="log", ylim=(5e-2, 2e12), title="largest factor on a gradient")
        for ax in axes.values():
            ax.title.set_fontsize(10)
            ax.spines[["top", "right"]].set_visible(False)
        return figure

    def _dress_spreads(self, ax: Axes, every: int) -> None:
        """Give ``ax`` the σ axis, on which the constant row has a place left of 1e-7."""
        ax.set(xscale="log", xlim=(2e-8, 14), xlabel="spread σ of the row (units of x)")
        powers = range(1, -8, -every)
        labels = ["0", *(f"$10^{{{power}}}$" for power in powers)]
        ax.set_xticks([ZERO_AT, *(10.0**power for power in powers)], labels)
        ax.minorticks_off()
        ax.axvline(self.spread or ZERO_AT, color=MOVED, linewidth=1)

    def _dress_variance(self, ax: Axes, broken: Tensor) -> None:
        ax.set(ylim=(-0.08, 1.9), yticks=[0, 0.5, 1])
        ax.set_title(
            f"{self.verdict()}. Output variance, σ = {number(self.spread)}, ε = {number(self.eps)}"
        )
        labels = ("√(σ² + ε), PyTorch", "σ + ε", "√(σ² + ε), every step in float16")
        keys = [
            Line2D([], [], label=label, **style)
            for style, label in zip(STYLES, labels, strict=True)
        ]
        ax.legend(handles=keys, loc="upper left", ncols=3, frameon=False, fontsize=8)
        if len(broken):
            end = float(broken.max())
            ax.text(ZERO_AT, 1.45, "float16 divides by 0", color=GREEN_TEXT, fontsize=8)
            ax.fill_between(
                (ZERO_AT, end), 1.2, 1.4, hatch="////", facecolor="none", edgecolor=GREEN
            )

    def _dress_strip(self, ax: Axes, shown: tuple[Version, Version, Version]) -> None:
        for lane, (style, version) in enumerate(zip(STYLES, shown, strict=True)):
            style = {**style, "linestyle": "", "markersize": 5}
            wreck = wreckage(version.x_hat)
            if not wreck:
                gray = {**style, "color": "0.6", "markerfacecolor": "none"}
                ax.plot(PATTERN, [-lane] * 8, **gray)
            ax.plot(version.x_hat, [-lane] * 8, **style)
            ax.text(0, -lane, wreck, ha="center", va="center")
        ax.set(
            xlim=(-1.75, 2.25),
            ylim=(-2.5, 0.5),
            xlabel="x̂",
            title="the 8 values; gray: if ε were 0",
        )
        ax.set_yticks([0, -1, -2], ["√(σ² + ε)", "σ + ε", "float16"])


def wreckage(x_hat: Tensor) -> str:
    """Say what a division by zero made of a row; "" if all its values are numbers.

    >>> wreckage(torch.full((8,), torch.nan))
    'all 8 values are NaN'
    """
    size, infinite, nan = x_hat.numel(), int(x_hat.isinf().sum()), int(x_hat.isnan().sum())
    if nan == size:
        return f"all {nan} values are NaN"
    return "" if infinite + nan == 0 else f"{infinite} values are ±∞, {nan} NaN"
