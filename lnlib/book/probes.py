"""What a trained recurrent classifier knows after each step, and how far back its gradient goes."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.book.training import Classifier

__all__ = ["Answers", "accuracy_after_each_step", "answers", "gradient_norms", "strangers"]

BATCH = 500


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
