"""Check cells: every number that a chapter claims is tested where it is claimed.

A check prints one line when the claim holds, and stops the build when it does not. The line says
what was found, between ⟨ and ⟩, in digits that may differ from one processor to another: the value
itself, or how far off it was.
"""

from __future__ import annotations

import math
import re
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

__all__ = ["CheckFailed", "check", "max_abs"]

Array = npt.NDArray[Any]

_NUMBERS = "biufc"  # NumPy's kinds: bool, int, unsigned, float, complex
_ORDERED = "iuf"


class CheckFailed(AssertionError):  # noqa: N818  (it reads as the outcome that it is)
    """A claim of the book does not hold on this machine."""


def check(
    claim: str,
    value: object,
    *,
    below: SupportsFloat | None = None,
    above: SupportsFloat | None = None,
    between: tuple[SupportsFloat, SupportsFloat] | None = None,
    equals: object = ...,
    within: SupportsFloat = 0,
    varies: bool = False,
) -> None:
    """Print the claim if it holds for every element of ``value``, otherwise raise.

    Give exactly one comparison, or none if ``value`` is already true or false. NaN passes only
    where ``equals`` has a NaN at the same place. A value without elements fails: it checks nothing.

    What was found stands between ⟨ and ⟩: with ``below`` the largest element, with ``above`` the
    smallest, with ``between`` both, and with ``within`` how far off the worst is, the largest
    ``|value - equals|``.

    >>> check("the corrected sum is closer", 14342.1, above=5000)
    ✓ the corrected sum is closer ⟨14,000⟩ (above 5000)
    >>> check("every loss is near 1", [0.8123, 1.2], between=(0.5, 1.5))
    ✓ every loss is near 1 ⟨0.81 to 1.2⟩ (between 0.5 and 1.5)
    >>> check("both give the same mean", 0.1 + 0.2, equals=0.3, within=1e-12)
    ✓ both give the same mean ⟨off by 5.6e-17⟩ (within 1e-12)
    >>> check("a small change grows", 0.42, above=0.01, varies=True)
    ✓ a small change grows (above 0.01)
    >>> check("no row is lost", (4, 8), equals=(4, 8))
    ✓ no row is lost (exactly)
    >>> check("the variance is never negative", np.array([True, True]))
    ✓ the variance is never negative

    Args:
        claim: the sentence that is printed.
        value: number, bool, tensor, array or (nested) list; any other object with ``equals``.
        below: every element must be smaller than this finite number.
        above: every element must be larger than this finite number.
        between: lowest and highest value allowed, both included.
        equals: what is expected, in the shape of ``value``, or one number for all elements.
        within: with ``equals``, the largest ``|value - equals|`` allowed; 0 means exactly equal.
        varies: whether another processor finds another number; then only the bound is printed.

    Raises:
        CheckFailed: the claim does not hold; the message gives the worst element and its place.
        TypeError: two comparisons, or none for a value that is not true or false.
        ValueError: a bound that every number or no number could meet.
    """
    if not isinstance(claim, str) or not claim.strip():
        raise TypeError(f"the claim comes first and is a sentence, not {claim!r}")
    try:
        how, found = _check(claim, value, below, above, between, equals, within)
    except CheckFailed as failed:
        raise failed.with_traceback(None) from None  # its reader looks for the cell
    shown = bool(found) and not varies
    print(f"✓ {claim}" + f" ⟨{found}⟩" * shown + f" ({how})" * bool(how))


