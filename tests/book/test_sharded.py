"""What two processes have to tell each other for a layer norm, and what goes wrong if they do not.

`worker` is run by two processes, each of which saves what it has found; the tests compare that with
one process, whose gradients are autograd's, of the formula in float64.
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
from lnlib.book.experiments import sharded

WORLD = 2
B, T, H, K = 5, 7, 13, 6  # batch, sequence, features in, features of the next linear layer
EVEN = 6  # positions that two processes can share equally
ROUNDING = 1e-11  # relative, float64: sums in another order, of rows 1e3 from zero
WRONG = 0.1  # relative: far more than rounding
CUTS = [slice(0, 8), slice(8, H)]  # unequal parts of the features


# Which rows of (B, T, H) each process has
ROWS = {
    "data": lambda x: x.chunk(WORLD),  # three sequences, two sequences
    "sequence": lambda x: x.tensor_split(WORLD, dim=1),  # four positions, three positions
    "heads": lambda x: x.view(B, -1, WORLD, H).unbind(2),  # one head, one head
}


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

    def part_of_dy(self, rank):
        """Return the gradient of y through this process's half of the linear layer."""
        return self.dz.chunk(WORLD, dim=-1)[rank] @ self.linear.chunk(WORLD)[rank]

    def truth(self):
        """Return y and the gradients of x, weight and bias."""
        leaves = [leaf.clone().requires_grad_() for leaf in (self.x, self.weight, self.bias)]
        y = formula.layer_norm(*leaves)
        return y.detach(), *torch.autograd.grad(y @ self.linear.T, leaves, self.dz)

    def norm(self):
        """Return the layer for it, PyTorch's, with these parameters."""
        norm = nn.LayerNorm(H, dtype=torch.float64)
        norm.load_state_dict({"weight": self.weight, "bias": self.bias})
        return norm


# What each process does


