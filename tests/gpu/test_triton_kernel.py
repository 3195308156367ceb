"""The Triton kernels: right at any size, in any layout and type, and a row in any batch alike.

On a machine with a GPU they are compiled and take many rows, elsewhere they are interpreted and
take few. The interpreter runs one program after another, in NumPy. It truncates to bfloat16 where a
GPU rounds, and rounds a product before it is added, which costs accuracy here. What a compiler
decides is read in `test_triton_compiled`: how wide a load is, how a root is rounded, registers. In
which order a GPU adds up a tile, and so its bits, is seen on a GPU alone.
"""

import functools
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tiers import few
from torch import Tensor

import lnlib
from lnlib import formula
from lnlib.triton_kernel import PASSES, launch, runtime, tiles
from lnlib.triton_kernel.tiles import Tile

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"

pytestmark = [
    pytest.mark.skipif(runtime.why_not() is not None, reason="Triton is not installed"),
    pytest.mark.usefixtures("memory_that_nobody_wrote_is_nan"),
    *[pytest.mark.gpu] * HAS_GPU,  # so that `pytest -m gpu` there runs all of them
]
F16, BF16, F32, F64 = FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NAMES = ("y", "dx", "dweight", "dbias")

# What an error is allowed, as a share of the terms that the true value is the sum of.
ARITHMETIC = {
    F32: 1e-6,  # sixteen roundings, 6e-8 each: a dozen one after the other, and sums
    F64: 4e-15,  # the same, 1e-16 each, and as many in the formula
}
# What the last rounding, to the type of the result, may add: half a unit in the last place.
ROUNDING = {F16: 2**-11, BF16: 2**-8, F32: 2**-24, F64: 2**-53}
SMALLEST = {F16: 2**-24}  # its subnormal numbers have that unit, whatever their size

interpreted = pytest.mark.skipif(HAS_GPU, reason="it is about the interpreter")
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


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Send rows of 13 features along every path, in several tiles, programs and steps."""
    for name in ("_forward", "_backward"):  # which keep what they have chosen
        monkeypatch.setattr(launch, name, getattr(launch, name).__wrapped__)
    if request.param != "as is":
        chosen = {"forward": Tile(2, 16, 4), "backward": Tile(2, 16, 4), "partials": Tile(2, 4, 4)}
        if request.param == "long rows":
            long = {"long": Tile(1, 4, 4), "columns": Tile(4, 4, 4)}
            chosen |= {"forward": None, "backward": None, **long}
        for name, tile in chosen.items():
            monkeypatch.setattr(tiles, name, lambda *_, tile=tile: tile)
        monkeypatch.setattr(runtime, "multiprocessors", lambda *_: 3)
    return request.param


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = F32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=F64).to(dtype)


def operands(
    B: int, H: int, dtype: torch.dtype = F32, mean: float = 3.0, device: str = DEVICE
) -> list[Tensor]:
    """Return x, weight, bias and dy, the first three requiring their gradients.

    Of several rows, the first is far from zero, and the last is one number.
    """
    x = mean + rand(B, H, dtype=F64)
    if B > 2 and mean:
        x[0] += 1e4 if dtype == F16 else 1e5
        x[-1] = x[-1, 0]
    x = x.to(dtype)
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
    grads = torch.autograd.grad(y, list(asked.values()), dy.reshape(y.shape)) if asked else ()
    return {"y": y.detach(), **dict(zip(asked, grads, strict=True))}


def truth_of(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, dy: Tensor, eps: float = 1e-5
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return y and each gradient in float64, and the size of the terms that each is the sum of."""
    H = x.shape[-1]
    x, dy = x.detach().double().reshape(-1, H), dy.double().reshape(-1, H)
    x = x - x[:, :1]  # far from 0, or constant, the truth itself would lose digits
    weight = torch.ones_like(x[:1].sum(0)) if weight is None else weight.detach().double()
    bias = torch.zeros_like(weight) if bias is None else bias.detach().double()
    leaves = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    terms = formula.terms(*leaves, eps=eps)
    grads = torch.autograd.grad(terms.y, leaves, dy)
    x_hat, g = terms.x_hat.detach().abs(), (weight * dy).detach().abs()
    spread = g + g.mean(-1, keepdim=True) + x_hat * (g * x_hat).mean(-1, keepdim=True)
    sizes = (
        (1 + x_hat) * weight.detach().abs() + bias.detach().abs(),
        terms.rstd.detach() * spread,
        (dy.abs() * (1 + x_hat)).sum(0),
        dy.abs().sum(0),
    )
    true = terms.y.detach(), *grads
    return dict(zip(NAMES, zip(true, sizes, strict=True), strict=True))


