"""Layer norm on several processes: which of its sums have to cross from one to another.

A row's statistics need the whole row, and the gradients of weight and bias are sums over all rows.
So it comes down to what is split, and only of that do the processes have to tell each other:

* `data_parallel`: the rows; the gradients of weight and bias are partial sums.
* `sequence_parallel`: the positions, so the rows again (Korthikanti et al. 2022, section 4.2.2).
* `tensor_parallel`: the next layer's weight, and not the norm's rows, so all that is partial is the
  gradient that comes back from there (Shoeybi et al. 2019, section 3).
* `feature_parallel`: the features; the statistics are partial sums.

All processes of a group call a function at once, each with its own part, and each gets its own
gradients of ``y = x_hat * weight + bias``. They are in closed form and without autograd, so that
every communication is a line that you can read; and in float64, as `lnlib.formula` is.
"""

from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from lnlib import formula

Group = dist.ProcessGroup | None  # None is the group of all processes

EPS = 1e-5  # PyTorch's default, in units of x squared


class Gradients(NamedTuple):
    """The three gradients of a layer norm: ``dx`` like x, ``dweight`` and ``dbias`` ``(H,)``."""

    dx: Tensor
    dweight: Tensor
    dbias: Tensor


def gradients(dy: Tensor, x: Tensor, weight: Tensor) -> Gradients:
    """Return the gradients as one process has them, from its own rows alone.

    Args:
        dy: the gradient of ``y``, ``(..., H)``.
        x: ``(..., H)``; any number of leading dimensions counts as rows.
        weight: ``(H,)``.

    Source: the identity that chapters 04 and 05 derive; see `lnlib.closed_form`.
    """
    norm, g = formula.terms(x, eps=EPS), dy * weight
    mean_g, mean_gx_hat = g.mean(-1, keepdim=True), (g * norm.x_hat).mean(-1, keepdim=True)
    dx = norm.rstd * (g - mean_g - norm.x_hat * mean_gx_hat)
    return Gradients(dx, _sum_rows(dy * norm.x_hat), _sum_rows(dy))


def summed(part: Tensor, group: Group = None) -> Tensor:
    """Return the sum of the parts of all processes: an all-reduce that leaves ``part`` alone."""
    total = part.clone()
    dist.all_reduce(total, group=group)
    return total


def data_parallel(dy: Tensor, x: Tensor, weight: Tensor, group: Group = None) -> Gradients:
    """Return dx of this process's rows, and the sums over all rows of all processes.

    Under tensor parallelism the heads of a QK norm are rows too: each process has its own, and one
    weight serves them all.

    Args:
        dy: of own rows, ``(..., H)``.
        x: own rows, ``(..., H)``.
        weight: ``(H,)``, the same on all processes.
        group: the processes that have the rows.
    """
    own = gradients(dy, x, weight)
    return Gradients(own.dx, summed(own.dweight, group), summed(own.dbias, group))


def own_positions(x: Tensor, rank: int, world: int) -> Tensor:
    """Return the positions of process ``rank``: the first ones have one more if T asks.

    Not by `torch.chunk`, which makes three parts of six positions if four are asked for.

    Args:
        x: all positions, ``(B, T, ...)``.
        rank: which of the processes.
        world: how many processes there are; with fewer positions than that, the last have none.
    """
    return x.tensor_split(world, dim=1)[rank]


def sequence_parallel(dy: Tensor, x: Tensor, weight: Tensor, group: Group = None) -> Gradients:
    """Return dx of this process's positions, and the sums over all positions.

    The norm's output is gathered for a linear layer whose weight is split; on the way back each
    process has a part of dy, at all positions. The sum, of which a process needs its own positions
    alone, is a reduce-scatter in practice.

    Args:
        dy: this process's part of it, at all positions, ``(B, T, H)``.
        x: own positions, ``(B, T/processes, H)``: those that `own_positions` gives.
        weight: ``(H,)``, the same on all processes.
        group: the tensor-parallel group: the processes that have the positions.
    """
    own = own_positions(summed(dy, group), dist.get_rank(group), dist.get_world_size(group))
    return data_parallel(own, x, weight, group)


def tensor_parallel(dy: Tensor, x: Tensor, weight: Tensor, group: Group = None) -> Gradients:
    """Return all three gradients, whole and the same on every process.

    Args:
        dy: this process's part of it, ``(..., H)``: through its columns of the next weight.
        x: all rows, ``(..., H)``.
        weight: ``(H,)``, the same on all processes.
        group: the tensor-parallel group.
    """
    return gradients(summed(dy, group), x, weight)


def normalize_features(x: Tensor, H: int, group: Group = None) -> tuple[Tensor, Tensor]:
    """Return x_hat of this process's features, and rstd: two sums a row cross, one by one.

    One communication is enough if each process sends its own mean and squared deviations, to be
    merged (Chan, Golub, LeVeque 1983). The sums of x and of x² would do as well, but cancel when
    the mean is large: see chapter 02.

    Args:
        x: own features of all rows, ``(..., features)``.
        H: how many features a row has on all processes together.
        group: the processes that have the features.

    Returns:
        x_hat like ``x``, rstd ``(..., 1)``.
    """
    mean = summed(x.sum(-1, keepdim=True), group) / H
    var = summed((x - mean).square().sum(-1, keepdim=True), group) / H
    rstd = (var + EPS).rsqrt()
    return (x - mean) * rstd, rstd


def feature_parallel(
    dy: Tensor, x: Tensor, weight: Tensor, H: int, group: Group = None
) -> Gradients:
    """Return the gradients of this process's features: two more sums a row cross, at once.

    Args:
        dy: of own features, ``(..., features)``.
        x: own features of all rows, ``(..., features)``.
        weight: of own features, ``(features,)``.
        H: how many features a row has on all processes together.
        group: the processes that have the features.
    """
    x_hat, rstd = normalize_features(x, H, group)
    g = dy * weight
    sums = torch.stack([g.sum(-1, keepdim=True), (g * x_hat).sum(-1, keepdim=True)])
    mean_g, mean_gx_hat = summed(sums, group) / H
    dx = rstd * (g - mean_g - x_hat * mean_gx_hat)
    return Gradients(dx, _sum_rows(dy * x_hat), _sum_rows(dy))


def _sum_rows(rows: Tensor) -> Tensor:
    return rows.reshape(-1, rows.shape[-1]).sum(0)
