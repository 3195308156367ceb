"""The Triton steps of the LSTM: the kernel against its equations, and the whole in their place.

The same tests run interpreted on a CPU and compiled on a GPU. The interpreter runs one program
after another, in NumPy; test_triton_kernel.py lists what it therefore cannot prove. What the
compiler makes of the kernel is seen at the end, for GPUs that are not here.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from lstm_cases import (
    EPS,
    F32,
    F64,
    FLOATS,
    assert_right,
    assert_same_bits,
    by_backend,
    case,
    every_carry,
    rand,
    upstream,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import lnlib
from lnlib.lstm import formula, function, triton_steps
from lnlib.lstm.formula import Settings, Weights
from lnlib.lstm.function import kernel_for
from lnlib.triton_kernel import runtime

if sys.platform == "linux":
    import gpu_code
else:
    pytest.skip("Triton exists for Linux alone", allow_module_level=True)

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
every_device = pytest.mark.parametrize("device", DEVICES)
on_gpu = pytest.mark.gpu

# Largest error of each result, as a part of its largest number, in units of the dtype's eps. A
# narrow number is rounded once, half a unit (NumPy, on a CPU, cuts bfloat16 off instead: a unit).
# In float32 and float64 the roundings of both norms add up; up to 11 were seen.
ROUNDINGS = dict(zip(FLOATS, (0.52, 1.02, 32, 32), strict=True))

# One step. Its rows are in the midst of buffers that are NaN wherever nothing is given.

ROWS, START, BEFORE, AFTER = 2, 1, 2, 5
GIVEN = ("a", "inputs", "c", "weight_h", "weight_c", "bias_c")
MADE = ("outputs", "cells")
GRADIENTS = ("dcarry", "dv", "da", "dnorm_hh", "dnorm_c", "dn")


def numbers(H: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return what a step is given: W_h h, what the input adds, the cell before, and the weights."""
    shapes = ((ROWS, 4 * H), (ROWS, 4 * H), (ROWS, H), (4 * H,), (H,), (H,))
    made = {name: rand(*s, seed=n) for n, (name, s) in enumerate(zip(GIVEN, shapes, strict=True))}
    return {name: tensor.to(dtype) for name, tensor in made.items()}


def arriving(given: dict[str, Tensor]) -> list[Tensor]:
    """Return what reaches a step back: of its output from outside, of its h, and of its cell."""
    return [rand(*given["c"].shape, seed=seed).to(given["c"]) for seed in (10, 11, 12)]