def assert_right(
    results: dict[str, Tensor],
    *inputs: Tensor | None,
    eps: float = 1e-5,
    truncates: bool = not HAS_GPU,
) -> None:
    """Hold ``results`` to the truth about ``inputs``: x, weight, bias and dy.

    What ``truncates`` to bfloat16 may be off by a whole unit: the interpreter, but no GPU.
    """
    truth = truth_of(*inputs, eps=eps)
    arithmetic = ARITHMETIC[torch.promote_types(inputs[0].dtype, F32)]
    for name, actual in results.items():
        true, size = truth[name]
        whole = truncates and actual.dtype == BF16
        last = ROUNDING[actual.dtype] * (2 if whole else 1) * true.abs()
        allowed = arithmetic * size + last + SMALLEST.get(actual.dtype, 0.0)
        error = (actual.double().reshape(true.shape) - true).abs()
        assert (error <= allowed).all(), f"{name}: {(error / allowed).max():.3g} × what is allowed"


# Sizes: next to powers of two and far from them; held whole, and tile by tile. Each length has one
# type in turn, and some of each kind of tile have all.

LENGTHS = [1, 2, 3, 5, 7, 31, 33, 64, 127, 229, 255, 257, 541, 768, 769, 1000, 1023, 1025, 4095]
LENGTHS += [8191, 8192, 8193, 16384, 16385, 20001]
ALL_TYPES = [7, 64, 769]
if HAS_GPU:  # for which the interpreter takes seconds or minutes
    LENGTHS += [65536, 66679, 131072, 262144]
    ALL_TYPES += [4096, 9000, 20001]
SIZES = [(H, FLOATS[k % 4]) for k, H in enumerate(LENGTHS)]
SIZES += [each for each in itertools.product(ALL_TYPES, FLOATS) if each not in SIZES]


@few("H, dtype", SIZES, 14)
def test_y_and_every_gradient_are_right_at_every_length_of_a_row(H, dtype):
    inputs = operands(37 if H <= 257 or HAS_GPU else 5 if H <= 1025 else 2, H, dtype)
    results = results_of(*inputs)
    assert [tensor.dtype for tensor in results.values()] == [dtype] * 4
    assert_right(results, *inputs)


@few("B", [0, 1, 2, 3, 31, 33, 127, 256, 257, 1151, 2600, *((65537, 100_000) * HAS_GPU)], 5)
def test_any_number_of_rows_is_summed_whoever_owns_them(B):
    inputs = operands(B, 7)
    assert_right(results_of(*inputs), *inputs)


@few("dtype", FLOATS, [BF16, F32])
@pytest.mark.parametrize(("B", "H"), [(1, 13), (9, 13), (3, 12)])
def test_every_path_gives_the_same_right_results(B, H, dtype, path):
    inputs = operands(B, H, dtype)
    assert_right(results_of(*inputs), *inputs)


# Accuracy


def test_float64_rows_far_from_zero_keep_every_digit(path):
    near = operands(5, 13, F64, mean=0.0)
    with torch.no_grad():
        near[0].copy_((near[0] * 2**20).round() / 2**20)  # so that adding 2³⁰ rounds nothing
    far = [(near[0].detach() + 2**30).requires_grad_(), *near[1:]]
    assert_right(results_of(*far), *near)


def test_a_long_row_that_begins_with_padding_keeps_its_digits():
    """Of a row measured from its own beginning, the rest would be eight standard deviations."""
    x = torch.zeros(2, 150_000, device=DEVICE)
    x[:, 4096:] = 1 + 1e-3 * rand(2, 150_000 - 4096).to(DEVICE)
    assert_right({"y": layer_norm(x, (150_000,))}, x, None, None, x)


# Exactness


@every_kernel
@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_a_constant_row_gives_exactly_the_bias(dtype, path):
    weight, bias = (rand(13, seed=seed, dtype=dtype).to(DEVICE) for seed in (1, 2))
    for value in (-0.0, 1 / 3, torch.finfo(dtype).max):  # whose sum over a row would overflow
        x = torch.full((3, 13), value, dtype=dtype, device=DEVICE)
        for eps in (1e-5, 1e-12):
            assert torch.equal(layer_norm(x, (13,), weight, bias, eps), bias.expand(3, 13))
            assert torch.equal(layer_norm(x, (13,), None, None, eps), torch.zeros_like(x))


