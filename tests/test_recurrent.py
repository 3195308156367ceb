"""Training can be stopped, resumed, spread and killed, and the weights at the end are the same."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from lnlib.book.experiments import recurrent
from lnlib.book.experiments.recurrent import Config, Place, accumulate, build, run, shared, trained
from lnlib.book.experiments.sequential_mnist import Sequences

WORLD = 2
ALONE = Place(0, 1, torch.device("cpu"))
TINY = Config(hidden=6, batch=10, rows=34, epochs=4)  # the last batch has 4 rows
RUN = replace(TINY, epochs=3)  # what two processes do together, on digits
ROUNDING = 1e-12  # relative, float64: sums of a few hundred terms, in another order


@pytest.fixture
def data():
    """34 sequences to train on and 21 to test on."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(55, 5, 28, generator=generator)
    labels = torch.randint(10, (55,), generator=generator)
    return Sequences(x[:34], labels[:34], x[34:], labels[34:])


def weights(model):
    return torch.cat([each.detach().flatten() for each in model.state_dict().values()])


# Alone


@pytest.mark.parametrize("model", recurrent.MODELS)
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_interrupted(model, data, tmp_path):
    config = replace(TINY, model=model)
    whole = list(run(config, tmp_path / "whole.pt", data))
    cut = run(config, tmp_path / "cut.pt", data)
    for _ in range(2):
        next(cut)
    cut.close()
    resumed = list(run(config, tmp_path / "cut.pt", data))
    timeless = [
        [r._replace(seconds=0.0, cpu_seconds=0.0) for r in each] for each in (whole, resumed)
    ]
    assert timeless[0] == timeless[1]
    ends = [weights(trained(config, tmp_path / f"{name}.pt")) for name in ("whole", "cut")]
    assert torch.equal(*ends)


def test_a_resumed_run_tells_of_the_epochs_before_and_goes_on_counting(data, tmp_path):
    first = list(run(replace(TINY), tmp_path / "run.pt", data))
    again = list(run(TINY, tmp_path / "run.pt", data))
    assert again == first
    assert [record.epoch for record in first] == [1, 2, 3, 4]
    assert [record.rows_seen for record in first] == [34, 68, 102, 136]
    for name in ("seconds", "cpu_seconds"):
        seconds = [getattr(record, name) for record in first]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0


def test_a_run_without_a_checkpoint_is_the_same_run(data, tmp_path):
    kept, forgotten = list(run(TINY, tmp_path / "run.pt", data)), list(run(TINY, None, data))
    assert [r.train_loss for r in kept] == [r.train_loss for r in forgotten]


def test_the_seed_decides_weights_and_order_and_the_state_of_torch_is_left_alone(data):
    before = torch.get_rng_state()
    one, same, other = (
        [r.train_loss for r in run(replace(TINY, seed=seed), None, data)] for seed in (0, 0, 1)
    )
    assert one == same
    assert one != other
    assert torch.equal(before, torch.get_rng_state())


def test_what_layers_draw_differs_from_epoch_to_epoch_and_with_the_seed(data, monkeypatch):
    drawn = []

    def spy(*arguments):
        drawn.append(torch.rand(()).item())
        return accumulate(*arguments)

    monkeypatch.setattr(recurrent, "accumulate", spy)
    for seed in (0, 1):
        list(run(replace(TINY, seed=seed, epochs=2), None, data))
    assert len(set(drawn)) == len(drawn) == 16


def test_a_row_is_seen_once_in_every_epoch(data, monkeypatch):
    seen = []

    def spy(model, x, labels, here):
        seen.extend(x[:, 0, 0].tolist())
        return accumulate(model, x, labels, here)

    monkeypatch.setattr(recurrent, "accumulate", spy)
    list(run(replace(TINY, epochs=2), None, data))
    rows = sorted(data.train[:, 0, 0].tolist())
    assert sorted(seen[:34]) == sorted(seen[34:]) == rows
    assert seen[:34] != seen[34:]


def test_records_hold_the_mean_loss_of_the_epoch_and_the_accuracy_after_it(data, tmp_path):
    """At a rate too small to move the weights, both can be computed afterwards."""
    config = replace(TINY, lr=1e-30, epochs=1)
    (record,) = run(config, tmp_path / "run.pt", data)
    model = trained(config, tmp_path / "run.pt").double()
    logits = model(data.train.double().transpose(0, 1))
    loss = nn.functional.cross_entropy(logits, data.train_labels).item()
    assert record.train_loss == pytest.approx(loss, rel=1e-5)  # float32 there, float64 here
    answers = model(data.test.double().transpose(0, 1)).argmax(1)
    assert record.test_accuracy == (answers == data.test_labels).double().mean().item()


def test_training_learns_digits():
    """Who guesses is right on 10 % of 2,000 digits, give or take 0.7 %."""
    *_, last = run(Config(hidden=24, rows=400, epochs=4, lr=1e-2, batch=32))
    assert last.test_accuracy > 0.3


