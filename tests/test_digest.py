"""A digest is of what code does: it changes with that, and with nothing else."""

import pytest

from lnlib.book.digest import digest

PYTHON = ('"""One."""\nx = 1\n', '"""Two."""\n# why\nx = 1\n', "x = 2\n")
CPP = ("// One.\nint x = 1;\n", "int x\n    = 1;  // two\n", "int x = 2;\n")


@pytest.mark.parametrize(("name", "texts"), [("code.py", PYTHON), ("code.cpp", CPP)])
def test_it_changes_with_the_code_and_not_with_its_comments(name, texts, tmp_path):
    path = tmp_path / name
    digests = []
    for text in texts:
        path.write_text(text, encoding="utf8")
        digests.append(digest([path]))
    assert digests[0] == digests[1] != digests[2]


def test_it_changes_when_code_moves_to_another_file(tmp_path):
    here, there = tmp_path / "here.py", tmp_path / "there.py"
    for path in (here, there):
        path.write_text("x = 1\n", encoding="utf8")
    assert digest([here]) != digest([there])
