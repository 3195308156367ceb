"""What each PTX instruction that computes a value makes of its operands.

An operand is an array with one number for each thread. Float arithmetic rounds as PTX has it: once,
to the nearest, ties to even; subnormal numbers are kept. NumPy does so for ``+ − × ÷`` and the
square root. A fused multiply-add is computed in a wider type and rounded from there, which now and
then is another neighbor. Of instructions that PTX leaves room (``.approx``, ``.full``) the result
is the one nearest to the true value, so no error of these is modelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    f"{letter}{bits}": np.dtype(f"{kind}{bits // 8}")
    for letter, kind in (("b", "u"), ("u", "u"), ("s", "i"), ("f", "f"))
    for bits in (16, 32, 64)
}
DTYPES |= {"pred": np.dtype(bool), "bf16": np.dtype("u2"), "f16": np.dtype("u2")}


class PtxError(Exception):
    """What a GPU need not do as the program's author meant it, or what is not known here."""


class Operation(NamedTuple):
    """An instruction that computes: from sources of which types, and how."""

    sources: tuple[str, ...]
    compute: Callable[..., Array]


def fma32(a: Array, b: Array, c: Array) -> Array:
    # float64 holds the product; the sum is rounded to it, then to float32.
    return (a.astype(np.float64) * b + c).astype(np.float32)


def fma64(a: Array, b: Array, c: Array) -> Array:
    return (a.astype(np.longdouble) * b + c).astype(np.float64)


# Conversions of floats


def from_bf16(a: Array) -> Array:
    bits: Array = a.astype(np.uint32) << np.uint32(16)
    return bits.view(np.float32)


def to_bf16(a: Array) -> Array:
    bits = np.asarray(a, np.float32).view(np.uint32)
    half = np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    rounded = ((bits + half) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(a), np.uint16(0x7FFF), rounded)


def to_f16(a: Array) -> Array:
    return np.asarray(a).astype(np.float16).view(np.uint16)


