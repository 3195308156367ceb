"""No claim without a check: every labeled equation of the book, against the LaTeX that is printed.

The derivations are read in symbols, by a check in the chapter or from `SYMBOLS`; what has vectors
and functions in it is read at numbers, from `printed_values`; `OTHERWISE` has the few that neither
can read. That hardly a slip would be true as well, `test_latex_slips` shows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import marks
import nbformat
import pytest
from at_numbers import relations
from bench_layer_norm import Case
from printed_values import TIGHT, VALUES

from lnlib.book.equations import latex, meanings
from lnlib.book.equations.printed import Meaning, difference
from lnlib.book.home import ROOT

PAGES = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))
DERIVATIONS = ["04_scalar_jacobian", "05_index_notation", "06_autograd_function"]
ROW, BESIDE = meanings.row(4), meanings.row(4, eps_at="std")
BATCH, RMS = meanings.batch(H=4), meanings.rms(4)  # smaller than in the chapters: slips are many
# The names that the chapters give to what their symbols mean.
NAMES: dict[str, dict[str, Meaning]] = {
    "04_scalar_jacobian": {"root": ROW, "beside": BESIDE},
    "05_index_notation": {"batch": BATCH},
    "06_autograd_function": {"batch": BATCH},
    "09_which_norm": {"root": RMS},
}
# No sum is implied where every one is written.
WRITTEN_OUT = replace(BATCH, implied=False)
# Read in symbols here, where a check in the chapter would say nothing to its reader.
SYMBOLS = {
    "eq-statistics": ROW,
    "eq-layer-norm": ROW,
    "eq-row-mean": ROW,
    "eq-dx": ROW,
    "eq-dweight": WRITTEN_OUT,
    "eq-fn-backward": WRITTEN_OUT,
}
# What stands in these besides the relations that are worked out.
LITERALLY = {
    "eq-claim-alone": r"\quad\text{for } j\ne i .",
    "eq-claim-definition": r"u &= \frac{\partial}{\partial\theta} \log P(y\,|\,x;\theta) .",
}


class Placed(NamedTuple):
    """An equation and its LaTeX, or a call of ``check`` and what ``page.check`` calls a meaning."""

    section: int
    cell: int
    label: str
    text: str


@cache
def cells_of(page: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4).cells


def sections(page: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield (section, cell, kind, text); a cell of text is cut at each heading of level 2."""
    section = 0
    for number, cell in enumerate(cells_of(page)):
        if cell.cell_type == "code":
            yield section, number, "code", cell.source
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            section += part.startswith("## ")
            yield section, number, "markdown", part


@cache
def equations(page: str) -> list[Placed]:
    return [
        Placed(section, cell, label, body)
        for section, cell, kind, text in sections(page)
        if kind == "markdown"
        for label, body in latex.labeled(text).items()
    ]


@cache
def checks(page: str) -> list[Placed]:
    return [
        Placed(section, cell, *map(ast.unparse, node.args[1:3]))
        if marks.is_of_page(node)
        else Placed(section, cell, "", "")
        for section, cell, kind, text in sections(page)
        if kind == "code"
        for node in marks.check_calls(text)
    ]


def bodies() -> dict[str, str]:
    return {equation.label: equation.text for page in PAGES for equation in equations(page)}


@cache
def in_symbols() -> dict[str, Meaning]:
    """Return by which meaning each equation is read in symbols."""
    read = {
        ast.literal_eval(check.label): NAMES[page][check.text]
        for page in NAMES
        for check in checks(page)
        if check.text in NAMES[page]
    }
    return {**read, **SYMBOLS}


# How an equation is read, and that it holds


def holds_in_symbols(label: str, body: str) -> bool:
    """Tell whether all expressions of an equation are equal."""
    try:
        return difference(body, in_symbols()[label]) is None
    except (latex.LatexError, ZeroDivisionError):
        return False


def holds_at_numbers(label: str, body: str) -> bool:
    """Tell whether an equation holds for all values; a tight bound, with equality for some."""
    if LITERALLY.get(label, "") not in body:
        return False
    gaps: dict[object, list[list[float]]] = {}
    try:
        for names in VALUES[label]():
            said = relations(body, names)
            if not all(each.holds() for each in said):
                return False
            size = names.get(TIGHT.get(label, ""))
            gaps.setdefault(size, []).append([each.gap() for each in said])
    except (ValueError, KeyError, TypeError, IndexError, ZeroDivisionError, AttributeError):
        return False
    relations_by_size = (zip(*of_size, strict=True) for of_size in gaps.values())
    tight = (min(gap) < 1e-9 for relation in relations_by_size for gap in relation)
    return label not in TIGHT or all(tight)


