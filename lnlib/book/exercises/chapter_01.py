"""Chapter 01: the formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.inputs import normal

_ROW = torch.tensor([1.0, 3.0, 5.0, 7.0])

by_hand = Exercise(
    "standardize (1, 3, 5, 7)",
    truth=formula.terms(_ROW, eps=0.0).x_hat,
    slips={
        "that is x − μ; divide by the standard deviation as well": _ROW - 4,
        "you divided by the variance; divide by its square root": (_ROW - 4) / 5,
        "you divided the squares by 3; layer norm divides by H = 4": (_ROW - 4) / (20 / 3) ** 0.5,
        "average the squares; you only summed them": (_ROW - 4) / 20**0.5,
        "subtract the mean first": _ROW / 5**0.5,
        "the sign is wrong: subtract the mean from x, not x from the mean": (4 - _ROW) / 5**0.5,
    },
    within=6e-3,  # two digits are enough by hand
    ask="answer with a list of four numbers",
    why=(
        "The squares of the deviations average to 5, so you divided −3, −1, 1 and 3 by √5; a "
        "row that has [each value twice](#explorer-row?x=1,1,3,3,5,5,7,7) gives the same four."
    ),
)


def _variant(
    dims: Callable[[Tensor, Sequence[int]], tuple[int, ...]] = lambda x, shape: tuple(
        range(-len(shape), 0)
    ),
    correction: int = 0,
    divisor: Callable[[Tensor, float], Tensor] = lambda var, eps: (var + eps).sqrt(),
    affine: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda x_hat, weight, bias: (
        x_hat * weight + bias
    ),
) -> Callable[..., Tensor]:
    """Return layer norm, or a slip of it: one of its four steps done otherwise."""

    def layer_norm(
        x: Tensor, normalized_shape: Sequence[int], weight: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        over = dims(x, normalized_shape)
        var = x.var(over, correction=correction, keepdim=True)
        x_hat = (x - x.mean(over, keepdim=True)) / divisor(var, eps)
        return affine(x_hat, weight, bias)

    return layer_norm


from_scratch = Exercise(
    "layer norm from scratch",
    truth=_variant(),
    inputs=[
        (2 * normal(*x, seed=0) + 1, n, normal(*n, seed=1), normal(*n, seed=2), 0.3)
        for x, n in (((3, 7), (7,)), ((2, 3, 5), (5,)), ((2, 3, 4, 5), (4, 5)))
    ],
    slips={
        "the variance divides by H, not H − 1: in PyTorch say correction=0": _variant(correction=1),
        "ε goes under the root, to the variance": _variant(
            divisor=lambda var, eps: var.sqrt() + eps
        ),
        "you divide by the variance; take its root": _variant(divisor=lambda var, eps: var + eps),
        "ε is missing": _variant(divisor=lambda var, eps: var.sqrt()),
        "take the ε you are given, not always 1e-5": _variant(
            divisor=lambda var, eps: (var + 1e-5).sqrt()
        ),
        "PyTorch's std divides by H − 1, and ε goes under the root": _variant(
            correction=1, divisor=lambda var, eps: var.sqrt() + eps
        ),
        "you average over the last dimension only; normalized_shape may name several": _variant(
            lambda x, shape: (-1,)
        ),
        "average over the last dimensions alone, as many as normalized_shape has": _variant(
            lambda x, shape: tuple(range(1, x.ndim))
        ),
        "that is batch norm: average over the last dimensions, not the first": _variant(
            lambda x, shape: (0,)
        ),
        "the weight and the bias are missing": _variant(affine=lambda x_hat, weight, bias: x_hat),
        "the bias is missing": _variant(affine=lambda x_hat, weight, bias: x_hat * weight),
    },
    within=1e-9,
    ask="fill in the function: it returns a tensor of the shape of x",
)


def _over_channels(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return formula.layer_norm(x.movedim(1, -1), weight, bias).movedim(-1, 1)


def _over(dims: tuple[int, ...], correction: int = 0) -> Callable[..., Tensor]:
    """Return the exercise's layer norm with its mean over other dimensions."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        var = x.var(dims, correction=correction, keepdim=True)
        x_hat = (x - x.mean(dims, keepdim=True)) / (var + 1e-5).sqrt()
        return x_hat * weight[:, None, None] + bias[:, None, None]

    return norm


def _by_reshape(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    batch, channels, *image = x.shape
    last = x.reshape(batch, *image, channels)
    return formula.layer_norm(last, weight, bias).reshape(x.shape)


over_channels = Exercise(
    "layer norm over the channels of an image",
    truth=_over_channels,
    inputs=[(normal(2, 3, 4, 5, seed=1), normal(3, seed=2), normal(3, seed=3))],
    slips={
        "you averaged over the whole image; each pixel is a row of C values": _over((1, 2, 3)),
        "that is instance norm: you averaged over the pixels of each channel": _over((2, 3)),
        "that is batch norm: you averaged over the samples": _over((0, 2, 3)),
        "the variance divides by C, not C − 1": _over((1,), correction=1),
        "reshape re-reads the memory and does not move the channels; permute does": _by_reshape,
        "the channels are still last; bring them back to dimension 1": lambda x, w, b: (
            _over_channels(x, w, b).movedim(1, -1)
        ),
    },
    within=1e-6,
    ask="fill in the function: it returns a tensor of the shape of x",
)


def _why_not_narrow(row: Tensor) -> str | None:
    if bool((row == row[0]).all()):
        return "all four are equal; one must differ"
    if not bool(row.isfinite().all() and row.var().isfinite()):
        return "finite numbers of an ordinary size, please"
    std = formula.layer_norm(row).std(correction=0)
    if not std < 0.1:
        return "the standard deviation of x̂ is still above 0.1; bring the numbers closer together"
    return None


break_it = Search(
    "a row that layer norm does not standardize",
    wrong=_why_not_narrow,
    ask="answer with a list of four numbers",
    shape=(4,),
    why=(
        "The spread of your row is at most about a tenth of √ε, so ε decides the output and not"
        " the data, as in [an almost flat "
        "row](#explorer-row?x=4.99985,4.99995,4.99995,4.99995,5,5,5.0001,5.0002)."
    ),
)
