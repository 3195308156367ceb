"""Every recorded table says which code made it, and is called old once that has changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lnlib.book.home import ROOT
from lnlib.book.records import registry, tables


def rows_of(table: str) -> list[dict[str, str]]:
    return tables.rows_of(tables.RESULTS / f"{table}.csv")


@pytest.mark.parametrize("table", registry.RECORDS)
def test_its_rows_are_of_the_present_code(table: str) -> None:
    """An older table is not wrong: it is what other code made, as it says."""
    if {row["code"] for row in rows_of(table)} - {registry.code(table)}:
        script = registry.RECORDS[table].script
        pytest.xfail(f"older code: python benchmarks/{script}.py makes the table again")


def test_every_table_is_known() -> None:
    known = {*registry.TABLES, *registry.KEPT}
    assert {path.stem for path in tables.RESULTS.glob("*.csv")} == known


@pytest.mark.parametrize("table", registry.RECORDS)
def test_its_script_says_so_and_each_row_has_a_digest(table: str) -> None:
    script = ROOT / "benchmarks" / f"{registry.RECORDS[table].script}.py"
    assert f'"{table}"' in script.read_text(encoding="utf8")
    assert all(re.fullmatch(r"[0-9a-f]{12}", row["code"]) for row in rows_of(table))


def test_a_table_without_a_record_is_an_error() -> None:
    with pytest.raises(KeyError, match="memories"):
        registry.code("memories")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the page says of a table that has these rows."""
    import page_tables  # here: Sphinx would slow down each process of a worker

    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(registry, "code", lambda table: "new")

    def line(table: str, *rows: dict[str, str]) -> list[str]:
        if rows:
            lines = [",".join(f'"{text}"' for text in row.values()) for row in rows]
            text = "\n".join([",".join(rows[0]), *lines])
            (tmp_path / f"{table}.csv").write_text(text, encoding="utf8")
        return page_tables.line(table)

    return line


WHERE = {"date": "2026-01-02", "machine": "abacus, Linux", "torch": "2.13.0"}
MEASURED = "2026-01-02, abacus, Linux, PyTorch 2.13.0"


def test_the_page_says_when_and_where_a_table_was_measured_and_by_which_code(shown: Any) -> None:
    new, old = {**WHERE, "code": "new"}, {**WHERE, "code": "old"}
    assert shown("speed", new, new) == ["speed", MEASURED, "present code"]
    assert shown("speed", old, old) == ["speed", MEASURED, "older code"]
    assert shown("speed", old, new) == ["speed", MEASURED, "present code and older"]
    assert shown("pages", WHERE) == ["pages", MEASURED, "the checkout of that day"]
    gpu = {"date": "2026-01-02", "device": "H200", "torch": "2.13.0", "code": "new"}
    assert shown("layer_norm", gpu)[1] == "2026-01-02, H200, PyTorch 2.13.0"


def test_the_page_says_that_a_table_has_no_rows_yet(shown: Any) -> None:
    assert shown("layer_norm") == ["layer_norm", "not yet", ""]


def test_the_page_on_benchmarks_has_it() -> None:
    page = (ROOT / "book" / "benchmarks.md").read_text(encoding="utf8")
    assert "```{record-table}\n```" in page