def test_the_gradient_is_clipped_to_the_norm_that_is_asked_for(data, monkeypatch):
    norms = []
    step = torch.optim.Adam.step

    def spy(self):
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        norms.append(torch.cat([grad.flatten() for grad in grads]).norm().item())
        return step(self)

    monkeypatch.setattr(torch.optim.Adam, "step", spy)
    list(run(replace(TINY, clip=1e-3, epochs=1), None, data))
    assert norms == pytest.approx([1e-3] * 4, rel=1e-4)


def test_gammas_and_zero_biases_are_those_of_all_norms_and_of_the_layer():
    model = build(replace(TINY, gamma=0.25, zero_bias=True)).recurrent
    for name, parameter in model.named_parameters():
        if "norm" in name and "weight" in name:
            assert (parameter == 0.25).all()
        elif "bias" in name:
            assert (parameter == 0).all()
        else:
            assert parameter.std() > 0.1


@pytest.mark.parametrize(("model", "gamma"), [("ln-lstm", 1.0), ("bn-lstm", 0.1)])
def test_the_gamma_of_the_model_is_its_own_unless_one_is_given(model, gamma):
    parameters = build(replace(TINY, model=model)).recurrent.named_parameters()
    gammas = [p for name, p in parameters if "norm" in name and "weight" in name]
    assert len(gammas) == 3
    assert all((each == gamma).all() for each in gammas)


def test_carries_differ():
    raw, normalized = (build(replace(TINY, model=m)) for m in ("ln-lstm", "ln-lstm-normalized"))
    assert torch.equal(weights(raw), weights(normalized))
    x = torch.randn(5, 3, 28, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(raw(x), normalized(x))


# Checkpoints


def test_the_checkpoint_of_another_run_is_refused_and_left_as_it_is(data, tmp_path):
    path = tmp_path / "run.pt"
    list(run(replace(TINY, epochs=1), path, data))
    before = path.read_bytes()
    other = replace(TINY, epochs=1, lr=0.5, seed=3)
    with pytest.raises(ValueError, match=r"another run: lr 0\.001 there, 0\.5 here; seed 0 there"):
        run(other, path, data)
    with pytest.raises(ValueError, match="another run"):
        trained(other, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"no checkpoint", None])
def test_a_damaged_or_foreign_file_is_refused_and_left_as_it_is(content, data, tmp_path):
    path = tmp_path / "run.pt"
    if content is None:
        torch.save({"weights": torch.ones(3)}, path)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"no checkpoint( of this script)?: name another file"):
        run(TINY, path, data)
    assert path.read_bytes() == before


def test_a_checkpoint_cannot_run_code(data, tmp_path):
    path = tmp_path / "run.pt"
    torch.save({"config": Path("anything that is no number and no tensor")}, path)
    with pytest.raises(ValueError, match="no checkpoint"):
        run(TINY, path, data)


def test_a_crash_while_writing_leaves_the_last_checkpoint(data, tmp_path, monkeypatch):
    path = tmp_path / "run.pt"
    running = run(TINY, path, data)
    next(running)
    before = path.read_bytes()
    save = torch.save

    def crash(state, file):
        save(state, file)
        file.truncate(100)
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", crash)
    with pytest.raises(KeyboardInterrupt):
        next(running)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert len(list(run(TINY, path, data))) == TINY.epochs


def test_the_network_of_a_checkpoint_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        trained(TINY, tmp_path / "run.pt")


# What is asked for


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gru"}, "model is 'gru', expected one of lstm, ln-lstm"),
        ({"layout": "columns"}, "layout is 'columns'"),
        ({"scaling": "z"}, "scaling is 'z'"),
        ({"lr": 0.0}, r"lr is 0\.0, expected a positive number"),
        ({"lr": float("nan")}, "lr is nan, expected a positive number"),
        ({"batch": 0}, "batch is 0"),
        ({"epochs": -1}, "epochs is -1"),
        ({"model": "lstm", "gamma": 0.1}, "has no norm, so no gamma"),
    ],
)
def test_a_run_that_cannot_be_is_refused(options, words, capsys):
    with pytest.raises(ValueError, match=words):
        Config(**options)
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with pytest.raises(SystemExit) as stop:
        recurrent.main(arguments)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--learning", "1"], ["--epochs", "many"], ["extra"]])
