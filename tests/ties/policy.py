"""The numbers of the page of policy, and what computes them."""

import re
import tomllib
import zlib
from collections.abc import Iterable
from pathlib import Path

from lnlib.book.home import ROOT
from lnlib.book.records import tables
from ties import Page

page = Page("policy")
tie, free = page.tie, page.free

# What it runs on

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
PINS = (ROOT / "requirements.txt").read_text(encoding="utf8")


def least(requirement: str) -> float:
    """Return the version behind ``>=``."""
    return float(re.findall(r">=(\d+\.\d+)", requirement)[0])


def pinned(package: str) -> float:
    return float(re.findall(rf"^{package}==(\d+\.\d+)", PINS, re.MULTILINE)[0])


PYTHON = least(PROJECT["requires-python"])
OTHERS = [float(c[-4:]) for c in PROJECT["classifiers"] if re.search(r":: 3\.\d\d$", c)][1:]
TORCH = least(PROJECT["dependencies"][0])
TRITON = least(PROJECT["optional-dependencies"]["triton"][0])

tie("| Python | # or newer | #: `make test` at", PYTHON, PYTHON)
tie("# to #: all pinned packages can be had", OTHERS[0], OTHERS[-1])
tie("on # and # all code compiles", OTHERS[0], OTHERS[1])
tie("| PyTorch | # or newer | #: as Python.", TORCH, pinned("torch"))
tie("as Python. # and the newest: without", TORCH)
tie("| Triton | # or #, on Linux", TRITON, pinned("triton"))
tie("PyTorch # has nothing for Intel", pinned("torch"))
FLAG = (ROOT / "lnlib/cpp_kernel/compile.py").read_text(encoding="utf8")
tie("any with C++# and OpenMP", lambda: int(re.findall(r"-std=c\+\+(\d+)", FLAG)[0]))
free("and OpenMP | #", "| macOS | #", why="the versions that were tried or are needed")
free("| x86-#; on #-bit", "can be had | x86-#;", "that every x86-# has", why="names")

# Without g++

SPEED = {
    (r["provider"], r["pass"], int(r["rows"]), int(r["features"])): r
    for r in tables.rows_of(tables.RESULTS / "speed_pinned.csv")
    if r["dtype"] == "float32"
}
FORWARD, BOTH = "forward", "forward and backward"
PROVIDERS = "lnlib", "lnlib, calls in C++", "lnlib reference"


def times(which: str, rows: int, features: int) -> Iterable[float]:
    """Return what a line of the table says: the shape, and for each the median and quartiles."""
    yield from (rows, features)
    for provider in PROVIDERS:
        row = SPEED[provider, which, rows, features]
        yield float(row["over_torch"])
        yield from map(float, row["quartiles"].split(" to "))


LINE = "| # × #, {} " + 3 * "| # (# to #) " + "| "
LINES = [
    (which, *shape) for shape in ((1, 768), (512, 257), (4096, 768)) for which in (FORWARD, BOTH)
]
tie(
    "---|---|---|---| " + 3 * (LINE.format("forward") + LINE.format("both passes")),
    *(n for line in LINES for n in times(*line)),
)
tie(
    "One row, forward, takes # ms with C++, # ms with calls in C++, and # ms without",
    *(float(SPEED[provider, FORWARD, 1, 768]["ms"]) for provider in PROVIDERS),
)
DAY = max(row["date"] for row in SPEED.values())
tie("The table is from #-#-#, on", *map(int, DAY.split("-")))
MODELS: dict[str, list[float]] = {}
for row in tables.rows_of(tables.RESULTS / "models.csv"):
    MODELS.setdefault(row["norms"], []).append(float(row["over_torch"]))
OURS, CALLS, PLAIN = (MODELS[name] for name in PROVIDERS)
tie("a training step takes # to # times as long with C++", min(OURS), max(OURS))
tie("with C++, # to # times with calls in C++", min(CALLS), max(CALLS))
tie("calls in C++, and # to # times without", min(PLAIN), max(PLAIN))
LSTM = {
    r["provider"]: r
    for r in tables.rows_of(tables.RESULTS / "lstm.csv")
    if (r["pass"], r["steps"], r["hidden_size"], r["batch"]) == (BOTH, "28", "128", "64")
}
tie(
    "The LSTM takes # times as long as `nn.LSTM` with C++ for digits read by rows "
    "(# sequences of # steps, # units, both passes), and # times without",
    float(LSTM["lnlib"]["over_lstm"]),
    *(int(LSTM["lnlib"][name]) for name in ("batch", "steps", "hidden_size")),
    float(LSTM["lnlib, backend reference"]["over_lstm"]),
)

# What a wheel holds

CHECKED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]["setuptools"][
    "package-data"
]["lnlib.book.shipped.notebooks"]


def megabytes(paths: Iterable[Path]) -> float:
    return sum(len(zlib.compress(path.read_bytes())) for path in paths if path.is_file()) / 1e6


def code(in_book: bool) -> list[Path]:
    kinds = {".py", ".cpp", ".h", ".mjs", ".css"}
    paths = [p for p in (ROOT / "lnlib").rglob("*") if p.suffix in kinds]
    return [p for p in paths if (ROOT / "lnlib/book" in p.parents) is in_book]


def read() -> list[Path]:
    read = [*(ROOT / "notebooks/data").iterdir(), *tables.RESULTS.glob("*.csv")]
    return [*read, *(p for each in CHECKED for p in (ROOT / "notebooks").glob(each))]


tie("the norm, its kernels, the LSTM | # MB", lambda: megabytes(code(in_book=False)))
tie("code of the chapters, `lnlib.book` | # MB", lambda: megabytes(code(in_book=True)))
tie("four notebooks whose equations are checked | # MB", lambda: megabytes(read()))
