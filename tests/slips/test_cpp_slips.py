"""A slip in the C++ is noticed: each is made in a copy, compiled, and must give wrong numbers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from compiled import NEEDS_CPP, NEEDS_GPP, compiled_anew
from torch import Tensor

from lnlib import cpp_kernel, formula

pytestmark = [pytest.mark.tier("weekly"), NEEDS_CPP, NEEDS_GPP]

FLOAT, BFLOAT16, FLOAT16 = torch.float32, torch.bfloat16, torch.float16
# Half a unit in the last place, and what sums in the type of the arithmetic lose, of the largest.
ROOM = {FLOAT: (2**-24, 1e-12), BFLOAT16: (2**-8, 2**-20), FLOAT16: (2**-11, 2**-20)}
# Four rows at once and two apart; many, in chunks; a long one, in spans. None ends with a vector.
SHAPES = {"few": (6, 85), "many": (70, 37), "wide": (4, 16411), "long": (1, 2**18 + 3)}


class Slip(NamedTuple):
    """What is written instead of what, and where it shows."""

    right: str
    wrong: str
    shape: str
    dtype: torch.dtype = FLOAT


SLIPS = {
    "a square is left out": Slip("of_squares[r][k] += d * d;", "of_squares[r][k] += d;", "few"),
    "lanes beyond a row's end count": Slip("if (n < LANES) d = first(n, d);", "", "few"),
    "the rest of a row is left out": Slip("if (i < end) body(i, 0, int(end - i));", "", "few"),
    "half of the lanes are added up": Slip("(halves[0] + halves[1])", "(halves[0])", "long"),
    "a row is measured from another": Slip("(x[r * H]);", "(x[0]) + 1e6 * r;", "few"),
    "eps is added to the root": Slip("std::sqrt(var + eps)", "(std::sqrt(var) + eps)", "few"),
    "the shift is forgotten": Slip("all(-s[r].shift * s[r].rstd)", "all(0)", "few"),
    "dx lacks the mean of g": Slip("all(row[r].first - s[r].shift", "all(-s[r].shift", "few"),
    "a sign in dx": Slip("(g - (deviation", "(g + (deviation", "few"),
    "sums of two rows change places": Slip("sum<U>(of_g[r])", "sum<U>(of_g[R - 1 - r])", "many"),
    "the last row of a chunk": Slip("(chunk + 1) * rows)", "(chunk + 1) * rows - 1)", "many"),
    "a chunk adds to what was there": Slip(
        "std::fill_n(columns.at, Columns::NUMBERS * stride, 0.0);", "", "many"
    ),
    "a chunk is not added": Slip("join(sums(chunk).at", "join(sums(0).at", "many"),
    "dweight and dbias are one": Slip("at + NUMBERS / 2 * stride", "at", "many"),
    "the last rows are left out": Slip("block < B; block +=", "block < B - ROWS; block +=", "few"),
    "what is kept is another row's": Slip(
        "kept[i / LANES * R + r] = {g,", "kept[i / LANES * R + (r ^ 1)] = {g,", "many"
    ),
    "four rows of a few share statistics": Slip("s[r] = of(row + r);", "s[r] = of(row);", "few"),
    "a span of the gradient is left out": Slip("(row + 1) * spans;", "spans - 1;", "long"),
    "halves are cut off": Slip("(bits + 0x7fff + (bits >> 16 & 1)) >>", "bits >>", "few", BFLOAT16),
    "ties go up": Slip("0x7fff + (bits >> 16 & 1)", "0x8000", "few", BFLOAT16),
    "a half is measured once": Slip("HALF || DOUBLE ? 2 : 1", "1", "wide", FLOAT16),
}


def run_anew(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    right: str = "",
    wrong: str = "",
) -> None:
    """Have `cpp_kernel` run a copy of its C++ in which ``wrong`` stands for ``right``."""
    source = f"lnlib/cpp_kernel/{cpp_kernel.NUMBERS[dtype]}.cpp"
    kernel = cpp_kernel.bound(compiled_anew(folder, source, right, wrong), dtype)
    monkeypatch.setitem(cpp_kernel.KERNELS, dtype, kernel)


def worst(shape: tuple[int, int], dtype: torch.dtype) -> float:
    """Return the largest error of y, dx, dweight and dbias, as a part of what rounding explains."""
    generator = torch.Generator().manual_seed(0)

    def random(*size: int) -> Tensor:
        return torch.randn(size, generator=generator)

    B, H = shape
    x, dy = ((3 + 2 * random(B, H)).to(dtype), random(B, H).to(dtype))
    if shape == SHAPES["wide"]:
        x[:, 0] = -3000  # as far as it may be from where the others are
    weight, bias, eps = 1 + random(H) / 4, random(H), 0.5
    weight[0], bias[0] = (
        0,
        1 + ROOM[dtype][0],
    )  # in the midst between two numbers; 1 is the even one
    y, kept = cpp_kernel.PASSES.forward(x, weight, bias, eps)
    for _ in range(3):  # the memory for sums is then what an earlier pass has left
        grads = cpp_kernel.PASSES.backward(dy, x, weight, kept, (dtype, FLOAT, FLOAT))
    at = [t.double().requires_grad_() for t in (x, weight, bias)]
    true = formula.layer_norm(*at, eps=eps)
    unit, rest = ROOM[dtype]
    found = 0.0 if y[0, 0] == 1 or dtype == FLOAT else float("inf")
    for mine, right in zip(
        (y, *grads), (true, *torch.autograd.grad(true, at, dy.double())), strict=True
    ):
        room = unit * right.abs() + rest * right.abs().max()
        found = max(
            found, ((mine.double() - right).abs() / room).max().nan_to_num(float("inf")).item()
        )
    return found


@pytest.mark.parametrize("dtype", ROOM, ids=str)
def test_without_a_slip_all_is_right(dtype, tmp_path, monkeypatch):
    run_anew(tmp_path, monkeypatch, dtype)
    for shape in SHAPES.values():
        assert worst(shape, dtype) <= 1, shape


@pytest.mark.parametrize("name", SLIPS)
def test_a_slip_is_noticed(name, tmp_path, monkeypatch):
    right, wrong, shape, dtype = SLIPS[name]
    run_anew(tmp_path, monkeypatch, dtype, right, wrong)
    assert worst(SHAPES[shape], dtype) > 1
