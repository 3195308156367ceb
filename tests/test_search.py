"""The search: what people type brings the right page first, from a folder too."""

from __future__ import annotations

import re
from typing import Any

from synonyms import PHRASES

# More words than a phrase has: the subject is dropped, then the longest run counts.
MORE = {
    **{"int8 LayerNorm": "09_which_norm", "LayerNorm int8": "09_which_norm"},
    **{"layer norm lora": "11_claims", "layer normalization eps": "02_epsilon"},
    **{"final norm of GPT": "10_where_it_stands", "pre-norm NaN row": "when_it_goes_wrong"},
    "LayerNorm in nn.LSTM": "08_ln_lstm",
}
# What the search does with a query, without a page load for each.
TOP = """typed => typed.map(words => {
    history.replaceState(null, '', `?q=${encodeURIComponent(words)}`);
    return Search._performSearch(...Search._parseQuery(words)).at(-1)?.[0] ?? null;
})"""


def test_what_people_type_brings_the_page_first(reader: Any) -> None:
    page = reader().open("search.html?q=fp16")
    top = page.locator("#search-results li a").first
    top.wait_for()
    assert re.search(r"(\w+)\.html", str(top.get_attribute("href")))[1] == "02_epsilon"
    typed = {phrase: place for place, phrases in PHRASES.items() for phrase in phrases}
    assert len({phrase.lower() for phrase in typed}) == sum(map(len, PHRASES.values())) >= 40
    typed |= {words: f"notebooks/{name}" for words, name in MORE.items()}
    assert dict(zip(typed, page.evaluate(TOP, [*typed]), strict=True)) == typed
    assert page.evaluate(TOP, ["quiche lorraine"]) == [None]