def equations(given: dict[str, Tensor], carry: str) -> dict[str, Tensor]:
    """Return, in float64, what a step makes of ``given``, and its gradients, row by row."""
    H = given["c"].shape[-1]
    wide = {name: tensor.double() for name, tensor in given.items()}
    rows = {n: wide[n].expand(ROWS, -1) if n in GIVEN[3:] else wide[n] for n in GIVEN}
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in rows.items()}
    a, inputs, c, weight_h, weight_c, bias_c = leaves.values()

    def normalize(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        x_hat = lnlib.formula.terms(x, eps=EPS).x_hat
        return x_hat * weight + (0 if bias is None else bias)

    eye = torch.eye(4 * H, dtype=F64)  # so that W_h h is ``a``
    weights = Weights(eye, eye, None, weight_h, weight_h, weight_c, bias_c)
    made = dict(zip(MADE, formula.step(inputs, a, c, weights, normalize, carry), strict=True))
    dy, dh, dcarry = (tensor.double() for tensor in arriving(given))
    wanted = [c, inputs, a, weight_h, weight_c, bias_c]
    grads = torch.autograd.grad(list(made.values()), wanted, [dy + dh, dcarry])
    return {n: t.detach() for n, t in made.items()} | dict(zip(GRADIENTS, grads, strict=True))


def placed(rows: Tensor, at: int, of: int = 4) -> Tensor:
    """Return a buffer of ``of`` rows, NaN but for the given ones from ``at`` on."""
    buffer = rows.new_full((of, rows.shape[-1]), math.nan)
    buffer[at : at + ROWS] = rows
    return buffer


def after_step(given: dict[str, Tensor], carry: str, device: str) -> dict[str, Tensor]:
    """Take a step forward and back, and return the rows it made; no other row may be touched."""
    a, inputs, c, *of_norms = (tensor.to(device) for tensor in given.values())
    dy, dh, dcarry = (tensor.to(device) for tensor in arriving(given))
    at = {"outputs": START, "cells": AFTER, **dict.fromkeys(GRADIENTS, START), "dcarry": 0}
    found = {name: placed(c * math.nan, START) for name in at}
    found |= {name: placed(a * math.nan, START) for name in ("dv", "da", "dnorm_hh")}
    found |= {"cells": placed(c, BEFORE, 8), "dcarry": placed(dcarry, 0, 3)}
    before = {name: buffer.clone() for name, buffer in found.items()}
    weights = Weights(a, a.new_empty(a.shape[1], c.shape[1]), None, a, *of_norms)
    operands = placed(inputs, START), placed(a, START), found["cells"]
    step = partial(triton_steps._step, Settings((ROWS,), EPS, carry), weights, *operands)
    step(found["outputs"])(ROWS, START, BEFORE, AFTER)
    back = (found[name] for name in GRADIENTS)
    step(None, placed(dy, START), placed(dh, 0, 3), *back)(ROWS, START, BEFORE)
    for name, buffer in found.items():
        elsewhere = torch.ones(len(buffer), dtype=torch.bool)
        elsewhere[at[name] : at[name] + ROWS] = False
        now, was = buffer[elsewhere], before[name][elsewhere]
        torch.testing.assert_close(now, was, rtol=0, atol=0, equal_nan=True, msg=name)
    return {name: buffer[at[name] :][:ROWS].cpu() for name, buffer in found.items()}


def check(found: dict[str, Tensor], expected: dict[str, Tensor], least: float = 0.0) -> None:
    """Hold ``found`` to ``expected``, in float64; no error below ``least`` counts."""
    for name, true in expected.items():
        eps = torch.finfo(found[name].dtype).eps
        allowed = ROUNDINGS[found[name].dtype] * eps * true.abs().max()
        error = (found[name].double() - true).abs().max()
        assert error <= max(allowed, least), f"{name}: {error / allowed:.3g} times what is allowed"


@every_device
@every_carry
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [1, 3, 7, 64, 129])
def test_a_step_is_that_of_the_equations_both_ways(H, dtype, carry, device):
    given = numbers(H, dtype)
    found = after_step(given, carry, device)
    assert {tensor.dtype for tensor in found.values()} == {dtype}
    # A single feature has no spread. PyTorch's derivative, 0, is what is left of numbers times 316.
    check(found, equations(given, carry), 1e-13 if H == 1 else 0.0)


# Rows that are hard

THIRD = 11184811 / 2**25  # 1/3 in float32: its sums are exact


@every_device
@every_carry
@pytest.mark.parametrize("value", [0.0, THIRD, -1e4])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_row_without_spread_is_that_of_the_equations_both_ways(value, dtype, carry, device):
    """All gates of one number, a cell of one number: each norm multiplies gradients by 316."""
    given = numbers(129, dtype)
    for name, number in (("a", value), ("inputs", 0.3), ("c", value)):
        given[name].fill_(number)
    found = after_step(given, carry, device)
    assert found["da"].abs().max() > 10
    # Both norms multiply what rounding left of a constant cell, in the truth too.
    check(found, equations(given, carry), least=1e-6 if dtype == F32 else 1e-7)
    assert value != 0 or not found["dnorm_hh"].any()


