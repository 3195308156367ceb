"""The row machine: its arithmetic against `lnlib.formula`, and the page in a reader's hand."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from test_explorer_gamma_beta import OVERLAPS
from test_explorer_hands import DESK, Hand

from conftest import DRAWN, LISTEN, SEND, plain
from lnlib import formula
from lnlib.book.explorers import RowExplorer
from lnlib.book.explorers.base import number

BOOK = (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0)
FLAT = tuple(5 + 1e-4 * (v - 5) / 2 for v in BOOK)
OUTLIER = (0.0,) * 7 + (8.0,)
MIXED = (-2, 4, -14.3, 4, 12.25, 5, 7, 9)
TRAITS = ("x", "eps", "weight", "bias")

# --- arithmetic and words ------------------------------------------------------------------------


def cases() -> list[RowExplorer]:
    dice = random.Random(0)

    def like(middle: float, size: float) -> list[float]:
        return [middle + size * dice.gauss(0, 1) for _ in range(8)]

    rows: list[Sequence[float]] = [like(0, 10 ** dice.uniform(-6, 6)) for _ in range(40)]
    rows += [like(dice.uniform(-1e6, 1e6), 10 ** dice.uniform(-3, 4)) for _ in range(40)]
    rows += [BOOK, FLAT, OUTLIER, [1e7] * 7 + [-1e7], *([v] * 8 for v in (0, 5, -3, 1e7))]
    return [
        RowExplorer(x=x, eps=eps, weight=weight, bias=bias)
        for x in rows
        for eps in (0, 1e-12, 1e-5, 0.3)
        for weight, bias in ((1, 0), (dice.uniform(-5, 5), dice.uniform(-8, 8)))
    ]


def golden_case(explorer: RowExplorer) -> dict[str, Any]:
    traits = {name: getattr(explorer, name) for name in TRAITS}
    x, weight, bias = (
        torch.tensor(traits[name], dtype=torch.float64).expand(8)
        for name in ("x", "weight", "bias")
    )
    exact = formula.terms(x, weight, bias, eps=explorer.eps)
    ours = explorer.terms()._asdict()
    theirs = {"mean": exact.mean, "centered": x - exact.mean, "std": exact.std}
    theirs |= {"denominator": exact.denominator, "xHat": exact.x_hat, "y": exact.y}
    return {
        **traits,
        "terms": {
            {"x_hat": "xHat"}.get(name, name): [*map(plain, v)] if isinstance(v, list) else plain(v)
            for name, v in ours.items()
        },
        "formula": {name: [*map(plain, v.tolist())] for name, v in theirs.items()},
        "sentence": explorer.sentence(),
        "verdict": explorer.verdict(),
    }


def test_javascript(run_js: Any) -> None:
    traits = RowExplorer.class_own_traits()
    bounds = {name: getattr(traits[name], "each", traits[name]) for name in TRAITS}
    golden = {
        "defaults": {name: traits[name].default_value for name in TRAITS},
        "limits": {name: [trait.low, trait.high] for name, trait in bounds.items()},
        "cases": [golden_case(explorer) for explorer in cases()],
    }
    run_js("row", golden)


STATES: list[dict[str, Any]] = [
    {},
    {"x": FLAT},
    {"eps": 1, "weight": -2, "bias": 1},
    {"x": OUTLIER, "eps": 0, "bias": 1},
    {"x": (*BOOK[:7], 24)},
    {"x": (5,) * 8, "bias": 3},
    {"x": (5,) * 8, "eps": 0},
]
SAID = """x̂ has mean 0 and spread 1
μ = 5 and σ = 2; x̂ goes from −1.5 to 2, and can never pass ±√7 = ±2.65.
ε decides: x̂ has spread 0.0316
μ = 5 and σ = 1e-4; √(σ² + ε) = 0.00316, so x̂ goes from −0.0474 to 0.0632.
ε takes part: x̂ has spread 0.894
μ = 5 and σ = 2; √(σ² + ε) = 2.24, so x̂ goes from −1.34 to 1.79; y goes from −2.58 to 3.68.
The others crowd near −0.378
μ = 1 and σ = 2.65; x̂ goes from −0.378 to 2.65; y goes from 0.622 to 3.65.
The others lie from −0.738 to 0.0189
μ = 6.88 and σ = 6.6; x̂ goes from −0.738 to 2.59, and can never pass ±√7 = ±2.65.
All are equal: σ = 0, and x̂ = 0
μ = 5 and σ = 0; √(σ² + ε) = 0.00316, so x̂ is 0 throughout; y is 3 throughout.
0 ÷ 0: x̂ is NaN
μ = 5 and σ = 0, and ε = 0 as well: x̂ = 0 ÷ 0 is not a number, and so is y.""".splitlines()


def test_words_and_picture_tell_each_kind_of_row() -> None:
    for traits, verdict, sentence in zip(STATES, SAID[::2], SAID[1::2], strict=True):
        explorer = RowExplorer(**traits)
        assert (explorer.verdict(), explorer.sentence()) == (verdict, sentence)
        figure, shown = explorer.picture(), explorer.terms()
        assert figure.get_suptitle() == explorer.verdict()
        assert [ax.get_title() for ax in figure.axes] == ["x", "x − μ", "x̂", "y"]
        lanes = (explorer.x, shown.centered, shown.x_hat, shown.y)
        for ax, values in zip(figure.axes, lanes, strict=True):
            heights = [bar.get_height() for bar in ax.patches if bar.get_width() == 0.62]
            assert heights == ([] if math.isnan(values[0]) else list(values))
    assert len(RowExplorer(x=(1e7, -1e7) * 4, weight=-5, bias=8).png()) < 20_000


# --- the page ------------------------------------------------------------------------------------

# The bars of each of the four drawings, as [middle, where they start, where they end].
BARS = f"""async root => {{
    {DRAWN};
    return [0, 1, 2, 3].map(k => [...root.querySelector(`.ln-bars-${{k}}`).getAttribute('d')
        .matchAll(/M([-\\d.]+) ([-\\d.]+)h([-\\d.]+)V([-\\d.]+)/g)]
        .map(([, x, from, width, to]) => [+x + width / 2, +from, +to]));
}}"""
EACH = f"async root => {{{{ {DRAWN}; return [...root.querySelectorAll('{{}}')].map(e => {{}}); }}}}"
RINGS = EACH.format(".ln-handle", r"e.getAttribute('transform').match(/[-\d.]+/g).map(Number)")
VALUES = EACH.format(".ln-handle", "+e.getAttribute('aria-valuenow')")
HOT = EACH.format(".ln-hot", "e.getAttribute('d')")
RING = ".ln-handle >> nth={}"


@pytest.mark.parametrize("size", [(390, 640), (810, 560)])
@pytest.mark.parametrize("x", [BOOK, MIXED, (1e7, -1e7) * 4, (*BOOK[:7], 1e6)])
def test_bars_are_as_long_as_their_numbers(reader: Any, size: tuple[int, int], x: Any) -> None:
    explorer = RowExplorer(x=x, weight=-2.5, bias=1.5)
    someone = reader(viewport={"width": size[0], "height": 800})
    page = someone.alone(explorer)
    shown, bars = explorer.terms(), page.evaluate(BARS)
    bands = [one.get_attribute("d") for one in page.locator(".ln-band").all()]
    means = [one.get_attribute("d") or "" for one in page.locator(".ln-mean").all()]
    middles = (shown.mean, 0, 0, 1.5)
    spreads = (shown.std, shown.std, shown.spread, 2.5 * shown.spread)
    for k, values in enumerate((x, shown.centered, shown.x_hat, shown.y)):
        drawn = bars[k]
        most = max(range(8), key=lambda i: abs(values[i]))
        unit = (drawn[most][1] - drawn[most][2]) / values[most]
        assert unit > 0
        lengths = [start - end for _, start, end in drawn]
        assert lengths == pytest.approx([v * unit for v in values], abs=0.3)
        if x in (BOOK, MIXED):  # else a band is cut off at the ends of its axis
            zero, height = drawn[0][1] - middles[k] * unit, spreads[k] * unit
            edges = [float(v) for v in re.findall(r"(?:V|^M\S+ )([-\d.]+)", bands[k])]
            assert edges == pytest.approx([zero - height, zero + height], abs=0.3)
            assert k == 2 or float(means[k].split()[1].partition("H")[0]) == pytest.approx(
                zero, abs=0.3
            )
    for (ring_x, ring_y), (bar_x, _, end) in zip(page.evaluate(RINGS), bars[0], strict=True):
        assert (ring_x, ring_y) == pytest.approx((bar_x, end), abs=0.2)
    for v, label in zip(x, page.locator(".ln-number").all(), strict=True):
        assert (float(label.get_attribute("y")) > 0) == (v < 0)  # beyond the end of its bar
    if size[0] > 600:  # side by side, the bars of x − μ end where those of x do
        assert [b[2] for b in bars[1]] == pytest.approx([b[2] for b in bars[0]], abs=0.2)
    lines = re.findall(r" ([\d.]+)H", page.locator(".ln-bound").get_attribute("d"))
    (_, zero, end), one = bars[2][7], shown.x_hat[7] / math.sqrt(7)
    assert [float(v) for v in lines] == pytest.approx(
        [zero + s * (end - zero) / one for s in (-1, 1)], abs=1
    )
    for target in page.locator(".ln-handle .ln-target").all():
        box = target.bounding_box()
        assert box["height"] == pytest.approx(44, abs=0.1)
        assert box["width"] == pytest.approx(bars[0][1][0] - bars[0][0][0], abs=0.2)
    assert someone.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.locator(".ln-explorer").bounding_box()["height"] <= size[1]


HIDDEN = "root => root.querySelectorAll('text[visibility=hidden]').forEach(t => t.remove())"


@pytest.mark.parametrize("width", [320, 390, 1000])
def test_no_word_lies_on_another(reader: Any, width: int) -> None:
    someone = reader(viewport={"width": width, "height": 800})
    for x in (BOOK, MIXED, FLAT, OUTLIER, (5,) * 8, (*BOOK[:7], 1e6), (1e7, -1e7) * 4):
        for weight, bias in ((1, 0), (-2.5, 1.5), (0.05, -8)):
            page = someone.alone(RowExplorer(x=x, weight=weight, bias=bias))
            page.evaluate(HIDDEN)
            assert page.locator(".ln-explorer").evaluate(OVERLAPS) == [], (x, weight)


def test_the_buttons_move_the_row_and_not_always_x_hat(reader: Any) -> None:
    page = reader(**DESK).alone(RowExplorer())
    verdict, before = page.locator(".ln-verdict"), page.evaluate(BARS)

    def press(name: str) -> Any:
        page.get_by_role("button", name=name, exact=True).click()
        return page.evaluate(VALUES)

    for name, x in (("×10", [10 * v for v in BOOK]), ("+100", [10 * v + 100 for v in BOOK])):
        assert press(name) == x
        assert page.locator(".ln-number").all_text_contents() == [number(v) for v in x]
        assert page.evaluate(BARS)[2:] == before[2:]
        assert verdict.inner_text() == "The row moved, x̂ did not"
    press("Reset")
    assert press("One feature → 10⁶") == [*BOOK[:7], 1e6]
    assert verdict.inner_text() == "The others crowd near −0.378"
    assert press("×10")[7] == 1e7
    assert page.get_by_role("button", name="×10").is_disabled()  # x goes no further
    press("Reset")
    assert press("Flatten to σ = 10⁻⁴") == pytest.approx(FLAT, rel=1e-14)
    assert verdict.inner_text() == "ε decides: x̂ has spread 0.0316"
    press("Reset")
    assert page.evaluate(BARS) == before


def test_the_table_and_the_fields_are_in_the_fold(reader: Any) -> None:
    explorer = RowExplorer(x=MIXED, weight=-2.5, bias=1.5, eps=1)
    page, shown = reader(**DESK).alone(explorer), explorer.terms()
    assert not page.locator("input").first.is_visible()
    page.locator("summary").click()
    columns = [
        [*explorer.x, shown.mean, shown.std],
        [*shown.centered, 0, shown.std],
        [*shown.x_hat, 0, shown.spread],
        [*shown.y, 1.5, 2.5 * shown.spread],
    ]
    rows = page.locator(".ln-table tbody tr").all()
    written = [one.locator("td").all_inner_texts() for one in rows]
    assert written == [[number(v) for v in values] for values in zip(*columns, strict=True)]
    fields = page.locator("input[type=number]").all()
    assert [float(one.input_value()) for one in fields] == [1, -2.5, 1.5]
    for field, value in zip(fields, ("0", "2", "-3"), strict=True):
        field.fill(value)
        field.press("Enter")
        assert page.evaluate(VALUES) == list(MIXED)
    shown = RowExplorer(x=MIXED, eps=0, weight=2, bias=-3).terms()
    written = [one.locator("td").last.inner_text() for one in rows[:8]]
    assert written == [number(v) for v in shown.y]


def test_links_in_the_text_set_nudge_and_read_it(reader: Any) -> None:
    someone = reader(**DESK)
    page = someone.alone(RowExplorer())
    page.evaluate(LISTEN)
    told = "['eps', 'bias', 'mean', 'std', 'spread', 'largest'].map(name => told.numbers()[name])"
    page.evaluate(SEND, ["ln-set", "x=0,0,0,0,0,0,0,8&eps=0&bias=99"])
    assert someone.page.evaluate(told) == ["0", "8", "1", "2.65", "1", "2.65"]
    assert page.locator(".ln-flash").count() == 5  # x, ε and β in the picture, and two fields
    page.evaluate(SEND, ["ln-set", "x=1,2,3"])  # cut short: nothing is set
    assert page.evaluate(VALUES) == list(BOOK)
    for trait, by in (("eps", 1), ("weight", 10), ("bias", -1)):
        page.evaluate(SEND, ["ln-nudge", {"trait": trait, "by": by}])
    assert someone.page.evaluate(told)[:2] == ["1.12e-5", "−0.1"]
    assert someone.page.evaluate("told.numbers().weight") == "2"
    page.evaluate(SEND, ["ln-set", "x=5,5,5,5,5,5,5,5&eps=0"])
    assert someone.page.evaluate(told)[4:] == ["NaN", "NaN"]
    assert page.evaluate(BARS)[2:] == [[], []]
    assert page.locator("svg").inner_html().count("NaN") == 2  # the words, and no number of a path


# --- the hand ------------------------------------------------------------------------------------


@pytest.mark.parametrize("down", [-60, 30, -200])
def test_a_finger_drags_a_bar_as_the_mouse_does_and_the_page_stays(reader: Any, down: int) -> None:
    hand = Hand(reader, RowExplorer())
    start, top, before = hand.middle_of(RING.format(2)), hand.scrolled(), hand.root.evaluate(BARS)
    hand.stroke(start, 12, down)
    hand.settle()
    by_finger, after = hand.root.evaluate(VALUES), hand.root.evaluate(BARS)
    assert hand.page.evaluate("canceled") == 0
    assert hand.scrolled() == top
    assert by_finger[:2] + by_finger[3:] == [*BOOK[:2], *BOOK[3:]]
    assert all(old[2] != new[2] for old, new in zip(before[2], after[2], strict=True))  # all of x̂
    hand.reset()
    assert hand.root.evaluate(VALUES) == list(BOOK)
    hand.drag(hand.middle_of(RING.format(2)), 12, down)
    assert hand.root.evaluate(VALUES) == by_finger


@pytest.mark.parametrize(("right", "down"), [(0, 40), (-80, 5), (-60, 170)])  # bar, air, x̂
def test_beside_a_ring_a_finger_scrolls_the_page(reader: Any, right: int, down: int) -> None:
    hand = Hand(reader, RowExplorer(x=(2, 4, 4, 4, 5, 5, 7, 40)))
    first = hand.state()
    (x, y), top = hand.middle_of(RING.format(7)), hand.scrolled()
    hand.stroke((x + right, y + down), 3, -160)
    hand.page.wait_for_function("top => scrollY > top", arg=top, timeout=5000)
    assert hand.state() == first


def test_a_bar_follows_the_mouse_taken_anywhere_and_its_axis_stretches(reader: Any) -> None:
    hand = Hand(reader, RowExplorer(), **DESK)
    x, y = hand.middle_of(RING.format(7))
    (_, zero, end), ring = hand.root.evaluate(BARS)[0][7], hand.root.evaluate(RINGS)[7]
    unit = (zero - end) / 9
    mouse = hand.page.mouse
    mouse.move(x, y + 50)  # within the bar, below its ring
    mouse.down()
    # Beyond the axis the bar stays at its edge.
    for by, edge in ((-40, None), (-300, 48), (200, 204), (20, None), (0, None)):
        mouse.move(x, y + 50 + by)
        assert hand.root.evaluate(VALUES)[7] == pytest.approx(9 - by / unit, abs=0.06)
        place = hand.root.evaluate(RINGS)[7][1]
        assert place == pytest.approx(ring[1] + by if edge is None else edge, abs=0.8)
    mouse.move(x, y + 50 - 300)
    assert "20" in hand.root.locator(".ln-name").all_text_contents()  # a tick
    mouse.up()
    mouse.move(x, y)
    assert hand.root.evaluate(VALUES)[7] == pytest.approx(9 + 300 / unit, abs=0.06)
    assert hand.root.evaluate(RINGS)[7][1] == pytest.approx(48, abs=0.1)
    hand.root.get_by_role("button", name="×10").click()  # a new row: there is room to grow again
    assert hand.root.evaluate(RINGS)[7][1] > 80


def test_the_feature_under_the_pointer_or_the_focus_is_outlined_in_all_four(reader: Any) -> None:
    hand = Hand(reader, RowExplorer(), **DESK)
    assert hand.root.evaluate(HOT) == [""] * 4
    hand.page.mouse.move(*hand.middle_of(RING.format(6)))
    seventh = hand.root.evaluate(HOT)
    assert all(seventh)
    hand.page.mouse.move(5, 5)
    assert hand.root.evaluate(HOT) == [""] * 4
    hand.root.locator(RING.format(6)).focus()
    assert hand.root.evaluate(HOT) == seventh
    hand.root.locator("summary").focus()
    assert hand.root.evaluate(HOT) == [""] * 4


def test_keys_move_a_bar_and_lead_back_exactly(reader: Any) -> None:
    hand = Hand(reader, RowExplorer(), **DESK)
    bar = hand.root.locator(RING.format(7))
    hand.middle_of(RING.format(7))
    top = hand.scrolled()
    for key, value in (
        *[("ArrowUp", 9.1), ("ArrowRight", 9.2), ("ArrowDown", 9.1), ("ArrowLeft", 9)],
        *[("Shift+ArrowUp", 10), ("PageDown", 9), ("End", 1e7), ("Home", -1e7)],
    ):
        bar.press(key)
        assert hand.root.evaluate(VALUES) == [*BOOK[:7], value]
    assert bar.get_attribute("aria-valuetext") == "−1e7"
    assert hand.scrolled() == pytest.approx(top, abs=1)
    hand.reset()
    for key in 40 * ["Shift+ArrowUp"] + 40 * [
        "Shift+ArrowDown"
    ]:  # to where an axis has other steps
        bar.press(key)
    assert hand.root.evaluate(VALUES) == list(BOOK)
    hand.root.get_by_role("button", name="×10").click()
    for key in ("ArrowUp", "Alt+ArrowUp"):  # the latter is the browser's
        bar.press(key)
        assert hand.root.evaluate(VALUES)[7] == 91


def test_the_axis_follows_a_bar_that_keys_lead_beyond_it(reader: Any) -> None:
    hand = Hand(reader, RowExplorer(), **DESK)
    for _ in range(10):
        hand.root.locator(RING.format(7)).press("Shift+ArrowUp")
    assert hand.root.evaluate(VALUES)[7] == 19
    assert hand.root.evaluate(RINGS)[7][1] >= 48  # at first the axis ended at 15


def test_a_number_leads_eps_to_zero_and_nan_is_in_the_table(reader: Any) -> None:
    page = reader(**DESK).alone(RowExplorer(x=(5,) * 8, eps=1e-12, bias=3))
    page.locator("summary").click()
    means = page.locator(".ln-table tbody tr").nth(8).locator("td")
    assert means.all_inner_texts() == ["5", "0", "0", "3"]
    page.evaluate(SEND, ["ln-nudge", {"trait": "eps", "by": -1}])
    assert page.locator("input[type=number]").first.input_value() == "0"
    assert means.all_inner_texts() == ["5", "0", "NaN", "NaN"]


def test_a_long_number_stands_over_the_bar_that_has_the_focus(reader: Any) -> None:
    page = reader(**DESK).alone(RowExplorer(x=(-12345, *BOOK[1:])))
    shown = page.locator(".ln-number").first
    assert shown.text_content() == ""
    page.locator(RING.format(0)).focus()
    assert shown.text_content() == "−12300"
