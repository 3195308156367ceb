"""A row whose squares overflow in the arithmetic is NaN by every path; its neighbors are not."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest
import torch
from test_modes import Watch
from tiers import few
from torch import Tensor

import lnlib
from lnlib import composed, formula, in_graph
from lnlib.cpp_kernel import why_not

NO_CPP = why_not(torch.float32, "cpu")
NEEDS_CPP = pytest.mark.skipif(NO_CPP is not None, reason=f"{NO_CPP}")
NEEDS_TRITON = pytest.mark.skipif(not find_spec("triton"), reason="no Triton here")


def watched(*given: Tensor) -> Tensor:
    with Watch():
        return lnlib.layer_norm(*given)


def compiled(compiler: str) -> Callable[..., Tensor]:
    # As late as it is called: to load Inductor takes seconds.
    return lambda *given: torch.compile(lnlib.layer_norm, backend=compiler)(*given)


def operator(backend: str) -> Callable[..., Tensor]:
    return lambda x, shape, w, b: in_graph.layer_norm(x, shape, w, b, 1e-5, backend)


def mapped(x: Tensor, shape: tuple[int, ...], w: Tensor, b: Tensor) -> Tensor:
    return torch.vmap(lambda row: lnlib.layer_norm(row, shape, w, b))(x)


PATHS = {
    "auto": lnlib.layer_norm,
    "reference": lambda *given: lnlib.layer_norm(*given, backend="reference"),
    "triton": lambda *given: lnlib.layer_norm(*given, backend="triton"),
    "watched": watched,
    "mapped": mapped,
    "composed": composed.layer_norm,
    "compiled": compiled("eager"),
    "compiled by Inductor": compiled("inductor"),
    "operator of cpp": operator("cpp"),
    "operator of triton": operator("triton"),
}
MARKS = {"operator of cpp": NEEDS_CPP, "triton": NEEDS_TRITON, "operator of triton": NEEDS_TRITON}
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # Inductor's
each_path = pytest.mark.parametrize(
    "path", [pytest.param(name, marks=MARKS.get(name, ())) for name in PATHS]
)
# Rows that these types hold, and float32 and float64 not their squares.
TOO_LARGE = {torch.bfloat16: [1e20, 1e38], torch.float64: [1e155, 1e307]}


def case(H: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(H)
    sizes = (3, H), (H,), (H,), (3, H)
    x, *rest = (torch.randn(s, generator=generator, dtype=torch.float64) for s in sizes)
    x = x.abs().clamp(max=1) + 1  # no number is near 0, nor a row without spread
    x[:, ::2] *= -1
    return [t.to(dtype) for t in (x, *rest)]


def found(path: str, x: Tensor, w: Tensor, b: Tensor, dy: Tensor) -> list[Tensor]:
    x = x.detach().requires_grad_()
    y = PATHS[path](x, x.shape[-1:], w, b)
    return [y.detach(), *torch.autograd.grad(y, x, dy)]


@each_path
@few("H", [2, 4, 8, 13, 16, 77, 768, 8200], [4, 8200])  # PyTorch's NaN depends on it
def test_the_row_is_nan_and_the_others_are_as_without_it(path, H):
    if path == "compiled by Inductor" and (H not in (4, 77) or " " in torch.__file__):
        return  # it takes seconds, knows nothing of lengths, and links nothing below a blank
    for dtype, scales in TOO_LARGE.items():
        x, *others = case(H, dtype)
        clean = found(path, x, *others)
        for scale in [*scales, -scales[0]]:
            x[1] = (case(H, dtype)[0][1].double() * scale).clamp(
                torch.finfo(dtype).min / 4, torch.finfo(dtype).max / 4
            )
            for before, after in zip(clean, found(path, x, *others), strict=True):
                assert after[1].isnan().all(), (dtype, scale)
                assert torch.equal(after[[0, 2]], before[[0, 2]]), (dtype, scale)


@pytest.mark.parametrize("path", ["auto", "reference", "watched", "mapped", "compiled"])
def test_a_path_that_computes_wider_has_the_right_answer(path):
    x, w, b, dy = case(77, torch.float32)
    x[1] *= 1e37
    at = x.double().requires_grad_()
    true = formula.layer_norm(at, w, b)
    expected = [true, *torch.autograd.grad(true, at, dy.double())]
    for actual, right in zip(found(path, x, w, b, dy), expected, strict=True):
        room = 1e-5 * right.abs().amax(1, keepdim=True)  # a row's dx is as small as x is large
        assert ((actual - right).abs() <= room).all()


def test_an_infinite_eps_is_no_overflow():
    x, w, b, _ = case(8, torch.bfloat16)
    for backend in ("auto", "reference"):
        y = lnlib.layer_norm(x, (8,), w, b, float("inf"), backend=backend)
        assert torch.equal(y, b.expand(3, 8))


@pytest.mark.parametrize(
    "backend",
    [pytest.param("cpp", marks=NEEDS_CPP), "reference", pytest.param("triton", marks=NEEDS_TRITON)],
)
@few("H", [2, 3, 4, 7, 8, 16, 33], 2)  # PyTorch's NaN depends on it, too
def test_an_lstm_does_not_hide_it_either(backend, H):
    torch.manual_seed(H)
    lstm = lnlib.LayerNormLSTM(5, H, backend=backend)
    start = torch.randn(4, 3, 5)
    clean = lstm(start)[0].detach()
    for scale in (1e20, -1e25, 1e30):
        x = start.clone()
        x[2, 1] *= scale
        x.requires_grad_()
        y, _ = lstm(x)
        assert y[2:, 1].isnan().all()
        assert torch.equal(y[:, [0, 2]], clean[:, [0, 2]])
        assert torch.equal(y[:2, 1], clean[:2, 1])
        (dx,) = torch.autograd.grad(y.sum(), x)
        assert dx[:, 1].isnan().any(-1).all()
        assert dx[:, [0, 2]].isfinite().all()
