"""The Triton kernels: right at any size, in any layout and type, and a row in any batch alike.

The same tests run interpreted on a CPU, with few rows, and compiled on a GPU, with many. The
interpreter runs one program after another, in NumPy. What it therefore cannot prove:

* that no two programs write to the same place, or one reads what another has yet to write;
* that what the compiler is told of strides and alignment holds, and what it makes of that: vector
  widths, layouts, loads in flight, registers;
* the accuracy of a GPU's square root and division, and of bfloat16, which NumPy truncates to where
  a GPU rounds; nor does it fuse a multiplication with an addition, which costs accuracy here;
* the order in which a GPU adds up a tile, and so its bits: repeats, and one row in any batch.
"""

import functools
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from test_composed import Draw, error_ratios, squared_error, with_gradients
from tiers import few
from torch import Tensor

import lnlib
from lnlib import formula, triton_kernel
from lnlib.triton_kernel import launch, runtime, tiles
from lnlib.triton_kernel.tiles import Tile

pytestmark = [
    pytest.mark.skipif(runtime.why_not() is not None, reason="Triton is not installed"),
    pytest.mark.usefixtures("memory_that_nobody_wrote_is_nan"),
]

HAS_GPU = torch.cuda.is_available()
DEVICES = ["cpu", "cuda"] if HAS_GPU else ["cpu"]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ALL = (True, True, True)

# What an error is allowed, as a share of the terms that the true value is the sum of.
ARITHMETIC = {
    torch.float32: 1e-6,  # sixteen roundings, 6e-8 each: a dozen one after the other, and sums
    torch.float64: 4e-15,  # the same, 1e-16 each, and as many in the formula
}
# What the last rounding, to the type of the result, may add: half a unit in the last place.
ROUNDING = {
    torch.float16: 2**-11,
    torch.bfloat16: 2**-8,
    torch.float32: 2**-24,
    torch.float64: 2**-53,
}
SMALLEST = {torch.float16: 2**-24}  # its subnormal numbers have that unit, whatever their size

NEVER_ABOVE = 1.05  # times PyTorch's RMS error, in float32

layer_norm = functools.partial(lnlib.layer_norm, backend="triton")


@pytest.fixture
def memory_that_nobody_wrote_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


PATHS = ["as is", "small tiles", "long rows"]
# For promises that each kernel has to keep by itself, two paths have every kernel between them.
every_kernel = pytest.mark.parametrize("path", ["small tiles", "long rows"], indirect=True)


def keep_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let launches be chosen anew at each call, as tiles are patched."""
    for name in ("_forward", "_backward"):
        monkeypatch.setattr(launch, name, getattr(launch, name).__wrapped__)


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Send rows of 13 features along every path, in several tiles, programs and steps."""
    keep_no_choice(monkeypatch)
    if request.param != "as is":
        monkeypatch.setattr(tiles, "forward", lambda *_: Tile(2, 16, 4))
        monkeypatch.setattr(tiles, "backward", lambda *_: Tile(2, 16, 4))
        monkeypatch.setattr(tiles, "partials", lambda *_: Tile(2, 4, 4))
        monkeypatch.setattr(tiles, "columns", lambda *_: Tile(4, 4, 4))
        monkeypatch.setattr(runtime, "multiprocessors", lambda *_: 3)
    if request.param == "long rows":
        monkeypatch.setattr(tiles, "forward", lambda *_: None)
        monkeypatch.setattr(tiles, "backward", lambda *_: None)
        monkeypatch.setattr(tiles, "long", lambda *_: Tile(1, 4, 4))
    return request.param


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def operands(
    B: int, H: int, dtype: torch.dtype = torch.float32, device: str = "cpu", mean: float = 3.0
) -> list[Tensor]:
    """Return x, weight, bias and dy, the first three requiring their gradients."""
    x = (mean + rand(B, H, dtype=torch.float64)).to(dtype)
    others = rand(H, seed=1, dtype=dtype), rand(H, seed=2, dtype=dtype)
    leaves = [tensor.to(device).requires_grad_() for tensor in (x, *others)]
    return [*leaves, rand(B, H, seed=3, dtype=dtype).to(device)]


def results_of(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, dy: Tensor, eps: float = 1e-5
) -> dict[str, Tensor]:
    """Run the kernels over the last dimension: y, and every gradient that is asked for."""
    y = layer_norm(x, x.shape[-1:], weight, bias, eps)
    named = {"dx": x, "dweight": weight, "dbias": bias}
    asked = {name: t for name, t in named.items() if t is not None and t.requires_grad}
    grads = torch.autograd.grad(y, list(asked.values()), dy) if asked else ()
    return {"y": y.detach(), **dict(zip(asked, grads, strict=True))}


