"""What the chapter on contexts uses: RMS norm in symbols, and which values a norm looks at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from sympy import Expr, Integer
from torch import Tensor

from lnlib.book import style
from lnlib.book.printed import Meaning, symbol

__all__ = ["draw_seen", "rms", "seen"]


def rms(n: int = 5) -> Meaning:
    """Return the meaning of one row of ``n`` features under RMS norm, as chapter 10 writes it.

    Every ∂ goes through every path, so ∂r/∂x_i is the derivative of the whole formula of r.

    Args:
        n: number of features; five, so that none of the numbers in an equation passes for n.

    Source: Zhang, Sennrich 2019, arXiv:1910.07467, eq. 4, with ε under the root.
    """
    features = range(1, n + 1)
    r, eps = symbol("r"), symbol("epsilon")
    meaning = Meaning(
        name=f"{n} features",
        sizes={"feature": n},
        slots={
            **dict.fromkeys(("r", "epsilon", "L"), ()),
            **dict.fromkeys(("x", "hat x", "gamma", "y", "dy", "g", "dx"), ("feature",)),
            "J": ("feature", "feature"),
        },
        numbers={"H": Integer(n)},
    )

    def total(of: str, *places: int) -> Callable[[int], Expr]:
        made_of = meaning.resolve(symbol(of, *places))
        return lambda i: sympy.diff(made_of, symbol("x", i))

    meaning.definitions = {
        "r": lambda: sympy.sqrt(sympy.Add(*(symbol("x", j) ** 2 for j in features)) / n + eps),
        "hat x": lambda k: symbol("x", k) / r,
        "y": lambda k: symbol("gamma", k) * symbol("hat x", k),
        "L": lambda: sympy.Add(*(symbol("dy", k) * symbol("y", k) for k in features)),
        "g": lambda k: symbol("gamma", k) * symbol("dy", k),
        "J": lambda k, i: total("hat x", k)(i),
        "dx": lambda i: total("L")(i),
    }
    return meaning


def seen(norm: Callable[[Tensor], Tensor], x: Tensor, place: tuple[int, ...]) -> Tensor:
    """Return which values of ``x`` one output depends on: True where its gradient is not zero.

    Args:
        norm: a function of tensors like ``x`` that keeps the shape.
        x: float64, any shape; random, so that no derivative is zero by accident.
        place: of the output.
    """
    (gradient,) = torch.autograd.grad(norm(leaf := x.detach().requires_grad_())[place], leaf)
    return gradient != 0


def draw_seen(ax: Axes, title: str, mask: Tensor, place: tuple[int, int, int, int]) -> None:
    """Draw what `seen` found: a grid for each sample, its channels as rows, positions as columns.

    Args:
        ax: where to draw.
        title: above the grids.
        mask: (N, C, Y, X), True where the value is seen.
        place: of the output that sees it, marked by a dot.
    """
    samples = mask.flatten(2)
    _, channels, positions = samples.shape
    colors = ListedColormap([style.PAPER, style.BLUE])
    for number, sample in enumerate(samples):
        left = number * (positions + 1)
        corners = np.arange(positions + 1) + left, np.arange(channels + 1)
        ax.pcolormesh(
            *corners, sample.numpy(), cmap=colors, vmin=0, vmax=1, edgecolor=style.GRID, lw=0.8
        )
        frame = Rectangle((left, 0), positions, channels, fill=False, ec=style.TEXT, lw=1.2)
        ax.add_patch(frame)
    n, c, y, x = place
    across = n * (positions + 1) + y * mask.shape[3] + x
    ax.plot(across + 0.5, c + 0.5, "o", markersize=5, color=style.PAPER, mec=style.TEXT)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.set_title(title, fontsize=12)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)
    ax.grid(visible=False)
