"""The role `{number}`: what a page of `book` says of a table is what the table holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import ABSENT, number
from results_table import save
from sphinx.errors import ExtensionError

from lnlib.book.records import tables


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    rows = [("a", "float16", 5, 2.457), ("a", "float32", 50, 0.3949), ("a, b", "float32", 50, "")]
    heads = ("provider", "dtype", "rows", "over")
    save(tmp_path / "speed.csv", [dict(zip(heads, row, strict=True)) for row in rows])


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("speed over", "0.39 to 2.46"),
        ("speed over; most", "2.46"),
        ("speed over; least", "0.39"),
        ("speed over; rows >= 6", "0.39"),
        ("speed over; rows <= 5", "2.46"),
        ("speed over; rows >= 50", "0.39"),
        ("speed over; rows = 50; provider = a", "0.39"),
        ("speed over; dtype = float16 or float32", "0.39 to 2.46"),
        ("speed rows; provider = a, b", "50"),
        ("speed over; rows = 7", "(not measured here)"),
        ("lnlib.in_graph.WORTH_AN_OPERATOR", "131,072"),
    ],
)
def test_it_is_the_range_of_the_rows_that_are_asked_for(asked: str, said: str) -> None:
    assert number(asked) == said


@pytest.mark.parametrize(
    "asked",
    [
        "speed under",
        "slow over",
        "speed over; kind = a",
        "speed over; rows > 5",
        "speed provider",
        "lnlib.in_graph.NOTHING",
        "lnlib.nothing.MOST",
        "lnlib.in_graph.layer_norm",
    ],
)
def test_what_is_not_there_stops_the_build(asked: str) -> None:
    with pytest.raises(ExtensionError, match="number"):
        number(asked)


def test_no_page_asks_for_what_no_table_has(site: Path) -> None:
    assert not [p for p in site.glob("book/*.html") if ABSENT in p.read_text(encoding="utf8")]
