"""The Sphinx side: MathJax from a package, pictures under explorers, no foreign scripts."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

from answers import is_exercise, page_data, scripts_for
from breaks import keep_punctuation, soften_breaks
from digests import CACHE, NEEDS_TRITON
from docutils import nodes
from drawn import Drawn
from figures import InlineFigures, mime_bundles
from lettered import letter_pages
from marks import Fold, PlaceMarks, depart_fold, is_cell, visit_fold
from measured import NumberRole
from myst_nb.core.render import sanitize_script_content
from myst_nb.sphinx_ import NbMetadataCollector
from page_tables import BenchTable, RecordedRole
from phone_tables import LastColumnBelow, break_names
from room import leave_room
from runs import WIDGET_VIEW, record_of
from sections import write_sections
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx_exercise.nodes import solution_node
from tied import PLACES, Explorer, TieLinks, mark_symbols, targets

from lnlib.triton_kernel.runtime import why_not

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
WITHOUT_JAVASCRIPT = (
    '<noscript><p class="ln-noscript">Without JavaScript, formulas are shown as TeX and explorers '
    "as pictures.</p></noscript>"
)

# What a label begins with, and its role; others are of sections.
OF_LABELS = {"eq": ("math", "eq"), "def": ("math", "eq"), "fig": ("std", "numref")}

# Works by marks.js; that it is there from the start keeps the text below it in its place.
OPEN_ALL = '<button type="button" class="ln-all-checks">Open all {} checks</button>'


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
        extensions = "input/tex/extensions"  # \class, by which symbols are marked
        (target / extensions).mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / "es5" / extensions / "html.js", target / extensions)
        shutil.copy2(root / "LICENSE", target)


def mend_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object
) -> None:
    """Remove thebe's scripts, widgets that are not shown, and what misleads readers.

    The book offers no remote kernel, and thebe's scripts raise an error on every page. Sphinx calls
    a bibliography a list, but its entries no list items; gives them a role that is deprecated; and
    makes the empty corner of a table a header.
    """
    if pagename == app.config.root_doc:
        context |= {"home": context["docstitle"], "docstitle": ""}  # it is this page's own title
    context["body"] = (
        context.get("body", "")
        .replace('<div role="list" class="citation-list">', '<div class="citation-list">')
        .replace(' role="doc-biblioentry"', "")
        .replace('<th class="head"><p></p></th>', '<td class="head"></td>')
    )
    body = leave_room(soften_breaks(keep_punctuation(context["body"])))
    body = break_names(mark_symbols(body))
    checks = body.count('class="ln-check-mark"')
    if checks:
        body = body.replace("</h1>", f"</h1>\n{OPEN_ALL.format(checks)}", 1)
    context["body"] = body
    if 'class="math ' in body:
        context["body"] = WITHOUT_JAVASCRIPT + context["body"]
    scripts = context.get("script_files", [])
    if "ln-explorer-output" in context["body"] and not any(map(is_mount, scripts)):
        app.add_js_file("explorers.js", defer="defer")  # on a page that runs no code
    for name in scripts_for(context["body"]):
        app.add_js_file(name, defer="defer")
    scripts = [s for s in scripts if "thebe" not in f"{s}".lower()]
    # MathJax is ten times as large as what shows the explorers.
    context["script_files"] = sorted(scripts, key=lambda script: not is_mount(script))
    for script in context["script_files"]:
        attributes = getattr(script, "attributes", {})
        if attributes.get("type") == WIDGET_STATE:
            attributes["body"] = shown_widgets(attributes["body"], context["body"])


def is_mount(script: Any) -> bool:
    """Tell whether a script of a page is the one that shows explorers."""
    return "explorers.js" in f"{getattr(script, 'filename', script)}"


def shown_widgets(state: str, page: str) -> str:
    """Drop from a page's widget state what it does not show: an explorer's script is 40 kB."""
    content = json.loads(state)
    content["state"] = {name: model for name, model in content["state"].items() if name in page}
    return str(sanitize_script_content(json.dumps(content, ensure_ascii=False)))


class PairExplorersWithPictures(SphinxPostTransform):
    """Keep an explorer's picture and sentence beside it, for those without JavaScript.

    MyST-NB would keep one MIME type of each output.
    """

    default_priority = 3  # before MyST-NB's SelectMimeType, which runs at 4
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Replace each MIME bundle that holds a widget."""
        for bundle, by_type in mime_bundles(self.document, WIDGET_VIEW):
            anchor = self.anchor(by_type[WIDGET_VIEW])
            shown = explorer_with_picture(by_type, anchor)
            shown[:0] = targets(self.document, anchor)
            bundle.replace_self(shown)

    def anchor(self, view: nodes.container) -> str:
        """Return the address of the explorer that a view shows."""
        model = str(re.findall(r'"model_id": "(\w+)"', view.astext())[0])
        _, script = NbMetadataCollector.get_js_files(self.env, self.env.docname)["ipywidgets_state"]
        state = json.loads(script["body"])["state"][model]["state"]
        return next(
            at for at, kind in PLACES.items() if state["_anywidget_id"].endswith(kind.__name__)
        )


