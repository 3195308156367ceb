"""A chapter reads what a benchmark wrote, and is told what to run where nothing is."""

import numpy as np
import pytest

from lnlib.book.records import tables as module
from lnlib.book.records.tables import recorded


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    text = 'setting,step,loss\n"γ = 1, β = 0",0,2.5\n"γ = 1, β = 0",10,1e-1\nγ = 0,0,2.3\n'
    (tmp_path / "toy.csv").write_text(text, encoding="utf8")
    monkeypatch.setattr(module, "RESULTS", tmp_path)


def test_columns_are_numbers_where_they_can_be():
    columns = recorded("toy")
    assert list(columns) == ["setting", "step", "loss"]
    assert columns["loss"].tolist() == [2.5, 0.1, 2.3]
    assert columns["setting"].dtype.kind == "U"


def test_rows_are_chosen_by_what_a_column_says():
    columns = recorded("toy", setting="γ = 1, β = 0")
    np.testing.assert_array_equal(columns["step"], [0, 10])
    assert recorded("toy", setting="γ = 0", step="0")["loss"].tolist() == [2.3]


def test_a_table_that_is_not_there_says_what_would_write_it():
    with pytest.raises(FileNotFoundError, match=r"no other\.csv in .*benchmarks write it"):
        recorded("other")


@pytest.mark.parametrize("where", [{"setting": "γ = 2"}, {"settings": "γ = 0"}])
def test_what_no_row_says_is_refused(where):
    with pytest.raises(ValueError, match=r"no row of toy\.csv has settings?="):
        recorded("toy", **where)
