r"""Read any displayed equation of the book and ask whether it holds at given numbers.

`lnlib.book.equations` proves the derivations in symbols. The other equations have vectors,
matrices and functions in them. Here each symbol is a number, a column or a matrix; two of them side
by side are multiplied as linear algebra does, or element by element where both are columns:

>>> x = np.array([[1.0], [2.0], [6.0]])
>>> ok = {"x": x, "n": 3, "m": 3.0, "1": np.ones((3, 1))}
>>> [said.holds() for said in relations(r"\overline{x} = m, \qquad \mathbf 1^\top x = n\,m", ok)]
[True, True]
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lnlib.book.equations.latex import lines

Value = Any  # a float, a column or matrix of NumPy, or a function of such

_SPACE = re.compile(
    r"(?:\s|&|~|\\[,;:!> ]|\\q?quad(?![a-z])|\\\\(?:\[[^]]*\])?|\\[bB]igg?[lr]?(?![a-z])"
    r"|\\(?:left|right)(?![a-z]))+"
)
_TOKEN = re.compile(
    r"(?P<number>\d+(?:\\,\d{3})*(?:\.\d+)?)"
    r"|(?P<name>\\(?:hat|tilde|bar)\s*(?:\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z])|\\mathbf\s*\{?1\}?"
    r"|\\(?:mathrm|operatorname|mathbb)\s*(?:\{[^{}]*\}|[A-Za-z])"
    r"|\\(?:alpha|beta|gamma|delta|varepsilon|eta|theta|lambda|mu|pi|sigma|tau|chi|tanh|max)(?![a-z])"
    r"|d(?:\\(?:gamma|beta)(?![a-z])|\\tilde\s*[a-z]|[a-zA-Z])|[A-Za-z])"
    r"|(?P<mark>\\(?:frac|tfrac|sqrt|overline|sum|odot|cdot|top|lVert|rVert|langle|rangle|le|ge"
    r"|approx|partial|in)(?![a-zA-Z])|\\\||[-+=^_{}()\[\]/,|'])"
)
_RELATIONS = ("=", r"\le", r"\ge", r"\approx")


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
        if self.relation == "=":
            return self.gap() < 1e-9
        if self.relation == r"\approx":
            return self.gap() < 1e-3
        more, less = np.asarray(self.right), np.asarray(self.left)
        if self.relation == r"\ge":
            more, less = less, more
        return bool((less <= more + 1e-9).all())


def relations(latex: str, names: Mapping[str, Value], **at: int) -> list[Said]:
    """Return what each relation of an equation comes to.

    Args:
        latex: the equation. Text behind a space of \\quad, such as a condition, is left out.
        names: value of each symbol: of "W_h" or "hat x" as such, or of "W", a matrix, if its
            indices are in ``at``. "range" may hold the places that an index runs over, "samples"
            the (weight, names) that E averages over, and "lines" what else a symbol is in one
            line of the equation, or None for a line that is not read.
        at: where an index stands, from 0.

    Raises: ValueError or KeyError if something cannot be read or has no value.
    """
    latex = re.sub(r"\\q?quad\s*\\text\{.*", "", latex, flags=re.DOTALL)
    said: list[Said] = []
    for number, line in enumerate(lines(latex)):
        own = names.get("lines", {}).get(number, {})
        if own is None:
            continue
        reader = _Reader(line, {**names, **own}, at)
        left = reader.expression()
        while reader.peek() in _RELATIONS:
            relation = reader.take()
            right = reader.expression()
            said.append(Said(left, relation, right))
            left = right
        if reader.rest:
            raise ValueError(f"cannot read {reader.rest[0]!r} in {line!r}")
    if not said:
        raise ValueError(f"nothing is said in {latex!r}")
    return said


def times(a: Value, b: Value) -> Value:
    """Multiply as linear algebra does; two columns element by element."""
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    if a.shape[1] == b.shape[0] and not a.shape[1] == b.shape[1] == 1:
        return scalar(a @ b)
    if a.shape == b.shape:
        return a * b
    raise ValueError(f"shapes {a.shape} and {b.shape} cannot be multiplied")


def scalar(a: Value) -> Value:
    return a.item() if np.ndim(a) and a.size == 1 else a


def _plain(name: str) -> str:
    r"""Return how `names` calls a symbol: ``\hat{x}`` is "hat x", ``\mathrm N`` is "N"."""
    accent = re.match(r"(d?)\\(hat|tilde|bar)", name)
    core = re.sub(r"\\(?:hat|tilde|bar|mathrm|operatorname|mathbb|mathbf)(?![a-z])", "", name)
    core = re.sub(r"[{}\\\s]", "", core).replace("varepsilon", "epsilon")
    return f"{accent[1]}{accent[2]} {core.removeprefix(accent[1])}" if accent else core


class _Reader:
    """Recursive descent over one line; what it reads, it works out."""

    def __init__(self, line: str, names: Mapping[str, Value], at: Mapping[str, int]) -> None:
        self.names, self.at = names, at
        self.rest: list[str] = []
        position = 0
        while position < len(line):
            if space := _SPACE.match(line, position):
                position = space.end()
                continue
            token = _TOKEN.match(line, position)
            if token is None:
                raise ValueError(f"cannot read {line[position:][:20]!r}")
            position = token.end()
            self.rest.append(token[0])
        self.open_bars = 0

    def again(self, tokens: list[str], names: Mapping[str, Value], at: Mapping[str, int]) -> Value:
        """Work the tokens out once more, with other values."""
        reader = _Reader("", names, at)
        reader.rest = [*tokens]
        value = reader.term()
        if reader.rest:
            raise ValueError(f"cannot read {reader.rest[0]!r}")
        return value

    def peek(self) -> str:
        return self.rest[0] if self.rest else ""

    def take(self, wanted: str = "") -> str:
        if not self.rest or (wanted and self.peek() != wanted):
            raise ValueError(f"expected {wanted or 'more'}, found {self.peek()!r}")
        return self.rest.pop(0)

    def expression(self) -> Value:
        total: Value = None
        while True:
            negative = self.peek() in ("+", "-") and self.take() == "-"
            term = self.term()
            term = -term if negative else term
            total = term if total is None else total + term
            if self.peek() not in ("+", "-"):
                return total

    def term(self) -> Value:
        value: Value = None
        while self.rest and self.peek() not in ("+", "-", ")", "]", "}", ",", *_RELATIONS):
            how = self.take() if self.peek() in (r"\odot", r"\cdot", "/") else ""
            if self.peek() in ("|", r"\|", r"\rVert", r"\rangle") and self.open_bars and not how:
                break
            factor = self.powered()
            if value is None:
                value = factor
            elif how == "/":
                value = value / factor
            elif how == r"\odot":
                value = value * factor
            elif how == r"\cdot" and np.ndim(value) and np.shape(value) == np.shape(factor):
                value = float((value * factor).sum())
            else:
                value = times(value, factor)
        if value is None:
            raise ValueError(f"an expression is missing before {self.peek()!r}")
        return value

    def powered(self) -> Value:
        value = self.base()
        while self.peek() == "^":
            self.take()
            if self.peek() == r"\top" or self.rest[:2] == ["{", r"\top"]:
                self.group_of(r"\top")
                value = value.T
            else:
                value = value ** self.argument()
        return value

    def group_of(self, token: str) -> None:
        braces = self.peek() == "{" and self.take()
        self.take(token)
        if braces:
            self.take("}")

    def base(self) -> Value:
        token = self.take()
        if re.match(r"\d", token):
            return float(token.replace(r"\,", ""))
        if token in (r"\frac", r"\tfrac"):
            return self.fraction()
        if token == r"\sqrt":
            root = self.until("]") if self.peek() == "[" and self.take() else 2.0
            return self.argument() ** (1 / root)
        if token == r"\overline":
            return float(np.mean(self.argument()))
        if token == r"\sum":
            return self.sum()
        if token in ("(", "["):
            return self.until({"(": ")", "[": "]"}[token])
        if token in ("|", r"\|", r"\lVert", r"\langle"):
            return self.bars(token)
        return self.named(token)

    def until(self, close: str) -> Value:
        """Read to the closing bracket; several values in it are stacked to one column."""
        bars, self.open_bars = self.open_bars, 0
        parts = [self.expression()]
        while self.peek() == ",":
            self.take()
            parts.append(self.expression())
        self.take(close)
        self.open_bars = bars
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.reshape(part, (-1, 1)) for part in parts])

    def bars(self, token: str) -> Value:
        close = {r"\lVert": r"\rVert", r"\langle": r"\rangle"}.get(token, token)
        self.open_bars += 1
        inside = self.expression()
        if token == r"\langle":
            self.take(",")
            inside = float((inside * self.expression()).sum())
        self.take(close)
        self.open_bars -= 1
        if self.peek() == "_":
            self.take()
            if self.argument() != 2:
                raise ValueError("no length but that of squares is read")
        if token == "|":
            return np.abs(inside)
        return inside if token == r"\langle" else float(np.linalg.norm(inside))

    def argument(self) -> Value:
        if self.peek() == "{":
            self.take()
            return self.until("}")
        if re.match(r"\d\d", self.peek()):  # \frac12 has two arguments
            digits = self.take()
            self.rest.insert(0, digits[1:])
            return float(digits[0])
        return self.base()

    def fraction(self) -> Value:
        if self.rest[1:2] == [r"\partial"]:
            symbols = []
            for _ in range(2):
                self.take("{")
                self.take(r"\partial")
                symbols.append(self.key(self.take()))
                self.take("}")
            return self.value("∂{}/∂{}".format(*symbols))
        above = self.argument()
        return above / self.argument()

    def sum(self) -> Value:
        self.take("_")
        self.take("{")
        index = [self.take()]
        places: Any = None
        while self.peek() == ",":
            self.take()
            index.append(self.take())
        if self.peek() == r"\in":
            self.take()
            places = self.value(self.key(self.take()))
            self.take("}")
        elif self.peek() == "=":
            self.take()
            first = int(self.expression())
            self.take("}")
            self.take("^")
            places = range(first - 1, int(self.argument()))
        else:
            self.take("}")
        body, after = self._body()
        total: Value = 0.0
        spots: list[dict[str, int]] = [{}]
        for name in index:
            runs = places if places is not None else self.names["range"][name]
            spots = [{**spot, name: place} for spot in spots for place in runs]
        for spot in spots:
            total = total + self.again(body, self.names, {**self.at, **spot})
        self.rest = after
        return total

    def _body(self) -> tuple[list[str], list[str]]:
        """Return the tokens of the rest of this term, and those behind it."""
        depth = 0
        for place, token in enumerate(self.rest):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token, 0)
            if depth < 0 or (depth == 0 and token in ("+", "-", ",", *_RELATIONS)):
                return self.rest[:place], self.rest[place:]
        return self.rest, []

    def key(self, token: str) -> str:
        """Return a symbol's name with its indices and strokes, as `names` has it."""
        name = _plain(token)
        while self.peek() == "'":
            name += self.take()
        if self.peek() == "|" and self.rest[1:2] == ["_"]:
            name += self.take()
        if self.peek() == "_":
            depth, parts = 0, [self.take()]
            while len(parts) == 1 or depth:
                token = self.take()
                depth += {"{": 1, "}": -1}.get(token, 0)
                parts.append(_plain(token))
            name += "".join(parts)
        return name

    def named(self, token: str) -> Value:
        name = self.key(token)
        if name == "E":
            return self.expectation()
        if name == "Cov":
            inside = ""
            while not inside.endswith(")"):
                inside += self.take()
            indices = re.fullmatch(r"\(y_(\w),y_(\w)\|x\)", inside)
            if indices is None:
                raise ValueError(f"no covariance is known of {inside}")
            return self.names["Cov"][self.at[indices[1]], self.at[indices[2]]]
        value = self.value(name)
        return value(self.powered()) if callable(value) else value

    def expectation(self) -> Value:
        open_, depth, body = self.take(), 1, []
        while depth:
            token = self.take()
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token, 0)
            body.append(token)
        assert open_ in "(["
        parts = [
            weight * self.again(body[:-1], {**self.names, **names}, self.at)
            for weight, names in self.names["samples"]
        ]
        return sum(parts[1:], start=parts[0])

    def value(self, name: str) -> Value:
        """Return what a symbol stands for: itself, or one element of it."""
        if name in self.names:
            return self.names[name]
        base, _, indices = name.partition("_")
        places = re.findall(r"([a-z])([-+]\d)?", indices)
        spots = [self.at[letter] + int(shift or 0) for letter, shift in places]
        if base == "delta" and len(spots) == 2:
            return float(spots[0] == spots[1])
        if base not in self.names or not spots:
            raise KeyError(name)
        whole = self.names[base]
        if isinstance(whole, list):
            return whole[spots[0]]
        if len(spots) == 1 and np.ndim(whole) == 2 and whole.shape[1] == 1:
            spots.append(0)
        return whole[tuple(spots)]


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
