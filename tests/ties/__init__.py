r"""Ties between the numbers that a page writes and what computes them.

A module of this folder has the name of a page, and one `tie` for each number that is written in
digits in its prose, its tables and its captions. The text around a number is written out; ``#``
stands for a number and ``@`` for an expression in LaTeX, and a source for each says what it must
be:

    tie("An H200 has #.", Page("07_triton_kernel").code("multiprocessors=#)"))
    tie(r"too small by $@$, which is # %", sqrt(7 / 8), 100 * (1 - sqrt(7 / 8)))
    tie(r"At most $@$", lambda: outlier(101).max(), H=101)

A source is a number, or a function that computes one: from the formula, from a
chapter's code, from a recorded row. A tie never says a number that only the
text says: that would pin the text and test nothing.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import nbformat

from lnlib.book.equations import latex
from lnlib.book.equations.latex import Add, Atom, Mul, Node, Number, Power
from lnlib.book.home import ROOT

__all__ = ["Page", "Span", "Tie", "load"]

Source = float | Callable[[], Any]
Span = tuple[int, int]

WORDS = {
    word: value
    for value, words in {
        0: "no zero none",
        1: "one once",
        2: "two twice both second",
        3: "three third",
        4: "four fourth",
        5: "five fifth",
        6: "six sixth",
        7: "seven",
        8: "eight",
        9: "nine",
        10: "ten tenth",
        11: "eleven",
        12: "twelve dozen",
        14: "fourteen",
        15: "fifteen",
        16: "sixteen",
        20: "twenty",
        30: "thirty",
        50: "fifty",
        100: "hundred hundredth",
        1000: "thousand thousandth",
        10**6: "million",
        10**9: "billion",
    }.items()
    for word in words.split()
}
FRACTIONS = {"½": 1 / 2, "¼": 1 / 4, "¾": 3 / 4, "⅓": 1 / 3, "⅔": 2 / 3}
SIGNS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
_PLAIN = r"\d{1,3}(?:(?:,|\{,\}|\\,|[ \u00a0\u202f])\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?"
_POWER = r"\^\{-?\d+\}|\^-?\d|[⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"
NUMBER = (
    rf"[-−]?(?:(?:{_PLAIN})(?:e-?\d+|\s?(?:\\cdot|\\times|[·×])\s?10(?:{_POWER})|{_POWER})?"
    rf"|[½¼¾⅓⅔]|\b(?i:{'|'.join(WORDS)})s?\b)"
)
# What has digits and is no number: names of types, indices, labels, roles and targets of links.
NO_NUMBERS = re.compile(
    r"\[[^]]*\]\(#explorer-[^)]*\)"  # tests/test_tied.py compares them with their states
    r"|^```(?:\{math\}|\{gallery\}|\w+)\n.*?^```$|^\([^\n]*\)=$|^:\w+:[^\n]*$|\]\([^)]*\)|https?://\S+"
    r"|\{(?:doc|ref|numref|eq|cite:?\w*|download)\}`[^`]*`|`[^`\n]*`|_\{?\d+\}?"
    r"|\\[A-Za-z]+|[A-Za-z]\w*",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Tie:
    """A piece of the text, with placeholders, and what each of them must be."""

    around: str
    sources: tuple[Source, ...]
    names: dict[str, float]

    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"([#@])", re.sub(r"\s+", " ", self.around))
        held = {"#": f"({NUMBER})", "@": r"([^$]+?)"}
        return re.compile("".join(held.get(part) or re.escape(part) for part in parts))

    def spans(self, text: str) -> list[Span]:
        """Return where the placeholders stand; raise unless the piece stands in ``text`` once."""
        matches = list(self.pattern().finditer(text))
        if len(matches) != 1:
            raise AssertionError(f"it stands {len(matches)} times in the page: {self.around!r}")
        return [matches[0].span(n + 1) for n in range(len(self.sources))]

    def check(self, text: str) -> None:
        """Raise AssertionError, with both values, unless each placeholder is what it must be."""
        for span, source in zip(self.spans(text), self.values, strict=True):
            written = text[slice(*span)]
            assert agrees(written, source, self.names), (
                f"the page says {written!r}, its source {source!r}: {self.around!r}"
            )

    @cached_property
    def values(self) -> list[Any]:
        return [source() if callable(source) else source for source in self.sources]


def agrees(written: str, value: Any, names: dict[str, float]) -> bool:
    """Tell whether a number or an expression, as it is written, is ``value``, as it is rounded.

    A whole value must be met exactly; another one to half a unit of the last digit that is
    written, where the zeros at the end of a whole number are no digits: 14,342.1 may be 14,000.
    """
    value = value.item() if hasattr(value, "item") else value
    try:
        said, step = read(written)
    except ValueError:
        said, step = evaluate(latex.parse(written), names), 0.0
    if isinstance(value, int) or step == 0:
        return math.isclose(said, value, rel_tol=1e-9, abs_tol=1e-300)
    return abs(said - value) <= 0.5001 * step


def read(written: str) -> tuple[float, float]:
    r"""Return a number and the unit of its last digit.

    >>> [read(w) for w in ("14,000", "0.50", r"3\cdot10^{-8}", "2⁵⁰", "two")]
    [(14000.0, 1000.0), (0.5, 0.01), (3e-08, 1e-08), (1125899906842624.0, 0.0), (2.0, 0.0)]
    """
    word = written.strip().lower()
    word = word if word in WORDS else word.removesuffix("s")
    if word in WORDS:
        return float(WORDS[word]), 0.0
    if word in FRACTIONS:
        return FRACTIONS[word], 0.0
    digits = re.sub(r"(?<=\d)(?:,|\{,\}|\\,| )(?=\d{3})", "", word)
    digits = re.sub(r"\s?(?:\\cdot|\\times|·|×)\s?10(?=[\^⁻⁰¹²³⁴⁵⁶⁷⁸⁹])", "e", digits)
    digits = re.sub(r"(?<=[\de])\^?\{?([-⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|(?<=[\^{])-?\d+)\}?$", r"^\1", digits)
    mantissa, power, exponent = digits.translate(SIGNS).partition("^")
    if power and not mantissa.endswith("e"):
        return float(mantissa) ** int(exponent), 0.0
    mantissa, _, written_e = mantissa.partition("e")
    if not re.fullmatch(r"-?\d+(?:\.\d+)?", mantissa):
        raise ValueError(f"{written!r} is no number")
    ten = int(exponent or written_e or 0)
    whole, point, decimals = mantissa.lstrip("-").partition(".")
    zeros = min(len(whole) - len(whole.rstrip("0")), len(whole) - 1)
    return float(f"{mantissa}e{ten}"), 10.0 ** (ten - len(decimals) if point else ten + zeros)


def evaluate(node: Node, names: dict[str, float]) -> float:
    """Return what an expression is, with numbers for its symbols."""
    match node:
        case Number(digits):
            return float(digits)
        case Atom(name, indices):
            known = {"pi": math.pi, **names}
            return known["_".join([name, *indices])]
        case Power(base, exponent):
            return float(evaluate(base, names) ** evaluate(exponent, names))
        case Mul(parts):
            return math.prod(evaluate(part, names) for part in parts)
        case Add(parts):
            return sum(evaluate(part, names) for part in parts)
        case _:
            raise ValueError(f"{node} has no number")


@dataclass
class Page:
    """A page, what it writes, and the ties of its numbers."""

    name: str
    ties: list[Tie] = field(default_factory=list)
    free_ones: list[Tie] = field(default_factory=list)

    def tie(self, around: str, *sources: Source, **names: float) -> None:
        self.ties.append(Tie(around, sources, names))
        assert len(re.findall(r"[#@]", around)) == len(sources), around

    def free(self, *around: str, why: str) -> None:
        """List pieces whose numbers nothing computes: dates, sections and the like; say why."""
        assert why
        self.free_ones += [Tie(a, (0.0,) * len(re.findall(r"[#@]", a)), {}) for a in around]

    @cached_property
    def cells(self) -> list[Any]:
        path = ROOT / "notebooks" / f"{self.name}.ipynb"
        return list(nbformat.read(path, as_version=4).cells) if path.exists() else []

    @cached_property
    def text(self) -> str:
        """All that a page of `book` writes."""
        return (ROOT / "book" / f"{self.name}.md").read_text(encoding="utf8")

    @cached_property
    def flat(self) -> str:
        return re.sub(r"\s+", " ", self.text)

    def numerals(self) -> list[Span]:
        """Return where digits stand in `flat` that are numbers and not parts of names."""
        blank = NO_NUMBERS.sub(lambda m: re.sub(r"\d", "x", m[0]), self.text)
        return [m.span() for m in re.finditer(r"\d+", re.sub(r"\s+", " ", blank))]

    def code(self, pattern: str) -> Callable[[], float]:
        """Return a source: the number that stands for ``#`` in the page's code."""
        return lambda: self._number(
            pattern, [c.source for c in self.cells if c.cell_type == "code"]
        )

    def _number(self, pattern: str, texts: list[str]) -> float:
        before, _, after = pattern.partition("#")
        regex = re.escape(before) + r"(-?\d[\d_]*(?:\.\d+)?(?:e-?\d+)?)" + re.escape(after)
        found = {m[1].replace("_", "") for text in texts for m in re.finditer(regex, text)}
        assert len(found) == 1, f"{self.name} has {found or 'nothing'} for {pattern!r}"
        digits = found.pop()
        return int(digits) if digits.lstrip("-").isdigit() else float(digits)


def load(name: str) -> Page:
    """Return a page with its ties: the module of its name makes a `Page` and calls it ``page``."""
    page: Page = importlib.import_module(f"ties.{name}").page
    assert page.name == name
    return page
