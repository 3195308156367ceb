"""What does a gradient in closed form save over one put together from rules for the pieces?

Run ``python benchmarks/bench_pieces.py``. It takes about a minute and writes
``benchmarks/results/pieces.csv``.

All ways return x̂ = (x − μ)/(σ + ε) of a batch of rows, and dx for a random dy. "closed form" uses
the derived gradient. "pieces" has one rule for each operation (mean, minus, square, mean, root,
plus, divide), each with its own way back. "pieces, cancelled" is the same, but knows that
deviations from the mean sum to zero, and sums only what does not vanish. "autograd" is PyTorch's
engine going through the same operations. The first three are written alike: out of place, one
operation of PyTorch after the other. They are timed in turn, on one thread, each round in another
order, so a machine that slows down slows all of them; a row gives the median of the ratios to the
closed form and their quartiles.

The rest is counted, not measured. "passes" are the operations of the way back that read or write a
tensor as large as the input. The bytes are those of every storage that an operation of PyTorch
returns, while it lives, in units of the input: "kept" is what lives between forward and backward,
the output x̂ included; "peak" the most that lives at any time, dy and the input not included.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from results_table import noted, provenance, write
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lnlib import formula
from lnlib.book.experiments.memory import live_bytes

EPS = 0.1  # so large that a check sees a factor s/σ that was forgotten
ROWS, FEATURES = 2048, (64, 257, 768, 3072)
ROUNDS = 200
Back = Callable[[Tensor], Tensor]
Way = Callable[[Tensor], tuple[Tensor, Back]]
BackOfTwo = Callable[[Tensor], tuple[Tensor, Tensor]]


def closed_form(x: Tensor) -> tuple[Tensor, Back]:
    centered = x - x.mean(1, keepdim=True)
    std = centered.square().mean(1, keepdim=True).sqrt()
    s = std + EPS
    x_hat = centered / s

    def back(dy: Tensor) -> Tensor:
        along = (dy * x_hat).mean(1, keepdim=True) * (s / std)
        return (dy - dy.mean(1, keepdim=True) - x_hat * along) / s

    return x_hat, back


def mean(x: Tensor) -> tuple[Tensor, Back]:
    H, shape = x.shape[1], x.shape
    return x.mean(1, keepdim=True), lambda dy: (dy / H).expand(shape)


def minus(x: Tensor, mu: Tensor) -> tuple[Tensor, BackOfTwo]:
    return x - mu, lambda dy: (dy, -dy.sum(1, keepdim=True))


def square(x: Tensor) -> tuple[Tensor, Back]:
    return x.square(), lambda dy: 2 * (dy * x)


def root(x: Tensor) -> tuple[Tensor, Back]:
    y = x.sqrt()
    return y, lambda dy: dy / (2 * y)


def divide(x: Tensor, s: Tensor) -> tuple[Tensor, BackOfTwo]:
    y = x / s
    return y, lambda dy: (dy / s, -(dy * y).sum(1, keepdim=True) / s)


def pieces(x: Tensor, cancel: bool = False) -> tuple[Tensor, Back]:
    mu, mean_back = mean(x)
    centered, minus_back = minus(x, mu)
    squares, square_back = square(centered)
    var, var_back = mean(squares)
    std, root_back = root(var)
    x_hat, divide_back = divide(centered, std + EPS)  # plus passes a gradient on as it is
    del squares  # no rule needs it

    def back(dy: Tensor) -> Tensor:
        direct, ds = divide_back(dy)
        d_centered = direct + square_back(var_back(root_back(ds)))
        _, dmu = minus_back(direct if cancel else d_centered)  # the rest is ∝ centered: sum 0
        return d_centered + mean_back(dmu)

    return x_hat, back


def autograd(x: Tensor) -> tuple[Tensor, Back]:
    x = x.detach().requires_grad_()
    centered = x - x.mean(1, keepdim=True)
    x_hat = centered / (centered.square().mean(1, keepdim=True).sqrt() + EPS)
    return x_hat, lambda dy: torch.autograd.grad(x_hat, x, dy)[0]


WAYS: dict[str, Way] = {
    "closed form": closed_form,
    "pieces": pieces,
    "pieces, cancelled": partial(pieces, cancel=True),
    "autograd": autograd,
}


class Passes(TorchDispatchMode):
    """Counts the operations that read or write a tensor of ``size`` elements; views do neither."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.count = size, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        touched = [t.numel() for t in tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
        self.count += self.size in touched and not func.is_view
        return result


def count(way: Way, x: Tensor, dy: Tensor) -> dict[str, str]:
    """Return the passes of the way back, and the bytes kept and the peak in units of the input."""

    def both() -> None:
        made = way(x)  # the output lives on, as it does in a network
        made[1](dy)

    kept = live_bytes(lambda: (way(x), x.view(-1)))[-1]  # the view only looks at what lives
    peak = max(live_bytes(both))
    size = x.untyped_storage().nbytes()
    _, back = way(x)
    with Passes(x.numel()) as passes:
        back(dy)
    bytes_of = {"kept": f"{kept / size:.2f}", "peak": f"{peak / size:.2f}"}
    return {"passes": str(passes.count)} | bytes_of


def check(way: Way, x: Tensor, dy: Tensor) -> None:
    """Refuse a gradient that is off by more than rounding: a hundred units of float32."""
    exact = x.double().requires_grad_()
    truth = formula.layer_norm(exact, eps=EPS, eps_at="std")
    (dx,) = torch.autograd.grad(truth, exact, dy.double())
    torch.testing.assert_close(way(x)[1](dy).double(), dx, atol=100 * 2.0**-24, rtol=0)


def seconds(way: Way, x: Tensor, dy: Tensor) -> list[float]:
    """Return the time of the way back alone, and of both ways."""
    start = time.perf_counter()
    _, back = way(x)
    middle = time.perf_counter()
    back(dy)
    end = time.perf_counter()
    return [end - middle, end - start]


def table() -> Iterator[dict[str, Any]]:
    """Yield a row for each way to the gradient, for each number of features."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for features in FEATURES:
        x, dy = (torch.randn(ROWS, features) for _ in range(2))
        for way in WAYS.values():
            check(way, x, dy)
        times = torch.zeros(ROUNDS, len(WAYS), 2)
        for turn in range(-3, ROUNDS):  # three to warm up
            for number in torch.randperm(len(WAYS)).tolist():  # who follows whom matters
                spent = seconds(list(WAYS.values())[number], x, dy)
                if turn >= 0:
                    times[turn, number] = torch.tensor(spent)
        ratios = times / times[:, :1]
        for number, (name, way) in enumerate(WAYS.items()):
            row: dict[str, Any] = {"way": name, "rows": ROWS, "features": features}
            row |= {"dtype": "float32"} | count(way, x, dy)
            for part, what in enumerate(("back", "both")):
                low, middle, high = statistics.quantiles(ratios[:, number, part].tolist(), n=4)
                row[f"{what}_ms"] = f"{1e3 * times[:, number, part].median():.3g}"
                row |= {f"{what}_ratio": f"{middle:.3g}", f"{what}_low": f"{low:.3g}"}
                row[f"{what}_high"] = f"{high:.3g}"
            yield row


def main() -> None:
    where = provenance() | {"threads": 1, "torch": torch.__version__}
    write("pieces", noted(table(), lambda: where))


if __name__ == "__main__":
    main()
