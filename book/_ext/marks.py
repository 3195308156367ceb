"""Marks of checks: a cell that only checks is folded after the sentence that it checks.

In a notebook a mark is ``✓`` after a sentence, or ``✓ found``. Marks and the cells that check
follow each other: the first mark that waits belongs to the next cell that checks. When a page is
built, the cell is folded after the block that holds its mark. The mark is a tick, or, written
``✓ found``, a tick and what the first check found that finds anything; its label says how many
checks there are, and what one of them printed. Exercises have no marks.
"""

from __future__ import annotations

import ast
import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import found
import nbformat
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

__all__ = [
    "HEADING",
    "MARK",
    "Fold",
    "Mark",
    "MarkError",
    "PlaceMarks",
    "check_calls",
    "depart_fold",
    "is_cell",
    "is_of_page",
    "pairs",
    "place",
    "python_of",
    "solutions",
    "visit_fold",
    "walk",
    "without_fences",
]

MARK = re.compile(r"✓(?: found\b)?")
FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,})[^\n]*\n.*?^(?P=fence) *$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)


class MarkError(ExtensionError):
    """A mark and the cells that check do not go together."""


class Mark(NamedTuple):
    """A mark in the text of a notebook, and the cell that it belongs to."""

    cell: str
    shows: str
    line: str


class Fold(nodes.General, nodes.Element):  # type: ignore[misc]
    """A check cell, folded; ``summary`` is its line on paper."""


def without_fences(text: str) -> str:
    """Blank the fenced blocks of Markdown, so that the rest keeps its lines."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def walk(cells: list[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield each cell, and whether it is code of an exercise."""
    solving = {id(cell) for cell, is_solution in solutions(cells) if is_solution}
    answering = False
    for cell in cells:
        if cell["cell_type"] == "markdown":
            headings = HEADING.findall(without_fences(cell["source"]))
            answering = headings[-1] == "Exercises" if headings else answering
        yield cell, answering or id(cell) in solving


def pairs(cells: list[Any]) -> list[Mark]:
    """Return the marks of a notebook in their order, each with its cell.

    Args:
        cells: of the notebook.

    Raises: MarkError if a cell checks and no mark waits for it, or a mark finds no such cell in its
        section.
    """
    waiting: list[tuple[str, str]] = []
    listed = []
    for cell, of_exercise in walk(cells):
        if cell["cell_type"] == "markdown":
            for line in without_fences(cell["source"]).splitlines():
                if HEADING.fullmatch(line):
                    _none(waiting)
                waiting += [(mark[0], line) for mark in MARK.finditer(CODE.sub("", line))]
        elif of_exercise:
            continue
        elif any(check_calls(python_of(cell["source"]))) or found.printed(cell):
            if not waiting:
                raise MarkError(f"the cell {cell['id']!r} checks, and no mark waits for it")
            listed.append(Mark(cell["id"], *waiting.pop(0)))
    _none(waiting)
    return listed


def solutions(cells: list[Any]) -> Iterator[tuple[Any, bool]]:
    """Yield each cell of code, and whether it follows the text of a solution."""
    solving = False
    for cell in cells:
        if cell["cell_type"] == "code":
            yield cell, solving
        else:
            asked, solved = (cell["source"].rfind(f"{{{k}}}") for k in ("exercise", "solution"))
            solving = solved > asked


def _none(waiting: list[tuple[str, str]]) -> None:
    if waiting:
        raise MarkError(f"no cell that checks follows this mark in its section: {waiting[0][1]}")


