"""The directive ``kernel-results``: what a GPU was timed at, or that none was, in the pages."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from lnlib.book import recorded, records
from lnlib.book.kernel_results import read_results, shown, summary

NONE_YET = "No GPU has run this command yet, so there is no result to show."
STALE = (
    "Some of these results are of older code: it has changed since they were measured. "
    "The last column says which; the command above measures them again."
)


class KernelResults(SphinxDirective):
    """Shows what ``benchmarks/bench_layer_norm.py`` recorded; stale results say so in words."""

    def run(self) -> list[nodes.Node]:
        """Return a sentence if there are no results, else a list of verdicts and a table."""
        path, closure = recorded.RESULTS / "layer_norm.csv", records.closure("layer_norm")
        for each in (path, *sorted(closure.files)):
            self.env.note_dependency(str(each))
        return results(path, closure.digest)


def results(path: Path, current: str) -> list[nodes.Node]:
    """Return what `KernelResults` shows of the table at ``path``, for the digest of the code."""
    rows = [row for row in read_results(path) if row["median_us"]]
    if not rows:
        return [nodes.paragraph("", NONE_YET)]
    parts: list[nodes.Node] = []
    if any(row["code"] != current for row in rows):
        parts.append(nodes.warning("", nodes.paragraph("", STALE)))
    for device in dict.fromkeys(row["device"] for row in rows):
        fresh = [r for r in rows if r["device"] == device and r["code"] == current]
        if fresh:
            lines = [f"{verdict}" for verdict in summary(fresh)]
            items = [nodes.list_item("", nodes.paragraph("", line)) for line in lines]
            parts += [nodes.paragraph("", f"On {device}:"), nodes.bullet_list("", *items)]
    return [*parts, table(shown(rows, current))]


def table(lines: list[list[str]]) -> nodes.table:
    """Return a table of words; the first line is its heading."""

    def row(line: list[str]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in line))

    columns = [nodes.colspec(colwidth=1) for _ in lines[0]]
    head, body = nodes.thead("", row(lines[0])), nodes.tbody("", *map(row, lines[1:]))
    return nodes.table("", nodes.tgroup("", *columns, head, body, cols=len(columns)))
