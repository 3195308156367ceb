"""The search: what people type brings the section that answers it, from a folder too."""

from __future__ import annotations

from typing import Any

# As people type it into a search field: the section that must be among the first three hits.
ANSWERS = {
    "NaN in fp16": "when_it_goes_wrong.html#nan-or-zeros-in-float16-only",
    "eps for bf16": "02_epsilon.html#which-to-use",
    "gradient of gamma is zero at size 1": "when_it_goes_wrong.html#very-few-features",
    "output changes with batch size": "when_it_goes_wrong.html#a-result-changes-with-its-batch",
    "fuse layer norm with residual add": "07_triton_kernel.html#should-you-write-this-at-all",
    "where does LayerNorm go in an LSTM": "08_ln_lstm.html#one-name-eight-functions",
    "ONNX export": "when_it_goes_wrong.html#it-does-not-match-after-export",
    "LayerNorm NCHW channels_first": "which_layer_norm.html#over-which-axes",
    "why is eps inside the sqrt": "02_epsilon.html#under-the-root-or-beside",
    "how do I initialize gamma and beta": "03_gamma_beta.html#and-start-at-1-and-0",
    "exclude layernorm from weight decay": "03_gamma_beta.html#weight-decay-on",
    "torch.compile layer norm slow": "07_triton_kernel.html#should-you-write-this-at-all",
    "triton layer norm num_warps": "07_triton_kernel.html#on-an-h200",
    "why does layer norm use biased variance": "which_layer_norm.html#divide-by-h-or-by-h-1",
    "what is rstd": "notation.html#symbols-of-the-whole-book",
    "Welford one pass variance": "02_epsilon.html#a-variance-in-one-pass",
    "LayerNorm autocast expected scalar type": "when_it_goes_wrong.html#mixed-types",
    "quantize layer norm int8": "when_it_goes_wrong.html#folded-or-quantized",
    "dx formula": "summary.html#gradients",
    "interactive": "index.html#twenty-minutes",
    "quiz": "index.html#chapters",
    "download notebooks": "index.html#running-it-and-who-made-it",
    "swap LayerNorm in huggingface model": "api.html#in-a-model-you-already-have",
    "batch invariance": "api.html#batch-invariance",
    "learning rate warmup post-norm": "10_where_it_stands.html#training-pre-norm-and-post-norm",
    "pre-LN vs post-LN": "10_where_it_stands.html#the-transformer-then-and-now",
    "DeepNorm": "10_where_it_stands.html#blocks-that-begin-as-the-identity",
    "convert LayerNorm to RMSNorm": "09_which_norm.html#when-the-two-are-the-same",
    "batchnorm vs layernorm": "09_which_norm.html",
    "layer norm jacobian rank": "04_scalar_jacobian.html#what-the-jacobian-loses",
    "custom autograd function": "06_autograd_function.html#what-a-backward-pass-must-return",
    "per-sample gradients vmap": "06_autograd_function.html#other-ways-to-differentiate",
    "fine-tune only layernorm parameters": "11_claims.html#and-on-their-own",
    "internal covariate shift": "11_claims.html#claim-by-claim",
    "mask the padding tokens": "when_it_goes_wrong.html#padding-inside-the-normalized-axes",
    "onnx runtime refuses two types": "when_it_goes_wrong.html#it-does-not-match-after-export",
    "bf16 dgamma accuracy": "benchmarks.html#accuracy",
    "layernorm hessian wrong": "when_it_goes_wrong.html#a-higher-derivative-is-off",
    "massive activations": "12_trained_model.html#one-number-of-294-912",
    "attention sink": "12_trained_model.html#why-it-keeps-its-row-quiet",
    "can I remove the norm": "12_trained_model.html#what-is-a-statistic-for",
    "outlier features": "12_trained_model.html#what-has-learned",
}
FIND = """typed => {
    const index = SearchBook.index(LN_SECTIONS);
    return typed.map(words => SearchBook.find(index, words).map(({ url }) => url.split("/").pop()));
}"""


def test_what_people_type_finds_its_section(reader: Any) -> None:
    page = reader().open("search.html?q=why+is+eps+inside+the+sqrt")
    first = page.locator("#search-results li").first
    first.wait_for()
    assert first.locator("a").get_attribute("href").endswith("#under-the-root-or-beside")
    assert first.locator("mark").count()
    found = dict(zip(ANSWERS, page.evaluate(FIND, [*ANSWERS]), strict=True))
    missed = {typed: urls[:3] for typed, urls in found.items() if ANSWERS[typed] not in urls[:3]}
    assert not missed
    assert page.evaluate(FIND, ["quiche lorraine"]) == [[]]


def test_an_empty_question_shows_the_pages_and_a_common_one_shows_more(reader: Any) -> None:
    page = reader().open("search.html")
    page.locator("#search-results li").first.wait_for()
    shown = page.locator("#search-results li a").evaluate_all("a => a.map(x => x.pathname)")
    assert len(shown) == len(set(shown)) >= 20
    assert page.locator(".ln-more").is_hidden()
    page.goto(page.url + "?q=layer+norm")
    hits, more = page.locator("#search-results li"), page.locator(".ln-more")
    more.wait_for()
    every = int(page.locator("#search-results [role=status]").inner_text().split()[0])
    assert (hits.count(), every > 30) == (15, True)
    more.click()
    assert hits.count() == 30
    assert hits.nth(15).locator("a").evaluate("a => a === document.activeElement")
    while more.is_visible():
        more.click()
    assert hits.count() == every