def bare(body: str) -> str:
    """Return LaTeX without what lays it out."""
    return re.sub(r"\s|&|\\\\(?:\[3pt\])?|\\(?:begin|end)\{aligned\}|\\quad|\\[, ]", "", body)


CASE = Case(rows=3, features=5, dtype="bfloat16", regime="")
AHEAD, BACK = (CASE.bytes(which) // (3 * 5 * 2) for which in ("forward", "backward"))
ROWS = [
    "".join(r"\cdots" if i == "…" else rf"\frac{{\partialy_{k}}}{{\partialx_{i}}}" for i in "12…H")
    for k in "12H"
]
# The few that neither reads, in the words in which they were reviewed.
OTHERWISE = {
    "eq-row-matrix": r"\frac{\partialy}{\partialx}=\begin{pmatrix}"
    + "".join([*ROWS[:2], r"\vdots\vdots\ddots\vdots", ROWS[2]])
    + r"\end{pmatrix}.",
    "eq-kernel-bytes": rf"\text{{forward:}}{AHEAD}BHe\text{{bytes}},"
    rf"\text{{backward:}}{BACK}BHe\text{{bytes}}.",
    "eq-kernel-roof": r"\text{time}\ge\text{bytes}/\text{bandwidth},"
    r"\text{time}\ge\text{operations}/\text{rate}.",
}


def ways_of(label: str) -> list[str]:
    """Return how an equation is read; one way should be left."""
    ways = {"in symbols": in_symbols(), "at numbers": VALUES, "in words": OTHERWISE}
    return [way for way, read in ways.items() if label in read]


def holds(label: str, body: str) -> bool:
    if label in in_symbols():
        return holds_in_symbols(label, body)
    return holds_at_numbers(label, body) if label in VALUES else bare(body) == OTHERWISE[label]


# The letters of chapter 05's source, which a table there puts beside ours.
HIS = {
    r"\\sigma_": "{s}_",
    r"\\mu_\{": r"\\tilde x_{",
    r"\bm_": r"\\mu_",
    r"\bv_(\w)": r"\\sigma_\1^2",
    r"\bl\b": "L",
    r"(?<=[_{b])p(?=\W|[hq_^])": "a",
}
LABELS = sorted(bodies())
page = pytest.mark.parametrize("page", PAGES)
derivation = pytest.mark.parametrize("page", DERIVATIONS)
label = pytest.mark.parametrize("label", LABELS)


def test_nothing_is_read_but_equations_of_the_book():
    assert {*in_symbols(), *VALUES, *OTHERWISE} <= {*LABELS}


@label
def test_an_equation_is_read_in_one_way_and_holds_as_it_is_printed(label):
    ways = ways_of(label)
    assert len(ways) == 1, (
        f"{label} is read {ways or 'in no way'}: give it a meaning in SYMBOLS of test_claims.py, "
        "or, where it has vectors or functions, its values in printed_values.py"
    )
    assert holds(label, bodies()[label]), f"{label}, as it is printed: {bodies()[label]}"


def test_each_line_of_the_source_holds_in_our_letters() -> None:
    page = "\n".join(cell.source for cell in cells_of("05_index_notation"))
    said = re.findall(r"^\| \$(.*?)\$.* \|$", page.split("## The letters of the source")[1], re.M)
    assert len(said) == 14
    for line in said:
        ours = line
        for letter, our in HIS.items():
            ours = re.sub(letter, our, ours)
        assert difference(ours, BATCH) is None, line


# Where its check stands


@page
def test_every_displayed_equation_is_numbered_and_says_whether_it_claims_something(page):
    for cell in cells_of(page):
        if cell.cell_type == "markdown":
            assert not re.search(r"\$\$|\\begin\{(align|equation)\*?\}", cell.source), cell.source
            assert cell.source.count("```{math}") == len(latex.labeled(cell.source)), cell.source
    for equation in equations(page):
        assert re.match(r"(eq|def)-[a-z]", equation.label)


@page
def test_every_equation_is_followed_by_a_check_in_its_section(page):
    for equation in equations(page):
        beside = [c for c in checks(page) if c.section == equation.section]
        assert any(c.cell > equation.cell for c in beside), f"{equation.label} has no check"


@derivation
def test_in_a_derivation_every_equation_is_checked_as_printed(page):
    for equation in equations(page):
        if equation.label not in {*VALUES, *OTHERWISE}:
            where = [c.section for c in checks(page) if c.label == repr(equation.label)]
            assert equation.section in where, f"{equation.label} is not checked as printed"
