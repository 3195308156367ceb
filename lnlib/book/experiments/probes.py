"""A look inside recurrent networks: what they know, how far gradients go, what enters gates."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import lnlib
from lnlib.book.experiments.recurrent import Classifier
from lnlib.lstm import formula
from lnlib.lstm import weights as learned
from lnlib.lstm.weights import Weights

__all__ = [
    "GATES",
    "Answers",
    "accuracy_after_each_step",
    "answers",
    "gate_inputs",
    "gradient_norms",
    "strangers",
    "weights_of",
]

BATCH = 500
GATES = ("input", "forget", "candidate", "output")


class Answers(NamedTuple):
    """Shares of the sequences, from 0 to 1."""

    right: float  # answered with their own label
    stranger: float  # answered with the label of the digit that lent its top


@torch.no_grad()
def accuracy_after_each_step(model: Classifier, x: Tensor, labels: Tensor) -> Tensor:
    """Return the accuracy (T,) of the answers that sequences (N, T, F) get after each step."""
    right = torch.zeros(x.shape[1])
    for part, wanted in zip(torch.split(x, BATCH), torch.split(labels, BATCH), strict=True):
        logits = model.after_each_step(part.transpose(0, 1))
        right += (logits.argmax(2) == wanted).sum(1)
    return right / len(x)


def strangers(labels: Tensor, seed: int = 0) -> Tensor:
    """Return for each of the sequences (N,) the index of one of another label, drawn at random."""
    others = (labels.unsqueeze(1) != labels).float()
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial(others, 1, generator=generator).squeeze(1)


@torch.no_grad()
def answers(model: Classifier, x: Tensor, labels: Tensor, top: Tensor, steps: int) -> Answers:
    """Return what is answered to sequences whose first ``steps`` steps come from others.

    Args:
        model: in evaluation mode.
        x: (N, T, F).
        labels: (N,), of ``x``.
        top: (N,), the index in ``x`` of the sequence that lends its beginning.
        steps: how many steps it lends, from 0 to T.
    """
    mixed = torch.cat([x[top, :steps], x[:, steps:]], dim=1)
    given = torch.cat([model(part.transpose(0, 1)).argmax(1) for part in torch.split(mixed, BATCH)])
    right = (given == labels).float().mean().item()
    return Answers(right, (given == labels[top]).float().mean().item())


def gradient_norms(model: Classifier, x: Tensor, labels: Tensor) -> Tensor:
    """Return the norm of dL/dh_t, (T,), the mean over sequences; L is the loss of each of them.

    The gradient is the whole one: of all ways from h_t to the loss, through later steps too.

    Args:
        model: a classifier whose layer takes the state that it returned, (h, c).
        x: (N, T, F).
        labels: (N,).
    """
    state, states = None, []
    for step in torch.split(x.transpose(0, 1), 1):
        _, state = model.recurrent(step, state)
        states.append(state[0])
    loss = F.cross_entropy(model.label(states[-1][0]), labels, reduction="sum")
    gradients = torch.autograd.grad(loss, states)
    return torch.stack([gradient[0].norm(dim=1).mean() for gradient in gradients])


def weights_of(layer: torch.nn.Module) -> Weights:
    """Return what the first layer of a `lnlib.LayerNormLSTM`, or its cell, has learned."""
    suffix = "_l0" if isinstance(layer, lnlib.LayerNormLSTM) else ""
    return learned.of(layer, suffix)


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
        weights, normalize = weights_of(layer), formula.normalizing(layer.eps)
    h = c = x.new_zeros(x.shape[1], layer.hidden_size)
    sums = []
    for inputs in formula.gate_inputs(x, weights, normalize):
        sums.append(inputs + normalize(h @ weights.hh.mT, weights.norm_hh, None))
        h, c = formula.step(inputs, h, c, weights, normalize, "raw")
    return torch.stack(sums)
