"""Means over seeds, with Student's interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lnlib.book.records.seeds import (
    over_seeds,
    paired,
    students_t,
)


def test_the_factors_are_students() -> None:
    """The share between -t and t, of 2 and of 4 degrees of freedom, is known in closed form."""
    angle = {count: math.atan(students_t(count) / math.sqrt(count - 1)) for count in (3, 5)}
    assert math.sin(angle[3]) == pytest.approx(0.95, abs=1e-5)
    assert math.sin(angle[5]) * (1 + math.cos(angle[5]) ** 2 / 2) == pytest.approx(0.95, abs=1e-4)


def test_the_factors_are_those_of_printed_tables() -> None:
    """Degrees of freedom -> t, as in Fisher and Yates' table III, column 0.05."""
    printed = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
    printed |= {9: 2.262, 10: 2.228, 30: 2.042, 60: 2.000, 120: 1.980}
    assert {degrees: students_t(degrees + 1) for degrees in printed} == printed
    assert students_t(10_000) == 1.960  # the normal distribution's


@pytest.mark.parametrize("count", [2, 4, 6, 10])
def test_there_may_be_any_number_of_seeds(count: int) -> None:
    values = np.arange(count, dtype=float) ** 2
    found = over_seeds(np.ones(count), values, np.arange(count))
    half = students_t(count) * values.std(ddof=1) / math.sqrt(count)
    assert found.half == pytest.approx([half])


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(ValueError, match="an interval takes two seeds or more, got 1"):
        over_seeds(np.ones(1), np.ones(1), np.zeros(1))


def test_the_mean_is_over_the_seeds_at_each_place() -> None:
    values = np.array([1.0, 10.0, 2.0, 20.0, 6.0, 60.0])
    found = over_seeds(np.tile([1, 2], 3), values, np.repeat([0, 1, 2], 2))
    assert found.at.tolist() == [1, 2]
    assert found.mean.tolist() == [3, 30]
    half = 4.303 * math.sqrt(7) / math.sqrt(3)  # 1, 2 and 6 have the unbiased variance 7
    assert found.half == pytest.approx([half, 10 * half])


def test_rows_in_any_order_of_seeds_are_put_in_order() -> None:
    at, values, seeds = np.array([1, 1, 1]), np.array([7.0, 5.0, 6.0]), np.array([2, 0, 1])
    assert over_seeds(at, values, seeds).each.tolist() == [[5.0, 6.0, 7.0]]


def test_a_difference_seed_by_seed_sees_what_two_intervals_hide() -> None:
    at, seeds = np.ones(3), np.arange(3)
    luck = np.array([0.0, 10.0, 20.0])  # the same in both
    a = over_seeds(at, luck + np.array([1.0, 1.1, 1.2]), seeds)
    b = over_seeds(np.ones(5), np.append(luck, [3.0, 4.0]), np.arange(5))
    found = paired(a, b)
    assert abs(a.mean - b.mean[0]) < a.half + b.half
    assert found.each == pytest.approx(np.array([[1.0, 1.1, 1.2]]))
    assert found.mean == pytest.approx([1.1])
    assert found.half == pytest.approx([4.303 * 0.1 / math.sqrt(3)])


def test_runs_of_two_kinds_are_not_averaged() -> None:
    at, seed = np.array([1.0, 2, 1]), np.array([0, 0, 1])
    with pytest.raises(ValueError, match="several kinds of run"):
        over_seeds(at, np.ones(3), seed)
