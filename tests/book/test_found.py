"""What checks have found: read read, hidden from nbval, and kept while it stands."""

from __future__ import annotations

import re

import found
import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from lnlib.book import check
from lnlib.book.home import ROOT

((REGEX, REPLACE),) = get_sanitize_patterns((ROOT / "notebooks/sanitize.cfg").read_text("ascii"))
VALUES = {
    "2.1e-8": (2.1234e-8, {"below": 1e-6}),
    "14,000": (14342.1, {"above": 5000}),
    "-0.0021 to 0.0040": ([-0.0021, 0.004], {"between": (-0.01, 0.01)}),
    "off by 0": ([1.0], {"equals": [1.0], "within": 1e-12}),
    "inf": (float("inf"), {"above": 1.0}),
}


def cells() -> list[nbformat.NotebookNode]:
    pages = (nbformat.read(p, as_version=4) for p in sorted(ROOT.glob("notebooks/*.ipynb")))
    return [cell for page in pages for cell in page.cells]


def outputs() -> list[str]:
    made = [o for cell in cells() for o in cell.get("outputs", [])]
    return [o.get("text") or o.data.get("text/plain", "") for o in made]


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
    assert re.search(REGEX, "⟨0.5⟩")
    assert not re.search(REGEX, text)


def test_every_line_of_a_check_in_the_book_is_read_whole_and_other_output_is_left():
    texts = outputs()
    ticks = [line for text in texts for line in text.splitlines() if "✓" in line]
    assert len(ticks) > 900
    for line in ticks:
        said = found.read(line)
        assert said is not None, line
        brackets = re.findall(r"⟨[^⟩]*⟩", line)
        assert brackets == [m[0] for m in re.finditer(REGEX, line)], line
        assert len(brackets) == bool(said.found), line
        assert "⟨" not in said.claim, line
        rule = said.bound.split(" ")[0]
        assert bool(said.found) == (rule in {"below", "above", "between", "within"}), line
    others = [line for text in texts for line in text.splitlines() if "✓" not in line]
    assert not [line for line in others if re.search(REGEX, line)]


def test_a_claim_and_its_bound_are_left_as_they_are_printed():
    lines = [line for text in outputs() for line in text.splitlines() if line.startswith("✓")]
    for line in lines:
        before, _, rest = line.partition(" ⟨")
        _, _, after = rest.partition("⟩")
        sanitized = re.sub(REGEX, REPLACE, line)
        off = "off by " * rest.startswith("off by ")
        assert sanitized == (f"{before} ({off}found){after}" if rest else line)


@pytest.mark.parametrize("claim", ["below", "above", "between", "within"])
def test_the_digits_that_the_book_shows_keep_their_bound(claim):
    shown = [line for cell in cells() for line in found.printed(cell) if line.found]
    shown = [line for line in shown if line.bound.startswith(claim)]
    assert len(shown) > 50
    for line in shown:
        low, *high = map(found.number, re.findall(r"-?\d\S*", line.bound))
        for end in line.found:
            keeps = {
                "below": end < low,
                "above": end > low,
                "within": end <= low,
                "between": bool(high) and low <= end <= high[0],
            }
            assert keeps[claim], line


