"""The directive ``record-table``: when and where each table was measured, and by which code."""

from __future__ import annotations

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from lnlib.book import recorded, records
from lnlib.book.kernel_table import table

MIXED = f"{recorded.PRESENT} and older"
NO_CODE = "the checkout of that day"  # of tables that measure all of it


class RecordTable(SphinxDirective):
    """Shows a line for each table in ``benchmarks/results``."""

    def run(self) -> list[nodes.Node]:
        """Return the table; the page that has it is read again when the code has changed."""
        for name in records.RECORDS:
            for path in records.closure(name).files:
                self.env.note_dependency(str(path))
        for path in recorded.RESULTS.glob("*.csv"):
            self.env.note_dependency(str(path))
        return [table([["table", "measured", "made by"], *map(line, sorted(records.TABLES))])]


def line(name: str) -> list[str]:
    """Return the name of a table, when and where it was measured, and what made it."""
    rows = recorded.rows_of(recorded.RESULTS / f"{name}.csv")
    torch = [f"PyTorch {each}" for each in _all("torch", rows)]
    place = _all("machine", rows) or _all("device", rows)
    where = [*_all("date", rows), *place, *torch]
    return [name, ", ".join(where) or "not yet", _made_by(name, rows)]


def _made_by(name: str, rows: list[dict[str, str]]) -> str:
    if name not in records.RECORDS:
        return NO_CODE
    codes = {row["code"] for row in rows}
    if codes <= {records.code(name)}:
        return recorded.PRESENT if rows else ""
    return MIXED if records.code(name) in codes else recorded.OLDER


def _all(column: str, rows: list[dict[str, str]]) -> list[str]:
    """Return what stands in a column, each once."""
    return list(dict.fromkeys(row[column] for row in rows if row.get(column)))
