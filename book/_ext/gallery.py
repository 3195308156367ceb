"""The directive ``gallery``: a card for each explorer, with its picture, its question and a link.

A page says, a line for each::

    ```{gallery}
    EpsilonExplorer 02_epsilon
    ```
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from tied import picture_of

from lnlib.book import explorers

__all__ = ["Gallery", "question_of"]

QUESTION = re.compile(r'^ +question: "([^"]+)",$', re.MULTILINE)


class Gallery(SphinxDirective):
    """Shows the explorers that its lines name; each card leads to the explorer on its page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the cards."""
        gallery = nodes.container(classes=["ln-gallery"])
        for line in self.content:
            name, page = line.split()
            gallery += self.card(getattr(explorers, name), f"/notebooks/{page}")
        return [gallery]

    def card(self, kind: type[explorers.Explorer], page: str) -> nodes.paragraph:
        """Return the card of one explorer, as a link to the page that shows it."""
        widget = kind()
        picture = nodes.raw("", picture_of(widget), format="html")
        words = nodes.inline("", question_of(kind), classes=["ln-card-question"])
        link = nodes.reference("", "", picture, words, internal=True)
        link["refuri"] = f"..{page}.html#{widget._anchor}"
        return nodes.paragraph("", "", link, classes=["ln-card"])


def question_of(kind: type[explorers.Explorer]) -> str:
    """Return the question that an explorer asks, as its script has it."""
    script = Path(inspect.getfile(kind)).with_suffix(".mjs").read_text(encoding="utf8")
    (question,) = QUESTION.findall(script)
    return str(question)
