r"""What ties the text to its pictures when a page is built; the sources stay plain Markdown.

- ``[σ = 10⁻³](#explorer-epsilon?spread=1e-3)`` is a link that sets a state, here and in JupyterLab;
  ``?drag=spread`` makes it a number to be dragged, ``?shows=variance`` one that the explorer
  writes (lnlib/book/explorers/prose.mjs).
- Each μ, σ, ε, γ, β and x̂ in an equation gets a class, so that it lights up where the others do,
  and on a page with an explorer has the explorer's color.
- ``{explorer}`` shows one on a page that runs no code.
"""

from __future__ import annotations

import base64
import html
import re
from typing import Any
from urllib.parse import parse_qsl

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective
from stills import KINDS

from lnlib.book import explorers
from lnlib.book.explorers.base import HERE

__all__ = ["SYMBOLS", "Explorer", "TieLinks", "mark_symbols", "targets"]

MATH = re.compile(
    r'<(span|div) class="(?:amsmath )?math notranslate nohighlight".*?\\[)\]]\s*</\1>', re.DOTALL
)
SYMBOLS = {
    "mu": r"\\mu",
    "sigma": r"\\sigma",
    "epsilon": r"\\varepsilon",
    "gamma": r"\\gamma",
    "beta": r"\\beta",
    "x-hat": r"\\hat\s*(?:\{\s*x\s*\}|x)",
}
SYMBOL = re.compile(
    "|".join(f"(?P<{name.replace('-', '_')}>{tex})(?![A-Za-z])" for name, tex in SYMBOLS.items())
)
PLACES = {kind._anchor: kind for kind in KINDS}


class TieLinks(SphinxTransform):
    """Let a link to an explorer be one before MyST looks for its target, which is made later."""

    default_priority = 870  # MyST resolves such links at 879

    def apply(self, **kwargs: Any) -> None:
        """Look whether each link of one page says what its explorer can take."""
        for link in self.document.findall(nodes.reference):
            if link.get("id_link") and link["refuri"].startswith("#explorer-"):
                check(link["refuri"])
                del link["id_link"]
                link["internal"] = True


def check(address: str) -> None:
    """Raise a ValueError if a link can not be followed.

    >>> check("#explorer-epsilon?eps=1e-5&spread=0.1")
    >>> check("#explorer-epsilon?eps=2")
    Traceback (most recent call last):
    ValueError: #explorer-epsilon?eps=2: eps must be a number from 1e-12 to 1, or 0 (units of x²)...
    """
    anchor, _, said = address[1:].partition("?")
    try:
        kind = PLACES[anchor]
        starts, state = kind().state(), {}
        for name, words in parse_qsl(said, strict_parsing=bool(said)):
            if name == "drag":
                starts[words]
            elif name != "shows":
                like = starts[name]
                many = isinstance(like, tuple)
                state[name] = [*map(float, words.split(","))] if many else type(like)(words)
        kind(**state)
    except (KeyError, ValueError) as wrong:
        raise ValueError(f"{address}: {wrong}") from wrong


def targets(document: nodes.document, anchor: str) -> list[nodes.target]:
    """Return a place for each link to an explorer, to which it leads where no script runs."""
    links = (link.get("refuri", "")[1:] for link in document.findall(nodes.reference))
    return [nodes.target(ids=[to]) for to in dict.fromkeys(links) if to.startswith(f"{anchor}?")]


def mark_symbols(body: str) -> str:
    """Give each symbol in the equations of a page its class."""
    return MATH.sub(lambda math: SYMBOL.sub(marked, math[0]), body)


def marked(symbol: re.Match[str]) -> str:
    r"""Wrap one symbol; in braces, since ``\frac\gamma\sigma`` takes one token each."""
    name = str(symbol.lastgroup).replace("_", "-")
    return rf"{{\class{{ln-s ln-s-{name}}}{{{symbol[0]}}}}}"


class Explorer(SphinxDirective):
    """``{explorer} RowExplorer``: an explorer as it starts, on a page that runs no code."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return its place, with the picture and the sentence that stand in."""
        for path in HERE.rglob("*.*"):  # its scripts import each other
            self.env.note_dependency(str(path))
        widget = getattr(explorers, self.arguments[0])()
        view, state = widget.page_scripts(widget._anchor)
        text = (
            f'<div class="ln-explorer-output" id="{widget._anchor}">'
            f'{view}<div class="ln-fallback">{picture_of(widget)}'
            f"<p>{html.escape(widget.sentence())}</p></div></div>{state}"
        )
        return [nodes.raw("", text, format="html")]


def picture_of(widget: explorers.Explorer) -> str:
    """Return the picture of an explorer as an element of a page, which says it in a sentence.

    Raises: ValueError in any state but the first, of which alone there is one.
    """
    still = widget.still()
    if still is None:
        raise ValueError(f"no picture has been taken of {widget!r}")
    width, height = (int.from_bytes(still.png[at : at + 4]) for at in (16, 20))
    source = f"data:image/png;base64,{base64.b64encode(still.png).decode('ascii')}"
    alt = html.escape(still.sentence)
    return f'<img alt="{alt}" width="{width}" height="{height}" src="{source}"/>'
