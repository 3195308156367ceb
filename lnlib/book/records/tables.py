"""What a benchmark recorded, for a chapter to draw: the tables in benchmarks/results."""

from __future__ import annotations

import csv
import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lnlib.book.home import HOME

__all__ = ["recorded", "rows_of"]

RESULTS = HOME / "benchmarks" / "results"


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table as it holds them, none if nothing has written it yet."""
    return _read(path)[1] if path.is_file() else []


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows, which the caller may change."""
    file = path.stat()
    columns, rows = _parsed(path, (file.st_ino, file.st_size, file.st_mtime_ns))
    return [*columns], [*map(dict, rows)]


@functools.lru_cache
def _parsed(path: Path, _: tuple[int, ...]) -> tuple[list[str], list[dict[str, str]]]:
    # A chapter that asks for one verdict reads the tables of all of them many times.
    with path.open(newline="", encoding="utf8") as file:
        reader = csv.DictReader(file)
        return list(reader.fieldnames or ()), list(reader)


def recorded(name: str, **where: str) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of ``benchmarks/results/NAME.csv``, as floats where they are numbers.

    Of a table that nobody could fill yet, the columns are there and have no values.

    Args:
        name: of the table, without its ending.
        where: column=value, to keep only the rows that say so.

    Raises:
        FileNotFoundError: there is no such table.
        ValueError: a column or a value is not in the table.
    """
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path.name} in {path.parent}, where the book's benchmarks write it"
        )
    columns, rows = _read(path)
    for column, value in where.items():
        known = sorted({row.get(column, "") for row in rows} - {""})
        rows = [row for row in rows if row.get(column) == value]
        if not rows:
            raise ValueError(f"no row of {path.name} has {column}={value!r}; known: {known}")
    return {column: _numbers([row[column] for row in rows]) for column in columns}


def _numbers(values: list[str]) -> npt.NDArray[Any]:
    try:
        return np.array(values, dtype=float)
    except ValueError:
        return np.array(values)
