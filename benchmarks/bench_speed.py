"""What does accuracy cost? Time of lnlib's Function, of autograd and of PyTorch's, on this CPU.

Run ``python benchmarks/bench_speed.py``. It takes about two minutes. Timed in turn, one of each in
every round, so a machine that slows down slows them all:

* the Function: lnlib's "reference", with the gradient in closed form, block by block;
* the composed formula: the same forward pass, with autograd's gradient;
* PyTorch: `torch.nn.functional.layer_norm`.

A row gives the medians of the ratios of one round, with their quartiles: the Function over PyTorch
(above 1 is slower), and the composed formula over the Function (above 1: the Function is faster).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from results_table import provenance, write
from torch import Tensor

import lnlib
from lnlib import reference

SHAPES = ((1, 768), (512, 257), (4096, 768), (4096, 1024), (16384, 256), (2048, 4096))
WARM_UP, ROUNDS = 3, 25

LayerNorm = Callable[..., Tensor]
METHODS: tuple[LayerNorm, ...] = (lnlib.layer_norm, reference.layer_norm, F.layer_norm)


def forward(layer_norm: LayerNorm, x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> None:
    with torch.no_grad():
        layer_norm(x, weight.shape, weight, bias)


def both_ways(layer_norm: LayerNorm, x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> None:
    y = layer_norm(x, weight.shape, weight, bias)
    torch.autograd.grad(y, (x, weight, bias), dy)


def seconds(run: Callable[..., None], layer_norm: LayerNorm, arguments: list[Tensor]) -> float:
    start = time.perf_counter()
    run(layer_norm, *arguments)
    return time.perf_counter() - start


def ratio(slower: list[float], faster: list[float]) -> tuple[str, str]:
    """Return the median and the quartiles of the ratios, round by round."""
    ratios = [a / b for a, b in zip(slower, faster, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3g}", f"{low:.3g} to {high:.3g}"


def main() -> None:
    torch.manual_seed(0)
    where = provenance() | {"threads": torch.get_num_threads(), "torch": torch.__version__}
    table = []
    for name, run in (("forward", forward), ("forward and backward", both_ways)):
        for rows, features in SHAPES:
            sizes = ((rows, features), (features,), (features,))
            arguments = [torch.randn(size, requires_grad=True) for size in sizes]
            arguments.append(torch.randn(rows, features))
            rounds = [
                [seconds(run, method, arguments) for method in METHODS]
                for _ in range(WARM_UP + ROUNDS)
            ]
            ours, composed, theirs = map(list, zip(*rounds[WARM_UP:], strict=True))
            over_torch, quartiles_over_torch = ratio(ours, theirs)
            composed_over, quartiles_composed_over = ratio(composed, ours)
            table.append(
                {
                    "what": name,
                    "rows": rows,
                    "features": features,
                    "dtype": "float32",
                    "torch_ms": f"{1e3 * statistics.median(theirs):.3g}",
                    "over_torch": over_torch,
                    "quartiles": quartiles_over_torch,
                    "composed_over": composed_over,
                    "quartiles_composed_over": quartiles_composed_over,
                    **where,
                }
            )
            print(*list(table[-1].values())[:9], sep="\t")
    write("speed", table)


if __name__ == "__main__":
    main()
