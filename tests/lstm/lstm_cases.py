"""Sequences, states and weights for the tests of `lnlib.lstm`, and gradients along random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.lstm import formula
from lnlib.lstm.formula import Weights
from lnlib.lstm.function import Settings
from lnlib.lstm.run import run

EPS = 1e-5
NAMES = ("x", "h", "c", *Weights._fields)
CARRIES = ("raw", "normalized")


class Case(NamedTuple):
    """What `lnlib.lstm.formula.lstm` takes."""

    x: Tensor
    h: Tensor
    c: Tensor
    weights: Weights
    batch_sizes: Sequence[int]

    def tensors(self) -> tuple[Tensor | None, ...]:
        return self.x, self.h, self.c, *self.weights

    def leaves(self) -> list[Tensor]:
        return [t for t in self.tensors() if t is not None and t.requires_grad]

    def to(self, dtype: torch.dtype) -> Case:
        """Return a copy, of the same numbers where ``dtype`` is wider."""
        x, h, c, *weights = (
            None if t is None else t.detach().to(dtype, copy=True).requires_grad_(t.requires_grad)
            for t in self.tensors()
        )
        return Case(x, h, c, Weights(*weights), self.batch_sizes)


def rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def case(
    batch_sizes: Sequence[int] = (3, 3, 3, 3),
    input_size: int = 5,
    size: int = 7,
    bias: bool = True,
    dtype: torch.dtype = torch.float64,
    mean: float = 0.0,
) -> Case:
    """Return random numbers; weights near 1/sqrt(fan in), gammas near 1 and no two the same."""
    made = Weights(
        ih=rand(4 * size, input_size, seed=1) / input_size**0.5,
        hh=rand(4 * size, size, seed=2) / size**0.5,
        bias=rand(4 * size, seed=3),
        norm_ih=1 + rand(4 * size, seed=4) / 2,
        norm_hh=1 + rand(4 * size, seed=5) / 2,
        norm_c=1 + rand(size, seed=6) / 2,
        norm_c_bias=rand(size, seed=7),
    )
    if not bias:
        made = made._replace(bias=None, norm_c_bias=None)
    rows, batch = sum(batch_sizes), batch_sizes[0]
    x = mean + rand(rows, input_size, seed=8)
    h, c = rand(batch, size, seed=9), rand(batch, size, seed=10)
    exact = Case(x, h, c, made, batch_sizes)
    for tensor in exact.tensors():
        if tensor is not None:
            tensor.requires_grad_()
    return exact.to(dtype)


Run = Callable[[Case], tuple[Tensor, Tensor, Tensor]]


def by_formula(carry: str, eps: float = EPS) -> Run:
    """Return the loop over the equations; all of its derivatives are PyTorch's."""
    normalize = formula.normalizing(eps)
    return lambda case: formula.lstm(*case, normalize, carry)


def by_backend(carry: str, backend: str, eps: float = EPS) -> Run:
    """Return what a layer runs: the passes of a kernel, or where there is none the loop."""
    return lambda case: run(*case[:4], Settings(tuple(case.batch_sizes), eps, carry), backend)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch, and so the C++, have ``number`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def memory_of_nan() -> Iterator[None]:
    """Fill memory that is handed out empty with NaN, so that nothing lies there by luck."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(1).isnan()
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def by_torchs_loop(carry: str) -> Run:
    """Return the loop as everyone writes it, with PyTorch's layer norm: float32 in float32."""

    def normalize(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], weight, bias, EPS)

    return lambda case: formula.lstm(*case, normalize, carry)


def upstream(results: Sequence[Tensor]) -> list[Tensor]:
    """Return a random gradient for each of ``results``, the same numbers in every dtype."""
    return [rand(*y.shape, seed=20 + n).to(y.dtype) for n, y in enumerate(results)]


def values_and_gradients(run: Run, case: Case) -> dict[str, Tensor]:
    """Return outputs, last states, and the gradient of everything in ``case`` that wants one."""
    results = run(case)
    found = torch.autograd.grad(results, case.leaves(), upstream(results))
    names = [
        name
        for name, tensor in zip(NAMES, case.tensors(), strict=True)
        if tensor is not None and tensor.requires_grad
    ]
    return {
        **dict(zip(("outputs", "h_n", "c_n"), results, strict=True)),
        **{f"d{name}": grad for name, grad in zip(names, found, strict=True)},
    }


def errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest error of each, as a part of the largest number expected if not 0.

    A NaN is an error without end: Python's max would pass it over.
    """
    assert found.keys() == expected.keys()
    return {
        name: (found[name].double() - true).abs().max().nan_to_num(torch.inf).item()
        / (true.abs().max().item() or 1.0)
        for name, true in expected.items()
        if true.numel()
    }


def mean_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Return the geometric mean, over the results, of root mean squares of relative errors."""
    squares = [
        (found[name].double() - true).pow(2).mean() / true.pow(2).mean()
        for name, true in expected.items()
    ]
    return torch.stack(squares).sqrt().log().mean().exp().item()
