"""What was measured of kernels on a GPU.

Rows are dicts of strings, as the table holds them. `COLUMNS` says what a benchmark of a kernel
records; a row that timed nothing says why in ``status`` and leaves the numbers empty.
"""

from __future__ import annotations

from lnlib.book.records import tables

__all__ = ["COLUMNS", "microseconds", "read_results", "shapes"]

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


def read_results() -> list[dict[str, str]]:
    """Return the rows of ``benchmarks/results/layer_norm.csv``, none if there is no such file."""
    return tables.rows_of(tables.RESULTS / "layer_norm.csv")


def microseconds(direction: str, rows: int, features: int) -> dict[str, float]:
    """Return the median time of each provider at a shape, in bfloat16 on an H200.

    Args:
        direction: "forward" or "backward".
        rows: of x.
        features: of x.
    """
    wanted = {"pass": direction, "dtype": "bfloat16", "device": "NVIDIA H200"}
    wanted |= {"rows": str(rows), "features": str(features)}
    return {
        row["provider"]: float(row["median_us"])
        for row in read_results()
        if wanted.items() <= row.items() and row["median_us"] and row["regime"] != "latency"
    }


def shapes(regime: str) -> list[tuple[int, int]]:
    """Return the rows and features that were timed in bfloat16, in a regime of `COLUMNS`."""
    found = {
        (int(row["rows"]), int(row["features"]))
        for row in read_results()
        if (row["regime"], row["dtype"]) == (regime, "bfloat16") and row["median_us"]
    }
    return sorted(found)
