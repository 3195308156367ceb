"""What every benchmark writes: a table whose rows say where and when they were measured."""

from __future__ import annotations

import csv
import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lnlib.book import records

RESULTS = Path(__file__).parent / "results"


def provenance(table: str = "") -> dict[str, str]:
    """Return the date and the machine, and the digest of the code that makes a table."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()}",
        **({"code": records.code(table)} if table else {}),
    }


def cpu_model() -> str:
    """Return the processor's name where Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Write ``rows`` to ``benchmarks/results/NAME.csv``."""
    RESULTS.mkdir(exist_ok=True)
    save(RESULTS / f"{name}.csv", rows)
    print(f"wrote benchmarks/results/{name}.csv")


def save(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table; who is stopped here leaves the old one."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("w", newline="", encoding="utf8") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    unfinished.replace(path)
