"""A row whose squares overflow in the arithmetic is NaN by every path; its neighbors are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiled import NEEDS_CPP
from norms import NEEDS_TRITON, Norm, both_passes, by, mapped, rand, scripting
from random_programs import Watch
from tiers import few
from torch import Tensor

import lnlib
from lnlib import in_graph


def watched(*given: Any) -> Tensor:
    with Watch():
        return lnlib.layer_norm(*given)


def compiled(compiler: str) -> Norm:
    # As late as it is called: to load Inductor takes seconds.
    return lambda *given: torch.compile(lnlib.layer_norm, backend=compiler)(*given)


def operator(backend: str) -> Norm:
    return lambda *given: in_graph.layer_norm(*given, backend)


PATHS = {
    **{name: by(name) for name in ("auto", "reference", "triton")},
    "watched": watched,
    "mapped": mapped,
    "compiled": compiled("eager"),
    "compiled by Inductor": compiled("inductor"),
    "operator of cpp": operator("cpp"),
    "operator of triton": operator("triton"),
}
MARKS = {"operator of cpp": NEEDS_CPP, "triton": NEEDS_TRITON, "operator of triton": NEEDS_TRITON}
pytestmark = scripting
# Rows that these types hold, and float32 and float64 not their squares.
TOO_LARGE = {torch.bfloat16: [1e20, -1e20, 1e38], torch.float64: [1e155, -1e155, 1e307]}


def case(H: int, dtype: torch.dtype) -> list[Tensor]:
    """Return x, in which no number is near 0, nor a row without spread, weight, bias and dy."""
    x = rand(3, H).abs().clamp(max=1) + 1
    x[:, ::2] *= -1
    return [t.to(dtype) for t in (x, rand(H, seed=1), rand(H, seed=2), rand(3, H, seed=3))]


@pytest.mark.parametrize("path", [pytest.param(name, marks=MARKS.get(name, ())) for name in PATHS])
@few("H", [2, 4, 8, 13, 16, 77, 768, 8200], [4, 8200])  # PyTorch's NaN depends on it
def test_the_row_is_nan_and_the_others_are_as_without_it(path, H):
    if path == "compiled by Inductor" and (H not in (4, 77) or " " in torch.__file__):
        return  # it takes seconds, knows nothing of lengths, and links nothing below a blank
    for dtype, scales in TOO_LARGE.items():
        x, *others = case(H, dtype)
        row, largest = x[1].double(), torch.finfo(dtype).max / 4
        clean = both_passes(PATHS[path], x, *others)
        for scale in scales:
            x[1] = (row * scale).clamp(-largest, largest)
            found = both_passes(PATHS[path], x, *others)
            for name in ("y", "x"):
                assert found[name][1].isnan().all(), (dtype, scale)
                assert torch.equal(found[name][::2], clean[name][::2]), (dtype, scale)


@pytest.mark.parametrize("backend", ["auto", "reference", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [3, 150])  # below and above those that C++ cuts into chunks
def test_a_sum_over_the_rows_that_overflows_is_infinite_and_the_others_are_as_ever(
    backend, dtype, rows
):
    x, dy = rand(rows, 4).to(dtype), torch.ones(rows, 4, dtype=dtype)
    dy[:, 1] = torch.finfo(dtype).max
    found = both_passes(by(backend), x, torch.ones(4, dtype=dtype), torch.zeros(4, dtype=dtype), dy)
    assert found["bias"].tolist() == [rows, float("inf"), rows, rows]


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_an_infinite_eps_is_no_overflow(backend):
    x, weight, bias, _ = case(8, torch.bfloat16)
    y = lnlib.layer_norm(x, (8,), weight, bias, float("inf"), backend=backend)
    assert torch.equal(y, bias.expand(3, 8))
