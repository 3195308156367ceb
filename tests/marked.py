"""What a notebook says of its proofs: the marks in its prose, and the cells that check."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import found
import nbformat
from marks import MARK, title_of
from proofs import calls

MOST_WORDS = 2500
MOST_OPEN_LINES = 120
COLUMNS = 74

FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,})[^\n]*\n.*?^(?P=fence) *$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
FINE_PRINT = ("Exercises", "Fine print", "Sources")
FOOTNOTE = re.compile(r"^\[\^[^\]]+\]:.*(?:\n(?!\n)[ \t]*\S.*)*$", re.MULTILINE)


class Mark(NamedTuple):
    """A mark in the prose: the cell and the claim that it names, and where it stands."""

    cell: str
    shows: str  # "✓", or "✓ found"
    claim: str
    section: int
    place: int  # of the Markdown cell in the notebook
    line: str


class Cell(NamedTuple):
    """A cell of code: what the tests of marks ask about it."""

    id: str
    place: int
    section: int
    source: str
    claims: tuple[str, ...]
    checks: bool
    exercise: bool
    folded: bool  # by a tag


def without_fences(text: str) -> str:
    """Blank the fenced blocks of Markdown, so that the rest keeps its lines."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def walk(notebook: Any) -> Iterator[tuple[int, int, bool, Any]]:
    """Yield place, section, whether it is of an exercise, and the cell."""
    section, solving = 0, False
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            starts, ends = (cell.source.rfind(f"{{solution-{end}}}") for end in ("start", "end"))
            solving = starts > ends if starts != ends else solving
        yield place, section, solving, cell
        if cell.cell_type == "markdown":
            section += len(HEADING.findall(without_fences(cell.source)))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def marks(notebook: Any) -> list[Mark]:
    """Return the marks of a notebook in their order."""
    listed = []
    for place, section, _, cell in walk(notebook):
        if cell.cell_type != "markdown":
            continue
        for line in without_fences(cell.source).splitlines():
            section += HEADING.fullmatch(line) is not None
            for mark in MARK.finditer(line):
                claim = title_of(mark)
                listed.append(Mark(mark["cell"], mark["shows"], claim, section, place, line))
    return listed


def code_cells(notebook: Any) -> list[Cell]:
    """Return the cells of code, those of exercises included."""
    listed, answering = [], False
    for place, section, solving, cell in walk(notebook):
        if cell.cell_type == "markdown":
            found_heading = HEADING.findall(without_fences(cell.source))
            answering = found_heading[-1] == "Exercises" if found_heading else answering
            continue
        claims = tuple(line.claim for line in found.printed(cell))
        folded = "hide-input" in cell.metadata.get("tags", [])
        exercise = solving or answering
        checks = bool(calls(cell.source)) or bool(claims)
        listed.append(Cell(cell.id, place, section, cell.source, claims, checks, exercise, folded))
    return listed


def open_lines(notebook: Any) -> int:
    """Count the lines of code that a reader meets unfolded, exercises apart."""
    marked = {mark.cell for mark in marks(notebook)}
    cells = (c for c in code_cells(notebook) if not (c.exercise or c.folded or c.id in marked))
    return sum(len([line for line in c.source.splitlines() if line.strip()]) for c in cells)


def faults(notebook: Any) -> Iterator[str]:
    """Say what keeps a notebook from having one mark for each check, where its claim stands."""
    cells = {cell.id: cell for cell in code_cells(notebook)}
    named = marks(notebook)
    links = prose(notebook).count("](#cell-id=")
    if links != len(named):
        yield f"{links} links to cells, of which {len(named)} are marks"
    for mark in named:
        cell = cells.get(mark.cell)
        if cell is None:
            yield f"a mark names no cell: {mark.cell}"
        elif mark.claim not in cell.claims:
            yield f"{mark.cell} does not print the claim {mark.claim!r}; it prints {cell.claims}"
        elif mark.place > cell.place or mark.section != cell.section:
            yield f"the mark of {mark.cell} stands behind it, or in another section"
        elif cell.exercise or cell.folded:
            yield f"{mark.cell} is folded already"
        if mark.line.lstrip().startswith(("#", "[^")):
            yield f"a mark in a heading or a footnote: {mark.line[:60]}"
    many = Counter(mark.cell for mark in named)
    for cell in cells.values():
        if cell.checks and not cell.exercise and many[cell.id] != 1:
            yield f"{cell.id} checks, and has {many[cell.id]} marks"
    yield from names_out_of_sight(list(cells.values()), set(many))


def names_out_of_sight(cells: list[Cell], marked: set[str]) -> Iterator[str]:
    """Say which open cells use a name that only a folded check has defined."""
    in_sight: set[str] = set()
    folded: dict[str, str] = {}
    for cell in cells:
        tree = ast.parse(re.sub(r"^[%!].*$", "", cell.source, flags=re.MULTILINE))
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        defined = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        defined |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        every = (ast.FunctionDef, ast.ClassDef)
        defined |= {node.name for node in ast.walk(tree) if isinstance(node, every)}
        if cell.id in marked:
            own = [node for node in tree.body if not isinstance(node, every)]
            stored = (n for part in own for n in ast.walk(part) if isinstance(n, ast.Name))
            bound = {node.id for node in stored if isinstance(node.ctx, ast.Store)}
            bound |= {node.name for node in tree.body if isinstance(node, every)}
            folded |= dict.fromkeys(bound, cell.id)
            continue
        used = {node.id for node in names if isinstance(node.ctx, ast.Load)} - defined
        if not (cell.exercise or cell.folded):
            for name in sorted(used & folded.keys() - in_sight):
                yield f"{cell.id} uses {name}, which {folded[name]} defines out of sight"
        in_sight |= defined


def long_lines(notebook: Any) -> list[str]:
    """Return the lines of code that are longer than a page has room for."""
    every = (line for cell in code_cells(notebook) for line in cell.source.splitlines())
    return [line for line in every if len(line) > COLUMNS]


def words(text: str) -> int:
    """Count the words of prose: without code, equations, folds, footnotes and fine print.

    >>> words("# A title\\n\\nTwo words $x + y$.\\n\\n## Exercises\\n\\nnot counted")
    5
    """
    text = FENCE.sub("\n", FENCE.sub("\n", text))
    text = FOOTNOTE.sub("", MARK.sub("", text))
    text = re.sub(r"^(?:\(\S+\)=|:[\w-]+:.*|\|[ :|-]+\|?)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", " x ", text, flags=re.DOTALL)
    text = re.sub(r"\{[\w:]+\}`[^`]*`|\[([^\]]*)\]\([^)]*\)", r" \1 x ", text)
    places = [match.start() for match in HEADING.finditer(text)] + [len(text)]
    parts = [text[: places[0]], *(text[a:b] for a, b in pairwise(places))]
    kept, level = [], 0
    for part in parts:
        heading = re.match(r"(#+) +(.+)", part)
        depth = len(heading[1]) if heading else 0
        if heading and (not level or depth <= level):
            level = depth if heading[2].strip() in FINE_PRINT else 0
        if not level:
            kept.append(part)
    return len(re.findall(r"[^\W_][\w'’.,-]*", " ".join(kept)))


def prose(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
