"""What every benchmark writes: a table whose rows say where and when they were measured."""

from __future__ import annotations

import csv
import datetime
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from records import commit

Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results"


def provenance() -> dict[str, str]:
    """Return the date, the machine, and the commit."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()}",
        "commit": commit(),
    }


def cpu_model() -> str:
    """Return the processor's name where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(name: str, rows: list[Row]) -> None:
    """Write ``rows`` to ``benchmarks/results/NAME.csv``."""
    RESULTS.mkdir(exist_ok=True)
    save(RESULTS / f"{name}.csv", rows)
    print(f"wrote benchmarks/results/{name}.csv")


def noted(rows: Iterable[Row], where: Callable[[], Row]) -> list[Row]:
    """Return rows with what ``where`` says as each is there; each is printed at once."""
    found = []
    for row in rows:
        found.append(row | where())
        print(*row.values(), sep="\t", flush=True)
    return found


def save(path: Path, rows: Sequence[Row], columns: Iterable[str] = ()) -> None:
    """Write a table; who is stopped here leaves the old one.

    Args:
        path: of its file.
        rows: one or more.
        columns: by default those of the first row.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("w", newline="", encoding="utf8") as file:
        writer = csv.DictWriter(file, list(columns or rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    unfinished.replace(path)
