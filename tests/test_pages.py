"""The built pages in a real browser: from a folder, with no network, on a desk and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

PAGES = [
    "book/index.html",
    "notebooks/01_formula.html",
    "notebooks/02_epsilon.html",
    "notebooks/03_gamma_beta.html",
    "notebooks/04_scalar_jacobian.html",
    "notebooks/05_index_notation.html",
    "notebooks/06_autograd_function.html",
    "notebooks/07_triton_kernel.html",
    "notebooks/08_ln_lstm.html",
    "notebooks/09_batch_or_layer.html",
    "notebooks/10_in_context.html",
    "notebooks/which_layer_norm.html",
    "notebooks/when_it_goes_wrong.html",
    "book/notation.html",
    "book/api.html",
    "book/benchmarks.html",
    "book/bibliography.html",
]
EPSILON = "notebooks/02_epsilon.html"


def test_the_list_of_pages_is_complete(site: Path) -> None:
    built = {path.relative_to(site).as_posix() for path in site.glob("[bn]*/*.html")}
    assert built == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_works_offline_and_is_accessible(reader: Any, name: str, scheme: str) -> None:
    page = reader(color_scheme=scheme, viewport={"width": 1200, "height": 900}).open(name)
    assert page.locator("html").get_attribute("data-theme") == scheme
    violations = Axe().run(page, options={"preload": False}).response["violations"]
    serious = {
        violation["id"]: [node["html"][:200] for node in violation["nodes"]]
        for violation in violations
        if violation["impact"] in ("serious", "critical")
    }
    assert serious == {}


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_never_scrolls_sideways(reader: Any, name: str) -> None:
    page = reader(viewport={"width": 390, "height": 844}, has_touch=True).open(name)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


TOO_WIDE = """async () => {
    await MathJax.startup.promise;
    return [...document.querySelectorAll('div.math')].filter(div => {
        const formula = div.querySelector('mjx-math'), number = div.querySelector('.eqno');
        const end = number ? number.getBoundingClientRect().left : 375;
        return formula && formula.getBoundingClientRect().right > end;
    }).map(div => div.id);
}"""


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("notebooks/")])
def test_an_equation_fits_a_phone_and_leaves_its_number_alone(reader: Any, name: str) -> None:
    page = reader(viewport={"width": 390, "height": 844}).open(name)
    assert page.evaluate(TOO_WIDE) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_is_described(reader: Any, name: str) -> None:
    page = reader().open(name)
    alts = page.locator("article img").evaluate_all("all => all.map(i => i.getAttribute('alt'))")
    assert all(alt and len(alt.split()) >= 10 for alt in alts), alts


@pytest.mark.parametrize("name", [page for page in PAGES if page.startswith("notebooks/")])
def test_mathematics_is_set(reader: Any, name: str) -> None:
    page = reader().open(name)
    assert page.locator("article mjx-container").count() > 20
    assert page.locator("mjx-merror").count() == 0
    assert page.locator("article mjx-container mjx-assistive-mml").count() > 20


@pytest.mark.parametrize("name", PAGES)
def test_no_reference_is_left_unresolved(reader: Any, name: str) -> None:
    text = reader().open(name).locator("article").inner_text()
    for sign in ("{eq}", "{numref}", "{cite", "{doc}", "??", ":label:"):
        assert sign not in text


def test_search_works_from_a_folder(reader: Any) -> None:
    page = reader().open("search.html?q=float16")
    page.locator("#search-results li a").first.wait_for()
    assert "02_epsilon" in page.locator("#search-results li a").first.get_attribute("href")


def test_a_guess_is_folded_until_the_reader_opens_it(reader: Any) -> None:
    page = reader().open("notebooks/01_formula.html")
    answer = page.locator("article details").first
    assert not answer.locator("p").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("p").first.is_visible()


def test_long_outputs_wrap(reader: Any) -> None:
    page = reader(viewport={"width": 390, "height": 844}).open("notebooks/01_formula.html")
    wide = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    assert page.locator("div.cell_output pre").evaluate_all(wide) == []


def test_numbers_of_equations_name_their_chapter(reader: Any) -> None:
    page = reader().open(EPSILON)
    assert "(1.1)" in page.locator("article").inner_text()  # the variance of chapter 1


def test_a_chapter_can_be_downloaded_as_a_notebook(reader: Any) -> None:
    page = reader().open(EPSILON)
    assert page.locator("a[href$='02_epsilon.ipynb']").count() == 1


def test_mathjax_comes_with_its_licence(site: Path) -> None:
    assert (site / "_static" / "mathjax" / "LICENSE").exists()
