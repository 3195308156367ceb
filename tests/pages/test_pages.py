"""The built pages as they are written: what needs no browser is read from their HTML."""

from __future__ import annotations

import gzip
import json
import re
import textwrap
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import lxml.html
import pytest
import torch
import yaml
from digests import notebooks
from tied import PLACES

import lnlib
from conftest import SITE
from lnlib.book.equations import latex
from lnlib.book.home import ROOT

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
PAGES = [
    f"{one['file']}.html"
    for one in [{"file": TOC["root"]}, *(c for part in TOC["parts"] for c in part["chapters"])]
]
EXPLORERS = '//div[contains(@class, "ln-explorer-output")]'
DATA = '//script[contains(@type, "vnd.jupyter.widget-{}+json")]/text()'
each_page = pytest.mark.parametrize("name", PAGES)


@cache
def read(name: str) -> Any:
    return lxml.html.fromstring((SITE / name).read_text(encoding="utf8"))


def asked(name: str) -> list[Path]:
    """The files that a page loads, MathJax aside: itself, scripts, pictures and sheets."""
    links = read(name).xpath('//script/@src | //img/@src | //link[@rel="stylesheet"]/@href')
    local = [link.partition("?")[0] for link in links if not link.startswith("data:")]
    files = [(SITE / name).parent / link for link in local if "mathjax" not in link]
    return [SITE / name, *sorted(set(files))]


def test_each_page_of_the_contents_is_built_and_no_other(site: Path) -> None:
    built = {path.relative_to(site).as_posix() for path in site.glob("[bn]*/*.html")}
    assert built == set(PAGES)


@each_page
def test_headings_ids_links_words_of_pictures_and_numbers_are_right(site: Path, name: str) -> None:
    page = read(name)
    (article,) = page.xpath("//article")
    headings = article.xpath(".//*[self::h1 or self::h2 or self::h3 or self::h4]")
    levels = [int(heading.tag[1]) for heading in headings]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert max((after - before for before, after in pairwise(levels)), default=0) <= 1
    ids = page.xpath("//@id")
    assert sorted(ids) == sorted(set(ids))
    leads = {link[1:] for link in article.xpath('.//a/@href[starts-with(., "#") and . != "#"]')}
    assert leads <= set(ids)
    links = [re.split("[#?]", link)[0] for link in page.xpath("//a/@href") if "://" not in link]
    assert [link for link in links if not (SITE / name).parent.joinpath(link).exists()] == []
    words = article.xpath('.//img/@alt | .//svg[@class="ln-figure"]/@aria-label')
    assert len(words) == len(article.xpath('.//img | .//svg[@class="ln-figure"]'))
    assert min((len(said.split()) for said in words), default=10) >= 10
    pictures = article.xpath('.//img[not(ancestor::*[contains(@class, "ln-fallback")])]/@src')
    assert not [src for src in pictures if re.search(r"_images/.*\.(png|svg)", src)]  # inline
    numbers = article.xpath('.//figcaption//*[@class="caption-number"]/text()')
    assert [int(n.split(".")[-1]) for n in numbers] == [*range(1, len(numbers) + 1)]
    text = "".join(article.xpath(".//text()[not(ancestor::script)]"))
    unresolved = ("{eq}", "{numref}", "{cite", "{doc}", "??", ":label:")
    assert [sign for sign in unresolved if sign in text] == []
    asked = article.xpath('.//*[contains(@class, "exercise admonition")]')
    assert len(article.xpath('.//p[@class="ln-where-to-answer"]')) == bool(asked)


@pytest.mark.parametrize("path", notebooks(ROOT), ids=lambda path: path.stem)
def test_the_words_of_a_reference_are_the_number_that_a_page_shows(path: Path, site: Path) -> None:
    source, page = path.read_text(encoding="utf8"), read(f"notebooks/{path.stem}.html")
    roles = re.findall(r"\{(?:eq|numref)\}`([^`<]+) <([\w-]+)>`", source)
    links = re.findall(r"\[([^][\n]+)\]\(\w+\.ipynb#((?:eq|def|fig)-[\w-]+)\)", source)
    for words, label in roles + links:
        target = f"equation-{label}" if label.startswith(("eq-", "def-")) else label
        shown = page.xpath('//a[contains(@class, "reference")]')
        shown = {a.text_content() for a in shown if a.get("href", "").endswith(f"#{target}")}
        assert shown == {words}, label


@each_page
def test_a_page_weighs_less_than_a_megabyte_besides_mathjax(site: Path, name: str) -> None:
    files = [(file.suffix == ".png", file.read_bytes()) for file in asked(name)]
    assert sum(len(body if packed else gzip.compress(body)) for packed, body in files) < 1e6


# --- explorers in pages --------------------------------------------------------------------------


