"""What was measured of kernels on a GPU: compared, judged by targets; or published.

Rows are dicts of strings, as the table holds them. `COLUMNS` says what a benchmark of a kernel
records; a row that timed nothing says why in ``status`` and leaves the numbers empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from lnlib.book.records import tables
from lnlib.triton_kernel import tiles

__all__ = [
    "COLUMNS",
    "Comparison",
    "Published",
    "Verdict",
    "comparisons",
    "launches",
    "microseconds",
    "published",
    "read_results",
    "shapes",
    "summary",
]

COLUMNS = (
    "provider",
    "pass",  # "forward" or "backward"
    "dtype",
    "rows",
    "features",
    "regime",  # "memory": 256 MB and more; "between"; "cache": stays there; "latency": few rows
    "median_us",
    "q1_us",  # quartiles of the rounds
    "q3_us",
    "bytes",  # what the pass must move
    "gb_per_s",
    "roof_fraction",  # of what PyTorch's copy of as many bytes reaches
    "error_ratio",  # RMS error over that of PyTorch in eager mode; backward, the largest of three
    "peak_bytes",  # allocated by the pass at most, results included
    "status",
    "device",
    "torch",
    "triton",
    "driver",
    "version",  # of the provider
    "date",
    "commit",  # by whose code
)
OURS, EAGER, COMPILED = "lnlib", "PyTorch", "torch.compile"
ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
SHAPES = 38  # the fewest for which a mean over shapes says something
MANY_ROWS = 16384
NUMBERS = {"forward": 2, "backward": 3}  # that a pass moves at least, for each element

Row = Mapping[str, str]


class Comparison(NamedTuple):
    """One pass over one shape: how long ours takes, and how much longer the others take."""

    row: Row
    over_eager: float | None  # above 1: ours is faster
    over_compiled: float | None

    @property
    def over_better(self) -> float | None:
        """Return the ratio to the faster of PyTorch's two; None unless both were timed."""
        if self.over_eager is None or self.over_compiled is None:
            return None
        return min(self.over_eager, self.over_compiled)

    @property
    def roof(self) -> float | None:
        """Return the fraction of the copy's speed."""
        return _number(self.row["roof_fraction"])

    @property
    def ceiling(self) -> float:
        """Return which fraction of the copy's speed the bytes allow if no cache keeps a row.

        A pass that reads a row again moves more than it must: `lnlib.triton_kernel.launch`.
        """
        H, itemsize = int(self.row["features"]), ITEMSIZE[self.row["dtype"]]
        statistics = max(4, itemsize)
        if self.row["pass"] == "forward":
            return 1.0 if tiles.forward(H, statistics) else 2 / 3
        tile = tiles.backward(H, statistics)
        return 1.0 if tile else 3 / 5

    @property
    def error(self) -> float | None:
        """Return the error over PyTorch's."""
        return _number(self.row["error_ratio"])

    @property
    def where(self) -> str:
        """Return pass, shape, type and regime in words."""
        row = self.row
        shape = f"{int(row['rows']):,} × {int(row['features']):,}"
        return f"{row['pass']}, {shape}, {row['dtype']}, {row['regime']}"


class Verdict(NamedTuple):
    """One target, and how far the results are from it."""

    what: str
    target: float
    measured: float | None  # None: not enough was measured to tell
    note: str
    at_most: bool = False

    @property
    def is_met(self) -> bool | None:
        """Tell whether the target is met; None if that was not measured."""
        if self.measured is None:
            return None
        return self.measured <= self.target if self.at_most else self.measured >= self.target

    def __str__(self) -> str:
        """Return the verdict as a line to print."""
        bound = f"{'at most' if self.at_most else 'at least'} {self.target:.3g}"
        if self.measured is None:
            return f"{self.what}: {bound} wanted; not judged: {self.note}"
        off = abs(self.measured / self.target - 1)
        verdict = f"{'met' if self.is_met else 'MISSED'} by {off:.1%}"
        return f"{self.what}: {self.measured:.3g}, {bound} wanted: {verdict} ({self.note})"


def read_results(path: Path | None = None) -> list[dict[str, str]]:
    """Return the rows of ``benchmarks/results/layer_norm.csv``, none if there is no such file."""
    return tables.rows_of(path or tables.RESULTS / "layer_norm.csv")


def comparisons(rows: Iterable[Row]) -> list[Comparison]:
    """Return one comparison for each pass and shape at which ours was timed, of one device."""
    times: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows:
        if row["median_us"]:
            key = tuple(row[name] for name in ("pass", "dtype", "rows", "features", "regime"))
            times.setdefault(key, {})[row["provider"]] = row
    return [
        Comparison(by[OURS], _over(by, EAGER), _over(by, COMPILED))
        for by in times.values()
        if OURS in by
    ]


