"""What pages show of recorded tables: the directive ``bench-table`` and the role ``recorded``.

``{bench-table} memory`` shows a table of ``benchmarks/results``, in a few lines that fit a phone
where `SHORTER` has a function for it, and ``{recorded}`memory` `` says when, where and by which
commit it was measured.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

from lnlib.book.records import tables

Row = dict[str, str]


class BenchTable(SphinxDirective):
    """Shows the table of a name; one that is not there is an error of the build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what the table of this name comes to."""
        name = self.arguments[0]
        path = tables.RESULTS / f"{name}.csv"
        rows = tables.rows_of(path)
        if not rows:
            raise self.error(missing(name))
        for each in (path, Path(__file__)):
            self.env.note_dependency(str(each))
        return [table(SHORTER.get(name, whole)(rows))]


class RecordedRole(SphinxRole):
    """Writes what `recorded` returns; the page is read again when the table changes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return it as text; a table that is not there is an error of the build."""
        path = tables.RESULTS / f"{self.text}.csv"
        if not path.is_file():
            raise ExtensionError(f"{{recorded}}`{self.text}`: {missing(self.text)}")
        self.env.note_dependency(str(path))
        return [nodes.Text(recorded(tables.rows_of(path)))], []


def missing(name: str) -> str:
    """Say that there is no such table, and where one comes from."""
    there = ", ".join(sorted(path.stem for path in tables.RESULTS.glob("*.csv")))
    return (
        f"there is no benchmarks/results/{name}.csv, but {there}; a line in "
        "benchmarks/records.py names the script that makes a table"
    )


def recorded(rows: list[Row]) -> str:
    """Return when and where rows were measured, and by the code of which commits."""
    torch = [f"PyTorch {each}" for each in _each("torch", rows)]
    place = _each("machine", rows) or _each("device", rows)
    commits = [f"commit {each}" for each in _each("commit", rows)]
    return ", ".join([*_each("date", rows), *commits, *place, *torch])


def _each(column: str, rows: list[Row]) -> list[str]:
    """Return what stands in a column, each once."""
    return list(dict.fromkeys(row[column] for row in rows if row.get(column)))


def speed_pinned(rows: list[Row]) -> list[list[str]]:
    """Return the times of rows in float32 over PyTorch's, with and without C++."""
    columns = {"lnlib": "C++", "lnlib reference": "without"}
    lines: dict[str, dict[str, str]] = {}
    for row in (row for row in rows if row["dtype"] == "float32"):
        shape = f"{int(row['rows']):,} × {int(row['features']):,}, {row['pass']}"
        lines.setdefault(shape, {})[row["provider"]] = f"{row['over_torch']} ({row['quartiles']})"
    said = [[shape, *(line.get(each, "") for each in columns)] for shape, line in lines.items()]
    return [["rows × features", *columns.values()], *said]


def models(rows: list[Row]) -> list[list[str]]:
    """Return how long a training step takes with lnlib's norms."""
    lines = [
        [f"{row['model']}, {row['dtype']}: {row['norms']}", row["over_torch"], row["quartiles"]]
        for row in rows
        if not row["norms"].endswith("PyTorch")
    ]
    return [["a training step", "over PyTorch's", "quartiles"], *lines]


def whole(rows: list[Row]) -> list[list[str]]:
    """Return all columns but those that `recorded` says."""
    kept = [
        name for name in rows[0] if name not in ("date", "machine", "device", "commit", "torch")
    ]
    return [kept, *([row[name] for name in kept] for row in rows)]


# In place of the whole table.
SHORTER: dict[str, Callable[[list[Row]], list[list[str]]]] = {
    "models": models,
    "models_gpu": models,
    "speed_pinned": speed_pinned,
}


def table(lines: list[list[str]]) -> nodes.table:
    """Return a table of words; the first line is its heading."""

    def row(line: list[str]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in line))

    columns = [nodes.colspec(colwidth=1) for _ in lines[0]]
    head, body = nodes.thead("", row(lines[0])), nodes.tbody("", *map(row, lines[1:]))
    return nodes.table("", nodes.tgroup("", *columns, head, body, cols=len(columns)))
