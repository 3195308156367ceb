"""The sweep compares like with like, can be stopped at any time, and says which code it is of."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import sweep_norms
import sweeping
from results_table import save

from lnlib.book.experiments import characters, mlp
from lnlib.book.home import ROOT
from lnlib.book.records import norms
from lnlib.book.records import tables as module
from lnlib.book.records.tables import recorded, rows_of

QUICK = ["--quick", "--only", "small-batch", "--only", "two-minutes"]
DIGITS = ("batch", "variants", "small-batch")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of two experiments with tiny networks."""
    folder = tmp_path_factory.mktemp("sweep")
    assert sweep_norms.main([*QUICK, "--work", str(folder)]) == 0
    return folder


@pytest.fixture
def results(quick: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The quick tables, where the chapters look for results."""
    monkeypatch.setattr(module, "RESULTS", quick)
    return quick


def table(folder: Path, name: str) -> list[dict[str, str]]:
    return rows_of(folder / f"{name}.csv")


# The plan


@pytest.mark.parametrize("name", list(sweep_norms.RUNS))
def test_every_setting_has_several_seeds(name: str) -> None:
    found: dict[object, set[int]] = {}
    for config in sweep_norms.RUNS[name]:
        found.setdefault(replace(config, seed=0), set()).add(config.seed)
    assert all(len(each) > 2 for each in found.values())
    assert len(sweep_norms.RUNS[name]) == len(set(sweep_norms.RUNS[name]))


@pytest.mark.parametrize("name", DIGITS)
def test_every_norm_gets_every_rate_that_ours_gets(name: str) -> None:
    plan = sweep_norms.RUNS[name]
    settings = {
        norm: {replace(c, norm="layer") for c in plan if c.norm == norm}
        for norm in {c.norm for c in plan}
    }
    assert len(settings) == 4
    assert len({frozenset(each) for each in settings.values()}) == 1


def test_every_placement_gets_every_rate_with_and_without_warm_up() -> None:
    plan = sweep_norms.RUNS["placements"]
    settings = [
        {replace(c, placement="pre") for c in plan if c.placement == placement}
        for placement in characters.PLACEMENTS
    ]
    assert settings[0] == settings[1] == settings[2]
    assert {c.warmup for c in plan} == {0, sweep_norms.WARMUP}


# A sweep


def test_there_is_a_row_for_each_epoch_of_each_run(quick: Path) -> None:
    rows = table(quick, "mlp_training")
    runs = [sweep_norms.tiny(c) for c in sweep_norms.RUNS["small-batch"]]
    assert len(rows) == sum(c.epochs for c in runs)
    assert {row["experiment"] for row in rows} == {"small-batch"}
    for row in rows:
        assert 0 < float(row["train_loss"]) < 5
        assert 0 <= float(row["test_error"]) <= 1
        assert float(row["cpu_seconds"]) > 0


def test_a_row_is_what_its_run_recorded(quick: Path) -> None:
    config = sweep_norms.tiny(sweep_norms.RUNS["small-batch"][4])
    found = [
        row
        for row in table(quick, "mlp_training")
        if (row["norm"], row["lr"], row["seed"]) == (config.norm, str(config.lr), str(config.seed))
    ]
    for row, record in zip(found, mlp.run(config), strict=True):
        assert int(row["epoch"]) == record.epoch
        for name in ("train_loss", "valid_loss", "test_error", "test_loss_batch"):
            # A sum may differ in the last bits from one number of threads to another.
            assert float(row[name]) == pytest.approx(getattr(record, name), rel=1e-3)


def test_what_the_networks_wrote_is_kept_with_its_line_ends(results: Path) -> None:
    text = norms.written(placement="pre", norm="layer", seed=1)
    assert text.startswith(sweep_norms.FIRST_WORDS)
    assert len(text) == len(sweep_norms.FIRST_WORDS) + sweep_norms.WRITTEN
    whose = {"placement": "pre", "norm": "layer", "seed": "1"}
    (row,) = (r for r in table(results, "characters_written") if whose.items() <= r.items())
    assert text == row["written"]
    assert len(table(results, "characters_written")) == len(sweep_norms.RUNS["two-minutes"])


def test_means_are_over_the_seeds_of_one_setting_and_errors_in_percent(results: Path) -> None:
    rows = recorded("mlp_training", norm="layer", lr="0.0003", epoch="2")
    assert len(rows["seed"]) == 3
    error = norms.digits("layer", "small-batch", "test_error", 0.0003)
    assert error.mean[1] == pytest.approx(100 * rows["test_error"].mean())
    loss = norms.digits("layer", "small-batch", "test_loss", 0.0003)
    assert loss.mean[1] == pytest.approx(rows["test_loss"].mean())
    bits = norms.novel("two-minutes", placement="pre", norm="rms")
    assert len(bits.at) == characters.RECORDS


def test_the_rate_is_chosen_by_the_validation_digits_alone(
    results: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = table(results, "mlp_training")
    for row in rows:  # the middle rate is best in validation, and worst of all in the test
        middle = row["lr"] == "0.0003"
        row["valid_loss"], row["test_loss"] = ("1.0", "9.0") if middle else ("2.0", "0.1")
    save(tmp_path / "mlp_training.csv", rows)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    assert norms.best_rate("batch", "small-batch") == 0.0003
    assert norms.digits("batch", "small-batch", "test_loss").mean[-1] == 9.0
    for row in rows:  # after the first epoch it is another one
        if row["epoch"] == "1" and row["lr"] == "0.001":
            row["valid_loss"] = "0.5"
    save(tmp_path / "mlp_training.csv", rows)
    assert [norms.best_rate("batch", "small-batch", e) for e in (1, 2, 0)] == [0.001, 3e-4, 3e-4]


def test_after_an_epoch_the_rate_is_the_one_that_its_validation_loss_picks() -> None:
    for norm, experiment in (("layer", "batch"), ("rms", "variants")):
        lr = norms.best_rate(norm, experiment, epoch=3)
        found, whole = norms.after(3, norm), norms.digits(norm, experiment, "test_error", lr)
        assert found.mean.tolist() == [whole.mean[2]]
        other = norms.digits(norm, experiment, "valid_loss", 0.001)
        assert norms.after(1, norm, "valid_loss", 0.001).each.tolist() == [other.each[0].tolist()]


def test_runs_of_other_code_are_not_taken_up(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = sweep_norms.tiny(sweep_norms.RUNS["batch"][0])
    path = sweep_norms.path_of(config, tmp_path)
    path.write_text('{"records": "of this code"}', encoding="utf8")
    assert sweep_norms.finish((config, path)) == (config, {"records": "of this code"})
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(sweeping, "folder_of", lambda *_: tmp_path / "other")
    plan = [config, replace(config, seed=1), replace(config, seed=2)]
    sweep_norms.sweep({"batch": plan}, tmp_path, 1, tmp_path)
    assert len(list(tmp_path.glob("other/*.json"))) == 3


def test_each_run_is_kept_under_a_name_of_its_own(tmp_path: Path) -> None:
    runs = {config for plan in sweep_norms.RUNS.values() for config in plan}
    assert len({sweep_norms.path_of(config, tmp_path) for config in runs}) == len(runs)


@pytest.mark.parametrize("arguments", [["--jobs", "0"], ["--only", "speed"], ["--fast"]])
def test_an_option_that_cannot_be_is_an_error_of_the_command_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        sweep_norms.main(arguments)
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.tier("all")
def test_ctrl_c_stops_at_once_and_the_same_command_goes_on(quick: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(quick, work, ignore=shutil.ignore_patterns("*.csv"))
    plan = sweep_norms.RUNS["two-minutes"]
    kept = {path.name: path for path in work.glob("*/*.json")}
    names = sorted(sweep_norms.path_of(sweep_norms.tiny(config), work).name for config in plan)
    runs = [kept[name] for name in names]
    todo = runs[:3]
    for path in todo:
        path.unlink()
    command = [sys.executable, str(ROOT / "benchmarks" / "sweep_norms.py"), "--quick"]
    command += ["--only", "two-minutes", "--jobs", "1", "--work", str(work)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not any(path.exists() for path in todo):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # to all of them, as a terminal does
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from here" in stdout
    done = {path: path.stat().st_mtime_ns for path in runs if path.exists()}
    assert len(runs) - 3 < len(done) < len(runs)
    assert not list(work.glob("*.csv"))
    assert sweep_norms.main(command[2:]) == 0
    assert all(path.stat().st_mtime_ns == then for path, then in done.items())
    assert len(table(work, "characters_written")) == len(plan)


# What is recorded


def test_the_recorded_tables_hold_every_run_of_the_plan() -> None:
    for name, plan in sweep_norms.RUNS.items():
        digits = isinstance(plan[0], mlp.Config)
        rows = recorded("mlp_training" if digits else "characters", experiment=name)
        last = rows["epoch"] == plan[0].epochs if digits else rows["step"] == plan[0].steps
        assert last.sum() == len(plan)
