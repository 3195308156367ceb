r"""Read any displayed equation of the book and ask whether it holds at given numbers.

`lnlib.book.equations` proves the derivations in symbols. The other equations have vectors,
matrices and functions in them. The same reader reads them, with a few forms more, and here each
symbol is a number, a column or a matrix. Two of them side by side are multiplied as linear algebra
does, or element by element where both are columns; a function is applied to what follows it:

>>> x = np.array([[1.0], [2.0], [6.0]])
>>> ok = {"x": x, "n": 3, "m": 3.0, "1": np.ones((3, 1))}
>>> [said.holds() for said in relations(r"\overline{x} = m, \qquad \mathbf 1^\top x = n\,m", ok)]
[True, True]
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lnlib.book.equations import latex

Value = Any  # a float, a column or matrix of NumPy, or a function of such

RELATIONS = ("=", r"\le", r"\ge", r"\approx")


@dataclass
class Said:
    """Two sides of a relation, and what they come to."""

    left: Value
    relation: str
    right: Value

    def gap(self) -> float:
        """Return how far apart the sides are, as a part of their size."""
        left, right = (np.asarray(side, dtype=float) for side in (self.left, self.right))
        if left.shape != right.shape and left.size != 1 and right.size != 1:
            return math.inf
        size = max(np.abs(left).max(), np.abs(right).max(), 1e-3)
        return float(np.abs(left - right).max() / size)

    def holds(self) -> bool:
        if self.relation in ("=", r"\approx"):
            return self.gap() < (1e-9 if self.relation == "=" else 1e-3)
        less, more = np.asarray(self.left), np.asarray(self.right)
        if self.relation == r"\ge":
            less, more = more, less
        return bool((less <= more + 1e-9).all())


def relations(equation: str, names: Mapping[str, Value]) -> list[Said]:
    """Return what each relation of an equation comes to.

    Args:
        equation: its LaTeX. Text after a space of \\quad, such as a condition, is left out.
        names: value of each symbol: of "W_h" or "hat x" as such, or of "W", a matrix, if its
            indices are there too, which stand from 0 on. "range" may hold the places that an index
            runs over, "samples" the (weight, names) that E averages over, and "lines" what else a
            symbol is in one line of the equation, or None for a line that is not read.

    Raises: ValueError or KeyError if something cannot be read or has no value.
    """
    equation = re.sub(r"\\q?quad\s*\\text\{.*", "", equation, flags=re.DOTALL)
    said: list[Said] = []
    for number, line in enumerate(latex.lines(equation)):
        own = names.get("lines", {}).get(number, {})
        if own is None:
            continue
        reader, here = _Reader(line), {**names, **own}
        left = value(reader.expression(), here)
        while reader.peek() in RELATIONS:
            relation = reader.take()
            right = value(reader.expression(), here)
            said.append(Said(left, relation, right))
            left = right
        if reader.rest:
            raise latex.LatexError(f"cannot read {reader.rest[0][1]!r} in {line!r}")
    if not said:
        raise latex.LatexError(f"nothing is said in {equation!r}")
    return said


@dataclass
class Call:
    """A function of NumPy, and what it is applied to."""

    function: Callable[..., Value]
    parts: list[Any]


@dataclass
class Over:
    """A sum over every place of some indices, or over the places that a symbol names."""

    indices: list[str]
    places: str
    body: Any


DOT = latex.Atom("·")
WRITTEN = [  # what is written in a way of its own, and how the reader of the derivations has it
    (r"(\d)\\,(?=\d{3})", r"\1"),
    (r"\\mathbb E", r"\\mathrm E"),
    (r"\\(tanh|max|top)\b", r"\\mathrm{\1}"),
    (r"\\\|(.*?)\\\|", r"\\lVert \1\\rVert "),
    (r"\|(?!_)([^|]*)\|(?!_)", r"\\lvert \1\\rvert "),
    (r"\\mathrm\{Cov\}\(y_(\w), y_(\w)\\,\|\\,x\)", r"\\mathrm{Cov}_{\1\2}"),
]


class _Reader(latex._Reader):
    """Reads lengths, products, several values in brackets, strokes and indices such as t+1 too."""

    ends = (*latex._Reader.ends, ",", r"\rvert", r"\rVert", r"\rangle", *RELATIONS)

    def __init__(self, line: str) -> None:
        for own, known in WRITTEN:
            line = re.sub(own, known, line)
        super().__init__(line)

    def expression(self) -> Any:
        parts = [super().expression()]
        while self.peek() == ",":
            self.take()
            parts.append(super().expression())
        return parts[0] if len(parts) == 1 else Call(stack, parts)

    def base(self) -> Any:
        bars = {r"\lvert": np.abs, r"\lVert": length, r"\langle": inner}
        if self.peek() == r"\cdot":
            self.take()
            return DOT
        if self.peek() not in bars:
            return super().base()
        opening = self.take()
        inside = self.expression()
        self.take(opening.replace("l", "r", 1))
        if opening == r"\lVert" and self.peek() == "_":
            self.take()
            self.take("2")
        return Call(bars[opening], inside.parts if opening == r"\langle" else [inside])

    def sum(self) -> Any:
        if self.rest[4][1] == "=":
            return super().sum()
        self.take(r"\sum")
        self.take("_")
        indices, _, places = self.group().partition("in")
        return Over(indices.split(","), places, latex.Mul(tuple(self.factors())))

    def indices(self) -> tuple[str, ...]:
        """Return all that follows a name as it is written: a stroke, and what hangs below."""
        said = self.take() if self.peek() in ("'", "|") else ""
        return (said + (self.take() + self.group() if self.peek() == "_" else ""),)

    def group(self) -> str:
        """Return what stands in braces, or one token, as `names` has it."""
        said, depth = "", 0
        while True:
            token = self.digit() if self.kind() == "number" else self.take()
            depth += {"{": 1, "}": -1}.get(token, 0)
            token = re.sub(r"\\mathrm|[\\{}]", "", token)
            said += f"{token} " if token in ("hat", "tilde") else token
            if not depth:
                return said


def value(node: Any, names: Mapping[str, Value]) -> Value:
    """Work out what was read, where `relations` says what the names are."""

    def of(part: Any, **spot: int) -> Value:
        return value(part, {**names, **spot})

    match node:
        case latex.Number(digits):
            return float(digits)
        case latex.Atom():
            return symbol(_key(node), names)
        case latex.Derivative(above, below):
            return symbol(f"∂{_key(above)}/∂{_key(below)}", names)
        case latex.Mean(body):
            return float(np.mean(of(body)))
        case latex.Power(base, latex.Atom("top")):
            return of(base).T
        case latex.Power(base, exponent):
            return of(base) ** of(exponent)
        case latex.Add(terms):
            return sum(map(of, terms))
        case latex.Sum(index, low, high, body):
            return sum(of(body, **{index: n}) for n in range(int(of(low)) - 1, int(of(high))))
        case Over(indices, places, body):
            runs = [symbol(places, names) if places else names["range"][i] for i in indices]
            spots = itertools.product(*runs)
            return sum(of(body, **dict(zip(indices, spot, strict=True))) for spot in spots)
        case Call(function, parts):
            return function(*map(of, parts))
        case latex.Mul(factors):
            return product([*factors], names)
    raise latex.LatexError(f"{node} has no value")


def product(factors: list[Any], names: Mapping[str, Value]) -> Value:
    """Multiply; a function and E take the factor that follows them."""
    total, multiply = 1.0, times
    while factors:
        factor = factors.pop(0)
        if factor == DOT:
            multiply = inner
            continue
        if factor == latex.Atom("E", ("",)):
            body = factors.pop(0)
            new = sum(w * value(body, {**names, **own}) for w, own in names["samples"])
        else:
            new = value(factor, names)
        if callable(new):
            new = new(value(factors.pop(0), names))
        total, multiply = multiply(total, new), times
    return total


def _key(atom: latex.Atom) -> str:
    return atom.name + "".join(atom.indices)


def symbol(name: str, names: Mapping[str, Value]) -> Value:
    """Return what a symbol stands for: itself, or one element of it."""
    if name in names:
        return names[name]
    base, _, indices = name.partition("_")
    places = re.findall(r"([a-z])([-+]\d)?", indices)
    spots = [names[letter] + int(shift or 0) for letter, shift in places]
    if base == "delta" and len(spots) == 2:
        return float(spots[0] == spots[1])
    if base not in names or not spots:
        raise KeyError(name)
    whole = names[base]
    if isinstance(whole, list):
        return whole[spots[0]]
    if len(spots) == 1 and np.ndim(whole) == 2 and whole.shape[1] == 1:
        spots.append(0)
    return whole[tuple(spots)]


def times(a: Value, b: Value) -> Value:
    """Multiply as linear algebra does; two columns element by element."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    if a.shape[1] == b.shape[0] and not a.shape[1] == b.shape[1] == 1:
        whole = a @ b
        return whole.item() if whole.size == 1 else whole
    if a.shape == b.shape:
        return a * b
    raise ValueError(f"shapes {a.shape} and {b.shape} cannot be multiplied")


def inner(a: Value, b: Value) -> Value:
    return float((a * b).sum()) if np.ndim(a) and a.shape == np.shape(b) else times(a, b)


def length(a: Value) -> float:
    return float(np.linalg.norm(a))


def stack(*parts: Value) -> Value:
    return np.concatenate([column(part) for part in parts])


def column(values: Any) -> Any:
    """Return numbers of any kind as a column of float64."""
    values = values.detach().numpy() if isinstance(values, torch.Tensor) else values
    return np.asarray(values, dtype=float).reshape(-1, 1)


def on_columns(function: Callable[..., torch.Tensor], **options: Any) -> Callable[[Value], Value]:
    """Let a function of PyTorch take a column, or a number."""

    def call(x: Value) -> Value:
        if np.ndim(x) == 0:
            return function(torch.tensor(float(x), dtype=torch.float64), **options).item()
        return column(function(torch.from_numpy(np.ascontiguousarray(x[:, 0])), **options))

    return call
