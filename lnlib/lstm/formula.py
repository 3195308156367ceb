"""The layer-normalized LSTM as equations: one step, and the loop over steps, in plain PyTorch.

The order of the gates is PyTorch's: input, forget, candidate, output. Every derivative, of any
order and mode, comes from PyTorch: this is the truth that the hand-derived gradient is tested
against, and what runs where no kernel does (see `lnlib.lstm.function`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lnlib.functional import layer_norm


class Weights(NamedTuple):
    """What one direction of one layer learns; H is the size of the state.

    Attributes:
        ih: ``(4H, input_size)``, W_x.
        hh: ``(4H, H)``, W_h.
        bias: ``(4H,)``, or None for 0.
        norm_ih: ``(4H,)``, γ of the norm of W_x x.
        norm_hh: ``(4H,)``, γ of the norm of W_h h.
        norm_c: ``(H,)``, γ of the norm of the cell.
        norm_c_bias: ``(H,)``, its β, or None for 0.
    """

    ih: Tensor
    hh: Tensor
    bias: Tensor | None
    norm_ih: Tensor
    norm_hh: Tensor
    norm_c: Tensor
    norm_c_bias: Tensor | None


# What a module calls each of them.
NAMES = (
    *("weight_ih", "weight_hh", "bias"),
    *("norm_ih_weight", "norm_hh_weight", "norm_c_weight", "norm_c_bias"),
)


def shapes(input_size: int, H: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of `Weights`."""
    return (4 * H, input_size), (4 * H, H), (4 * H,), (4 * H,), (4 * H,), (H,), (H,)


class Settings(NamedTuple):
    """What a run depends on besides tensors; see `lstm`."""

    batch_sizes: tuple[int, ...]
    eps: float
    carry: str


Results = tuple[Tensor, Tensor, Tensor]  # outputs (N, H), last h and last c (B, H); or gradients
Gradients = tuple[Tensor | None, ...]  # of x, h, c and the weights
Normalize = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def normalizing(eps: float) -> Normalize:
    """Return layer norm over the last dimension, as a function of x, its γ and its β."""

    def normalize(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return layer_norm(x, x.shape[-1:], weight, bias, eps)

    return normalize


def not_normalizing(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x``. With this in the place of layer norm, the network is PyTorch's LSTM."""
    return x


def gate_inputs(x: Tensor, weights: Weights, normalize: Normalize) -> Tensor:
    """Return what the input alone adds to the gates, ``LN(W_x x) + b``: ``(..., 4H)``.

    It needs no state, so one product does all time steps.
    """
    from_input = normalize(x @ weights.ih.mT, weights.norm_ih, None)
    return from_input if weights.bias is None else from_input + weights.bias


def step(
    inputs: Tensor, h: Tensor, c: Tensor, weights: Weights, normalize: Normalize, carry: str
) -> tuple[Tensor, Tensor]:
    """Return the state after one time step: h, and the cell that goes on.

    Args:
        inputs: ``(B, 4H)``, of `gate_inputs`.
        h: ``(B, H)``.
        c: ``(B, H)``.
        weights: of the layer.
        normalize: `normalizing(eps)`, or `not_normalizing`.
        carry: "raw", or "normalized".

    Source: Ba, Kiros, Hinton 2016, eq. 20 to 22, with one bias in the place of three.
    """
    sums = inputs + normalize(h @ weights.hh.mT, weights.norm_hh, None)
    i, f, candidate, o = sums.chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * candidate.tanh()
    n = normalize(c, weights.norm_c, weights.norm_c_bias)
    return o.sigmoid() * n.tanh(), n if carry == "normalized" else c


def lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    batch_sizes: Sequence[int],
    normalize: Normalize,
    carry: str,
) -> Results:
    """Run `step` over sequences that are packed, and return all outputs and the last states.

    Args:
        x: ``(N, input_size)``; the rows of the first step, then those of the second, and so on.
        h: ``(B, H)``, before the first step.
        c: ``(B, H)``, likewise.
        weights: of the layer.
        batch_sizes: how many sequences take part in each step; never more than in the one before.
        normalize: `normalizing(eps)`, or `not_normalizing`.
        carry: "raw", or "normalized".

    Returns:
        h after each step, ``(N, H)``; h and c after the last step of each sequence, ``(B, H)``.
    """
    outputs, last_h, last_c = [], [], []
    for inputs in torch.split(gate_inputs(x, weights, normalize), list(batch_sizes)):
        rows = inputs.shape[0]
        last_h.append(h[rows:])
        last_c.append(c[rows:])
        h, c = step(inputs, h[:rows], c[:rows], weights, normalize, carry)
        outputs.append(h)
    return torch.cat(outputs), torch.cat([h, *last_h[::-1]]), torch.cat([c, *last_c[::-1]])
