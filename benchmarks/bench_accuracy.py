"""How far from the truth is each layer norm? Writes ``benchmarks/results/accuracy.csv``.

Run ``python benchmarks/bench_accuracy.py``. It takes under a minute on one core.

Each cell pools the squared error of y, and of every gradient, over 20 draws of 8 rows (float64: 2
rows) with std 1, random weight, bias and upstream gradient. The truth is the formula in float64
with autograd or, for float64 itself, formula and gradients in 50 decimal digits.
"""

from collections.abc import Callable

import mpmath
import numpy as np
import torch
import torch.nn.functional as F
from results_table import provenance, write
from torch import Tensor

import lnlib

H = 769
DRAWS = 20
EPS = 1e-5
MEANS = (0.0, 1.0, 1e2, 1e3, 1e4, 1e5)
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def one_pass(x: Tensor, shape: tuple[int], weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Take the variance in one pass, E[x²] − E[x]², in the type of the input."""
    mean = x.mean(-1, keepdim=True)
    var = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * (var + eps).rsqrt() * weight + bias


METHODS: dict[str, Callable[..., Tensor]] = {
    "lnlib reference": lnlib.layer_norm,
    "torch F.layer_norm": F.layer_norm,
    "one pass, E[x²]−E[x]²": one_pass,
}


WHAT = ("y", "dx", "dweight", "dbias")


def results(method: Callable[..., Tensor], inputs: list[Tensor], dy: Tensor) -> list[Tensor]:
    """Return y, dx, dweight and dbias."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    y = method(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def squared_errors(computed: list[Tensor], inputs: list[Tensor], dy: Tensor) -> list[float]:
    """Return, of y and every gradient, the sum over all values of (computed − truth)²."""
    if dy.dtype == torch.float64:
        return squared_errors_of_float64(computed, inputs, dy)
    truth = results(
        lambda x, weight, bias: lnlib.formula.layer_norm(x, weight, bias, eps=EPS),
        [tensor.double() for tensor in inputs],
        dy.double(),
    )
    return [float((a.double() - b).square().sum()) for a, b in zip(computed, truth, strict=True)]


def squared_errors_of_float64(
    computed: list[Tensor], inputs: list[Tensor], dy: Tensor
) -> list[float]:
    with mpmath.workdps(50):
        as_array = np.vectorize(mpmath.mpf, otypes=[object])
        x, weight, bias, dy = (as_array(tensor.numpy()) for tensor in (*inputs, dy))
        x_centered = x - x.mean(-1, keepdims=True)
        variance = (x_centered**2).mean(-1, keepdims=True) + mpmath.mpf(EPS)
        rstd = 1 / np.vectorize(mpmath.sqrt, otypes=[object])(variance)
        x_hat, g = x_centered * rstd, dy * weight
        projected = g.mean(-1, keepdims=True) + x_hat * (g * x_hat).mean(-1, keepdims=True)
        dweight, dbias = (dy * x_hat).sum(0), dy.sum(0)
        truth = [x_hat * weight + bias, rstd * (g - projected), dweight, dbias]
        pairs = zip(computed, truth, strict=True)
        return [float(((as_array(a.numpy()) - b) ** 2).sum()) for a, b in pairs]


def rms_errors(dtype: torch.dtype, mean: float) -> dict[str, list[float]] | None:
    """Return each method's pooled RMS errors, or None if rows hold under 16 distinct values."""
    rows = 2 if dtype == torch.float64 else 8
    total = {name: [0.0] * len(WHAT) for name in METHODS}
    for seed in range(DRAWS):
        generator = torch.Generator().manual_seed(seed)
        x, weight, bias, dy = (
            torch.randn(shape, generator=generator, dtype=torch.float64)
            for shape in ((rows, H), (H,), (H,), (rows, H))
        )
        inputs, dy = [(x + mean).to(dtype), weight.to(dtype), bias.to(dtype)], dy.to(dtype)
        x = inputs[0]
        if not x.isfinite().all() or min(row.unique().numel() for row in x) < 16:
            return None
        for name, method in METHODS.items():
            computed = results(lambda *a, run=method: run(a[0], (H,), *a[1:], EPS), inputs, dy)
            errors = squared_errors(computed, inputs, dy)
            total[name] = [a + b for a, b in zip(total[name], errors, strict=True)]
    counts = (DRAWS * rows * H, DRAWS * rows * H, DRAWS * H, DRAWS * H)
    return {
        name: [(value / n) ** 0.5 for value, n in zip(values, counts, strict=True)]
        for name, values in total.items()
    }


def main() -> None:
    where = provenance() | {"lnlib": lnlib.__version__, "torch": torch.__version__}
    table = []
    for dtype in DTYPES:
        for mean in MEANS:
            errors = rms_errors(dtype, mean)
            if errors is None:
                continue
            theirs = errors["torch F.layer_norm"]
            for name, ours in errors.items():
                y, *gradients = (
                    f"{a / b:.3g}" if b else "" for a, b in zip(ours, theirs, strict=True)
                )
                table.append(
                    {
                        "dtype": str(dtype).removeprefix("torch."),
                        "mean_over_std": f"{mean:g}",
                        "method": name,
                        "H": H,
                        "rms_error": f"{ours[0]:.3g}",
                        "ratio_to_torch": y,
                        **dict(zip(("dx", "dweight", "dbias"), gradients, strict=True)),
                        **where,
                    }
                )
                print(*list(table[-1].values())[:9], sep="\t")
    write("accuracy", table)


if __name__ == "__main__":
    main()
