r"""Proof marks: a cell that only checks is folded behind the sentence that it proves.

In a notebook a mark is a link to a named cell, which JupyterLab follows as it is; its title names a
claim that the cell prints: ``[✓](#cell-id=the-law "the law holds at σ = 0.1")``. When a page is
built, the cell is folded behind the block that holds the mark, and the mark says how many checks
there are, or, written ``[✓ found](…)``, what the named claim found.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import found
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

__all__ = ["MARK", "PlaceMarks", "Proof", "depart_proof", "place", "title_of", "visit_proof"]

LINK = "#cell-id="
MARK = re.compile(
    rf"\[(?P<shows>✓(?: found)?)\]\({LINK}(?P<cell>[a-z0-9-]+) "
    r'"(?P<title>(?:[^"\\]|\\.)*)"\)'
)


class Proof(nodes.General, nodes.Element):  # type: ignore[misc]
    """A check cell, folded; ``summary`` is its line on paper."""


class PlaceMarks(SphinxTransform):
    """Fold each check cell behind its mark, before MyST looks for the target of the link."""

    default_priority = 869  # MyST resolves such links at 879

    def apply(self, **kwargs: Any) -> None:
        """Place the marks of one page."""
        path = Path(self.env.doc2path(self.env.docname))
        if path.suffix == ".ipynb":
            cells = json.loads(path.read_text(encoding="utf8"))["cells"]
            place(self.document, [cell["id"] for cell in cells])


def place(document: nodes.document, ids: list[str]) -> None:
    """Turn the links to cells into marks, and fold the cells.

    Args:
        document: a notebook as MyST-NB reads it.
        ids: the ids of its cells, in their order.

    Raises: ExtensionError if a mark names no cell that checks, or a claim that it does not print.
    """
    cells = {
        ids[node["cell_index"]]: node
        for node in document.findall(nodes.container)
        if node.get("nb_element") == "cell_code"
    }
    links = [
        link
        for link in document.findall(nodes.reference)
        if link.get("id_link") and link["refuri"].startswith(LINK)
    ]
    proofs = []
    for link in links:
        name = link["refuri"].removeprefix(LINK)
        cell = cells.get(name)
        lines = found.lines(cell.astext()) if cell is not None else []
        line = next((line for line in lines if line.claim == link.get("reftitle")), None)
        if cell is None or line is None or isinstance(cell.parent, Proof):
            raise ExtensionError(
                f"a mark names the cell {name!r} and the claim {link.get('reftitle')!r}; "
                f"the cell prints {[each.claim for each in lines]}, and has one mark"
            )
        proof = folded(name, line.claim, len(lines))
        cell.replace_self(proof)
        proof += cell
        proofs.append((proof, block_of(link)))
        mark(link, name, label(link.astext(), line, len(lines)), line.claim)
    last: dict[nodes.Element, nodes.Element] = {}
    for proof, block in proofs:
        move(proof, block, last)


def label(written: str, line: found.Line, checks: int) -> str:
    """Return what a mark shows: how many checks there are, or what was found."""
    if written == "✓ found":
        return "✓ " + line.value
    return f"✓ {checks} checks" if checks > 1 else "✓ check"


def mark(link: nodes.reference, name: str, text: str, claim: str) -> None:
    """Make a mark of a link, which keeps to the word before it."""
    before = link.parent.children[link.parent.index(link) - 1]
    if isinstance(before, nodes.Text) and before.endswith(" "):
        link.parent.replace(before, nodes.Text(before.rstrip(" ") + "\u00a0"))
    said = html.escape(f"{text}: {claim}")
    link.replace_self(
        nodes.raw(
            "",
            f'<a class="ln-proof-mark" href="#proof-{name}" aria-label="{said}">'
            f"{html.escape(text)}</a>",
            format="html",
        )
    )


def folded(name: str, claim: str, checks: int) -> Proof:
    """Return the fold of a cell; its summary names a claim."""
    more = f", and {checks - 1} more" if checks > 1 else ""
    return Proof("", name=name, summary=f"✓ {claim}{more}")


def block_of(node: nodes.Node) -> nodes.Element:
    """Return the paragraph, list or table of a section that holds a node."""
    while not isinstance(node.parent, nodes.section | nodes.document):
        node = node.parent
    assert isinstance(node, nodes.Element)
    return node


def move(proof: Proof, block: nodes.Element, last: dict[nodes.Element, nodes.Element]) -> None:
    """Put a folded cell behind its block, but not before open code that stands between them."""
    section = block.parent
    if proof.parent is not section or section.index(proof) < section.index(block):
        name = proof["name"]
        raise ExtensionError(
            f"the mark of the cell {name!r} stands behind it or in another section"
        )
    after = last.get(block, behind(block))
    between = section.children[section.index(after) + 1 : section.index(proof)]
    opened = [node for node in between if is_cell(node)]
    after = opened[-1] if opened else after
    section.remove(proof)
    section.insert(section.index(after) + 1, proof)
    last[block] = proof


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


def title_of(match: re.Match[str]) -> str:
    r"""Return the claim that a mark in Markdown names.

    >>> title_of(MARK.fullmatch(r'[✓](#cell-id=a "so \"it\" holds")'))
    'so "it" holds'
    """
    return re.sub(r"""\\([!-/:-@\[-`{-~])""", r"\1", match["title"])


def visit_proof(self: Any, node: Proof) -> None:
    """Begin a fold in HTML."""
    summary = html.escape(node["summary"])
    self.body.append(
        f'<details class="ln-proof" id="proof-{node["name"]}"><summary>{summary}</summary>\n'
    )


def depart_proof(self: Any, node: Proof) -> None:
    """End it."""
    self.body.append("</details>\n")