def _both(convert: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Return what converts two numbers and packs them: the first to the upper half."""

    def pack(a: Array, b: Array) -> Array:
        return convert(a).astype(np.uint32) << np.uint32(16) | convert(b).astype(np.uint32)

    return pack


# Integers


def _shift_left(a: Array, by: Array) -> Array:
    bits = a.dtype.itemsize * 8  # and more clears all, where NumPy does whatever the machine does
    kept = np.minimum(by, bits - 1).astype(a.dtype)
    return np.asarray(np.where(by < bits, a << kept, a.dtype.type(0)))


def _shift_right(a: Array, by: Array) -> Array:
    bits = a.dtype.itemsize * 8
    shifted = a >> np.minimum(by, bits - 1).astype(a.dtype)
    return np.asarray(np.where((by < bits) | (shifted < 0), shifted, a.dtype.type(0)))


def _field(a: Array, start: Array, length: Array) -> Array:
    """Return ``length`` bits from ``start`` on; the last one is the sign of a signed number."""
    bits = a.dtype.itemsize * 8
    if np.any(length == 0) or np.any(start + length > bits):
        raise PtxError("bfe of no bits, or beyond the last one, is not modelled")
    return _shift_right(_shift_left(a, bits - start - length), bits - length)


def _permuted(a: Array, b: Array, selected: Array) -> Array:
    """Return four of the eight bytes of ``a`` and, above them, ``b``, as the digits select."""
    if np.any(selected & 0x8888):
        raise PtxError("prmt that copies signs is not modelled")
    both = a | b.astype(np.uint64) << np.uint64(32)
    taken = [both >> (selected >> 4 * k & 7) * 8 & 255 for k in range(4)]
    total = taken[0] | taken[1] << 8 | taken[2] << 16 | taken[3] << 24
    return np.asarray(total, np.uint32)


def _select(a: Array, b: Array, is_first: Array) -> Array:
    return np.asarray(np.where(is_first, a, b))


def _flush(a: Array) -> Array:
    return np.where(np.abs(a) < np.finfo(np.float32).tiny, np.float32(0), a)


# All of them, by their names


def _operations() -> dict[str, Operation]:
    found: dict[str, Operation] = {}

    def add(name: str, compute: Callable[..., Array], *sources: str) -> None:
        found[name] = Operation(sources, compute)

    arithmetic = (("add", np.add), ("sub", np.subtract), ("mul", np.multiply))
    for f in ("f32", "f64"):
        for name, binary in arithmetic:
            add(f"{name}.{f}", binary, f, f)
            add(f"{name}.rn.{f}", binary, f, f)
        add(f"div.rn.{f}", np.divide, f, f)
        add(f"sqrt.rn.{f}", np.sqrt, f)
        add(f"neg.{f}", np.negative, f)
        add(f"abs.{f}", np.abs, f)
        for name, compare in _COMPARISONS.items():
            add(f"setp.{name}.{f}", compare, f, f)
    add("fma.rn.f32", fma32, "f32", "f32", "f32")
    add("fma.rn.f64", fma64, "f64", "f64", "f64")
    add("abs.ftz.f32", lambda a: _flush(np.abs(a)), "f32")
    add("div.full.f32", np.divide, "f32", "f32")
    exact = np.float64  # of which float32 is the nearest
    add("ex2.approx.f32", lambda a: np.exp2(a.astype(exact)).astype(np.float32), "f32")

    for i in ("b32", "b64", "u32", "u64", "s32", "s64"):
        for name, binary in arithmetic:
            add(f"{name}{'.lo' * (name == 'mul')}.{i}", binary, i, i)
        add(f"mad.lo.{i}", lambda a, b, c: a * b + c, i, i, i)
        add(f"neg.{i}", np.negative, i)
        add(f"shl.{i}", _shift_left, i, "u32")
        add(f"shr.{i}", _shift_right, i, "u32")
        add(f"bfe.{i}", _field, i, "u32", "u32")
        for name, compare in _COMPARISONS.items():
            add(f"setp.{name}.{i}", compare, i, i)
    for narrow, wide in (("u32", "u64"), ("s32", "s64")):
        to = DTYPES[wide].type
        add(f"mul.wide.{narrow}", lambda a, b, to=to: to(a) * to(b), narrow, narrow)
        plus = (narrow, narrow, wide)
        add(f"mad.wide.{narrow}", lambda a, b, c, to=to: to(a) * to(b) + c, *plus)
    high = lambda a, b: (np.uint64(a) * np.uint64(b) >> np.uint64(32)).astype(np.uint32)  # noqa: E731
    add("mul.hi.u32", high, "u32", "u32")
    add("prmt.b32", _permuted, "b32", "b32", "u64")
    for t in DTYPES:
        add(f"selp.{t}", _select, t, t, "pred")
        add(f"mov.{t}", lambda a: a, t)
    for t in ("pred", "b32", "b64"):
        add(f"and.{t}", np.bitwise_and, t, t)
        add(f"or.{t}", np.bitwise_or, t, t)
        add(f"xor.{t}", np.bitwise_xor, t, t)
        add(f"not.{t}", np.invert, t)

    integers = ("u16", "u32", "u64", "s16", "s32", "s64")
    for source in integers:
        for t in integers:
            add(f"cvt.{t}.{source}", lambda a, to=DTYPES[t]: a.astype(to), source)
    add("cvt.f32.bf16", from_bf16, "bf16")
    add("cvt.f32.f16", lambda a: a.view(np.float16).astype(np.float32), "f16")
    add("cvt.f64.bf16", lambda a: from_bf16(a).astype(np.float64), "bf16")
    add("cvt.f64.f32", lambda a: a.astype(np.float64), "f32")
    add("cvt.rn.f32.f64", lambda a: a.astype(np.float32), "f64")
    for half, convert in (("bf16", to_bf16), ("f16", to_f16)):
        add(f"cvt.rn.{half}.f32", convert, "f32")
        add(f"cvt.rn.{half}x2.f32", _both(convert), "f32", "f32")
    return found


_COMPARISONS: dict[str, Callable[..., Array]] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),  # not of NaN, which is neither equal nor not
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


OPERATIONS = _operations()