@pytest.mark.parametrize(("value", "eps"), [(1 / 3, 1e-5), (3e36, 1e-12)])
def test_the_gradient_of_a_constant_row_is_dy_less_its_mean_over_the_root_of_eps(value, eps, path):
    x, weight, bias, dy = operands(5, 13)
    with torch.no_grad():
        x[1] = value
    results = results_of(x, weight, bias, dy, eps)
    g = (weight * dy)[1].detach().double()
    expected = (g - g.mean()) / math.sqrt(eps)
    # Three float32 roundings of what is divided by the root.
    atol = 3e-7 / math.sqrt(eps)
    torch.testing.assert_close(results["dx"][1].double(), expected, rtol=1e-6, atol=atol)
    others = [0, 2, 3, 4]
    inputs = x[others], weight, bias, dy[others]
    assert_right({"dweight": results["dweight"]}, *inputs, eps=eps)


@every_kernel
@pytest.mark.parametrize("dtype", [F32, F64])
def test_eps_counts_with_all_its_digits(dtype, path):
    for eps in (1e-12, 0.1, 0.5):
        inputs = operands(3, 13, dtype, mean=0.0)
        with torch.no_grad():
            inputs[0].mul_(math.sqrt(eps))  # so that it matters
        assert_right(results_of(*inputs, eps=eps), *inputs, eps=eps)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_an_eps_beyond_float32_leaves_nothing_of_the_row(dtype):
    for eps in (math.inf, 1e39, 3e38):
        y = layer_norm(rand(3, 7, dtype=dtype).to(DEVICE), (7,), eps=eps)
        torch.testing.assert_close(y, torch.zeros_like(y), rtol=0, atol=1e-18)


@pytest.mark.parametrize(("dtype", "scale"), [(F16, 6e4), (BF16, 1e17), (F32, 1e17), (F32, 1e-17)])
def test_values_whose_squares_float32_can_hold_neither_overflow_nor_vanish(dtype, scale):
    signs = torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0]], device=DEVICE)
    y = layer_norm((scale * signs).to(dtype), (7,), eps=0.0)
    assert_right({"y": y}, signs.to(dtype), None, None, signs, eps=0.0)


SPOILED: dict[str, Callable[[Tensor], Tensor]] = {
    "squares overflow": lambda row: row.mul_(1e20),
    "begins with inf": lambda row: row[:1].fill_(math.inf),
    "has -inf": lambda row: row[5:6].fill_(-math.inf),
    "ends in NaN": lambda row: row[-1:].fill_(math.nan),
    "neither spread nor eps": lambda row: row.fill_(1 / 3),
}


@every_kernel
@pytest.mark.parametrize("spoil", SPOILED)
def test_a_row_without_a_finite_norm_is_nan_and_the_others_are_as_before(spoil, path):
    x, weight, bias, dy = operands(5, 13, mean=0.0)
    clean = results_of(x, weight, bias, dy, eps=0.0)
    assert_right(clean, x, weight, bias, dy, eps=0.0)
    with torch.no_grad():
        SPOILED[spoil](x[2])
    results = results_of(x, weight, bias, dy, eps=0.0)
    others = [0, 1, 3, 4]
    for name in ("y", "dx"):
        assert results[name][2].isnan().all()
        assert torch.equal(results[name][others], clean[name][others])
    assert torch.equal(results["dbias"], clean["dbias"])


# A row is a row: alone or among others, now or later, and whatever else is asked for


def test_a_row_has_the_same_bits_again_alone_and_in_any_batch(path):
    x, weight, bias, dy = inputs = operands(9, 13)
    together, again = results_of(*inputs), results_of(*inputs)
    for name, tensor in together.items():
        assert torch.equal(again[name], tensor), name
    for rows in ([8], [4, 0], [7, 8, 4]):
        part = results_of(x[rows].detach().requires_grad_(), weight, bias, dy[rows])
        for name in ("y", "dx"):
            assert torch.equal(part[name], together[name][rows]), name


@interpreted
def test_programs_in_any_order_give_the_same_bits(path, monkeypatch):
    """So no two write to one place, and none reads what another writes."""

    def backwards(*bounds):
        return range(*bounds)[::-1] if len(bounds) == 1 else range(*bounds)

    inputs = operands(9, 13)
    expected = results_of(*inputs)
    interpreter = runtime.triton_for(torch.device("cpu")).runtime.interpreter
    monkeypatch.setattr(interpreter, "range", backwards, raising=False)
    for name, tensor in results_of(*inputs).items():
        assert torch.equal(tensor, expected[name]), name


