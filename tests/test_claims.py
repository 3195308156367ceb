"""No claim without a check: the equations of the derivations, against the LaTeX that is printed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import nbformat
import pytest

from lnlib.book.equations import latex, meanings
from lnlib.book.equations.printed import Meaning, difference
from lnlib.book.home import ROOT

CHAPTERS = ["04_scalar_jacobian", "05_index_notation", "06_autograd_function"]
# Here a number beside each equation is enough: few of them are derivations.
LATER = ["07_triton_kernel", "08_ln_lstm", "09_batch_or_layer", "10_in_context"]
# The names that the chapters give to what their symbols mean.
MEANINGS: dict[str, Meaning] = {
    "root": meanings.row(4),  # smaller than in the chapters: a thousand slips are tried
    "beside": meanings.row(4, eps_at="std"),
    "batch": meanings.batch(H=4),
}
# Equations that are not checked as printed, and why. Each has a numeric check instead.
NOT_PROVED = {
    "eq-row-matrix": "a matrix, written out with dots",
    "eq-row-matrix-form": "a matrix equation; eq-row-root is the same with indices",
    "eq-row-constant": "at one point, a constant row, where no symbol stands for the features",
    "eq-row-central": "the order of an error",
}


@dataclass(frozen=True)
class Check:
    """One call of ``check`` or ``page.check`` in a notebook."""

    section: int
    cell: int
    label: str | None
    meaning: str | None  # None: numeric


@dataclass(frozen=True)
class Equation:
    """One displayed equation of a notebook."""

    section: int
    cell: int
    label: str
    body: str


def cells_of(chapter: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", as_version=4).cells


def sections(chapter: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield (section, cell, kind, text); a cell of text is cut at each heading of level 2."""
    section = 0
    for number, cell in enumerate(cells_of(chapter)):
        if cell.cell_type == "code":
            yield section, number, "code", cell.source
            continue
        for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
            section += part.startswith("## ")
            yield section, number, "markdown", part


def equations(chapter: str) -> list[Equation]:
    return [
        Equation(section, cell, label, body)
        for section, cell, kind, text in sections(chapter)
        if kind == "markdown"
        for label, body in latex.labeled(text).items()
    ]


