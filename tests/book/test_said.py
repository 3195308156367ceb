"""No verdict bolder than its rows: a page says the word that a comparison of the list comes to.

An interval in a sentence tells which comparison it is about; a verdict without one is in `SAID`.
"""

from __future__ import annotations

import re

import nbformat
import pytest

from lnlib.book.home import ROOT
from lnlib.book.records import verdicts

PAGES = ("03_gamma_beta", "09_which_norm", "10_where_it_stands", "11_claims")
WORDS = re.compile(r"\b(?:hint|no difference(?= above)|open|ahead)\b", re.IGNORECASE)
INTERVAL = re.compile(r"-?\d+\.\d+ to -?\d+\.\d+")
# Intervals that pages print without a verdict, or of something else.
OTHERS = {"0.019 to 0.030", "0.008 to 0.017", "0.006 to 0.017"}
RMS = "RMS norm | layer norm | bits"
LSTMS = "layer norm, forget bias, {0} | strong LSTM, {0} | error"
SAID = {
    "$\\gamma = 1$ is ahead of 10": "γ = 1 | γ = 10 | error",
    "is no difference above 0.01 nats,": "decay 0.001, γ spared | decay 0.001 on γ too | loss",
    "no difference above half a point of errors, and the": "layer, 128 | none, 128 | error",
    "there is no difference above half a point.": "none, long | layer, long | error",
    "its loss is open": "batch-hidden, long | layer, long | loss",
    "no difference above 0.01 nats of test loss": "rms, long | layer, long | loss",
    "the comparison is open, within 0.031 bits": RMS,
    "norms is better is open": RMS,
    "ended ahead of pre-norm": "no norm, zeros | layer norm | bits",
    "it ended ahead": "layer norm | post-norm | bits",
    "that bias too, the comparison is open": LSTMS.format(1),
    "A claim is *open*": LSTMS.format(1),
    "a lead is *a hint*": LSTMS.format(3),
    "open after one epoch": LSTMS.format(1),
    "a hint after three": LSTMS.format(3),
    "points ahead after ten": LSTMS.format(10),
    "**No difference above** 0.01 nats": "rms, long | layer, long | loss",
    "in bits open, within 0.031": RMS,
    "costs anything is open, within 0.031": RMS,
    "makes no difference above half a point": "γ, β frozen | γ = 1 | error",
}


@pytest.fixture(scope="module")
def cells() -> list[nbformat.NotebookNode]:
    pages = (nbformat.read(ROOT / "notebooks" / f"{page}.ipynb", as_version=4) for page in PAGES)
    return [cell for page in pages for cell in page.cells]


@pytest.fixture(scope="module")
def found() -> list[tuple[str, verdicts.Verdict]]:
    return [(" | ".join(c[1:]), verdicts.difference(*c)) for c in verdicts.COMPARISONS]


def test_the_protocol_says_how_many_comparisons_there_are_and_pages_print_them(cells, found):
    assert f"the {len({*verdicts.COMPARISONS})} comparisons" in verdicts.__doc__
    code = (cell for cell in cells if cell.cell_type == "code")
    printed = "\n".join(out.get("text", "") for cell in code for out in cell.outputs)
    for _, verdict in found:
        by, folds = INTERVAL.findall(verdict.words)
        assert re.search(rf"{by}[^\n]*folds: {folds}\)", printed), verdict.words


def test_a_sentence_has_the_words_of_its_comparisons_and_no_other(cells, found):
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    sentences = re.split(r"(?<=[.?!])\s|\n|\|", text.replace("−", "-"))
    word = {what: next(v.word for name, v in found if name == SAID[what]) for what in SAID}
    for what in SAID:
        assert WORDS.findall(what.replace("**", ""))[-1].lower() == word[what], what
        assert any(what in sentence for sentence in sentences), what
    for sentence in sentences:
        assert not re.search(r"\*\*[^*]*shown once", sentence, re.IGNORECASE), sentence
        said = {each.lower() for each in WORDS.findall(sentence.replace("**", ""))}
        due = {word[what] for what in SAID if what in sentence}
        for interval in INTERVAL.findall(sentence):
            may = {v.word for _, v in found if f" {interval}" in v.words.split("folds")[0]}
            stray = re.search(rf"{interval} (?:points|nats|bits)", sentence) and not may
            assert not stray or interval in OTHERS, (sentence, interval)
            assert not may or may & {*said, "ahead"}, (sentence, may)
            due |= may
        if due or said - {"open"}:  # what is open may be no comparison
            assert said <= due | ({"ahead"} if "hint" in due else set()), (sentence, due)
