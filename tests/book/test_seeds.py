"""Student's interval of a mean over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lnlib.book.records.seeds import half_interval, p_value, students_t


def test_the_factors_are_those_of_printed_tables() -> None:
    """Degrees of freedom -> t, as in Fisher and Yates' table III, column 0.05."""
    printed = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
    printed |= {9: 2.262, 10: 2.228, 30: 2.042, 60: 2.000, 120: 1.980}
    assert {degrees: students_t(degrees + 1) for degrees in printed} == printed
    assert students_t(10_000) == 1.960  # the normal distribution's


def test_the_interval_is_over_the_last_axis_and_one_seed_has_none() -> None:
    half = 4.303 * math.sqrt(7) / math.sqrt(3)  # 1, 2 and 6 have the unbiased variance 7
    found = half_interval(np.array([[1.0, 2.0, 6.0], [10.0, 20.0, 60.0]]))
    assert found == pytest.approx([half, 10 * half])
    with pytest.raises(ValueError, match="an interval takes two seeds or more, got 1"):
        half_interval(np.ones(1))


def test_p_is_that_of_printed_tables() -> None:
    """Of ten values, so 9 degrees of freedom, whose mean is t standard errors from 0."""
    apart = np.array([-1.0, 1.0] * 5)
    for t, p in ((-1.833, 0.1), (2.262, 0.05), (3.25, 0.01)):
        assert p_value(apart + t * apart.std(ddof=1) / 10**0.5) == pytest.approx(p, rel=2e-3)
