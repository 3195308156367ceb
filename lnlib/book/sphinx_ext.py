"""The Sphinx side: MathJax from a package, pictures under explorers, no foreign scripts."""

from __future__ import annotations

import shutil
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NEEDS_KERNEL = (
    "This control runs Python, so it needs a live kernel. "
    "Open this chapter in JupyterLab (make lab) to use it and to change it."
)


def copy_mathjax(app: Sphinx) -> None:
    """Copy the one MathJax component the pages load, its fonts and its licence into the book."""
    if app.builder.format != "html":
        return
    source = resources.files("mathjax") / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    fonts = "output/chtml/fonts/woff-v2"
    with resources.as_file(source) as root:
        shutil.copytree(root / "es5" / fonts, target / fonts, dirs_exist_ok=True)
        shutil.copy2(root / "es5" / "tex-mml-chtml.js", target)
        shutil.copy2(root / "LICENSE", target)


def mend_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Remove sphinx-thebe's scripts and the empty list role of bibliographies.

    The book offers no remote kernel, and thebe's scripts raise an error on every page. Sphinx calls
    a bibliography a list, but its entries no list items, which misleads screen readers.
    """
    context["body"] = context.get("body", "").replace(
        '<div role="list" class="citation-list">', '<div class="citation-list">'
    )
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "thebe" not in f"{script} {getattr(script, 'attributes', '')}".lower()
    ]


class PairExplorersWithPictures(SphinxPostTransform):
    """Keep an explorer's picture and sentence beside it, for print and without JavaScript.

    MyST-NB would keep one MIME type of each output. A widget without a picture is one of
    ipywidgets' own, which compute in Python: its place says so.
    """

    default_priority = 3  # before MyST-NB's SelectMimeType, which runs at 4
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Replace each MIME bundle that holds a widget."""
        bundles = [
            n
            for n in self.document.findall(nodes.container)
            if n.get("nb_element") == "mime_bundle"
        ]
        for bundle in bundles:
            by_type = {child["mime_type"]: child for child in bundle.children}
            if WIDGET_VIEW not in by_type:
                continue
            if "image/png" in by_type:
                bundle.replace_self(explorer_with_picture(by_type))
            else:
                note = nodes.paragraph("", NEEDS_KERNEL)
                bundle.replace_self(nodes.container("", note, classes=["ln-needs-kernel"]))


def explorer_with_picture(by_type: dict[str, nodes.container]) -> nodes.container:
    """Return the widget's mount point followed by its picture and its sentence."""
    sentence = nodes.paragraph("", by_type["text/plain"].astext())
    fallback = nodes.container(
        "", *by_type["image/png"].children, sentence, classes=["ln-fallback"]
    )
    return nodes.container(
        "", *by_type[WIDGET_VIEW].children, fallback, classes=["ln-explorer-output"]
    )


def setup(app: Sphinx) -> dict[str, int]:
    """Register with Sphinx."""
    app.connect("builder-inited", copy_mathjax)
    app.connect("html-page-context", mend_page, priority=900)
    app.add_post_transform(PairExplorersWithPictures)
    # Sphinx skips pages that did not change themselves, and then copies no style or script either.
    sources = [Path(__file__), *sorted((Path(app.srcdir) / "book" / "assets").iterdir())]
    version = zlib.crc32(b"".join(path.read_bytes() for path in sources))
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
