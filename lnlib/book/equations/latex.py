r"""Read the LaTeX that a chapter prints: enough of it for the derivations, and nothing silently.

SymPy's own two readers were tried first. One refuses ``\frac{\partial \sigma}{\partial x_i}``. The
other drops what follows ``\mathbf{1}_h`` and sorts subscripts, which makes J_{ki} and J_{ik} one
symbol. What is here reads less and loses nothing: what it does not know, it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "Add",
    "Atom",
    "Derivative",
    "Differentiate",
    "LatexError",
    "Mean",
    "Mul",
    "Node",
    "Number",
    "Power",
    "Sum",
    "chains",
    "labeled",
    "lines",
    "parse",
]


class LatexError(ValueError):
    """The LaTeX is not of the kind that `parse` reads."""


@dataclass(frozen=True)
class Number:
    """A number without a sign, as it is written."""

    digits: str


@dataclass(frozen=True)
class Atom:
    """A symbol with its indices: ``x_{bh}`` is Atom("x", ("b", "h"))."""

    name: str
    indices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Derivative:
    """A derivative of one symbol by another, written as a fraction; with upright d it is total."""

    of: Atom
    by: Atom
    total: bool = False


@dataclass(frozen=True)
class Differentiate:
    """The operator ∂/∂x_i before all that it is applied to: the rest of its term."""

    by: Atom
    body: Node
    total: bool = False


@dataclass(frozen=True)
class Sum:
    """A sum with its index and its limits; it reaches to the end of its term."""

    index: str
    low: Node
    high: Node
    body: Node


@dataclass(frozen=True)
class Mean:
    """An overline: the mean over the features."""

    body: Node


@dataclass(frozen=True)
class Power:
    """A power; a root has the exponent 1/2, a denominator a negative one."""

    base: Node
    exponent: Node


@dataclass(frozen=True)
class Mul:
    """A product."""

    factors: tuple[Node, ...]


@dataclass(frozen=True)
class Add:
    """A sum of terms written out; a minus is a factor of −1."""

    terms: tuple[Node, ...]


Node = Number | Atom | Derivative | Differentiate | Sum | Mean | Power | Mul | Add

_SPACES = r"\\[,;:!> ]|\\q?quad|\\(?:left|right|[bB]igg?[lr]?)(?![a-zA-Z])|~|&|\s+"
# Greek letters, ε in the shape that headings and code have, and the script l.
_NAMES = "alpha|beta|gamma|delta|varepsilon|eta|theta|lambda|mu|nu|rho|sigma|tau|chi|ell"
_TOKEN = re.compile(
    rf"""(?P<space>{_SPACES})
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<gradient>d(?=[a-zA-Z](?![a-zA-Z])|\\(?:gamma|beta|tilde)))
    |(?P<name>\\(?:{_NAMES})(?![a-zA-Z])|[A-Za-z])
    |(?P<command>\\[a-zA-Z]+)
    |(?P<mark>[-+=^_{{}}()\[\]/,.|'])""",
    re.VERBOSE,
)


def labeled(page: str) -> dict[str, str]:
    """Return the labeled equations of a page in MyST Markdown, by their labels."""
    return dict(re.findall(r"```\{math\}\n:label: (\S+)\n(.*?)```", page, re.DOTALL))


def tokens(latex: str) -> list[tuple[str, str]]:
    """Return (kind, text) for each token; layout that means nothing is left out."""
    found, position = [], 0
    while position < len(latex):
        match = _TOKEN.match(latex, position)
        if not match:
            raise LatexError(f"cannot read {latex[position : position + 20]!r} in {latex!r}")
        position = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match[0]))
    return found


def lines(latex: str) -> list[str]:
    r"""Return the lines of a displayed equation; one that begins with a sign goes on with another.

    What follows ``\qquad`` is a line of its own.

    >>> lines(r"a &= b \\ &= c, \\ d &= e \\ &+ f .")
    ['a &= b = c', 'd &= e + f']
    """
    body = re.sub(r"\\(?:begin|end)\{(?:aligned|gathered|split)\}", "", latex)
    whole: list[str] = []
    for line in re.split(r"\\\\(?:\[[^]]*\])?|\\qquad", body):
        line = re.sub(r"[\s,.;&]+$", "", re.sub(r"^(?:[\s&]|\\;|\\quad)+", "", line))
        if whole and line.startswith(("=", "+", "-", r"\cdot", r"\odot")):
            whole[-1] += " " + line
        elif line:
            whole.append(line)
    return whole


