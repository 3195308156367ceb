"""The sweep compares like with like, can be stopped, and says at which commit it ran."""

from dataclasses import replace

import pytest
import records
import sweep_lstm
import torch

from lnlib.book.experiments import recurrent
from lnlib.book.experiments.recurrent import Config
from lnlib.book.experiments.sequential_mnist import sequential_mnist
from lnlib.book.records.tables import rows_of

SEVERAL = 3  # seeds, the fewest that say something of their spread


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The folder of a sweep of two experiments with tiny networks."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_lstm, "data_of", few)  # probes run in this process, training in others
        assert sweep_lstm.main([*QUICK, "--work", str(folder)]) == 0
    return folder


def few(layout, scaling):
    """Return the digits with 40 to test on."""
    data = sequential_mnist(layout, scaling)
    return replace(data, test=data.test[:40], test_labels=data.test_labels[:40])


QUICK = ["--quick", "--only", "blank", "--only", "lengths"]


def table(folder, name):
    return rows_of(folder / f"{name}.csv")


def without_seed(config):
    return replace(config, seed=0)


@pytest.mark.parametrize("name", list(sweep_lstm.RUNS))
def test_every_setting_has_several_seeds(name):
    seeds = {}
    for config in sweep_lstm.RUNS[name]:
        seeds.setdefault(without_seed(config), set()).add(config.seed)
    assert all(len(each) >= SEVERAL for each in seeds.values())


@pytest.mark.parametrize("name", ["scales", "batches", "lengths", "pixels"])
def test_the_rival_gets_every_setting_that_ours_gets(name):
    settings = {
        model: {replace(c, model="lstm") for c in sweep_lstm.RUNS[name] if c.model == model}
        for model in ("lstm", "ln-lstm")
    }
    assert settings["lstm"] == settings["ln-lstm"] != set()


def test_batches_see_equally_many_rows_and_batch_norm_none_of_one():
    plan = sweep_lstm.RUNS["batches"]
    assert len({config.rows * config.epochs for config in plan}) == 1
    assert {c.batch for c in plan if c.model == "bn-lstm"} == {4, 16, 64}
    assert {c.batch for c in plan if c.model == "ln-lstm"} == {1, 4, 16, 64}


@pytest.mark.tier("all")
def test_a_quick_sweep_writes_beside_its_work_and_leaves_the_results_alone(quick):
    rows = table(quick, "lstm_training")
    plans = [sweep_lstm.RUNS[name] for name in ("blank", "lengths")]
    assert len(rows) == sum(len(plan) for plan in plans)  # one epoch each
    assert {row["experiment"] for row in rows} == {"blank", "lengths"}
    assert {row["commit"] for row in rows} == {records.commit()}
    assert {row["torch"] for row in rows} == {torch.__version__}
    assert {row["gamma"] for row in rows} == {"default"}
    assert all(float(row["seconds"]) > 0 for row in rows)


@pytest.mark.tier("all")
def test_a_run_that_two_experiments_name_is_done_once(quick):
    runs = {sweep_lstm.tiny(c) for name in ("blank", "lengths") for c in sweep_lstm.RUNS[name]}
    both = [sweep_lstm.RUNS[name] for name in ("blank", "lengths")]
    assert len(runs) < sum(len(plan) for plan in both)
    assert len(list(quick.glob("*/*.pt"))) == len(runs)


@pytest.mark.tier("all")
def test_longer_sequences_are_told_with_their_length(quick):
    rows = table(quick, "lstm_memory")
    lengths = {row["probe"]: row["at"] for row in rows}
    assert lengths["0 blank rows before"] == "28"
    assert lengths["10 blank rows after"] == "38"
    assert lengths["each row twice"] == "56"
    assert {row["model"] for row in rows} >= {"lstm", "ln-lstm", "bn-lstm"}


def test_what_enters_a_gate_is_told_as_shares_of_its_sums(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_lstm, "data_of", few)
    config = sweep_lstm.tiny(sweep_lstm.RUNS["first look"][0])
    sweep_lstm.finish((config, sweep_lstm.path_of(config, tmp_path)))
    rows = sweep_lstm.memory_rows("first look", config, tmp_path)
    shares = {}
    for row in rows:
        shares.setdefault(row["probe"], {})[row["at"]] = float(row["value"])
    assert len(shares) == 4 * 2
    for share in shares.values():
        assert sorted(share) == [-4 + 0.125 + 0.25 * number for number in range(32)]
        assert 0.98 < sum(share.values()) <= 1.00001  # a network of 8 features gets small sums
        assert share[0.125] + share[-0.125] > 0.1


def test_each_run_is_kept_under_a_name_of_its_own(tmp_path):
    runs = {config for plan in sweep_lstm.RUNS.values() for config in plan}
    assert len({sweep_lstm.path_of(config, tmp_path) for config in runs}) == len(runs)


def test_remembering_is_probed_before_and_after_training(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_lstm, "data_of", few)
    config = Config(model="lstm", hidden=6, rows=34, epochs=1)
    list(recurrent.run(config, tmp_path / "run.pt"))
    found = list(sweep_lstm.remembering(config, tmp_path / "run.pt"))
    at = {}
    for name, place, _ in found:
        at.setdefault(name, []).append(place)
    rows = list(range(1, 29))
    assert at["accuracy after row"] == rows
    assert at["gradient at row, before training"] == rows
    assert at["gradient at row, after training"] == rows
    own, other = (f"{whose}, rows from another digit" for whose in ("own label", "other's label"))
    assert at[own] == at[other] == list(sweep_lstm.TOPS)
    values = {(name, place): value for name, place, value in found}
    assert values[own, 0] == pytest.approx(values["accuracy after row", 28])


@pytest.mark.parametrize("arguments", [["--jobs", "0"], ["--only", "speed"], ["--fast"]])
def test_an_option_that_cannot_be_is_an_error_of_the_command_line(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        sweep_lstm.main(arguments)
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err
