"""A table keeps the rows of what was not done again, and is never half written."""

import pytest
import sweeping

from lnlib.book.records.tables import rows_of

ORDER = ("curves", "rates")


def rows(experiment, value):
    return [{"experiment": experiment, "value": value}]


def test_rows_of_experiments_that_were_not_done_again_stay(tmp_path):
    path = tmp_path / "t.csv"
    sweeping.write(path, rows("rates", "old") + rows("curves", "old"), set(ORDER), ORDER)
    assert rows_of(path) == rows("curves", "old") + rows("rates", "old")
    sweeping.write(path, rows("rates", "new"), {"rates"}, ORDER)
    assert rows_of(path) == rows("curves", "old") + rows("rates", "new")
    sweeping.write(path, [], {"curves"}, ORDER)
    assert rows_of(path) == rows("rates", "new")


def test_without_rows_there_is_no_table(tmp_path):
    sweeping.write(tmp_path / "t.csv", [], {"rates"}, ORDER)
    assert not list(tmp_path.iterdir())


def test_a_row_that_cannot_be_written_leaves_the_table_as_it_was(tmp_path):
    path = tmp_path / "t.csv"
    sweeping.write(path, rows("rates", "old"), {"rates"}, ORDER)
    odd = [{"experiment": "curves", "value": 1, "more": 2}]
    with pytest.raises(ValueError, match="not in fieldnames"):
        sweeping.write(path, rows("curves", "new") + odd, {"curves"}, ORDER)
    assert rows_of(path) == rows("rates", "old")


def test_text_with_line_ends_comes_back_as_it_was(tmp_path):
    path = tmp_path / "t.csv"
    text = 'She had\n\n"always", he said,\n'
    sweeping.write(path, rows("rates", text), {"rates"}, ORDER)
    assert rows_of(path) == rows("rates", text)
