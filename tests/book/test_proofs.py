"""The file of checks: every line that a check printed, with its place and its equation."""

from __future__ import annotations

import json

import found
import nbformat
import proofs

from lnlib.book.home import ROOT

PAGES = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))


def notebook(*cells: tuple[str, str]) -> nbformat.NotebookNode:
    """Return a notebook of headings (with no code) and of cells with what they printed."""
    made = []
    for source, printed in cells:
        if source.startswith(("#", "`")):
            made.append(nbformat.v4.new_markdown_cell(source))
            continue
        output = nbformat.v4.new_output("stream", name="stdout", text=printed)
        made.append(nbformat.v4.new_code_cell(source, outputs=[output], id=f"cell-{len(made)}"))
    return nbformat.v4.new_notebook(cells=made)


def test_a_check_has_its_place_its_claim_its_value_and_its_bound():
    page = notebook(
        ("# A chapter\n\n## One section\n\nIt is: ✓\n\n```{math}\n:label: eq-dx\n```", ""),
        ('check("dx agrees", gap, below=1e-10)', "✓ dx agrees ⟨3.1e-13⟩ (below 1e-10)\n"),
    )
    assert proofs.proofs("a_page", page) == [
        {
            "page": "a_page",
            "section": "One section",
            "cell": "cell-1",
            "claim": "dx agrees",
            "equation": "eq-dx",
            "found": [3.1e-13],
            "bound": "below 1e-10",
        }
    ]


def test_what_is_true_has_no_digits_and_what_is_printed_besides_is_no_check():
    page = notebook(("#\n\n✓", ""), ('print(7)\ncheck("it is", True)', "7\n✓ it is\n"))
    (only,) = proofs.proofs("a_page", page)
    assert (only["claim"], only["found"], only["bound"]) == ("it is", [], "true")


def test_a_check_has_the_equation_that_it_reads_or_that_its_paragraph_introduces_or_mentions():
    line = "✓ it is (exactly)"
    page = notebook(
        ("# One\n\nIt is: ✓\n\n```{math}\n:label: eq-a\n```\n\nBy {eq}`(1) <eq-b>` it is. ✓", ""),
        ('check("it is", 1, equals=1)', line),
        ('check("it is", 1, equals=1)', line),
        ("# It reads ✓\n\nThat is all. ✓\n\n```python\n# no heading\n```", ""),
        ('page.check("it reads", "eq-c", batch)\ncheck("it is", 1)', f"✓ it reads\n{line}"),
        ("tell()  # a function of the cell before", line),
    )
    said = [proof["equation"] for proof in proofs.proofs("a_page", page)]
    assert said == ["eq-a", "eq-b", "eq-c", "eq-c", None]


def test_the_build_has_written_every_line_of_every_page(site):
    listed = json.loads((site / proofs.FILE).read_text(encoding="utf8"))
    assert len(listed) > 900
    assert all(proof["section"] for proof in listed)
    for page in PAGES:
        cells = nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4).cells
        claims = [line.claim for cell in cells for line in found.printed(cell)]
        assert [proof["claim"] for proof in listed if proof["page"] == page] == claims
