"""What a notebook says of its checks: the marks in its prose, and the cells that check."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from marks import FENCE, HEADING, MARK, Mark, pairs, python_of, walk
from tidy import CHECK, OPEN

# The argument of the book, a kernel with all that a GPU said of it, and several chapters in one.
MOST_WORDS = defaultdict(
    lambda: 2500,
    {"01_formula": 3000, "07_triton_kernel": 3000}
    | dict.fromkeys(("09_which_norm", "10_where_it_stands", "11_claims"), 2800),
)
WORDS_A_MINUTE = 200
MOST_OPEN_LINES = 120

FINE_PRINT = ("Exercises", "Fine print", "Sources")
FOOTNOTE = re.compile(r"^\[\^[^\]]+\]:.*(?:\n(?!\n)[ \t]*\S.*)*$", re.MULTILINE)


class Cell(NamedTuple):
    """A cell of code: what the tests of marks ask about it."""

    id: str
    source: str
    exercise: bool
    folded: bool  # by a tag


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def marks(notebook: Any) -> list[Mark]:
    """Return the marks of a notebook in their order."""
    return pairs(notebook.cells)


def code_cells(notebook: Any) -> list[Cell]:
    """Return the cells of code, those of exercises included."""
    listed = []
    for cell, exercise in walk(notebook.cells):
        if cell.cell_type == "code":
            folded = "hide-input" in cell.metadata.get("tags", [])
            listed.append(Cell(cell.id, cell.source, exercise, folded))
    return listed


def open_lines(notebook: Any) -> int:
    """Count the lines of code that a reader meets unfolded, exercises apart."""
    marked = {mark.cell for mark in marks(notebook)}
    cells = (c for c in code_cells(notebook) if not (c.exercise or c.folded or c.id in marked))
    return sum(len([line for line in c.source.splitlines() if line.strip()]) for c in cells)


def names_out_of_sight(notebook: Any) -> Iterator[str]:
    """Say which open cells use a name that only a folded check has defined."""
    marked = {mark.cell for mark in marks(notebook)}
    in_sight: set[str] = set()
    folded: dict[str, str] = {}
    for cell in code_cells(notebook):
        tree = ast.parse(python_of(cell.source))
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
    """Return the lines of code that are wider than a page has room for, or a check."""
    checking = {mark.cell for mark in marks(notebook)}
    every = ((cell, line) for cell in code_cells(notebook) for line in cell.source.splitlines())
    return [line for cell, line in every if len(line) > (CHECK if cell.id in checking else OPEN)]


def words(text: str) -> int:
    """Count the words of prose: without code, equations, folds, footnotes and fine print.

    >>> words("# A title\\n\\nTwo words $x + y$.\\n\\n## Exercises\\n\\nnot counted")
    5
    """
    text = FENCE.sub("\n", FENCE.sub("\n", text))
    text = FOOTNOTE.sub("", MARK.sub("", re.sub(r"<!--.*?-->", "", text)))
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