def truth_of(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, dy: Tensor, eps: float = 1e-5
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return y and each gradient in float64, and the size of the terms that each is the sum of."""
    H = x.shape[-1]
    x, dy = x.detach().double().reshape(-1, H), dy.double().reshape(-1, H)
    weight = torch.ones_like(x[:1].sum(0)) if weight is None else weight.detach().double()
    bias = torch.zeros_like(weight) if bias is None else bias.detach().double()
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    terms = formula.terms(*leaves, eps=eps)
    grads = torch.autograd.grad(terms.y, leaves, dy)
    x_hat, g = terms.x_hat.detach().abs(), (weight * dy).detach().abs()
    spread = g + g.mean(-1, keepdim=True) + x_hat * (g * x_hat).mean(-1, keepdim=True)
    sizes = {
        "y": (1 + x_hat) * weight.detach().abs() + bias.detach().abs(),
        "dx": terms.rstd.detach() * spread,
        "dweight": (dy.abs() * (1 + x_hat)).sum(0),
        "dbias": dy.abs().sum(0),
    }
    return {
        name: (true, sizes[name])
        for name, true in zip(sizes, (terms.y.detach(), *grads), strict=True)
    }


def assert_right(results: dict[str, Tensor], *inputs: Tensor | None, eps: float = 1e-5) -> None:
    """Hold ``results`` to the truth about ``inputs``: x, weight, bias and dy."""
    truth = truth_of(*inputs, eps=eps)
    arithmetic = ARITHMETIC[torch.promote_types(inputs[0].dtype, torch.float32)]
    for name, actual in results.items():
        true, size = truth[name]
        truncated = actual.dtype == torch.bfloat16 and actual.device.type == "cpu"
        last = ROUNDING[actual.dtype] * (2 if truncated else 1) * true.abs()
        allowed = arithmetic * size + last + SMALLEST.get(actual.dtype, 0.0)
        error = (actual.double().reshape(true.shape) - true).abs()
        assert (error <= allowed).all(), f"{name}: {(error / allowed).max():.3g} × what is allowed"


# Sizes: next to powers of two and far from them; held whole, and tile by tile

SMALL = [1, 2, 3, 5, 7, 31, 33, 64, 127, 229, 255, 257]
LARGE = [541, 768, 769, 1000, 1023, 1025, 4095, 8191, 8192, 8193, 16384, 16385, 20001]
HUGE = [65536, 66679, 131072, 262144]
SIZES = [(H, dtype) for H in SMALL for dtype in FLOATS]
# The interpreter takes seconds for the large ones: one type each, in turn, and each type often.
SIZES += [(H, d) for k, H in enumerate(LARGE) for d in (FLOATS if HAS_GPU else [FLOATS[k % 4]])]
SIZES += [(H, dtype) for H in HUGE if HAS_GPU for dtype in FLOATS]


@pytest.mark.parametrize("device", DEVICES)
@few("H, dtype", SIZES, 20)
def test_y_and_every_gradient_are_right_at_every_length_of_a_row(H, dtype, device):
    B = 37 if H <= 257 or device == "cuda" else 5 if H <= 1025 else 2
    inputs = operands(B, H, dtype, device)
    results = results_of(*inputs)
    assert [tensor.dtype for tensor in results.values()] == [dtype] * 4
    assert_right(results, *inputs)


ROWS = [0, 1, 2, 3, 31, 32, 33, 127, 128, 129, 255, 256, 257, 513, 1151, 2600]
ROWS_ON_GPU = [*ROWS, 4096, 65535, 65536, 65537, 100_000]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("B", ROWS_ON_GPU if HAS_GPU else ROWS)
def test_any_number_of_rows_is_summed_whoever_owns_them(B, device):
    inputs = operands(B, 7, device=device)
    assert_right(results_of(*inputs), *inputs)


@pytest.mark.parametrize("device", DEVICES)
@few("dtype", FLOATS, [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("B", [1, 9])
def test_every_path_gives_the_same_right_results(B, dtype, device, path):
    inputs = operands(B, 13, dtype, device)
    assert_right(results_of(*inputs), *inputs)


# Accuracy


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("H", "mean"),
    [(7, 1e2), (7, -1e5), (769, 1e3), (769, -1e4), (769, 1e5), (16385, 1e5)],
)
def test_rows_far_from_zero_keep_every_digit(H, mean, device):
    inputs = operands(3, H, device=device, mean=mean)
    assert_right(results_of(*inputs), *inputs)


@pytest.mark.parametrize("device", DEVICES)
def test_float64_rows_far_from_zero_keep_every_digit(device, path):
    near = operands(5, 13, torch.float64, device, mean=0.0)
    with torch.no_grad():
        near[0].copy_((near[0] * 2**20).round() / 2**20)  # so that adding 2³⁰ rounds nothing
    far = [(near[0].detach() + 2**30).requires_grad_(), *near[1:]]
    assert_right(results_of(*far), *near)


POOLS = [
    *((torch.float16, mean) for mean in (0.0, 1e2)),
    *((torch.bfloat16, mean) for mean in (0.0, 1.0)),
    *((torch.float32, mean) for mean in (0.0, 1.0, 1e2, 1e5)),
]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let PyTorch add the rows one after another, as the interpreter does; threads share them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the interpreter round a fused multiply-add once, as a GPU does; on its own it does twice.

    Nearly: what is rounded to the wider type first may be rounded the other way, very rarely.
    """
    interpreter = runtime.triton_for(torch.device("cpu")).runtime.interpreter

    def create_fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
        wider = np.float64 if z.data.dtype == np.float32 else np.longdouble
        exact = x.data.astype(wider) * y.data + z.data
        return interpreter.TensorHandle(exact.astype(z.data.dtype), z.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_fma", create_fma)


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a program of the interpreter many rows, which changes nothing about the sum of one."""
    for name in ("forward", "backward"):
        one = getattr(tiles, name)
        many = lambda H, size, one=one: (t := one(H, size)) and t._replace(rows=64)  # noqa: E731
        monkeypatch.setattr(tiles, name, many)
    keep_no_choice(monkeypatch)
    monkeypatch.setattr(tiles, "partials", lambda *_: Tile(4, 4096, 4))
    monkeypatch.setattr(tiles, "columns", lambda *_: Tile(4, 4096, 4))


def before_the_last_cast(draw: Draw) -> list[Tensor]:
    """Return y and the gradients in float32, whatever the type of the operands."""
    y, statistics = launch.forward(draw.x, draw.weight, draw.bias, 1e-5, torch.float32)
    needs = (torch.float32,) * 3
    return [y, *launch.backward(draw.dy, draw.x, draw.weight, statistics, needs)]


def ratios_to_pytorch(dtype: torch.dtype, mean: float, B: int, H: int, draws: int) -> list[float]:
    """Return our pooled RMS errors of y, dx, dweight, dbias over PyTorch's in float32."""
    ours, theirs, sizes = [], [], []
    for seed in range(draws):
        draw = Draw(B, H, mean, dtype, seed)
        truth = with_gradients(formula.layer_norm, draw, True, torch.float64)
        pytorch = with_gradients(lambda x, *p: F.layer_norm(x, (H,), *p), draw, True, torch.float32)
        ours.append(squared_error(before_the_last_cast(draw), truth))
        theirs.append(squared_error(pytorch, truth))
        sizes.append([true.square().sum().item() for true in truth])
    mine, yours, size = (torch.tensor(e, dtype=torch.float64).sum(0) for e in (ours, theirs, sizes))
    # Few sums of a few narrow numbers need any rounding at all: below that, chance decides.
    return (mine / yours.clamp(min=2**-50 * size)).sqrt().tolist()


@pytest.mark.usefixtures("few_programs", "one_thread", "fused")
# A sum over 64 rows rounds so seldom that one draw is chance.
@few("B, H, draws", [(1024, 7, 1), (512, 64, 1), (256, 769, 1), (64, 4096, 4)], 2)
@few("dtype, mean", POOLS, 3)
def test_before_the_last_cast_errors_are_within_a_twentieth_of_pytorchs(dtype, mean, B, H, draws):
    ratios = ratios_to_pytorch(dtype, mean, B, H, draws)
    for name, ratio in zip(("y", "dx", "dweight", "dbias"), ratios, strict=True):
        assert ratio <= NEVER_ABOVE, f"{name}: {ratio:.3f}"


@pytest.mark.usefixtures("few_programs", "one_thread", "fused")
# Of the rows that fit in one tile, products are rounded before they are added: of 16 rows, dweight
# has 1.15 times the error of PyTorch's at mean 0. More rows are added to them unrounded.
@pytest.mark.parametrize(("B", "H"), [(512, 7), (256, 64)])
@few("mean", [0.0, 1.0, 1e2, 1e5], 2)
def test_float64_errors_are_within_a_twentieth_of_pytorchs(mean, B, H):
    ratios = error_ratios(torch.float64, mean, H, True, 4, B, measured=layer_norm)
    for name, ratio in ratios.items():
        assert ratio <= NEVER_ABOVE, f"{name}: {ratio:.3f}"


# Exactness


@pytest.mark.parametrize("device", DEVICES)
@every_kernel
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [-0.0, 1 / 3, 1.7e308])
def test_a_constant_row_gives_exactly_the_bias(value, dtype, device, path):
    # The last value stands for the largest of the dtype, whose sum over a row would overflow.
    value = min(value, torch.finfo(dtype).max)
    x = torch.full((3, 13), value, dtype=dtype, device=device)
    weight, bias = (rand(13, seed=seed, dtype=dtype).to(device) for seed in (1, 2))
    for eps in (1e-5, 1e-12):
        assert torch.equal(layer_norm(x, (13,), weight, bias, eps), bias.expand(3, 13))
        assert torch.equal(layer_norm(x, (13,), None, None, eps), torch.zeros_like(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("H", "dtype"), [(1, torch.float32), (769, torch.bfloat16)])
def test_a_constant_row_is_exact_in_tiles_with_padding_too(H, dtype, device):
    x = torch.full((5, H), 1 / 3, dtype=dtype, device=device)
    assert torch.equal(layer_norm(x, (H,)), torch.zeros_like(x))


@pytest.mark.parametrize("device", DEVICES)
def test_the_gradient_of_a_constant_row_is_dy_less_its_mean_over_the_root_of_eps(device, path):
    x, weight, bias, dy = operands(5, 13, device=device)
    with torch.no_grad():
        x[1] = 1 / 3
    results = results_of(x, weight, bias, dy)
    g = (weight * dy)[1].detach().double()
    expected = (g - g.mean()) / math.sqrt(1e-5)
    # Three float32 roundings of what is divided by 0.003.
    torch.testing.assert_close(results["dx"][1].double(), expected, rtol=1e-6, atol=1e-4)
    others = [0, 2, 3, 4]
    assert_right({"dweight": results["dweight"]}, x[others], weight, bias, dy[others])


@pytest.mark.parametrize("device", DEVICES)
def test_a_constant_row_without_eps_is_nan_and_the_others_are_right(device, path):
    inputs = operands(5, 13, device=device)
    with torch.no_grad():
        inputs[0][1] = 1 / 3
    results = results_of(*inputs, eps=0.0)
    assert results["y"][1].isnan().all()
    others = [0, 2, 3, 4]
    rows = {name: results[name][others] for name in ("y", "dx")}
    x, weight, bias, dy = inputs
    assert_right(rows, x[others], weight, bias, dy[others], eps=0.0)


@pytest.mark.parametrize("device", DEVICES)
@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [1e-12, 0.1, 0.5])
def test_eps_counts_with_all_its_digits(eps, dtype, device, path):
    inputs = operands(3, 13, dtype, device, mean=0.0)
    with torch.no_grad():
        inputs[0].mul_(math.sqrt(eps))  # so that it matters
    assert_right(results_of(*inputs, eps=eps), *inputs, eps=eps)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float16, 6e4), (torch.bfloat16, 1e17), (torch.float32, 1e17), (torch.float32, 1e-17)],
)
def test_values_whose_squares_float32_can_hold_neither_overflow_nor_vanish(dtype, scale, device):
    signs = torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0]], device=device)
    y = layer_norm((scale * signs).to(dtype), (7,), eps=0.0)
    assert_right({"y": y}, signs.to(dtype), None, None, signs, eps=0.0)


