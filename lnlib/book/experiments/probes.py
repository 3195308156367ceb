"""A look inside recurrent networks: how far gradients go, and what enters gates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

import lnlib
from lnlib.book.experiments.trainers import Reader
from lnlib.lstm import formula
from lnlib.lstm.formula import Weights
from lnlib.lstm.modules import weights_of

__all__ = ["gate_inputs", "gradient_norms"]


def gradient_norms(model: Reader, x: Tensor, labels: Tensor) -> Tensor:
    """Return the norm of dL/dh_t, (T,), the mean over sequences; L is the loss of each of them.

    The gradient is the whole one: of all ways from h_t to the loss, through later steps too.

    Args:
        model: of one whose layer takes the state that it returned, (h, c).
        x: (N, T, F), the sequences that its layer sees.
        labels: (N,).
    """
    state, states = None, []
    for step in torch.split(x.transpose(0, 1), 1):
        _, state = model.recurrent(step, state)
        states.append(state[0])
    loss = F.cross_entropy(model.label(states[-1][0]), labels, reduction="sum")
    gradients = torch.autograd.grad(loss, states)
    return torch.stack([gradient[0].norm(dim=1).mean() for gradient in gradients])


@torch.no_grad()
def gate_inputs(layer: lnlib.LayerNormLSTM | torch.nn.LSTM, x: Tensor) -> Tensor:
    """Return what the sigmoids and tanh of the gates see, (T, B, 4H).

    Args:
        layer: of one layer and direction, with biases; a `lnlib.LayerNormLSTM` carries the raw
            cell.
        x: (T, B, I).
    """
    if isinstance(layer, torch.nn.LSTM):
        ih, hh, bias_ih, bias_hh = layer.parameters()
        weights = Weights(ih, hh, bias_ih + bias_hh, *(torch.ones(()),) * 3, None)
        normalize: formula.Normalize = formula.not_normalizing
    else:
        weights, normalize = weights_of(layer, "_l0"), formula.normalizing(layer.eps)
    h = c = x.new_zeros(x.shape[1], layer.hidden_size)
    sums = []
    for inputs in formula.gate_inputs(x, weights, normalize):
        sums.append(inputs + normalize(h @ weights.hh.mT, weights.norm_hh, None))
        h, c = formula.step(inputs, h, c, weights, normalize, "raw")
    return torch.stack(sums)
