"""A page draws what a benchmark recorded, as a numbered figure that everybody can read."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import drawn
import matplotlib as mpl
import matplotlib.pyplot as plt
from docutils import nodes
from docutils.statemachine import StringList
from drawings import DRAWINGS
from figures import inline

from lnlib.book.home import ROOT
from lnlib.book.records import tables

ALT = "A line that starts at one, climbs to two and then falls back to one again."


def asked() -> tuple[Any, list[str]]:
    """Run the directive with a caption; return it, and what it depends on."""
    noted: list[str] = []
    env = SimpleNamespace(note_dependency=noted.append)
    text = [nodes.paragraph("", "", nodes.Text("It climbs."))]
    state = SimpleNamespace(
        document=SimpleNamespace(settings=SimpleNamespace(env=env)),
        nested_parse=lambda content, offset, node: node.extend(text),
    )
    machine = SimpleNamespace(reporter=None, get_source_and_line=lambda line: ("page.md", line))
    given = ("drawn", ["memory"], {"alt": ALT}, StringList(), 1, 0, "", state, machine)
    return drawn.Drawn(*given), noted


def test_a_drawing_is_what_the_page_shows_and_depends_on_its_code_and_every_table(
    site: Path,
) -> None:
    open_before, backend = plt.get_fignums(), mpl.get_backend()
    mpl.use("svg")  # as a reader may have it
    directive, noted = asked()
    (figure,) = directive.run()
    mpl.use(backend)
    picture, caption = figure.children
    assert (caption.astext(), plt.get_fignums()) == ("It climbs.", open_before)
    svg = drawn.svg(DRAWINGS["memory"])
    assert "<dc:date>" not in svg
    assert picture.astext() == inline(svg, ALT)  # the same each time
    found = {Path(path).relative_to(ROOT).as_posix() for path in noted}
    code = {"book/_ext/drawn.py", "book/_ext/drawings.py", "lnlib/book/style.py"}
    assert found >= code | {f"benchmarks/results/{p.name}" for p in tables.RESULTS.glob("*.csv")}
    page = (site / "book" / "benchmarks.html").read_text(encoding="utf8")
    assert picture.astext().partition("viewBox")[2] in page
    assert re.search(r'<figure[^>]*id="fig-memory"', page)
