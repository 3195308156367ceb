"""Small tables for the page on benchmarks: builds, page loads by two routes, and explorers."""

from __future__ import annotations

from docutils import nodes

from lnlib.book.kernel_table import table

Row = dict[str, str]

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
