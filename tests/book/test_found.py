"""What checks have found: read, hidden from nbval, and kept while it stands."""

from __future__ import annotations

import re

import found
import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from lnlib.book import check
from lnlib.book.home import ROOT

((REGEX, REPLACE),) = get_sanitize_patterns((ROOT / "notebooks/sanitize.cfg").read_text("ascii"))
PAGES = {p.stem: nbformat.read(p, as_version=4) for p in sorted(ROOT.glob("notebooks/*.ipynb"))}
VALUES = {
    "2.1e-8": (2.1234e-8, {"below": 1e-6}),
    "14,000": (14342.1, {"above": 5000}),
    "-0.0021 to 0.0040": ([-0.0021, 0.004], {"between": (-0.01, 0.01)}),
    "off by 0": ([1.0], {"equals": [1.0], "within": 1e-12}),
    "inf": (float("inf"), {"above": 1.0}),
}


@pytest.mark.parametrize("written", VALUES)
def test_what_a_check_prints_is_read_and_its_digits_are_sanitized(written, capsys):
    value, rule = VALUES[written]
    check("a claim (with a bracket)", value, **rule)
    line = capsys.readouterr().out.rstrip("\n")
    assert f"⟨{written}⟩" in line
    said = found.read(line)
    assert said.claim == "a claim (with a bracket)"
    assert said.found
    assert said.bound.split()[0] in {*rule, "within"}
    form = "(off by found)" if written.startswith("off by ") else "(found)"
    assert re.sub(REGEX, REPLACE, line) == line.replace(f"⟨{written}⟩", form)


@pytest.mark.parametrize(
    "text",
    ["⟨W, dW⟩", "⟨⟩", "⟨x⟩", "<0.5>", "(0.5)", "‖x‖ = 0.5", "⟨0.5", "⟨0.5⟨", "⟨1 2⟩", "⟨off by⟩"],
)
def test_nothing_but_found_digits_is_sanitized(text):
    assert not re.search(REGEX, text)


def test_every_line_of_a_check_in_the_book_is_read_whole():
    outputs = [o for page in PAGES.values() for c in page.cells for o in c.get("outputs", ())]
    texts = [o.get("text") or o.data.get("text/plain", "") for o in outputs]
    lines = [line for text in texts for line in text.splitlines()]
    ticks = [line for line in lines if "✓" in line]
    assert len(ticks) > 900
    for line in ticks:
        said = found.read(line)
        assert said is not None, line
        brackets = re.findall(r"⟨[^⟩]*⟩", line)
        assert brackets == [m[0] for m in re.finditer(REGEX, line)], line
        assert len(brackets) == bool(said.found), line
    assert not [line for line in lines if "✓" not in line and re.search(REGEX, line)]


DRIFTS = [  # stored, fresh, whether the stored digits stay
    ("⟨1.5⟩ (above 1)", "⟨1.6⟩ (above 1)", True),
    ("⟨1.5⟩ (above 1)", "⟨1.7⟩ (above 1)", False),
    ("⟨1.5⟩ (above 1)", "⟨1.3⟩ (above 1)", False),
    ("⟨1.5⟩ (above 1)", "⟨1.5⟩ (above 1.2)", False),
    # rounding, of which the size alone counts
    ("⟨off by 2e-16⟩ (within 1e-12)", "⟨off by 9.1e-14⟩ (within 1e-12)", True),
    ("⟨off by 2e-16⟩ (within 1e-12)", "⟨off by 4e-13⟩ (within 1e-12)", False),
    ("⟨2e-16⟩ (below 1e-12)", "⟨9.1e-14⟩ (below 1e-12)", True),
    ("⟨0.02⟩ (below 1)", "⟨0.05⟩ (below 1)", False),
    ("⟨1e-5⟩ (below 1e-4)", "⟨1.2e-5⟩ (below 1e-4)", False),
    # both ends, and bounds around 0
    ("⟨0.50 to 0.60⟩ (between 0 and 1)", "⟨0.50 to 0.75⟩ (between 0 and 1)", False),
    ("⟨0.50 to 0.60⟩ (between 0 and 1)", "⟨0.54 to 0.65⟩ (between 0 and 1)", True),
    ("⟨0.01⟩ (between -1 and 1)", "⟨-0.1⟩ (between -1 and 1)", True),
    ("⟨2.0⟩ (between 0 and 100)", "⟨11⟩ (between 0 and 100)", False),
    ("⟨100⟩ (above 10)", "⟨inf⟩ (above 10)", False),
    ("⟨inf⟩ (above 10)", "⟨100⟩ (above 10)", False),
    ("⟨inf⟩ (above 10)", "⟨inf⟩ (above 10)", True),
]


def page(*lines: str) -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("stream", name="stdout", text="".join(f"{x}\n" for x in lines))
    cell = nbformat.v4.new_code_cell("check(...)", outputs=[output], id="a-cell")
    return nbformat.v4.new_notebook(cells=[cell])


def kept(stored: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> list[str]:
    found.keep_digits(stored, fresh)
    return fresh.cells[0].outputs[0].text.splitlines()


@pytest.mark.parametrize(("stored", "fresh", "stays"), DRIFTS)
def test_stored_digits_stay_while_a_run_finds_the_same_within_a_tenth(stored, fresh, stays):
    before, after = f"✓ a claim {stored}", f"✓ a claim {fresh}"
    assert kept(page(before), page(after)) == [before if stays else after]


def test_a_line_is_compared_with_that_of_the_same_claim_in_their_order():
    one, two = "✓ one ⟨1.0⟩ (above 0)", "✓ two ⟨2.0⟩ (above 0)"
    fresh = ["✓ new ⟨7.0⟩ (above 0)", "✓ two ⟨2.1⟩ (above 0)", "printed: 3.15"]
    assert kept(page(one, two, "printed: 3.14"), page(*fresh)) == [fresh[0], two, fresh[2]]
    nine, fresh = "✓ one ⟨9.0⟩ (above 0)", ["✓ one ⟨1.05⟩ (above 0)", "✓ one ⟨5.0⟩ (above 0)"]
    assert kept(page(one, nine), page(*fresh)) == [one, fresh[1]]


def test_digits_stay_where_what_is_said_of_them_has_changed_and_a_new_cell_keeps_its_own():
    stored, fresh = page("✓ same ⟨2e-16⟩ (within 1e-9)"), page("✓ same ⟨off by 0⟩ (within 1e-9)")
    assert kept(stored, fresh) == ["✓ same ⟨off by 2e-16⟩ (within 1e-9)"]
    stored = nbformat.v4.new_notebook(cells=[])
    assert kept(stored, page("✓ new ⟨1.5⟩ (above 1)")) == ["✓ new ⟨1.5⟩ (above 1)"]