def worker(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD
    )
    case = Case()
    each = (data, heads, sequence, tensor, features, in_a_group_of_one, wrapped, as_dtensors)
    torch.save({run.__name__: run(case, rank) for run in each}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def listened(run, *arguments):
    """Return what ``run`` returns, and how many numbers each of its all-reduces summed."""
    sizes, all_reduce = [], dist.all_reduce

    def spy(tensor, **options):
        sizes.append(tensor.numel())
        return all_reduce(tensor, **options)

    dist.all_reduce = spy
    try:
        return run(*arguments), sizes
    finally:
        dist.all_reduce = all_reduce


def data(case, rank):
    return of_rows(sharded.data_parallel, ROWS["data"], case, rank)


def heads(_, rank):
    return of_rows(sharded.data_parallel, ROWS["heads"], Case(EVEN), rank)


def sequence(case, rank):
    part = case.part_of_dy(rank)
    return of_rows(sharded.sequence_parallel, ROWS["sequence"], case, rank, part)


def of_rows(run, split, case, rank, part=None):
    """Run it on this process's rows, with ``part`` in place of their dy if there is one."""
    x, dy = (split(each)[rank] for each in (case.x, case.dy))
    together, sizes = listened(run, dy if part is None else part, x, case.weight)
    alone = sharded.gradients(dy, x, case.weight)
    return {"together": tuple(together), "alone": tuple(alone), "sizes": sizes}


def tensor(case, rank):
    part = case.part_of_dy(rank)
    together, sizes = listened(sharded.tensor_parallel, part, case.x, case.weight)
    return {
        "together": tuple(together),
        "alone": tuple(sharded.gradients(part, case.x, case.weight)),
        "again": sharded.summed(together.dweight),
        "sizes": sizes,
        "unchanged": torch.equal(part, case.part_of_dy(rank)),
    }


def features(case, rank):
    own = CUTS[rank]
    x, dy, weight = case.x[..., own], case.dy[..., own], case.weight[own]
    (x_hat, _), sizes = listened(sharded.normalize_features, x, H)
    together, all_sizes = listened(sharded.feature_parallel, dy, x, weight, H)
    return {
        "y": x_hat * weight + case.bias[own],
        "together": tuple(together),
        "alone": tuple(sharded.gradients(dy, x, weight)),
        "sizes": (sizes, all_sizes),
    }


def in_a_group_of_one(case, rank):
    """Every function, among the processes of a group that is this one alone."""
    alone = [dist.new_group([each]) for each in range(WORLD)][rank]
    arguments = case.dy, case.x, case.weight
    return [
        tuple(sharded.data_parallel(*arguments, alone)),
        tuple(sharded.sequence_parallel(*arguments, alone)),
        tuple(sharded.tensor_parallel(*arguments, alone)),
        tuple(sharded.feature_parallel(*arguments, H, alone)),
    ]


def wrapped(case, rank):
    """Two of PyTorch's ways of data parallelism, around a model that is swapped."""
    x, dz = (each.chunk(WORLD, dim=1)[rank] for each in (case.x, case.dz))
    linear = nn.Linear(H, K, bias=False, dtype=torch.float64)
    linear.load_state_dict({"weight": case.linear})
    original = nn.Sequential(case.norm(), linear)

    replicated = copy.deepcopy(original)
    outer = lnlib.swap(DistributedDataParallel(replicated))
    outer(x).backward(dz)

    sharded_ = fully_shard(lnlib.swap(original), mesh=init_device_mesh("cpu", (WORLD,)))
    sharded_(x).backward(dz)
    return {
        "classes": [type(model[0]).__name__ for model in (replicated, sharded_)],
        "DistributedDataParallel": [p.grad for p in replicated[0].parameters()],
        "fully_shard": [p.grad.full_tensor() for p in sharded_[0].parameters()],
    }


def as_dtensors(_, rank):
    """PyTorch's own sequence parallelism, which wants equal parts, with its norm and with ours."""
    case = Case(EVEN)
    x, dy = (each.chunk(WORLD, dim=1)[rank] for each in (case.x, case.dy))
    results = []
    for norm in (case.norm(), lnlib.swap(case.norm())):
        mesh = init_device_mesh("cpu", (WORLD,))
        parallelize_module(norm, mesh, SequenceParallel())
        norm(x).to_local().backward(dy)
        grads = [p.grad for p in norm.parameters()]
        results.append([(grad.to_local(), grad.full_tensor()) for grad in grads])
    return results


# What needs no other process


def from_one_end(x, rank, world):
    """Return its positions as counting finds them: one round after another of all processes."""
    sizes = [len(range(each, x.shape[1], world)) for each in range(world)]
    return x[:, sum(sizes[:rank]) : sum(sizes[: rank + 1])]


@pytest.mark.parametrize("T", [3, 5, 6, 7, 8])
def test_the_positions_of_four_processes_make_the_whole_and_differ_by_one_at_most(T):
    x = Case(T).x
    parts = [sharded.own_positions(x, rank, 4) for rank in range(4)]
    assert torch.equal(torch.cat(parts, dim=1), x)
    sizes = [part.shape[1] for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1


@pytest.mark.parametrize("T", [5, 6, 7])
def test_sequence_parallel_takes_the_positions_that_a_process_of_four_has(T, monkeypatch):
    """Where dy is whole already, so that nothing needs to be summed for dx."""
    case = Case(T)
    _, dx, *_ = case.truth()
    monkeypatch.setattr(dist, "all_reduce", lambda *_, **__: None)
    monkeypatch.setattr(dist, "get_world_size", lambda _: 4)
    for rank in range(4):
        monkeypatch.setattr(dist, "get_rank", lambda _, rank=rank: rank)
        own = from_one_end(case.x, rank, 4)
        found = sharded.sequence_parallel(case.dy, own, case.weight)
        assert distance(found.dx, from_one_end(dx, rank, 4)) < ROUNDING


@pytest.mark.parametrize("leading", [(), (1,), (B,), (B, T), (B, 1, T)])
def test_any_number_of_leading_dimensions_counts_as_rows(leading):
    generator = torch.Generator().manual_seed(4)
    x, dy = torch.randn(2, *leading, H, dtype=torch.float64, generator=generator)
    case = Case()
    leaves = [leaf.clone().requires_grad_() for leaf in (x, case.weight, case.bias)]
    truth = torch.autograd.grad(formula.layer_norm(*leaves), leaves, dy)
    for found, true in zip(sharded.gradients(dy, x, case.weight), truth, strict=True):
        assert distance(found, true) < ROUNDING


# What has come of it


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What the two processes found."""
    folder = tmp_path_factory.mktemp("two")
    mp.spawn(worker, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]


@pytest.fixture(scope="module")
def case():
    return Case()


def distance(found, true):
    assert found.shape == true.shape
    return ((found - true).norm() / true.norm()).item()


@pytest.mark.parametrize(
    ("split", "T", "sizes"),
    [
        ("data", T, [H, H]),
        ("sequence", T, [B * T * H, H, H]),  # the first is that of dy
        ("heads", EVEN, [H, H]),
    ],
)
def test_where_rows_are_split_dx_needs_nothing_and_the_parameters_gradients_a_sum(
    split, T, sizes, two
):
    _, dx, *truth = Case(T).truth()
    for result, own in zip(two, ROWS[split](dx), strict=True):
        together, alone = result[split]["together"], result[split]["alone"]
        assert distance(together[0], own) < ROUNDING
        assert distance(alone[0], own) < ROUNDING
        for found, part, true in zip(together[1:], alone[1:], truth, strict=True):
            assert distance(found, true) < ROUNDING
            assert distance(part, true) > WRONG
        assert result[split]["sizes"] == sizes


def test_sequence_parallel_without_the_sum_the_copies_of_the_parameters_drift_apart(case, two):
    """Each process steps by its own gradient: what was one vector is two."""
    stepped = [case.weight - 0.1 * result["sequence"]["alone"][1] for result in two]
    assert distance(*stepped) > WRONG
    stepped = [case.weight - 0.1 * result["sequence"]["together"][1] for result in two]
    assert torch.equal(*stepped)


def test_tensor_parallel_once_dy_is_whole_all_gradients_are_and_another_sum_doubles(case, two):
    _, *truth = case.truth()
    for result in two:
        found = result["tensor"]
        for together, alone, true in zip(found["together"], found["alone"], truth, strict=True):
            assert distance(together, true) < ROUNDING
            assert distance(alone, true) > WRONG
        assert torch.equal(found["again"], 2 * found["together"][1])
        assert found["sizes"] == [B * T * H]
        assert found["unchanged"]
    for ours, theirs in zip(*(result["tensor"]["together"] for result in two), strict=True):
        assert torch.equal(ours, theirs)


def test_features_on_two_processes_cost_two_numbers_a_row_each_way(case, two):
    truth = case.truth()
    for result, own in zip(two, CUTS, strict=True):
        found = result["features"]
        for together, true in zip((found["y"], *found["together"]), truth, strict=True):
            assert distance(together, true[..., own]) < ROUNDING
        forward, both = found["sizes"]
        assert forward == [B * T, B * T]
        assert both == [*forward, 2 * B * T]


def test_statistics_of_half_a_row_are_of_another_norm(case, two):
    """But for the bias, whose gradient knows nothing of them."""
    _, *truth = case.truth()
    for result, own in zip(two, CUTS, strict=True):
        dx, dweight, dbias = result["features"]["alone"]
        assert distance(dx, truth[0][..., own]) > WRONG
        assert distance(dweight, truth[1][own]) > WRONG
        assert distance(dbias, truth[2][own]) < ROUNDING


def test_the_group_decides_who_takes_part(case, two):
    _, *truth = case.truth()
    for result in two:
        for found in result["in_a_group_of_one"]:
            for one, true in zip(found, truth, strict=True):
                assert distance(one, true) < ROUNDING


@pytest.mark.parametrize("wrapper", ["DistributedDataParallel", "fully_shard"])
def test_a_swapped_model_trains_under_pytorchs_data_parallelism(wrapper, case, two):
    """Both divide the sum by the number of processes: theirs is the gradient of a mean."""
    *_, dweight, dbias = case.truth()
    for result in two:
        assert result["wrapped"]["classes"] == ["LayerNorm", "LayerNorm"]
        for found, true in zip(result["wrapped"][wrapper], (dweight, dbias), strict=True):
            assert distance(WORLD * found, true) < ROUNDING


def test_pytorchs_sequence_parallelism_leaves_the_sum_to_whoever_reads_the_whole(two):
    """With our norm as with its own: the gradient is a DTensor, whose local part is a part."""
    *_, dweight, dbias = Case(EVEN).truth()
    for result in two:
        for grads in result["as_dtensors"]:
            for (local, full), true in zip(grads, (dweight, dbias), strict=True):
                assert distance(local, true) > WRONG
                assert distance(full, true) < ROUNDING
