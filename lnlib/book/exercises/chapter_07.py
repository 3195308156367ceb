"""Chapter 07: kernels."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise, Search, Verdict
from lnlib.book.exercises.inputs import normal

count_bytes = Exercise(
    "bytes an element for a sum and its norm, in one kernel and in two",
    truth=[8.0, 10.0],
    slips={
        "count bytes, not numbers: each bfloat16 has two": [4, 5],
        "h is needed later, so one kernel writes h as well as y": [6, 10],
        "the second of the two kernels has to read h again": [8, 8],
        "the sum reads two tensors, x and r": [6, 8],
        "one kernel keeps h in its registers: it need not read it back": [10, 10],
    },
    ask="answer with two numbers: one kernel, two kernels",
    why="One kernel reads x and r and writes h and y, and two kernels have to read h once more.",
)

masked_lanes = Exercise(
    "what a masked lane must hold in a sum, a product, a maximum, a minimum",
    truth=[0.0, 1.0, -inf, inf],
    slips={
        "a product with 0 in it is 0, and the largest of negative numbers is not 0": [0, 0, 0, 0],
        "0 is right in the sum and 1 in the product; the largest of negative numbers is not 0": [
            *(0, 1, 0, 0),
        ],
        "a maximum ignores what is smaller than all, a minimum what is larger": [0, 1, inf, -inf],
        "1 is neutral in a product; what leaves a sum as it is?": [1, 1, -inf, inf],
        "a large number is not larger than all: a maximum of −2e9 and −3e9 would be −1e9": [
            *(0, 1, -1e9, 1e9),
        ],
        "a NaN spoils all of them": [nan, nan, nan, nan],
    },
    ask='answer with four numbers; float("inf") is one',
    why="Each of them is neutral: together with any other number it leaves that number as it is.",
)


class KernelExercise(Exercise):
    """An `Exercise` whose answer is a kernel; truth and slips are functions of its input tensors.

    The kernel gets ``(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H)`` and one program for each row of
    x, with ``BLOCK_H`` the next power of 2. After the last row of x come zeros, and after that of
    y cells that nobody may write to.
    """

    def verdict(self, answer: object) -> Verdict:
        """Judge ``answer`` without printing."""
        if callable(answer) and not _is_kernel(answer):
            message = "a kernel is asked for: put @triton.jit before the function"
            return Verdict(False, f"not yet: {message}")
        return super().verdict(answer)

    def _function(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        return _launcher(answer) if _is_kernel(answer) else answer


def _is_kernel(answer: object) -> bool:
    return hasattr(answer, "run") and hasattr(answer, "__getitem__")


def _launcher(kernel: Any) -> Callable[[Tensor, Tensor, float], Tensor]:
    def launch(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        B, H = x.shape
        memory = torch.full((x.numel() + _BEYOND,), nan)
        y = memory[: x.numel()].view(B, H)
        kernel[(B,)](_zeros_after(x), weight, y, H, eps, BLOCK_H=_block(H))
        if not memory[x.numel() :].isnan().all():
            raise IndexError("it writes beyond the last row of y; mask the store")
        if y.isnan().all():
            raise NotImplementedError
        return y

    return launch


_BEYOND = 64


def _block(H: int) -> int:
    return 1 << (H - 1).bit_length()


def _zeros_after(x: Tensor) -> Tensor:
    """Return x as one row of memory that goes on with zeros: to read on there does no harm."""
    return torch.cat([x.flatten(), x.new_zeros(_BEYOND)])


def _rows() -> list[tuple[Tensor, Tensor, float]]:
    shapes = (3, 5), (4, 13)
    return [
        (0.5 + normal(B, H, seed=B).float(), normal(H, seed=H).float(), eps)
        for (B, H), eps in zip(shapes, (1e-5, 0.3), strict=True)
    ]


def _lanes(x: Tensor) -> Tensor:
    """Return what a program per row reads that forgets the mask."""
    B, H = x.shape
    return torch.as_strided(_zeros_after(x), (B, _block(H)), (H, 1))


def _rms(x: Tensor, weight: Tensor, eps: float, squares: Tensor | None = None) -> Tensor:
    mean_square = (x * x).mean(1) if squares is None else squares
    return x / (mean_square + eps).sqrt()[:, None] * weight


rms_norm = KernelExercise(
    "RMS norm, a program for each row",
    truth=lambda x, weight, eps: formula.layer_norm(x, weight, eps=eps, center=False),
    inputs=_rows(),
    slips={
        "RMS norm takes no mean off": lambda x, w, eps: formula.layer_norm(x, w, eps=eps),
        "divide the sum by H, not by BLOCK_H": lambda x, w, eps: _rms(
            x, w, eps, (x * x).sum(1) / _block(x.shape[1])
        ),
        "the load has no mask: a row reads on into the next one": lambda x, w, eps: _rms(
            x, w, eps, _lanes(x).square().sum(1) / x.shape[1]
        ),
        "γ is missing": lambda x, w, eps: _rms(x, torch.ones_like(w), eps),
        "ε is an argument: use it": lambda x, w, eps: _rms(x, w, 1e-5 if eps > 1e-3 else 0.0),
        "ε goes under the root": lambda x, w, eps: x / ((x * x).mean(1).sqrt() + eps)[:, None] * w,
        "divide by the root of the mean square, not by the mean square": lambda x, w, eps: (
            x / ((x * x).mean(1) + eps)[:, None] * w
        ),
        "that is the sum of the squares; divide by H": lambda x, w, eps: _rms(
            x, w, eps, (x * x).sum(1)
        ),
    },
    within=1e-5,
    ask="write the body: load a row, compute, store",
)


def _why_the_careless_kernel_is_not_broken(row: Tensor) -> str | None:
    t = formula.terms(row)
    if not t.var.isfinite():
        return "finite numbers, please, with a finite variance"
    if row.min() == row.max():
        return "all six are equal, so their variance is 0; one must differ"
    factor = float((t.var + 2 / 6 * t.mean**2) / t.var)
    if factor < 1000:
        return (
            f"it comes out {factor:.3g} times as large; two padded lanes hold −μ,"
            " so let μ be large and the standard deviation small"
        )
    return None


break_careless = Search(
    "a row whose variance the careless kernel makes a thousand times too large",
    wrong=_why_the_careless_kernel_is_not_broken,
    ask="answer with a list of six numbers",
    shape=(6,),
    why=(
        "The two padded lanes add μ²/3 to the variance, which "
        "[shows](#explorer-tiles?padding=counted&step=2) if μ is large beside the standard "
        "deviation."
    ),
)