def chains(latex: str) -> Iterator[list[Node]]:
    r"""Yield each chain of equal expressions in a displayed equation; `lines` says what is one.

    >>> [len(chain) for chain in chains(r"a &= b \\ &= c, \\ d &= e \\ &+ f .")]
    [3, 2]

    Raises: LatexError if the LaTeX holds anything that `parse` does not read.
    """
    for chain in lines(latex):
        expressions = _split_at_equals(chain)
        if len(expressions) < 2:
            raise LatexError(f"there is no = in {chain!r}")
        yield [parse(expression) for expression in expressions]


def _split_at_equals(chain: str) -> list[str]:
    r"""Split at each = that is in no braces: the one in ``\sum_{r=1}`` is."""
    parts, depth = [""], 0
    for character in chain:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "=" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def parse(latex: str) -> Node:
    r"""Read one expression.

    >>> parse(r"-\frac{x_i}{2}")
    Mul(factors=(Number(digits='-1'), Atom(name='x', indices=('i',)), Power(base=Number(digits='2'), exponent=Number(digits='-1'))))
    """  # noqa: E501  (what doctest compares)
    reader = _Reader(latex)
    node = reader.expression()
    if reader.rest:
        raise LatexError(f"cannot read from {reader.rest[0][1]!r} on in {latex!r}")
    return node


