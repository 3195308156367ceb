"""Marks: each check of a notebook is one mark, at the sentence that it checks, and folded away."""

from __future__ import annotations

import re
import symtable
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import found
import marks
import nbformat
import pytest
from docutils import nodes
from docutils.utils import new_document
from marks import FENCE, HEADING, MARK, python_of, walk
from sphinx_exercise.nodes import solution_node
from sphinx_ext import FillSolutions
from tidy import CHECK, OPEN

from conftest import TAKEN
from lnlib.book.home import ROOT

# The argument of the book, a kernel with all that a GPU said of it, and several chapters in one.
MOST_WORDS = defaultdict(
    lambda: 2500,
    {"01_formula": 3000, "07_triton_kernel": 3000}
    | dict.fromkeys(("09_which_norm", "10_where_it_stands", "11_claims"), 2800),
)
WORDS_A_MINUTE = 200
MOST_OPEN_LINES = 120
FINE_PRINT = ("Exercises", "Fine print", "Sources")
FOOTNOTE = re.compile(r"^\[\^[^\]]+\]:.*(?:\n(?!\n)[ \t]*\S.*)*$", re.MULTILINE)
PAGES = sorted((ROOT / "notebooks").glob("*.ipynb"))
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


# --- what a reader of the notebook meets ---------------------------------------------------------


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def checking(notebook: Any) -> set[str]:
    """Return the ids of the cells that check."""
    return {mark.cell for mark in marks.pairs(notebook.cells)}


def code_cells(notebook: Any) -> list[tuple[Any, bool]]:
    """Return the cells of code, and whether each is open: no check, no exercise, not folded."""
    checks = checking(notebook)
    return [
        (
            cell,
            not (of_exercise or cell.id in checks or "hide-input" in cell.metadata.get("tags", [])),
        )
        for cell, of_exercise in walk(notebook.cells)
        if cell.cell_type == "code"
    ]