@every_device
@pytest.mark.parametrize(("mean", "H"), [(1e3, 7), (-1e4, 129), (1e5, 64)])
def test_rows_far_from_zero_keep_every_digit(mean, H, device):
    given = numbers(H, F32)
    given["a"] += mean
    check(after_step(given, "raw", device), equations(given, "raw"))
    given["c"] += mean
    given["inputs"][:, H : 2 * H] = 40.0  # the forget gate is open
    # The cell itself is rounded: from it as it was sent on, the other carry is to be right.
    x_hat = lnlib.formula.terms(after_step(given, "raw", device)["cells"].double(), eps=EPS).x_hat
    n = x_hat * given["weight_c"].double() + given["bias_c"].double()
    check(after_step(given, "normalized", device), {"cells": n})


@every_device
@pytest.mark.parametrize("size", [1e3, math.inf])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_saturated_gates_are_exact_and_stop_the_gradient(dtype, size, device):
    given = numbers(8, dtype)
    given["inputs"].copy_(size * given["inputs"].sign())
    given["weight_c"].fill_(1e6)
    found = after_step(given, "raw", device)
    i, f, candidate, o = given["inputs"].sign().chunk(4, dim=-1)
    assert torch.equal(found["cells"], (f + 1) / 2 * given["c"] + (i + 1) / 2 * candidate)
    assert torch.equal(found["outputs"].abs(), (o + 1) / 2)
    assert not found["dv"].any()
    assert all(grad.isfinite().all() for grad in found.values())


@every_device
@pytest.mark.parametrize("dtype", [F32, F64])
def test_tanh_keeps_its_digits_from_the_smallest_numbers_to_the_largest(dtype, device):
    """The error counts in units of each value itself. An LSTM's cell may be 1e-6 everywhere."""
    H, given = 128, numbers(128, dtype)
    sizes = torch.cat([torch.logspace(-30, 1.4, H - 28, dtype=F64), torch.linspace(0.45, 0.55, 28)])
    candidates = torch.stack([sizes, -sizes]).to(dtype)
    for name in ("a", "c"):
        given[name].zero_()
    given["inputs"][:, :H] = 100.0  # so that the cell is the candidate
    given["inputs"][:, 2 * H : 3 * H] = candidates
    found, true = after_step(given, "raw", device)["cells"].double(), candidates.double().tanh()
    # Near 0.5 a difference makes half of itself of its errors: of a GPU's quotient, and of its exp.
    assert ((found - true) / true).abs().max() <= 8 * torch.finfo(dtype).eps


@every_device
@every_carry
def test_a_row_has_the_same_bits_whatever_the_other_is(carry, device):
    given = numbers(129, F32)
    clean = after_step(given, carry, device)
    for wrong in (1e30, math.nan):
        given["a"][0, 3] = given["c"][0, 5] = wrong
        found = after_step(given, carry, device)
        assert_same_bits([each[1] for each in found.values()], [each[1] for each in clean.values()])
    assert all(found[name][0].isnan().all() for name in MADE)


# All steps


@every_device
@every_carry
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(("sizes", "eps"), [((1,), EPS), ((2, 2, 2), 0.5), ((3, 2, 2, 1), EPS)])
def test_results_and_all_gradients_are_those_of_the_equations(sizes, eps, dtype, carry, device):
    given = case(sizes, dtype=dtype, bias=len(sizes) > 3)
    assert_right(given.mapped(lambda tensor: tensor.to(device)), carry, "triton", eps)


# What a step costs, and where kernels come from


