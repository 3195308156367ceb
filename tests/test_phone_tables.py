"""Tables on a phone: words in a fourth column go below the others, with the column's title."""

from __future__ import annotations

from typing import Any

import phone_tables
import pytest
from docutils import nodes
from docutils.utils import new_document
from phone_tables import LastColumnBelow, break_names


def entry(text: str) -> nodes.entry:
    return nodes.entry("", *([nodes.paragraph("", "", nodes.strong("", text))] if text else []))


def table(*rows: tuple[str, ...]) -> nodes.table:
    head, *body = (nodes.row("", *map(entry, row)) for row in rows)
    group = nodes.tgroup("", nodes.thead("", head), nodes.tbody("", *body), cols=len(rows[0]))
    return nodes.table("", group)


def after_it(made: nodes.table) -> nodes.table:
    document = new_document("a page")
    document += made
    transform = LastColumnBelow.__new__(LastColumnBelow)
    transform.document = document
    transform.run()
    return made


def labels(made: nodes.table) -> list[str]:
    return [one.astext() for one in made.findall(nodes.inline) if "ln-column" in one["classes"]]


WORDS = "add up, if the heads share their weights"


def test_words_go_below_and_each_has_the_title_in_front() -> None:
    made = after_it(table(("a", "b", "c", "d"), ("1", "2", "3", WORDS), ("1", "2", "3", "no")))
    assert made["classes"] == ["ln-last-below"]
    assert labels(made) == ["d", "d"]
    assert [row.children[-1].astext() for row in made.findall(nodes.row)] == [
        "d",
        f"d{WORDS}",
        "dno",
    ]
    title = next(made.findall(nodes.inline)).children[0]
    assert isinstance(title, nodes.strong)  # and mathematics stays mathematics


@pytest.mark.parametrize(
    "rows",
    [
        (("a", "b", "c", "× 5"), ("1", "2", "3", "21.7")),
        (("", "name", "shape", "below"), ("W", "x", "y", "p.norm_c_bias")),
        (("a", "b", "c"), ("1", "2", WORDS)),
        (("a", "b", "c", "d", "e"), ("1", "2", "3", "4", WORDS)),
    ],
)
def test_numbers_names_and_other_tables_stay_as_they_are(rows: Any) -> None:
    made = after_it(table(*rows))
    assert made["classes"] == []
    assert labels(made) == []


def test_an_empty_cell_gets_no_title() -> None:
    made = after_it(table(("a", "b", "c", "d"), ("1", "2", "3", WORDS), ("1", "2", "3", "")))
    assert len(labels(made)) == 1


def test_a_short_name_and_one_outside_a_table_are_left_alone() -> None:
    for text in (
        '<table><span class="pre">norm_first</span></table>',
        '<span class="pre">a_long_name</span>',
    ):
        assert break_names(text) == text
    assert phone_tables.PART.sub(r"\1|", "torch.nn.functional.layer_norm") == (
        "torch.nn.|functional.|layer_|norm"
    )
