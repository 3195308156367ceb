"""The network of section 6.6: its norms are what they say, and it is the paper's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lnlib
from lnlib import formula
from lnlib.book.experiments import mlp
from lnlib.book.experiments.mlp import BatchNorm, build
from lnlib.book.experiments.trainers import fold

ROUNDING = 1e-12  # float64: a few sums of at most a thousand terms of size 1


@pytest.fixture(scope="module")
def rows() -> tuple[Tensor, Tensor]:
    images, labels = fold(0).train
    return images[::117], labels[::117]


def awkward() -> Tensor:
    """Rows of which one is constant, and one far from zero."""
    torch.manual_seed(0)
    x = torch.randn(7, 5, dtype=torch.float64)
    x[2], x[3] = 4.0, 1e3 + x[3]
    return x


def test_the_small_batch_is_divided_by_its_unbiased_deviation() -> None:
    norm, x = BatchNorm(5).double(), awkward()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    var, mean = torch.var_mean(x, dim=0, correction=1)
    expected = norm.weight * (x - mean) / (var + norm.eps).sqrt() + norm.bias
    torch.testing.assert_close(norm(x), expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("momentum", [0.1, 1.0])
def test_running_statistics_are_pytorchs(momentum: float) -> None:
    ours, pytorch = (kind(5, momentum=momentum).double() for kind in (BatchNorm, nn.BatchNorm1d))
    ours(awkward()), pytorch(awkward())
    torch.testing.assert_close(ours.running_mean, pytorch.running_mean)
    torch.testing.assert_close(ours.running_var, pytorch.running_var)
    torch.testing.assert_close(ours.eval()(awkward()), pytorch.eval()(awkward()))


@pytest.mark.parametrize("norm", mlp.NORMS)
def test_each_hidden_layer_is_normed_and_the_logits_only_by_the_papers_batch_norm(
    norm: str,
) -> None:
    kinds = {"none": nn.Identity, "layer": lnlib.LayerNorm, "rms": nn.RMSNorm}
    assert type(build("batch", 4, 13, seed=0).norm[0]) is BatchNorm  # at small batches, the paper's
    model = build(norm, 128, 13, seed=0)
    hidden = kinds.get(norm, nn.BatchNorm1d)
    last = nn.BatchNorm1d if norm == "batch" else nn.Identity
    assert [type(each) for each in model.norm] == [hidden, hidden, last]
    assert [layer.bias is None for layer in model.linear] == [norm != "none"] * 2 + [
        norm == "batch"
    ]


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_the_network_is_the_equations_of_the_paper(norm: str, rows: tuple[Tensor, Tensor]) -> None:
    model = build(norm, 16, 13, seed=0).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    x = rows[0].double()
    h = x.flatten(1)
    for linear, normed in zip(model.linear[:2], model.norm[:2], strict=True):
        a = h @ linear.weight.T
        if norm == "layer":
            a = formula.layer_norm(a, normed.weight, normed.bias)  # eq. 5: its bias is the layer's
        h = (a if norm == "layer" else a + linear.bias).clamp(min=0)
    expected = h @ model.linear[2].weight.T + model.linear[2].bias
    torch.testing.assert_close(model(x), expected, rtol=1e-9, atol=1e-9)


def test_a_seed_decides_the_matrices_which_are_hes_whatever_the_norm() -> None:
    none, layer, other = (build(*what) for what in NETWORKS)
    assert torch.equal(none.linear[0].weight, layer.linear[0].weight)
    assert not torch.equal(none.linear[0].weight, other.linear[0].weight)
    for linear in none.linear:
        mean_square = linear.weight.detach().square().mean() * linear.in_features
        assert mean_square == pytest.approx(2.0, rel=0.15)  # 1,000 numbers: three deviations
        assert not linear.bias.any()


NETWORKS = [("none", 16, 100, 0), ("layer", 16, 100, 0), ("none", 16, 100, 1)]


def loss(model: nn.Module, rows: tuple[Tensor, Tensor]) -> float:
    return F.cross_entropy(model(rows[0]), rows[1]).item()


def test_training_until_a_loss_stops_at_the_first_step_below_it(
    rows: tuple[Tensor, Tensor],
) -> None:
    for norm in ("none", "layer"):
        model = mlp.until(1.5, norm, rows, torch.optim.SGD, 0.03, seed=1)
        assert 1.3 < loss(model, rows) < 1.5
    with pytest.raises(RuntimeError, match="does not come down to -1"):
        mlp.until(-1, "none", (rows[0][:1], rows[1][:1]), torch.optim.SGD, 0.0, 0)
