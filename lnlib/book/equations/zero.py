"""Whether an expression of rational functions and square roots is 0: exactly, and fast.

SymPy's own `expand` and `together` rewrite trees of objects. Here every square root becomes a
letter r, every expression a fraction of polynomials in the letters, and at the end r² is its
radicand again. Numbers are taken out of a root first: √(4p + 12) is 2√(p + 3), and √6 is √2 √3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from math import prod

import sympy
from sympy import QQ, Expr
from sympy.polys.rings import PolyElement, PolyRing

__all__ = ["is_zero"]

Factors = Counter[PolyElement]  # factor -> how often it stands in a denominator
Fraction = tuple[PolyElement, Factors]


def is_zero(expression: Expr) -> bool:
    """Tell whether an expression of rational functions and square roots is 0, exactly.

    True is a proof. False may also mean that two roots are one and do not look it: of a square
    times something, √(x² y) and x √y, or of a fraction that can be shortened.

    Raises:
        ZeroDivisionError: something in the expression is divided by 0.

    >>> x = sympy.Symbol("x")
    >>> is_zero(1 / (1 + sympy.sqrt(x)) - (1 - sympy.sqrt(x)) / (1 - x))
    True
    """
    fractions = _Fractions(expression)
    numerator, _ = fractions.of(expression)
    return fractions.vanishes(numerator, fractions.squares)


def _is_fraction(e: Expr) -> bool:
    """Tell whether the outermost operation of ``e`` is one of arithmetic or a square root."""
    if e.is_Pow:
        return bool(e.exp.is_Rational and e.exp.q <= 2)
    return bool(e.is_Rational or e.is_Add or e.is_Mul)


def _is_root(e: Expr) -> bool:
    return bool(e.is_Pow and e.exp.is_Rational and e.exp.q == 2)


@lru_cache(maxsize=1024)
def _taken_out(radicand: Expr) -> tuple[sympy.Rational, list[Expr]]:
    """Return a number and the radicands whose roots, times it, are the root of ``radicand``."""
    content, inside = sympy.expand(radicand).primitive()
    number, primes = sympy.Rational(1, content.q), []
    for prime, times in sympy.factorint(content.p * content.q).items():
        number *= sympy.Integer(prime) ** (times // 2)
        primes += [sympy.Integer(prime)] * (times % 2)
    return number, primes if inside == 1 else [*primes, inside]


def _walk(e: Expr) -> Iterator[Expr]:
    yield e
    if _is_root(e):
        for radicand in _taken_out(e.base)[1]:
            yield from _walk(radicand)
    elif _is_fraction(e):
        for part in e.args:
            yield from _walk(part)


class _Fractions:
    """The fractions that the parts of one expression are.

    Attributes:
        squares: what the square of each root is, as the root's place among the letters and a
            fraction; a root comes after those that its radicand holds.
    """

    def __init__(self, expression: Expr) -> None:
        parts = set(_walk(expression))
        letters = sorted((e for e in parts if not _is_fraction(e)), key=str)
        roots = filter(_is_root, parts)
        radicands = {radicand for e in roots for radicand in _taken_out(e.base)[1]}
        in_order = sorted(radicands, key=sympy.count_ops)
        self.ring = PolyRing([*(sympy.Dummy() for _ in in_order), *letters], QQ)
        after_roots = self.ring.gens[len(in_order) :]
        self.known: dict[Expr, Fraction] = {
            e: (g, Factors()) for e, g in zip(letters, after_roots, strict=True)
        }
        self.roots: dict[Expr, PolyElement] = {}
        self.squares: list[tuple[int, Fraction]] = []
        for new, radicand in enumerate(in_order):
            square = self.of(radicand)
            place = next((old for old, other in self.squares if other == square), new)
            is_nothing = self.vanishes(square[0], self.squares)
            self.roots[radicand] = self.ring.zero if is_nothing else self.ring.gens[place]
            if place == new and not is_nothing:
                self.squares.append((new, square))

    def of(self, e: Expr) -> Fraction:
        """Return the numerator of ``e`` and the factors of its denominator."""
        if e not in self.known:
            self.known[e] = self._of(e)
        return self.known[e]

    def _of(self, e: Expr) -> Fraction:
        if e.is_Rational:
            return self.ring(QQ(e.p, e.q)), Factors()
        if e.is_Pow:
            base = (self._root(e.base), Factors()) if _is_root(e) else self.of(e.base)
            above, below = self._inverse(*base) if e.exp < 0 else base
            times = abs(int(e.exp.p))
            return above**times, Factors({factor: times * n for factor, n in below.items()})
        parts = [self.of(part) for part in e.args]
        if e.is_Mul:
            below = sum((below for _, below in parts), Factors())
            return prod((above for above, _ in parts), start=self.ring.one), below
        common = Factors()
        for _, below in parts:
            common |= below
        terms = (above * self._product(common - below) for above, below in parts)
        return sum(terms, start=self.ring.zero), common

    def _root(self, radicand: Expr) -> PolyElement:
        number, inside = _taken_out(radicand)
        return prod((self.roots[each] for each in inside), start=self.ring(QQ(number.p, number.q)))

    def _product(self, factors: Factors) -> PolyElement:
        return prod((factor**n for factor, n in factors.items()), start=self.ring.one)

    def _inverse(self, above: PolyElement, below: Factors) -> Fraction:
        if len(above) != 1 and self.vanishes(above, self.squares):
            raise ZeroDivisionError("an expression is divided by 0")
        factors = Factors({above.monic(): 1})
        if len(above) == 1:  # a product of letters, so that a common denominator stays small
            factors = Factors(dict(zip(self.ring.gens, above.degrees(), strict=True)))
        return self._product(below) * (1 / above.LC), +factors

    def vanishes(self, numerator: PolyElement, squares: list[tuple[int, Fraction]]) -> bool:
        """Tell whether a polynomial is 0 once the squares of these roots are put in."""
        if not numerator or not squares:
            return not numerator
        *inner, (place, (above, below)) = squares
        half = max(powers[place] for powers in numerator) // 2
        even_and_odd = [self.ring.zero, self.ring.zero]
        for power, polynomial in self._by_power(numerator, place).items():
            square = above ** (power // 2) * self._product(below) ** (half - power // 2)
            even_and_odd[power % 2] += polynomial * square
        return all(self.vanishes(part, inner) for part in even_and_odd)

    def _by_power(self, numerator: PolyElement, place: int) -> dict[int, PolyElement]:
        """Sort the terms by the power of one letter, and take it out of them."""
        sorted_terms: dict[int, PolyElement] = {}
        for powers, number in numerator.items():
            terms = sorted_terms.setdefault(powers[place], self.ring.zero)
            terms[*powers[:place], 0, *powers[place + 1 :]] = number
        return sorted_terms
