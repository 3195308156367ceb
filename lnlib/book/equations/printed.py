"""Check the equations that a chapter prints, on the very LaTeX that stands in its page.

The chain of a displayed equation holds if all its expressions mean the same, at every place of
every index. What they mean is exact: the features of the rows, γ, β, ε and the upstream gradient
are symbols, SymPy differentiates their definitions, and no number is rounded.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sympy
from sympy import Expr, Integer, Symbol

from lnlib.book.check import CheckFailed
from lnlib.book.equations import latex
from lnlib.book.equations.latex import (
    Add,
    Atom,
    Derivative,
    Differentiate,
    LatexError,
    Mean,
    Mul,
    Node,
    Number,
    Power,
    Sum,
)
from lnlib.book.equations.zero import is_zero
from lnlib.book.home import HOME

__all__ = ["Difference", "Meaning", "Printed", "difference", "symbol"]

NOTEBOOKS = HOME / "notebooks"

Places = Mapping[str, int]  # where each index stands, counted from 1


class Printed:
    """The numbered equations of one chapter, as its page prints them.

    Args:
        chapter: the name of the notebook, such as "04_scalar_jacobian". The one in the current
            directory is read, if there is one: it is the reader's, who may have changed it.

    Raises:
        FileNotFoundError: there is no such notebook.
    """

    def __init__(self, chapter: str) -> None:
        places = [folder / f"{chapter}.ipynb" for folder in (Path.cwd(), NOTEBOOKS)]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise FileNotFoundError(f"no {places[0].name} in {places[0].parent} nor in {NOTEBOOKS}")
        cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        self.chapter = chapter
        self.equations = latex.labeled(text)

    def check(self, claim: str, label: str, meaning: Meaning) -> None:
        """Print ``claim`` if the equation holds as it is printed, otherwise raise.

        Args:
            claim: the sentence that is printed.
            label: of the equation, such as "eq-dsigma".
            meaning: what its symbols stand for.

        Raises:
            CheckFailed: two expressions of the equation differ; the message says which and where.
            lnlib.book.equations.latex.LatexError: the equation holds LaTeX that cannot be read, or
                a symbol that has no meaning here.
            KeyError: the page has no such equation.
            ZeroDivisionError: something in the equation is divided by 0.
        """
        if label not in self.equations:
            known = ", ".join(self.equations)
            raise KeyError(f"{self.chapter} prints no equation {label}; it has {known}")
        if found := difference(self.equations[label], meaning):
            failure = CheckFailed(f"{claim}\n  {found}")
            failure.add_note(f"  equation: {label}")
            raise failure
        print(f"✓ {claim} (as printed, in symbols, {meaning.name})")


@dataclass
class Meaning:
    """What the symbols of a derivation stand for.

    Args:
        name: how a check names it, such as "3 features".
        sizes: kind of index -> how many places it has.
        slots: symbol -> the kinds of its indices. Written without indices, it stands at a place of
            its own that the whole equation shares. "sigma^2" makes the square a symbol, which ∂ can
            be taken of and by.
        rows: the index letters of kind "row"; any other letter is of kind "feature".
        numbers: symbol -> a number, such as H.
        definitions: symbol -> its value at its indices, in the symbols it is made of, which come
            from `symbol`. What has none is a variable.
        loss: the symbol whose ∂ goes through every path to it. The ∂ of any other one holds fixed
            what it is not made of directly. None: every ∂ goes through every path.
        implied: whether an index that is not on the left of its chain is summed.

    Attributes:
        derivatives: those that were asked for: of what, by what, and through every path or not.
    """

    name: str
    sizes: Mapping[str, int]
    slots: Mapping[str, tuple[str, ...]]
    rows: str = ""
    numbers: Mapping[str, Expr] = field(default_factory=dict)
    definitions: Mapping[str, Callable[..., Expr]] = field(default_factory=dict)
    loss: str | None = None
    implied: bool = False
    derivatives: dict[tuple[Expr, Expr, bool], Expr] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def kind(self, index: str) -> str:
        """Return "row" or "feature"; an index that is not written is named by its kind."""
        if index in self.sizes:
            return index
        return "row" if index in self.rows else "feature"

    def define(self, name: str, places: Sequence[int]) -> Expr:
        """Return what a symbol is made of, or the symbol itself if it is a variable."""
        make = self.definitions.get(name)
        return make(*places) if make else symbol(name, *places)

    def resolve(self, expression: Expr, down_to: str = "") -> Expr:
        """Put in definitions until only variables are left, and symbols of the one given."""
        while True:
            known = {
                s: self.define(*_ORIGIN[s])
                for s in expression.free_symbols
                if _ORIGIN[s][0] in self.definitions and _ORIGIN[s][0] != down_to
            }
            if not known:
                return expression
            expression = expression.xreplace(known)


_ORIGIN: dict[Symbol, tuple[str, tuple[int, ...]]] = {}


def symbol(name: str, *places: int) -> Symbol:
    """Return the variable that stands for one element, counted from 1."""
    made = Symbol("_".join([name, *map(str, places)]), real=True)
    _ORIGIN[made] = name, places
    return made


@dataclass(frozen=True)
class Difference:
    """Where two expressions of a chain differ, and what they are there."""

    number: int
    places: Places
    first: Expr
    it: Expr

    def __str__(self) -> str:
        at = ", ".join(f"{index} = {place}" for index, place in self.places.items())
        return (
            f"expression {self.number} of the equation differs from the first"
            f"{' at ' + at if at else ''}\n  first: {self.first}\n  it:    {self.it}"
        )


def difference(equation: str, meaning: Meaning) -> Difference | None:
    """Return the first difference within a chain of ``equation``, LaTeX, or None."""
    for chain in latex.chains(equation):
        for places in _every_place(_free_indices(chain, meaning), meaning, {}):
            first, *others = (meaning.resolve(_value(side, places, meaning)) for side in chain)
            for number, other in enumerate(others, start=2):
                if not is_zero(first - other):
                    return Difference(number, places, first, other)
    return None


def _every_place(
    indices: Sequence[str], meaning: Meaning, fixed: Places
) -> Iterator[dict[str, int]]:
    ranges = [range(1, meaning.sizes[meaning.kind(index)] + 1) for index in indices]
    for places in itertools.product(*ranges):
        yield {**fixed, **dict(zip(indices, places, strict=True))}


def _free_indices(chain: list[Node], meaning: Meaning) -> list[str]:
    """Return the indices that the chain is said for: those on its left, hidden ones included."""
    if not meaning.implied:
        return sorted({i for side in chain for i in _occurring(side, meaning)})
    left = _occurring(chain[0], meaning)
    return [i for i, count in left.items() if count == 1 or i in meaning.sizes]


def _indices(atom: Atom, meaning: Meaning) -> tuple[str, ...]:
    return atom.indices or meaning.slots.get(atom.name, ())


def _occurring(node: Node, meaning: Meaning) -> Counter[str]:
    """Count in how many symbols each index occurs that a sum does not bind; digits are places."""
    match node:
        case Atom():
            return Counter(i for i in dict.fromkeys(_indices(node, meaning)) if not i.isdigit())
        case Derivative(of, by):
            return Counter({**_occurring(of, meaning), **_occurring(by, meaning)})
        case Number():
            return Counter()
        case Sum(index=index, body=body):
            return Counter({i: c for i, c in _occurring(body, meaning).items() if i != index})
        case Mean(body):
            return Counter({i: c for i, c in _occurring(body, meaning).items() if i != "feature"})
        case Differentiate(by, body):
            return _occurring(by, meaning) + _occurring(body, meaning)
        case Power(base, exponent):
            return _occurring(base, meaning) + _occurring(exponent, meaning)
        case Mul(parts) | Add(parts):
            found = [_occurring(part, meaning) for part in parts]
            if isinstance(node, Mul):
                return sum(found, Counter())
            return Counter({i: max(c[i] for c in found) for c in found for i in c})


def _value(node: Node, places: Places, meaning: Meaning) -> Expr:
    """Return what ``node`` means at ``places``; indices that are not in them are summed."""
    loose = [index for index in _bound_here(node, meaning) if index not in places]
    every = _every_place(loose, meaning, places)
    return sympy.Add(*(_value_at(node, here, meaning) for here in every))


def _bound_here(node: Node, meaning: Meaning) -> list[str]:
    """Return the indices to be summed at this node if they are loose, rather than inside it.

    An index is summed in the smallest product that holds all its occurrences.
    """
    match node:
        case Atom() | Derivative():
            return list(_occurring(node, meaning))
        case Mul():
            counts = Counter(
                index for factor in _flat(node) for index in set(_occurring(factor, meaning))
            )
            return [index for index, count in counts.items() if count > 1]
        case Power(base=base, exponent=exponent) if not _is_root(exponent):
            if isinstance(base, Atom):
                return list(_occurring(base, meaning))
        case _:
            pass
    return []


def _is_root(exponent: Node) -> bool:
    return exponent == Power(Number("2"), Number("-1"))


def _flat(node: Mul) -> Iterator[Node]:
    for factor in node.factors:
        if isinstance(factor, Mul):
            yield from _flat(factor)
        else:
            yield factor


def _value_at(node: Node, places: Places, meaning: Meaning) -> Expr:
    match node:
        case Number(digits):
            return sympy.Rational(digits)
        case Atom():
            return _atom(node, places, meaning)
        case Derivative(of, by, total):
            return _derivative(of, by, total, places, meaning)
        case Differentiate(by, body, total):
            return _differentiated(by, _value(body, places, meaning), total, places, meaning)
        case Sum(index, low, high, body):
            first, last = (int(_value(limit, places, meaning)) for limit in (low, high))
            steps = [{**places, index: place} for place in range(first, last + 1)]
            return sympy.Add(*(_value(body, step, meaning) for step in steps))
        case Mean(body):
            steps = list(_every_place(["feature"], meaning, places))
            return sympy.Add(*(_value(body, step, meaning) for step in steps)) / len(steps)
        case Power(Atom(name, indices), Number("2")) if f"{name}^2" in meaning.slots:
            return _atom(Atom(f"{name}^2", indices), places, meaning)
        case Power(base, exponent):
            _refuse_ambiguous(node, places, meaning)
            return _value(base, places, meaning) ** _value(exponent, places, meaning)
        case Mul():
            return sympy.Mul(*(_value(factor, places, meaning) for factor in _flat(node)))
        case Add(terms):
            return sympy.Add(*(_value(term, places, meaning) for term in terms))


def _refuse_ambiguous(node: Power, places: Places, meaning: Meaning) -> None:
    loose = [index for index in _occurring(node.base, meaning) if index not in places]
    if loose and not _is_root(node.exponent):
        raise LatexError(f"is {loose[0]} summed before or after the power in {node}?")


def _places(atom: Atom, places: Places, meaning: Meaning) -> list[int]:
    indices = _indices(atom, meaning)
    for index in indices:
        if not index.isdigit() and index not in places:
            raise LatexError(f"nothing says where the index {index} of {atom} stands")
    return [int(i) if i.isdigit() else places[i] for i in indices]


def _atom(atom: Atom, places: Places, meaning: Meaning) -> Expr:
    here = _places(atom, places, meaning)
    kinds = tuple(meaning.kind(index) for index in _indices(atom, meaning))
    if atom.name == "1" and len(kinds) == 1:
        return Integer(1)
    if atom.name == "delta" and len(kinds) == 2 and kinds[0] == kinds[1]:
        return Integer(here[0] == here[1])
    if atom.name in meaning.numbers and not kinds:
        return meaning.numbers[atom.name]
    if meaning.slots.get(atom.name) != kinds:
        raise LatexError(f"{atom.name} with the indices {atom.indices} has no meaning here")
    return symbol(atom.name, *here)


def _derivative(of: Atom, by: Atom, total: bool, places: Places, meaning: Meaning) -> Expr:
    asked = _atom(of, places, meaning), _atom(by, places, meaning), total
    if asked not in meaning.derivatives:
        made_of = meaning.define(of.name, _places(of, places, meaning))
        if total or meaning.loss in (None, of.name):
            made_of = meaning.resolve(made_of, down_to=by.name)
        meaning.derivatives[asked] = sympy.diff(made_of, asked[1])
    return meaning.derivatives[asked]


def _differentiated(by: Atom, body: Expr, total: bool, places: Places, meaning: Meaning) -> Expr:
    if total or meaning.loss is None:
        body = meaning.resolve(body, down_to=by.name)
    return sympy.diff(body, _atom(by, places, meaning))
