"""Drawings that more than one chapter uses, or that are too long for a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle
from torch import Tensor

from lnlib.book import style

Array = npt.NDArray[Any]


def shared_cells(
    ax: Axes, title: str, *, color: str, rows: Sequence[int] = (), columns: Sequence[int] = ()
) -> None:
    """Draw a batch of 4 samples by 6 features and fill the cells that share one mean."""
    cells = np.zeros((4, 6))
    cells[list(rows), :] = 1
    cells[:, list(columns)] = 1
    ax.pcolormesh(cells, cmap=ListedColormap([style.PAPER, color]), edgecolor=style.TEXT, lw=0.8)
    ax.set(title=title, xlabel="features", ylabel="samples", aspect="equal", xticks=[], yticks=[])
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


def band(
    ax: Axes, curve: Mapping[str, Array], column: str, name: str, look: Mapping[str, Any]
) -> None:
    """Draw a recorded mean over the training steps, with its interval as a band around it."""
    steps, mean, half = curve["step"], curve[column], curve[f"{column}_pm"]
    ax.plot(steps, mean, label=name, **look)
    ax.fill_between(steps, mean - half, mean + half, color=look["color"], alpha=0.25, linewidth=0)


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
    ax.set_title(title)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)
    ax.grid(visible=False)


def roofline(
    ax: Axes, bandwidth: float, rate: float, work: Mapping[str, tuple[float, str]]
) -> None:
    """Draw how fast a GPU can compute at most, against how much it computes with each byte.

    Args:
        ax: where.
        bandwidth: bytes a second between memory and GPU.
        rate: operations a second.
        work: name -> operations a byte, which is marked on the roof, and the side of the mark where
            the name stands, "left" or "right".
    """
    ridge = rate / bandwidth
    intensity = np.array([0.2, ridge, 200.0])
    ax.plot(intensity, np.minimum(intensity * bandwidth, rate) / 1e12, **style.THEORY)
    for name, (x, side) in work.items():
        y = min(x * bandwidth, rate) / 1e12
        ax.plot(x, y, "o", color=style.BLUE)
        away, at = ((-9, 6), "right") if side == "left" else ((9, -6), "left")
        ax.annotate(name, (x, y), away, textcoords="offset points", ha=at, va="center")
    ax.axvline(ridge, ymin=0.87, color=style.TEXT, linewidth=0.8)
    ax.text(ridge / 1.1, 150, "memory decides", ha="right", va="center")
    ax.text(ridge * 1.1, 150, "computing decides", va="center")
    ax.set(xscale="log", yscale="log", xlim=(0.2, 200), ylim=(0.8, 200))
    ax.set(xlabel="operations a byte", ylabel="trillion operations a second")


def bounds(ax: Axes, bandwidth: float, bytes_an_element: Mapping[str, int]) -> None:
    """Draw the least time that moving the bytes takes, in microseconds, against rows × features."""
    elements = np.array([2.0**20, 2.0**30])
    looks = style.LAYER_NORM, style.RIVAL, style.THIRD
    for (name, count), look in zip(bytes_an_element.items(), looks, strict=False):
        ax.plot(elements, 1e6 * count * elements / bandwidth, label=name, **look)
    ax.set(xscale="log", yscale="log", xlim=(2**20, 2**30), ylim=(0.5, 5000))
    ax.set(xlabel="rows × features", ylabel="microseconds")
