"""Proof marks: each check of a notebook is one mark, at the sentence that it proves."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import marked
import marks
import pytest
from docutils import nodes
from docutils.utils import new_document
from sphinx.errors import ExtensionError

from lnlib.book.home import ROOT

PAGES = sorted((ROOT / "notebooks").glob("*.ipynb"))
EPSILON = "notebooks/02_epsilon.html"
page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


@page
def test_each_check_has_one_mark_at_its_claim(path: Path) -> None:
    assert list(marked.faults(marked.read(path))) == []


@page
def test_code_that_is_open_is_short(path: Path) -> None:
    notebook = marked.read(path)
    assert marked.open_lines(notebook) <= marked.MOST_OPEN_LINES
    assert marked.long_lines(notebook) == []


@page
def test_prose_can_be_read_in_one_sitting(path: Path) -> None:
    assert marked.words(marked.prose(marked.read(path))) <= marked.MOST_WORDS


def rewritten(pattern: str, by: str) -> Any:
    """Return a slip: it replaces the first place in the prose where a pattern is found."""

    def slip(notebook: Any) -> None:
        prose = (c for c in notebook.cells if c.cell_type == "markdown")
        cell = next(c for c in prose if re.search(pattern, c.source))
        cell.source = re.sub(pattern, by, cell.source, count=1)

    return slip


def use_what_is_folded(notebook: Any) -> None:
    first = marked.marks(notebook)[0].cell
    at = next(i for i, cell in enumerate(notebook.cells) if cell.id == first)
    notebook.cells[at].source += "\nout_of_sight = 1"
    open_cell = copy.deepcopy(notebook.cells[at])
    open_cell.update(id="open-cell", source="print(out_of_sight)", outputs=[])
    notebook.cells.insert(at + 1, open_cell)


ANY = marks.MARK.pattern.replace("(?P<cell>", "(?:").replace("(?P<shows>", "(?:")
SLIPS = {
    "has 0 marks": rewritten(ANY, "."),
    "has 2 marks": rewritten(f"({ANY})", r"\1 \1"),
    "names no cell": rewritten(r"#cell-id=", "#cell-id=not-"),
    "does not print": rewritten(r'(#cell-id=\S+ ")', r"\1not "),
    "are marks": rewritten(r'(#cell-id=\S+) "[^"]*"', r"\1"),
    "in another section": rewritten(f"({ANY})", r"\1\n\n## A heading\n"),
    "out of sight": use_what_is_folded,
}


@pytest.mark.parametrize("fault", SLIPS)
def test_a_slip_in_the_marks_of_a_page_is_found(fault: str) -> None:
    notebook = marked.read(ROOT / "notebooks" / "02_epsilon.ipynb")
    assert list(marked.faults(notebook)) == []
    SLIPS[fault](notebook)
    assert any(fault in each for each in marked.faults(notebook))


def test_what_is_no_prose_is_not_counted() -> None:
    text = '# A title\n\nTwo words. [✓](#cell-id=a "no words at all")\n\n'
    aside = ":::{dropdown} Open\nnot counted\n:::\n\n```{math}\n:label: eq-a\na b c\n```\n\n"
    rest = "## Exercises\n\nnot counted\n\n## More\n\nthree more words\n\n[^a]: not counted\n"
    assert marked.words(text + aside + rest) == 8


# --- how a page is made --------------------------------------------------------------------------


def paragraph(document: nodes.document, cell: str, claim: str, shows: str = "✓") -> nodes.paragraph:
    link = nodes.reference("", shows, refuri=f"#cell-id={cell}", reftitle=claim, id_link=True)
    made = nodes.paragraph("", "", nodes.Text("It holds. "), link)
    document += made
    return made


def code(document: nodes.document, index: int, printed: str = "") -> nodes.container:
    made = nodes.container(nb_element="cell_code", cell_index=index)
    made += nodes.literal_block("", "the code")
    made += nodes.literal_block("", printed)
    document += made
    return made


def shape(document: nodes.document) -> list[str]:
    return [type(node).__name__ for node in document.children]


TWO = "✓ it holds ⟨2.5⟩ (below 3)\n✓ so does this\n"


def test_a_check_is_folded_behind_the_paragraph_of_its_mark() -> None:
    document = new_document("a page")
    paragraph(document, "a", "it holds")
    document += nodes.paragraph("", "More prose.")
    code(document, 0, TWO)
    marks.place(document, ["a"])
    assert shape(document) == ["paragraph", "Proof", "paragraph"]
    assert document[1]["summary"] == "✓ it holds, and 1 more"
    assert "✓ 2 checks</a>" in document[0].children[-1].astext()


def test_it_stays_behind_an_equation_and_behind_open_code_between() -> None:
    document = new_document("a page")
    paragraph(document, "a", "it holds")
    document += nodes.math_block("", "x")
    code(document, 0, TWO)
    paragraph(document, "c", "it holds", "✓ found")
    code(document, 1)
    code(document, 2, TWO)
    marks.place(document, ["a", "b", "c"])
    assert shape(document) == [
        "paragraph",
        "math_block",
        "Proof",
        "paragraph",
        "container",
        "Proof",
    ]
    assert "✓ 2.5</a>" in document[3].children[-1].astext()


def test_it_stays_behind_a_table_that_the_paragraph_introduces() -> None:
    document = new_document("a page")
    paragraph(document, "a", "it holds").children[0].parent[0] = nodes.Text("They are: ")
    document += nodes.table()
    code(document, 0, TWO)
    marks.place(document, ["a"])
    assert shape(document) == ["paragraph", "table", "Proof"]


def test_proofs_of_one_paragraph_stand_in_the_order_of_its_marks() -> None:
    document = new_document("a page")
    first = paragraph(document, "c", "it holds")
    first += nodes.reference("", "✓", refuri="#cell-id=b", reftitle="it holds", id_link=True)
    for index, printed in enumerate(("", TWO, TWO)):
        code(document, index, printed)
    marks.place(document, ["a", "b", "c"])
    assert shape(document) == ["paragraph", "container", "Proof", "Proof"]
    assert [proof["name"] for proof in document[2:]] == ["c", "b"]


@pytest.mark.parametrize(
    ("cell", "claim"), [("b", "it holds"), ("a", "it does not"), ("a", ""), ("c", "it holds")]
)
def test_a_mark_that_names_no_check_stops_the_build(cell: str, claim: str) -> None:
    for name, said in (("a", "it holds"), (cell, claim)):
        document = new_document("a page")
        paragraph(document, name, said)
        code(document, 0, TWO)
        if (name, said) == ("a", "it holds"):
            marks.place(document, ["a"])
            continue
        with pytest.raises(ExtensionError, match="a mark names the cell"):
            marks.place(document, ["a"])


def test_two_marks_for_one_check_stop_the_build() -> None:
    document = new_document("a page")
    paragraph(document, "a", "it holds")
    paragraph(document, "a", "it holds")
    code(document, 0, TWO)
    with pytest.raises(ExtensionError, match="has one mark"):
        marks.place(document, ["a"])


def test_a_mark_behind_its_check_stops_the_build() -> None:
    document = new_document("a page")
    code(document, 0, TWO)
    paragraph(document, "a", "it holds")
    with pytest.raises(ExtensionError, match="behind it"):
        marks.place(document, ["a"])


@page
def test_the_built_page_shows_the_marks_of_its_source(site: Path, path: Path) -> None:
    body = (site / "notebooks" / f"{path.stem}.html").read_text(encoding="utf8")
    shown = re.findall(r'class="ln-proof-mark" href="#proof-([^"]+)"', body)
    folded = re.findall(r'<details class="ln-proof" id="proof-([^"]+)">', body)
    assert shown == [mark.cell for mark in marked.marks(marked.read(path))]
    assert sorted(folded) == sorted(shown)


def test_every_mark_names_a_claim_of_the_file_of_proofs(site: Path) -> None:
    listed = json.loads((site / "proofs.json").read_text(encoding="utf8"))
    proved = {(proof["page"], proof["cell"], proof["claim"]) for proof in listed}
    named = {
        (path.stem, mark.cell, mark.claim)
        for path in PAGES
        for mark in marked.marks(marked.read(path))
    }
    assert len(named) > 300
    assert named <= proved


# --- the page in a browser -----------------------------------------------------------------------


def test_a_click_opens_the_proof_in_its_place_and_closes_it(reader: Any) -> None:
    someone = reader().open(EPSILON)
    mark = someone.locator(".ln-proof-mark").nth(1)
    proof = someone.locator("#" + str(mark.get_attribute("href"))[1:])
    mark.scroll_into_view_if_needed()
    block = mark.evaluate("mark => mark.closest('section > *').getBoundingClientRect().bottom")
    assert (mark.get_attribute("aria-expanded"), proof.bounding_box()["height"]) == ("false", 0)
    mark.click()
    assert mark.get_attribute("aria-expanded") == "true"
    assert proof.bounding_box()["height"] > 50
    top = mark.evaluate("mark => mark.closest('section > *').getBoundingClientRect().bottom")
    assert top == block  # what is read does not move
    mark.click()
    assert (mark.get_attribute("aria-expanded"), proof.bounding_box()["height"]) == ("false", 0)


@pytest.mark.parametrize("key", ["Enter", " "])
def test_keys_open_a_proof(reader: Any, key: str) -> None:
    page = reader().open(EPSILON)
    mark = page.get_by_role("button", name=re.compile("^✓ ")).first
    mark.focus()
    page.keyboard.press(key)
    assert mark.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.localName") != "summary"


def test_a_finger_opens_a_proof(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(EPSILON)
    mark = page.locator(".ln-proof-mark").first
    mark.tap()
    assert mark.get_attribute("aria-expanded") == "true"


def test_a_proof_that_opens_out_of_sight_is_scrolled_to(reader: Any) -> None:
    height = 300
    page = reader(viewport={"width": 1280, "height": height}, reduced_motion="reduce").open(EPSILON)
    mark = page.locator(".ln-proof-mark").first
    mark.evaluate("mark => mark.scrollIntoView({ block: 'end' })")
    assert page.locator(".ln-proof").first.bounding_box()["y"] > height - 10
    mark.evaluate("mark => mark.click()")
    box = page.locator(".ln-proof[open]").bounding_box()
    assert 0 <= box["y"] < height - 40


def test_all_proofs_open_at_once_and_this_is_remembered(reader: Any) -> None:
    someone = reader()
    page = someone.open(EPSILON)
    count = page.locator(".ln-proof").count()
    page.get_by_role("button", name=f"Open all {count} proofs").click()
    assert page.locator(".ln-proof[open]").count() == count
    page.reload()
    assert page.locator(".ln-proof[open]").count() == count
    page.get_by_role("button", name=f"Close all {count} proofs").click()
    page.reload()
    assert page.locator(".ln-proof[open]").count() == 0
    page.locator(".ln-proof-mark").first.click()
    page.get_by_role("button", name=f"Open all {count} proofs").wait_for()


def test_an_address_opens_the_proof_that_it_names(reader: Any) -> None:
    page = reader().open(EPSILON)
    name = page.locator(".ln-proof").last.get_attribute("id")
    page.evaluate(f"location.hash = '{name}'")
    page.wait_for_function(f"document.getElementById('{name}').open")


def test_without_javascript_a_proof_is_a_line_that_can_be_opened(reader: Any) -> None:
    page = reader(java_script_enabled=False).open(EPSILON)
    line = page.locator(".ln-proof > summary").first
    assert line.bounding_box()["height"] > 10
    line.click()
    assert page.locator(".ln-proof[open]").count() == 1


def test_on_paper_a_proof_is_a_short_line(reader: Any) -> None:
    page = reader().open(EPSILON)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    heights = page.locator(".ln-proof").evaluate_all(
        "all => all.map(one => [one.open, one.getBoundingClientRect().height])"
    )
    assert all(not is_open and 8 < height < 60 for is_open, height in heights)
