r"""What ties the text to its pictures when a page is built; the sources stay plain Markdown.

- ``[σ = 10⁻³](#explorer-epsilon "spread=1e-3")`` is a link that sets a state: its title says
  which. With the title "drag spread" it is a number to be dragged, with "shows variance" one that
  the explorer writes.
- Each μ, σ, ε, γ, β and x̂ in an equation gets a class, so that it lights up where the others do.
- ``{explorer}`` shows one on a page that runs no code.
"""

from __future__ import annotations

import base64
import html
import re
from typing import Any

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from lnlib.book import explorers

__all__ = ["Explorer", "TieLinks", "anchor_of", "mark_symbols", "picture_of", "tie_links"]

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
LINK = re.compile(r'(<a class="ln-tie reference internal" href="#[^"]*") title="([^"]*)"')


class TieLinks(SphinxTransform):
    """Let a link to an explorer be one before MyST looks for its target, which is made later."""

    default_priority = 870  # MyST resolves such links at 879

    def apply(self, **kwargs: Any) -> None:
        """Mark the links of one page."""
        for link in self.document.findall(nodes.reference):
            if link.get("id_link") and link["refuri"].startswith("#explorer-"):
                del link["id_link"]
                link["internal"] = True
                link["classes"].append("ln-tie")


def tie_links(body: str) -> str:
    """Write what the titles of such links say as what the page's script reads."""
    return LINK.sub(lambda link: f"{link[1]} {attribute(html.unescape(link[2]))}", body)


def attribute(title: str) -> str:
    """Return the attribute for a title.

    >>> attribute("eps=1e-8 spread=0.5"), attribute("drag eps")
    ('data-ln-set="eps=1e-8&amp;spread=0.5"', 'data-ln-drag="eps"')

    Raises: ValueError if it is neither a state nor "drag" or "shows" with a name.
    """
    if re.fullmatch(r"\w+=\S+(?: \w+=\S+)*", title):
        return f'data-ln-set="{html.escape("&".join(title.split()))}"'
    verb, _, name = title.partition(" ")
    if verb not in ("drag", "shows") or not name.isidentifier():
        raise ValueError(
            f'a link to an explorer says "eps=1e-8", "drag eps" or "shows variance", not {title!r}'
        )
    return f'data-ln-{verb}="{name}"'


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
        widget = getattr(explorers, self.arguments[0])()
        anchor = anchor_of(str(widget._anywidget_id))
        view, state = widget.page_scripts(anchor)
        text = (
            f'<div class="ln-explorer-output" id="{anchor}">'
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


def anchor_of(name: str) -> str:
    """Return the address of an explorer in a page, from its name as a widget.

    >>> anchor_of("lnlib.book.explorers.gamma_beta.GammaBetaExplorer")
    'explorer-gamma-beta'
    """
    return f"explorer-{name.split('.')[-2].replace('_', '-')}"
