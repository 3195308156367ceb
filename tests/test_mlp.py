"""The network of section 6.6: its norms are what they say, and a run records what happened."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lnlib
from lnlib import formula
from lnlib.book.experiments import mlp
from lnlib.book.experiments.mlp import (
    BatchNorm,
    Config,
    DetachedLayerNorm,
    NoisyLayerNorm,
    build,
    run,
)

TINY = Config(hidden=13, rows=50, batch=16, epochs=3)  # the last batch has 2 rows
ROUNDING = 1e-12  # float64: a few sums of at most a thousand terms of size 1


@pytest.fixture(scope="module")
def data() -> mlp.Rows:
    """The first few of each part."""
    whole = mlp.permutation_invariant_mnist()
    return mlp.Rows(*((x[:60], labels[:60]) for x, labels in whole))


@pytest.fixture
def rows() -> Tensor:
    """Awkward rows: one constant, one far from zero."""
    torch.manual_seed(0)
    x = torch.randn(7, 5, dtype=torch.float64)
    x[2], x[3] = 4.0, 1e3 + x[3]
    return x


def random_affine(norm: nn.Module) -> nn.Module:
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm.double()


# The digits


def test_every_digit_has_its_share_in_each_part() -> None:
    parts = mlp.permutation_invariant_mnist()
    assert [tuple(x.shape) for x, _ in parts] == [(7000, 784), (1000, 784), (2000, 784)]
    shares = [labels.bincount(minlength=10) / len(labels) for _, labels in parts]
    for share in shares[1:]:
        assert (share - shares[0]).abs().max() < 1.5e-3  # a part may round each by one digit


def test_no_image_is_in_two_parts() -> None:
    images = torch.cat([x for x, _ in mlp.permutation_invariant_mnist()])
    assert len(images.unique(dim=0)) == 10_000


# The norms


def test_the_small_batch_is_divided_by_its_unbiased_deviation(rows: Tensor) -> None:
    norm = random_affine(BatchNorm(5))
    var, mean = torch.var_mean(rows, dim=0, correction=1)
    expected = norm.weight * (rows - mean) / (var + norm.eps).sqrt() + norm.bias
    torch.testing.assert_close(norm(rows), expected, rtol=ROUNDING, atol=ROUNDING)


def test_running_statistics_are_pytorchs(rows: Tensor) -> None:
    ours, pytorch = BatchNorm(5).double(), nn.BatchNorm1d(5).double()
    ours(rows), pytorch(rows)
    torch.testing.assert_close(ours.running_mean, pytorch.running_mean)
    torch.testing.assert_close(ours.running_var, pytorch.running_var)
    torch.testing.assert_close(ours.eval()(rows), pytorch.eval()(rows))


def test_detached_is_layer_norm_forward_and_a_fixed_affine_map_backward(rows: Tensor) -> None:
    norm = random_affine(DetachedLayerNorm(5))
    x = rows.requires_grad_()
    y = norm(x)
    expected = formula.layer_norm(rows, norm.weight, norm.bias)
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-9)
    dy = torch.randn_like(y)
    (dx,) = torch.autograd.grad(y, x, dy)
    rstd = formula.terms(rows.detach()).rstd
    torch.testing.assert_close(dx, rstd * norm.weight * dy, rtol=1e-9, atol=1e-9)


def test_noise_moves_each_feature_anew_at_every_step_and_is_gone_in_evaluation() -> None:
    torch.manual_seed(1)
    norm, x = NoisyLayerNorm(6).double(), torch.randn(4000, 6, dtype=torch.float64)
    clean = formula.layer_norm(x)
    first, second = norm(x), norm(x)
    shifts = torch.stack([(y - clean).mean(0) for y in (first, second)])  # scale adds 0 on average
    assert (shifts[0] - shifts[1]).abs().min() > 1e-3  # four deviations of a mean are 2e-3 apart
    assert 0.3 < shifts.abs().max() < 0.5 + 0.02
    slope = (first * clean).mean(0) / (clean * clean).mean(0)
    assert ((slope > 0.98) & (slope < 1.27)).all()
    torch.testing.assert_close(norm.eval()(x), clean)


@pytest.mark.parametrize("norm", mlp.NORMS)
def test_each_hidden_layer_is_normed_and_the_logits_only_by_the_papers_batch_norm(
    norm: str,
) -> None:
    hidden = {
        "none": nn.Identity,
        "weight": nn.Identity,
        "batch": nn.BatchNorm1d,
        "batch-hidden": nn.BatchNorm1d,
        "rms": nn.RMSNorm,
    }.get(norm, nn.LayerNorm)
    model = build(replace(TINY, norm=norm, batch=128))
    kinds = [type(each) for each in model.norm]
    assert all(issubclass(kind, (hidden, lnlib.LayerNorm)) for kind in kinds[:2])
    assert issubclass(kinds[2], nn.BatchNorm1d if norm == "batch" else nn.Identity)
    assert type(build(replace(TINY, norm="batch", batch=4)).norm[0]) is BatchNorm


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_the_network_is_the_equations_of_the_paper(norm: str, data: mlp.Rows) -> None:
    model = build(replace(TINY, norm=norm)).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    x = data.train[0].double()
    h = x
    for linear, normed in zip(model.linear[:2], model.norm[:2], strict=True):
        a = h @ linear.weight.T
        if norm == "layer":
            a = formula.layer_norm(a, normed.weight, normed.bias)  # eq. 5: its bias is the layer's
        h = (a if norm == "layer" else a + linear.bias).clamp(min=0)
    expected = h @ model.linear[2].weight.T + model.linear[2].bias
    torch.testing.assert_close(model(x), expected, rtol=1e-9, atol=1e-9)


def test_a_normed_layer_learns_one_bias() -> None:
    for norm in ("batch", "layer", "rms"):
        assert build(replace(TINY, norm=norm)).linear[0].bias is None
    for norm in ("none", "weight"):
        assert build(replace(TINY, norm=norm)).linear[0].bias is not None


def test_a_seed_decides_the_matrices_whatever_the_norm() -> None:
    first = [build(replace(TINY, norm=norm)).linear[0].weight for norm in ("none", "layer")]
    assert first[0].shape == first[1].shape == (13, 784)
    again, other = build(TINY), build(replace(TINY, seed=1))
    assert torch.equal(again.linear[2].weight, build(TINY).linear[2].weight)
    assert not torch.equal(again.linear[0].weight, other.linear[0].weight)


# Runs


def without_seconds(records: list[mlp.Record]) -> list[mlp.Record]:
    return [record._replace(seconds=0.0, cpu_seconds=0.0) for record in records]


@pytest.mark.parametrize("norm", mlp.NORMS)
def test_a_run_is_repeated_to_the_last_bit(norm: str, data: mlp.Rows) -> None:
    config = replace(TINY, norm=norm)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    once, again = (without_seconds(list(run(config, data))) for _ in range(2))
    assert once == again
    assert torch.equal(before, torch.get_rng_state())  # nobody else's random numbers change
    assert once != without_seconds(list(run(replace(config, seed=1), data)))


def test_the_seed_decides_the_order_of_the_digits_too(
    data: mlp.Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "build", lambda config: build(replace(config, seed=0)))
    (first,), (second,) = (run(replace(TINY, seed=seed, epochs=1), data) for seed in (0, 1))
    assert first.train_loss != second.train_loss


def test_only_the_first_rows_are_trained_on(data: mlp.Rows) -> None:
    x, labels = data.train
    others = data._replace(train=(torch.cat([x[:50], 1 - x[50:]]), labels))
    once, again = (without_seconds(list(run(TINY, each))) for each in (data, others))
    assert once == again


def test_the_loss_falls_and_seconds_add_up(data: mlp.Rows) -> None:
    records = list(run(replace(TINY, epochs=8, lr=1e-2), data))
    assert [record.epoch for record in records] == list(range(1, 9))
    assert records[-1].train_loss < 0.8 * records[0].train_loss
    for seconds in ([r.cpu_seconds for r in records], [r.seconds for r in records]):
        assert all(early < late for early, late in itertools.pairwise(seconds))


@pytest.mark.parametrize("norm", ["none", "batch-hidden"])
def test_a_record_holds_the_losses_of_the_network_in_evaluation(norm: str, data: mlp.Rows) -> None:
    config = replace(TINY, norm=norm, rows=60, batch=60, epochs=2)
    first, second = run(config, data)
    model = build(config)
    before = F.cross_entropy(model(data.train[0]), data.train[1])
    assert first.train_loss == pytest.approx(before.item(), rel=1e-6)  # one batch: before its step
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    before.backward()
    optimizer.step()
    for (x, labels), loss, error in zip(
        (data.valid, data.test),
        (first.valid_loss, first.test_loss),
        (first.valid_error, first.test_error),
        strict=True,
    ):
        logits = model.eval()(x)
        assert loss == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)
        assert error == (logits.argmax(1) != labels).double().mean().item()
    assert second.train_loss == pytest.approx(
        F.cross_entropy(model.train()(data.train[0]), data.train[1]).item(), rel=1e-5
    )


def test_only_batch_norm_answers_otherwise_with_the_batchs_statistics(data: mlp.Rows) -> None:
    for norm in mlp.NORMS:
        (record,) = run(replace(TINY, norm=norm, epochs=1), data)
        same = record.test_loss == record.test_loss_batch
        assert same == (not norm.startswith("batch"))


def test_testing_with_the_batchs_statistics_leaves_the_running_ones(data: mlp.Rows) -> None:
    model = build(replace(TINY, norm="batch"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    mlp._by_batch(replace(TINY, norm="batch"), model, data, (0.0, 0.0))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_losses_do_not_depend_on_how_the_rows_are_split(data: mlp.Rows) -> None:
    model = build(TINY)
    whole, parts = mlp.losses(model, data.test, 60), mlp.losses(model, data.test, 7)
    assert parts == pytest.approx(whole, rel=1e-5)


def test_a_briefly_trained_network_knows_more_and_the_callers_chance_is_left(
    data: mlp.Rows,
) -> None:
    state = torch.get_rng_state()
    first, last = (mlp.trained("batch", data.train, steps=steps) for steps in (0, 60))
    assert torch.equal(torch.get_rng_state(), state)
    assert mlp.losses(last.eval(), data.train)[0] < 0.7 * mlp.losses(first.eval(), data.train)[0]
    assert first.linear[0].weight.shape == (100, mlp.PIXELS)


def test_training_until_a_loss_stops_at_the_first_step_below_it(data: mlp.Rows) -> None:
    for norm in ("none", "layer"):
        model = mlp.until(1.5, norm, data.train, torch.optim.SGD, 0.03, seed=1)
        reached, _ = mlp.losses(model, data.train)
        assert 1.3 < reached < 1.5
    with pytest.raises(RuntimeError, match="does not come down to -1"):
        mlp.until(-1, "none", (data.train[0][:1], data.train[1][:1]), torch.optim.SGD, 0.0, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"norm": "group"}, "norm is 'group', expected one of none, batch"),
        ({"batch": 0}, "batch is 0, expected a positive number"),
        ({"lr": -1e-3}, "lr is -0.001, expected a positive number"),
        ({"epochs": 0}, "epochs is 0"),
        ({"rows": -5}, "rows is -5"),
        ({"hidden": 0}, "hidden is 0"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Config(**wrong)
