"""The directive ``drawn``: a picture of what a benchmark recorded, drawn while the book is built.

A page says::

    ```{drawn} accuracy
    :name: fig-accuracy
    :alt: at least ten words, for readers who cannot see it
    What there is to see. Notice ...
    ```

``accuracy`` is a name in `drawings.DRAWINGS`. The result is a numbered figure.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from docutils import nodes
from docutils.parsers.rst import directives
from drawings import DRAWINGS
from figures import inline
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

import lnlib
from lnlib.book import style
from lnlib.book.records import tables

FEWEST_WORDS = 10


class Drawn(SphinxDirective):
    """Shows a drawing by its name, with its caption; the option ``alt`` says it in words."""

    required_arguments = 1
    has_content = True
    option_spec = {  # noqa: RUF012, docutils reads it from the class
        "name": directives.unchanged_required,
        "alt": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the figure; a missing name, alt text or caption is an error of the build."""
        name, alt = self.arguments[0], " ".join(self.options.get("alt", "").split())
        if name not in DRAWINGS:
            raise self.error(
                f"no drawing {name!r} in DRAWINGS of drawings.py, but {sorted(DRAWINGS)}"
            )
        if len(alt.split()) < FEWEST_WORDS:
            raise self.error(f"drawn {name}: alt needs {FEWEST_WORDS} words or more, got {alt!r}")
        draw = DRAWINGS[name]
        for path in sources(draw):
            self.env.note_dependency(str(path))
        picture = nodes.raw("", inline(svg(draw), alt), format="html")
        figure = nodes.figure("", picture, self.caption())
        self.set_source_info(figure)
        self.add_name(figure)
        return [figure]

    def caption(self) -> nodes.caption:
        """Return the content as a caption, Markdown and all."""
        text = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, text)
        if [type(child) for child in text] != [nodes.paragraph]:
            raise self.error("a drawing needs a caption of one paragraph")
        caption = nodes.caption("", "", *text[0].children)
        self.set_source_info(caption)
        return caption


def svg(draw: Callable[[], Figure]) -> str:
    """Return what ``draw`` draws; the same text each time: nothing in it says when it was drawn."""
    mpl.use("Agg")  # no window, wherever the book is built
    with mpl.rc_context():
        style.use()
        figure = draw()
        try:
            stream = io.StringIO()
            figure.savefig(stream, format="svg", metadata={"Date": None})
            return stream.getvalue()
        finally:
            plt.close(figure)


def sources(draw: Callable[[], Figure]) -> set[Path]:
    """Return the files that a drawing depends on: its own, all of lnlib, and every table."""
    code = {Path(__file__), Path(inspect.getfile(draw)), *Path(lnlib.__file__).parent.rglob("*.py")}
    return code | {*tables.RESULTS.glob("*.csv")}