class Operations(TorchDispatchMode):
    """Counts the operations of PyTorch that do something: all but views."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen[str(func)] += not func.is_view
        return func(*args, **(kwargs or {}))


@pytest.fixture
def launches() -> Any:
    """Take down what is launched, of the kernels as a GPU would get them, and launch nothing."""
    taken: list[gpu_code.Launch] = []
    with gpu_code.taking(taken.append):
        yield taken


def test_a_step_is_a_product_and_one_launch_forward_and_back(launches, monkeypatch):
    """And it allocates nothing, and waits for nothing. What watches is not to change the way."""
    monkeypatch.setattr(function, "mode_of", lambda *tensors: "eager")
    seen = []
    for steps in (3, 5):
        given = case((2,) * steps)
        with Operations() as forward:
            results = by_backend("raw", "triton")(given)
        with Operations() as backward:
            torch.autograd.grad(results, given.leaves(), upstream(results))
        seen.append((forward.seen, backward.seen))
    (few, few_back), (many, many_back) = seen
    assert many - few == many_back - few_back == {"aten.mm.out": 2}
    assert Counter(each.name for each in launches) == {"lstm_step": 16}


@pytest.mark.parametrize(("dtype", "H"), [(F32, 2048), (torch.bfloat16, 2048), (F64, 1024)])
def test_rows_that_no_program_can_hold_are_left_to_the_loop(dtype, H):
    x = torch.zeros(2, 5, dtype=dtype)
    assert kernel_for("triton", x, H) is triton_steps
    assert kernel_for("triton", x, H + 1) is None


def test_a_device_that_triton_has_no_code_for_is_refused_before_any_step():
    with pytest.raises(NotImplementedError, match=r"runs on cuda .* got a tensor on meta"):
        kernel_for("triton", torch.zeros(2, 5, device="meta"), 7)


# Offsets past 2³¹ numbers. Wrong ones may end the process, so it is one of its own. The memory is
# promised by the system, 30 GiB of it, but only what is written is ever taken.

FAR_ROWS = """
import torch
from lnlib.lstm import triton_steps
from lnlib.lstm.formula import Settings, Weights

H, BF16 = 1000, torch.bfloat16
ROWS = 2**31 // (4 * H) + 3
torch.manual_seed(0)
norms = torch.randn(4 * H, dtype=BF16), torch.randn(H, dtype=BF16), torch.randn(H, dtype=BF16)
weights = Weights(None, torch.empty(4 * H, H, dtype=BF16), None, None, *norms)

def new(width, rows=ROWS + 2):
    memory = torch.empty(rows, width, dtype=BF16)
    memory[-3:] = torch.rand(3, width) + 0.1
    return memory

def taken(start, before, after, inputs, a, cells, outputs, dy, dh, dc, *made):
    of = Settings((1,), 1e-5, "raw"), weights, inputs, a, cells
    triton_steps._step(*of, outputs)(1, start, before, after)
    triton_steps._step(*of, None, dy, dh, dc, *made)(1, start, before)

far = [new(width * H) for width in (4, 4, 1, 1, 1, 1, 1, 4, 4, 4, 1, 1)]
far[2] = new(H, 4 * ROWS)
far[5:7] = far[5][-3:].clone(), far[6][-3:].clone()
near = [buffer[-3:].clone() for buffer in far]
taken(ROWS - 1, 4 * ROWS - 2, 4 * ROWS - 1, *far)
taken(0, 1, 2, *near)
for a, b in zip(far, near):
    assert torch.equal(a[-3:], b)
