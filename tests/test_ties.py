"""Each number in digits on a page of `book` is tied to what computes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ties import Page, Span, Tie, agrees, load, read

from lnlib.book.home import ROOT

TIED = sorted(p.stem for p in (ROOT / "tests/ties").glob("*.py") if p.stem != "__init__")
WITHOUT_NUMBERS = {"bibliography"}
LOOSE = 0.05  # of a page's numbers, at most, have neither a tie nor a reason
FREE = 0.15  # of a page's numbers, at most, are dates, sections and the like
pages = pytest.mark.parametrize("name", TIED)


def within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def spans_of(ties: list[Tie], text: str) -> list[Span]:
    return [span for tie in ties for span in tie.spans(text)]


def test_every_page_that_writes_numbers_has_ties():
    written = {p.stem for p in ROOT.glob("book/*.md")}
    assert set(TIED) == written - WITHOUT_NUMBERS
    assert not any(Page(name).numerals() for name in WITHOUT_NUMBERS)


@pages
def test_each_number_is_what_its_source_says(name):
    page, wrong = load(name), []
    for tie in page.ties:
        try:
            tie.check(page.flat)
        except Exception as error:  # all that is wrong is told at once
            wrong.append(f"{type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


@pages
def test_hardly_a_number_is_without_a_source(name):
    page = load(name)
    tied, free = spans_of(page.ties, page.flat), spans_of(page.free_ones, page.flat)
    numerals = page.numerals()
    loose = [n for n in numerals if not any(within(n, span) for span in [*tied, *free])]
    said = [page.flat[max(0, a - 40) : b + 25] for a, b in loose]
    assert len(loose) <= LOOSE * len(numerals), "\n".join(said)
    assert len([n for n in numerals if any(within(n, s) for s in free)]) <= FREE * len(numerals) + 2


def mutants(written: str) -> Iterator[str]:
    """Yield what is written with one digit changed, each digit in its turn."""
    for place, digit in enumerate(written):
        if digit in "0123456789":
            for other in (int(digit) + 1, int(digit) + 5):
                yield f"{written[:place]}{other % 10}{written[place + 1 :]}"


def survives(mutant: str, value: object, tie: Tie) -> bool:
    try:
        return agrees(mutant, value, tie.names)
    except Exception:  # it cannot be read any more
        return False


@pages
def test_a_changed_digit_goes_red(name):
    page, alive, tried = load(name), [], 0
    for tie in page.ties:
        for span, value in zip(tie.spans(page.flat), tie.values, strict=True):
            written = page.flat[slice(*span)]
            assert agrees(written, value, tie.names), tie.around
            for mutant in mutants(written):
                tried += 1
                if survives(mutant, value, tie):
                    alive.append(f"{written} to {mutant}: {tie.around}")
    assert tried, name
    assert len(alive) <= LOOSE * tried, "\n".join(alive)


@pytest.mark.parametrize(
    ("written", "value", "agree"),
    [
        ("50", 50, True),
        ("50", 51, False),
        ("50", 51.0, True),  # a computed value may be rounded to tens; a counted one may not
        ("14,000", 14342.1, True),
        ("14,000", 14542.1, False),
        ("0.07", 0.0651, True),
        ("0.07", 0.0651e1, False),
        (r"3\cdot10^{-8}", 2.98e-8, True),
        (r"3\cdot10^{-8}", 2.98e-9, False),
        ("10^{15}", 1e15, True),
        ("two", 2, True),
        (r"\sqrt{H-1}", 10, True),
        (r"\sqrt{H-2}", 10, False),
        ("½", 0.5, True),
    ],
)
def test_a_number_agrees_with_a_value_that_rounds_to_it(written, value, agree):
    assert agrees(written, value, {"H": 101}) is agree


@pytest.mark.parametrize("written", ["a", "1.2.3", "", r"\sqrt{2}", "x^2"])
def test_what_is_no_number_is_not_read(written):
    with pytest.raises(ValueError, match=r"no number|could not convert"):
        read(written)
