"""Training can be stopped, resumed and spread, and the weights at the end are the same."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from lnlib.book.experiments import recurrent
from lnlib.book.experiments.recurrent import Config, Place, accumulate, build, run, shared
from lnlib.book.experiments.trainers import Fold

WORLD = 2
TINY = Config(hidden=6, batch=10, epochs=3)
ROUNDING = 1e-12  # relative, float64: sums of a few hundred terms, in another order


def data():
    """34 digits to train on, so that the last batch has 4, and 21 to test on."""
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(55, 28, 28, generator=generator)
    labels = torch.randint(10, (55,), generator=generator)
    return Fold((x[:34], labels[:34]), (x[34:], labels[34:]), (x[34:], labels[34:]))


def weights(path):
    state = torch.load(path, weights_only=True)["model"]
    return torch.cat([each.flatten() for each in state.values()])


def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_interrupted(tmp_path):
    state = torch.get_rng_state()
    whole = list(run(TINY, tmp_path / "whole.pt", data()))
    cut = run(TINY, tmp_path / "cut.pt", data())
    first = next(cut)
    cut.close()
    resumed = list(run(TINY, tmp_path / "cut.pt", data()))
    assert [first, *resumed[1:]] == whole == list(run(TINY, None, data()))
    assert torch.equal(weights(tmp_path / "whole.pt"), weights(tmp_path / "cut.pt"))
    assert torch.equal(state, torch.get_rng_state())
    assert whole != list(run(replace(TINY, seed=1), None, data()))


def test_a_digit_is_seen_once_in_every_epoch(monkeypatch):
    seen = []

    def spy(model, x, labels, here):
        seen.extend(x[:, 0, 0].tolist())
        return accumulate(model, x, labels, here)

    monkeypatch.setattr(recurrent, "accumulate", spy)
    list(run(replace(TINY, epochs=2), None, data()))
    assert sorted(seen[:34]) == sorted(seen[34:]) == sorted(data().train[0][:, 0, 0].tolist())
    assert seen[:34] != seen[34:]


def test_records_hold_the_mean_loss_of_the_epoch_and_the_errors_after_it():
    """At a rate too small to move the weights, both can be computed afterwards."""
    config = replace(TINY, rate=1e-30, epochs=1)
    (record,) = run(config, None, data())
    model, (images, labels) = build(config), data().train
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    assert record.train_loss == pytest.approx(loss.item(), rel=1e-5)
    images, labels = data().test
    assert record.test_error == (model(images).argmax(1) != labels).double().mean().item()


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_what_is_no_checkpoint_of_this_run_is_refused_and_left_as_it_is(content, tmp_path):
    path = tmp_path / "run.pt"
    if content is None:
        list(run(replace(TINY, epochs=1), path, data()))
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="name another file"):
        run(TINY, path, data())
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"kind": "gru"}, "kind is 'gru', expected one of LSTM; strong LSTM"),
        ({"rate": float("nan")}, "rate is nan, expected a positive number"),
        ({"batch": 0}, "batch is 0"),
    ],
)
def test_a_run_that_cannot_be_is_refused(option, words, capsys):
    with pytest.raises(ValueError, match=words):
        Config(**option)
    ((name, value),) = option.items()
    with pytest.raises(SystemExit, match="2"):
        recurrent.main([f"--{name}", str(value)])
    assert words[:10] in capsys.readouterr().err


def test_a_batch_too_small_for_the_processes_is_an_error(monkeypatch):
    monkeypatch.setattr(recurrent, "place", lambda: Place(0, 5))
    with pytest.raises(ValueError, match="a batch of 4 digits is too small for 5 processes"):
        run(TINY, None, data())


def gradients(here):
    """Return all gradients of the mean loss over seven digits, as one vector."""
    model = build(TINY).double()
    images, labels = data().train
    accumulate(shared(model, here), images[:7].double(), labels[:7], here)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def worker(rank, folder):
    """Save what one of two processes sees: gradients, and a whole run."""
    torch.set_num_threads(1)
    meet = f"file://{folder}/meet"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=WORLD)
    found = gradients(recurrent.place())
    records = [list(record) for record in run(TINY, f"{folder}/two.pt", data())]
    torch.save({"gradients": found, "records": records}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.tier("all")
def test_two_processes_do_what_one_does_even_if_their_parts_are_unequal(tmp_path):
    """Seven digits are four and three: a plain mean over processes would be wrong."""
    mp.spawn(worker, args=(str(tmp_path),), nprocs=WORLD)
    true, single = gradients(Place(0, 1)), list(run(TINY, tmp_path / "one.pt", data()))
    for rank in range(WORLD):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert (found["gradients"] - true).norm() < ROUNDING * true.norm()
        for (_, loss, _), expected in zip(found["records"], single, strict=True):
            assert loss == pytest.approx(expected.train_loss, rel=1e-5)  # float32
    # Adam divides by the size of the gradient, so rounding of a tiny one may move a weight.
    both, one = (weights(tmp_path / f"{name}.pt") for name in ("two", "one"))
    assert (both - one).norm() < 1e-3 * one.norm()


@pytest.mark.tier("all")
def test_torchrun_starts_it_and_the_first_process_reports(tmp_path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--local-addr", "localhost", "--nproc-per-node", "2"]
    launcher += ["-m", "lnlib.book.experiments.recurrent", "--hidden", "4", "--epochs", "1"]
    done = subprocess.run(
        [*launcher, "--checkpoint", str(tmp_path / "run.pt")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 1: loss") == 1
    assert len(weights(tmp_path / "run.pt")) > 0