class _Reader:
    """Recursive descent, one method for each level of binding.

    Attributes:
        rest: the tokens that have not been read, as (kind, text).
        ends: what ends a term.
    """

    ends: tuple[str, ...] = ("+", "-", ")", "]", "}")

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.rest = tokens(latex)

    def peek(self) -> str:
        return self.rest[0][1] if self.rest else ""

    def kind(self) -> str:
        return self.rest[0][0] if self.rest else ""

    def take(self, *wanted: str) -> str:
        if not self.rest or (wanted and self.peek() not in wanted):
            expected = " or ".join(wanted) or "more"
            raise LatexError(f"expected {expected}, found {self.peek()!r} in {self.latex!r}")
        return self.rest.pop(0)[1]

    def expression(self) -> Node:
        terms = [self.signed_term()]
        while self.peek() in ("+", "-"):
            terms.append(self.signed_term())
        return terms[0] if len(terms) == 1 else Add(tuple(terms))

    def signed_term(self) -> Node:
        negative = self.peek() in ("+", "-") and self.take() == "-"
        factors = self.factors()
        if negative:
            factors = [Number("-1"), *factors]
        return factors[0] if len(factors) == 1 else Mul(tuple(factors))

    def factors(self) -> list[Node]:
        found: list[Node] = []
        while self.rest and self.peek() not in self.ends:
            if self.peek() == r"\odot" or self.times_a_number():
                self.take()
                continue
            if self.peek() == "/":
                self.take()
                found.append(Power(self.powered(), Number("-1")))
                continue
            found += self.factor()
        if not found:
            raise LatexError(f"an expression is missing before {self.peek()!r} in {self.latex!r}")
        return found

    def times_a_number(self) -> bool:
        """Tell whether a dot stands before a number; before a vector it would sum products."""
        return self.peek() == r"\cdot" and [kind for kind, _ in self.rest[1:2]] == ["number"]

    def factor(self) -> list[Node]:
        command = self.peek()
        if command in (r"\frac", r"\tfrac"):
            return self.fraction()
        if command == r"\sum":
            return [self.sum()]
        return [self.powered()]

    def powered(self) -> Node:
        base = self.base()
        if self.peek() != "^":
            return base
        self.take("^")
        return Power(base, self.argument())

    def base(self) -> Node:
        command = self.peek()
        if command == r"\sqrt":
            self.take()
            return Power(self.argument(), Power(Number("2"), Number("-1")))
        if command in (r"\overline", r"\bar"):
            self.take()
            return Mean(self.argument())
        if command in ("(", "["):
            self.take()
            inside = self.expression()
            self.take(")" if command == "(" else "]")
            return inside
        if self.kind() == "number":
            return Number(self.take())
        return self.atom()

    def argument(self) -> Node:
        r"""Read what a command applies to: a group, or one digit or symbol, as in ``\frac1n``."""
        if self.peek() == "{":
            self.take()
            inside = self.expression()
            self.take("}")
            return inside
        return Number(self.digit()) if self.kind() == "number" else self.atom()

    def fraction(self) -> list[Node]:
        self.take()
        above = [text for _, text in self.rest[1:5]]
        if above[:1] == [r"\partial"] or above == [r"\mathrm", "{", "d", "}"]:
            return [self.derivative()]
        return [self.argument(), Power(self.argument(), Number("-1"))]

    def derivative(self) -> Node:
        self.take("{")
        sign = self.differential()
        of = None if self.peek() == "}" else self.differentiable()
        self.take("}")
        self.take("{")
        if self.differential() != sign:
            raise LatexError(f"a derivative is partial above and total below in {self.latex!r}")
        by = self.differentiable()
        self.take("}")
        if of:
            return Derivative(of, by, total=sign == "d")
        body = self.factors()
        return Differentiate(by, body[0] if len(body) == 1 else Mul(tuple(body)), sign == "d")

    def differentiable(self) -> Atom:
        r"""Read a symbol, or the square that is one by itself: the variance ``\sigma_b^2``."""
        atom = self.atom()
        if self.peek() != "^":
            return atom
        self.take("^")
        return Atom(f"{atom.name}^{self.take('2')}", atom.indices)

    def differential(self) -> str:
        if self.take(r"\partial", r"\mathrm") == r"\partial":
            return r"\partial"
        self.take("{")
        sign = self.take("d")
        self.take("}")
        return sign

    def sum(self) -> Node:
        self.take(r"\sum")
        self.take("_")
        self.take("{")
        index = self.take()
        self.take("=")
        low = self.expression()
        self.take("}")
        self.take("^")
        high = self.argument()
        body = self.factors()
        return Sum(index, low, high, body[0] if len(body) == 1 else Mul(tuple(body)))

    def atom(self) -> Atom:
        name = self.take() if self.kind() == "gradient" else ""
        if self.peek() in (r"\hat", r"\tilde"):
            name += f"{self.take()[1:]} {self.name()}"
        elif self.peek() in (r"\mathbf", r"\mathrm", r"\operatorname"):
            self.take()
            name = self.upright()
        else:
            name += self.name()
        return Atom(name, self.indices())

    def upright(self) -> str:
        if self.peek() != "{":
            return self.take()
        self.take("{")
        name = ""
        while self.peek() != "}":
            name += self.take()
        self.take("}")
        return name

    def name(self) -> str:
        braces = self.peek() == "{"
        if braces:
            self.take()
        if self.kind() != "name":
            raise LatexError(f"expected a symbol, found {self.peek()!r} in {self.latex!r}")
        name = self.take().removeprefix("\\").replace("varepsilon", "epsilon")
        if braces:
            self.take("}")
        return name

    def indices(self) -> tuple[str, ...]:
        if self.peek() != "_":
            return ()
        self.take()
        if self.peek() != "{":
            return (self.index(),)
        self.take("{")
        found = []
        while self.peek() != "}":
            found.append(self.index())
        self.take("}")
        return tuple(found)

    def index(self) -> str:
        if self.kind() not in ("name", "number"):
            raise LatexError(f"expected an index, found {self.peek()!r} in {self.latex!r}")
        return self.digit() if self.kind() == "number" else self.take()

    def digit(self) -> str:
        r"""Take one digit only: ``J_{12}`` has two indices and ``\frac12`` two numbers."""
        text = self.take()
        if len(text) > 1:
            self.rest.insert(0, ("number", text[1:]))
        return text[0]