# Operands: each parameter there or not, of any type; any layout; read and left alone


@pytest.mark.parametrize("dtype", FLOATS)
def test_each_parameter_may_be_missing_or_have_a_type_of_its_own(dtype):
    others = [None, *FLOATS]
    for k, pair in enumerate(zip(others, others[3:] + others[:3], strict=True)):
        x, *parameters, dy = operands(5, 13, dtype)
        weight, bias = (
            None if own is None else parameter.detach().to(own).requires_grad_()
            for parameter, own in zip(parameters, pair[:: 1 - k % 2 * 2], strict=True)
        )
        results = results_of(x, weight, bias, dy)
        given = {"y": x, "dx": x, "dweight": weight, "dbias": bias}
        assert {name: result.dtype for name, result in results.items()} == {
            name: tensor.dtype for name, tensor in given.items() if tensor is not None
        }
        assert_right(results, x, weight, bias, dy)


def test_no_kernel_computes_what_nobody_needs(path):
    x, weight, bias, dy = (tensor.detach() for tensor in operands(9, 13))
    _, statistics = PASSES.forward(x, weight, bias, 1e-5)
    for needs in itertools.product((True, False), repeat=3):
        dtypes = [F32 if need else None for need in needs]
        grads = PASSES.backward(dy, x, weight, statistics, dtypes)
        assert tuple(grad is not None for grad in grads) == needs
        named = zip(NAMES[1:], grads, strict=True)
        assert_right({n: grad for n, grad in named if grad is not None}, x, weight, bias, dy)


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


def laid_out(layout: str, seed: int = 0) -> Tensor:
    return LAYOUTS[layout](lambda *shape: rand(*shape, seed=seed).to(DEVICE))


@every_kernel
@few("layout", LAYOUTS, 4)
def test_x_and_dy_may_have_any_strides(layout, path):
    names = list(LAYOUTS)
    other = names[(names.index(layout) + 4) % len(names)]
    x, dy = laid_out(layout).requires_grad_(), laid_out(other, seed=3)
    _, weight, bias, _ = operands(6, 13)
    results = results_of(x, weight, bias, dy)
    assert all(tensor.is_contiguous() for tensor in results.values())
    assert_right(results, x, weight, bias, dy)


def test_a_copy_is_made_only_of_what_no_kernel_can_read_in_place():
    for layout in LAYOUTS:
        tensor = laid_out(layout)
        rows = launch.readable(tensor.reshape(6, 13))
        assert torch.equal(rows, tensor.reshape(6, 13))
        assert (rows.data_ptr() == tensor.data_ptr()) == (layout in READ_IN_PLACE), layout


def test_rows_that_mean_minus_what_memory_holds_are_read_so():
    x = torch._neg_view(rand(3, 7).to(DEVICE))  # that of a conjugate has a stride of 2
    y, _ = PASSES.forward(x, None, None, 1e-5)
    assert_right({"y": y}, x.resolve_neg(), None, None, x)


@interpreted
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


# Offsets past 2³¹ numbers. Wrong ones may end the process, so it is one of its own. The memory is
# promised by the system, 4 GiB of it, but only what is written is ever taken.

FAR_ROWS = """
import builtins, sys
import torch
from lnlib.triton_kernel import PASSES, runtime, tiles

if "long" in sys.argv:
    tiles.forward = tiles.backward = lambda *_: None
H, type = 1000, torch.bfloat16
weight = torch.linspace(-1, 1, H)
apart = 2**30 + 8  # so that the third row starts past 2**31
memory = [torch.empty(2 * apart + H, dtype=type) for _ in range(2)]
x, dy = (each.as_strided((3, H), (apart, 1)).copy_(torch.randn(3, H)) for each in memory)

y, statistics = PASSES.forward(x, weight, weight, 1e-5)
near, same = PASSES.forward(x.contiguous(), weight, weight, 1e-5)
assert torch.equal(y, near)
grads = PASSES.backward(dy, x, weight, statistics, [type] * 3)
expected = PASSES.backward(dy.contiguous(), x.contiguous(), weight, same, [type] * 3)
assert all(map(torch.equal, grads, expected))

# Many rows, all the same one, have their results far apart. Of the programs the last alone runs.
B = 2**31 // H + 100
many_x, many_dy = x[:1].expand(B, H), dy[:1].expand(B, H)
statistics = statistics[:, :1].expand(3, B).contiguous()

def the_last(*bounds):
    return builtins.range(bounds[0] - 1, bounds[0]) if len(bounds) == 1 else builtins.range(*bounds)

runtime.triton_for(torch.device("cpu")).runtime.interpreter.range = the_last
many, _ = PASSES.forward(many_x, weight, weight, 1e-5)
assert torch.equal(many[-1], y[0])
del many
many, _, _ = PASSES.backward(many_dy, many_x, weight, statistics, [type, None, None])
assert torch.equal(many[-1], grads[0][0])
print("right")
"""


