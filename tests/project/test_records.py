"""Each recorded table has a line in `records`, and is what the line says."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import records
import trainings
from records import RECORDS

from lnlib.book.home import ROOT
from lnlib.book.records.kernels import COLUMNS
from lnlib.book.records.tables import RESULTS, rows_of


def rows(name: str) -> list[dict[str, str]]:
    return rows_of(RESULTS / f"{name}.csv")


def test_every_table_has_a_line_and_every_benchmark_its_turn() -> None:
    assert {path.stem for path in RESULTS.glob("*.csv")} == {*RECORDS, *records.KEPT}
    command = ["make", "--dry-run", "bench-long"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py")}
    measure = {name for name in scripts if name.startswith(("bench_", "sweep_"))}
    assert set(re.findall(r"benchmarks/(\w+\.py)$", said, re.MULTILINE)) == measure
    assert tuple(rows("layer_norm")[0]) == COLUMNS


@pytest.mark.parametrize("name", RECORDS)
def test_each_row_says_when_where_and_at_which_commit_and_is_there_once(name: str) -> None:
    keys = [tuple(row[column] for column in RECORDS[name].columns.split()) for row in rows(name)]
    assert 0 < len(keys) == len(set(keys))
    for row in rows(name):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
        assert row.get("machine") or row["device"]
        assert re.fullmatch(r"[0-9a-f]{12}(-dirty)?", row["commit"])
    assert all(Path(ROOT, path).exists() for path in records.paths_of(name) if path[0] != ":")


@pytest.mark.parametrize("name", [name for name in RECORDS if name.startswith("runs_")])
def test_a_table_holds_every_run_of_its_plan_and_no_other(name: str) -> None:
    script = importlib.import_module(RECORDS[name].script)
    plan = [*trainings.runs_of(name, script.TABLES[name])]
    shared = [column for column in plan[0] if column in rows(name)[0]]
    wanted = {tuple(f"{run[column]}" for column in shared) for run in plan}
    assert Counter(tuple(row[c] for c in shared) for row in rows(name)).keys() == wanted


def test_what_makes_a_table_is_its_script_what_that_imports_and_the_package() -> None:
    paths = records.paths_of("runs_norms")
    trainers = {f"lnlib/book/experiments/{name}.py" for name in ("mlp", "trainers")}
    assert {"benchmarks/sweep_digits.py", "lnlib/book/data.py", *trainers} <= {*paths}
    assert "lnlib/book/experiments/fisher.py" not in paths


def test_a_commit_is_called_dirty_where_more_than_results_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "ROOT", tmp_path)
    monkeypatch.setattr(records, "commit", records.commit.__wrapped__)  # it is asked once a run
    assert records.commit() == ""
    results, script = tmp_path / "benchmarks" / "results" / "speed.csv", tmp_path / "script.py"
    results.parent.mkdir(parents=True)
    for path in (results, script):
        path.write_text("1")
    records.git("init", "--quiet")
    records.git("add", ".")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    records.git(*who, "commit", "--quiet", "--message", "first")
    first = records.git("rev-parse", "--short=12", "HEAD")
    results.write_text("2")
    assert records.commit() == first
    (tmp_path / "new.py").touch()  # which is not committed either
    assert records.commit() == f"{first}-dirty"
