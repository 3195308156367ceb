"""Slopes of power laws that are known, and who takes part in what grows."""

from __future__ import annotations

import bench_growth as bench
import pytest
from bench_growth import Sweep, slope, slopes

from lnlib.book.records import tables

SIZES = [4**power for power in range(8)]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_the_slope_of_a_power_law_is_its_power(power):
    assert slope(SIZES, [7e-6 * size**power for size in SIZES]) == pytest.approx(power, abs=1e-12)


def test_the_slope_is_that_of_the_large_end():
    overhead = [1.0] * (len(SIZES) - bench.LARGE) + [n / SIZES[-bench.LARGE] for n in SIZES[-3:]]
    assert slope(SIZES, overhead) == pytest.approx(1.0)


def test_the_slope_is_by_least_squares_and_not_of_the_ends_alone():
    # In logarithms to base 4 the points are (0, 0), (1, 2), (2, 1), whose line rises by a half; and
    # (0, 0), (1, 0), (2, 1) with a bend in the middle rises the same.
    assert slope([1, 4, 16], [1, 16, 4]) == pytest.approx(0.5)
    assert slope([1, 4, 64], [1, 4, 4]) == pytest.approx(2 / 7)  # by the ends it would be 1/3


def test_the_spread_of_a_slope_is_that_of_the_rounds():
    rounds = [[size**power for size in SIZES] for power in (0.5, 1.0, 1.5, 2.0, 2.5)]
    assert slopes(SIZES, rounds) == (pytest.approx(1.5), "0.75 to 2.25")


def test_a_row_tells_the_time_of_its_size_and_the_slope_of_its_series(monkeypatch):
    by_size = {1: 3e-3, 4: 12e-3, 16: 48e-3}
    monkeypatch.setattr(
        bench.timing,
        "in_turn",
        lambda runs, *how: {(name, n): [by_size[n]] * 5 for name, n in runs},
    )
    monkeypatch.setattr(bench, "peak_bytes", lambda run: run())
    sweep = Sweep("layer norm", "rows", list(by_size), lambda n: {"ours": lambda: 8 * n**2})
    rows = bench.measure(sweep, 0.0, 3)
    assert [row["ms"] for row in rows] == ["3", "12", "48"]
    assert [row["peak_bytes"] for row in rows] == [8, 128, 2048]
    assert {(row["time_slope"], row["quartiles"]) for row in rows} == {("1", "1 to 1")}
    assert {row["memory_slope"] for row in rows} == {"2"}


def test_the_recorded_table_has_every_series_whole():
    rows = tables.rows_of(tables.RESULTS / "growth.csv")
    for sweep in bench.sweeps(bench.POWERS):
        found = [r for r in rows if (r["what"], r["along"]) == (sweep.what, sweep.along)]
        for provider in {row["provider"] for row in found}:
            told = [int(row["size"]) for row in found if row["provider"] == provider]
            assert told == list(sweep.sizes)
