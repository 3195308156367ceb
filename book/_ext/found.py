"""What the checks of a notebook have found: the digits between ⟨ and ⟩ in what they print."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import Any, NamedTuple

__all__ = ["Line", "keep_digits", "lines", "printed"]

_NUMBER = r"-?(?:inf|\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)"
_DIGITS = rf"(?P<low>{_NUMBER})(?: to (?P<high>{_NUMBER}))?"
_FOUND = rf"⟨(?P<value>(?P<off>off by )?(?P<digits>{_DIGITS}))⟩"
_BOUND = rf"(?:below|above|within|between) {_NUMBER}(?: and {_NUMBER})?|exactly|as printed, .*"
_LINE = re.compile(rf"✓ (?P<claim>.*?)(?: {_FOUND})?(?: \((?P<bound>{_BOUND})\))?")
# What is bound to be below this is a rounding error, of which the size alone counts.
_ROUNDING = 1e-5
SPREAD = 0.1  # by which part of itself a number may differ from one processor to another


class Line(NamedTuple):
    """One line that a check has printed.

    ``value`` is what was found, as it was printed, and ``digits`` the number in it, or both ends.
    """

    claim: str
    found: tuple[float, ...]
    bound: str
    value: str
    digits: str

    def __str__(self) -> str:
        """Return the line as it was printed, without its tick."""
        found, bound = f" ⟨{self.value}⟩" * bool(self.found), f" ({self.bound})" * bool(self.bound)
        return self.claim + found + bound

    @property
    def width(self) -> float:
        """How wide the claim leaves the found number, or that number itself if it is open."""
        rule, *numbers = self.bound.replace(" and ", " ").split()
        if rule == "within" or (rule == "below" and 0 < number(numbers[0]) <= _ROUNDING):
            return number(numbers[0])
        if rule == "between" and number(numbers[0]) < 0 < number(numbers[1]):
            return number(numbers[1]) - number(numbers[0])
        return max(map(abs, self.found))

    def drifted(self, to: Line) -> bool:
        """Tell whether another run has found something else, by more than a tenth."""
        if len(self.found) != len(to.found) or not all(map(math.isfinite, self.found)):
            return self.found != to.found
        allowed = SPREAD * self.width
        return any(abs(a - b) > allowed for a, b in zip(self.found, to.found, strict=True))


def number(written: str) -> float:
    """Read a number as a check writes it: 14,000 or 3.1e-13."""
    return float(written.replace(",", ""))


def read(line: str) -> Line | None:
    """Return what a printed line says, or None if no check has printed it.

    >>> read("✓ it is closer ⟨14⟩ (above 5)")
    Line(claim='it is closer', found=(14.0,), bound='above 5', value='14', digits='14')
    >>> read("✓ they agree ⟨off by 2e-16⟩ (within 1e-12)").value
    'off by 2e-16'
    """
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    ends = tuple(number(end) for end in match.group("low", "high") if end)
    value, digits = (match[name] or "" for name in ("value", "digits"))
    return Line(match["claim"], ends, match["bound"] or "", value, digits)


def lines(text: str) -> list[Line]:
    """Return what the checks have printed among ``text``."""
    return [line for line in map(read, text.splitlines()) if line]


def printed(cell: Any) -> list[Line]:
    """Return what the checks have printed in a cell."""
    return [line for output in cell.get("outputs", ()) for line in lines(output.get("text", ""))]


def keep_digits(stored: Any, fresh: Any) -> None:
    """Put into a fresh run the stored digits of lines that found the same, within a tenth."""
    before = {cell.id: cell for cell in stored.cells}
    for cell in fresh.cells:
        old = defaultdict(list)
        for output in before.get(cell.id, {}).get("outputs", ()):
            for line in output.get("text", "").splitlines():
                old[_without_digits(line)].append(line)
        for output in cell.get("outputs", ()):
            if "text" in output:
                output.text = "".join(_settled(x, old) for x in output.text.splitlines(True))


def _without_digits(line: str) -> str:
    said = read(line)
    return f"{said.claim} {said.bound}" if said and said.found else line


def _settled(line: str, old: dict[str, list[str]]) -> str:
    """Return a line with the digits stored of the same check, or as it is if it found others."""
    bare = line.rstrip("\n")
    fresh, candidates = read(bare), old[_without_digits(bare)]
    if fresh is None or not fresh.found or not candidates:
        return line
    stored = read(candidates.pop(0))
    if stored is None or stored.drifted(fresh):
        return line
    return line.replace(f"{fresh.digits}⟩", f"{stored.digits}⟩")
