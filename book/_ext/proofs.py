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

__all__ = ["FILE", "calls", "check_calls", "is_of_page", "proofs", "store"]

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
    """
    made = [Call(*_claim(node.args[0]), equation) for node, equation in check_calls(source)]
    return sorted(made, key=lambda call: -call.letters)


def check_calls(source: str) -> Iterator[tuple[ast.Call, str | None]]:
    """Yield each call of ``check`` or ``page.check``, and the label of its equation.

    Raises: ValueError if an equation is named by anything but a string that is written out.
    """
    every = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    for node in filter(lambda call: call.args, every):
        if is_of_page(node):
            yield node, ast.literal_eval(node.args[1])
        elif ast.unparse(node.func) == "check":
            labels = (ast.literal_eval(k.value) for k in node.keywords if k.arg == "eq")
            yield node, next(labels, None)


def is_of_page(node: ast.Call) -> bool:
    """Tell whether a call is one of ``page.check``, which reads an equation from its page."""
    return ast.unparse(node.func).endswith(".check") and len(node.args) > 1


def _claim(node: ast.expr) -> tuple[re.Pattern[str], int]:
    """Return the regular expression of what a claim can be, and how much of it is written out."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    written = [str(p.value) if isinstance(p, ast.Constant) else "" for p in parts]
    pattern = "".join(re.escape(text) or "(.*)" for text in written)
    return re.compile(pattern), sum(map(len, written))


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
    placed = [(section, cell, calls(cell.source)) for section, cell in sections(notebook.cells)]
    # A cell may call a function that checks, of a cell before.
    anywhere = [call for _, _, own in placed for call in own]
    for section, cell, own in placed:
        candidates = sorted([*own, *anywhere], key=lambda call: call.letters == 0)
        for line in found.printed(cell):
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
