"""A chapter reads what a benchmark wrote, and is told what to run where nothing is."""

import pytest

from lnlib.book.records import tables as module
from lnlib.book.records.tables import recorded


@pytest.fixture(autouse=True)
def table(tmp_path, monkeypatch):
    text = 'setting,step,loss\n"γ = 1, β = 0",0,2.5\n"γ = 1, β = 0",10,1e-1\nγ = 0,0,2.3\n'
    (tmp_path / "toy.csv").write_text(text, encoding="utf8")
    monkeypatch.setattr(module, "RESULTS", tmp_path)


def test_columns_are_numbers_where_they_can_be_and_rows_are_chosen_by_what_they_say():
    columns = recorded("toy")
    assert list(columns) == ["setting", "step", "loss"]
    assert columns["loss"].tolist() == [2.5, 0.1, 2.3]
    assert columns["setting"].dtype.kind == "U"
    assert recorded("toy", setting="γ = 1, β = 0")["step"].tolist() == [0, 10]
    assert recorded("toy", setting="γ = 1, β = 0", step="0")["loss"].tolist() == [2.5]


@pytest.mark.parametrize("where", [{"setting": "γ = 2"}, {"settings": "γ = 0"}])
def test_what_is_not_there_is_refused(where):
    with pytest.raises(FileNotFoundError, match=r"no other\.csv in .*benchmarks write it"):
        recorded("other")
    with pytest.raises(ValueError, match=r"no row of toy\.csv has settings?="):
        recorded("toy", **where)