def check_calls(source: str) -> Iterator[ast.Call]:
    """Yield each call of ``check`` or ``page.check``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if ast.unparse(node.func) == "check" or is_of_page(node):
            yield node


def is_of_page(node: ast.Call) -> bool:
    """Tell whether a call is one of ``page.check``, which reads an equation from its page."""
    return ast.unparse(node.func).endswith(".check") and len(node.args) > 1


def python_of(source: str) -> str:
    """Return the source of a cell without what only IPython reads."""
    return re.sub(r"^[%!].*$", "", source, flags=re.MULTILINE)


class PlaceMarks(SphinxTransform):
    """Fold each check cell after its mark."""

    default_priority = 869

    def apply(self, **kwargs: Any) -> None:
        """Place the marks of one page."""
        path = Path(self.env.doc2path(self.env.docname))
        if path.suffix == ".ipynb":
            place(self.document, nbformat.read(path, as_version=4).cells)


def place(document: nodes.document, cells: list[Any]) -> None:
    """Make the marks of a page, and fold their cells.

    Args:
        document: a notebook as MyST-NB reads it.
        cells: of its file.

    Raises: MarkError as `pairs` does; if there are two marks in one paragraph, or one where no page
        can have it.
    """
    shown = {
        cells[node["cell_index"]]["id"]: node
        for node in document.findall(nodes.container)
        if node.get("nb_element") == "cell_code"
    }
    listed, texts = pairs(cells), list(marked(document))
    if len(texts) != len(listed):
        raise MarkError(f"the text has {len(listed)} marks, of which a page can show {len(texts)}")
    many = Counter(map(paragraph_of, texts))
    folds = []
    for one, text in zip(listed, texts, strict=True):
        if many[paragraph_of(text)] > 1:
            raise MarkError(f"two marks in one paragraph: {one.line}")
        lines = found.lines(shown[one.cell].astext())
        if not lines:
            raise MarkError(f"the cell {one.cell!r} checks, and prints no ✓")
        fold = folded(one.cell, lines[0].claim, len(lines))
        shown[one.cell].replace_self(fold)
        fold += shown[one.cell]
        folds.append((fold, block_of(text)))
        mark(text, one.cell, lines, shows=one.shows == "✓ found")
    last: dict[nodes.Element, nodes.Element] = {}
    for fold, block in folds:
        move(fold, block, last)


def marked(document: nodes.document) -> Iterator[nodes.Text]:
    """Yield the texts with a mark, each mark in a text of its own."""
    every = [text for text in document.findall(nodes.Text) if MARK.search(text)]
    for text in every:
        above = text.parent
        while above is not None and not isinstance(above, nodes.literal) and not is_cell(above):
            above = above.parent
        if above is None:
            parts = [nodes.Text(part) for part in re.split(f"({MARK.pattern})", text) if part]
            text.parent.replace(text, parts)
            yield from (part for part in parts if MARK.fullmatch(part))


def paragraph_of(node: nodes.Node) -> nodes.Node:
    """Return the paragraph that holds a node."""
    while not isinstance(node, nodes.paragraph | nodes.document):
        node = node.parent
    return node


def label(lines: list[found.Line]) -> str:
    """Return what a mark says of its checks: how many there are, and what one of them printed."""
    line = next((line for line in lines if line.found), lines[0])
    return f"{len(lines)} check{'s' * (len(lines) > 1)}: {line}"


def mark(written: nodes.Text, name: str, lines: list[found.Line], *, shows: bool) -> None:
    """Make a mark of a text; it keeps to the word before it, and can show what was found."""
    value = next((line.value for line in lines if line.found), "") if shows else ""
    text = html.escape(f"✓\u00a0{value}" if value else "✓")
    made = nodes.raw(
        "",
        f'<a class="ln-check-mark" href="#check-{name}" '
        f'aria-label="✓ {html.escape(label(lines))}">{text}</a>',
        format="html",
    )
    parent = written.parent
    at = next(n for n, part in enumerate(parent.children) if part is written)
    parent[at] = made
    if at > 1 and isinstance(parent[at - 2], nodes.footnote_reference):
        # A line could break after the number of a note: the mark comes before it.
        parent[at - 2 : at + 1] = [nodes.Text(" "), made, parent[at - 2]]
        at -= 1
    before = parent[at - 1] if at else None
    if isinstance(before, nodes.Text) and before.endswith((" ", "\n")):
        parent[at - 1] = nodes.Text(before.rstrip() + "\u00a0")


def folded(name: str, claim: str, checks: int) -> Fold:
    """Return the fold of a cell; its summary names a claim."""
    more = f", and {checks - 1} more" if checks > 1 else ""
    return Fold("", name=name, summary=f"✓ {claim}{more}")


def block_of(node: nodes.Node) -> nodes.Element:
    """Return the paragraph, list or table of a section that holds a node."""
    while not isinstance(node.parent, nodes.section | nodes.document):
        node = node.parent
    assert isinstance(node, nodes.Element)
    return node


def move(fold: Fold, block: nodes.Element, last: dict[nodes.Element, nodes.Element]) -> None:
    """Put a folded cell after its block, but not before open code that stands between them."""
    section = block.parent
    if fold.parent is not section or section.index(fold) < section.index(block):
        name = fold["name"]
        raise MarkError(f"the mark of the cell {name!r} stands in another section")
    after = last.get(block, behind(block))
    between = section.children[section.index(after) + 1 : section.index(fold)]
    opened = [node for node in between if is_cell(node)]
    after = opened[-1] if opened else after
    section.remove(fold)
    section.insert(section.index(after) + 1, fold)
    last[block] = fold


def behind(block: nodes.Element) -> nodes.Element:
    """Return the block itself, or the equation or table that it introduces."""
    following: Iterator[nodes.Node] = iter(block.parent.children[block.parent.index(block) + 1 :])
    node = next((n for n in following if not isinstance(n, nodes.target)), None)
    introduced = isinstance(node, nodes.math_block) or (
        isinstance(node, nodes.table) and prose(block).endswith(":")
    )
    return node if introduced and isinstance(node, nodes.Element) else block


def prose(block: nodes.Element) -> str:
    """Return the words of a block, without its marks."""
    texts = (text for text in block.findall(nodes.Text) if not isinstance(text.parent, nodes.raw))
    return "".join(texts).rstrip()


def is_cell(node: nodes.Node) -> bool:
    """Whether a node is a cell of code that is not folded."""
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def visit_fold(self: Any, node: Fold) -> None:
    """Begin a fold in HTML."""
    summary = html.escape(node["summary"])
    self.body.append(
        f'<details class="ln-check" id="check-{node["name"]}"><summary>{summary}</summary>\n'
    )


def depart_fold(self: Any, node: Fold) -> None:
    """End it."""
    self.body.append("</details>\n")