def _check(
    claim: str,
    value: object,
    below: SupportsFloat | None,
    above: SupportsFloat | None,
    between: tuple[SupportsFloat, SupportsFloat] | None,
    equals: object,
    within: SupportsFloat,
) -> tuple[str, str]:
    """Return the bound and what was found, both in words; raise if the claim does not hold."""
    given = {"below": below, "above": above, "between": between}
    rules = [name for name, bound in given.items() if bound is not None]
    rules += ["equals"] if equals is not ... else []
    if len(rules) > 1:
        raise TypeError(f"one comparison a check, not {' and '.join(rules)}: {claim}")
    tolerance = _bound("within", within)
    if tolerance < 0:
        raise ValueError(f"within={tolerance!r} is negative, so nothing could pass: {claim}")
    if tolerance and rules != ["equals"]:
        raise TypeError(f"within goes with equals, not with {rules or 'a bare value'}: {claim}")

    array = to_array(value)
    if equals is not ...:
        return _check_equal(claim, value, array, equals, tolerance)
    if not rules:
        if array.dtype.kind != "b":
            raise TypeError(
                f"a bare value must be true or false; {_kind(value)} needs below, above, "
                f"between or equals: {claim}"
            )
        _judge(claim, "true", value, array, ok=array, excess=(~array).astype(float))
        return "", ""
    if array.dtype.kind not in _ORDERED:
        raise TypeError(f"{rules[0]} needs real numbers, not {_kind(value)}: {claim}")
    numbers = _wide(array)
    if between is not None:
        low, high = (_bound("between", bound) for bound in between)
        if low >= high:
            raise ValueError(f"between={between!r} is not (lowest, highest): {claim}")
        how = f"between {_digits(low)} and {_digits(high)}"
        ok, excess = (numbers >= low) & (numbers <= high), np.maximum(low - numbers, numbers - high)
    elif below is not None:
        high = _bound("below", below)
        how, ok, excess = f"below {_digits(high)}", numbers < high, numbers - high
    elif above is not None:
        low = _bound("above", above)
        how, ok, excess = f"above {_digits(low)}", numbers > low, low - numbers
    _judge(claim, how, value, array, ok=ok, excess=excess)
    lowest, highest = array.min().item(), array.max().item()
    # The digits show how far from its bound the number lies.
    if between is not None:
        limits = {"near": (high - low) / 20, "low": low, "high": high}
        ends = dict.fromkeys(_rounded(end, **limits) for end in (lowest, highest))
        return how, " to ".join(ends)
    if below is not None:
        return how, _rounded(highest, near=(high - highest) / 4)
    return how, _rounded(lowest, near=(lowest - low) / 4)


def max_abs(x: object) -> float:
    """Return the largest absolute value in ``x``; NaN if it holds a NaN.

    >>> max_abs([0.5, -2.0])
    2.0

    Raises: ValueError if ``x`` has no elements or is not numeric.
    """
    array = to_array(x)
    if array.dtype.kind not in _NUMBERS or not array.size:
        raise ValueError(f"max_abs needs at least one number, not {_kind(x)}")
    return float(np.abs(_wide(array)).max())


def to_array(value: object) -> Array:
    """Read ``value`` as a NumPy array; what is neither number nor bool comes back boxed as object.

    Tensors come off their graph and their device; floats that NumPy lacks, such as bfloat16, become
    float64.
    """
    if hasattr(value, "detach"):
        tensor: Any = value.detach().cpu().resolve_conj().resolve_neg()
        return np.asarray((tensor.double() if tensor.is_floating_point() else tensor).numpy())
    if isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        array = np.asarray(value)
        return array if array.dtype.kind in _NUMBERS else _boxed(value)
    if isinstance(value, list | tuple):
        parts = [to_array(part) for part in value]
        if any(part.dtype.kind not in _NUMBERS for part in parts):
            return _boxed(value)
        shapes = sorted({part.shape for part in parts})
        if len(shapes) > 1:
            raise TypeError(f"a list whose parts have the shapes {shapes} is not one array")
        return np.asarray(parts)
    if hasattr(value, "__float__"):  # a Fraction or a SymPy number; a SymPy symbol refuses
        try:
            return np.asarray(float(value))
        except (TypeError, ValueError):
            return _boxed(value)
    return _boxed(value)


def distance(a: Array, b: Array) -> Array:
    """Return ``|a - b|`` elementwise: 0 where equal, NaN where only one of them is NaN.

    Two NaN, and two infinities of one sign, are at distance 0.

    >>> distance(np.array([1.0, np.nan, np.inf]), np.array([1.5, np.nan, np.inf]))
    array([0.5, 0. , 0. ])
    """
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(_wide(a) - _wide(b))
    # Integers above 2**53 can differ and still meet in float64: call that a distance of 1.
    return np.asarray(np.where(same, 0.0, np.where(gap == 0, 1.0, gap)))


def _check_equal(
    claim: str, value: object, array: Array, equals: object, tolerance: float
) -> tuple[str, str]:
    expected = to_array(equals)
    how = f"within {_digits(tolerance)}" if tolerance else "exactly"
    numeric = array.dtype.kind in _NUMBERS, expected.dtype.kind in _NUMBERS
    if numeric == (True, True):
        if expected.ndim and array.shape != expected.shape:
            raise CheckFailed(
                f"{claim}\n  shapes differ: {array.shape} measured, {expected.shape} expected"
                f"\n  measured: {_kind(value)}\n  expected: {_kind(equals)}"
            )
        gap = distance(array, expected)
        wanted = f"equal {how}" if tolerance else "exactly equal"
        _judge(claim, wanted, value, array, gap <= tolerance, gap, equals, expected)
        off = f"off by {_rounded(float(gap.max()), high=tolerance)}" if tolerance else ""
        return how, off
    if tolerance:
        raise TypeError(f"within needs numbers, not {_kind(value)} and {_kind(equals)}: {claim}")
    same = value == equals if numeric == (False, False) else False
    if not isinstance(same, bool):
        raise TypeError(f"{_kind(value)} cannot be compared with {_kind(equals)}: {claim}")
    if not same:
        raise CheckFailed(
            f"{claim}\n  measured: {value!r} ({_kind(value)})"
            f"\n  expected: {equals!r} ({_kind(equals)})"
        )
    return how, ""


