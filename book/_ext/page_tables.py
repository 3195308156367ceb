"""Tables in the pages, of what benchmarks recorded: three directives.

``{bench-table} speed`` shows one of `TABLES` in a few lines that fit a phone, ``{kernel-results}``
what a GPU was timed at, or that none was, and ``{record-table}`` when and where each table was
measured, and by the code of which commit. The whole tables are in ``benchmarks/results``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from lnlib.book.records import kernels, tables

Row = dict[str, str]

PASSES = ("forward", "forward and backward")
NONE_YET = "No GPU has run this command yet, so there are no results."
OTHERS = "published"  # by others, as each row says


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


def speed_pinned(rows: list[Row]) -> list[nodes.Node]:
    """Return the times of rows in float32 over PyTorch's, with and without C++."""
    columns = {"lnlib": "C++", "lnlib reference": "without"}
    lines: dict[str, dict[str, str]] = {}
    for row in (row for row in rows if row["dtype"] == "float32"):
        shape = f"{int(row['rows']):,} × {int(row['features']):,}, {row['pass']}"
        lines.setdefault(shape, {})[row["provider"]] = f"{row['over_torch']} ({row['quartiles']})"
    said = [[shape, *(line.get(each, "") for each in columns)] for shape, line in lines.items()]
    return [table([["rows × features", *columns.values()], *said])]


def _range(rows: list[Row]) -> str:
    ratios = sorted((row["over_torch"] for row in rows), key=float)
    return " to ".join(dict.fromkeys((ratios[0], ratios[-1])))


def compiled(rows: list[Row]) -> list[nodes.Node]:
    """Return the predicted shares on an H200 of shapes that fit no cache, before and now."""
    before = {_pass_of(row): row for row in tables.rows_of(tables.RESULTS / "compiled_before.csv")}
    lines: dict[str, list[str]] = {}
    for key, row in {_pass_of(row): row for row in rows}.items():
        if row["chip"] == "H200" and row["regime"] == "memory":
            shape = f"{int(row['rows']):,} × {int(row['features']):,}, {row['dtype']}"
            shares = f"{float(before[key]['share']):.2f}, now {float(row['share']):.2f}"
            allowed = f"{float(row['ceiling']):.2f}"
            lines.setdefault(shape, [shape]).append(f"{shares} / {allowed}")
    return [table([["rows × features", "forward", "backward"], *lines.values()])]


def _pass_of(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("chip", "pass", "dtype", "rows", "features"))


def models(rows: list[Row]) -> list[nodes.Node]:
    """Return how long a training step takes with lnlib's norms."""
    lines = [
        [f"{row['model']}, {row['dtype']}: {row['norms']}", row["over_torch"], row["quartiles"]]
        for row in rows
        if row["norms"] != "PyTorch"
    ]
    return [table([["a training step", "over PyTorch's", "quartiles"], *lines])]


def constant_rows(rows: list[Row]) -> list[nodes.Node]:
    """Return what each method makes of a constant row in each type, and the method's version."""
    kept = ("method", "float16", "bfloat16", "float32", "float64", "version")
    return [table([[*kept], *([row[name] for name in kept] for row in rows)])]


TABLES: dict[str, Callable[[list[Row]], list[nodes.Node]]] = {
    "accuracy_constant_rows": constant_rows,
    "compiled": compiled,
    "models": models,
    "speed": speed,
    "speed_pinned": speed_pinned,
}


class KernelResults(SphinxDirective):
    """Shows what ``benchmarks/bench_layer_norm.py`` recorded."""

    def run(self) -> list[nodes.Node]:
        """Return a sentence if there are no results, else lists of verdicts."""
        path = tables.RESULTS / "layer_norm.csv"
        for each in (path, Path(__file__), Path(kernels.__file__)):
            self.env.note_dependency(str(each))
        return results(path)


def results(path: Path) -> list[nodes.Node]:
    """Return what `KernelResults` shows of the table at ``path``."""
    rows = [row for row in kernels.read_results(path) if row["median_us"]]
    if not rows:
        return [nodes.paragraph("", NONE_YET)]
    parts: list[nodes.Node] = []
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(f"{row['device']}, {row['date']}, {row['commit']}", []).append(row)
    for run, its in runs.items():
        if all(row["provider"] != kernels.OURS for row in its):  # another's, added to a run
            continue
        lines = [f"{verdict}" for verdict in kernels.summary(its)]
        items = [nodes.list_item("", nodes.paragraph("", line)) for line in lines]
        parts += [nodes.paragraph("", f"On {run}:"), nodes.bullet_list("", *items)]
    return parts


class RecordTable(SphinxDirective):
    """Shows a line for each table in ``benchmarks/results``."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        paths = [path for path in sorted(tables.RESULTS.glob("*.csv")) if path.stem != OTHERS]
        for path in (*paths, Path(__file__)):
            self.env.note_dependency(str(path))
        return [table([["table", "measured"], *map(line, paths)])]


def line(path: Path) -> list[str]:
    """Return the name of a table, when and where it was measured, and at which commit."""
    rows = tables.rows_of(path)
    torch = [f"PyTorch {each}" for each in _each("torch", rows)]
    place = _each("machine", rows) or _each("device", rows)
    commits = [f"commit {each}" for each in _each("commit", rows)]
    where = [*_each("date", rows), *commits, *place, *torch]
    return [path.stem, ", ".join(where) or "not yet"]


def _each(column: str, rows: list[Row]) -> list[str]:
    """Return what stands in a column, each once."""
    return list(dict.fromkeys(row[column] for row in rows if row.get(column)))


def table(lines: list[list[str]]) -> nodes.table:
    """Return a table of words; the first line is its heading."""

    def row(line: list[str]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", nodes.paragraph("", cell)) for cell in line))

    columns = [nodes.colspec(colwidth=1) for _ in lines[0]]
    head, body = nodes.thead("", row(lines[0])), nodes.tbody("", *map(row, lines[1:]))
    return nodes.table("", nodes.tgroup("", *columns, head, body, cols=len(columns)))
