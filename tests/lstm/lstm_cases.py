"""Sequences, states and weights for the tests of `lnlib.lstm`, and the one truth they are held to.

That is the loop of `lnlib.lstm.formula` in float64, all of whose derivatives are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import torch
from compiled import NEEDS_CPP
from torch import Tensor

from lnlib.lstm import formula, function
from lnlib.lstm.formula import Settings, Weights
from lnlib.triton_kernel import runtime

EPS = 1e-5
F16, BF16, F32, F64 = FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
CARRIES = ("raw", "normalized")
every_carry = pytest.mark.parametrize("carry", CARRIES)

# The ways through a layer, each in the dtype that shows most; C++ is of float32 alone.
CPP = pytest.param("cpp", F32, marks=NEEDS_CPP)
NEEDS_TRITON = pytest.mark.skipif(runtime.why_not() is not None, reason="no Triton")
TRITON = pytest.param("triton", F64, marks=NEEDS_TRITON)
LOOP = ("reference", F64)
every_kernel = pytest.mark.parametrize(("way", "dtype"), [CPP, TRITON])
every_way = pytest.mark.parametrize(("way", "dtype"), [LOOP, CPP, TRITON])
every_way_in_float64 = pytest.mark.parametrize(("way", "dtype"), [LOOP, TRITON])

# Largest error of each result, as a part of its largest number, in units of the dtype's eps: a
# step's roundings are carried on to the next. Up to 15 were seen, of C++ up to 39.
ROUNDINGS = {"reference": 64, "triton": 64, "cpp": 128}


class Case(NamedTuple):
    """What `lnlib.lstm.formula.lstm` takes."""

    x: Tensor
    h: Tensor
    c: Tensor
    weights: Weights
    batch_sizes: Sequence[int]

    def named(self) -> dict[str, Tensor]:
        """Return all tensors there are, by their names."""
        pairs = {"x": self.x, "h": self.h, "c": self.c} | self.weights._asdict()
        return {name: tensor for name, tensor in pairs.items() if tensor is not None}

    def leaves(self) -> list[Tensor]:
        return [tensor for tensor in self.named().values() if tensor.requires_grad]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Case:
        """Return a case of changed tensors, which want a gradient where these do."""
        x, h, c, *weights = (
            None if t is None else change(t.detach()).requires_grad_(t.requires_grad)
            for t in (*self[:3], *self.weights)
        )
        return Case(x, h, c, Weights(*weights), self.batch_sizes)

    def to(self, dtype: torch.dtype) -> Case:
        """Return a copy, of the same numbers where ``dtype`` is wider."""
        return self.mapped(lambda tensor: tensor.to(dtype, copy=True))


def rand(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=F64)


def case(
    batch_sizes: Sequence[int] = (3, 3, 3, 3),
    input_size: int = 5,
    size: int = 7,
    bias: bool = True,
    dtype: torch.dtype = F64,
) -> Case:
    """Return random numbers; weights near 1/sqrt(fan in), gammas near 1 and no two the same."""
    states = ((batch_sizes[0], size),) * 2
    given = (sum(batch_sizes), input_size), *states, *formula.shapes(input_size, size)
    x, h, c, ih, hh, b, *gammas, shift = (rand(*shape, seed=n) for n, shape in enumerate(given))
    matrices, biases = (ih / input_size**0.5, hh / size**0.5), (b, shift) if bias else (None, None)
    weights = Weights(*matrices, biases[0], *(1 + gamma / 2 for gamma in gammas), biases[1])
    found = Case(x, h, c, weights, batch_sizes)
    for tensor in found.named().values():
        tensor.requires_grad_()
    return found.to(dtype)


Run = Callable[[Case], tuple[Tensor, Tensor, Tensor]]


def by_formula(carry: str, eps: float = EPS) -> Run:
    """Return the loop over the equations."""
    normalize = formula.normalizing(eps)
    return lambda case: formula.lstm(*case, normalize, carry)


def by_backend(carry: str, backend: str, eps: float = EPS) -> Run:
    """Return what a layer runs: the passes of a kernel, or where there is none the loop."""

    def run(case: Case) -> tuple[Tensor, Tensor, Tensor]:
        settings = Settings(tuple(case.batch_sizes), eps, carry)
        return function.lstm(*case[:4], settings, backend)

    return run


def upstream(results: Sequence[Tensor]) -> list[Tensor]:
    """Return a random gradient for each of ``results``, the same numbers in every dtype."""
    return [rand(*y.shape, seed=20 + n).to(y) for n, y in enumerate(results)]


def values_and_gradients(run: Run, case: Case) -> dict[str, Tensor]:
    """Return outputs, last states, and the gradient of everything in ``case`` that wants one."""
    results = run(case)
    found = torch.autograd.grad(results, case.leaves(), upstream(results))
    names = [f"d{name}" for name, tensor in case.named().items() if tensor.requires_grad]
    return dict(zip(["outputs", "h_n", "c_n", *names], (*results, *found), strict=True))


def errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest error of each, as a part of the largest number expected if not 0.

    A NaN is an error without end: Python's max would pass it over.
    """
    assert found.keys() == expected.keys()
    return {
        name: (found[name].cpu().double() - true).abs().max().nan_to_num(torch.inf).item()
        / (true.abs().max().item() or 1.0)
        for name, true in expected.items()
        if true.numel()
    }


def assert_right(given: Case, carry: str, way: str, eps: float = EPS) -> None:
    """Hold a way to run ``given`` to the equations in float64."""
    truth = values_and_gradients(by_formula(carry, eps), given.mapped(lambda t: t.cpu().double()))
    found = values_and_gradients(by_backend(carry, way, eps), given)
    assert {tensor.dtype for tensor in found.values()} == {given.x.dtype}
    worst = errors(found, truth)
    assert max(worst.values()) < ROUNDINGS[way] * torch.finfo(given.x.dtype).eps, worst


def assert_same_bits(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for number, pair in enumerate(zip(found, expected, strict=True)):
        assert torch.equal(*pair), number


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
