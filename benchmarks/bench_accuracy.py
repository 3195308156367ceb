"""How far from the truth is each layer norm? Writes ``benchmarks/results/accuracy.csv``.

Run ``python benchmarks/bench_accuracy.py``. It takes about ten seconds on one core.

Each cell pools the squared error of y over 20 draws of 8 rows (float64: 1 row) with std 1, random
weight and bias. The truth is the formula in float64 or, for float64 itself, in 50 decimal digits.
"""

from collections.abc import Callable

import mpmath
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


def composed(x: Tensor, shape: tuple[int], weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Take the variance in one pass, E[x²] − E[x]², in the type of the input."""
    mean = x.mean(-1, keepdim=True)
    var = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * (var + eps).rsqrt() * weight + bias


METHODS: dict[str, Callable[..., Tensor]] = {
    "lnlib reference": lnlib.layer_norm,
    "torch F.layer_norm": F.layer_norm,
    "composed E[x²]−E[x]²": composed,
}


def squared_error(y: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> float:
    """Return the sum over all values of (y − truth)²."""
    if x.dtype != torch.float64:
        truth = lnlib.formula.layer_norm(x, weight, bias, eps=EPS)
        return float((y.double() - truth).square().sum())
    return sum(squared_error_of_row(*row, weight, bias) for row in zip(y, x, strict=True))


def squared_error_of_row(y: Tensor, x: Tensor, weight: Tensor, bias: Tensor) -> float:
    with mpmath.workdps(50):
        y, x, weight, bias = ([mpmath.mpf(v) for v in t.tolist()] for t in (y, x, weight, bias))
        mean = mpmath.fsum(x) / H
        x_centered = [value - mean for value in x]
        rstd = 1 / mpmath.sqrt(mpmath.fdot(x_centered, x_centered) / H + mpmath.mpf(EPS))
        columns = zip(y, x_centered, weight, bias, strict=True)
        return float(mpmath.fsum((a - (c * rstd * w + b)) ** 2 for a, c, w, b in columns))


def rms_errors(dtype: torch.dtype, mean: float) -> dict[str, float] | None:
    """Return each method's pooled RMS error, or None if rows hold under 16 distinct values."""
    rows = 1 if dtype == torch.float64 else 8
    total = dict.fromkeys(METHODS, 0.0)
    for seed in range(DRAWS):
        generator = torch.Generator().manual_seed(seed)
        x, weight, bias = (
            torch.randn(shape, generator=generator, dtype=torch.float64)
            for shape in ((rows, H), (H,), (H,))
        )
        x, weight, bias = (x + mean).to(dtype), weight.to(dtype), bias.to(dtype)
        if not x.isfinite().all() or min(row.unique().numel() for row in x) < 16:
            return None
        for name, method in METHODS.items():
            total[name] += squared_error(method(x, (H,), weight, bias, EPS), x, weight, bias)
    return {name: (value / (DRAWS * rows * H)) ** 0.5 for name, value in total.items()}


def main() -> None:
    where = provenance() | {"lnlib": lnlib.__version__, "torch": torch.__version__}
    table = []
    for dtype in DTYPES:
        for mean in MEANS:
            errors = rms_errors(dtype, mean)
            if errors is None:
                continue
            for name, error in errors.items():
                ratio = error / errors["torch F.layer_norm"]
                table.append(
                    {
                        "dtype": str(dtype).removeprefix("torch."),
                        "mean_over_std": f"{mean:g}",
                        "method": name,
                        "H": H,
                        "rms_error": f"{error:.3g}",
                        "ratio_to_torch": f"{ratio:.3g}",
                        **where,
                    }
                )
                print(*list(table[-1].values())[:6], sep="\t")
    write("accuracy", table)


if __name__ == "__main__":
    main()
