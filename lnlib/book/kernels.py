"""What the chapter on kernels uses: Triton on a CPU, the roofline, and what a GPU was timed at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes

from lnlib.book import style
from lnlib.book.kernel_results import read_results
from lnlib.triton_kernel import runtime

__all__ = ["Speed", "bounds", "interpreted", "recorded_speeds", "roofline", "timed", "times"]


def interpreted() -> tuple[ModuleType, ModuleType]:
    """Return ``triton`` and ``triton.language`` for kernels that run on a CPU, without a compiler.

    What ``triton.jit`` of this one decorates, Triton's interpreter runs in NumPy: one program after
    another, on the CPU tensors themselves. Nothing else in this process is changed.

    Raises: ImportError if Triton is missing or too old; the message says what to do.
    """
    cpu = torch.device("cpu")
    runtime.check(cpu)
    triton = runtime.triton_for(cpu)
    return triton, triton.language


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
    intensity = np.array([0.2, ridge, 100.0])
    ax.plot(intensity, np.minimum(intensity * bandwidth, rate) / 1e12, **style.THEORY)
    for name, (x, side) in work.items():
        y = min(x * bandwidth, rate) / 1e12
        ax.plot(x, y, "o", color=style.BLUE)
        away, at = ((-9, 6), "right") if side == "left" else ((9, -6), "left")
        ax.annotate(name, (x, y), away, textcoords="offset points", ha=at, va="center")
    ax.axvline(ridge, ymax=0.13, color=style.TEXT, linewidth=0.8)
    ax.text(ridge / 1.1, 1, "memory decides", ha="right")
    ax.text(ridge * 1.1, 1, "computing decides")
    ax.set(xscale="log", yscale="log", xlim=(0.2, 100), ylim=(0.8, 150))
    ax.set(xlabel="operations a byte", ylabel="trillion operations a second")


class Speed(NamedTuple):
    """How long one pass took on a GPU."""

    provider: str
    direction: str  # "forward" or "backward"
    elements: int  # rows × features
    microseconds: float


def recorded_speeds() -> list[Speed]:
    """Return what was recorded in bfloat16 on an H200, of the kernels that were timed last."""
    rows = [row for row in read_results() if row["median_us"] and "H200" in row["device"]]
    last = max(rows, key=lambda row: row["date"], default={"code": ""})
    return [
        Speed(
            row["provider"],
            row["pass"],
            int(row["rows"]) * int(row["features"]),
            float(row["median_us"]),
        )
        for row in rows
        if row["dtype"] == "bfloat16" and row["code"] == last["code"]
        if row["provider"] != "copy" and row["regime"] != "latency"
    ]


def timed(
    name: str,
    layer_norm: Callable[..., torch.Tensor],
    rows: Iterable[int] = (1024, 8192, 65536),
    features: int = 4096,
) -> list[Speed]:
    """Time both passes of ``layer_norm`` in bfloat16, with γ and β, on this machine's GPU.

    The median of `triton.testing.do_bench`, which empties the cache between two runs. The way back
    is timed through autograd. `benchmarks/bench_layer_norm.py` is more careful.
    """
    from triton.testing import do_bench

    speeds = []
    for B in rows:
        shapes = (B, features), (features,), (features,)
        inputs = [torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in shapes]
        x, weight, bias = (t.requires_grad_() for t in inputs)
        forward = partial(layer_norm, x, (features,), weight, bias)
        y, dy = forward(), torch.randn_like(x)
        backward = partial(torch.autograd.grad, y, inputs, dy, retain_graph=True)
        for direction, run in (("forward", forward), ("backward", backward)):
            milliseconds = do_bench(run, return_mode="median")
            speeds.append(Speed(name, direction, x.numel(), 1000 * milliseconds))
    return speeds


def bounds(ax: Axes, bandwidth: float, bytes_an_element: Mapping[str, int]) -> None:
    """Draw the least time that moving the bytes takes, in microseconds, against rows × features."""
    elements = np.array([2.0**20, 2.0**30])
    looks = style.LAYER_NORM, style.RIVAL, style.THIRD
    for (name, count), look in zip(bytes_an_element.items(), looks, strict=False):
        ax.plot(elements, 1e6 * count * elements / bandwidth, label=name, **look)
    ax.set(xscale="log", yscale="log", xlim=(2**20, 2**30), ylim=(0.5, 5000))
    ax.set(xlabel="rows × features", ylabel="microseconds")


def times(ax: Axes, speeds: Iterable[Speed], direction: str) -> None:
    """Mark what was timed of one direction, with a marker for each provider."""
    kept = [speed for speed in speeds if speed.direction == direction]
    for provider, marker in zip(sorted({s.provider for s in kept}), "osv^Dx+*", strict=False):
        theirs = [speed for speed in kept if speed.provider == provider]
        elements, microseconds = zip(*((s.elements, s.microseconds) for s in theirs), strict=True)
        ax.plot(elements, microseconds, marker, color=style.TEXT, label=provider, markersize=4)
