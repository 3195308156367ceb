"""The Triton steps of the LSTM: each kernel against its equations, and the whole in their place.

The same tests run interpreted on a CPU and compiled on a GPU. The interpreter runs one program
after another, in NumPy; test_triton_kernel.py lists what it therefore cannot prove. What the
compiler makes of the kernels is seen at the end, for GPUs that are not here.
"""

from __future__ import annotations

import importlib
import itertools
import math
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lstm_cases import (
    CARRIES,
    EPS,
    Case,
    by_formula,
    by_function,
    case,
    errors,
    rand,
    upstream,
    values_and_gradients,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import lnlib
from lnlib import formula
from lnlib.lstm import function, plain, stepwise
from lnlib.lstm.modules import LayerNormLSTM
from lnlib.lstm.steps import Backward, Block, Forward
from lnlib.triton_kernel import launch, runtime

if sys.platform == "linux":
    import gpu_code

    from lnlib.lstm import triton_steps
else:
    pytest.skip("Triton exists for Linux alone", allow_module_level=True)

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
F16, BF16, F32, F64 = FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [1, 3, 7, 64, 129]
every_carry = pytest.mark.parametrize("carry", CARRIES)
every_device = pytest.mark.parametrize("device", DEVICES)
on_gpu = pytest.mark.gpu

# Largest error of each result, as a part of its largest number, in units of the dtype's eps. A
# narrow number is rounded once, half a unit (NumPy, on a CPU, cuts bfloat16 off instead: a unit).
# A float32 has a handful of roundings of its own, the GPU's exp and division among them, and so has
# the float64 that stands for the truth.
ROUNDINGS = {F16: 0.51, BF16: 1.01, F32: 8, F64: 8}


def check(found: dict[str, Tensor], expected: dict[str, Tensor], least: float = 0.0) -> None:
    """Hold ``found`` to ``expected``, in float64; no error below ``least`` counts."""
    for name, true in expected.items():
        allowed = ROUNDINGS[found[name].dtype] * torch.finfo(found[name].dtype).eps
        error = (found[name].double() - true).abs().max()
        assert error <= max(allowed * true.abs().max(), least), (
            f"{name}: {error / true.abs().max() / allowed:.3g} times what is allowed"
        )


# One step. Its rows are in the midst of buffers that are NaN wherever nothing is given.

ROWS = 2
BLOCK = Block(start=1, stop=1 + ROWS, before=2, after=5)
GIVEN = ("a", "x", "c", "weight_h", "weight_c", "bias_c")


def numbers(H: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return what a step is given: W_h h, what the input adds, the cell before, and the weights."""
    shapes = ((ROWS, 4 * H), (ROWS, 4 * H), (ROWS, H), (4 * H,), (H,), (H,))
    made = {name: rand(*s, seed=n) for n, (name, s) in enumerate(zip(GIVEN, shapes, strict=True))}
    return {name: tensor.to(dtype) for name, tensor in made.items()}


def equations(given: dict[str, Tensor], carry: str, rows_of_n: Tensor | None = None) -> Forward:
    """Return, in float64, what a step makes of ``given``; the buffers hold the step's rows alone.

    ``rows_of_n`` is added to n, to have its gradient.
    """
    a, x, c, weight_h, weight_c, bias_c = (given[name].double() for name in GIVEN)
    _, _, _, _, rstd_a, a_hat, _ = formula.terms(a, eps=EPS)
    i, f, g, o = (x + weight_h * a_hat).chunk(4, dim=-1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    _, _, _, _, rstd_c, c_hat, _ = formula.terms(c, eps=EPS)
    n = weight_c * c_hat + bias_c + (0.0 if rows_of_n is None else rows_of_n)
    sent_on = n if carry == "normalized" else c
    return Forward(
        *(weight_h, weight_c, bias_c, EPS, carry == "normalized"),
        *(o * n.tanh(), sent_on, torch.cat([i, f, g, o], -1), a_hat, c_hat, n.tanh()),
        *(rstd_a, rstd_c),
    )


def placed(rows: Tensor, at: int, device: str, of: int = 4) -> Tensor:
    """Return a buffer of ``of`` rows, NaN but for the given ones from ``at`` on."""
    buffer = rows.new_full((of, rows.shape[-1]), math.nan)
    buffer[at : at + len(rows)] = rows.detach()
    return buffer.to(device)


def buffers_of(given: dict[str, Tensor], carry: str, device: str) -> Forward:
    """Return the buffers as a step forward finds them."""
    a, x, c, *weights = (given[name] for name in GIVEN)
    statistic = torch.promote_types(a.dtype, F32)
    empty = torch.full_like(c, math.nan)
    return Forward(
        *(weight.to(device) for weight in weights),
        *(EPS, carry == "normalized"),
        placed(empty, 1, device),
        placed(c, BLOCK.before, device, of=8),
        placed(x, 1, device),
        placed(a, 1, device),
        *(placed(empty, 1, device) for _ in range(2)),
        *(placed(empty[:, :1].to(statistic), 1, device) for _ in range(2)),
    )


MADE = ("outputs", "gates", "a_hat", "c_hat", "tanh_n", "rstd_a", "rstd_c")


def after_forward(buffers: Forward) -> dict[str, Tensor]:
    """Take a step, see to it that no other row was touched, and return the rows it made."""
    before = [tensor.clone() for tensor in buffers[5:]]
    triton_steps.forward(buffers)(BLOCK)
    rows = slice(BLOCK.start, BLOCK.stop)
    for name, was in zip(Forward._fields[5:], before, strict=True):
        now = getattr(buffers, name)
        here = slice(BLOCK.after, BLOCK.after + ROWS) if name == "carry" else rows
        elsewhere = torch.ones(len(now), dtype=torch.bool)
        elsewhere[here] = False
        torch.testing.assert_close(now[elsewhere], was[elsewhere], rtol=0, atol=0, equal_nan=True)
    found = {name: getattr(buffers, name)[rows].cpu() for name in MADE}
    return {**found, "carry": buffers.carry[BLOCK.after :][:ROWS].cpu()}


def expected_forward(given: dict[str, Tensor], carry: str) -> dict[str, Tensor]:
    true = equations(given, carry)
    return {name: getattr(true, name) for name in (*MADE, "carry")}


@every_device
@every_carry
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", SIZES)
def test_a_step_forward_is_that_of_the_equations(H, dtype, carry, device):
    given = numbers(H, dtype)
    found = after_forward(buffers_of(given, carry, device))
    assert found["outputs"].dtype == dtype
    assert found["rstd_a"].dtype == torch.promote_types(dtype, F32)
    check(found, expected_forward(given, carry))


GRADIENTS = ("dcarry", "dv", "da", "dn")


def arriving(H: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return what reaches a step back: of its output from outside, of its h, and of its cell."""
    dy, dh, dcarry = (rand(ROWS, H, seed=seed).to(dtype) for seed in (10, 11, 12))
    return dy, dh, dcarry


def buffers_back(
    given: dict[str, Tensor], carry: str, dtype: torch.dtype, device: str
) -> tuple[Forward, Backward]:
    """Return the buffers as a step back finds them: of the equations, rounded to ``dtype``."""
    true = equations(given, carry)
    H = true.outputs.shape[-1]
    dy, dh, dcarry = arriving(H, dtype)
    empty = torch.full((ROWS, 4 * H), math.nan, dtype=dtype)
    made = (placed(getattr(true, name).to(dtype), 1, device) for name in MADE[:5])
    outputs, gates, a_hat, c_hat, tanh_n = made
    statistic = torch.promote_types(dtype, F32)
    forward = Forward(
        *(weight.to(dtype).to(device) for weight in true[:3]),
        *(EPS, true.carries_normalized),
        outputs,
        placed(given["c"].to(dtype), BLOCK.before, device, of=8),
        *(gates, a_hat, c_hat, tanh_n),
        *(placed(rstd.to(statistic), 1, device) for rstd in (true.rstd_a, true.rstd_c)),
    )
    backward = Backward(
        placed(dy, 1, device),
        placed(dh, 0, device, of=3),
        placed(dcarry, 0, device, of=3),
        *(placed(empty[:, :width], 1, device) for width in (4 * H, 4 * H, H)),
    )
    return forward, backward


def after_backward(forward: Forward, backward: Backward, steps: Any) -> dict[str, Tensor]:
    """Take a step back, see to it that only its rows were written, and return them."""
    before = [tensor.clone() for tensor in (*forward[5:], *backward)]
    steps.backward(forward, backward)(BLOCK)
    names = (*Forward._fields[5:], *Backward._fields)
    found = {}
    for name, was, now in zip(names, before, (*forward[5:], *backward), strict=True):
        here = slice(0, ROWS) if name == "dcarry" else slice(BLOCK.start, BLOCK.stop)
        if name in GRADIENTS:
            found[name] = now[here].cpu()
            was[here] = now[here]
        torch.testing.assert_close(now, was, rtol=0, atol=0, equal_nan=True)
    return found


@every_device
@every_carry
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("H", SIZES)
def test_a_step_back_gives_the_derivatives_of_the_equations(H, dtype, carry, device):
    given = numbers(H, dtype)
    leaves = {name: given[name].double().requires_grad_() for name in GIVEN}
    n = torch.zeros(ROWS, H, dtype=F64, requires_grad=True)
    true = equations(leaves, carry, n)
    dy, dh, dcarry = (tensor.double() for tensor in arriving(H, dtype))
    wanted = [leaves["c"], leaves["x"], leaves["a"], n]
    grads = torch.autograd.grad([true.outputs, true.carry], wanted, [dy + dh, dcarry])
    found = after_backward(*buffers_back(given, carry, dtype, device), triton_steps)
    # A single feature has no spread. PyTorch's derivative, 0, is what is left of numbers times 316.
    least = 8 * torch.finfo(F64).eps / math.sqrt(EPS) if H == 1 else 0.0
    check(found, dict(zip(GRADIENTS, grads, strict=True)), least)


@every_device
@every_carry
@pytest.mark.parametrize("dtype", [F16, BF16, F32])
@pytest.mark.parametrize("H", [3, 129])
def test_a_step_back_over_narrow_buffers_rounds_once(H, dtype, carry, device):
    """The truth is of the rounded buffers, in operations of PyTorch on float64."""
    forward, backward = buffers_back(numbers(H, dtype), carry, dtype, device)
    wide = [
        type(group)(*(t.cpu().double() if isinstance(t, Tensor) else t for t in group))
        for group in (forward, backward)
    ]
    found = after_backward(forward, backward, triton_steps)
    check(found, after_backward(*wide, plain))


# Rows that are hard


@every_device
@every_carry
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_zero_state_adds_exactly_nothing_to_the_gates(dtype, carry, device):
    given = numbers(7, dtype)
    given["a"].zero_()
    found = after_forward(buffers_of(given, carry, device))
    assert torch.equal(found["a_hat"], torch.zeros_like(given["a"]))
    check(found, expected_forward(given, carry))


@every_device
@every_carry
@pytest.mark.parametrize("value", [0.0, 1 / 3, -1e4])
def test_a_row_without_spread_leaves_the_input_and_the_bias(value, carry, device):
    """All gates of one number, a cell of one number: normalized, both are 0."""
    given = numbers(129, F32)
    given["a"].fill_(value)
    given["x"].fill_(0.3)
    given["c"].fill_(value)
    found = after_forward(buffers_of(given, carry, device))
    # What rounding leaves of a constant is at most its last digit's last digit, times rstd.
    least = max(abs(value), 1.0) * 2**-48 / math.sqrt(EPS)
    assert found["a_hat"].abs().max() <= least
    assert found["c_hat"].abs().max() <= least
    check(found, expected_forward(given, carry), least=1e-7)


@every_device
@every_carry
@pytest.mark.parametrize("dtype", [F32, F64])
def test_the_gradient_of_rows_without_spread_is_that_of_the_equations(dtype, carry, device):
    """Each norm multiplies it by 316."""
    given = numbers(7, dtype)
    for name in ("a", "x", "c"):
        given[name].zero_()
    leaves = {name: given[name].double().requires_grad_() for name in GIVEN}
    true = equations(leaves, carry)
    dy, dh, dcarry = (tensor.double() for tensor in arriving(7, dtype))
    wanted = [leaves["c"], leaves["x"], leaves["a"]]
    grads = torch.autograd.grad([true.outputs, true.carry], wanted, [dy + dh, dcarry])
    found = after_backward(*buffers_back(given, carry, dtype, device), triton_steps)
    assert found["da"].abs().max() > 1e3
    check(found, dict(zip(GRADIENTS, grads, strict=False)))


@every_device
@pytest.mark.parametrize(("mean", "H"), [(1e3, 7), (-1e4, 129), (1e5, 64)])
def test_rows_far_from_zero_keep_every_digit(mean, H, device):
    given = numbers(H, F32)
    given["a"] += mean
    given["c"] += mean
    given["x"][:, H : 2 * H] = 40.0  # the forget gate is open
    found = after_forward(buffers_of(given, "raw", device))
    expected = expected_forward(given, "raw")
    check(found, {name: expected[name] for name in ("a_hat", "gates", "rstd_a", "carry")})
    # The cell itself is rounded: to it as it was sent on, c_hat is to be right.
    check(found, {"c_hat": formula.terms(found["carry"].double(), eps=EPS).x_hat})


@every_device
@every_carry
@pytest.mark.parametrize("size", [1e3, 1e30, math.inf])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_gates_and_cells_that_are_saturated_are_exact_and_stop_the_gradient(
    dtype, size, carry, device
):
    given = numbers(8, dtype)
    given["x"].copy_(size * given["x"].sign())
    given["weight_c"].fill_(1e6)
    found = after_forward(buffers_of(given, carry, device))
    signs = given["x"].sign()
    i, f, g, o = signs.chunk(4, dim=-1)
    exact = torch.cat([(i + 1) / 2, (f + 1) / 2, g, (o + 1) / 2], -1)
    assert torch.equal(found["gates"], exact)
    assert torch.equal(found["tanh_n"].abs(), torch.ones_like(g))
    found = after_backward(*buffers_back(given, carry, dtype, device), triton_steps)
    assert torch.equal(found["dv"], torch.zeros_like(exact))
    assert all(grad.isfinite().all() for grad in found.values())


@every_device
@pytest.mark.parametrize("dtype", [F32, F64])
def test_tanh_keeps_its_digits_from_the_smallest_numbers_to_the_largest(dtype, device):
    """The error counts in units of each value itself. An LSTM's cell may be 1e-6 everywhere."""
    H = 128
    given = numbers(H, dtype)
    sizes = torch.cat([torch.logspace(-30, 1.4, H - 28, dtype=F64), torch.linspace(0.45, 0.55, 28)])
    given["a"].zero_()
    given["x"][:, 2 * H : 3 * H] = torch.stack([sizes, -sizes]).to(dtype)
    g = after_forward(buffers_of(given, "raw", device))["gates"][:, 2 * H : 3 * H]
    true = given["x"][:, 2 * H : 3 * H].double().tanh()
    error = ((g.double() - true) / true).abs().max()
    # Near 0.5 a difference makes half of itself of its errors: of a GPU's quotient, and of its exp.
    assert error <= 8 * torch.finfo(dtype).eps


@every_device
@every_carry
def test_a_nan_stays_in_its_row(carry, device):
    given = numbers(7, F32)
    clean = after_forward(buffers_of(given, carry, device))
    given["a"][0, 3] = math.nan
    found = after_forward(buffers_of(given, carry, device))
    for name, tensor in found.items():
        assert torch.equal(tensor[1], clean[name][1])
    assert found["outputs"][0].isnan().all()
    assert found["carry"][0].isnan().all()


@every_device
@every_carry
def test_a_row_has_the_same_bits_alone_and_in_any_batch(carry, device):
    given = numbers(129, F32)
    forward, backward = buffers_back(given, carry, F32, device)
    together = after_forward(buffers_of(given, carry, device))
    together |= after_backward(forward, backward, triton_steps)
    for row in range(ROWS):
        one = Block(BLOCK.start + row, BLOCK.start + row + 1, BLOCK.before + row, BLOCK.after + row)
        buffers = buffers_of(given, carry, device)
        triton_steps.forward(buffers)(one)
        forward, backward = buffers_back(given, carry, F32, device)
        backward.dh[0], backward.dcarry[0] = backward.dh[row].clone(), backward.dcarry[row].clone()
        triton_steps.backward(forward, backward)(one)
        for name in (*MADE, "dv", "da", "dn"):
            owner = backward if name in GRADIENTS else buffers
            assert torch.equal(getattr(owner, name)[one.start].cpu(), together[name][row]), name
        assert torch.equal(buffers.carry[one.after].cpu(), together["carry"][row])
        assert torch.equal(backward.dcarry[0].cpu(), together["dcarry"][row])


# All steps


BATCH_SIZES = {"one row, one step": (1,), "equal lengths": (2, 2, 2), "packed": (3, 2, 2, 1)}
# In units of eps: the roundings of a step, carried through four steps and back. Of narrow dtypes
# the whole is no measure of a step: each rounds its state, in whatever backend.
AFTER_STEPS = 48


def on(device: str, given: Case) -> Case:
    x, h, c, *weights = (
        None if t is None else t.detach().to(device).requires_grad_() for t in given.tensors()
    )
    return Case(x, h, c, type(given.weights)(*weights), given.batch_sizes)


def check_whole(given: Case, carry: str, device: str) -> None:
    """Compare all results and gradients in the dtype of ``given`` to the equations in float64."""
    truth = values_and_gradients(by_formula(carry), given.to(F64))
    given = on(device, given)
    results = by_function(carry, triton_steps)(given)
    arriving = [grad.to(device) for grad in upstream(results)]
    grads = torch.autograd.grad(results, given.leaves(), arriving)
    found = dict(zip(truth, (t.detach().cpu() for t in (*results, *grads)), strict=True))
    worst = errors(found, truth)
    assert max(worst.values()) < AFTER_STEPS * torch.finfo(given.x.dtype).eps, worst


@every_device
@every_carry
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("sizes", list(BATCH_SIZES.values()), ids=list(BATCH_SIZES))
def test_results_and_all_gradients_are_those_of_the_equations(sizes, dtype, carry, device):
    check_whole(case(sizes, dtype=dtype), carry, device)


@every_device
@every_carry
def test_so_are_those_without_biases_and_in_several_chunks(carry, device, monkeypatch):
    monkeypatch.setattr(stepwise, "NUMBERS_AT_ONCE", 28 * 4)
    check_whole(case((3, 2, 2, 1), bias=False), carry, device)


@every_device
@pytest.mark.parametrize("dtype", [F16, BF16])
def test_narrow_sequences_stay_as_near_to_the_truth_as_with_plain_operations(dtype, device):
    """Which round more often. Of mean squares, one draw may favor either by a factor of 2."""
    given = case((3, 3, 3, 3), size=32, dtype=dtype)
    truncated = dtype == BF16 and device == "cpu"  # by NumPy: twice the error of rounding
    truth = by_formula("raw")(given.to(F64))

    def error(steps):
        with torch.no_grad():
            results = by_function("raw", steps)(on(device, given))
        squares = [
            (y.cpu().double() - t).square().mean() for y, t in zip(results, truth, strict=True)
        ]
        return max(squares)

    assert error(triton_steps) < (8 if truncated else 2) * error(plain)


@every_device
def test_the_backend_of_the_module_is_these_steps(device, monkeypatch):
    launched = []
    run = triton_steps._run
    monkeypatch.setattr(triton_steps, "_run", lambda *a, **k: (launched.append(a[0]), run(*a, **k)))
    network = LayerNormLSTM(5, 7, backend="triton").to(device)
    output, _ = network(rand(3, 2, 5).float().to(device))
    output.backward(rand(*output.shape, seed=1).float().to(device))
    kernels = triton_steps._kernels(torch.device(device))
    assert Counter(launched) == {kernels.lstm_fwd_kernel: 3, kernels.lstm_bwd_kernel: 3}
    h, c = lnlib.LayerNormLSTMCell(5, 7, backend="triton").to(device)(rand(2, 5).float().to(device))
    assert h.shape == c.shape == (2, 7)
    assert launched[6:] == [kernels.lstm_fwd_kernel]


# What a step costs


class Operations(TorchDispatchMode):
    """Counts the operations of PyTorch that do something: all but views."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        returned = func._schema.returns
        is_view = returned and (alias := returned[0].alias_info) and not alias.is_write
        if not is_view:
            self.seen[str(func)] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[gpu_code.Launch]:
    """Take down what is launched, of the kernels as a GPU would get them, and launch nothing."""
    compiled = importlib.import_module(triton_steps.KERNELS)
    taken: list[gpu_code.Launch] = []

    class Kernel:
        def __init__(self, name: str) -> None:
            self.kernel = getattr(compiled, name)

        def __getitem__(self, grid: tuple[int]) -> Any:
            return lambda *operands, **fixed: taken.append(
                gpu_code.Launch(self.kernel, operands, fixed)
            )

    names = ("lstm_fwd_kernel", "lstm_bwd_kernel")
    stand_in = SimpleNamespace(**{name: Kernel(name) for name in names})
    monkeypatch.setattr(triton_steps, "_kernels", lambda device: stand_in)
    monkeypatch.setattr(launch, "on", lambda device: nullcontext())
    return taken


def test_a_step_is_a_product_and_one_launch_forward_and_back(launches, monkeypatch):
    # What watches operations is given plain ones to watch, unless nobody looks.
    monkeypatch.setattr(function, "mode_of", lambda *tensors: "eager")
    seen = []
    for steps in (3, 5):
        given = case((2,) * steps)
        with Operations() as forward:
            results = by_function("raw", triton_steps)(given)
        with Operations() as backward:
            torch.autograd.grad(results, given.leaves(), upstream(results))
        seen.append((forward.seen, backward.seen))
    (few, few_back), (many, many_back) = seen
    assert many - few == many_back - few_back == {"aten.mm.out": 2}
    assert Counter(each.name for each in launches) == {"lstm_fwd": 8, "lstm_bwd": 8}


def test_a_step_allocates_nothing_and_waits_for_nothing(launches):
    given = numbers(7, F32)
    forward, backward = buffers_back(given, "raw", F32, "cpu")
    taken = [triton_steps.forward(forward), triton_steps.backward(forward, backward)]
    with Operations() as operations:
        for step in taken:
            step(BLOCK)
    assert operations.seen == {}
    assert len(launches) == 2


# Where kernels come from


def test_rows_that_no_program_can_hold_are_left_to_plain_operations(monkeypatch):
    given = numbers(9, F32)
    monkeypatch.setattr(triton_steps, "MOST", 8)
    monkeypatch.setattr(triton_steps, "_run", None)
    check(after_forward(buffers_of(given, "raw", "cpu")), expected_forward(given, "raw"))
    forward, backward = buffers_back(given, "raw", F32, "cpu")
    expected = after_backward(forward, backward._replace(dcarry=backward.dcarry.clone()), plain)
    found = after_backward(forward, backward, triton_steps)
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name])


@pytest.mark.parametrize(("dtype", "H"), [(F32, 4096), (BF16, 4096), (F64, 2048)])
def test_up_to_4096_features_are_held_of_float64_half_as_many(dtype, H, launches):
    for size in (H, H + 1):
        meta = buffers_of_size(size, dtype)
        assert (triton_steps._fixed(meta) is not None) == (size == H)


def test_the_interpreter_has_kernels_of_its_own():
    """A GPU's are as they would be without it, and Triton is the one that was imported."""
    import triton

    interpreted = triton_steps._kernels(torch.device("cpu"))
    compiled = importlib.import_module(triton_steps.KERNELS)
    assert isinstance(compiled.lstm_fwd_kernel, triton.JITFunction)
    assert not isinstance(interpreted.lstm_fwd_kernel, triton.JITFunction)
    assert sys.modules[triton_steps.KERNELS] is compiled
    assert compiled.triton is triton
    assert interpreted.triton is runtime.triton_for(torch.device("cpu"))


def test_a_device_that_triton_has_no_code_for_is_refused_before_any_step():
    with pytest.raises(NotImplementedError, match=r"runs on cuda .* got a tensor on meta"):
        triton_steps.forward(buffers_of_size(7, F32))


# Offsets past 2³¹ numbers. Wrong ones may end the process, so it is one of its own. The memory is
# promised by the system, 20 GiB of it, but only what is written is ever taken.

FAR_ROWS = """
import torch
from lnlib.lstm import plain, triton_steps
from lnlib.lstm.steps import Backward, Block, Forward

H = 1000
ROWS = 2**31 // (4 * H) + 3
torch.manual_seed(0)
BF16 = torch.bfloat16
last = Block(ROWS - 1, ROWS, ROWS, ROWS + 1)

def new(width, dtype=BF16):
    memory = torch.empty(ROWS + 2, width, dtype=dtype)
    memory[-3:] = torch.rand(3, width) + 0.1
    return memory

sizes = (H, H, 4 * H, 4 * H, H, H)
weights = torch.randn(4 * H, dtype=BF16), torch.randn(H, dtype=BF16), torch.randn(H, dtype=BF16)
rows = *map(new, sizes), *(new(1, torch.float32) for _ in range(2))
far = Forward(*weights, 1e-5, False, *rows)
near = Forward(*weights, 1e-5, False, *(buffer[-3:].clone() for buffer in rows))
triton_steps.forward(far)(last)
triton_steps.forward(near)(Block(0, 1, 1, 2))
for a, b in zip(far[5:], near[5:]):
    assert torch.equal(a[-3:], b)

grads = Backward(new(H), new(H)[-3:], new(H)[-3:], new(4 * H), new(4 * H), new(H))
close = Backward(*(t[-3:].clone() for t in grads))
triton_steps.backward(far, grads)(last)
triton_steps.backward(near, close)(Block(0, 1, 1, 2))
for a, b in zip(grads, close):
    assert torch.equal(a[-3:], b)
print("right")
"""


def test_offsets_past_two_to_the_31_are_right():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FAR_ROWS],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "right\n", f"exit status {done.returncode}\n{done.stderr[-2000:]}"


# What the compiler makes of the kernels


def buffers_of_size(H: int, dtype: torch.dtype, rows: int = 6, carry: str = "raw") -> Forward:
    """Return buffers that take no memory."""
    statistic = torch.promote_types(dtype, F32)
    shapes = ((rows, H), (rows + 3, H), (rows, 4 * H), (rows, 4 * H), (rows, H), (rows, H))
    return Forward(
        *(torch.empty(n, dtype=dtype, device="meta") for n in (4 * H, H, H)),
        *(EPS, carry == "normalized"),
        *(torch.empty(shape, dtype=dtype, device="meta") for shape in shapes),
        *(torch.empty(rows, 1, dtype=statistic, device="meta") for _ in range(2)),
    )


def take_both_steps(forward: Forward, block: Block = BLOCK) -> None:
    like = (forward.outputs,) * 3 + (forward.gates,) * 2 + (forward.outputs,)
    triton_steps.forward(forward)(block)
    triton_steps.backward(forward, Backward(*map(torch.empty_like, like)))(block)


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_the_longest_rows_fit_into_the_registers(target, launches):
    take_both_steps(buffers_of_size(triton_steps.MOST, F32))
    for each in launches:
        report = gpu_code.read(each.compile(target))
        assert (report.stack, report.spills) == (0, 0), f"{each.name}: {report}"


def test_steps_of_any_number_rows_and_place_are_compiled_once(launches):
    """A number that is 1, or a multiple of 16, is what Triton would make another kernel for."""
    blocks = [(0, 1, 0, 1), (1, 3, 2, 5), (16, 32, 48, 64), (0, 65536, 0, 65536)]
    for rows, block in itertools.product((1, 16, 2**20), blocks):
        take_both_steps(buffers_of_size(128, BF16, rows), Block(*block))
    assert len({each.key("cuda:90") for each in launches}) == 2
    take_both_steps(buffers_of_size(128, BF16, carry="normalized"))
    assert len({each.key("cuda:90") for each in launches}) == 4


def test_eps_goes_to_a_kernel_with_48_bits(launches):
    """As two numbers: Triton rounds each to float32, its interpreter none, and could not tell."""
    take_both_steps(buffers_of_size(7, F64))
    parts = launches[0].operands[-2:]
    assert [torch.tensor(part, dtype=F32).item() for part in parts] == list(parts)
    assert abs(sum(parts) - EPS) <= 2**-48 * EPS


# What takes a GPU


@on_gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [128, 512, 1000, 1023, 2048, 4096])
def test_on_a_gpu_long_rows_are_right_too(H, dtype):
    if dtype == F64 and H > triton_steps.MOST // 2:
        return  # plain operations
    given = numbers(H, dtype)
    check(after_forward(buffers_of(given, "raw", "cuda")), expected_forward(given, "raw"))
    forward, backward = buffers_back(given, "raw", dtype, "cuda")
    wide = [
        type(group)(*(t.cpu().double() if isinstance(t, Tensor) else t for t in group))
        for group in (forward, backward)
    ]
    check(after_backward(forward, backward, triton_steps), after_backward(*wide, plain))


