"""What processes have to tell each other for a layer norm, and what goes wrong if they do not.

The truth is what one process finds: autograd's gradients of the formula in float64.
"""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local

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
from lnlib.book.experiments import sharded

B, T, H, K = 5, 7, 13, 6  # batch, sequence, features in, features of the next linear layer
EVEN = 6  # positions that two processes can share equally
ROUNDING = 1e-11  # relative, float64: sums in another order, of rows 1e3 from zero
WRONG = 0.1  # relative: far more than rounding


class Case:
    """Inputs, the same in every process, and what one process makes of them.

    The norm is followed by a linear layer ``y @ linear.T``, whose output has the gradient ``dz``.
    """

    def __init__(self, T=T):
        generator = torch.Generator().manual_seed(3)

        def rand(*shape):
            return torch.randn(shape, dtype=torch.float64, generator=generator)

        self.x, self.dz = rand(B, T, H), rand(B, T, K)
        self.weight, self.bias, self.linear = 1 + rand(H), rand(H), rand(K, H)
        self.x[1] += 1e3
        self.x[2, ::3] = 0.7  # rows without variance
        self.dy = self.dz @ self.linear
        leaves = [leaf.clone().requires_grad_() for leaf in (self.x, self.weight, self.bias)]
        y = formula.layer_norm(*leaves)
        self.y, self.truth = y.detach(), torch.autograd.grad(y @ self.linear.T, leaves, self.dz)

    def part_of_dy(self, rank, world):
        """Return the gradient of y through this process's part of the linear layer."""
        return self.dz.tensor_split(world, -1)[rank] @ self.linear.tensor_split(world)[rank]

    def norm(self):
        """Return the layer for it, PyTorch's, with these parameters."""
        norm = nn.LayerNorm(H, dtype=torch.float64)
        norm.load_state_dict({"weight": self.weight, "bias": self.bias})
        return norm


# What a process finds with the others, alone, and in truth, each as dx, dweight, dbias


def data(rank, world):
    return of_rows(sharded.data_parallel, lambda x: x.tensor_split(world), Case(), rank)


def heads(rank, world):
    """Each has one of the heads, which are rows too."""
    return of_rows(
        sharded.data_parallel, lambda x: x.view(B, -1, world, H).unbind(2), Case(EVEN), rank
    )


def sequence(rank, world, T=T):
    case = Case(T)
    part = case.part_of_dy(rank, world)
    return of_rows(sharded.sequence_parallel, lambda x: from_one_end(x, world), case, rank, part)


def from_one_end(x, world):
    """Return the positions of each as counting finds them: one round after another of all."""
    return x.split([len(range(each, x.shape[1], world)) for each in range(world)], 1)


def of_rows(run, split, case, rank, part=None):
    """Run it on this process's rows, with ``part`` in place of their dy if there is one."""
    x, dy, dx = (split(each)[rank] for each in (case.x, case.dy, case.truth[0]))
    together = run(dy if part is None else part, x, case.weight)
    return together, sharded.gradients(dy, x, case.weight), (dx, *case.truth[1:])


def tensor(rank, world):
    case = Case()
    part = case.part_of_dy(rank, world)
    together = sharded.tensor_parallel(part, case.x, case.weight)
    assert torch.equal(part, case.part_of_dy(rank, world))  # the sum leaves it alone
    return together, sharded.gradients(part, case.x, case.weight), case.truth


def features(rank, world):
    """They have unequal parts of the features."""
    case = Case()
    own = [slice(0, 8), slice(8, H)][rank]
    x, dy, weight = case.x[..., own], case.dy[..., own], case.weight[own]
    together = sharded.feature_parallel(dy, x, weight, H)
    alone = sharded.gradients(dy, x, weight)
    return together, alone, [true[..., own] for true in case.truth]


# How many numbers each of the sums has that cross, and which gradients are wrong without them
SPLITS = {
    data: ([H, H], [False, True, True]),
    heads: ([H, H], [False, True, True]),
    sequence: ([B * T * H, H, H], [False, True, True]),  # the first is that of dy
    tensor: ([B * T * H], [True, True, True]),
    features: ([B * T, B * T, 2 * B * T], [True, True, False]),
}


def distance(found, true):
    assert found.shape == true.shape
    return ((found - true).norm() / true.norm()).item()


def check(split, rank, world):
    together, alone, truth = split(rank, world)
    for found, true in zip(together, truth, strict=True):
        assert distance(found, true) < ROUNDING
    wrong = [distance(found, true) > WRONG for found, true in zip(alone, truth, strict=True)]
    assert wrong == SPLITS[split][1]


