"""The formula, one line per symbol: what every other layer norm in lnlib is tested against.

It is written to be read and trusted, not to be fast or clever. It works in float64 by default,
whose errors near 1e-16 are nothing next to the 6e-8 with which a float32 result is rounded.

Source: Ba, Kiros, Hinton 2016, "Layer Normalization", arXiv:1607.06450. Equation 3 defines the mean
μ and the standard deviation σ, with 1/H, hence biased; equation 4 applies weight and bias, in a
recurrent network; equation 5 is for all normalizations. There is no eps in the paper.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

EpsAt = Literal["variance", "std", "floor"]


class Terms(NamedTuple):
    """Every symbol of the formula, in the order it is computed.

    The first five keep the normalized dimensions with size 1, so that they broadcast against ``x``;
    ``x_hat`` and ``y`` have the shape of ``x``.
    """

    mean: Tensor
    var: Tensor
    std: Tensor
    denominator: Tensor
    rstd: Tensor
    x_hat: Tensor
    y: Tensor


def terms(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Sequence[int] | None = None,
    eps: float = 1e-5,
    eps_at: EpsAt = "variance",
    correction: int = 0,
    center: bool = True,
    dtype: torch.dtype = torch.float64,
) -> Terms:
    """Compute layer norm and keep every intermediate term.

    Args:
        x: ``(..., *normalized_shape)``, any real dtype.
        weight: γ, ``normalized_shape``; None means 1.
        bias: β, ``normalized_shape``; None means 0.
        normalized_shape: sizes of the trailing dimensions that share one mean and one variance;
            None means the last dimension alone.
        eps: keeps the denominator away from 0.
        eps_at: "variance" divides by √(σ² + eps), as PyTorch does, with eps in units of x squared;
            "std" divides by σ + eps, as the Annotated Transformer does, with eps in units of x;
            "floor" divides by the larger of σ and eps, as ``torch.nn.functional.normalize`` does
            with a norm, with eps in units of x.
        correction: subtracted from the count under the variance, as in ``torch.var``: 0 is the
            paper's biased variance, 1 the unbiased one (Bessel).
        center: False subtracts nothing, which is RMS norm: ``mean`` is 0, ``var`` the mean of x².
            Source: Zhang, Sennrich 2019, arXiv:1910.07467, eq. 4.
        dtype: the arithmetic. Every step is rounded to it, so ``torch.float16`` shows what half
            precision all the way does.

    Returns:
        The terms, all in ``dtype``. Nothing is guarded: a constant row with ``eps=0`` gives the NaN
        that 0/0 is.

    Raises:
        ValueError: if ``eps_at`` is none of the three.
        RuntimeError: as PyTorch does, if ``x`` does not end in ``normalized_shape``.

    >>> mean, var, std, denominator, rstd, x_hat, y = terms(torch.tensor([1.0, 2.0, 3.0]), eps=0)
    >>> mean.item(), var.item()
    (2.0, 0.6666666666666666)
    >>> x_hat
    tensor([-1.2247,  0.0000,  1.2247], dtype=torch.float64)
    """
    if eps_at not in get_args(EpsAt):
        raise ValueError(f'eps_at must be "variance", "std" or "floor", got {eps_at!r}')
    shape = tuple(x.shape[-1:] if normalized_shape is None else normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"x must end in normalized_shape {shape}, got an x of shape {tuple(x.shape)}"
        )
    axes = tuple(range(-len(shape), 0))
    H = math.prod(shape)

    x = x.to(dtype)
    mean = x.sum(axes, keepdim=True) / H
    mean = mean if center else torch.zeros_like(mean)
    var = (x - mean).square().sum(axes, keepdim=True) / (H - correction)
    std = var.sqrt()
    denominator = _denominator(var, std, eps, eps_at)
    rstd = 1 / denominator
    x_hat = (x - mean) * rstd
    y = x_hat
    if weight is not None:
        y = y * weight.to(dtype)
    if bias is not None:
        y = y + bias.to(dtype)
    return Terms(mean, var, std, denominator, rstd, x_hat, y)


def _denominator(var: Tensor, std: Tensor, eps: float, eps_at: EpsAt) -> Tensor:
    if eps_at == "variance":
        return (var + eps).sqrt()
    return std + eps if eps_at == "std" else std.clamp(min=eps)


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Sequence[int] | None = None,
    eps: float = 1e-5,
    eps_at: EpsAt = "variance",
    correction: int = 0,
    center: bool = True,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Compute layer norm by the formula: the ``y`` of `terms`, which has the same arguments.

    >>> layer_norm(torch.tensor([1.0, 2.0, 3.0]), weight=torch.tensor([1.0, 1.0, 2.0]), eps=0)
    tensor([-1.2247,  0.0000,  2.4495], dtype=torch.float64)
    """
    return terms(
        x,
        weight,
        bias,
        normalized_shape=normalized_shape,
        eps=eps,
        eps_at=eps_at,
        correction=correction,
        center=center,
        dtype=dtype,
    ).y