STORED = "✓ it is faster ⟨1.5⟩ (above 1)"
DRIFTS = {  # stored, fresh, whether the stored digits stay
    "a tenth": ("⟨1.5⟩ (above 1)", "⟨1.6⟩ (above 1)", True),
    "more than a tenth": ("⟨1.5⟩ (above 1)", "⟨1.7⟩ (above 1)", False),
    "less by more": ("⟨1.5⟩ (above 1)", "⟨1.3⟩ (above 1)", False),
    "a bound that changed": ("⟨1.5⟩ (above 1)", "⟨1.5⟩ (above 1.2)", False),
    "rounding far below its bound": (
        "⟨off by 2e-16⟩ (within 1e-12)",
        "⟨off by 9.1e-14⟩ (within 1e-12)",
        True,
    ),
    "rounding that comes near": (
        "⟨off by 2e-16⟩ (within 1e-12)",
        "⟨off by 4e-13⟩ (within 1e-12)",
        False,
    ),
    "an error of rounding": ("⟨2e-16⟩ (below 1e-12)", "⟨9.1e-14⟩ (below 1e-12)", True),
    "a small part of a bound": ("⟨0.02⟩ (below 1)", "⟨0.05⟩ (below 1)", False),
    "one end": ("⟨0.50 to 0.60⟩ (between 0 and 1)", "⟨0.50 to 0.75⟩ (between 0 and 1)", False),
    "both ends a little": (
        "⟨0.50 to 0.60⟩ (between 0 and 1)",
        "⟨0.54 to 0.65⟩ (between 0 and 1)",
        True,
    ),
    "a part of bounds around 0": ("⟨0.01⟩ (between -1 and 1)", "⟨-0.1⟩ (between -1 and 1)", True),
    "a part of bounds that is large for it": (
        "⟨2.0⟩ (between 0 and 100)",
        "⟨11⟩ (between 0 and 100)",
        False,
    ),
    "no number any more": ("⟨100⟩ (above 10)", "⟨inf⟩ (above 10)", False),
    "a number at last": ("⟨inf⟩ (above 10)", "⟨100⟩ (above 10)", False),
    "still no number": ("⟨inf⟩ (above 10)", "⟨inf⟩ (above 10)", True),
}


def page(*lines: str) -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("stream", name="stdout", text="".join(f"{x}\n" for x in lines))
    cell = nbformat.v4.new_code_cell("check(...)", outputs=[output], id="a-cell")
    return nbformat.v4.new_notebook(cells=[cell])


def kept(stored: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> list[str]:
    found.keep_digits(stored, fresh)
    return fresh.cells[0].outputs[0].text.splitlines()


@pytest.mark.parametrize("case", DRIFTS)
def test_stored_digits_stay_while_a_run_finds_the_same_within_a_tenth(case):
    before, after, stays = (f"✓ a claim {x}" if isinstance(x, str) else x for x in DRIFTS[case])
    assert kept(page(before), page(before)) == [before]
    assert kept(page(before), page(after)) == [before if stays else after]


def test_a_line_is_compared_with_that_of_the_same_claim_wherever_it_stood():
    stored = page("✓ one ⟨1.0⟩ (above 0)", "✓ two ⟨2.0⟩ (above 0)", "printed: 3.14")
    fresh = page("✓ new ⟨7.0⟩ (above 0)", "✓ two ⟨2.1⟩ (above 0)", "printed: 3.15")
    assert kept(stored, fresh) == [
        "✓ new ⟨7.0⟩ (above 0)",
        "✓ two ⟨2.0⟩ (above 0)",
        "printed: 3.15",
    ]


def test_claims_of_one_name_are_compared_in_their_order():
    stored = page("✓ a seed ⟨1.0⟩ (above 0)", "✓ a seed ⟨9.0⟩ (above 0)")
    fresh = page("✓ a seed ⟨1.05⟩ (above 0)", "✓ a seed ⟨5.0⟩ (above 0)")
    assert kept(stored, fresh) == ["✓ a seed ⟨1.0⟩ (above 0)", "✓ a seed ⟨5.0⟩ (above 0)"]


def test_digits_stay_where_what_is_said_of_them_has_changed():
    stored, fresh = page("✓ same ⟨2e-16⟩ (within 1e-9)"), page("✓ same ⟨off by 0⟩ (within 1e-9)")
    assert kept(stored, fresh) == ["✓ same ⟨off by 2e-16⟩ (within 1e-9)"]


def test_a_new_cell_keeps_what_it_printed():
    stored = nbformat.v4.new_notebook(cells=[])
    assert kept(stored, page(STORED)) == [STORED]