def names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds, and those that it takes from other cells."""
    module = symtable.symtable(source, "a cell", "exec")
    bound = {each.get_name() for each in module.get_symbols() if each.is_assigned()}
    tables = [module]
    for table in tables:  # the list grows on the way
        tables += table.get_children()
    used = {
        each.get_name()
        for table in tables
        for each in table.get_symbols()
        if each.is_referenced() and (table is module or each.is_global())
    }
    return bound, used - bound


def names_out_of_sight(notebook: Any) -> Iterator[str]:
    """Say which open cells use a name that only a folded check has defined."""
    checks, in_sight, folded = checking(notebook), set[str](), dict[str, str]()
    for cell, is_open in code_cells(notebook):
        bound, used = names(python_of(cell.source))
        if cell.id in checks:
            folded |= dict.fromkeys(bound, cell.id)
            continue
        for name in sorted(used & folded.keys() - in_sight) if is_open else ():
            yield f"{cell.id} uses {name}, which {folded[name]} defines out of sight"
        in_sight |= bound


def words(text: str) -> int:
    """Count the words of prose: without code, equations, folds, footnotes and fine print.

    >>> words("# A title\\n\\nTwo words $x + y$.\\n\\n## Exercises\\n\\nnot counted")
    5
    """
    text = FENCE.sub("\n", FENCE.sub("\n", text))
    text = FOOTNOTE.sub("", MARK.sub("", re.sub(r"<!--.*?-->", "", text)))
    text = re.sub(r"^(?:\(\S+\)=|:[\w-]+:.*|\|[ :|-]+\|?)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", " x ", text, flags=re.DOTALL)
    linked = r"\{[\w:]+\}`[^`]*`|\[[^\]]*\]\((?!#explorer-)[\w./]*(?:\.ipynb|\.md|#)[^)]*\)"
    text = re.sub(rf"{linked}|\[([^\]]*)\]\([^)]*\)", r" \1 x ", text)
    places = [match.start() for match in HEADING.finditer(text)] + [len(text)]
    parts = [text[: places[0]], *(text[a:b] for a, b in pairwise(places))]
    kept, level = [], 0
    for part in parts:
        heading = re.match(r"(#+) +(.+)", part)
        depth = len(heading[1]) if heading else 0
        if heading and (not level or depth <= level):
            level = depth if heading[2].strip() in FINE_PRINT else 0
        if not level:
            kept.append(part)
    return len(re.findall(r"[^\W_][\w'’.,-]*", " ".join(kept)))


def words_of(path: Path) -> int:
    prose = (cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    return words("\n\n".join(prose))


@page
def test_code_that_is_open_is_short_and_needs_no_name_of_a_folded_cell(path: Path) -> None:
    notebook = read(path)
    assert list(names_out_of_sight(notebook)) == []
    lines = [
        line
        for cell, is_open in code_cells(notebook)
        if is_open
        for line in cell.source.split("\n")
    ]
    assert sum(bool(line.strip()) for line in lines) <= MOST_OPEN_LINES
    checks = checking(notebook)
    for cell, _ in code_cells(notebook):
        assert max(map(len, cell.source.split("\n"))) <= (CHECK if cell.id in checks else OPEN)


@page
def test_prose_can_be_read_in_one_sitting(path: Path) -> None:
    assert words_of(path) <= MOST_WORDS[path.stem]


def test_the_landing_page_says_how_long_a_chapter_takes() -> None:
    page = (ROOT / "book" / "index.md").read_text(encoding="utf8")
    said = re.findall(r"notebooks/(\d\d\w+)(?:`|\.ipynb\)): .+ \((\d+)\smin\)\n", page)
    due = {p.stem: words_of(p) / WORDS_A_MINUTE for p in PAGES if p.stem[0].isdigit()}
    form = "N. {doc}`../notebooks/%s`: what it is about (%.0f min)"
    wanted = "\n".join(form % line for line in due.items())
    assert [stem for stem, _ in said] == [*due], f"book/index.md has other chapters than\n{wanted}"
    for stem, minutes in said:
        assert int(minutes) == pytest.approx(due[stem], abs=1), form % (stem, due[stem])


# --- how a page is made --------------------------------------------------------------------------


def text(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source}


def code(id: str, printed: str = "") -> dict[str, Any]:
    outputs = [{"output_type": "stream", "text": printed}] if printed else []
    return {"cell_type": "code", "id": id, "source": "", "outputs": outputs}


TWO = "✓ it holds ⟨2.5⟩ (below 3)\n✓ so does this\n"


def page_of(cells: list[dict[str, Any]], *blocks: nodes.Node | str) -> nodes.document:
    """A page of blocks: a text is a paragraph, and the id of a cell of code stands for it."""
    document = new_document("a page")
    ids = [cell.get("id") for cell in cells]
    for block in blocks:
        if block in ids:
            made = nodes.container(nb_element="cell_code", cell_index=ids.index(block))
            printed = "".join(out["text"] for out in cells[ids.index(block)]["outputs"])
            made += [nodes.literal_block("", "the code"), nodes.literal_block("", printed)]
            document += made
        elif isinstance(block, str):
            document += nodes.paragraph("", block)
        else:
            document += block
    marks.place(document, cells)
    return document


def shape(document: nodes.document) -> list[str]:
    return [type(node).__name__ for node in document.children]


def test_a_check_is_folded_after_the_paragraph_of_its_mark() -> None:
    cells = [text("It holds. ✓\n\nMore prose."), code("a", TWO)]
    document = page_of(cells, "It holds. ✓", "More prose.", "a")
    assert shape(document) == ["paragraph", "Fold", "paragraph"]
    assert document[1]["summary"] == "✓ it holds, and 1 more"
    written = document[0].children[-1].astext()
    assert 'aria-label="✓ 2 checks: it holds ⟨2.5⟩ (below 3)">✓</a>' in written


def test_the_next_check_belongs_to_the_first_mark_that_waits() -> None:
    cells = [text("One. ✓ found\n\nTwo. ✓"), code("a", TWO), code("b"), code("c", TWO)]
    document = page_of(cells, "One. ✓ found", "Two. ✓", "a", "b", "c")
    assert shape(document) == ["paragraph", "Fold", "paragraph", "container", "Fold"]
    assert [node["name"] for node in document.findall(marks.Fold)] == ["a", "c"]
    assert "✓\u00a02.5</a>" in document[0].children[-1].astext()


def test_it_stays_after_an_equation_and_after_a_table_that_the_paragraph_introduces() -> None:
    cells = [text("It holds. ✓\n\nThey are: ✓\n\nSo it is. ✓"), *(code(n, TWO) for n in "abc")]
    blocks = ["It holds. ✓", nodes.math_block("", "x"), "They are: ✓", nodes.table()]
    blocks += ["So it is. ✓", nodes.table(), *"abc"]  # which this one does not introduce
    expected = ["paragraph", "math_block", "Fold", "paragraph", "table", "Fold"]
    assert shape(page_of(cells, *blocks)) == [*expected, "paragraph", "Fold", "table"]


def test_each_row_of_a_table_may_have_a_mark() -> None:
    cells = [text("| a ✓ |\n| b ✓ |"), code("a", TWO), code("b", TWO)]
    rows = nodes.table("", *(nodes.paragraph("", words) for words in ("a ✓", "b ✓")))
    assert shape(page_of(cells, rows, "a", "b")) == ["table", "Fold", "Fold"]


@pytest.mark.parametrize(("printed", "says"), [
    ("✓ one holds", "1 check: one holds"),
    ("✓ one holds (exactly)\n✓ two ⟨1 to 2⟩ (between 0 and 3)", "2 checks: two ⟨1 to 2⟩ (b"),
    ("✓ one ⟨5⟩ (above 3)\n✓ two ⟨1⟩ (above 0)\n✓ 3", "3 checks: one ⟨5⟩ (above 3)"),
])  # fmt: skip
def test_a_label_says_how_many_checks_there_are_and_what_the_first_has_found(
    printed: str, says: str
) -> None:
    assert marks.label(found.lines(printed)).startswith(says)


def test_what_is_code_or_of_an_exercise_has_no_mark() -> None:
    asked = [text("## Exercises\n\nWhat is `✓`?"), code("x", TWO), text("## Fine print")]
    cells = [text("It holds. ✓"), code("a", TWO), *asked]
    assert marks.pairs(cells) == [("a", "✓", "It holds. ✓")]


@pytest.mark.parametrize(("cells", "says"), [
    ([text("It holds."), code("a", TWO)], "the cell 'a' checks, and no mark waits for it"),
    ([text("It holds. ✓"), code("a")], "no cell that checks follows this mark"),
    ([text("It holds. ✓\n\n## Next\n"), code("a", TWO)], "in its section: It holds"),
    ([text("✓ and ✓"), code("a", TWO), code("b", TWO)], "two marks in one paragraph: ✓ and"),
])  # fmt: skip
def test_what_has_no_partner_stops_the_build(cells: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(marks.MarkError, match=says):
        page_of(cells, *(cell.get("id", cell["source"]) for cell in cells))


def test_the_code_that_follows_a_solution_is_in_its_fold() -> None:
    document, content = new_document("a page"), nodes.section()
    cells = [nodes.container(nb_element="cell_code") for _ in range(3)]
    document += [solution_node("", content), *cells[:2], nodes.paragraph(), cells[2]]
    FillSolutions(document).apply()
    assert shape(document) == ["solution_node", "paragraph", "container"]
    assert content.children == cells[:2]


@page
def test_the_built_page_shows_the_marks_of_its_source(site: Path, path: Path) -> None:
    body = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf8")
    shown = re.findall(r'class="ln-check-mark" href="#check-([^"]+)"', body)
    folded = re.findall(r'<details class="ln-check" id="check-([^"]+)">', body)
    assert shown == [mark.cell for mark in marks.pairs(read(path).cells)]
    assert sorted(folded) == sorted(shown)


# --- the page in a browser -----------------------------------------------------------------------

MARKS, LABEL = ".ln-check-mark", ".ln-check-label"
EPSILON = "notebooks/02_epsilon.html"
BOTTOM = "mark => mark.closest('section > *').getBoundingClientRect().bottom"


def test_a_mouse_opens_a_check_in_its_place_and_sees_its_label(reader: Any) -> None:
    page = reader(viewport={"width": 1280, "height": 900}).open(EPSILON)
    mark = page.locator(MARKS).nth(1)
    check = page.locator("#" + str(mark.get_attribute("href"))[1:])
    mark.evaluate("mark => mark.scrollIntoView({ block: 'center', behavior: 'instant' })")
    before = mark.evaluate(BOTTOM)
    for opened in (True, False):
        mark.click()
        assert mark.get_attribute("aria-expanded") == str(opened).lower()
        assert (check.bounding_box()["height"] > 50) == opened
        assert mark.evaluate(BOTTOM) == before  # what is read does not move
    assert mark.evaluate(TAKEN) == []
    page.locator("article h1").hover()
    mark.hover()
    assert re.match(r"✓ \d+ checks?: \w", page.locator(LABEL).inner_text())
    page.keyboard.press("Escape")
    assert page.locator(LABEL).count() == 0


@pytest.mark.parametrize("key", ["Enter", " "])
def test_keys_open_a_check_and_an_address_does(reader: Any, key: str) -> None:
    page = reader().open(EPSILON)
    mark = page.get_by_role("button", name=re.compile("^✓ ")).first
    mark.focus()
    label = page.locator(LABEL)
    assert label.inner_text() == page.evaluate("document.activeElement.ariaLabel")
    box = label.bounding_box()
    assert box["y"] + box["height"] <= mark.bounding_box()["y"] + 1
    page.keyboard.press(key)
    assert mark.get_attribute("aria-expanded") == "true"
    assert key == " " or label.count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") != "summary"
    name = page.locator(".ln-check").last.get_attribute("id")
    page.evaluate(f"location.hash = '{name}'")
    page.wait_for_function(f"document.getElementById('{name}').open")


def test_on_a_phone_a_mark_is_a_tick_with_room_for_a_finger_and_moves_nothing(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(EPSILON)
    there = page.locator(MARKS)
    there.first.tap()
    assert there.first.get_attribute("aria-expanded") == "true"
    assert page.locator(LABEL).count() == 0
    assert all(re.fullmatch(r"✓(\u00a0[\d.,e-]+)?", text) for text in there.all_inner_texts())
    for mark in there.all():
        box = mark.bounding_box()
        assert min(box["width"], box["height"]) >= 24
        mark.hover()
        box = page.locator(LABEL).bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    height = "document.querySelector('.bd-article').getBoundingClientRect().height"
    before = page.evaluate(height)
    page.add_style_tag(content="a.ln-check-mark { margin: 0 !important; padding: 0 !important; }")
    assert page.evaluate(height) == before


def test_all_checks_of_a_page_open_and_close_at_once_and_of_no_other(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    count = page.locator(".ln-check").count()
    for does, opened in (("Open", count), ("Close", 0), ("Open", count)):
        page.get_by_role("button", name=f"{does} all {count} checks").click()
        assert page.locator(".ln-check[open]").count() == opened
    page = someone.open("notebooks/when_it_goes_wrong.html")
    count = page.locator(".ln-check").count()
    page.get_by_role("button", name=f"Open all {count} checks").wait_for()
    assert page.locator(".ln-check[open]").count() == 0
    page.locator(MARKS).first.click()
    page.get_by_role("button", name=f"Open all {count} checks").wait_for()


def test_without_javascript_and_on_paper_a_check_is_a_line(reader: Any) -> None:
    page = reader(java_script_enabled=False).open(EPSILON)
    page.locator(".ln-check > summary").first.click()
    assert page.locator(".ln-check[open]").count() == 1
    page = reader().open(EPSILON)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    heights = page.locator(".ln-check").evaluate_all(
        "all => all.map(one => [one.open, one.getBoundingClientRect().height])"
    )
    assert all(not is_open and 8 < height < 60 for is_open, height in heights)
