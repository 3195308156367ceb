"""Who is right where? Writes ``accuracy.csv`` and ``accuracy_constant_rows.csv`` to results/.

Run ``python benchmarks/bench_accuracy.py``; it takes under three minutes on two cores. Peers take
part where they are installed: ``pip install ".[peers]"``.

Inputs have a standard deviation of 1 before they are rounded, and random weight, bias and upstream
gradient. The truth is `lnlib.formula` in float64 with autograd or, for float64 itself, formula and
gradients in 50 decimal digits. An error is the root mean square over the draws of one shape:

* over rounding: divided by the error of the truth itself, rounded once to the type. 1 is the best.
* over PyTorch: divided by PyTorch's error on the same draws.

Both are geometric means over the shapes. A NaN anywhere makes them NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np
import torch
from accuracy_providers import DTYPES, EPS, LOADERS, THEIRS, Draw, Provider, Results, load, takes
from results_table import provenance, write
from torch import Tensor

import lnlib

MEANS = (0.0, 1.0, 1e2, 1e3, 1e4, 1e5)
SHAPES = ((8, 7), (8, 769), (3, 4097), (129, 257))
MOST_DRAWS, ELEMENTS = 30, 16_384  # of a shape: as many draws as make these elements
WHAT = ("y", "dx", "dweight", "dbias")
Shape = tuple[int, int]  # rows, features
Errors = dict[str, list[float | None]]  # by provider, of each of `WHAT`; None if it has no such
ByShape = dict[Shape, Errors]
CONSTANT_SHAPES = ((64, 7), (64, 257), (64, 769))


class Truth(NamedTuple):
    """A true value as the float64 nearest to it, and what is missing: twice as many digits."""

    nearest: Tensor
    rest: Tensor


def as_type(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_resolved(dtype: torch.dtype, mean: float) -> bool:
    """Tell whether a step of the type, at this mean, is at most one standard deviation."""
    return mean < torch.finfo(dtype).max and mean * torch.finfo(dtype).eps <= 1


def draws(shape: Shape, mean: float, dtype: torch.dtype) -> Iterator[Draw]:
    """Yield the draws of one shape, the same for every provider."""
    B, H = shape
    for seed in range(min(MOST_DRAWS, math.ceil(ELEMENTS / (B * H)))):
        generator = torch.Generator().manual_seed(seed)
        x, weight, bias, dy = (
            torch.randn(size, generator=generator, dtype=torch.float64)
            for size in ((B, H), (H,), (H,), (B, H))
        )
        yield Draw((x + mean).to(dtype), weight.to(dtype), bias.to(dtype), dy.to(dtype))


def truth(draw: Draw) -> list[Truth]:
    """Return the true y, dx, dweight and dbias of the inputs as they are, rounded to their type."""
    if draw.x.dtype == torch.float64:
        return in_fifty_digits(draw)
    leaves = [tensor.double().requires_grad_() for tensor in draw[:3]]
    y = lnlib.formula.layer_norm(*leaves, eps=EPS)
    values = [y.detach(), *torch.autograd.grad(y, leaves, draw.dy.double())]
    return [Truth(value, torch.zeros_like(value)) for value in values]


def in_fifty_digits(draw: Draw) -> list[Truth]:
    with mpmath.workdps(50):
        as_array = np.vectorize(mpmath.mpf, otypes=[object])
        x, weight, bias, dy = (as_array(tensor.numpy()) for tensor in draw)
        x_centered = x - x.mean(-1, keepdims=True)
        variance = (x_centered**2).mean(-1, keepdims=True) + mpmath.mpf(EPS)
        rstd = 1 / np.vectorize(mpmath.sqrt, otypes=[object])(variance)
        x_hat, g = x_centered * rstd, dy * weight
        projected = g.mean(-1, keepdims=True) + x_hat * (g * x_hat).mean(-1, keepdims=True)
        dweight, dbias = (dy * x_hat).sum(0), dy.sum(0)
        values = [x_hat * weight + bias, rstd * (g - projected), dweight, dbias]
        nearest = [value.astype(np.float64) for value in values]
        rest = [(a - b).astype(np.float64) for a, b in zip(values, nearest, strict=True)]
    return [
        Truth(torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(nearest, rest, strict=True)
    ]


def squared_error(computed: Tensor, true: Truth) -> float:
    """Return the sum over all values of (computed − true)²."""
    return float(((computed.double() - true.nearest) - true.rest).square().sum())


ROUNDED = "the truth, rounded once"


def rms_errors(
    providers: dict[str, Provider], dtype: torch.dtype, mean: float, shape: Shape
) -> Errors:
    """Return the RMS errors of each provider, and of the rounded truth, for one shape.

    Whoever cannot do that many elements is left out.
    """
    able = {name: p for name, p in providers.items() if math.prod(shape) <= p.largest}
    total: Errors = {name: [0.0] * len(WHAT) for name in (ROUNDED, *able)}
    count = 0
    for draw in draws(shape, mean, dtype):
        count += 1
        true = truth(draw)
        computed: dict[str, Results] = {ROUNDED: [each.nearest.to(dtype) for each in true]}
        computed |= {name: provider.run(draw) for name, provider in able.items()}
        for name, results in computed.items():
            total[name] = [
                None if result is None else so_far + squared_error(result, each)
                for so_far, result, each in zip(total[name], results, true, strict=True)
            ]
    sizes = (math.prod(shape), math.prod(shape), shape[1], shape[1])
    return {
        name: [
            None if value is None else math.sqrt(value / (count * size))
            for value, size in zip(values, sizes, strict=True)
        ]
        for name, values in total.items()
    }


def geometric_mean(found: dict[Shape, float]) -> float:
    return math.exp(sum(map(math.log, found.values())) / len(found))


def ratios(by_shape: ByShape, name: str, other: str, i: int) -> dict[Shape, float]:
    """Return, of each shape that ``name`` did, its error in ``WHAT[i]`` over that of ``other``."""
    return {
        shape: errors[name][i] / errors[other][i]
        for shape, errors in by_shape.items()
        if name in errors and errors[name][i] is not None
    }


def row_of(name: str, by_shape: ByShape) -> dict[str, str]:
    """Return the ratios of one provider, and the largest of those over PyTorch with its place."""
    row, places = {}, []
    for i, what in enumerate(WHAT):
        for column, other in (("rounding", ROUNDED), ("torch", THEIRS)):
            found = ratios(by_shape, name, other, i)
            row[f"{what}_over_{column}"] = f"{geometric_mean(found):.3g}" if found else ""
        places += [(ratio, f"{what} of {B} × {H}") for (B, H), ratio in found.items()]
    worst, at = max(places, key=lambda place: (math.isnan(place[0]), place[0]))
    return row | {"worst_over_torch": f"{worst:.3g}", "worst_at": at}


def table(providers: dict[str, Provider], where: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each type, mean and provider."""
    for dtype in DTYPES:
        able = {name: p for name, p in providers.items() if takes(p, dtype)}
        for mean in MEANS:
            if not is_resolved(dtype, mean):
                continue
            by_shape = {shape: rms_errors(able, dtype, mean, shape) for shape in SHAPES}
            for name, provider in able.items():
                cell = {"dtype": as_type(dtype), "mean_over_std": f"{mean:g}", "method": name}
                yield cell | row_of(name, by_shape) | {"version": provider.version} | where


