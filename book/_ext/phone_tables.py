"""Tables on a phone: a fourth column of words goes below the others, and names can be broken.

book.css says what a phone does with it; on a desk nothing shows.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

__all__ = ["LastColumnBelow", "break_names"]

COLUMNS = 4  # are one too many for a phone
NUMBERS = 24  # letters at most in a column of numbers, names or a few words, which stays
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
NAME = re.compile(r'(?<=<span class="pre">)[^<]{12,}(?=</span>)')
PART = re.compile(r"(?<=\w)([_/](?=\w)|\.(?=\w{4}))")  # no ".py" alone in a line


class LastColumnBelow(SphinxPostTransform):
    """Mark the tables whose last column is words, and give each of its cells the column's title."""

    default_priority = 250  # references are resolved
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Mark the tables of one page."""
        for table in self.document.findall(nodes.table):
            title, cells = last_column(table)
            if title is None or max((len(cell.astext()) for cell in cells), default=0) <= NUMBERS:
                continue
            table["classes"].append("ln-last-below")
            for cell in cells:
                named = [child.deepcopy() for part in title.children for child in part.children]
                cell.children[0].insert(0, nodes.inline("", "", *named, classes=["ln-column"]))


def last_column(table: nodes.table) -> tuple[nodes.entry | None, list[nodes.entry]]:
    """Return the title and the filled cells of the fourth of four columns; else nothing."""
    heads = [row for head in table.findall(nodes.thead) for row in head.children]
    rows = [row for body in table.findall(nodes.tbody) for row in body.children]
    if len(heads) != 1 or any(len(row.children) != COLUMNS for row in [*heads, *rows]):
        return None, []
    cells = [row.children[-1] for row in rows]
    return heads[0].children[-1], [cell for cell in cells if cell.astext()]


def break_names(body: str) -> str:
    """Let a long name in a table be broken after its underscores, dots and slashes.

    >>> break_names('<table><span class="pre">modeling_llama.py</span></table>')
    '<table><span class="pre">modeling_<wbr>llama.py</span></table>'
    """
    return TABLE.sub(lambda table: NAME.sub(lambda n: PART.sub(r"\1<wbr>", n[0]), table[0]), body)
