"""A table gets the digest of the present code only where that was shown to make its numbers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import renew

from lnlib.book.experiments import mlp
from lnlib.book.home import ROOT
from lnlib.book.records import registry
from lnlib.book.records.tables import RESULTS, rows_of

MADE = [{"norm": "layer", "loss": "0.5"}, {"norm": "rms", "loss": "0.25"}]


@pytest.fixture(autouse=True)
def commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every commit hold what the checkout holds: where this runs, there may be no history."""

    def check_out(_commit: str, folder: str) -> None:
        for name in ("lnlib", "benchmarks"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("*.csv"))

    monkeypatch.setattr(renew, "check_out", check_out)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with two rows of the last commit's code, and one of older code."""
    path = tmp_path / "mlp_training.csv"
    path.write_text("norm,loss,code\nlayer,0.5,x\n", encoding="utf8")
    said = renew.renew("mlp_training", "HEAD", 0, path)
    (code,) = re.findall(r"no row of mlp_training is of the code of HEAD, which is (\w{12})", said)
    rows = [f"{row['norm']},{row['loss']},{code}" for row in MADE]
    path.write_text("\n".join(["norm,loss,code", *rows, "none,1,older"]) + "\n", encoding="utf8")
    return path


def codes(path: Path) -> list[str]:
    return [row["code"] for row in rows_of(path)]


@pytest.fixture
def makes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Say what the commit's code makes, and what the present code does."""

    def say(before: list[dict[str, str]], now: list[dict[str, str]]) -> None:
        def made_by(folder: Path, table: str, seed: int) -> list[dict[str, str]]:
            assert (folder / "lnlib" / "book" / "experiments" / "mlp.py").is_file()
            return now if folder == ROOT else before

        monkeypatch.setattr(renew, "made_by", made_by)

    return say


def test_rows_whose_numbers_are_the_same_get_the_present_digest(table: Path, makes: Any) -> None:
    makes(MADE, MADE)
    assert renew.renew("mlp_training", "HEAD", 0, table) == ""
    new = registry.code("mlp_training")
    assert codes(table) == [new, new, "older"]


@pytest.mark.parametrize("now", [[MADE[0], MADE[1] | {"loss": "0.26"}], MADE[:1], []])
def test_other_numbers_leave_the_table_as_it_is(now: Any, table: Path, makes: Any) -> None:
    before = table.read_bytes()
    makes(MADE, now)
    assert "mlp_training stays older" in renew.renew("mlp_training", "HEAD", 0, table)
    assert table.read_bytes() == before


def test_times_are_measured_again(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        renew.main(["speed"])
    assert stop.value.code == "measure speed again: python benchmarks/bench_speed.py"


@pytest.mark.parametrize("table", renew.KINDS)
def test_a_run_of_each_kind_is_repeated_and_it_is_one_of_the_shortest(table: str) -> None:
    plan = renew.plan_of(table)
    fields = renew.KINDS[table]
    kinds = {tuple(getattr(config, field) for field in fields) for _, config in plan}
    runs = list(renew.chosen(table, seed=0))
    assert [tuple(run) for run in runs] == [tuple(run) for run in renew.chosen(table, seed=0)]
    assert runs != list(renew.chosen(table, seed=1))
    assert len(runs) == len(kinds)
    assert {tuple(getattr(config, field) for field in fields) for _, config in runs} == kinds


def test_of_the_probed_lstms_every_experiment_is_repeated() -> None:
    experiments = {name for name, _ in renew.chosen("lstm_memory", seed=0)}
    rows = rows_of(RESULTS / "lstm_memory.csv")
    assert experiments == {row["experiment"] for row in rows}


def test_of_the_trainings_on_digits_every_norm_is_repeated_at_either_batch() -> None:
    runs = [config for _, config in renew.chosen("mlp_training", seed=0)]
    assert {config.norm for config in runs} == set(mlp.NORMS)
    assert {(c.norm, c.batch) for c in runs} >= {("layer", 4), ("layer", 128)}


def test_every_table_without_times_can_be_renewed() -> None:
    timed = {
        "explorers",
        "growth",
        "layer_norm",
        "lstm",
        "models",
        "pieces",
        "speed",
        "speed_pinned",
        "tricks",
    }
    quick = {"compiled", "gamma_beta"}  # which are made anew in a minute
    assert {*renew.KINDS, *renew.WHOLE} == set(registry.RECORDS) - timed - quick
