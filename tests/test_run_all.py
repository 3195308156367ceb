"""``make bench``: every benchmark gets its turn, and the table says what became of each."""

from __future__ import annotations

import csv
import os
import platform
import signal
import subprocess
import sys
import time

import pytest
import run_all
import torch
from run_all import Benchmark

import lnlib
from lnlib.book.home import ROOT

# What stands for a benchmark: each leaves a mark in the folder it is in.
MARKS = "import pathlib, sys; here = pathlib.Path(sys.argv[0]); here.with_suffix('.mark').touch()\n"
FAILS = MARKS + "print('half way', file=sys.stderr); raise SystemExit('no room\\n')\n"
# Says when it has begun; interrupted, it takes a moment to put things away, and says that it did.
WAITS = f"""{MARKS}
import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.2)
    here.with_suffix('.tidy').touch()
"""


@pytest.fixture
def bench(tmp_path):
    """Run benchmarks that are given as Python code, and return the status and the table."""

    def run(sources, benchmarks=None, with_long=False):
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source, encoding="utf8")
        benchmarks = benchmarks or [Benchmark(name, 60) for name in sources]
        table = tmp_path / "runs.csv"
        return run_all.run_all(benchmarks, tmp_path, table, with_long), table_of(table)

    return run


def table_of(path):
    with path.open(newline="", encoding="utf8") as file:
        return {row["benchmark"]: row for row in csv.DictReader(file)}


def test_each_has_a_row_with_seconds_machine_and_versions(bench):
    status, table = bench({"one": MARKS, "two": f"import time; time.sleep(0.6)\n{MARKS}"})
    assert status == 0
    assert {(row["status"], row["why"]) for row in table.values()} == {("done", "")}
    assert int(table["two"]["seconds"]) >= 1
    for row in table.values():
        assert row["python"] == platform.python_version()
        assert row["torch"] == torch.__version__
        assert row["lnlib"] == lnlib.__version__
        assert {row["date"], row["machine"]} == set(run_all.provenance().values())


def test_progress_says_which_of_how_many_and_how_long_is_left(bench, capsys, monkeypatch):
    times = iter([0.0, 0.0, 90.0, 90.0, 95.0, 95.0])
    monkeypatch.setattr(run_all, "run", lambda command: "")
    monkeypatch.setattr(run_all.time, "monotonic", lambda: next(times))
    benchmarks = [Benchmark("one", 120), Benchmark("two", 7)]
    bench({}, benchmarks)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "[1/2] one: 0:00 so far, about 2:07 to go"
    assert said[1] == "[2/2] two: 1:30 so far, about 0:07 to go"
    assert said[2] == "2 of 2 done in 1:35"


def test_what_a_benchmark_took_last_time_is_what_is_expected(bench, capsys, monkeypatch):
    times = iter([0.0, 0.0, 90.0, 90.0, 90.0])
    monkeypatch.setattr(run_all, "run", lambda command: "")
    monkeypatch.setattr(run_all.time, "monotonic", lambda: next(times, 100.0))
    bench({}, [Benchmark("one", 120)])
    bench({}, [Benchmark("one", 120)])
    assert "about 1:30 to go" in capsys.readouterr().out


def test_a_failure_stops_nobody_else_and_is_named_at_the_end(bench, capfd, tmp_path):
    status, table = bench({"one": FAILS, "two": MARKS})
    assert status == 1
    assert (tmp_path / "two.mark").exists()
    assert (table["one"]["status"], table["one"]["why"]) == ("failed", "exit status 1: no room")
    assert table["two"]["status"] == "done"
    said = capfd.readouterr()
    assert "1 of 2 done" in said.out
    assert "half way" in said.err  # as it says it, and not only at the end
    assert said.err.splitlines()[-1] == "failed: one: exit status 1: no room"