@pytest.mark.parametrize("device", DEVICES)
@every_kernel
@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_where_squares_overflow_a_row_is_nan_and_the_others_are_as_before(scale, device, path):
    x, weight, bias, dy = operands(5, 13, device=device)
    clean = results_of(x, weight, bias, dy)
    with torch.no_grad():
        x[2] *= scale
    results = results_of(x, weight, bias, dy)
    for name in ("y", "dx"):
        assert results[name][2].isnan().all()
        assert torch.equal(results[name][[0, 1, 3, 4]], clean[name][[0, 1, 3, 4]])


@pytest.mark.parametrize("device", DEVICES)
@every_kernel
@pytest.mark.parametrize(("position", "bad"), [(0, math.inf), (5, -math.inf), (12, math.nan)])
def test_an_infinite_or_nan_value_stays_in_its_row(position, bad, device, path):
    x, weight, bias, dy = operands(5, 13, device=device)
    clean = results_of(x, weight, bias, dy)
    with torch.no_grad():
        x[2, position] = bad
    results = results_of(x, weight, bias, dy)
    others = [0, 1, 3, 4]
    for name in ("y", "dx"):
        assert results[name][2].isnan().all()
        assert torch.equal(results[name][others], clean[name][others])
    assert torch.equal(results["dbias"], clean["dbias"])