def test_an_unknown_option_or_value_is_an_error_of_the_command_line(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        recurrent.main(arguments)
    assert stop.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_every_field_is_an_option_with_its_default():
    options = vars(recurrent._parser().parse_args([]))
    assert options.pop("checkpoint") is None
    assert Config(**options) == Config()
    assert recurrent._parser().parse_args(["--gamma", "0.1"]).gamma == 0.1
    assert recurrent._parser().parse_args(["--zero-bias"]).zero_bias is True


def test_more_rows_than_there_are_is_an_error(data):
    with pytest.raises(ValueError, match="rows is 35, and there are 34 to train on"):
        run(replace(TINY, rows=35), None, data)


def test_a_batch_too_small_for_the_processes_is_an_error(data, monkeypatch):
    monkeypatch.setattr(recurrent, "place", lambda: Place(0, 5, torch.device("cpu")))
    with pytest.raises(ValueError, match="a batch of 4 rows is too small for 5 processes"):
        run(TINY, None, data)


# Several processes


def gradients(model, here, x, labels):
    """Return all gradients of the mean loss over a batch, as one vector."""
    accumulate(shared(model, here), x, labels, here)
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def batch_of(size):
    generator = torch.Generator().manual_seed(8)
    x = 1 + torch.randn(size, 5, 28, dtype=torch.float64, generator=generator)
    return x, torch.randint(10, (size,), generator=generator)


def worker(rank, folder):
    """Save what one of two processes sees: gradients of three networks, and a whole run."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD
    )
    here = recurrent.place()
    result = {"place": (here.rank, here.world)}
    for name in ("lstm", "ln-lstm", "bn-lstm"):
        model = build(replace(TINY, model=name)).double()
        if name == "bn-lstm":
            model.recurrent.noise = 0.0
        result[name] = gradients(model, here, *batch_of(7))
        if name == "bn-lstm":
            result["mean_ih"] = model.recurrent.mean_ih
    result["records"] = [list(record) for record in run(RUN, f"{folder}/two.pt")]
    torch.save(result, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes saw, each; and their folder."""
    folder = tmp_path_factory.mktemp("two")
    mp.spawn(worker, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)], folder


def alone(name):
    model = build(replace(TINY, model=name)).double()
    if name == "bn-lstm":
        model.recurrent.noise = 0.0
    return gradients(model, ALONE, *batch_of(7)), model


def distance(found, true):
    return ((found - true).norm() / true.norm()).item()


@pytest.mark.tier("all")
@pytest.mark.parametrize("name", ["lstm", "ln-lstm"])
def test_gradients_of_two_processes_are_those_of_one_even_if_parts_are_unequal(name, two):
    """Seven rows are four and three: a plain mean over processes would be wrong."""
    true, _ = alone(name)
    for result in two[0]:
        assert distance(result[name], true) < ROUNDING


def test_batch_norm_sees_another_batch_on_each_process_so_its_gradients_are_not(two):
    """Statistics of half a batch are others; torch.nn.SyncBatchNorm, for GPUs, would share them."""
    true, model = alone("bn-lstm")
    first, second = two[0]
    assert torch.equal(first["bn-lstm"], second["bn-lstm"])
    assert distance(first["bn-lstm"], true) > 0.1
    means = first["mean_ih"], second["mean_ih"], model.recurrent.mean_ih
    assert max(distance(mean, means[2]) for mean in means[:2]) > 0.1
    assert distance(means[0], means[1]) > 0.1


def test_both_processes_report_what_one_would_and_the_first_keeps_it(two):
    results, folder = two
    single = list(run(RUN, folder / "one.pt"))
    for result in results:
        assert result["place"] in [(0, 2), (1, 2)]
        for found, expected in zip(result["records"], single, strict=True):
            _, _, _, rows_seen, loss, accuracy = found
            assert rows_seen == expected.rows_seen
            assert loss == pytest.approx(expected.train_loss, rel=1e-5)  # float32
            assert accuracy == pytest.approx(expected.test_accuracy, abs=2 / 2000)
    one, both = (weights(trained(RUN, folder / f"{name}.pt")) for name in ("one", "two"))
    # Adam divides by the size of the gradient, so rounding of a tiny one may move a weight.
    assert distance(both, one) < 1e-3


KILLED = """
import os, signal
from pathlib import Path
from lnlib.book.experiments import recurrent

once, steps, accumulate = Path({once!r}), 0, recurrent.accumulate

def dying(*arguments):
    global steps
    steps += 1
    if os.environ["RANK"] == "1" and steps == 6 and not once.exists():  # in the second epoch
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return accumulate(*arguments)

recurrent.accumulate = dying
recurrent.main()
"""


def torchrun(*arguments):
    """Run two processes that find each other at a free port of this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--local-addr", "localhost", "--nproc-per-node", "2", "--max-restarts", "1"]
    with subprocess.Popen(
        [*launcher, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.terminate()  # which ends the workers too; a kill would leave them
            raise
    return process.returncode, stdout, stderr


@pytest.mark.tier("all")
def test_after_a_killed_worker_torchrun_resumes_and_ends_with_the_same_weights(two, tmp_path):
    script, once = tmp_path / "killed.py", tmp_path / "once"
    script.write_text(KILLED.format(once=str(once)), encoding="utf8")
    options = ["--hidden", 6, "--batch", 10, "--rows", 34, "--epochs", 3]
    status, stdout, stderr = torchrun(script, *options, "--checkpoint", tmp_path / "run.pt")
    assert status == 0, stderr
    assert once.exists()
    assert "exitcode: -9" in stderr
    # The first process alone reports: once before the end of the other, once when both are back.
    assert [stdout.count(f"epoch {epoch}:") for epoch in (1, 2, 3)] == [2, 1, 1]
    _, folder = two
    assert torch.equal(
        weights(trained(RUN, tmp_path / "run.pt")), weights(trained(RUN, folder / "two.pt"))
    )
