"""Layer norm composed of PyTorch's operations, in an order that keeps its digits.

Three things lose digits in layer norm, and each has its answer here:

* E[x²] − E[x]² cancels when the mean is large: square the deviations instead (two passes).
* The rounded mean is off by up to ``|mean|·2⁻ᵖ``, p the bits of the arithmetic, and every deviation
  inherits that offset: subtract the mean of the deviations as well (the corrected two-pass of Chan,
  Golub and LeVeque 1983).
* Rounding between the steps adds up: stay in a wider type throughout and round once, at the end.

Everything is plain PyTorch, so autograd gives the gradients, of any order and in either mode. For
them it keeps every intermediate result; `lnlib.closed_form` does not, and runs where it can.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lnlib.modes import is_traced

LONG = 2**15  # values from which on PyTorch divides one sum among threads


def statistics_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the type in which a row of ``dtype`` is normalized: the next wider one.

    float64 has no wider one, and neither has float32 on Apple's GPUs; there the corrected two-pass
    carries the accuracy alone.

    >>> statistics_dtype(torch.bfloat16, torch.device("cpu"))
    torch.float32
    >>> statistics_dtype(torch.float32, torch.device("cpu"))
    torch.float64
    """
    if dtype in (torch.float16, torch.bfloat16) or device.type == "mps":
        return torch.float32
    return torch.float64


def widened(rows: Tensor) -> Tensor:
    """Return ``rows`` in the dtype of the statistics, contiguous, so that strides change no bit."""
    # PyTorch's copy from half types forgets the sign of a `torch._neg_view`.
    return rows.resolve_neg().to(statistics_dtype(rows.dtype, rows.device)).contiguous()


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Compute `lnlib.layer_norm`, which has checked the arguments, by the corrected two-pass.

    A constant row gives exactly ``bias``, whatever its dtype and length, for any ``eps`` that
    `statistics_dtype` does not round to 0.

    Source: Ba, Kiros, Hinton 2016, eq. 3 to 5, with PyTorch's eps; see `lnlib.formula`.

    >>> layer_norm(torch.tensor([[3e4, 3e4 + 1, 3e4 + 2]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    dims = tuple(range(-len(normalized_shape), 0))
    x = input.to(statistics_dtype(input.dtype, input.device))
    x_hat = normalize(x, dims, eps).x_hat
    # F.layer_norm returns a contiguous tensor for any strides, and a later .view() relies on it.
    return scale_and_shift(x_hat, weight, bias).to(input.dtype).contiguous()


class Normalized(NamedTuple):
    """What `normalize` finds; all but ``x_hat`` have size 1 along a row.

    Attributes:
        mean: of each row, as it was rounded.
        rest: what that rounding left: the row's mean is ``mean + rest``.
        denominator: √(σ² + eps).
        x_hat: the normalized rows.
    """

    mean: Tensor
    rest: Tensor
    denominator: Tensor
    x_hat: Tensor


def mean_of(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the mean over the trailing ``dims``, which keep size 1; threads change no bit of it.

    PyTorch divides the sum of a single long row among threads, but not the sums of two rows.
    """
    is_recorded = torch.compiler.is_compiling() or is_traced() or x.is_nested
    if not is_recorded and x.numel() >= LONG and all(n == 1 for n in x.shape[: -len(dims)]):
        return x.expand(2, *x.shape).mean(dims, keepdim=True)[0]
    return x.mean(dims, keepdim=True)


def normalize(x: Tensor, dims: tuple[int, ...], eps: float) -> Normalized:
    """Normalize ``x`` over the trailing ``dims``, in the dtype that it has.

    A row whose squares overflow in that dtype is NaN, as in PyTorch.
    """
    # Measured from its first value, a constant row is all zeros, which no rounding, overflow or
    # order of summation changes. This mean is a constant to autograd, because the second centering
    # gives the same result for any value near the mean, and carries the gradient.
    first = x
    # Under transforms inference mode refuses views, and nested tensors have nothing else.
    cut = torch.ops.aten.slice if x.is_nested else torch.ops.aten.slice_copy
    for dim in dims:  # counted from the last, since a trace may be run for another rank
        first = cut(first, dim, 0, 1)
    mean = (first + mean_of(x - first, dims)).detach()

    x_centered = x - mean
    rest = mean_of(x_centered, dims)  # what rounding the mean left
    x_centered = x_centered - rest
    var = mean_of(x_centered.square(), dims)
    # The difference is 0, or NaN where squares overflow; otherwise the row would silently be 0.
    denominator = (var + eps).sqrt() + (var - var)
    # Dividing rounds once where multiplying by rstd = 1/denominator rounds twice.
    return Normalized(mean, rest, denominator, x_centered / denominator)


def scale_and_shift(x_hat: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return ``x_hat * weight + bias`` in the type of ``x_hat``; None leaves its step out."""
    weight = None if weight is None else weight.to(x_hat.dtype)
    bias = None if bias is None else bias.to(x_hat.dtype)
    if weight is not None and bias is not None and not x_hat.is_nested:  # nested has no addcmul
        return torch.addcmul(bias, x_hat, weight)  # one rounding where the processor can fuse
    y = x_hat if weight is None else x_hat * weight
    return y if bias is None else y + bias