def literal(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def checks(chapter: str) -> list[Check]:
    found = []
    for section, cell, kind, text in sections(chapter):
        for node in ast.walk(ast.parse(text)) if kind == "code" else ():
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "check":
                label = next((k.value for k in node.keywords if k.arg == "eq"), None)
                found.append(Check(section, cell, literal(label), None))
            if ast.unparse(node.func) == "page.check":
                found.append(Check(section, cell, literal(node.args[1]), ast.unparse(node.args[2])))
    return found


def read(chapter: str) -> list[tuple[str, str, str]]:
    """Return (label, LaTeX, name of the meaning) for each equation that is checked as printed."""
    bodies = {equation.label: equation.body for equation in equations(chapter)}
    pairs = {(c.label, c.meaning) for c in checks(chapter) if c.meaning in MEANINGS}
    return [(label, bodies[label], meaning) for label, meaning in sorted(pairs)]


chapter = pytest.mark.parametrize("chapter", CHAPTERS)


@chapter
def test_every_displayed_equation_is_numbered_and_says_whether_it_claims_something(chapter):
    for cell in cells_of(chapter):
        if cell.cell_type == "markdown":
            assert not re.search(r"\$\$|\\begin\{(align|equation)\*?\}", cell.source), cell.source
            assert cell.source.count("```{math}") == len(latex.labeled(cell.source)), cell.source
    for equation in equations(chapter):
        assert re.match(r"(eq|def)-[a-z]", equation.label)


@chapter
def test_every_check_names_an_equation_of_the_book(chapter):
    pages = (ROOT / "notebooks").glob("*.ipynb")
    known = {equation.label for page in pages for equation in equations(page.stem)}
    assert checks(chapter)
    for check in checks(chapter):
        assert check.label is not None, f"a check in cell {check.cell} names no equation"
        assert check.label in known, check.label


@chapter
def test_every_equation_is_checked_as_printed_beside_where_it_stands(chapter):
    for equation in equations(chapter):
        beside = [
            c
            for c in checks(chapter)
            if c.label == equation.label and c.section == equation.section
        ]
        assert beside, f"{equation.label} has no check in its section"
        assert any(c.cell > equation.cell for c in beside), equation.label
        if equation.label not in NOT_PROVED:
            assert any(c.meaning for c in beside), f"{equation.label} is not checked as printed"


@chapter
def test_no_equation_is_excused_that_could_be_proved(chapter):
    for equation in equations(chapter):
        if equation.label in NOT_PROVED:
            assert not any(holds(equation.body, m) for m in MEANINGS.values()), equation.label


def test_no_equation_is_excused_that_is_not_there():
    assert set(NOT_PROVED) <= {e.label for chapter in CHAPTERS for e in equations(chapter)}


@pytest.mark.parametrize("chapter", LATER)
def test_every_equation_of_a_later_chapter_has_a_check_behind_it(chapter):
    assert equations(chapter)
    pages = (ROOT / "notebooks").glob("*.ipynb")
    known = {equation.label for page in pages for equation in equations(page.stem)}
    assert {check.label for check in checks(chapter)} - {None} <= known
    for equation in equations(chapter):
        behind = {check.label for check in checks(chapter) if check.cell > equation.cell}
        assert equation.label in behind, f"{equation.label} has no check behind it"


# Slips in the LaTeX: another sign, index or number, or a δ left out


def slips(equation: str) -> Iterator[tuple[str, str]]:
    """Yield what was changed, and the equation with that one slip."""
    found = re.findall(r"_\{([^{}=]*)\}|_([a-z])", equation)
    letters = sorted({letter for letter in "".join(map("".join, found)) if letter.isalpha()})
    for sign in re.finditer(r"[-+]", equation):
        other = {"-": "+", "+": "-"}[sign[0]]
        yield f"{sign[0]} at {sign.start()}", replaced(equation, sign.span(), other)
    for index in re.finditer(r"(?<!\\mathbf\{1\})(?<!\\mathbf 1)_(?:\{[^{}=]*\}|[a-z])", equation):
        for at in range(index.start(), index.end()):
            if equation[at] in letters and len(letters) > 1:
                other = letters[(letters.index(equation[at]) + 1) % len(letters)]
                changed = f"{equation[at]} to {other} at {at}"
                yield changed, replaced(equation, (at, at + 1), other)
    for delta in re.finditer(r"\\delta_\{[^{}]*\}", equation):
        yield f"no {delta[0]}", replaced(equation, delta.span(), "1 ")
    for number in re.finditer(r"(?<![_\d.=])(?<!\\mathbf )(?<!\\mathbf\{)[1-9](?![\d.])", equation):
        for other in (str(int(number[0]) + 1), "H "):
            changed = f"{number[0]} to {other} at {number.start()}"
            yield changed, replaced(equation, number.span(), other)


def replaced(text: str, span: tuple[int, int], new: str) -> str:
    return text[: span[0]] + new + text[span[1] :]


def holds(equation: str, meaning: Meaning) -> bool:
    try:
        return difference(equation, meaning) is None
    except latex.LatexError:
        return False


@chapter
def test_a_slip_in_the_printed_latex_goes_red(chapter):
    """Not every change is wrong: where δ_hq stands, h and q may be exchanged, and so on."""
    caught, survived = 0, []
    for label, body, meaning in read(chapter):
        outcomes = {change: holds(slip, MEANINGS[meaning]) for change, slip in slips(body)}
        survived += [f"{label}: {change}" for change, held in outcomes.items() if held]
        caught += sum(not held for held in outcomes.values())
        assert not outcomes or not all(outcomes.values()), f"nothing in {label} matters"
    assert caught > 9 * len(survived), survived
