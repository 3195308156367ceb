"""Zero is told from what is nearly zero, for fractions and roots within one another."""

import pytest
import sympy
from sympy import Abs, Rational, sqrt

from lnlib.book.equations.zero import is_zero

a, b, x = sympy.symbols("a b x")
root = sqrt(x**2 + 1)
outer = sqrt(root + x)

ZERO = [
    sympy.Integer(0),
    root**3 / root - x**2 - 1,
    1 / root - root / (x**2 + 1),
    (root + 1) * (root - 1) - x**2,
    # two roots of one radicand, written in two ways
    sqrt((x - 1) ** 2 + x) - sqrt((1 - x) ** 2 + x),
    # what stands below: of a sum, of powers, of numbers
    1 / (a - b) + 1 / (b - a),
    a / (a + b) ** 2 + b / (a + b) ** 2 - 1 / (a + b),
    a / (2 * a + 2 * b) - Rational(1, 2) + b / (2 * (a + b)),
    1 / (3 * a * b**2) - b / (3 * a * b**3),
    # a root in a root, a fraction in one, and powers of both
    outer**2 - root - x,
    outer**4 - 2 * x * outer**2 - 1,
    1 / outer**2 - root + x,
    sqrt(a + a / b) ** 3 - sqrt(a + a / b) * a * (b + 1) / b,
    (1 + sqrt(a / (b + 1))) * (1 - sqrt(a / (b + 1))) * (b + 1) - (b + 1) + a,
    # numbers in a root
    sqrt(4 * a + 12) - 2 * sqrt(a + 3),
    sqrt(a + b) / sqrt(3) - sqrt(a / 3 + b / 3),
    sqrt(6) * sqrt(a + b) - sqrt(2 * a + 2 * b) * sqrt(3),
    sqrt(Rational(1, 2)) * sqrt(a / 3 + b / 6) - sqrt(2 * a + b) / sqrt(12),
    # a root of what is 0, seen at once or after another root
    sqrt((x + 1) ** 2 - x**2 - 2 * x - 1) + a - a,
    sqrt((root + x) ** 2 - 2 * x * (root + x) - 1),
    # what is neither is a letter
    Abs(a) * (Abs(a) + 1) - Abs(a) ** 2 - Abs(a),
    a**b * (x + 1) - a**b * x - a**b,
]


@pytest.mark.parametrize("expression", ZERO, ids=str)
def test_zero_is_zero_and_what_is_nearly_zero_is_not(expression):
    assert is_zero(expression)
    assert not is_zero(expression + Rational(1, 10**30) * x)
    assert not is_zero(expression + Rational(1, 10**30) * outer)


@pytest.mark.parametrize(
    "off", [root - x, 1 / root + root / (x**2 + 1), outer**2 - root + x, 1 / (a + b) - 1 / (a - b)]
)
def test_a_wrong_sign_is_seen(off):
    assert not is_zero(off)


@pytest.mark.parametrize(
    "below", [(x + 1) ** 2 - x**2 - 2 * x - 1, (root + x) ** 2 - 2 * x * (root + x) - 1]
)
def test_a_division_by_zero_is_an_error(below):
    with pytest.raises(ZeroDivisionError):
        is_zero(a - a / below)
