"""What a layer of the layer-normalized LSTM learns: names, shapes and first values."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Device = torch.device | str | int | None

# The parameters of a module that hold `Weights`, in their order.
NAMES = (
    "weight_ih",
    "weight_hh",
    "bias",
    "norm_ih_weight",
    "norm_hh_weight",
    "norm_c_weight",
    "norm_c_bias",
)


class Weights(NamedTuple):
    """What one direction of one layer learns; H is the size of the state.

    Attributes:
        ih: ``(4H, input_size)``, W_x.
        hh: ``(4H, H)``, W_h.
        bias: ``(4H,)``, or None for 0.
        norm_ih: ``(4H,)``, γ of the norm of W_x x.
        norm_hh: ``(4H,)``, γ of the norm of W_h h.
        norm_c: ``(H,)``, γ of the norm of the cell.
        norm_c_bias: ``(H,)``, its bias, or None for 0.
    """

    ih: Tensor
    hh: Tensor
    bias: Tensor | None
    norm_ih: Tensor
    norm_hh: Tensor
    norm_c: Tensor
    norm_c_bias: Tensor | None


def add(
    module: nn.Module,
    suffix: str,
    input_size: int,
    size: int,
    bias: bool,
    device: Device,
    dtype: torch.dtype | None,
) -> None:
    """Register a layer's parameters in ``module``; `reset` gives them values."""
    for name, shape in zip(NAMES, shapes(input_size, size), strict=True):
        made = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        is_wanted = bias or not name.endswith("bias")
        module.register_parameter(name + suffix, made if is_wanted else None)


def shapes(input_size: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of `Weights`."""
    wide, narrow = (4 * size,), (size,)
    return (4 * size, input_size), (4 * size, size), wide, wide, wide, narrow, narrow


def of(module: nn.Module, suffix: str) -> Weights:
    """Return the parameters that `add` has registered."""
    found: list[Any] = [getattr(module, name + suffix) for name in NAMES]
    return Weights(*found)


def reset(weights: Weights, forget_bias: float) -> None:
    """Give weights and bias values from ±1/√H, as PyTorch does, γ 1, the cell's bias 0."""
    size = weights.hh.shape[-1]
    bound = 1 / math.sqrt(size)
    for weight in (weights.ih, weights.hh, weights.bias):
        if weight is not None:
            nn.init.uniform_(weight, -bound, bound)
    for gamma in (weights.norm_ih, weights.norm_hh, weights.norm_c):
        nn.init.ones_(gamma)
    if weights.norm_c_bias is not None:
        nn.init.zeros_(weights.norm_c_bias)
    if weights.bias is not None:
        with torch.no_grad():
            weights.bias[size : 2 * size] += forget_bias


def changed(module: nn.Module, defaults: dict[str, object]) -> str:
    """Return what of a module's settings is not at its default, for its repr."""
    return "".join(
        f", {name}={getattr(module, name)!r}"
        for name, default in defaults.items()
        if getattr(module, name) != default
    )