def test_what_cannot_run_here_is_skipped_with_its_reason(bench, capsys, tmp_path):
    benchmarks = [
        Benchmark("one", 60, lambda: "there is no GPU"),
        Benchmark("two", 60),
        Benchmark("three", 1800, is_long=True),
        Benchmark("four", 1800, lambda: "there is no GPU", is_long=True),
    ]
    sources = dict.fromkeys(("one", "two", "three", "four"), MARKS)
    status, table = bench(sources, benchmarks)
    assert status == 0
    assert {path.stem for path in tmp_path.glob("*.mark")} == {"two"}
    assert [table[name]["status"] for name in sources] == ["skipped", "done", *["skipped"] * 2]
    assert table["one"]["why"] == table["four"]["why"] == "there is no GPU"
    assert "30:00 minutes" in table["three"]["why"]
    said = capsys.readouterr().out
    assert "one is skipped: there is no GPU" in said
    assert "[1/1] two" in said


def test_with_long_the_long_ones_run_too(bench, tmp_path):
    _, table = bench({"one": MARKS}, [Benchmark("one", 1800, is_long=True)], with_long=True)
    assert table["one"]["status"] == "done"


def test_who_does_not_get_a_turn_keeps_the_row_of_an_earlier_run(bench):
    bench({"one": FAILS, "two": MARKS})
    _, table = bench({"one": MARKS}, [Benchmark("one", 60)])
    assert {name: row["status"] for name, row in table.items()} == {"one": "done", "two": "done"}


# Ctrl-C goes to a process of its own: this one is pytest's.
DRIVER = """
import pathlib, signal, sys
sys.path.insert(0, {benchmarks!r})
import run_all
signal.signal(signal.SIGINT, signal.default_int_handler)
run_all.PATIENCE = {patience}
names = ("one", "two", "three")
here = pathlib.Path({folder!r})
benchmarks = [run_all.Benchmark(name, 60) for name in names]
raise SystemExit(run_all.run_all(benchmarks, here, here / "runs.csv", False))
"""


def interrupted(folder, sources, patience=20.0):
    """Run the driver, send SIGINT to it alone once the second benchmark has begun; its status."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source, encoding="utf8")
    code = DRIVER.format(benchmarks=str(ROOT / "benchmarks"), folder=str(folder), patience=patience)
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    while not (folder / "two.mark").exists():
        assert driver.poll() is None
        time.sleep(0.05)
    time.sleep(0.2)  # until it sleeps
    os.kill(driver.pid, signal.SIGINT)
    said, _ = driver.communicate(timeout=60)
    return driver.returncode, said


def test_ctrl_c_stops_the_one_that_runs_and_keeps_what_was_written(tmp_path):
    status, said = interrupted(tmp_path, {"one": MARKS, "two": WAITS, "three": MARKS})
    assert status == 130
    assert said.splitlines()[-1].startswith("stopped in two")
    assert (tmp_path / "two.tidy").exists()
    assert not (tmp_path / "three.mark").exists()
    assert {name: row["status"] for name, row in table_of(tmp_path / "runs.csv").items()} == {
        "one": "done"
    }


def test_what_does_not_heed_ctrl_c_is_ended(tmp_path):
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + WAITS
    status, _ = interrupted(tmp_path, {"one": MARKS, "two": deaf, "three": MARKS}, patience=0.3)
    assert status == 130
    assert not (tmp_path / "two.tidy").exists()


def test_every_benchmark_has_its_turn_in_make_bench():
    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    named = {benchmark.name for benchmark in run_all.BENCHMARKS}
    assert named == {name for name in files if name.startswith(("bench_", "sweep_"))}


def test_what_does_not_fit_into_twenty_minutes_is_left_out_and_the_next_may_fit(bench):
    benchmarks = [Benchmark("one", 900), Benchmark("two", 301), Benchmark("three", 300)]
    sources = dict.fromkeys(("one", "two", "three"), MARKS)
    _, table = bench(sources, benchmarks)
    assert [table[name]["status"] for name in sources] == ["done", "skipped", "done"]
    assert "5:01 minutes, too long" in table["two"]["why"]
    _, table = bench(sources, benchmarks, with_long=True)
    assert {row["status"] for row in table.values()} == {"done"}
