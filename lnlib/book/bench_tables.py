"""The directive ``bench-table``: what benchmarks recorded, in a few lines that fit a phone.

A page says ``{bench-table} runs``; `TABLES` has the names. The whole tables are in
``benchmarks/results``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from lnlib.book import page_tables, recorded
from lnlib.book.kernel_table import table

Row = dict[str, str]

NOT_YET = "No run of all benchmarks is recorded yet."
PASSES = ("forward", "forward and backward")


class BenchTable(SphinxDirective):
    """Shows one of `TABLES`; another name is an error of the build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what the table of this name comes to."""
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"no table is called {name!r}; there are {sorted(TABLES)}")
        path = recorded.RESULTS / f"{name}.csv"
        for each in (path, Path(__file__)):
            self.env.note_dependency(str(each))
        return TABLES[name](recorded.rows_of(path))


def runs(rows: list[Row]) -> list[nodes.Node]:
    """Return where and when ``make bench`` ran, and what became of each benchmark."""
    if not rows:
        return [nodes.paragraph("", NOT_YET)]
    done = [row for row in rows if row["status"] == "done"]
    spent = sum(float(row["seconds"]) for row in done)
    said = (
        f"{_all('date', rows)}, {_all('machine', rows)}; Python {_all('python', rows)}, "
        f"PyTorch {_all('torch', rows)}, lnlib {_all('lnlib', rows)}. "
        f"{len(done)} of {len(rows)} benchmarks done, in {_clock(spent)} minutes."
    )
    order = ("failed", "done", "skipped")
    lines = [
        [row["benchmark"], _became(row)]
        for row in sorted(rows, key=lambda row: order.index(row["status"]))
    ]
    return [nodes.paragraph("", said), table([["benchmark", "minutes, or why not"], *lines])]


def _became(row: Row) -> str:
    if row["status"] == "done":
        return _clock(float(row["seconds"]))
    return f"{row['status']}: {row['why']}"


def _all(column: str, rows: list[Row]) -> str:
    return " and ".join(dict.fromkeys(row[column] for row in rows))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def speed(rows: list[Row]) -> list[nodes.Node]:
    """Return, for each layer norm and type, its smallest and largest time over PyTorch's."""
    lines = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        for name in dict.fromkeys(row["provider"] for row in rows):
            kept = [row for row in rows if (row["dtype"], row["provider"]) == (dtype, name)]
            if kept and name != "PyTorch":
                ranges = (_range([r for r in kept if r["pass"] == which]) for which in PASSES)
                lines.append([f"{name}, {dtype}", *ranges])
    return [table([["time over PyTorch's", *PASSES], *lines])]


def _range(rows: list[Row]) -> str:
    ratios = sorted((row["over_torch"] for row in rows), key=float)
    return f"{ratios[0]} to {ratios[-1]}"


def growth(rows: list[Row]) -> list[nodes.Node]:
    """Return the slopes of each series, those of time with their quartiles."""
    series = {(row["what"], row["along"], row["provider"]): row for row in rows}
    lines = [
        [f"{along}: {name}", f"{row['time_slope']} ({row['quartiles']})", row["memory_slope"]]
        for (_, along, name), row in series.items()
    ]
    return [table([["along", "slope of time (quartiles)", "of memory"], *lines])]


TABLES: dict[str, Callable[[list[Row]], list[nodes.Node]]] = {
    "book": page_tables.book,
    "book_loads": page_tables.book_loads,
    "explorers": page_tables.explorers,
    "growth": growth,
    "runs": runs,
    "speed": speed,
}
