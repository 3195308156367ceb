"""A layer norm on several processes: which sums have to cross, and that a swapped model trains.

The truth is what one process finds: autograd's gradients of the formula in float64.
"""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import lnlib
from lnlib import formula

B, T, H, K = 5, 6, 13, 6  # batch, sequence, features in, features of the next linear layer
EPS = 1e-5
ROUNDING = 1e-11  # relative, float64: sums in another order, of rows 1e3 from zero
WRONG = 0.1  # relative: far more than rounding


def gradients(dy, x, weight):
    """Return dx, dγ and dβ as one process has them, from its own rows alone."""
    leaves = [leaf.clone().requires_grad_() for leaf in (x, weight, torch.zeros(H).double())]
    return torch.autograd.grad(formula.layer_norm(*leaves, eps=EPS), leaves, dy)


class Case:
    """Inputs, the same in every process, and what one process makes of them.

    The norm is followed by a linear layer ``y @ linear.T``, whose output has the gradient ``dz``.
    """

    def __init__(self):
        generator = torch.Generator().manual_seed(3)

        def rand(*shape):
            return torch.randn(shape, dtype=torch.float64, generator=generator)

        self.x, self.dz = rand(B, T, H), rand(B, T, K)
        self.weight, self.bias, self.linear = 1 + rand(H), rand(H), rand(K, H)
        self.x[1] += 1e3
        self.x[2, ::3] = 0.7  # rows without variance
        self.dy = self.dz @ self.linear
        self.truth = gradients(self.dy, self.x, self.weight)

    def norm(self):
        """Return the layer for it, PyTorch's, with these parameters."""
        norm = nn.LayerNorm(H, dtype=torch.float64)
        norm.load_state_dict({"weight": self.weight, "bias": self.bias})
        return norm


def off(found, true):
    """Return which of the gradients are wrong; the others are right to rounding."""
    gaps = [((f - t).norm() / t.norm()).item() for f, t in zip(found, true, strict=True)]
    assert all(gap < ROUNDING or gap > WRONG for gap in gaps), gaps
    return [gap > WRONG for gap in gaps]


# The table of chapter 09, split by split


@pytest.mark.parametrize("split", [
    lambda x: x.tensor_split(2),  # the samples
    lambda x: x.tensor_split(4, 1),  # the positions: two, two, one and one
    lambda x: x.view(B, -1, 2, H).unbind(2),  # the heads under QK norm, which are rows too
])  # fmt: skip
def test_where_rows_are_split_the_gradients_of_the_parameters_add_up(split):
    case = Case()
    dys, xs, dxs = (split(each) for each in (case.dy, case.x, case.truth[0]))
    alone = [gradients(dy, x, case.weight) for dy, x in zip(dys, xs, strict=True)]
    for found, dx in zip(alone, dxs, strict=True):
        assert off(found, [dx, *case.truth[1:]]) == [False, True, True]
    together = [sum(parts) for parts in list(zip(*alone, strict=True))[1:]]
    assert off(together, case.truth[1:]) == [False, False]


def test_where_the_next_matrix_is_split_dy_adds_up_and_then_nothing_else():
    case = Case()
    dys = [
        dz @ W
        for dz, W in zip(case.dz.tensor_split(2, -1), case.linear.tensor_split(2), strict=True)
    ]
    assert off(gradients(dys[0], case.x, case.weight), case.truth) == [True, True, True]
    assert not any(off(gradients(sum(dys), case.x, case.weight), case.truth))


def test_where_features_are_split_two_sums_of_a_row_cross_each_way():
    case = Case()
    own = [slice(0, 8), slice(8, H)]
    xs, dys = [case.x[..., s] for s in own], [case.dy[..., s] for s in own]

    def crossing(parts):
        return sum(part.sum(-1, keepdim=True) for part in parts) / H

    mean = crossing(xs)
    rstd = (crossing([(x - mean).square() for x in xs]) + EPS).rsqrt()
    x_hats = [(x - mean) * rstd for x in xs]
    gs = [dy * case.weight[s] for dy, s in zip(dys, own, strict=True)]
    mean_g = crossing(gs)
    mean_gx_hat = crossing([g * x_hat for g, x_hat in zip(gs, x_hats, strict=True)])
    for s, x_hat, g, dy in zip(own, x_hats, gs, dys, strict=True):
        dx = rstd * (g - mean_g - x_hat * mean_gx_hat)
        found = dx, (dy * x_hat).sum((0, 1)), dy.sum((0, 1))
        assert not any(off(found, [true[..., s] for true in case.truth]))


# Processes


@pytest.mark.tier("all")
def test_a_swapped_model_trains_on_two_processes(tmp_path):
    mp.spawn(worker, args=(tmp_path,), nprocs=2)


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    wrapped(Case(), rank)
    as_dtensors(Case(), rank)
    dist.destroy_process_group()


def wrapped(case, rank):
    """Both divide the sum by the number of processes: theirs is the gradient of a mean."""
    x, dz = (each.chunk(2, dim=1)[rank] for each in (case.x, case.dz))
    linear = nn.Linear(H, K, bias=False, dtype=torch.float64)
    linear.load_state_dict({"weight": case.linear})
    original = nn.Sequential(case.norm(), linear)
    replicated = copy.deepcopy(original)
    outer = lnlib.swap(DistributedDataParallel(replicated))
    outer(x).backward(dz)
    split = fully_shard(lnlib.swap(original), mesh=init_device_mesh("cpu", (2,)))
    split(x).backward(dz)
    assert [type(model[0]).__name__ for model in (replicated, split)] == ["LayerNorm"] * 2
    for found in (
        [p.grad for p in replicated[0].parameters()],
        [p.grad.full_tensor() for p in split[0].parameters()],
    ):
        assert not any(off([2 * grad for grad in found], case.truth[1:]))


def as_dtensors(case, rank):
    """PyTorch's sequence parallelism leaves the sum to whoever reads the whole, with ours too."""
    x, dy = (each.chunk(2, dim=1)[rank] for each in (case.x, case.dy))
    for norm in (case.norm(), lnlib.swap(case.norm())):
        parallelize_module(norm, init_device_mesh("cpu", (2,)), SequenceParallel())
        norm(x).to_local().backward(dy)
        grads = [p.grad for p in norm.parameters()]
        assert off([grad.to_local() for grad in grads], case.truth[1:]) == [True, True]
        assert not any(off([grad.full_tensor() for grad in grads], case.truth[1:]))
