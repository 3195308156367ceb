"""What `make notebooks` keeps in order in the source of a notebook, before it runs.

JupyterLab hides the code of what checks and all of a solution. Code is formatted: open code for the
width of a page, checks for that of an editor. And the prose says the numbers that are known: of an
equation or a figure that it refers to, and of where an explorer starts.
"""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import digests
import nbformat
from marks import MarkError, pairs, solutions
from tied import PLACES

from lnlib.book.equations import latex

__all__ = ["CHECK", "OPEN", "numbers", "tidy", "tidy_all"]

OPEN, CHECK = 74, 100  # columns
# Code, formulas, and what another role is about: none of these has a number to write.
CODE = (
    r"^```(?:\{math\}|(?!\{)).*?^```$"
    r"|\{[\w:]+\}`[^`<\n]*`|\{(?!eq\}|numref\})[\w:]+\}`[^`\n]*`"
    r"|(?<![}`])`[^`\n]*`"
)
REFERENCE = re.compile(
    rf"{CODE}|(\{{(?:eq|numref)\}}`)([^`<]+)( <([\w-]+)>`)", re.DOTALL | re.MULTILINE
)
LINK = re.compile(
    rf"{CODE}|(\[)([^\]\n]+)(\]\([\w./]+#((?:eq|def|fig)-[\w-]+)\))", re.DOTALL | re.MULTILINE
)
START = re.compile(r"\[[\d.e-]+\](\(#(explorer-[a-z-]+)\?drag=(\w+)\))")


def tidy_all(root: Path) -> list[str]:
    """Put every notebook of the book in order; return what is wrong with those that cannot be."""
    known, complaints = numbers(root), []
    for path in digests.notebooks(root):
        notebook = nbformat.read(path, as_version=4)
        before = copy.deepcopy(notebook)
        try:
            tidy(notebook, known)
        except (MarkError, SyntaxError, KeyError, ValueError) as error:
            complaints.append(f"{path.name}: {error}")
        else:
            if notebook != before:
                digests.write(path, nbformat.writes(notebook) + "\n")
    return complaints


def tidy(notebook: Any, known: dict[str, str]) -> None:
    """Put one notebook in order.

    Args:
        notebook: as nbformat reads it; it is changed in place.
        known: the numbers of equations and figures, by their labels.

    Raises: MarkError if marks and checks do not go together, SyntaxError if some code is no Python,
        KeyError or ValueError if a cell has no id, or an explorer is not there.
    """
    checking = {mark.cell for mark in pairs(notebook.cells)}
    wide, narrow = formatted(notebook, CHECK), formatted(notebook, OPEN)
    for cell, is_solution in solutions(notebook.cells):
        hidden = {"source_hidden": True} if is_solution or cell.id in checking else {}
        hidden |= {"outputs_hidden": True} if is_solution else {}
        cell.metadata.pop("jupyter", None)
        cell.metadata.pop("collapsed", None)
        if hidden:
            cell.metadata["jupyter"] = hidden
        if is_solution:
            cell.metadata["collapsed"] = True  # as JupyterLab writes it besides
        cell.source = (wide if cell.id in checking else narrow)[cell.id]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            said = cell.source
            for form in (REFERENCE, LINK):
                said = form.sub(
                    lambda m: f"{m[1]}{known.get(m[4], m[2])}{m[3]}" if m[1] else m[0], said
                )
            cell.source = START.sub(lambda m: f"[{start(m[2], m[3])}]{m[1]}", said)


def formatted(notebook: Any, columns: int) -> dict[str, str]:
    """Return the source of each cell as ruff formats it for so many columns, by the cell's id."""
    command = [sys.executable, "-m", "ruff", "format", f"--line-length={columns}", "-"]
    done = subprocess.run(
        [*command, "--stdin-filename=notebooks/one.ipynb"],
        input=nbformat.writes(notebook),
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    if done.returncode:
        raise SyntaxError(done.stderr.strip())
    return {cell.id: cell.source for cell in nbformat.reads(done.stdout, as_version=4).cells}


def numbers(root: Path) -> dict[str, str]:
    """Return what the book shows for each equation and figure of a chapter, by its label."""
    return {
        label: shown
        for path in digests.notebooks(root)
        if path.stem[:2].isdigit()
        for label, shown in _numbers(int(path.stem[:2]), nbformat.read(path, as_version=4).cells)
    }


def _numbers(chapter: int, cells: list[Any]) -> Iterator[tuple[str, str]]:
    texts = (cell.source for cell in cells if cell.cell_type == "markdown")
    labels = [label for text in texts for label in latex.labeled(text)]
    yield from ((label, f"({chapter}.{n})") for n, label in enumerate(labels, 1))
    figures = [cell.metadata.get("mystnb", {}).get("figure", {}) for cell in cells]
    captioned = (figure for figure in figures if "caption" in figure)
    yield from ((f.get("name", ""), f"Fig. {chapter}.{n}") for n, f in enumerate(captioned, 1))


def start(anchor: str, trait: str) -> str:
    """Return where an explorer's number starts, as the prose writes it."""
    value = PLACES[anchor].class_traits()[trait].default_value
    every = value if isinstance(value, tuple) else (value,)  # a number for all says their mean
    return f"{sum(every) / len(every):g}".replace("e-0", "e-")
