"""Marks: each check of a notebook is one mark, at the sentence that it checks."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import found
import marked
import marks
import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx_exercise.nodes import solution_node
from sphinx_ext import FillSolutions

from lnlib.book.home import ROOT

PAGES = sorted((ROOT / "notebooks").glob("*.ipynb"))
EPSILON = "notebooks/02_epsilon.html"
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


@page
def test_no_open_cell_needs_a_name_of_a_folded_one(path: Path) -> None:
    assert list(marked.names_out_of_sight(marked.read(path))) == []


@page
def test_code_that_is_open_is_short(path: Path) -> None:
    notebook = marked.read(path)
    assert marked.open_lines(notebook) <= marked.MOST_OPEN_LINES
    assert marked.long_lines(notebook) == []


@page
def test_prose_can_be_read_in_one_sitting(path: Path) -> None:
    assert marked.words(marked.prose(marked.read(path))) <= marked.MOST_WORDS[path.stem]


def test_the_landing_page_says_how_long_a_chapter_takes() -> None:
    page = (ROOT / "book" / "index.md").read_text(encoding="utf8")
    said = re.findall(r"notebooks/(\d\d\w+)`: .+ \((\d+)\smin\)\n", page)
    assert [stem for stem, _ in said] == [path.stem for path in PAGES if path.stem[0].isdigit()]
    for stem, minutes in said:
        words = marked.words(marked.prose(marked.read(ROOT / "notebooks" / f"{stem}.ipynb")))
        assert int(minutes) == pytest.approx(words / marked.WORDS_A_MINUTE, abs=1), stem


def test_a_name_that_only_a_folded_check_defines_is_found() -> None:
    notebook = marked.read(ROOT / "notebooks" / "02_epsilon.ipynb")
    first = marked.marks(notebook)[0].cell
    at = next(i for i, cell in enumerate(notebook.cells) if cell.id == first)
    notebook.cells[at].source += "\nout_of_sight = 1"
    open_cell = copy.deepcopy(notebook.cells[at])
    open_cell.update(id="open-cell", source="print(out_of_sight)", outputs=[])
    notebook.cells.insert(at + 1, open_cell)
    (fault,) = marked.names_out_of_sight(notebook)
    assert fault == f"open-cell uses out_of_sight, which {first} defines out of sight"


def test_what_is_no_prose_is_not_counted() -> None:
    text = "# A title\n\nTwo words. ✓\n\n"
    aside = ":::{dropdown} Open\nnot counted\n:::\n\n```{math}\n:label: eq-a\na b c\n```\n\n"
    rest = "## Exercises\n\nnot counted\n\n## More\n\nthree more words\n\n[^a]: not counted\n"
    assert marked.words(text + aside + rest) == 8


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
    cells = [text("It holds. ✓\n\nThey are: ✓"), code("a", TWO), code("b", TWO)]
    blocks = "It holds. ✓", nodes.math_block("", "x"), "They are: ✓", nodes.table(), "a", "b"
    expected = ["paragraph", "math_block", "Fold", "paragraph", "table", "Fold"]
    assert shape(page_of(cells, *blocks)) == expected


def test_each_row_of_a_table_may_have_a_mark() -> None:
    cells = [text("| a ✓ |\n| b ✓ |"), code("a", TWO), code("b", TWO)]
    rows = nodes.table("", *(nodes.paragraph("", words) for words in ("a ✓", "b ✓")))
    assert shape(page_of(cells, rows, "a", "b")) == ["table", "Fold", "Fold"]


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("✓ one holds", "1 check: one holds"),
        ("✓ one holds (exactly)\n✓ two ⟨1 to 2⟩ (between 0 and 3)", "2 checks: two ⟨1 to 2⟩ (b"),
        ("✓ one ⟨5⟩ (above 3)\n✓ two ⟨1⟩ (above 0)\n✓ 3", "3 checks: one ⟨5⟩ (above 3)"),
    ],
)
def test_a_label_says_how_many_checks_there_are_and_what_the_first_has_found(
    printed: str, says: str
) -> None:
    assert marks.label(found.lines(printed)).startswith(says)


def test_what_is_code_or_of_an_exercise_has_no_mark() -> None:
    asked = [text("## Exercises\n\nWhat is `✓`?"), code("x", TWO), text("## Fine print")]
    cells = [text("It holds. ✓"), code("a", TWO), *asked]
    assert marks.pairs(cells) == [("a", "✓", "It holds. ✓")]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([text("It holds."), code("a", TWO)], "the cell 'a' checks, and no mark waits for it"),
        ([text("It holds. ✓"), code("a")], "no cell that checks follows this mark"),
        ([text("It holds. ✓\n\n## Next\n"), code("a", TWO)], "in its section: It holds"),
        ([code("a", TWO), text("It holds. ✓")], "no mark waits for it"),
    ],
)
def test_a_mark_without_a_check_and_a_check_without_a_mark_stop_the_build(
    cells: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(marks.MarkError, match=says):
        marks.pairs(cells)


def test_two_marks_in_one_paragraph_stop_the_build() -> None:
    cells = [text("One ✓ and two ✓"), code("a", TWO), code("b", TWO)]
    with pytest.raises(marks.MarkError, match="two marks in one paragraph: One"):
        page_of(cells, "One ✓ and two ✓", "a", "b")


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
    assert shown == [mark.cell for mark in marked.marks(marked.read(path))]
    assert sorted(folded) == sorted(shown)


# --- the page in a browser -----------------------------------------------------------------------


def test_a_click_opens_the_check_in_its_place_and_closes_it(reader: Any) -> None:
    someone = reader(viewport={"width": 1280, "height": 900}).open(EPSILON)
    mark = someone.locator(".ln-check-mark").nth(1)
    check = someone.locator("#" + str(mark.get_attribute("href"))[1:])
    mark.evaluate("mark => mark.scrollIntoView({ block: 'center', behavior: 'instant' })")
    block = mark.evaluate("mark => mark.closest('section > *').getBoundingClientRect().bottom")
    assert (mark.get_attribute("aria-expanded"), check.bounding_box()["height"]) == ("false", 0)
    mark.click()
    assert mark.get_attribute("aria-expanded") == "true"
    assert check.bounding_box()["height"] > 50
    top = mark.evaluate("mark => mark.closest('section > *').getBoundingClientRect().bottom")
    assert top == block  # what is read does not move
    mark.click()
    assert (mark.get_attribute("aria-expanded"), check.bounding_box()["height"]) == ("false", 0)


@pytest.mark.parametrize("key", ["Enter", " "])
def test_keys_open_a_check(reader: Any, key: str) -> None:
    page = reader().open(EPSILON)
    mark = page.get_by_role("button", name=re.compile("^✓ ")).first
    mark.focus()
    page.keyboard.press(key)
    assert mark.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") != "summary"


def test_a_finger_opens_a_check(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(EPSILON)
    mark = page.locator(".ln-check-mark").first
    mark.tap()
    assert mark.get_attribute("aria-expanded") == "true"
    assert page.locator(".ln-check-label").count() == 0


LABEL = ".ln-check-label"


def test_a_mark_is_a_tick_alone_with_room_for_a_finger_and_moves_nothing(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}).open(EPSILON)
    marks_there = page.locator(".ln-check-mark")
    shown = set(marks_there.all_inner_texts())
    assert "✓" in shown
    assert all(re.fullmatch(r"✓(\u00a0[\d.,e-]+)?", text) for text in shown)
    for mark in marks_there.all():
        style = mark.evaluate(
            "mark => { const s = getComputedStyle(mark);"
            " return [s.borderStyle, s.backgroundColor, s.backgroundImage, s.boxShadow]; }"
        )
        assert style == ["none", "rgba(0, 0, 0, 0)", "none", "none"]
        box = mark.bounding_box()
        assert min(box["width"], box["height"]) >= 24
    height = "document.querySelector('.bd-article').getBoundingClientRect().height"
    before = page.evaluate(height)
    page.add_style_tag(content="a.ln-check-mark { margin: 0 !important; padding: 0 !important; }")
    assert page.evaluate(height) == before


@pytest.mark.parametrize("name", [EPSILON, "notebooks/when_it_goes_wrong.html"])
def test_no_line_begins_with_a_mark(reader: Any, name: str) -> None:
    page = reader(viewport={"width": 1280, "height": 800}).open(name)
    begins = """marks => marks.filter(mark => {
        const { top, left, height } = mark.getBoundingClientRect(), middle = top + height / 2;
        const block = mark.closest('p, li, td'), words = document.createRange();
        words.setStart(block, 0);
        words.setEndBefore(mark);
        return ![...words.getClientRects()].some(box =>
            box.width > 8 && box.left < left + 3 && box.top < middle && box.bottom > middle);
    }).map(mark => mark.closest('p, li, td').textContent)"""
    for width in (1280, *range(320, 480, 8)):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator(".ln-check-mark").evaluate_all(begins) == [], width


def test_its_label_comes_with_a_mouse_and_with_a_key_and_goes(reader: Any) -> None:
    page = reader(viewport={"width": 1280, "height": 800}).open(EPSILON)
    mark = page.locator(".ln-check-mark").nth(1)
    assert page.locator(LABEL).count() == 0
    mark.hover()
    assert re.match(r"✓ \d+ checks?: \w", page.locator(LABEL).inner_text())
    page.keyboard.press("Escape")
    assert page.locator(LABEL).count() == 0
    mark.hover(position={"x": 12, "y": 12})
    page.locator("article h1").hover()
    assert page.locator(LABEL).count() == 0
    page.locator(".ln-check-mark").first.focus()
    page.keyboard.press("Tab")
    assert page.locator(LABEL).count() <= 1
    page.keyboard.press("Shift+Tab")
    label = page.locator(LABEL)
    assert label.inner_text() == page.evaluate("document.activeElement.ariaLabel")
    box, at = label.bounding_box(), page.locator(".ln-check-mark").first.bounding_box()
    assert box["y"] + box["height"] <= at["y"] + 1
    page.keyboard.press("Enter")
    assert label.count() == 0


def test_on_a_narrow_page_a_label_stays_in_it(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}).open(EPSILON)
    for mark in page.locator(".ln-check-mark").all():
        mark.hover()
        box = page.locator(LABEL).bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_check_that_opens_out_of_sight_is_scrolled_to(reader: Any) -> None:
    height = 300
    page = reader(viewport={"width": 1280, "height": height}, reduced_motion="reduce").open(EPSILON)
    mark = page.locator(".ln-check-mark").first
    mark.evaluate("mark => mark.scrollIntoView({ block: 'end' })")
    assert page.locator(".ln-check").first.bounding_box()["y"] > height - 10
    mark.evaluate("mark => mark.click()")
    box = page.locator(".ln-check[open]").bounding_box()
    assert 0 <= box["y"] < height - 40


def test_all_checks_of_a_page_open_and_close_at_once_and_of_no_other(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    count = page.locator(".ln-check").count()
    page.get_by_role("button", name=f"Open all {count} checks").click()
    assert page.locator(".ln-check[open]").count() == count
    page.get_by_role("button", name=f"Close all {count} checks").click()
    assert page.locator(".ln-check[open]").count() == 0
    page.get_by_role("button", name=f"Open all {count} checks").click()
    page = someone.open("notebooks/when_it_goes_wrong.html")
    count = page.locator(".ln-check").count()
    page.get_by_role("button", name=f"Open all {count} checks").wait_for()
    assert page.locator(".ln-check[open]").count() == 0
    page.locator(".ln-check-mark").first.click()
    page.get_by_role("button", name=f"Open all {count} checks").wait_for()


def test_an_address_opens_the_check_that_it_names(reader: Any) -> None:
    page = reader().open(EPSILON)
    name = page.locator(".ln-check").last.get_attribute("id")
    page.evaluate(f"location.hash = '{name}'")
    page.wait_for_function(f"document.getElementById('{name}').open")


def test_without_javascript_a_check_is_a_line_that_can_be_opened(reader: Any) -> None:
    page = reader(java_script_enabled=False).open(EPSILON)
    line = page.locator(".ln-check > summary").first
    assert line.bounding_box()["height"] > 10
    line.click()
    assert page.locator(".ln-check[open]").count() == 1


def test_on_paper_a_check_is_a_short_line(reader: Any) -> None:
    page = reader().open(EPSILON)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    heights = page.locator(".ln-check").evaluate_all(
        "all => all.map(one => [one.open, one.getBoundingClientRect().height])"
    )
    assert all(not is_open and 8 < height < 60 for is_open, height in heights)
