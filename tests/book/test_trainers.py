"""Folds share nothing, and each trainer does what it says and can be repeated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lnlib.book.experiments import characters, mlp, trainers
from lnlib.book.experiments.trainers import (
    FOLDS,
    Fold,
    Perceptron,
    Reader,
    batches,
    classify,
    descend,
    fold,
    in_bits,
    measured,
    read,
    scaled,
    sequences,
    tenths,
    trained,
    write,
)


def test_each_digit_is_tested_on_in_one_fold_and_no_part_shares_one() -> None:
    every = [fold(number) for number in range(FOLDS)]
    assert [len(labels) for labels in (part[1] for part in every[0])] == [7000, 1000, 2000]
    shares = [part[1].bincount() / len(part[1]) for part in every[0]]
    assert max((a - b).abs().max() for a in shares for b in shares) < 2e-3
    tested = np.concatenate([one.test[0].flatten(1).sum(1) for one in every])
    parts = np.concatenate([part[0].flatten(1).sum(1) for part in every[2]])
    assert sorted(tested) == sorted(parts)


def test_each_pass_reads_every_row_once_and_in_another_order() -> None:
    numbers = torch.arange(100)
    read = batches((numbers, numbers), 64, seed=0)
    one, other = (torch.cat([next(read)[1], next(read)[1]]) for _ in range(2))
    assert not torch.equal(one, other)
    assert torch.equal(one.sort().values, numbers)
    assert torch.equal(other.sort().values, numbers)


def test_what_is_frozen_does_not_move_and_the_rate_falls_to_zero() -> None:
    gammas = []
    start = trained(0.1, 0, steps=0)
    net = trained(0.1, 0, learns="norms", steps=4, after=lambda net, _: gammas.append(gamma(net)))
    assert torch.equal(net[1].weight, start[1].weight)
    steps = [(b - a).norm() for a, b in itertools.pairwise([gamma(start), *gammas])]
    assert 0 < steps[3] < steps[0] / 2


def gamma(net: Perceptron) -> torch.Tensor:
    return net.norms[1].weight.detach().clone()


@pytest.mark.parametrize("spared", [True, False])
def test_decay_spares_biases_and_where_it_is_asked_to_the_norms(spared: bool) -> None:
    start, net = (trained(1e-9, 0, decay=decay, spared=spared, steps=3) for decay in (0.0, 1e8))
    assert net[1].weight.norm() < 0.9 * start[1].weight.norm()
    torch.testing.assert_close(net[1].bias, start[1].bias)
    assert bool(gamma(net).min() > 0.99) is spared


def test_loss_and_error_are_those_of_their_part() -> None:
    net, digits = trained(0.1, 0, gamma=0.1, steps=0), fold(0)
    found = measured(net, digits)
    for part in ("valid", "test"):
        images, labels = getattr(digits, part)
        wrong = (net(images).argmax(1) != labels).double().mean().item()
        assert found[f"{part}_error"] == wrong
    assert gamma(net).unique().tolist() == pytest.approx([0.1])


@pytest.mark.parametrize(("warmup", "shares"), [
    (0, [1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
    (2, [2 / 4, 1, 1, 3 / 4, 2 / 4, 1 / 4]),
])  # fmt: skip
def test_the_rate_grows_over_the_warm_up_and_then_falls_to_zero(
    warmup: int, shares: list[float]
) -> None:
    net = nn.Linear(3, 2)
    optimizer, rates = torch.optim.SGD(net.parameters(), lr=0.5), []
    rows = itertools.repeat((torch.randn(4, 3), torch.tensor([0, 1, 1, 0])))
    watch = lambda step: rates.append(optimizer.param_groups[0]["lr"])  # noqa: E731
    descend(net, optimizer, rows, 6, watch, warmup=warmup)
    assert rates == pytest.approx([0.5 * share for share in shares])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Fold:
    """A fold of some digits."""
    some = Fold(*((images[::31], labels[::31]) for images, labels in fold(0)))
    monkeypatch.setattr(trainers, "fold", lambda seed: some)
    return some


@pytest.mark.parametrize("norm", mlp.NORMS)
def test_a_seed_repeats_a_training_and_batch_norm_keeps_what_all_digits_have(
    norm: str, few: Fold
) -> None:
    state = torch.get_rng_state()
    first, again = (classify(norm, 0.01, 1, epochs=4, batch=16, hidden=13) for _ in range(2))
    other = classify(norm, 0.01, 2, epochs=4, batch=16, hidden=13)
    assert torch.equal(torch.get_rng_state(), state)
    images = few.test[0]
    assert torch.equal(first(images), again(images))
    assert not torch.equal(first(images), other(images))
    train = few.train[0]
    a = first.linear[0](train.flatten(1))
    if norm.startswith("batch"):
        torch.testing.assert_close(first.norm[0].running_mean, a.mean(0))
    assert not first.training
    assert measured(first, few)["test_loss"] < 2.0


PIXELS = torch.arange(2 * 28 * 28).reshape(2, 28, 28) / 2000  # no two alike


def test_rows_and_pixels_are_read_from_the_top_and_along_each_row() -> None:
    assert torch.equal(sequences(PIXELS, "rows"), PIXELS)
    steps = sequences(PIXELS, "coarse")
    assert steps.shape == (2, 196, 1)
    torch.testing.assert_close(steps[1, 14 * 3 + 5, 0], PIXELS[1, 6:8, 10:12].mean())


@pytest.mark.parametrize("units", ["standardized", "raw", "bytes"])
@pytest.mark.parametrize("layout", ["rows", "coarse"])
def test_a_reader_sees_the_units_and_the_layout_that_it_is_asked_for(
    units: str, layout: str
) -> None:
    net, seen = Reader("strong LSTM", units, layout, hidden=5), list[Tensor]()
    net.recurrent.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    assert net(fold(0).test[0][:3]).shape == (3, 10)
    assert seen[0].shape == ((28, 3, 28) if layout == "rows" else (196, 3, 1))
    paper = {"standardized": -0.1307 / 0.3081, "raw": 0.0, "bytes": 0.0}[units]
    assert seen[0].min() == pytest.approx(paper)
    # The constants are those of all 60,000 digits of MNIST.
    deviation = {"standardized": 1, "raw": 0.3081, "bytes": 255 * 0.3081}[units]
    assert scaled(fold(0).train[0], units).std() == pytest.approx(deviation, rel=0.01)


def test_a_strong_lstm_remembers_at_first() -> None:
    lstm = Reader("strong LSTM", hidden=9).recurrent
    assert lstm.bias_ih_l0.view(4, 9).mean(1).tolist() == [0, 1, 0, 0]
    assert not lstm.bias_hh_l0.any()
    gate = lstm.weight_hh_l0.view(4, 9, 9)[2]
    torch.testing.assert_close(gate @ gate.T, torch.eye(9))


def test_a_reader_learns(few: Fold) -> None:
    found = measured(read("layer norm", 0.01, 0, epochs=3, batch=16, hidden=16), few)
    assert found["test_error"] < 0.8


# The novel


def test_each_tenth_of_the_novel_is_held_out_once_and_read_by_no_other_part() -> None:
    whole = characters.persuasion().numbers
    folds = [tenths(number) for number in range(FOLDS)]
    held = torch.cat([part for one in folds for part in (one.valid, one.test)])
    assert torch.equal(held, whole)
    assert torch.equal(tenths(7).test, folds[2].test)
    for one in folds:
        before, after = one.train
        assert torch.equal(torch.cat([before, one.valid, one.test, after]), whole)


def test_no_stretch_goes_over_what_is_held_out() -> None:
    parts = torch.arange(0, 20), torch.arange(100, 130)
    x, y = next(trainers.stretches(parts, 0, count=500, context=6))
    assert torch.equal(y, x + 1)
    assert torch.equal(x[:, 1:], x[:, :-1] + 1)
    assert {*x[:, 0].tolist()} == {*range(14), *range(100, 124)}


def test_a_transformer_with_zeros_begins_with_blocks_that_do_nothing() -> None:
    net = write("no norm, zeros", 0.01, 0, steps=0)
    x = torch.randn(2, 5, 64)
    assert torch.equal(net.blocks(x), x)
    other = write("no norm", 0.01, 0, steps=0)
    assert not torch.equal(other.blocks(x), x)
    torch.testing.assert_close(net.logits.weight, other.logits.weight)


def test_it_learns_what_follows_what_and_a_seed_repeats_it() -> None:
    first, again = (write("noisy", 0.01, 3, steps=8, warmup=2) for _ in range(2))
    novel = tenths(3)
    bits = in_bits(first, novel)
    assert bits == in_bits(again, novel)
    assert bits["test_bits"] < math.log2(75) - 0.5


def test_bits_are_those_of_every_second_stretch() -> None:
    net, novel = write("layer norm", 0.01, 0, steps=0), tenths(0)
    short = novel._replace(valid=novel.valid[:200], test=novel.test[:70])
    read: list[Tensor] = [short.valid[:65], short.valid[128:193]]
    expected = characters.bits(net, torch.stack(read)).item()
    found = in_bits(net, short)
    assert found["valid_bits"] == pytest.approx(expected)
    assert found["test_bits"] == pytest.approx(characters.bits(net, short.test[None, :65]).item())
