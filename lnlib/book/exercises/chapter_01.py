"""Chapter 01: the formula."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book import Exercise, Search

_ROW = torch.tensor([1.0, 3.0, 5.0, 7.0])

by_hand = Exercise(
    "standardize (1, 3, 5, 7)",
    truth=formula.terms(_ROW, eps=0.0).x_hat,
    slips={
        "that is x − μ; divide by the standard deviation as well": _ROW - 4,
        "you divided by the variance; take its square root": (_ROW - 4) / 5,
        "you divided the squares by 3; layer norm divides by H = 4": (_ROW - 4) / (20 / 3) ** 0.5,
        "the sign is turned: subtract the mean from x, not x from the mean": (4 - _ROW) / 5**0.5,
    },
    within=1e-3,
    ask="answer with a list of four numbers",
)


def _rows_of(normalized_shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(-len(normalized_shape), 0))


def _variant(
    dims: tuple[int, ...] | None = None,
    correction: int = 0,
    beside: bool = False,
    one: bool = False,
) -> Callable[..., Tensor]:
    """Return layer norm with one thing changed."""

    def layer_norm(
        x: Tensor, shape: tuple[int, ...], weight: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        over = dims or _rows_of(shape)
        var = x.var(over, correction=correction, keepdim=True)
        denominator = var.sqrt() + eps if beside else torch.sqrt(var + eps)
        x_hat = (x - x.mean(over, keepdim=True)) / denominator
        return x_hat if one else x_hat * weight + bias

    return layer_norm


def _cases() -> list[tuple[Tensor, tuple[int, ...], Tensor, Tensor, float]]:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    shapes = [((3, 7), (7,)), ((2, 3, 5), (5,)), ((2, 3, 4, 5), (4, 5))]
    return [(2 * random(*x) + 1, n, random(*n), random(*n), 0.3) for x, n in shapes]


from_scratch = Exercise(
    "layer norm from scratch",
    truth=_variant(),
    inputs=_cases(),
    slips={
        "the variance divides by H, not H − 1: in PyTorch say correction=0": _variant(correction=1),
        "ε goes under the root, to the variance": _variant(beside=True),
        "you average over the last dimension only; normalized_shape may name several": _variant(
            (-1,)
        ),
        "that is batch norm: average over the last dimensions, not the first": _variant((0,)),
        "the weight and the bias are missing": _variant(one=True),
    },
    within=1e-9,
    ask="fill in the function: it returns a tensor of the shape of x",
)


def _over_channels(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return formula.layer_norm(x.movedim(1, -1), weight, bias).movedim(-1, 1)


def _over_image(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    x_hat = formula.layer_norm(x, normalized_shape=x.shape[1:])
    return x_hat * weight[:, None, None] + bias[:, None, None]


def _instance(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    x_hat = formula.layer_norm(x, normalized_shape=x.shape[2:])
    return x_hat * weight[:, None, None] + bias[:, None, None]


def _image() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return tuple(  # type: ignore[return-value]
        torch.randn(*shape, generator=generator, dtype=torch.float64)
        for shape in ((2, 3, 4, 5), (3,), (3,))
    )


over_channels = Exercise(
    "layer norm over the channels of an image",
    truth=_over_channels,
    inputs=[_image()],
    slips={
        "you averaged over the whole image; each pixel is a row of C values": _over_image,
        "that is instance norm: you averaged over the pixels of each channel": _instance,
        "the channels are still last; bring them back to dimension 1": lambda x, w, b: (
            _over_channels(x, w, b).movedim(1, -1)
        ),
    },
    within=1e-6,
    ask="fill in the function: it returns a tensor of the shape of x",
)


def _why_not_narrow(row: Tensor) -> str | None:
    if row.shape != (4,):
        return f"four numbers, please; this has the shape {tuple(row.shape)}"
    if bool((row == row[0]).all()):
        return "all four are equal; one must differ"
    std = formula.layer_norm(row).std(correction=0)
    if not std < 0.1:
        return "the standard deviation of x̂ is still above 0.1; bring the numbers closer together"
    return None


break_it = Search(
    "a row that layer norm does not standardize",
    wrong=_why_not_narrow,
    ask="answer with a list of four numbers",
)
