"""Gradients: right to any order by every backend, with little saved, and nothing changed."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from bench_memory import peak_bytes
from norms import (
    FLOATS,
    PRESENT,
    WANTED,
    Norm,
    assert_right,
    assert_same_bits,
    both_passes,
    by,
    case,
    chosen,
    each_dtype,
    every_backend,
    memory_that_nobody_wrote_is_nan,  # noqa: F401  a fixture
    rand,
    truth,
)
from random_calls import LAYOUTS, agree
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from lnlib import cpp_kernel, dispatch, formula, reference

MEMORY = 1.10  # times PyTorch's peak
BOOLS = True, False
NAMES = "x", "weight", "bias"


def room(backend: str, dtype: torch.dtype) -> float:
    """Return the roundings: of rows without spread too, and Triton computes float32 in float32."""
    if (backend, dtype) == ("triton", torch.bfloat16):
        return 2**-8  # interpreted, it is cut off
    return {torch.float64: 1e-11, torch.float32: 4e-6}.get(dtype, 2e-5)


def leaves(*shape: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Return x, weight and bias, each requiring its gradient."""
    return [t.requires_grad_() for t in case(*shape, mean=3.0, dtype=dtype)[:3]]


def gradients(norm: Norm, given: list[Tensor]) -> dict[str, Tensor]:
    """Return those that `.backward()` leaves, which an old checkpoint wants."""
    inputs = [t.detach().requires_grad_() for t in given[:3]]
    norm(inputs[0], (7,), *inputs[1:]).backward(given[3])
    return {str(n): leaf.grad for n, leaf in enumerate(inputs)}


# Values


@every_backend
@each_dtype
@pytest.mark.usefixtures("memory_that_nobody_wrote_is_nan")
def test_exactly_the_gradients_asked_for_are_there_and_right_of_inputs_that_stay(backend, dtype):
    *values, dy = given = case(5, 7, mean=3.0, dtype=dtype)
    before = [t.clone() for t in given]
    for present, wanted in itertools.product(PRESENT, WANTED):
        x, weight, bias = inputs = chosen(values, present, wanted)
        there = {n: t for n, t in zip(NAMES, inputs, strict=True) if t is not None}
        asked = [name for name, t in there.items() if t.requires_grad]
        y = by(backend)(x, (7,), weight, bias)
        assert y.requires_grad == bool(asked)
        if not asked:
            continue
        assert y.grad_fn.passes is dispatch.PASSES[backend]
        seen: list[tuple[Tensor | None, ...]] = []
        y.grad_fn.register_hook(lambda grads, _, seen=seen: seen.append(grads))
        y.backward(dy)
        returned = dict(zip(there, seen[0], strict=True))
        assert [name for name, grad in returned.items() if grad is not None] == asked
        found = {"y": y.detach(), **{name: returned[name] for name in asked}}
        assert {each.dtype for each in found.values()} == {dtype}
        expected = truth(*inputs, dy)
        assert_right(found, {name: expected[name] for name in found}, room(backend, dtype))
    assert all(map(torch.equal, given, before))


@pytest.mark.parametrize("narrow", FLOATS[:2])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_float32_parameters_of_a_narrow_input_have_float32_gradients(narrow, backend):
    x, weight, bias, dy = case(33, 13, dtype=torch.float32)
    given = x.to(narrow), weight, bias, dy.to(narrow)
    found = both_passes(by(backend), *given)
    assert [t.dtype for t in found.values()] == [narrow, narrow, torch.float32, torch.float32]
    assert_right(found, truth(*given), 4e-6)


# What is read, kept and left alone


STRIDED: dict[str, Callable[[Tensor], Tensor]] = {
    **LAYOUTS,
    "leading dimensions swapped": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "one value a row": lambda t: t[..., :1].expand(t.shape),
    "one value": lambda t: t[:1, :1, :1].expand(t.shape),
}


@pytest.mark.parametrize("layout", STRIDED)
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_strides_change_no_bit_of_any_result(layout, backend):
    same, other = (lambda t: t), STRIDED[layout]
    for dtype, (of_x, of_dy) in itertools.product(
        (torch.float16, torch.float32), ((other, same), (same, other), (other, other))
    ):
        x, dy = (rand(3, 2, 7, seed=seed, dtype=dtype) for seed in (5, 3))
        weight = torch._neg_view(-rand(14, seed=1, dtype=dtype))[::2]
        given = of_x(x), weight, rand(1, dtype=dtype).expand(7), of_dy(dy)
        dense = (t.clone(memory_format=torch.contiguous_format) for t in given)
        found = both_passes(by(backend), *given)
        assert_same_bits(found, both_passes(by(backend), *dense))
        assert all(t.is_contiguous() for t in found.values())


def saved_by(run: Callable[[], object]) -> list[Tensor]:
    kept: list[Tensor] = []
    with saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        run()
    return kept


