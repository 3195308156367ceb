r"""A number that a chapter writes is one of its cells': it stands in their code, or they print it.

It stands in the number's own section or in one beside it; what opens or sums up a page, and the
exercises, take from the whole page, and so do the numbers of `ELSEWHERE`. A number agrees with
another that rounds to it, and before "%" with a share of one. Whole numbers up to ten are free,
since a reader counts those, and so are powers and the limits of floating-point types. What no cell
can say is listed in `OUTSIDE` with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import nbformat
import pytest
import torch
from digests import notebooks

from lnlib.book.home import ROOT

COUNTED = 10
OUTSIDE = {  # page: what these numbers are, and they, as they are written
    "01_formula": {
        "worked out in words": "768 0.07 1.21 0.003",
        "the explorer's network: tests/js/depth.test.mjs": "8,400",
    },
    "02_epsilon": {
        "of float16 and float32": "256 1.9\\cdot10^7",
        "read off the figure": "2000 0.03",
    },
    "03_gamma_beta": {"a width that many networks have": "768"},
    "04_scalar_jacobian": {"orders of magnitude, from u": "7\\cdot10^{-6} 2\\cdot10^{-11}"},
    "05_index_notation": {"five times five": "25"},
    "06_autograd_function": {"worked out in words": "0.12 255.9"},
    "07_triton_kernel": {
        "NVIDIA's data sheet, and the question": "67 34",
        "operations over bytes": "1.7 2.3 2.5",
        "read off a figure": "94",
        "of lnlib's tiles": "1,024 128 256",
        "others' measurements, cited": "99 4090 4.4 12",
    },
    "08_ln_lstm": {
        "what a blank row multiplies by, rounded": "14,000",
        "worked out in words": "0.003 0.0065",
        "worked out in a solution": "0.55 384 0.0086 0.0137 3.32 5.25",
    },
    "09_which_norm": {
        "the data and the network, the book's and the paper's": "7,000 55,000 1,000",
        "worked out in words": "5.4",
        "of a type": "16 255 32",
        "reported, cited": "10.6",
    },
    "10_where_it_stands": {
        "the steps of the sweep": "300 1,000",
        "worked out in words": "4.95",
        "reported, cited": "0.1 18 0.8 0.05",
    },
    "11_claims": {
        "shown in earlier chapters": "4\\cdot10^{-9} 316 48",
        "the digits and units of the runs": "7,000 255",
        "reported, cited": "82",
        "sections of the paper": "6.1 6.2 6.3 6.4 6.5 6.6 6.7",
        "read off a figure": "0.0016 0.000016",
        "worked out in the solutions": "1.15 32,000 25",
    },
    "12_trained_model": {
        "of the models and of what they read": "512 576 294,912 575 24 384 383 13 256",
        "of blocks": "27 18",
        "read off a figure": "23.8 1.7 2.3 22",
        "worked out in a solution": "704{,}400 839.3 23.83 0.1191",
    },
    "using_lnlib": {"measured once, at the commit that is named": "4,096 92"},
    "when_it_goes_wrong": {
        "worked out in words": "9.24 27.7 0.71",
        "of the bound": "0.74 0.996",
    },
    "which_layer_norm": {"found in the table's sources": "0.00002"},
}
ELSEWHERE = {  # page: numbers that a section takes from one further away
    "02_epsilon": "2e-4",
    "04_scalar_jacobian": "16 1e-6 2e-4",
    "05_index_notation": "4.3 253 256 127 128",
    "07_triton_kernel": "0.3 132 64 28",
    "08_ln_lstm": "128",
    "11_claims": "1,400 300",
}
OF_THE_PAGE = re.compile(r"# |## (?:Claim by claim|Takeaways|Exercises|Fine print|Sources)\b")
OF_TYPES = {
    float(scale * number)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for number in (
        torch.finfo(dtype).max,
        torch.finfo(dtype).smallest_normal,
        torch.finfo(dtype).eps,
    )
    for scale in (0.5, 1, 2)
}

SIGNS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
PLAIN = r"\d{1,3}(?:(?:,|\{,\}|\\,|[ \u00a0\u202f])\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?"
POWER = r"\^\{-?\d+\}|\^-?\d|[⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"
NUMBER = re.compile(rf"(?:{PLAIN})(?:e-?\d+|\s?(?:\\cdot|\\times|[·×])\s?10(?:{POWER})|{POWER})?")
SHARE = re.compile(r"(?:\s?±\s?[\d.]+)?\$?\s?(?:%|\\%|percent)")
IN_CODE = re.compile(r"(?<![\w.])(\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?)(?:\s?\*\*\s?(-?\d+))?")
# What has digits and is no number: comments, code, roles, labels, links, indices, places, years.
NO_NUMBERS = re.compile(
    r"<!--.*?-->"
    r"|^```(?:\{math\}|\w+)\n.*?^```$|^\([^\n]*\)=$|^:\w+:[^\n]*$|\]\([^)]*\)|https?://\S+"
    r"|\[[^]]*\]\((?:#|[\w./]+(?:\.ipynb|\.md))[^)]*\)|\{(?:doc|ref|numref|eq|cite:?\w*|download)\}`[^`]*`|`[^`\n]*`"
    r"|_\{?\d+\}?|\\frac\d\d|\\[A-Za-z]+"
    r"|\b(?i:sections?|equations?|eq\.|tables?) [\d.]+(?:(?:–|, | and | to )[\d.]+)*|\b20[12]\d\b"
    r"|[A-Za-z]\w*|^#\. |^\d+\. ",
    re.DOTALL | re.MULTILINE,
)


class Written(NamedTuple):
    """A number as a text writes it, what it is, the unit of its last digit, and where it stands."""

    text: str
    value: float
    unit: float
    is_share: bool
    around: str


def numbers(text: str) -> Iterator[Written]:
    r"""Yield the numbers of a text that nobody counts.

    >>> [(n.text, n.value, n.unit) for n in numbers(r"14,000 of $3\cdot10^{-8}$, 2⁵⁰, 0.50, 7")]
    [('14,000', 14000.0, 1000.0), ('3\\cdot10^{-8}', 3e-08, 1e-08), ('0.50', 0.5, 0.01)]
    """
    blank = NO_NUMBERS.sub(lambda found: re.sub(r"\d", " ", found[0]), text)
    for found in NUMBER.finditer(blank):
        value, unit = read(found[0])
        start, end = found.span()
        is_counted = value <= COUNTED and value == int(value) and unit >= 1
        if unit and not (is_counted and not SHARE.match(blank, end)):
            is_share = bool(SHARE.match(blank, end))
            around = " ".join(text[max(0, start - 30) : end + 15].split())
            yield Written(found[0], value, unit, is_share, around)


def read(text: str) -> tuple[float, float]:
    """Return a number and the unit of its last digit; of a power it is 0, for it is exact."""
    digits = re.sub(r"(?<=\d)(?:,|\{,\}|\\,|[ \u00a0\u202f])(?=\d{3})", "", text)
    base, _, ten = re.sub(r"\s?(?:\\cdot|\\times|[·×])\s?10", "e", digits).partition("e")
    mantissa, power = re.fullmatch(r"([\d.]+)(.*)", base).groups()  # type: ignore[union-attr]
    exponent = int(re.sub(r"[\^{}]", "", ten).translate(SIGNS) or 0)
    if power:
        return float(mantissa) ** int(re.sub(r"[\^{}]", "", power).translate(SIGNS)), 0.0
    whole, point, decimals = mantissa.partition(".")
    zeros = 0 if point else min(len(whole) - len(whole.rstrip("0")), len(whole) - 1)
    return float(f"{mantissa}e{exponent}"), 10.0 ** (exponent - len(decimals) + zeros)


def values(text: str) -> set[float]:
    """Return the numbers in code or in what it prints."""
    found = {(m[1].replace("_", ""), m[2] or "1") for m in IN_CODE.finditer(text)}
    return {float(base) ** int(power) for base, power in found if float(base) or int(power) > 0}


def agrees(written: Written, pool: set[float]) -> bool:
    """Tell whether a number rounds to what is written."""
    within = 0.5001 * written.unit or 1e-9 * written.value
    scales = (1, 100) if written.is_share else (1,)
    return any(abs(scale * value - written.value) <= within for scale in scales for value in pool)


class Section(NamedTuple):
    """What a section writes, and what its cells say."""

    texts: list[str]
    code: list[str]


@cache
def sections(name: str) -> list[Section]:
    """Return the sections of a notebook."""
    found = [Section([], [])]
    for cell in nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells:
        if cell.cell_type == "markdown":
            before, *rest = re.split(r"^(?=## )", cell.source, flags=re.MULTILINE)
            found[-1].texts.append(before)
            found += [Section([text], []) for text in rest]
        else:
            shown = cell.metadata.get("mystnb", {})
            figure, image = shown.get("figure", {}), shown.get("image", {})
            found[-1].texts.extend([figure.get("caption", ""), image.get("alt", "")])
            found[-1].code.extend([cell.source, *map(_said, cell.outputs)])
    return found


def _said(output: Any) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


NAMES = [path.stem for path in notebooks(ROOT)]


@pytest.mark.parametrize("name", NAMES)
def test_each_number_stands_in_the_code_or_what_it_prints(name: str) -> None:
    outside = {number for listed in OUTSIDE.get(name, {}).values() for number in listed.split()}
    elsewhere = set(ELSEWHERE.get(name, "").split())
    pools = [values("\n".join(section.code)) for section in sections(name)]
    page = set[float]().union(*pools)
    unknown, seen = [], set()
    for at, section in enumerate(sections(name)):
        beside = set[float]().union(*pools[max(0, at - 1) : at + 2])
        of_page = at == 0 or OF_THE_PAGE.match(section.texts[0])
        for written in (n for text in section.texts for n in numbers(text)):
            seen.add(written.text)
            pool = page if of_page or written.text in elsewhere else beside
            if written.text not in outside and not agrees(written, pool | OF_TYPES):
                unknown.append(f"{written.text} in: … {written.around} …")
    assert not unknown, "\n".join(["in no code or output of its section, nor beside it:", *unknown])
    assert outside | elsewhere <= seen, "a number that is listed is on the page no longer"