# A row is a row: alone or among others, now or later, and whatever else is asked for


@pytest.mark.parametrize("device", DEVICES)
def test_a_row_has_the_same_bits_alone_and_in_any_batch(device, path):
    inputs = operands(9, 13, device=device)
    x, weight, bias, dy = inputs
    together = results_of(*inputs)
    for rows in ([8], [4, 0], [7, 8, 4]):
        part = results_of(x[rows].detach().requires_grad_(), weight, bias, dy[rows])
        for name in ("y", "dx"):
            assert torch.equal(part[name], together[name][rows])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("H", [769, 9000])
def test_a_row_of_any_length_has_the_same_bits_alone_and_in_a_batch(H, device):
    x, weight, bias, dy = operands(3, H, device=device)
    inputs = x, weight.detach(), bias.detach()
    together = results_of(*inputs, dy)
    alone = results_of(x[2:].detach().clone().requires_grad_(), *inputs[1:], dy[2:].clone())
    for name in ("y", "dx"):
        assert torch.equal(alone[name], together[name][2:])


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_again_gives_the_same_bits(device, path):
    inputs = operands(9, 13, device=device)
    first, second = results_of(*inputs), results_of(*inputs)
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name])


# Operands: each parameter there or not, of any type; any layout; read and left alone


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("turn", [1, 3])
@pytest.mark.parametrize("weight_dtype", [None, *FLOATS])
@pytest.mark.parametrize("dtype", FLOATS)
def test_each_parameter_may_be_missing_or_have_a_type_of_its_own(dtype, weight_dtype, turn, device):
    others = [None, *FLOATS]
    bias_dtype = others[(others.index(weight_dtype) + turn) % len(others)]
    x, *parameters, dy = operands(5, 13, dtype, device)
    weight, bias = (
        None if own is None else parameter.detach().to(own).requires_grad_()
        for parameter, own in zip(parameters, (weight_dtype, bias_dtype), strict=True)
    )
    y = lnlib.layer_norm(x, (13,), weight, bias, backend="triton")
    named = {"dx": x, "dweight": weight, "dbias": bias}
    leaves = {name: leaf for name, leaf in named.items() if leaf is not None}
    grads = torch.autograd.grad(y, list(leaves.values()), dy)
    assert y.dtype == dtype
    assert [grad.dtype for grad in grads] == [leaf.dtype for leaf in leaves.values()]
    results = {"y": y.detach(), **dict(zip(leaves, grads, strict=True))}
    assert_right(results, x, weight, bias, dy)


