"""One file that lists what the chapters prove: each line that a check printed, and its place."""

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
from marks import FENCE, check_calls, is_of_page

__all__ = ["FILE", "proofs", "store"]

FILE = "proofs.json"
HEADING = re.compile(r"^#+ (.+)$|^:label: ((?:eq|def)-\S+)$", re.MULTILINE)


def places(cells: list[Any]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield each cell of code, its heading and the label of the equation above it, if any."""
    heading, equation = "", None
    for cell in cells:
        if cell.cell_type == "code":
            yield heading, equation, cell
            continue
        text = FENCE.sub(lambda m: m[0] if m[0].startswith("```{math}") else "", cell.source)
        for title, label in HEADING.findall(text):
            heading, equation = (title, None) if title else (heading, label)


def proofs(page: str, notebook: Any) -> list[dict[str, Any]]:
    """Return what one executed notebook proves, in its order.

    Each has the page, the section and the cell; the claim; the label of the equation that it reads
    from the page, else of the last one above it in its section, or None; what was found, the bound
    that it keeps, and the part by which another processor may find otherwise.
    """
    listed = []
    for section, equation, cell in places(notebook.cells):
        calls = filter(is_of_page, check_calls(cell.source))
        read = {ast.literal_eval(call.args[0]): ast.literal_eval(call.args[1]) for call in calls}
        for line in found.printed(cell):
            listed.append(
                {
                    "page": page,
                    "section": section,
                    "cell": cell.id,
                    "claim": line.claim,
                    "equation": read.get(line.claim, equation),
                    "found": list(line.found),
                    "bound": line.bound or "true",
                }
            )
    return listed


def store(root: Path) -> None:
    """Write what the notebooks prove by the runs that the pages show, beside the pages."""
    cache = get_cache(root / "_build" / digests.CACHE)
    listed = [
        proof
        for path in digests.notebooks(root)
        if (run := runs.stored_run(cache, path)) is not None
        for proof in proofs(path.stem, run)
    ]
    text = json.dumps(listed, ensure_ascii=False, indent=1)
    digests.write(root / "_build" / "html" / FILE, text + "\n")
