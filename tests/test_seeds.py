"""Means over seeds, with Student's interval, and whether two of them part."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lnlib.book import style
from lnlib.book.records.seeds import (
    Means,
    ahead,
    dots,
    draw,
    interval,
    over_seeds,
    paired,
    students_t,
)


def means(mean: list[float], half: list[float]) -> Means:
    return Means(np.arange(2), np.array(mean), np.array(half), np.zeros((2, 3)))


LOW, HIGH = means([1.0, 2.0], [0.5, 0.5]), means([2.0, 5.0], [0.5, 1.0])


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
    assert abs(ahead(a, b)) < 1
    assert found.each == pytest.approx(np.array([[1.0, 1.1, 1.2]]))
    assert found.mean == pytest.approx([1.1])
    assert found.half == pytest.approx([4.303 * 0.1 / math.sqrt(3)])


def test_an_interval_has_the_ends_of_a_difference_at_one_place() -> None:
    at, seeds = np.tile([1, 2], 3), np.repeat([0, 1, 2], 2)
    a = over_seeds(at, np.array([3.0, 1, 4, 2, 5, 9]), seeds)
    b = over_seeds(np.ones(3), np.array([1.0, 1, 1]), np.arange(3))
    half = 4.303 / math.sqrt(3)  # 3, 4 and 5 have the unbiased variance 1
    assert interval(a, b, 0) == pytest.approx((3 - half, 3 + half))
    gap = paired(a, a)
    assert interval(a, a) == (gap.mean[-1], gap.mean[-1]) == (0, 0)


def test_two_part_if_the_means_are_further_apart_than_both_intervals_reach() -> None:
    assert ahead(HIGH, LOW, 0) == pytest.approx(1.0)  # 1.5 and 1.5: they touch
    assert ahead(HIGH, LOW) == pytest.approx(2.0)  # the last place, where nothing is said
    assert ahead(LOW, HIGH) == pytest.approx(-2.0)


def test_bands_and_bars_are_as_wide_as_the_interval() -> None:
    _, axes = style.figure(2, 2)
    draw(axes[0], [10, 20], HIGH, "high", style.LAYER_NORM)
    assert axes[0].lines[0].get_xydata().tolist() == [[10, 2], [20, 5]]
    (band,) = axes[0].collections
    assert {(x, y) for x, y in band.get_paths()[0].vertices.tolist()} >= {(20, 4), (20, 6)}
    dots(axes[1], [7.0, 8.0], [LOW, HIGH], "last", style.RIVAL)
    bar, (low, high), _ = axes[1].containers[0]
    assert bar.get_xydata().tolist() == [[7, 2], [8, 5]]
    assert low.get_ydata().tolist() == [1.5, 4.0]
    assert high.get_ydata().tolist() == [2.5, 6.0]
