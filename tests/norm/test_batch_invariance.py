"""What a row gets depends on nothing but the row, the parameters, eps and its own gradient."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from tiers import few
from torch import Tensor

import lnlib
from lnlib import in_graph
from lnlib.cpp_kernel import why_not
from lnlib.functional import simple_call
from lnlib.lstm import cpp as lstm_cpp

NO_CPP = why_not(torch.float32, "cpu")
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
BACKENDS = [
    "reference",
    pytest.param("cpp", marks=pytest.mark.skipif(NO_CPP is not None, reason=f"{NO_CPP}")),
    pytest.param("triton", marks=pytest.mark.skipif(not find_spec("triton"), reason="no Triton")),
]
LENGTHS = [1, 2, 3, 7, 16, 77, 137, 204, 256, 768, 1000, 1024, 2049, 4096, 5000]
LONG = [32768, 40001, 300_001]  # PyTorch's threads share a sum, and lnlib's a row
ROWS = 137  # more than C++ takes for few, in its backward pass too
SPLITS = [(0, 1), (5, 6), (3, 5), (4, 7), (130, 135), (1, 38), (6, 137)]
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def rows_of(B: int, H: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Return rows of different means and sizes, weight, bias and the gradient of y."""
    x = rand(B, H) * rand(B, 1, seed=1).exp() + 5 * rand(B, 1, seed=2)
    others = rand(H, seed=3), rand(H, seed=4), rand(B, H, seed=5)
    return x.to(dtype), *(t.to(dtype) for t in others)


def both_passes(norm: Callable[..., Tensor], x: Tensor, w: Tensor, b: Tensor, dy: Tensor) -> Any:
    x = x.detach().requires_grad_()
    y = norm(x, x.shape[-1:], w, b)
    (dx,) = torch.autograd.grad(y, x, dy)
    return y.detach(), dx


def assert_same_bits(found: Any, expected: Any, what: object) -> None:
    for name, one, other in zip(("y", "dx"), found, expected, strict=True):
        as_int = BITS[one.element_size()]
        differ = one.contiguous().view(as_int) != other.contiguous().view(as_int)
        assert not differ.any(), (name, what, differ.sum().item())


def layer_norm(backend: str) -> Callable[..., Tensor]:
    return lambda *given: lnlib.layer_norm(*given, backend=backend)


@few("dtype", FLOATS, [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_has_the_same_bits_in_any_batch_and_at_any_place(backend, dtype):
    for H in LENGTHS if backend != "triton" else (16, 77, 137):
        x, w, b, dy = rows_of(ROWS, H, dtype)
        whole = both_passes(layer_norm(backend), x, w, b, dy)
        for begin, end in SPLITS:
            part = both_passes(layer_norm(backend), x[begin:end], w, b, dy[begin:end])
            assert_same_bits(part, [t[begin:end] for t in whole], (H, begin, end))
        turned = both_passes(layer_norm(backend), x.flip(0), w, b, dy.flip(0))
        assert_same_bits([t.flip(0) for t in turned], whole, (H, "turned"))


@few("dtype", FLOATS, [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("backend", BACKENDS[:2])
@pytest.mark.parametrize("H", [1024, *LONG])
def test_a_row_has_the_same_bits_for_any_number_of_threads(backend, H, dtype):
    x, w, b, dy = rows_of(4, H, dtype)
    before = torch.get_num_threads()
    try:
        found = []
        for threads, rows in ((2, slice(4)), (1, slice(1)), (2, slice(1)), (3, slice(1))):
            torch.set_num_threads(threads)
            found.append(both_passes(layer_norm(backend), x[rows], w, b, dy[rows]))
    finally:
        torch.set_num_threads(before)
    for each in found[1:]:
        assert_same_bits(each, [t[:1] for t in found[0]], H)


def whole_and_parts(norm: Callable[..., Tensor], dtype: torch.dtype, H: int = 137) -> Any:
    x, w, b, dy = rows_of(ROWS, H, dtype)
    return [(both_passes(norm, x[i:j], w, b, dy[i:j]), slice(i, j)) for i, j in SPLITS]


def carefully(*given: Any) -> Tensor:
    """Go round the shortest way, which takes no strides."""
    x, shape, *others = given
    return lnlib.layer_norm(x.repeat_interleave(2, -1)[..., ::2], shape, *others, backend="cpp")


def at_an_odd_address(*given: Any) -> Tensor:
    """Have x at an address that is no multiple of 16 bytes."""
    x, *others = given
    moved = torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
    return lnlib.layer_norm(moved, *others, backend="cpp")


def by_an_operator(*given: Any) -> Tensor:
    x, shape, *others = given
    return in_graph.layer_norm(x, shape, *others, eps=1e-5, backend="cpp")


@pytest.mark.skipif(NO_CPP is not None, reason=f"{NO_CPP}")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("way", [carefully, at_an_odd_address, by_an_operator])
def test_every_way_in_leads_to_the_same_bits(way, dtype):
    x, w, b, dy = rows_of(ROWS, 137, dtype)
    whole = both_passes(layer_norm("auto"), x, w, b, dy)
    assert simple_call(x, (137,), w, b, 1e-5) is not None  # so "auto" took the short way
    for part, rows in whole_and_parts(way, dtype):
        assert_same_bits(part, [t[rows] for t in whole], rows)


@pytest.mark.skipif(NO_CPP is not None, reason=f"{NO_CPP}")
def test_what_is_kept_of_a_row_is_as_batch_invariant_as_the_row():
    for dtype in FLOATS:
        for H in LENGTHS:
            x, w, b, _ = rows_of(ROWS, H, dtype)
            whole = in_graph._forward(x, w, b, 1e-5, "cpp")[1]
            for begin, end in SPLITS:
                part = in_graph._forward(x[begin:end], w, b, 1e-5, "cpp")[1]
                assert torch.equal(part, whole[:, begin:end]), (dtype, H, begin, end)


# The LSTM, where C++ goes through it


@pytest.mark.skipif(
    lstm_cpp.why_not(torch.float32, "cpu") is not None, reason="no C++ for the LSTM here"
)
@pytest.mark.parametrize(
    ("B", "T", "input_size", "H"),
    [(9, 1, 5, 7), (9, 2, 16, 16), (70, 3, 28, 33), (9, 1, 300, 260), (5, 30, 1, 128)],
)
def test_a_sequence_has_the_same_bits_in_any_batch(B, T, input_size, H):
    torch.manual_seed(0)
    lstm = lnlib.LayerNormLSTM(input_size, H, batch_first=True)
    cell = lnlib.LayerNormLSTMCell(input_size, H)
    x, dy = rand(B, T, input_size).float(), rand(B, T, H, seed=1).float()

    def run(rows: slice) -> tuple[Tensor, ...]:
        given = x[rows].detach().requires_grad_()
        y, (_, c) = lstm(given)
        (dx,) = torch.autograd.grad(y, given, dy[rows])
        with torch.no_grad():
            return y, c[0], dx, lstm(given)[0], *cell(given[:, 0])

    whole = run(slice(B))
    for begin, size in [(0, 1), (B - 1, 1), (1, 2), (2, 3), (1, 4), (0, B - 1)]:
        for number, (part, all_rows) in enumerate(
            zip(run(slice(begin, begin + size)), whole, strict=True)
        ):
            assert torch.equal(part, all_rows[begin : begin + size]), (number, begin, size)