def constant_rows(dtype: torch.dtype) -> Iterator[Draw]:
    """Yield rows of one number each, between 0.01 and 100,000 of either sign, or 10,000."""
    decades = 6 if dtype == torch.float16 else 7
    for seed, (B, H) in enumerate(CONSTANT_SHAPES):
        generator = torch.Generator().manual_seed(seed)
        size = 10 ** (decades * torch.rand(B, 1, generator=generator, dtype=torch.float64) - 2)
        x = size * torch.randn(B, 1, generator=generator, dtype=torch.float64).sign()
        weight, bias = torch.randn(2, H, generator=generator, dtype=torch.float64).to(dtype)
        x = x.to(dtype).expand(B, H).contiguous()
        yield Draw(x, weight, bias, torch.ones_like(x))


def on_constant_rows(provider: Provider, dtype: torch.dtype) -> str:
    """Return in words what a provider makes of rows without variance, whose y is β exactly."""
    found = [(provider.run(draw)[0].double(), draw.bias.double()) for draw in constant_rows(dtype)]
    off = torch.cat([(y - bias).abs().amax(-1) for y, bias in found])
    if off.isnan().any():
        return f"NaN in {off.isnan().double().mean():.0%}"
    return f"off by {float(f'{off.max():.1g}'):g}" if off.any() else "β"


def constant_table(
    providers: dict[str, Provider], absent: dict[str, str], where: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Yield a row for each provider, absent ones too, with a column for each type."""
    for name, provider in providers.items():
        cells = {
            as_type(dtype): on_constant_rows(provider, dtype) if takes(provider, dtype) else ""
            for dtype in DTYPES
        }
        yield {"method": name} | cells | {"version": provider.version} | where
    empty = dict.fromkeys(map(as_type, DTYPES), "")
    for name in absent:
        yield {"method": name} | empty | {"version": "absent"} | where


def main() -> None:
    providers, absent = load(LOADERS)
    for name, why in absent.items():
        print(f"absent: {name} ({why})")
    rows = []
    for row in table(providers, provenance() | {"torch": torch.__version__}):
        print(*list(row.values())[:11], sep="\t", flush=True)
        rows.append(row)
    write("accuracy", rows)
    where = provenance()
    write("accuracy_constant_rows", list(constant_table(providers, absent, where)))


if __name__ == "__main__":
    main()