def explorer_with_picture(by_type: dict[str, nodes.container], anchor: str) -> nodes.container:
    """Return the widget's mount point, to which ``anchor`` leads, its picture and its sentence."""
    sentence = nodes.paragraph("", by_type["text/plain"].astext())
    picture = by_type["image/png"].children if "image/png" in by_type else []
    fallback = nodes.container("", *picture, sentence, classes=["ln-fallback"])
    children = (*by_type[WIDGET_VIEW].children, fallback)
    return nodes.container("", *children, classes=["ln-explorer-output"], ids=[anchor])


class CodeBelowPicture(SphinxPostTransform):
    """Let the folded code of a picture stand below it."""

    default_priority = 200  # after MyST-NB has folded it
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Turn the two around."""
        for cell in self.document.findall(nodes.container):
            if cell.get("hide_mode") == "input" and len(cell.children) == 2:
                cell.children.reverse()


class LinkLabels(SphinxTransform):
    """Let a plain link to a label be a reference: [words](02_epsilon.ipynb#root-or-beside).

    JupyterLab follows such a link to its page, and roles not at all.
    """

    default_priority = 10  # before any other asks what a reference is

    def apply(self, **kwargs: Any) -> None:
        """Name the kind of each, for MyST alone knows it as a document with a heading."""
        for link in self.document.findall(addnodes.pending_xref):
            if label := link.get("reftargetid"):
                domain, role = OF_LABELS.get(label.partition("-")[0], ("std", "ref"))
                kind = {"refdomain": domain, "reftype": role, "reftarget": label}
                link.attributes |= kind | {"refwarn": True}


class NumberFigures(SphinxPostTransform):
    """Let a reference to a figure show its number, as one to an equation does.

    The words that stand in either are for JupyterLab, which knows neither figures nor other pages.
    """

    default_priority = 5  # before Sphinx resolves references, which it does at 10

    def run(self, **kwargs: Any) -> None:
        """Forget the words of each."""
        for reference in self.document.findall(addnodes.pending_xref):
            if reference["reftype"] == "numref":
                reference["refexplicit"] = False


class FillSolutions(SphinxTransform):
    """Take the cells of code that follow the text of a solution into its fold."""

    default_priority = 860  # before exercises and marks are read

    def apply(self, **kwargs: Any) -> None:
        """Fill the solutions of one page."""
        for solution in list(self.document.findall(solution_node)):
            beside = solution.parent
            while is_cell(after := solution.next_node(descend=False, siblings=True)):
                beside.remove(after)
                solution.next_node(nodes.section).append(after)


class MendExercises(SphinxPostTransform):
    """Say where an exercise can be answered.

    A page cannot run Python; it takes values alone (answers.py). sphinx-exercise gives all its
    sections one id.
    """

    default_priority = 3
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Mend the exercises of one page."""
        for section in self.document.findall(nodes.section):
            if section["ids"] in (["exercise-content"], ["solution-content"]):
                section["ids"] = []
        first = next(self.document.findall(is_exercise), None)
        if first is not None:
            data = page_data(self.document, self.env.docname)
            first.parent.insert(first.parent.index(first), where_to_answer())
            self.document += data or []


def where_to_answer() -> nodes.paragraph:
    """Return the sentence before a page's exercises."""
    sentence = nodes.paragraph(classes=["ln-where-to-answer"])
    sentence += nodes.Text("Write your answers in JupyterLab (")
    sentence += nodes.literal("", "make lab")
    sentence += nodes.Text("), or open the solutions.")
    return sentence


def depend_on_run(app: Sphinx, docname: str, source: list[str]) -> None:
    """Let the page of a notebook be read again once it has run again."""
    assert app.env is not None
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".ipynb":
        root = Path(app.srcdir)
        run = record_of(root, path)
        if run is not None:
            file = root / "_build" / CACHE / "executed" / run.hashkey / "base.ipynb"
            app.env.note_dependency(str(file))


def drop_old_pages(app: Sphinx, exception: Exception | None) -> None:
    """Delete the page, and the source to download, of what the contents no longer list."""
    if exception is None and app.builder.format == "html":
        assert app.env is not None
        pages = Path(app.outdir)
        for folder, which in ((pages, "[!_]*/*.html"), (pages / "_sources", "*/*")):
            for path in folder.glob(which):
                if path.relative_to(folder).with_suffix("").as_posix() not in app.env.found_docs:
                    path.unlink()


def leave_out_index(app: Sphinx) -> None:
    """Leave out Sphinx's own index and page of a search: sections.py and search.html have ours."""
    if isinstance(app.builder, StandaloneHTMLBuilder):
        app.builder.search = False


def leave_out_kernels(app: Sphinx, config: Config) -> None:
    """Let the stored outputs of the chapter on kernels stand where Triton has no wheel."""
    if why_not() is not None:
        config.nb_execution_excludepatterns = [
            *config.nb_execution_excludepatterns,
            f"notebooks/{NEEDS_TRITON}*",
        ]


def setup(app: Sphinx) -> dict[str, int]:
    """Register with Sphinx."""
    app.connect("config-inited", leave_out_kernels)
    app.connect("builder-inited", copy_mathjax)
    app.connect("builder-inited", leave_out_index)
    app.connect("source-read", depend_on_run)
    app.connect("html-page-context", mend_page, priority=900)
    app.add_transform(LinkLabels)
    app.add_transform(TieLinks)
    app.add_transform(FillSolutions)
    app.add_transform(PlaceMarks)
    app.add_node(Fold, html=(visit_fold, depart_fold))
    app.add_post_transform(PairExplorersWithPictures)
    app.add_post_transform(InlineFigures)
    app.add_post_transform(CodeBelowPicture)
    app.add_post_transform(NumberFigures)
    app.add_post_transform(MendExercises)
    app.add_post_transform(LastColumnBelow)
    app.connect("env-get-updated", letter_pages, priority=900)
    app.connect("build-finished", write_sections)
    app.connect("build-finished", drop_old_pages)
    app.add_role("number", NumberRole())
    app.add_role("recorded", RecordedRole())
    app.add_directive("explorer", Explorer)
    app.add_directive("drawn", Drawn)
    app.add_directive("bench-table", BenchTable)
    # Sphinx skips pages that did not change themselves, and then copies no style or script either;
    # and each page has all of the contents beside it.
    book = Path(app.srcdir) / "book"
    sources = [Path(app.srcdir) / "_toc.yml"]
    sources += [
        p for part in ("_ext", "assets", "templates") for p in sorted((book / part).rglob("*.*"))
    ]
    made = [path for path in sources if path.is_file() and "__pycache__" not in path.parts]
    version = zlib.crc32(b"".join(path.read_bytes() for path in made))
    return {"env_version": version, "parallel_read_safe": True, "parallel_write_safe": True}