print("right")
"""


def test_offsets_past_two_to_the_31_are_right():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FAR_ROWS],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.stdout == "right\n", f"exit status {done.returncode}\n{done.stderr[-2000:]}"


# What the compiler makes of the kernel


def take_both_steps(
    H: int, dtype: torch.dtype, rows: int = 6, carry: str = "raw", places: Any = (2, 1, 0, 1)
) -> None:
    """Launch the kernel forward and back over buffers that take no memory."""
    wide, narrow = (torch.empty(rows, width, dtype=dtype, device="meta") for width in (4 * H, H))
    norms = (torch.empty(n, dtype=dtype, device="meta") for n in (4 * H, H, H))
    weights = Weights(wide, torch.empty(4 * H, H, device="meta"), None, wide, *norms)
    of = Settings((rows,), EPS, carry), weights, wide, wide, narrow
    triton_steps._step(*of, narrow)(*places)
    back = (narrow,) * 3 + (wide,) * 3 + (narrow,) * 2
    triton_steps._step(*of, None, *back)(*places[:3])


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_the_longest_rows_fit_into_the_registers(target, launches):
    take_both_steps(triton_steps.MOST, F32)
    for each in launches:
        report = gpu_code.read(each.compile(target))
        assert (report.stack, report.spills) == (0, 0), f"{each.name}: {report}"


def test_steps_of_any_number_rows_and_place_are_compiled_once(launches):
    """A number that is 1, or a multiple of 16, is what Triton would make another kernel for."""
    places = [(1, 0, 0, 1), (2, 1, 2, 5), (16, 16, 48, 64), (65536, 0, 0, 65536)]
    for rows, place in itertools.product((1, 16, 2**20), places):
        take_both_steps(128, torch.bfloat16, rows, places=place)
    assert len({each.key("cuda:90") for each in launches}) == 2
    take_both_steps(128, torch.bfloat16, carry="normalized")
    assert len({each.key("cuda:90") for each in launches}) == 4


def test_eps_goes_to_a_kernel_with_48_bits(launches):
    """As two numbers: Triton rounds each to float32, its interpreter none, and could not tell."""
    take_both_steps(7, F64)
    for each in launches:
        parts = [each.by_name[name] for name in ("eps", "eps_rest")]
        assert [torch.tensor(part, dtype=F32).item() for part in parts] == list(parts)
        assert abs(sum(parts) - EPS) <= 2**-48 * EPS


# What takes a GPU


@on_gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [128, 512, 1000, 1023, 2048])
def test_on_a_gpu_long_rows_are_right_too(H, dtype):
    if triton_steps.takes(dtype, H):
        given = numbers(H, dtype)
        check(after_step(given, "raw", "cuda"), equations(given, "raw"))


def both_passes(network: lnlib.LayerNormLSTM, x: Tensor, dy: Tensor) -> list[Tensor]:
    output, (h, c) = network(x)
    return [output, h, c, *torch.autograd.grad(output, [x, *network.parameters()], dy)]


@pytest.fixture
def on_cuda() -> tuple[lnlib.LayerNormLSTM, Tensor, Tensor]:
    torch.manual_seed(0)
    network = lnlib.LayerNormLSTM(28, 128, num_layers=2, device="cuda", backend="triton")
    x = rand(28, 64, 28).float().cuda().requires_grad_()
    return network, x, rand(28, 64, 128, seed=1).float().cuda()


@on_gpu
def test_on_a_gpu_repeats_have_the_same_bits(on_cuda):
    first = both_passes(*on_cuda)
    for _ in range(10):
        assert_same_bits(both_passes(*on_cuda), first)


@on_gpu
def test_on_a_gpu_both_passes_can_be_captured_in_a_graph_and_replayed(on_cuda):
    _, x, _ = on_cuda
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # compiles, and lets cuBLAS find its memory
        for _ in range(3):
            both_passes(*on_cuda)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=aside):  # the one that autograd has seen
        captured = both_passes(*on_cuda)
    with torch.no_grad():
        x.mul_(2).add_(1)
    graph.replay()
    with torch.cuda.stream(aside):
        again = both_passes(*on_cuda)
    torch.cuda.synchronize()
    for a, b in zip(again, captured, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)  # cuBLAS may choose anew


@on_gpu
def test_on_a_gpu_sequences_of_any_length_and_number_compile_no_kernel_anew(on_cuda, monkeypatch):
    network, x, dy = on_cuda
    assert kernel_for("auto", x, 7) is triton_steps
    both_passes(network, x, dy)
    compiled: list[Any] = []
    knobs = runtime.triton_for(torch.device("cuda")).knobs.runtime
    monkeypatch.setattr(knobs, "jit_post_compile_hook", lambda **known: compiled.append(known))
    for steps, rows in ((1, 1), (7, 3), (33, 16), (5, 1000)):
        x = rand(steps, rows, 28).float().cuda().requires_grad_()
        both_passes(network, x, rand(steps, rows, 128).float().cuda())
    assert compiled == []