@each_page
def test_a_page_carries_the_explorers_it_shows_each_with_a_stand_in(site: Path, name: str) -> None:
    page = read(name)
    places = page.xpath(EXPLORERS)
    scripts = [src for src in page.xpath("//script/@src") if "explorers.js" in src]
    assert len(scripts) == bool(places)
    if not places:
        return
    views = [json.loads(view)["model_id"] for view in page.xpath(DATA.format("view"))]
    (content,) = map(json.loads, page.xpath(DATA.format("state")))
    states = {model: one["state"] for model, one in content["state"].items()}
    assert sorted(views) == sorted(states)
    for place, model in zip(places, views, strict=True):
        kind = PLACES[place.get("id")]
        for part in ("_esm", "_css"):
            assert states[model][part] == getattr(kind, part)
        (fallback,) = place.xpath('.//*[contains(@class, "ln-fallback")]')
        (words,) = fallback.xpath(".//img/@alt")
        assert len(words.split()) > 10
        assert kind().sentence() in fallback.text_content()
    names = [script.split("/")[-1].partition("?")[0] for script in page.xpath("//script/@src")]
    assert names.index("explorers.js") < [*names, "tex-mml-chtml.js"].index("tex-mml-chtml.js")


# --- figures and icons ---------------------------------------------------------------------------

FIGURE = re.compile(r'<svg class="ln-figure".*?</svg>', re.DOTALL)
# A text of 16 points is drawn from outlines of 100; axes may use two sizes, indices are smaller.
SIZE = re.compile(r'<g style="[^"]*" transform="translate\([^)]*\)[^"]*scale\((0\.\d+) -0')


def fixed_colors(svg: str) -> list[str]:
    """Return the colors of a figure that stay as they are on a dark page."""
    follows = r'<style>.*?</style>|var\([^)]*\)|<image[^>]*>|aria-label="[^"]*"'
    without = re.sub(follows, "", svg, flags=re.DOTALL)
    return re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgb\([^)]*\)|\b(?:white|black)\b", without)


@each_page
def test_figures_turn_dark_are_small_and_can_be_read_on_a_phone(site: Path, name: str) -> None:
    for svg in FIGURE.findall((site / name).read_text(encoding="utf8")):
        assert fixed_colors(svg) == []
        assert len(gzip.compress(svg.encode())) < 60_000
        sizes = [float(size) for size in SIZE.findall(svg)]
        width = float(re.findall(r'viewBox="0 0 ([\d.]+)', svg)[0])
        assert 100 * min(sizes) * 350 / width >= 11, svg[:300]  # px on a phone of 390


def test_every_icon_of_the_pages_is_drawn(site: Path) -> None:
    pages = "".join((site / name).read_text(encoding="utf8") for name in PAGES)
    named = set(re.findall(r"\bfa-[a-z-]+", pages)) - {"fa-solid", "fa-lg"}
    sheet = (ROOT / "book" / "assets" / "icons.css").read_text(encoding="utf8")
    assert len(named) > 5
    assert named <= set(re.findall(r"^\.(fa-[a-z-]+) \{ --", sheet, re.MULTILINE))
    assert "fontawesome.js" not in pages
    assert (site / "_static" / "mathjax" / "LICENSE").exists()


# --- the summary ---------------------------------------------------------------------------------

SUMMARY = (ROOT / "book" / "summary.md").read_text(encoding="utf8")


def test_each_formula_of_the_summary_is_the_one_its_number_leads_to() -> None:
    equations: dict[str, str] = {}
    for path in notebooks(ROOT):
        cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        equations |= latex.labeled(text)
    linked = re.findall(r"\{eq\}`([\w-]+)`", SUMMARY)
    printed = re.findall(r"```\{math\}\n(.*?)```", SUMMARY, re.DOTALL)
    assert list(map(plain, printed)) == [plain(equations[label]) for label in linked]


def plain(formula: str) -> str:
    """A formula without its spaces and the mark after it."""
    return re.sub(r"\s+|[.,]\s*(?=(\\end\{aligned\}\s*)?$)", "", formula)


def test_the_five_lines_of_code_in_the_summary_run() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", SUMMARY, re.DOTALL)
    assert len(code.splitlines()) == 5
    H, x = 7, torch.randn(3, 7)
    made: dict[str, Any] = {
        **{"lnlib": lnlib, "H": H, "I": 5, "x": x, "weight": torch.randn(H)},
        **{"bias": torch.randn(H), "model": torch.nn.Sequential(torch.nn.LayerNorm(H))},
    }
    exec(textwrap.dedent(code), made)
    assert isinstance(made["model"][0], lnlib.LayerNorm)
    truth = made["truth"] * made["weight"].double() + made["bias"].double()
    # One float32 rounding of the output, and one of each product: some 1e-7 of values below 10.
    torch.testing.assert_close(made["y"].double(), truth, rtol=1e-6, atol=1e-6)
    assert made["lstm"](torch.randn(2, 3, 5))[0].shape == (2, 3, H)
