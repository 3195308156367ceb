"""Figures as part of the page: SVG whose colors follow the theme, in place of a picture of paper.

While the book is built a figure of a notebook is PNG and SVG (`lnlib.book.style`). The page takes
the SVG in; each of its colors becomes a variable, with the light color as what it falls back to,
and a rule gives the variables other values on a dark page.
"""

from __future__ import annotations

import colorsys
import html
import re
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib.colors import to_hex, to_rgb
from sphinx.transforms.post_transforms import SphinxPostTransform

from lnlib.book import style

__all__ = ["InlineFigures", "dark", "inline", "mime_bundles"]

SVG = "image/svg+xml"
NO_PICTURE = re.compile(
    r"<metadata>.*?</metadata>|<title>.*?</title>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>",
    re.DOTALL,
)
COLOR = re.compile(r"#[0-9a-f]{6}\b")
# Those with a role, and the grays, are what the explorers have; paper and ink are the page's own.
PAGE = {
    style.PAPER.lower(): "var(--pst-color-background)",
    style.TEXT.lower(): "var(--pst-color-text-base)",
}
DARK = {
    style.AXIS: "#8b949e",
    style.MUTED: "#a3adb8",
    style.GRID: "#333c47",
    style.BLUE.lower(): "#56a8e0",
    style.VERMILLION.lower(): "#ff8a4c",
    style.GREEN.lower(): "#35c796",
    "#000000": "#f0f0f0",
    "#ffffff": "#14181e",
}


class InlineFigures(SphinxPostTransform):
    """Put the SVG of each figure into the page."""

    default_priority = 3  # before MyST-NB's SelectMimeType, which runs at 4
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Replace each MIME bundle that holds an SVG."""
        for bundle, by_type in mime_bundles(self.document, SVG):
            (picture,) = by_type[SVG].findall(nodes.image)
            alt = next((i["alt"] for i in by_type["image/png"].findall(nodes.image)), "")
            svg = Path(self.env.srcdir, picture["uri"].lstrip("/")).read_text(encoding="utf8")
            bundle.replace_self(nodes.raw("", inline(svg, alt), format="html"))


def mime_bundles(
    document: nodes.document, mime_type: str
) -> list[tuple[nodes.container, dict[str, Any]]]:
    """Return each output of cells that has a MIME type, and its parts by their types."""
    outputs = [
        (node, {child["mime_type"]: child for child in node.children})
        for node in document.findall(nodes.container)
        if node.get("nb_element") == "mime_bundle"
    ]
    return [output for output in outputs if mime_type in output[1]]


def inline(svg: str, alt: str) -> str:
    """Return an SVG of matplotlib as a part of a page.

    Args:
        svg: the file; the same file gives the same text.
        alt: what it shows, in words.
    """
    body = NO_PICTURE.sub("", svg[svg.index("<svg") :])
    name = f"f{zlib.crc32(body.encode()):08x}-"  # of what is left: a date is not
    linked = set(re.findall(r'(?:href="|url\()#([^")]+)', body))
    body = re.sub(r' id="([^"]+)"', lambda i: f' id="{name}{i[1]}"' * (i[1] in linked), body)
    body = re.sub(r'(href="|url\()#', rf"\1#{name}", body)
    used = sorted(set(COLOR.findall(body)) - PAGE.keys())
    body = COLOR.sub(lambda color: variable(color[0]), body)
    (size,) = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    opening = (
        f'<svg class="ln-figure" role="img" aria-label="{html.escape(alt)}" '
        f'viewBox="0 0 {size[0]} {size[1]}" style="aspect-ratio: {size[0]} / {size[1]}" '
        'stroke-linejoin="round" stroke-linecap="butt">'
    )
    values = "".join(f"--ln-c{color[1:]}:{dark(color)};" for color in used)
    theme = f'<style>html[data-theme="dark"] .ln-figure{{{values}}}</style>' if used else ""
    body = re.sub(r"^<svg[^>]*>", lambda _: opening + theme, body)
    return re.sub(r"\n\s*", "\n", body).strip() + "\n"


def variable(color: str) -> str:
    """Return what stands for a color of a figure.

    >>> variable("#0072b2")
    'var(--ln-c0072b2,#0072b2)'
    """
    return PAGE.get(color, f"var(--ln-c{color[1:]},{color})")


def dark(color: str) -> str:
    """Return what a color becomes on a dark page: the same hue, and light for dark.

    >>> dark("#0072b2"), dark("#bfe0f5")
    ('#56a8e0', '#163b53')
    """
    roles = (style.BLUE, style.VERMILLION, style.GREEN)
    for role in roles:  # a label has a darker shade of its line's color
        if color == style.darker(role):
            return DARK[role.lower()]
    if color in DARK:
        return DARK[color]
    hue, light, saturation = colorsys.rgb_to_hls(*to_rgb(color))
    return to_hex(colorsys.hls_to_rgb(hue, 0.08 + 0.86 * (1 - light), 0.8 * saturation))