@pytest.mark.parametrize("device", DEVICES)
@few("needs", list(itertools.product((True, False), repeat=3)), 3)
def test_no_kernel_computes_what_nobody_needs(needs, device, path):
    x, weight, bias, dy = (tensor.detach() for tensor in operands(9, 13, device=device))
    _, statistics = launch.forward(x, weight, bias, 1e-5)
    dtypes = [torch.float32 if need else None for need in needs]
    grads = launch.backward(dy, x, weight, statistics, dtypes)
    assert tuple(grad is not None for grad in grads) == needs
    named = zip(("dx", "dweight", "dbias"), grads, strict=True)
    assert_right({name: grad for name, grad in named if grad is not None}, x, weight, bias, dy)


@pytest.mark.parametrize("needs", [n for n in itertools.product((True, False), repeat=3) if any(n)])
@pytest.mark.parametrize(
    ("H", "dtype"), [(13, torch.float16), (8191, torch.float32), (8193, torch.float64)]
)
def test_there_is_one_launch_forward_and_at_most_three_backward(H, dtype, needs, monkeypatch):
    launched = []
    monkeypatch.setattr(launch.Launcher, "__call__", lambda kernel, *_: launched.append(kernel))
    x, weight, bias, dy = (tensor.detach() for tensor in operands(3, H, dtype))
    _, statistics = launch.forward(x, weight, bias, 1e-5)
    assert len(launched) == 1
    dtypes = [dtype if need else None for need in needs]
    launch.backward(dy, x, weight, statistics, dtypes)
    assert 2 <= len(launched) <= 4


LAYOUTS: dict[str, Callable[[Callable[..., Tensor]], Tensor]] = {
    "every other row": lambda new: new(12, 13)[::2],
    "part of wider rows": lambda new: new(6, 20)[:, 3:16],
    "misaligned": lambda new: new(6 * 13 + 1)[1:].view(6, 13),
    "one number, as sum() has for dy": lambda new: new(1, 1).expand(6, 13),
    "one number a row, as mean(-1) has": lambda new: new(6, 1).expand(6, 13),
    "one row": lambda new: new(1, 13).expand(6, 13),
    "every other feature": lambda new: new(6, 26)[:, ::2],
    "features first": lambda new: new(13, 6).t(),
    "leading dimensions swapped": lambda new: new(3, 2, 13).transpose(0, 1),
    "leading dimensions cut": lambda new: new(2, 5, 13)[:, :3],
}
READ_IN_PLACE = list(LAYOUTS)[:6]


def laid_out(layout: str, seed: int, device: str) -> Tensor:
    return LAYOUTS[layout](lambda *shape: rand(*shape, seed=seed).to(device))