def both_passes(network: LayerNormLSTM, x: Tensor, dy: Tensor) -> list[Tensor]:
    output, (h, c) = network(x)
    return [output, h, c, *torch.autograd.grad(output, [x, *network.parameters()], dy)]


@pytest.fixture
def on_cuda() -> tuple[LayerNormLSTM, Tensor, Tensor]:
    torch.manual_seed(0)
    network = LayerNormLSTM(28, 128, num_layers=2, device="cuda", backend="triton")
    x = rand(28, 64, 28).float().cuda().requires_grad_()
    return network, x, rand(28, 64, 128, seed=1).float().cuda()


@on_gpu
def test_on_a_gpu_repeats_have_the_same_bits(on_cuda):
    first = both_passes(*on_cuda)
    for _ in range(10):
        for a, b in zip(both_passes(*on_cuda), first, strict=True):
            assert torch.equal(a, b)


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
    with torch.cuda.graph(graph):
        captured = both_passes(*on_cuda)
    with torch.no_grad():
        x.mul_(2).add_(1)
    graph.replay()
    with torch.cuda.stream(aside):  # the one that autograd has seen
        again = both_passes(*on_cuda)
    torch.cuda.synchronize()
    for a, b in zip(again, captured, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)  # cuBLAS may choose anew


@on_gpu
def test_on_a_gpu_sequences_of_any_length_and_number_compile_no_kernel_anew(on_cuda, monkeypatch):
    network, x, dy = on_cuda
    both_passes(network, x, dy)
    compiled: list[Any] = []
    knobs = runtime.triton_for(torch.device("cuda")).knobs.runtime
    monkeypatch.setattr(knobs, "jit_post_compile_hook", lambda **known: compiled.append(known))
    for steps, rows in ((1, 1), (7, 3), (33, 16), (5, 1000)):
        x = rand(steps, rows, 28).float().cuda().requires_grad_()
        both_passes(network, x, rand(steps, rows, 128).float().cuda())
    assert compiled == []


@on_gpu
def test_on_a_gpu_auto_means_these_steps(on_cuda, monkeypatch):
    network, x, _ = on_cuda
    network.backend = "auto"
    launched: list[Any] = []
    monkeypatch.setattr(triton_steps, "_run", lambda kernel, *_, **__: launched.append(kernel))
    network(x)
    assert launched
