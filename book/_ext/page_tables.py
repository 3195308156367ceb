"""Tables in the pages, of what benchmarks recorded: three directives.

``{bench-table} runs`` shows one of `TABLES` in a few lines that fit a phone, ``{kernel-results}``
what a GPU was timed at, or that none was, and ``{record-table}`` when and where each table was
measured, and by which code. The whole tables are in ``benchmarks/results``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from lnlib.book.records import registry, tables
from lnlib.book.records.kernels import read_results, shown, summary

Row = dict[str, str]

NOT_YET = "No run of all benchmarks is recorded yet."
PASSES = ("forward", "forward and backward")
NONE_YET = "No GPU has run this command yet, so there is no result to show."
STALE = (
    "Some of these results are of older code: it has changed since they were measured. "
    "The last column says which; the command above measures them again."
)
MIXED = f"{tables.PRESENT} and older"
NO_CODE = "the checkout of that day"  # of tables that measure all of it
ROUTES = ("this book", "stock Jupyter Book")
MEASURED = {  # what `bench_book` calls it, and how the page does
    "requests": "requests",
    "sent": "sent, compressed",
    "unpacked": "unpacked",
    "painted": "first text",
    "live": "explorer shown",
    "moved": "first move shown",
    "handler": "handling a move",
}


class BenchTable(SphinxDirective):
    """Shows one of `TABLES`; another name is an error of the build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return what the table of this name comes to."""
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"no table is called {name!r}; there are {sorted(TABLES)}")
        path = tables.RESULTS / f"{name}.csv"
        for each in (path, Path(__file__)):
            self.env.note_dependency(str(each))
        return TABLES[name](tables.rows_of(path))


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


def book(rows: list[Row]) -> list[nodes.Node]:
    """Return what each build took, and how many notebooks it ran."""
    seconds, ran = (
        {row["subject"]: row["value"] for row in rows if row["what"] == what}
        for what in ("build", "notebooks run by a build")
    )
    lines = [
        [name, f"{seconds[name]} s" if name in seconds else "not built", count]
        for name, count in ran.items()
    ]
    return [table([["build", "time", "notebooks run"], *lines])]


def book_loads(rows: list[Row]) -> list[nodes.Node]:
    """Return each quantity by either route, with quartiles, and what works there."""
    found = {(row["what"], row["network"], row["route"]): row for row in rows}
    lines = []
    for what, network in dict.fromkeys((row["what"], row["network"]) for row in rows):
        each = [found.get((what, network, route)) for route in ROUTES]
        name = MEASURED.get(what, what)
        lines.append([f"{name}, {network}" if network else name, *map(_told, each)])
    return [table([["", *ROUTES], *lines])]


def _told(row: Row | None) -> str:
    if row is None:
        return "–"  # not loaded, or nothing to try
    value = float(row["value"])
    if row["unit"] == "yes or no":
        return "yes" if value else "no"
    if row["unit"] == "ms":
        low, high = (_time(float(row[column])) for column in ("low", "high"))
        return f"{_time(value)} ({low} to {high})"
    return f"{value / 1e6:.2f} MB" if row["unit"] == "B" else f"{value:.0f}"


def _time(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.2f} s" if milliseconds >= 100 else f"{milliseconds:.1f} ms"


def explorers(rows: list[Row]) -> list[nodes.Node]:
    """Return for each explorer its size, and its slowest control at the 95th percentile."""
    lines = []
    for name in dict.fromkeys(row["explorer"] for row in rows):
        kept = [row for row in rows if row["explorer"] == name]
        slowest = max(kept, key=lambda row: float(row["handler_ms_p95"]))
        size = f"{float(kept[0]['bytes']) / 1000:.0f} kB"
        time = f"{float(slowest['handler_ms_p95']):.1f} ms, {slowest['control']}"
        lines.append([name, size, f"{len(kept)}", time])
    return [table([["explorer", "size", "controls", "slowest handler"], *lines])]


TABLES: dict[str, Callable[[list[Row]], list[nodes.Node]]] = {
    "book": book,
    "book_loads": book_loads,
    "explorers": explorers,
    "growth": growth,
    "runs": runs,
    "speed": speed,
}


class KernelResults(SphinxDirective):
    """Shows what ``benchmarks/bench_layer_norm.py`` recorded; stale results say so in words."""

    def run(self) -> list[nodes.Node]:
        """Return a sentence if there are no results, else a list of verdicts and a table."""
        path, closure = tables.RESULTS / "layer_norm.csv", registry.closure("layer_norm")
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


class RecordTable(SphinxDirective):
    """Shows a line for each table in ``benchmarks/results``."""

    def run(self) -> list[nodes.Node]:
        """Return the table; the page that has it is read again when the code has changed."""
        for name in registry.RECORDS:
            for path in registry.closure(name).files:
                self.env.note_dependency(str(path))
        for path in tables.RESULTS.glob("*.csv"):
            self.env.note_dependency(str(path))
        return [table([["table", "measured", "made by"], *map(line, sorted(registry.TABLES))])]


def line(name: str) -> list[str]:
    """Return the name of a table, when and where it was measured, and what made it."""
    rows = tables.rows_of(tables.RESULTS / f"{name}.csv")
    torch = [f"PyTorch {each}" for each in _each("torch", rows)]
    place = _each("machine", rows) or _each("device", rows)
    where = [*_each("date", rows), *place, *torch]
    return [name, ", ".join(where) or "not yet", _made_by(name, rows)]


def _made_by(name: str, rows: list[dict[str, str]]) -> str:
    if name not in registry.RECORDS:
        return NO_CODE
    codes = {row["code"] for row in rows}
    if codes <= {registry.code(name)}:
        return tables.PRESENT if rows else ""
    return MIXED if registry.code(name) in codes else tables.OLDER


def _each(column: str, rows: list[dict[str, str]]) -> list[str]:
    """Return what stands in a column, each once."""
    return list(dict.fromkeys(row[column] for row in rows if row.get(column)))


def table(lines: list[list[str]]) -> nodes.table:
    """Return a table of words; the first line is its heading."""

    def row(line: list[str]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in line))

    columns = [nodes.colspec(colwidth=1) for _ in lines[0]]
    head, body = nodes.thead("", row(lines[0])), nodes.tbody("", *map(row, lines[1:]))
    return nodes.table("", nodes.tgroup("", *columns, head, body, cols=len(columns)))