def _judge(
    claim: str,
    wanted: str,
    value: object,
    array: Array,
    ok: Array,
    excess: Array,
    equals: object = ...,
    expected: Array | None = None,
) -> None:
    """Raise with the element of largest excess unless all are ``ok``."""
    if not array.size:
        raise CheckFailed(f"{claim}\n  {_kind(value)} has no elements, so nothing was checked")
    if ok.all():
        return
    # NaN compares with nothing, so it is never ok, and it is worse than any number.
    rank = np.where(ok, -np.inf, np.where(np.isnan(excess), np.inf, excess))
    place = tuple(int(i) for i in np.unravel_index(int(rank.argmax()), rank.shape))
    at = f" at {list(place)}" if place else ""
    lines = [f"{claim}", f"  wanted:   {wanted}", f"  measured: {array[place].item()!r}{at}"]
    if expected is not None:
        there = expected[place] if expected.ndim else expected
        lines.append(f"  expected: {there.item()!r}{at}, off by {float(excess[place]):.3g}")
    missing = int(np.isnan(array).sum())
    lines.append(
        f"  failed:   {int((~ok).sum())} of {ok.size} elements"
        + (f" (measured NaN in {missing})" if missing else "")
    )
    lines.append(f"  measured: {_kind(value)}")
    if expected is not None:
        lines.append(f"  expected: {_kind(equals)}")
    raise CheckFailed("\n".join(lines))


def _bound(name: str, bound: SupportsFloat) -> float:
    number = float(bound)
    if not math.isfinite(number):
        raise ValueError(f"{name}={number!r} is no bound: every number or none would pass")
    return number


def _digits(number: float) -> str:
    """Write a bound as people do: 1e-10, 0.5, 3.

    >>> [_digits(x) for x in (1e-6, 0.01 * 1e-5, 3.0, 1e20, 10 + 1e-9)]
    ['1e-6', '1e-7', '3', '1e20', '10.000000001']
    """
    digits = f"{number:.10g}"
    near = math.isclose(float(digits), number, rel_tol=1e-12)
    return _short(digits if near else repr(number))


def _short(digits: str) -> str:
    return re.sub(r"e([+-])0*", lambda sign: "e" + sign[1].strip("+"), digits)


def _rounded(
    number: float, *, near: float = math.inf, low: float = -math.inf, high: float = math.inf
) -> str:
    """Write what was found in two digits, or in as many as stay so near to it; integers whole.

    >>> [_rounded(x) for x in (14342.1, 0.999, 0.01234, 3.14e-13, 117, -2.5e7, 0.0)]
    ['14,000', '1.0', '0.012', '3.1e-13', '117', '-2.5e7', '0']
    >>> _rounded(0.99971, near=0.0001), _rounded(0.99971, high=0.9999)
    ('0.9997', '0.9997')
    """
    if isinstance(number, int):
        return f"{number:,}"
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    for digits in range(2, 17):
        written = _in_digits(number, digits)
        x = float(written.replace(",", ""))
        if abs(x - number) <= near and low <= x <= high:
            return written
    return _short(repr(number))


def _in_digits(number: float, digits: int) -> str:
    size = int(f"{number:.{digits - 1}e}".partition("e")[2])
    if not -3 <= size < 6:
        return _short(re.sub(r"\.?0*e", "e", f"{number:.{digits - 1}e}"))
    places = digits - 1 - size
    return f"{round(number, places):,.{max(places, 0)}f}"


def _kind(value: object) -> str:
    """Describe what ``value`` is, with shape and dtype where it has them."""
    name = type(value).__name__
    if isinstance(value, list | tuple):
        return f"{name} of length {len(value)}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{name} of shape {tuple(value.shape)}, {value.dtype}"
    return name


def _wide(array: Array) -> Array:
    """Return ``array`` in float64 or wider, so that a comparison rounds nothing away."""
    return array.astype(np.promote_types(array.dtype, np.float64))


def _boxed(value: object) -> Array:
    box = np.empty((), dtype=object)
    box[()] = value
    return box
