"""The search: what people type brings the right page first, from a folder too."""

from __future__ import annotations

import re
from typing import Any

import pytest
from synonyms import PHRASES

TYPED = [(phrase, page) for page, phrases in PHRASES.items() for phrase in phrases]
# More words than a phrase has: the subject is dropped, then the longest run counts.
MORE = {
    "int8 LayerNorm": "16_choosing_a_norm",
    "LayerNorm int8": "16_choosing_a_norm",
    "layer norm lora": "11_training_gamma_beta",
    "layer normalization eps": "02_epsilon",
    "final norm of GPT": "10_in_context",  # "final norm", not "gpt" nor "norm"
    "pre-norm NaN row": "when_it_goes_wrong",
    "LayerNorm in nn.LSTM": "08_ln_lstm",
}
# What the search does with a query, without a page load for each.
TOP = """words => {
    history.replaceState(null, '', `?q=${encodeURIComponent(words)}`);
    return Search._performSearch(...Search._parseQuery(words)).at(-1)?.[0];
}"""


@pytest.fixture(scope="module")
def search(browser: Any, site: Any, tmp_path_factory: Any) -> Any:
    page = browser.new_page()
    page.goto(f"{(site / 'search.html').as_uri()}?q=norm")
    page.locator("#search-results li a").first.wait_for()
    yield page
    page.close()


def test_forty_things_and_more_are_tried() -> None:
    assert len({phrase.lower() for phrase, _ in TYPED}) == len(TYPED) >= 40
    everyday = "fp16, batchnorm, pre-LN, RMSNorm, eps, quantization, adaLN, freeze, ONNX, NaN, AMP"
    assert set(everyday.lower().split(", ")) <= {phrase.lower() for phrase, _ in TYPED}


@pytest.mark.parametrize(("phrase", "page"), TYPED, ids=lambda said: str(said))
def test_what_people_type_brings_the_page_first(search: Any, phrase: str, page: str) -> None:
    assert search.evaluate(TOP, phrase) == page


@pytest.mark.parametrize("typed", MORE)
def test_a_phrase_among_other_words_still_counts(search: Any, typed: str) -> None:
    assert typed.lower() not in {phrase.lower() for phrase, _ in TYPED}
    assert search.evaluate(TOP, typed) == f"notebooks/{MORE[typed]}"


@pytest.mark.parametrize("typed", ["constructor", "norm", "quiche of norm"])
def test_what_is_no_phrase_puts_no_page_on_top(search: Any, typed: str) -> None:
    assert search.evaluate("typed => Scorer.page(typed) ?? null", typed) is None


def test_what_no_page_is_about_brings_none(search: Any) -> None:
    assert search.evaluate(TOP, "quiche lorraine") is None


def test_a_reader_finds_the_page_on_top(reader: Any) -> None:
    page = reader().open("search.html?q=fp16")
    top = page.locator("#search-results li a").first
    top.wait_for()
    assert re.search(r"(\w+)\.html", str(top.get_attribute("href")))[1] == "02_epsilon"
