"""What the tests of the norm share: arguments, the truth, and how near to it is right."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from compiled import NEEDS_CPP
from torch import Tensor, nn

import lnlib
from lnlib import formula

Norm = Callable[..., Tensor]  # of x, normalized_shape, weight, bias and eps
PRESENT = list(itertools.product((True, False), repeat=2))  # whether there are weight and bias
WANTED = list(itertools.product((True, False), repeat=3))  # gradients

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NEEDS_TRITON = pytest.mark.skipif(not find_spec("triton"), reason="no Triton for this platform")
CPP = pytest.param("cpp", marks=NEEDS_CPP)
TRITON = pytest.param("triton", marks=NEEDS_TRITON)
every_backend = pytest.mark.parametrize("backend", ["reference", CPP, TRITON])
each_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d).removeprefix("torch."))
# Forward mode, vmap, opcheck and traces make PyTorch script decompositions of its own.
scripting = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

# A result is rounded once: off by half a unit in the last place, and by what the roundings of the
# arithmetic are where parts of a number cancel. The arithmetic of float32 is in float64, that of
# the half types in float32, with sums in float64; there a second rounding follows.
HALF_UNIT = {d: torch.finfo(d).eps / 2 for d in FLOATS}
LEAST = {d: torch.finfo(d).smallest_normal * torch.finfo(d).eps for d in FLOATS}
ROUNDINGS = {FLOATS[0]: 4e-6, FLOATS[1]: 4e-6, FLOATS[2]: 1e-12, FLOATS[3]: 2e-15}


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def case(*shape: int, mean: float = 0.0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return x, weight, bias and dy; one row, if there are three, has no spread."""
    x, H = mean + rand(*shape), shape[-1]
    if shape[0] > 2:
        x[shape[0] // 2] = mean + 0.1
    return [t.to(dtype) for t in (x, rand(H, seed=1), rand(H, seed=2), rand(*shape, seed=3))]


def chosen(values: Sequence[Tensor], present: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
    """Return x, weight and bias, None for one that is not present; some want a gradient."""
    return [
        t.detach().requires_grad_(bool(wants)) if is_there else None
        for t, is_there, wants in zip(values, (True, *present), wanted, strict=True)
    ]


def randomized(module: nn.Module, seed: int = 0) -> nn.Module:
    """Draw the parameters anew; those of norms too, which at 1 and 0 could be lost unseen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            center = 1.0 if parameter.ndim == 1 and "weight" in name else 0.0
            parameter.normal_(center, 0.25, generator=generator)
    return module


def by(backend: str) -> Norm:
    return partial(lnlib.layer_norm, backend=backend)


def mapped(x: Tensor, shape: Any, *given: Any) -> Tensor:
    """Normalize each row under vmap, where the composed formula runs."""
    return torch.vmap(lambda row: lnlib.layer_norm(row, shape, *given))(x)


def true(x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    return formula.layer_norm(x, weight, bias, normalized_shape=tuple(shape), eps=eps)


def both_passes(
    norm: Norm, x: Tensor, weight: Any, bias: Any, dy: Tensor, eps: float = 1e-5
) -> dict[str, Tensor]:
    """Return y, and the gradients of what is not None."""
    given = {"x": x, "weight": weight, "bias": bias}
    leaves = {k: t.detach().requires_grad_() for k, t in given.items() if t is not None}
    shape = x.shape[-1:] if weight is None else weight.shape
    y = norm(leaves["x"], shape, leaves.get("weight"), leaves.get("bias"), eps)
    grads = torch.autograd.grad(y, list(leaves.values()), dy)
    return {"y": y.detach(), **dict(zip(leaves, grads, strict=True))}


def truth(x: Tensor, weight: Any, bias: Any, dy: Tensor, eps: float = 1e-5) -> dict[str, Tensor]:
    """Return what `both_passes` does, by autograd through the formula in float64."""
    exact = (None if t is None else t.double() for t in (x, weight, bias, dy))
    return both_passes(true, *exact, eps)


def assert_right(
    found: dict[str, Tensor], expected: dict[str, Tensor], roundings: float | None = None
) -> None:
    """See that each result is the truth in float64, rounded once to its dtype.

    The roundings of the arithmetic come to a part of the largest number.
    """
    assert found.keys() == expected.keys()
    for name, value in found.items():
        dtype, right = value.dtype, expected[name]
        assert value.shape == right.shape, name
        room = HALF_UNIT[dtype] * right.abs() + LEAST[dtype]
        room *= 1 if dtype == torch.float32 else 1 + 2**-10
        largest = right.abs().max() if right.numel() else 0.0
        room += (ROUNDINGS[dtype] if roundings is None else roundings) * largest
        assert ((value.double() - right).abs() <= room).all(), name


def assert_same_bits(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.dtype == expected[name].dtype
        assert torch.equal(value, expected[name]), name


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch, and so the C++, have ``number`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def memory_that_nobody_wrote_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


for each in FLOATS:  # no simple call is the first of its dtype
    lnlib.layer_norm(torch.ones(1, 1, dtype=each), (1,))