# Threads that stand for processes


@pytest.fixture
def in_threads(monkeypatch):
    """Call a function of (rank, world) in threads; return what each found, and what crossed."""

    def run(function, *more, world=2):
        barrier, here, parts, sizes = Barrier(world, timeout=60), local(), {}, []

        def all_reduce(part, group=None):
            parts[here.rank] = part.clone()
            barrier.wait()
            part.copy_(sum(parts.values()))
            sizes.extend([part.numel()] * (here.rank == 0))
            barrier.wait()

        def one(rank):
            here.rank = rank
            return function(rank, world, *more)

        monkeypatch.setattr(dist, "all_reduce", all_reduce)
        monkeypatch.setattr(dist, "get_rank", lambda _: here.rank)
        monkeypatch.setattr(dist, "get_world_size", lambda _: world)
        with ThreadPoolExecutor(world) as pool:
            return [*pool.map(one, range(world))], sizes

    return run


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.__name__)
def test_what_crosses_makes_each_gradient_right_and_without_it_some_are_wrong(split, in_threads):
    _, sizes = in_threads(lambda rank, world: check(split, rank, world))
    assert sizes == SPLITS[split][0]


@pytest.mark.parametrize("T", [3, 5, 6, 7, 8])
def test_four_processes_have_all_positions_and_numbers_that_differ_by_one_at_most(T, in_threads):
    x = Case(T).x
    parts = [sharded.own_positions(x, rank, 4) for rank in range(4)]
    assert torch.equal(torch.cat(parts, dim=1), x)
    for part, counted in zip(parts, from_one_end(x, 4), strict=True):
        assert torch.equal(part, counted)
    for together, _, truth in in_threads(sequence, T, world=4)[0]:
        for found, true in zip(together, truth, strict=True):
            assert not true.numel() or distance(found, true) < ROUNDING


def test_y_of_features_on_two_processes_is_that_of_the_whole_row(in_threads):
    case = Case()
    parts = case.x.tensor_split(2, -1)
    found, _ = in_threads(lambda rank, world: sharded.normalize_features(parts[rank], H)[0])
    assert distance(torch.cat(found, -1) * case.weight + case.bias, case.y) < ROUNDING


@pytest.mark.parametrize("leading", [(), (1,), (B,), (B, 1, T)])
def test_any_number_of_leading_dimensions_counts_as_rows(leading):
    generator = torch.Generator().manual_seed(4)
    x, dy = torch.randn(2, *leading, H, dtype=torch.float64, generator=generator)
    case = Case()
    leaves = [leaf.clone().requires_grad_() for leaf in (x, case.weight, case.bias)]
    truth = torch.autograd.grad(formula.layer_norm(*leaves), leaves, dy)
    for found, true in zip(sharded.gradients(dy, x, case.weight), truth, strict=True):
        assert distance(found, true) < ROUNDING


# Processes


@pytest.mark.tier("all")
def test_two_processes_find_the_same_and_a_swapped_model_trains_on_them(tmp_path):
    mp.spawn(worker, args=(tmp_path,), nprocs=2)


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for split in SPLITS:
        check(split, rank, 2)
    case, alone = Case(), [dist.new_group([each]) for each in range(2)][rank]
    arguments = case.dy, case.x, case.weight
    for found in (  # the group decides who takes part
        sharded.data_parallel(*arguments, alone),
        sharded.sequence_parallel(*arguments, alone),
        sharded.tensor_parallel(*arguments, alone),
        sharded.feature_parallel(*arguments, H, alone),
    ):
        assert max(map(distance, found, case.truth)) < ROUNDING
    wrapped(case, rank)
    as_dtensors(Case(EVEN), rank)
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
        for grad, true in zip(found, case.truth[1:], strict=True):
            assert distance(2 * grad, true) < ROUNDING


def as_dtensors(case, rank):
    """PyTorch's sequence parallelism leaves the sum to whoever reads the whole, with ours too."""
    x, dy = (each.chunk(2, dim=1)[rank] for each in (case.x, case.dy))
    for norm in (case.norm(), lnlib.swap(case.norm())):
        parallelize_module(norm, init_device_mesh("cpu", (2,)), SequenceParallel())
        norm(x).to_local().backward(dy)
        for p, true in zip(norm.parameters(), case.truth[1:], strict=True):
            assert distance(p.grad.to_local(), true) > WRONG
            assert distance(p.grad.full_tensor(), true) < ROUNDING
