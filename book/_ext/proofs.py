"""One file that lists what the chapters check: each line that a check printed, and its place."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import digests
import found
import runs
from jupyter_cache import get_cache
from marks import check_calls, is_of_page, pairs, python_of, without_fences

__all__ = ["FILE", "proofs", "store"]

FILE = "checks.json"
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LABEL = r"(?:eq|def)-[\w-]+"
FOLLOWS = re.compile(rf"\s*```\{{math\}}\n:label: ({LABEL})")
MENTIONED = re.compile(rf"\{{eq\}}`(?:[^`<]*<)?({LABEL})")


def sections(cells: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield each cell of code with the heading that it stands under."""
    heading = ""
    for cell in cells:
        if cell.cell_type == "markdown":
            heading = [heading, *HEADING.findall(without_fences(cell.source))][-1]
        else:
            yield heading, cell


def beside(cells: list[Any]) -> dict[str, str]:
    """Return the equation that a marked paragraph introduces or mentions, by the id of its cell."""
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found, at = {}, 0
    for mark in pairs(cells):
        at = text.index(mark.line, at) + len(mark.line)
        follows, mentioned = FOLLOWS.match(text, at), MENTIONED.findall(mark.line)
        if follows or mentioned:
            found[mark.cell] = follows[1] if follows else mentioned[-1]
    return found


def proofs(page: str, notebook: Any) -> list[dict[str, Any]]:
    """Return what one executed notebook checks, in its order.

    Each has the page, the section and the cell; the claim; the label of its equation, if one is
    near; what was found, and the bound that it keeps. Near is what ``page.check`` reads, else what
    another one of the cell reads, else what the marked paragraph introduces or mentions.
    """
    listed, near = [], beside(notebook.cells)
    for section, cell in sections(notebook.cells):
        calls = filter(is_of_page, check_calls(python_of(cell.source)))
        read = {ast.literal_eval(call.args[0]): ast.literal_eval(call.args[1]) for call in calls}
        otherwise = next(iter(read.values()), near.get(cell.id))
        for line in found.printed(cell):
            listed.append(
                {
                    "page": page,
                    "section": section,
                    "cell": cell.id,
                    "claim": line.claim,
                    "equation": read.get(line.claim, otherwise),
                    "found": list(line.found),
                    "bound": line.bound or "true",
                }
            )
    return listed


def store(root: Path) -> None:
    """Write what the notebooks check, by the runs that the pages show, beside the pages."""
    cache = get_cache(root / "_build" / digests.CACHE)
    listed = [
        proof
        for path in digests.notebooks(root)
        if (run := runs.stored_run(cache, path)) is not None
        for proof in proofs(path.stem, run)
    ]
    text = json.dumps(listed, ensure_ascii=False, indent=1)
    digests.write(root / "_build" / "html" / FILE, text + "\n")