@pytest.mark.parametrize("device", DEVICES)
@every_kernel
@few("layout", LAYOUTS, 4)
def test_x_and_dy_may_have_any_strides(layout, device, path):
    names = list(LAYOUTS)
    other = names[(names.index(layout) + 4) % len(names)]
    x, dy = laid_out(layout, 0, device).requires_grad_(), laid_out(other, 3, device)
    *_, weight, bias, _ = operands(6, 13, device=device)
    y = layer_norm(x, (13,), weight, bias)
    grads = torch.autograd.grad(y, (x, weight, bias), dy.reshape(x.shape))
    assert all(tensor.is_contiguous() for tensor in (y, *grads))
    results = dict(zip(("y", "dx", "dweight", "dbias"), (y.detach(), *grads), strict=True))
    assert_right(results, x, weight, bias, dy)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_is_made_only_of_what_no_kernel_can_read_in_place(layout):
    tensor = laid_out(layout, 0, "cpu")
    rows = launch.readable(tensor.reshape(6, 13))
    assert torch.equal(rows, tensor.reshape(6, 13))
    assert (rows.data_ptr() == tensor.data_ptr()) == (layout in READ_IN_PLACE)


class Guards:
    """Results with guards on either side, which nobody may touch, and NaN to be overwritten."""

    WIDTH = 64
    UNTOUCHED = -777.0

    def __init__(self) -> None:
        self.buffers: list[Tensor] = []

    def around(self, empty: Tensor) -> Tensor:
        buffer = empty.new_full((empty.numel() + 2 * self.WIDTH,), self.UNTOUCHED)
        self.buffers.append(buffer)
        return buffer[self.WIDTH : -self.WIDTH].fill_(math.nan).view(empty.shape)

    def check(self) -> None:
        for buffer in self.buffers:
            assert (buffer[: self.WIDTH] == self.UNTOUCHED).all()
            assert (buffer[-self.WIDTH :] == self.UNTOUCHED).all()
            assert not buffer[self.WIDTH : -self.WIDTH].isnan().any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("B", "H", "dtype"), [(9, 13, torch.float32), (5, 5, torch.float16), (4, 16, torch.float64)]
)
def test_everything_is_written_and_nothing_outside(B, H, dtype, device, path, monkeypatch):
    guards = Guards()
    plain = Tensor.new_empty

    def new_empty(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        empty = plain(self, *args, **kwargs)
        return empty if "device" in kwargs else guards.around(empty)  # the interpreter's own

    x, weight, bias, dy = (t.detach() for t in operands(B, H, dtype, device))
    monkeypatch.setattr(Tensor, "new_empty", new_empty)
    monkeypatch.setattr(torch, "empty_like", lambda t, **_: guards.around(x.new_zeros(t.shape)))
    y, statistics = launch.forward(x, weight, bias, 1e-5)
    grads = launch.backward(dy, x, weight, statistics, (dtype,) * 3)
    monkeypatch.undo()
    assert len(guards.buffers) == (8 if path == "long rows" else 7)
    guards.check()
    named = dict(zip(("y", "dx", "dweight", "dbias"), (y, *grads), strict=True))
    assert_right(named, x, weight, bias, dy)


# Higher orders


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("given", [(True, True), (False, False)])
def test_first_and_second_order_agree_with_differences(given, device):
    *leaves, _ = operands(2, 5, torch.float64, device)
    inputs = [t if is_there else None for t, is_there in zip(leaves, (True, *given), strict=True)]

    def y(x, weight, bias):
        return layer_norm(x, (5,), weight, bias, 0.1)

    assert torch.autograd.gradcheck(y, inputs)
    assert torch.autograd.gradgradcheck(y, inputs)


# Offsets past 2³¹ numbers. Wrong ones may end the process, so it is one of its own. The memory is
# promised by the system, 4 GiB of it, but only what is written is ever taken.

FAR_ROWS = """
import builtins
import torch
from lnlib.triton_kernel import launch, runtime, tiles

H = 1000
weight = torch.linspace(-1, 1, H)

def forward(x, dtype=torch.float32):
    return launch.forward(x, weight, weight, 1e-5, dtype)

def backward(dy, x, statistics, *needs, dtype=torch.float32):
    return launch.backward(dy, x, weight, statistics, [dtype if need else None for need in needs])

torch.manual_seed(0)
apart = 2**30 + 8  # so that the third row starts past 2**31
memory = [torch.empty(2 * apart + H, dtype=torch.bfloat16) for _ in range(2)]
x, dy = (each.as_strided((3, H), (apart, 1)).copy_(torch.randn(3, H)) for each in memory)

def test_rows_far_apart_are_read():
    y, statistics = forward(x)
    near, same = forward(x.contiguous())
    assert torch.equal(y, near)
    grads = backward(dy, x, statistics, True, True, True)
    expected = backward(dy.contiguous(), x.contiguous(), same, True, True, True)
    assert all(map(torch.equal, grads, expected))

# Many rows, all the same one, have their results far apart. Of the programs the last alone runs.
B = 2**31 // H + 100

def the_last(*bounds):
    return builtins.range(bounds[0] - 1, bounds[0]) if len(bounds) == 1 else builtins.range(*bounds)

def test_results_far_apart_are_written():
    interpreter = runtime.triton_for(torch.device("cpu")).runtime.interpreter
    y, statistics = forward(x[:1], torch.bfloat16)
    dx = backward(dy[:1], x[:1], statistics, True, False, False, dtype=torch.bfloat16)[0]
    many_x, many_dy = x[:1].expand(B, H), dy[:1].expand(B, H)
    interpreter.range = the_last
    many, _ = forward(many_x, torch.bfloat16)
    assert torch.equal(many[-1], y[0])
    del many
    statistics = statistics.expand(3, B).contiguous()
    many = backward(many_dy, many_x, statistics, True, False, False, dtype=torch.bfloat16)[0]
    assert torch.equal(many[-1], dx[0])
    interpreter.range = builtins.range

test_rows_far_apart_are_read()
test_results_far_apart_are_written()
tiles.forward = tiles.backward = lambda *_: None
test_rows_far_apart_are_read()
test_results_far_apart_are_written()
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


# What takes a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [5, 64, 768, 769, 4096, 8191, 8192, 9000, 16384, 20001])
def test_on_a_gpu_repeats_have_the_same_bits(H, dtype):
    inputs = operands(4097, H, dtype, "cuda")
    first = results_of(*inputs)
    for _ in range(10):
        for name, tensor in results_of(*inputs).items():
            assert torch.equal(tensor, first[name])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("H", [1, 5, 64, 768, 769, 4096])
def test_on_a_gpu_a_row_has_the_same_bits_in_any_batch(H, dtype):
    x, weight, bias, dy = (t.detach() for t in operands(65536, H, dtype, "cuda"))
    together = results_of(x.requires_grad_(), weight, bias, dy)
    for B in (1, 2, 3, 17, 128, 1000, 65535):
        for start in (0, 65536 - B):
            # A copy, which starts at a multiple of 16 bytes as x does.
            rows, upstream = (t.detach()[start : start + B].clone() for t in (x, dy))
            part = results_of(rows.requires_grad_(), weight, bias, upstream)
            for name in ("y", "dx"):
                assert torch.equal(part[name], together[name][start : start + B])


@pytest.mark.gpu
@pytest.mark.parametrize("H", [5, 1000, 9000, 20001])
def test_on_a_gpu_offsets_past_two_to_the_31_are_right(H):
    B = 2**31 // H + 100
    one = operands(1, H, torch.bfloat16, "cuda")
    expected = results_of(*one)
    x, weight, bias, dy = (tensor.detach() for tensor in one)
    many = results_of(x.expand(B, H).requires_grad_(), weight, bias, dy.expand(B, H))
    for name in ("y", "dx"):
        for rows in many[name].split(2**28 // H):
            assert (rows == expected[name]).all()
    apart = 2**30 + 8
    base = torch.empty(2 * apart + H, dtype=torch.bfloat16, device="cuda")
    x = base.as_strided((3, H), (apart, 1)).copy_(rand(3, H)).requires_grad_()
    inputs = x, weight.requires_grad_(), bias.requires_grad_(), dy.expand(3, H)
    assert_right(results_of(*inputs), *inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("H", [7, 64, 769, 1024, 4096, 9000, 20001])
@pytest.mark.parametrize(("dtype", "mean"), [*POOLS, (torch.float64, 0.0), (torch.float64, 1e5)])
def test_on_a_gpu_errors_after_the_last_cast_are_within_a_twentieth_of_pytorchs(dtype, mean, H):
    *leaves, dy = operands(2**20 // H, H, dtype, "cuda", mean)
    errors = []
    for run in (layer_norm, F.layer_norm):
        y = run(leaves[0], (H,), *leaves[1:])
        results = [y.detach(), *torch.autograd.grad(y, leaves, dy)]
        truth = [true for true, _ in truth_of(*leaves, dy).values()]
        errors.append(squared_error(results, truth))
    for name, ours, theirs in zip(("y", "dx", "dweight", "dbias"), *errors, strict=True):
        assert ours <= NEVER_ABOVE**2 * theirs, f"{name}: {(ours / theirs) ** 0.5:.3f}"


@pytest.mark.gpu
@pytest.mark.parametrize("H", [769, 4096, 9000, 20001])
def test_on_a_gpu_both_passes_can_be_captured_in_a_graph_and_replayed(H):
    *leaves, dy = operands(33, H, torch.bfloat16, "cuda")
    results_of(*leaves, dy)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = results_of(*leaves, dy)
    with torch.no_grad():
        leaves[0].mul_(2).add_(1)
    graph.replay()
    torch.cuda.synchronize()
    for name, tensor in results_of(*leaves, dy).items():
        assert torch.equal(tensor, results[name])


@pytest.mark.gpu
def test_on_gpus_the_kernels_run_where_the_tensors_are():
    for index in range(torch.cuda.device_count()):
        inputs = operands(33, 769, device=f"cuda:{index}")
        results = results_of(*inputs)
        assert {tensor.device.index for tensor in results.values()} == {index}
        assert_right(results, *inputs)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # Inductor's
def test_on_a_gpu_a_compiled_call_is_right_for_any_number_of_rows_and_compiled_once():
    @torch.compile(fullgraph=True, dynamic=True)
    def compiled(x, weight, bias):
        return lnlib.layer_norm(x, (769,), weight, bias, backend="triton")

    with torch._dynamo.config.patch(error_on_recompile=True):
        for B in (3, 2, 33, 4096):
            *leaves, dy = operands(B, 769, device="cuda")
            y = compiled(*leaves)
            results = y.detach(), *torch.autograd.grad(y, leaves, dy)
            names = "y", "dx", "dweight", "dbias"
            assert_right(dict(zip(names, results, strict=True)), *leaves, dy)


@pytest.mark.gpu
def test_on_a_gpu_the_number_of_rows_compiles_no_kernel_anew(monkeypatch):
    knobs = runtime.triton_for(torch.device("cuda")).knobs.runtime
    results_of(*operands(2, 769, torch.bfloat16, "cuda"))
    compiled = []
    monkeypatch.setattr(knobs, "jit_post_compile_hook", lambda **known: compiled.append(known))
    for B in (1, 3, 16, 33, 4096, 65537):
        results_of(*operands(B, 769, torch.bfloat16, "cuda"))
    assert compiled == []


@pytest.mark.gpu
def test_on_a_gpu_autocast_widens_as_pytorch_does():
    *leaves, _ = operands(5, 769, torch.float16, "cuda")
    with torch.autocast("cuda"):
        ours, theirs = (
            lnlib.layer_norm(leaves[0], (769,), *leaves[1:], backend=backend)
            for backend in ("triton", "torch")
        )
    assert ours.dtype == theirs.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.gpu
def test_on_a_gpu_auto_means_these_kernels():
    x = rand(3, 7).cuda().requires_grad_()
    assert lnlib.layer_norm(x, (7,)).grad_fn.passes is triton_kernel.PASSES


# What a review found


@pytest.mark.parametrize("spread", [1e-3, 1e-2])
def test_a_long_row_that_begins_with_padding_keeps_its_digits(spread):
    """Of a row measured from its own beginning, the rest would be eight standard deviations."""
    x = torch.zeros(2, 150_000)
    x[:, 4096:] = 1 + spread * torch.randn(2, 150_000 - 4096, generator=torch.Generator())
    truth = formula.layer_norm(x)
    error, theirs = (
        (y.double() - truth).square().mean().sqrt()
        for y in (layer_norm(x, (150_000,)), F.layer_norm(x, (150_000,)))
    )
    assert error <= NEVER_ABOVE * theirs


@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_a_huge_constant_row_has_no_gradient_and_no_nan(eps, path):
    x = torch.full((3, 13), 3e36, requires_grad=True)
    weight, dy = rand(13), rand(3, 13, seed=1)
    (dx,) = torch.autograd.grad(layer_norm(x, (13,), weight, eps=eps), x, dy)
    constant = torch.zeros(3, 13, dtype=torch.float64, requires_grad=True)
    y = formula.layer_norm(constant, weight.double(), eps=eps)
    (expected,) = torch.autograd.grad(y, constant, dy.double())
    torch.testing.assert_close(dx.double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [math.inf, 1e39, 3e38])
def test_an_eps_beyond_float32_leaves_nothing_of_the_row(dtype, eps):
    y = layer_norm(rand(3, 7).to(dtype), (7,), eps=eps)
    torch.testing.assert_close(y, torch.zeros(3, 7, dtype=dtype), rtol=0, atol=1e-18)


def test_one_row_is_launched_alike_whatever_its_stride():
    row = rand(8, 1).t()
    assert row.stride() == (1, 1)
    assert launch._layout(row) == launch._layout(row.contiguous()) == (8, 1, 4, True)


@pytest.mark.parametrize("H", [6, 8])
def test_two_rows_are_read_from_where_they_are(H):
    x = rand(2, 13)[:, :H]  # 13 apart: not aligned, though H is
    torch.testing.assert_close(
        layer_norm(x, (H,)).double(), formula.layer_norm(x), rtol=0, atol=2e-6
    )


def test_threads_may_use_the_interpreter_at_the_same_time():
    x = [3 + rand(40, 13, seed=seed) for seed in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(lambda rows: layer_norm(rows, (13,)), x * 4))
    finally:
        sys.setswitchinterval(before)
    for rows, y in zip(x * 4, results, strict=True):
        torch.testing.assert_close(y.double(), formula.layer_norm(rows), rtol=0, atol=2e-6)
