"""The file of proofs: every line that a check printed, with its place and its equation."""

from __future__ import annotations

import json

import found
import nbformat
import proofs
import pytest

from lnlib.book.equations import latex
from lnlib.book.home import ROOT

PAGES = sorted(path.stem for path in ROOT.glob("notebooks/*.ipynb"))


def notebook(*cells: tuple[str, str]) -> nbformat.NotebookNode:
    """Return a notebook of headings (with no code) and of cells with what they printed."""
    made = []
    for source, printed in cells:
        if source.startswith("#"):
            made.append(nbformat.v4.new_markdown_cell(source))
            continue
        output = nbformat.v4.new_output("stream", name="stdout", text=printed)
        made.append(nbformat.v4.new_code_cell(source, outputs=[output], id=f"cell-{len(made)}"))
    return nbformat.v4.new_notebook(cells=made)


def test_a_proof_has_its_place_its_claim_its_value_and_its_bound():
    page = notebook(
        ("# A chapter\n\n## One section", ""),
        (
            'check("dx agrees", gap, below=1e-10, eq="eq-dx")',
            "✓ dx agrees ⟨3.1e-13⟩ (below 1e-10)\n",
        ),
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


def test_what_is_true_has_no_digits_and_what_is_printed_besides_is_no_proof():
    page = notebook(('print(7)\ncheck("it is", True)', "7\n✓ it is\n"))
    (only,) = proofs.proofs("a_page", page)
    assert (only["claim"], only["found"], only["bound"]) == ("it is", [], "true")


@pytest.mark.parametrize(
    ("source", "line", "equation"),
    [
        ('check(f"k = {k}", k, above=0, eq="eq-k")', "✓ k = 2 ⟨2⟩ (above 0)", "eq-k"),
        ('check("a", 1, above=0)\ncheck("b", 1, above=0, eq="eq-b")', "✓ a ⟨1⟩ (above 0)", None),
        ('page.check("a", "eq-a", batch)', "✓ a (as printed, in symbols, 5 features)", "eq-a"),
        ('check(f"{n}", 1, eq="eq-n")\ncheck("b", 1, eq="eq-b")', "✓ b (exactly)", "eq-b"),
        ('tell()  # a function of the cell before', "✓ told (exactly)", "eq-told"),
    ],
)  # fmt: skip
def test_a_proof_names_the_equation_that_its_call_names(source, line, equation):
    page = notebook(
        ('def tell():\n    check("told", 1, equals=1, eq="eq-told")', ""), (source, line)
    )
    (only,) = proofs.proofs("a_page", page)
    assert only["equation"] == equation


def test_an_equation_is_named_by_its_label_written_out():
    with pytest.raises(ValueError, match="malformed"):
        proofs.calls('check("a", 1, above=0, eq=label)')


@pytest.mark.parametrize("page", PAGES)
def test_every_line_of_a_page_is_found_among_its_calls_and_names_no_unknown_equation(page):
    path = ROOT / "notebooks" / f"{page}.ipynb"
    run = nbformat.read(path, as_version=4)
    listed = proofs.proofs(page, run)
    printed = [line for cell in run.cells for line in found.printed(cell)]
    assert [proof["claim"] for proof in listed] == [line.claim for line in printed]
    calls = [
        call for cell in run.cells if cell.cell_type == "code" for call in proofs.calls(cell.source)
    ]
    for proof in listed:
        assert any(call.claim.fullmatch(proof["claim"]) for call in calls), proof["claim"]
        assert proof["section"], proof["claim"]
    sources = (p.read_text(encoding="utf8") for p in ROOT.glob("notebooks/*.ipynb"))
    text = "\n".join(
        cell.source
        for source in sources
        for cell in nbformat.reads(source, as_version=4).cells
        if cell.cell_type == "markdown"
    )
    assert {proof["equation"] for proof in listed} - {None} <= set(latex.labeled(text))


def test_the_build_has_written_every_proof_of_the_pages(site):
    listed = json.loads((site / proofs.FILE).read_text(encoding="utf8"))
    assert {proof["page"] for proof in listed} == set(PAGES)
    assert len(listed) > 900
    for page in PAGES:
        stored = nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4)
        claims = [proof["claim"] for proof in proofs.proofs(page, stored)]
        assert [proof["claim"] for proof in listed if proof["page"] == page] == claims
