"""What a benchmark recorded, for a chapter to draw: the tables in benchmarks/results."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["recorded"]

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def recorded(name: str, **where: str) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of ``benchmarks/results/NAME.csv``, as floats where they are numbers.

    Args:
        name: of the table, without its ending.
        where: column=value, to keep only the rows that say so.

    Raises:
        FileNotFoundError: there is no such table; the wheel carries none.
        ValueError: a column or a value is not in the table.
    """
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path.name} in {path.parent}: run inside a checkout of the book, "
            f"where python benchmarks/bench_{name}.py writes it"
        )
    with path.open(newline="", encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    for column, value in where.items():
        known = sorted({row.get(column, "") for row in rows} - {""})
        rows = [row for row in rows if row.get(column) == value]
        if not rows:
            raise ValueError(f"no row of {path.name} has {column}={value!r}; known: {known}")
    return {column: _numbers([row[column] for row in rows]) for column in rows[0]}


def _numbers(values: list[str]) -> npt.NDArray[Any]:
    try:
        return np.array(values, dtype=float)
    except ValueError:
        return np.array(values)
