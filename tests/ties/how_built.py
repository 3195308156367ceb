"""The numbers of the page on how this book is built, and what computes them."""

import re

import bench_explorers
import bench_gamma_beta
import icons
import page_tables

from lnlib.book.home import ROOT
from lnlib.book.records import tables
from ties import Page
from ties.benchmarks import rows, written

page = Page("how_built")
tie, free = page.tie, page.free

for name in ["pages", "explorers", "gamma_beta", "pieces"]:
    path = tables.RESULTS / f"{name}.csv"
    heads = [line for line in path.read_text("utf8").splitlines() if not re.search(r"\d{4}-", line)]
    tie(f"results/{name}.csv :header-rows: #", len(heads))
free("In November # the chapter", why="a date")

# First values, the book, explorers
tie("All settings share batches of # and", bench_gamma_beta.BATCH)
tie("says otherwise, a learning rate of #.", bench_gamma_beta.RATE)
tie(
    "half of its # % interval",
    written("benchmarks/bench_gamma_beta.py", r"two-sided (\d+) % interval"),
)
tie(
    "at most, # times of #, while",
    written("benchmarks/bench_pages.py", r"floor\(0\.(\d+) \* moves"),
    written("benchmarks/bench_pages.py", r"\d+ of (\d+) times the"),
)
tie("A screen shows one every # ms", 1000 / written("benchmarks/bench_pages.py", r"At (\d+) Hz"))
SLOW = max(float(row["frame_ms_p95"]) for row in rows("pages") if row["frame_ms_p95"])
tie("it reached # ms", SLOW)
tie("The budget is # MB a page", written("tests/test_pages.py", r"budget = (\d+e\d)  #") / 1e6)
FACES = [path.stat().st_size for path in ROOT.glob("book/assets/fonts/*.woff2")]
tie("come with the book, # kB in five files", round(sum(FACES) / 1000))
tie("theme's script of # MB", len(icons.SCRIPT.read_bytes()) / 1e6)
tie("so # kB of script mount them", (ROOT / "book/assets/explorers.js").stat().st_size / 1000)
tie("sends # moves to each control", bench_explorers.EVENTS)
tie("run # times slower than", bench_explorers.SLOWER)
tie("The budget is # ms, two frames", page_tables.BUDGET_MS)
tie(
    "an explorer: # of # moves",
    written("benchmarks/bench_explorers.py", r"for q in \(50, (\d+)\)"),
    written("benchmarks/bench_explorers.py", r"q / (\d+)\), 1"),
)
