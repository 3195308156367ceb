"""What does accuracy cost? Time of lnlib's reference over PyTorch's own layer norm, on this CPU.

Run ``python benchmarks/bench_speed.py``. It takes about a minute. The two are timed in turn, so a
machine that slows down slows both; a row gives the median of the ratios and their quartiles.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from results_table import provenance, write
from torch import Tensor

import lnlib

SHAPES = ((1, 768), (512, 257), (4096, 768), (2048, 4096))
ROUNDS = 25


def forward(backend: str, x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> None:
    with torch.no_grad():
        lnlib.layer_norm(x, weight.shape, weight, bias, backend=backend)


def both_ways(backend: str, x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> None:
    y = lnlib.layer_norm(x, weight.shape, weight, bias, backend=backend)
    torch.autograd.grad(y, (x, weight, bias), dy)


def seconds(run: Callable[..., None], backend: str, arguments: list[Tensor]) -> float:
    start = time.perf_counter()
    run(backend, *arguments)
    return time.perf_counter() - start


def main() -> None:
    torch.manual_seed(0)
    where = provenance() | {"threads": torch.get_num_threads(), "torch": torch.__version__}
    table = []
    for name, run in (("forward", forward), ("forward and backward", both_ways)):
        for rows, features in SHAPES:
            sizes = ((rows, features), (features,), (features,))
            arguments = [torch.randn(size, requires_grad=True) for size in sizes]
            arguments.append(torch.randn(rows, features))
            ratios, times = [], []
            for _ in range(ROUNDS + 3):
                times.append(seconds(run, "torch", arguments))
                ratios.append(seconds(run, "reference", arguments) / times[-1])
            low, middle, high = statistics.quantiles(ratios[3:], n=4)  # after three to warm up
            table.append(
                {
                    "what": name,
                    "rows": rows,
                    "features": features,
                    "dtype": "float32",
                    "torch_ms": f"{1e3 * statistics.median(times[3:]):.3g}",
                    "ratio": f"{middle:.3g}",
                    "quartiles": f"{low:.3g} to {high:.3g}",
                    **where,
                }
            )
            print(*list(table[-1].values())[:7], sep="\t")
    write("speed", table)


if __name__ == "__main__":
    main()
