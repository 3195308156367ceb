"""How good is the book itself? Writes ``benchmarks/results/book.csv`` and ``book_loads.csv``.

    python benchmarks/bench_book.py           # about a quarter of an hour, everything
    python benchmarks/bench_book.py --quick   # the pages that `make book` left, few; only prints

* builds: a copy of this checkout is built cold, and again after changes;
* nbval: each notebook of the copy alone, as `make test` runs it;
* pages: what a browser loads for each page that it opens from its folder;
* loads: the page of the ε explorer as this book builds it, and as Jupyter Book builds it on its own
  (`stock_route`), loaded in turn from one server, with an empty cache each time.

The stock route takes node and npm, to fetch what a CDN would serve. Without them it is skipped, and
``book_loads.csv`` stays as it was.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import page_loads
import stock_route
from book_builds import Row, build_rows, copy_checkout, nbval_rows, note, row
from digests import notebooks
from page_loads import NETWORKS
from page_server import Server, serving
from playwright.sync_api import sync_playwright
from results_table import provenance, write

from lnlib.book.home import ROOT

EXPLORED = "notebooks/02_epsilon.html"
OURS, STOCK = "this book", "stock Jupyter Book"
HOSTS = {"book.test": OURS, "stock.test": STOCK}
LOADS, QUICK_LOADS = 15, 3
HEAVY = 100_000  # bytes of a file that is named
# What the stock route looks for beside the page, where it is not: the widget's module, which the
# CDN has, and fonts for icons that no explorer shows.
MISSED = (
    "stock.test/notebooks/anywidget.js",
    "stock.test/notebooks/@jupyter-widgets/html-manager/dist/",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-features=AutofillServerCommunication",
]


def pages_of(site: Path) -> list[Path]:
    """Return the pages of a built book, without the one that leads to the first."""
    pages = sorted(site.rglob("*.html"))
    return [
        page
        for page in pages
        if "_static" not in page.parts and b'http-equiv="Refresh"' not in page.read_bytes()[:400]
    ]


def weight_rows(browser: Any, site: Path, pages: Sequence[Path]) -> Iterator[Row]:
    """Open each page from its folder and weigh what it loads."""
    units = {"requests": "requests", "bytes": "B", "compressed": "B"}
    for page in pages:
        name = page.relative_to(site).with_suffix("").as_posix()
        found = page_loads.weigh(browser, page)
        note(f"{name}: " + ", ".join(f"{value:,} {what}" for what, value in found.items()))
        for what, value in found.items():
            yield row(f"page {what}", name, value, units[what])


def finder(sites: dict[str, Path], cache: Path) -> Callable[[str, str], Path | None]:
    """Return what answers for each built book by its host, and for the CDNs from ``cache``."""

    def find(host: str, path: str) -> Path | None:
        if host not in sites:
            return stock_route.find(cache, host, path)
        file = sites[host] / path.lstrip("/")
        return file if file.is_file() else None

    return find


def refuse_unanswered(unanswered: Sequence[str]) -> None:
    """Stop if a page lacked something: its time would be that of a broken page.

    Raises:
        SystemExit: names what was asked for.
    """
    missing = sorted({url for url in unanswered if not url.startswith(MISSED)})
    if missing:
        raise SystemExit(f"asked for and not answered, so not timed: {missing}")


def in_turn(
    browser: Any, server: Server, hosts: Sequence[str], network: page_loads.Network, loads: int
) -> tuple[dict[str, list[dict[str, float]]], dict[str, Row]]:
    """Load the page of each host in turn; return the times of each load, and what a load takes.

    One load more comes first and is not timed: it warms this machine up, and is weighed.
    """
    times: dict[str, list[dict[str, float]]] = {host: [] for host in hosts}
    sizes: dict[str, Row] = {}
    for turn in range(loads + 1):
        for host in sorted(hosts, reverse=bool(turn % 2)):
            server.sent.clear()
            server.unanswered.clear()
            address = f"https://{host}/{EXPLORED}"
            found = page_loads.load(browser, address, network, to_the_end=turn == 0)
            refuse_unanswered(server.unanswered)
            if turn:
                times[host].append(found)
            else:
                sizes[host] = sizes_of(server)
    return times, sizes


def load_rows(chromium: str, sites: dict[str, Path], cache: Path, loads: int) -> Iterator[Row]:
    """Load the explorer's page of each site in turn, on each network; then try what works."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(finder(sites, cache), Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        flags = [*FLAGS, *server.flags]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        for name, network in NETWORKS.items():
            times, sizes = in_turn(browser, server, list(sites), network, loads)
            for host, each in times.items():
                yield from summaries(HOSTS[host], name, each)
        for host, site in sites.items():
            for what, value in sizes[host].items():
                unit = "requests" if what == "requests" else "B"
                yield load_row(HOSTS[host], "", what, value, unit, 1)
            address = f"https://{host}/{EXPLORED}"
            for what, yes in page_loads.works(browser, address, site / EXPLORED).items():
                note(f"{HOSTS[host]} {what}: {'yes' if yes else 'no'}")
                yield load_row(HOSTS[host], "", what, int(yes), "yes or no", 1)
        browser.close()