@interpreted
@pytest.mark.parametrize("rows", ["whole", "long"])
def test_offsets_past_two_to_the_31_are_right(rows):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FAR_ROWS, rows],
        capture_output=True,
        text=True,
        cwd=Path(lnlib.__file__).parent.parent,
    )
    assert done.stdout == "right\n", f"exit status {done.returncode}\n{done.stderr[-2000:]}"


# What takes a GPU


EACH_KERNEL = [(5, F32), (64, F64), (769, F16), (4096, BF16), (8191, F32), (9000, BF16)]
EACH_KERNEL += [(20001, F32)]


@pytest.mark.gpu
@pytest.mark.parametrize(("H", "dtype"), EACH_KERNEL)
def test_on_a_gpu_a_row_has_the_same_bits_again_and_in_any_batch(H, dtype):
    B = min(65536, 2**28 // H)
    x, weight, bias, dy = operands(B, H, dtype)
    together = results_of(x, weight, bias, dy)
    for _ in range(5):
        for name, tensor in results_of(x, weight, bias, dy).items():
            assert torch.equal(tensor, together[name]), name
    for few_rows in (1, 2, 3, 17, 128, 1000, B - 1):
        for start in (0, B - few_rows):
            # A copy, which starts at a multiple of 16 bytes as x does.
            rows, upstream = (t.detach()[start : start + few_rows].clone() for t in (x, dy))
            part = results_of(rows.requires_grad_(), weight, bias, upstream)
            for name in ("y", "dx"):
                assert torch.equal(part[name], together[name][start : start + few_rows]), name


@pytest.mark.gpu
@pytest.mark.parametrize("H", [1000, 20001])
def test_on_a_gpu_offsets_past_two_to_the_31_are_right(H):
    B = 2**31 // H + 100
    one = operands(1, H, BF16)
    expected = results_of(*one)
    x, weight, bias, dy = (tensor.detach() for tensor in one)
    many = results_of(x.expand(B, H).requires_grad_(), weight, bias, dy.expand(B, H))
    for name in ("y", "dx"):
        for rows in many[name].split(2**28 // H):
            assert (rows == expected[name]).all()
    apart = 2**30 + 8
    base = torch.empty(2 * apart + H, dtype=BF16, device="cuda")
    x = base.as_strided((3, H), (apart, 1)).copy_(rand(3, H)).requires_grad_()
    inputs = x, weight.requires_grad_(), bias.requires_grad_(), dy.expand(3, H)
    assert_right(results_of(*inputs), *inputs)


@pytest.mark.gpu
@pytest.mark.parametrize("H", [769, 20001])
def test_on_a_gpu_both_passes_can_be_captured_in_a_graph_and_replayed(H):
    *leaves, dy = operands(33, H, BF16)
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
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # Inductor's
def test_on_a_gpu_a_compiled_call_is_right_for_any_number_of_rows_and_compiled_once():
    @torch.compile(fullgraph=True, dynamic=True)
    def compiled(x, weight, bias):
        return lnlib.layer_norm(x, (769,), weight, bias, backend="triton")

    with torch._dynamo.config.patch(error_on_recompile=True):
        for B in (3, 2, 33, 4096):
            *leaves, dy = operands(B, 769)
            y = compiled(*leaves)
            results = y.detach(), *torch.autograd.grad(y, leaves, dy)
            assert_right(dict(zip(NAMES, results, strict=True)), *leaves, dy)


@pytest.mark.gpu
def test_on_a_gpu_autocast_widens_as_pytorch_does():
    *leaves, _ = operands(5, 769, F16, mean=0.0)  # far from zero, PyTorch is off by more
    with torch.autocast("cuda"):
        ours, theirs = (
            lnlib.layer_norm(leaves[0], (769,), *leaves[1:], backend=backend)
            for backend in ("triton", "torch")
        )
    assert ours.dtype == theirs.dtype == F32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
