"""What the search knows: the sections of each page, their words, and what else people type.

Sphinx's index knows pages; a reader who types "fp16" wants the section. What people type and a
section does not say stands in a comment below its heading: <!-- search: NCHW; channels first -->.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

__all__ = ["sections", "write_sections"]

TYPED = re.compile(r"<!-- search: (.*?) -->", re.DOTALL)
# Nobody types a displayed formula, nor the code of a notebook. A footnote is said at its number.
UNSAID: tuple[type, ...] = (nodes.math_block, nodes.footnote, nodes.comment)
UNSAID += (nodes.system_message, addnodes.desc_parameterlist)
CODE = {"cell_input", "cell_output"}
NAMES = "alpha beta gamma delta varepsilon eta lambda mu sigma sqrt cdot times odot le ge approx pm"
SIGNS = dict(zip(NAMES.split(), "αβγδεηλμσ√·×⊙≤≥≈±", strict=True))

Section = dict[str, str | list[str]]


def sections(app: Sphinx) -> Iterator[Section]:
    """Yield each section with its address, its title and its page's, its words and aliases."""
    assert app.env is not None
    labels = {name: title for name, (*_, title) in app.env.domaindata["std"]["labels"].items()}
    labels |= {Path(page).name: title.astext() for page, title in app.env.titles.items()}
    for page in sorted(app.env.found_docs):
        numbers = app.env.toc_secnumbers.get(page, {})
        tree, top = app.env.get_doctree(page), True
        for section in tree.findall(has_heading):
            anchor = "" if top else f"#{section['ids'][0]}"
            number = ".".join(map(str, numbers.get(anchor, ())))
            title, said = section[0].astext(), " ".join(words(section, labels))
            yield {
                "url": app.builder.get_target_uri(page) + anchor,
                "title": f"{number}. {title}" if number else title,
                "page": "" if top else app.env.titles[page].astext(),
                "text": re.sub(r" (?=[.,;)](?: |$))", "", " ".join(TYPED.sub("", said).split())),
                "typed": [each.strip() for some in TYPED.findall(said) for each in some.split(";")],
            }
            top = False


def has_heading(node: nodes.Node) -> bool:
    """Tell whether a node is a section of the page; an exercise is one without a heading."""
    return isinstance(node, nodes.section) and isinstance(node[0], nodes.title)


def plain(tex: str) -> str:
    r"""Return a formula within a sentence without its TeX.

    >>> plain(r"\hat x = \frac{x-\mu}{s}")
    'x̂=(x-μ)/(s)'
    """
    tex = re.sub(r"\\hat\s*\{?(\w)\}?", "\\1\u0302", tex)
    tex = re.sub(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", tex)
    tex = re.sub(r"\\([a-zA-Z]+) ?", lambda found: SIGNS.get(found[1], " "), tex)
    return re.sub(r"[\\{}]|(?<=\W) (?=\W)", "", tex)


def words(node: nodes.Element, labels: dict[str, str]) -> Iterator[str]:
    """Yield what a section says, without its heading and the sections inside it."""
    for child in node.children:
        if isinstance(child, nodes.Text):
            yield child.astext()
        elif isinstance(child, nodes.footnote_reference):
            _, *note = child.document.ids[child["refid"]]
            yield from (f" ({''.join(words(each, labels)).strip()})" for each in note)
        elif isinstance(child, nodes.raw):
            yield from (found[0] for found in TYPED.finditer(child.astext()))
        elif isinstance(child, nodes.math):
            yield plain(child.astext())
        elif isinstance(child, addnodes.pending_xref) and child["refdomain"] == "cite":
            if child["reftype"] == "t":  # a work within a sentence: by its author
                yield re.sub(r"\d.*", "", child.astext()).capitalize()
        elif isinstance(child, addnodes.pending_xref) and child["reftype"] in ("ref", "doc"):
            yield (
                child.astext()
                if child["refexplicit"]
                else labels.get(Path(child["reftarget"]).name, "")
            )
        elif isinstance(child, nodes.Element) and not (
            isinstance(child, (nodes.title, *UNSAID))
            or child.get("reftype") == "eq"
            or has_heading(child)
            or CODE.intersection(child["classes"])
        ):
            said = "".join(words(child, labels))
            yield said if isinstance(child, nodes.Inline) else f"{said} "


def write_sections(app: Sphinx, exception: Exception | None) -> None:
    """Write the sections as a script, which a page in a folder can load."""
    if exception is None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / "sections.js"
        every = json.dumps(list(sections(app)), ensure_ascii=False)
        target.write_text(f"const LN_SECTIONS = {every};\n", encoding="utf8")