def sizes_of(server: Server) -> Row:
    """Return the requests of one load, and the bytes of all answers, as sent and unpacked.

    What is heavy is named too, with its bytes as sent.
    """
    heavy = {
        f"of that, {each.path.rsplit('/', 1)[-1]}": each.sent
        for each in sorted(server.sent, key=lambda each: -each.sent)
        if each.sent >= HEAVY
    }
    return {
        "requests": len(server.sent) + len(server.unanswered),
        "unpacked": sum(each.plain for each in server.sent),
        "sent": sum(each.sent for each in server.sent),
        **heavy,
    }


def load_row(route: str, network: str, what: str, value: float, unit: str, loads: int) -> Row:
    """Return a row of ``book_loads.csv`` without its provenance, for a value without spread."""
    place = {"route": route, "network": network, "what": what}
    return place | {"value": value, "low": "", "high": "", "unit": unit, "loads": loads}


def summaries(route: str, network: str, loads: Sequence[dict[str, float]]) -> list[Row]:
    """Return the median and quartiles of each time over the loads of one page."""
    rows = []
    for what in loads[0]:
        values = [load[what] for load in loads]
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        line = load_row(route, network, what, round(middle, 2), "ms", len(loads))
        rows.append(line | {"low": round(low, 2), "high": round(high, 2)})
        note(f"{route}, {network}, {what}: {middle:,.1f} ms ({low:,.1f} to {high:,.1f})")
    return rows


def measure(options: argparse.Namespace, book: Path, work: Path) -> tuple[list[Row], list[Row]]:
    """Return the rows of both tables, measured on the built book in ``book``."""
    rows: list[Row] = []
    paths, loads = notebooks(book), QUICK_LOADS if options.quick else LOADS
    site = book / "_build" / "html"
    if not options.quick:
        rows += build_rows(book)
    pages = pages_of(site)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        rows += weight_rows(browser, site, pages[:2] if options.quick else pages)
        browser.close()
    sites = {"book.test": site}
    cache = ROOT / "_build" / "npm"
    try:
        stock_route.fetch(cache)
        note("building the same notebooks without this book's extension")
        sites["stock.test"] = stock_route.build(book, work)
    except stock_route.UnavailableError as error:
        note(f"skipped, the stock route: {error}")
    timed = list(load_rows(options.chromium, sites, cache, loads))
    rows += nbval_rows(book, paths[:1] if options.quick else paths)
    return rows, timed if len(sites) == len(HOSTS) else []


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chromium", default=os.environ.get("LN_CHROMIUM", "/usr/bin/chromium"))
    parser.add_argument("--quick", action="store_true", help="a minute or two; only print")
    options = parser.parse_args()
    for tool in ("openssl", options.chromium):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not installed, so no page can be measured")
    where = provenance() | {
        package: importlib.metadata.version(package)
        for package in ("jupyter-book", "anywidget", "torch")
    }
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        book = ROOT if options.quick else work / "book"
        if options.quick and not (ROOT / "_build" / "html" / EXPLORED).is_file():
            raise SystemExit("the pages are not built; run make book first")
        if not options.quick:
            copy_checkout(ROOT, book)
        rows, timed = measure(options, book, work)
    if not options.quick:
        write("book", [each | where for each in rows])
        if timed:
            write("book_loads", [each | where for each in timed])


if __name__ == "__main__":
    main()
