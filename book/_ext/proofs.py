"""One file that lists what the chapters prove: each line that a check printed, and its place."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import digests
import found
import runs
from jupyter_cache import get_cache

__all__ = ["FILE", "proofs", "store"]

FILE = "proofs.json"


class Call(NamedTuple):
    """A call of ``check`` or ``page.check``: the claims that it can print, and its equation."""

    claim: re.Pattern[str]
    letters: int  # that are written out in the claim
    equation: str | None


def calls(source: str) -> list[Call]:
    r"""Return the calls of checks in a cell; those whose claim is written out come first.

    >>> [(call.claim.pattern, call.equation) for call in calls('check(f"k = {k}", x, eq="eq-a")')]
    [('k\\ =\\ (.*)', 'eq-a')]

    Raises: ValueError if an equation is named by anything but a string that is written out.
    """
    made = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            name = ast.unparse(node.func)
            if name == "check":
                label = next((k.value for k in node.keywords if k.arg == "eq"), None)
            elif name.endswith(".check") and len(node.args) > 1:
                label = node.args[1]
            else:
                continue
            pattern, letters = _claim(node.args[0])
            equation = None if label is None else ast.literal_eval(label)
            made.append(Call(re.compile(pattern), letters, equation))
    return sorted(made, key=lambda call: -call.letters)


def _claim(node: ast.expr) -> tuple[str, int]:
    """Return the regular expression of what a claim can be, and how much of it is written out."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    written = [p.value if isinstance(p, ast.Constant) else None for p in parts]
    pattern = "".join("(.*)" if text is None else re.escape(str(text)) for text in written)
    return pattern, sum(len(str(text)) for text in written if text is not None)


def sections(cells: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield each cell of code with the heading that it stands under."""
    heading = ""
    for cell in cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"^```.*?^```", "", cell.source, flags=re.DOTALL | re.MULTILINE)
            heading = [heading, *re.findall(r"^#+ (.+)$", text, re.MULTILINE)][-1]
        else:
            yield heading, cell


def proofs(page: str, notebook: Any) -> list[dict[str, Any]]:
    """Return what one executed notebook proves, in its order.

    Each has the page, the section and the cell; the claim; the label of its equation, or None; what
    was found, the bound that it keeps, and the part by which another processor may find otherwise.
    """
    listed = []
    # A cell may call a function that checks, of a cell before.
    anywhere = [call for _, cell in sections(notebook.cells) for call in calls(cell.source)]
    for section, cell in sections(notebook.cells):
        own = calls(cell.source)
        written = [call for call in own if call.letters]
        candidates = [*written, *(call for call in anywhere if call.letters), *own, *anywhere]
        printed = [line for o in cell.outputs for line in found.lines(o.get("text", ""))]
        for line in printed:
            call = next((c for c in candidates if c.claim.fullmatch(line.claim)), None)
            listed.append(
                {
                    "page": page,
                    "section": section,
                    "cell": cell.id,
                    "claim": line.claim,
                    "equation": call.equation if call else None,
                    "found": list(line.found),
                    "bound": line.bound or "true",
                    "spread": line.spread if line.found else None,
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