def summary(rows: Iterable[Row]) -> list[Verdict]:
    """Judge results of one device and one kernel by the targets, which were set for an H200."""
    found = comparisons(rows)
    half = [c for c in found if c.row["dtype"] == "bfloat16"]
    large = [c for c in half if c.row["regime"] == "memory"]
    back = [c for c in large if c.row["pass"] == "backward"]
    many = [c for c in back if int(c.row["rows"]) >= MANY_ROWS and c.ceiling == 1]
    ahead = [c for c in large if c.row["pass"] == "forward"]
    return [
        _worst("share of what the bytes allow, forward, 256 MB and more", 0.9, ahead, _allowed),
        _worst("share of what the bytes allow, backward, 256 MB and more", 0.8, back, _allowed),
        _worst("PyTorch's time over ours, backward, 16,384 rows read once", 1.5, many, _eager),
        *(_mean_over_shapes(which, half) for which in ("forward", "backward")),
        _worst("PyTorch's time over ours, anywhere", 1 / 1.1, found, _eager),
        _worst("error over PyTorch's, anywhere", 1.05, found, lambda c: c.error, at_most=True),
    ]


def microseconds(
    direction: str, rows: int, features: int, regime: str | None = None
) -> dict[str, float]:
    """Return the median time of each provider at a shape, in bfloat16 on an H200.

    Args:
        direction: "forward" or "backward".
        rows: of x.
        features: of x.
        regime: "latency" for calls from Python; by default the GPU's own time.
    """
    wanted = {"pass": direction, "dtype": "bfloat16", "device": "NVIDIA H200"}
    wanted |= {"rows": str(rows), "features": str(features)}
    return {
        row["provider"]: float(row["median_us"])
        for row in read_results()
        if wanted.items() <= row.items()
        and row["median_us"]
        and (row["regime"] == "latency") == (regime == "latency")
    }


def shapes(regime: str) -> list[tuple[int, int]]:
    """Return the rows and features that were timed in bfloat16, in a regime of `COLUMNS`."""
    found = {
        (int(row["rows"]), int(row["features"]))
        for row in read_results()
        if (row["regime"], row["dtype"]) == (regime, "bfloat16") and row["median_us"]
    }
    return sorted(found)


def _number(text: str) -> float | None:
    return float(text) if text else None


def _over(by: Mapping[str, Row], other: str) -> float | None:
    if other not in by:
        return None
    return float(by[other]["median_us"]) / float(by[OURS]["median_us"])


def _allowed(c: Comparison) -> float | None:
    return None if c.roof is None else c.roof / c.ceiling


def _eager(c: Comparison) -> float | None:
    return c.over_eager


def _worst(
    what: str,
    target: float,
    among: Iterable[Comparison],
    value: Callable[[Comparison], float | None],
    at_most: bool = False,
) -> Verdict:
    """Judge by the worst value, as a target for every shape asks for; the note has the mean too."""
    pairs = [(number, c) for c in among if (number := value(c)) is not None]
    if not pairs:
        return Verdict(what, target, None, "nothing was measured", at_most)
    numbers = [number for number, _ in pairs]
    worst = max(numbers) if at_most else min(numbers)
    where = next(c.where for number, c in pairs if number == worst)
    mean = "" if min(numbers) <= 0 else f"; geometric mean {_geometric_mean(numbers):.3g}"
    return Verdict(what, target, worst, f"worst of {len(pairs)}: {where}{mean}", at_most)


def _mean_over_shapes(which: str, among: Iterable[Comparison]) -> Verdict:
    what = f"the better of PyTorch's two over ours, {which}, geometric mean"
    kept = [c for c in among if c.row["pass"] == which and c.row["regime"] != "latency"]
    ratios = [c.over_better for c in kept if c.over_better is not None]
    if len(ratios) < SHAPES:
        return Verdict(what, 1.3, None, f"{len(ratios)} shapes, and {SHAPES} are needed")
    return Verdict(what, 1.3, _geometric_mean(ratios), f"over {len(ratios)} shapes")


def _geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


class Published(NamedTuple):
    """A time that other people measured and published, beside the least that the bytes take."""

    kernel: str
    chip: str
    dtype: str
    rows: int
    features: int
    bytes: int  # the least that a pass moves, whatever this kernel moves
    share: float  # of the roof: the least time of these bytes over the time it took
    microseconds: float
    source: str


def published(direction: str, roofs: Mapping[str, float]) -> list[Published]:
    """Return what ``benchmarks/results/published.csv`` has of one direction.

    Args:
        direction: "forward", which moves two numbers an element, or "backward", which moves three.
        roofs: chip -> bytes a second that a copy moves there.
    """
    found = []
    for row in tables.rows_of(tables.RESULTS / "published.csv"):
        if row["pass"] == direction:
            B, H, microseconds = int(row["rows"]), int(row["features"]), float(row["us"])
            least = NUMBERS[direction] * B * H * ITEMSIZE[row["dtype"]]
            share = least / roofs[row["chip"]] / (1e-6 * microseconds)
            names = row["kernel"], row["chip"], row["dtype"]
            found.append(Published(*names, B, H, least, share, microseconds, row["source"]))
    return found


def launches(table: str, direction: str, rows: int, features: int) -> list[Row]:
    """Return what the compiler makes of each launch of a pass, in bfloat16 on an H200.

    Args:
        table: "compiled", or "compiled_before" for the launches as they were at first.
        direction: "forward" or "backward".
        rows: of x.
        features: of x.
    """
    wanted = {"chip": "H200", "pass": direction, "dtype": "bfloat16"}
    wanted |= {"rows": str(rows), "features": str(features)}
    found = tables.rows_of(tables.RESULTS / f"{table}.csv")
    return [row for row in found if wanted.items() <= row.items()]
