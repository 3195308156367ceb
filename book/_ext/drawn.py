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

import hashlib
import inspect
import io
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from docutils import nodes
from docutils.parsers.rst import directives
from drawings import DRAWINGS
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

from lnlib.book import style
from lnlib.book.records import registry, tables

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
            raise self.error(f"no drawing is called {name!r}; there are {sorted(DRAWINGS)}")
        if len(alt.split()) < FEWEST_WORDS:
            raise self.error(f"drawn {name}: alt needs {FEWEST_WORDS} words or more, got {alt!r}")
        draw = DRAWINGS[name]
        for path in sources(draw):
            self.env.note_dependency(str(path))
        figure = nodes.figure("", self.image(name, draw, alt), self.caption())
        self.set_source_info(figure)
        self.add_name(figure)
        return [figure]

    def image(self, name: str, draw: Callable[[], Figure], alt: str) -> nodes.image:
        """Draw, and return where the picture is.

        One class keeps dark pages from dimming its paper, the other Sphinx from linking to the file
        as it does with a picture that is shown smaller than it is.
        """
        data, width = png(draw)
        # Beside the parsed pages that name it: what throws those away throws it away too.
        path = Path(self.env.doctreedir) / "drawn" / f"{name}-{digest(data)}.png"
        if not path.exists():  # written again, it would be newer than a page that has it
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_bytes(data)
            draft.replace(path)  # at once, so that a build that is stopped leaves no half of it
        page = Path(self.env.doc2path(self.env.docname))
        uri = Path(os.path.relpath(path, page.parent)).as_posix()
        classes = ["dark-light", "no-scaled-link"]
        return nodes.image("", uri=uri, alt=alt, width=f"{width}px", classes=classes)

    def caption(self) -> nodes.caption:
        """Return the content as a caption, Markdown and all."""
        text = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, text)
        if [type(child) for child in text] != [nodes.paragraph]:
            raise self.error("a drawing needs a caption of one paragraph")
        caption = nodes.caption("", "", *text[0].children)
        self.set_source_info(caption)
        return caption


def png(draw: Callable[[], Figure]) -> tuple[bytes, int]:
    """Return what ``draw`` draws, at twice the resolution, and the width to show it at, in pixels.

    The same bytes each time: nothing in the file says when it was drawn, or by which version.
    """
    mpl.use("Agg")  # no window, wherever the book is built
    with mpl.rc_context():
        style.use()
        figure = draw()
        try:
            stream = io.BytesIO()
            figure.savefig(stream, dpi=2 * figure.dpi, metadata={"Software": None})
            return stream.getvalue(), round(figure.get_figwidth() * figure.dpi)
        finally:
            plt.close(figure)


def sources(draw: Callable[[], Figure]) -> set[Path]:
    """Return the files that a drawing depends on: its code, what that imports, and every table."""
    module, code = Path(inspect.getfile(draw)), registry.checkout()
    drawing = code.of_text(module.read_text(encoding="utf8"))
    saving = code.of(f"{__name__}:{png.__name__}")
    return {module, *drawing.files, *saving.files, *tables.RESULTS.glob("*.csv")}


def digest(data: bytes) -> str:
    """Return a name for these bytes, so that browsers never show an older picture."""
    return hashlib.sha256(data).hexdigest()[:12]