@every_backend
@each_dtype
def test_it_keeps_x_weight_and_three_numbers_a_row_as_far_as_they_are_needed(backend, dtype):
    for wanted in WANTED:
        x, weight, bias = chosen(leaves(5, 7, dtype=dtype), (True, True), wanted)
        kept = saved_by(lambda x=x, w=weight, b=bias: by(backend)(x, (7,), w, b))
        own = [x, weight] if wanted[0] else [x] if wanted[1] else []
        assert [t.data_ptr() for t in kept[: len(own)]] == [t.data_ptr() for t in own]  # no copies
        assert [t.shape for t in kept[len(own) :]] == ([(3, 5)] if own else [])
        for near, rest, rstd in (t.double() for t in kept[len(own) :]):
            terms, part = formula.terms(x.detach()), 1e-11 if dtype == torch.float64 else 1e-5
            assert agree([near + rest, rstd], [terms.mean[:, 0], terms.rstd[:, 0]], part)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_nothing_is_kept_where_no_gradient_can_be_asked_for(context, backend):
    (x, *others), found = leaves(5, 7), []
    for shape in ((5, 7), (2, 5, 7)):  # the latter is reshaped
        with context():
            assert (
                saved_by(lambda s=shape: found.append(by(backend)(x.expand(s), (7,), *others)))
                == []
            )
        y = found.pop()
        assert (y.grad_fn, y.requires_grad, y._is_view()) == (None, False, False)


def test_y_dies_when_the_caller_lets_it_go():
    x, weight, bias = leaves(5, 7)
    y = by("reference")(x, (7,), weight, bias)
    loss, gone = (2 * y).sum(), weakref.ref(y)
    del y
    assert gone() is None
    loss.backward()


@every_backend
@pytest.mark.parametrize("changed", [0, 1])
def test_a_change_in_place_before_the_backward_pass_raises(backend, changed):
    inputs = leaves(5, 7, dtype=torch.float32)
    y = by(backend)(inputs[0], (7,), *inputs[1:])
    with torch.no_grad():
        inputs[changed].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("use_reentrant", BOOLS)
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_a_checkpoint_recomputes_it_once_and_changes_no_bit(use_reentrant, backend):
    calls, given = [], case(5, 7)

    def run(*given: Any) -> Tensor:
        calls.append(1)
        return by(backend)(*given)

    def kept(*given: Any) -> Tensor:
        return checkpoint(run, *given, use_reentrant=use_reentrant)

    assert_same_bits(gradients(kept, given), gradients(run, given))
    assert len(calls) == 2 + 1


@every_backend
@pytest.mark.parametrize("policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.MUST_RECOMPUTE])
def test_a_checkpoint_may_select_what_it_saves(backend, policy, monkeypatch):
    monkeypatch.setattr(cpp_kernel, "KERNELS", {})  # the backward pass is the first to need one
    contexts = lambda: create_selective_checkpoint_contexts(lambda *_, **__: policy)  # noqa: E731

    def kept(*given: Any) -> Tensor:
        return checkpoint(by(backend), *given, use_reentrant=False, context_fn=contexts)

    for shape in ((5, 7), (2, 3, 7), (70, 1000)):  # more than a block
        given = case(*shape)
        assert_right(both_passes(kept, *given), truth(*given), 1e-11)


@every_backend
@pytest.mark.usefixtures("memory_that_nobody_wrote_is_nan")
@pytest.mark.parametrize("sizes", [(0, 7), (3, 0, 7), (0, 5, 7), (3, 0), (3, 0, 7, 0)])
@pytest.mark.parametrize("create_graph", BOOLS)
def test_nothing_in_gives_nothing_out_and_zero_to_the_parameters(backend, sizes, create_graph):
    shape = sizes[2:] or sizes[1:]
    inputs = [rand(*each).requires_grad_() for each in (sizes, shape, shape)]
    y = by(backend)(inputs[0], shape, *inputs[1:])
    assert y.shape == sizes
    grads = torch.autograd.grad(y, inputs, rand(*sizes), create_graph=create_graph)
    assert all(map(torch.equal, grads, map(torch.zeros_like, inputs)))


@pytest.mark.parametrize("shape", [(4096, 1024), (16384, 256)])
def test_peak_memory_is_within_a_tenth_of_pytorchs(shape):
    given = case(*shape, dtype=torch.float32)
    ours, theirs = (
        peak_bytes(lambda norm=norm: both_passes(norm, *given))
        for norm in (by("reference"), F.layer_norm)
    )
    size = given[0].nbytes
    assert min(ours, theirs) > 2 * size  # y and dx: the events are all there
    assert ours <= MEMORY * theirs
    # mean and rstd, and then scratch memory for four blocks in float64, however large x is
    assert ours - 2 * size <= 24 * shape[0] + 4 * 8 * reference.BLOCK_ON_CPU


def test_the_gradient_of_bias_alone_takes_scratch_memory_for_a_block():
    x, _, bias, dy = case(4096, 1024, dtype=torch.float32)
    y = by("reference")(x, (1024,), None, bias.requires_grad_())
    (dbias,) = torch.autograd.grad(y, bias, dy, retain_graph=True)
    assert_right({"bias": dbias}, {"bias": dy.double().sum(0)})
    taken = peak_bytes(lambda: torch.autograd.grad(y, bias, dy))
    assert taken <= 2 * 8 * reference.BLOCK_ON_CPU < dy.nbytes / 8


# Higher orders


@pytest.mark.parametrize(("shape", "mean"), [((5,), 100.0), ((2, 5), 0.0)])
@pytest.mark.parametrize("present", PRESENT)
def test_first_and_second_order_agree_with_differences(shape, mean, present):
    values = mean + rand(3, 2, 5), rand(*shape, seed=1), rand(*shape, seed=2)
    inputs = chosen(values, present, WANTED[0])

    def y(x: Tensor, weight: Any, bias: Any) -> Tensor:
        return by("reference")(x, shape, weight, bias, 0.1)

    assert torch.autograd.gradcheck(y, inputs, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(y, inputs, check_batched_grad=True)
