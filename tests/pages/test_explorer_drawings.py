"""What is about one explorer alone, not in test_explorer_contract.py: drawing, table, guess."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from goldens import DIMS, axes, camera, cell, depth, gamma_beta, sphere
from hand import DESK, PHONE, Hand

from lnlib.book import explorers

# The numbers in what draws a line, a bar or a ring; a tick has a height, and its number.
NUMBERS = r"""all => all.map(e => (e.getAttribute('d') ?? e.getAttribute('transform') ??
    `${e.getAttribute('y')} ${e.textContent}`).replace('−', '-').match(/-?[\d.]+/g).map(Number))"""
both_windows = pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
# For each kind of mark, the cells it lies on: 0 to 59 are x, 60 to 119 are x̂. Then their numbers.
MARKED = """root => ['.ln-group', '.ln-lit', '.ln-corner', '.ln-changed', '.ln-ring'].map(kind => {
    const [cells, marks] = ['.ln-tint', kind].map(css => [...root.querySelectorAll(css)].map(
        e => e.checkVisibility({ visibilityProperty: true }) ? e.getBoundingClientRect() : {}));
    return cells.flatMap((c, i) => marks.some(m => m.left + 4 < c.right && c.left + 4 < m.right
        && m.top + 4 < c.bottom && c.top + 4 < m.bottom) ? [i] : []);
}).concat([[...root.querySelectorAll('.ln-cell')].map(e => +e.textContent.replace('−', '-'))])"""


@both_windows
def test_frames_marks_and_numbers_stand_on_the_cells_of_the_norm(reader: Any, size: Any) -> None:
    block = {"sample": 2, "channel": 3, "position": 4, "changed": 3, "change": -0.5}
    hand = Hand(reader, explorers.AxesExplorer(**block), **size)
    for norm in DIMS:
        hand.root.locator(f"input[value={norm}]").check()
        due = axes(norm, **block)
        shared = [*due["places"].tolist(), *(60 + due["places"]).tolist()]
        moved = (60 + due["marks"].nonzero()[:, 0]).tolist()
        told = pytest.approx([v for row in due["now"][:2] for v in row.tolist()], abs=0.051)
        seen = [shared, shared, moved, [*range(40, 60)], [33, 93], told]
        assert hand.root.evaluate(MARKED) == seen
    assert hand.words("td").endswith(" – – 4.64 4.64 −0.431 −0.431")


def test_after_a_guess_a_tap_selects_an_output_which_the_table_tells(reader: Any) -> None:
    hand = Hand(reader, explorers.AxesExplorer(norm="group"), guess=True, **PHONE)
    assert hand.root.evaluate(MARKED)[:5] == [[], [], [], [*range(20, 40)], []]
    bets = [hand.root.get_by_role("button", name=f"Outputs of sample {n} will") for n in (1, 2, 3)]
    for n in (0, 2, 0):  # a second tap takes the first back
        bets[n].click()
    assert [bet.get_attribute("aria-pressed") for bet in bets] == ["false", "false", "true"]
    hand.root.get_by_role("button", name="See").click()
    assert "You said sample 3; sample 2 moved." in hand.root.text_content()
    for tapped in (".ln-tint >> nth=80", "text=input x"):  # of x̂, and a title, which is no cell
        hand.page.touchscreen.tap(*hand.middle_of(tapped))
        assert " 3.15 4.95 1.66 4.56 " in hand.words("td")
    assert [hand.numbers()[name] for name in ("mean", "std", "moved")] == ["4.95", "4.56", "20"]


# The heights of bars, and where arrows have their heads: 0 is at the step, 1 at what it uses.
HEIGHTS = r"""all => all.flatMap(e => [...(e.getAttribute('d') ?? '').matchAll(
    / (\S+?)h\S+?V([-\d.]+)/g)].flatMap(([, from, to]) => from - to))"""
HEADS = r"""all => all.map(e => e.previousSibling.getAttribute('d').slice(1).split('L').indexOf(
    e.getAttribute('transform').match(/[\d.]+/g).slice(0, 2).map(Number).join(' ')))"""


def test_dx_is_drawn_without_an_arrow_and_a_ring_goes_as_far_as_the_mouse(reader: Any) -> None:
    hand = Hand(reader, explorers.BackwardExplorer(step=10, forget="var-centered"))
    sixths = [-4, 8, -2, 6, *[-2] * 4, *[0] * 4, -6, 6, -4, 4, -3, 7, -3, -1]  # g … dx, the true dx
    heights = hand.root.locator(".ln-work path").evaluate_all(HEIGHTS)
    assert heights == pytest.approx([max(heights) / 8 * v for v in sixths], abs=0.3)
    dx = "−0.667 0.667 1 −3 −1 −2 −0.667 −1"
    assert hand.words(".ln-work .ln-cell, .ln-table td").split()[14:22] == dx.split()
    low, high = (hand.root.locator(f"[aria-label$='{i} of dy']").bounding_box()["y"] for i in "12")
    hand.drag(hand.middle_of("[aria-label$='2 of dy']"), 0, 15)
    value = hand.root.locator("[aria-label$='2 of dy']").get_attribute("aria-valuenow")
    assert float(value) == pytest.approx(2 - 15 * 4 / (low - high), abs=0.11)


def test_each_step_back_turns_an_arrow_and_one_can_be_forgotten(reader: Any) -> None:
    hand = Hand(reader, explorers.BackwardExplorer(), **DESK)
    pressed = [(0, "Enter", 1), (1, "Enter", 0), (2, "Enter", 10), (2, "ArrowRight", 9)]
    for nth, key, step in (*pressed, (0, "End", 0), (1, "ArrowLeft", 1), (2, "Home", 10)):
        hand.root.locator(".ln-stepper button").nth(nth).press(key)
        hand.root.get_by_text(f"{step} of 10", exact=True).wait_for()
        assert hand.root.locator(".ln-head-of").evaluate_all(HEADS) == [i < step for i in range(9)]
    hand.root.get_by_role("button", name="Forget y → s").click()
    assert hand.verdict() == "Without y → s, −x̂·mean(g x̂) is missing from dx"
    hand.root.get_by_text("dy = y, γ = 1").dispatch_event("click")
    assert hand.verdict() == "Along x̂ only ε/s² = 0.1 of g/s is left"


CELL = {"scale": 8.0, "norm": "none", "row": 7, "eps": 1e-5, "blank": 2, "bias": "random"}
BARS = r"""root => Object.fromEntries([...root.querySelectorAll('.ln-frame + .ln-bars')].map(e => {
    const [x, y, w] = e.previousSibling.getAttribute('d').match(/[\d.]+/g).map(Number);
    const name = [...root.querySelectorAll('svg .ln-name')].find(({ attributes: a }) =>
        x <= a.x.value && a.x.value <= x + w && y - 6 < a.y.value && a.y.value < y);
    const [, zero, ...ends] = e.getAttribute('d').split(/[ V]/).map(parseFloat);
    return [name.textContent, ends.slice(0, -1).map(v => (zero - v) / (zero - y))];
}))"""  # the name over each strip of the step, and the numbers of its bars
LENGTHS = r"all => all.flatMap(e => e.getAttribute('d').match(/(?<=h)[-\d.]+(?=v)/g).map(Number))"


def test_bars_are_as_long_as_the_numbers_of_their_names(reader: Any) -> None:
    root, run = Hand(reader, explorers.CellExplorer(**CELL), **DESK).root, cell(**CELL)
    before, now = run["steps"][5:7]
    due = dict(zip(("i", "f", "c̃", "o"), now["gates"], strict=True)) | {"ht−1": before["h"]}
    due |= {"ht": now["h"], "ct−1": before["carried"] / 5, "ct": now["carried"] / 5}  # up to ±5
    assert root.evaluate(BARS) == {k: pytest.approx(v.tolist(), abs=4e-3) for k, v in due.items()}
    assert sum(cap.get_attribute("d").count("M") for cap in root.locator(".ln-caps").all()) == 13
    lengths = (run["sizes"] * 44 / 1.2).tolist() + (run["gradients"].log10() * 72 / 4).tolist()
    bars = root.locator(".ln-axis ~ .ln-bars")
    assert bars.evaluate_all(LENGTHS) == pytest.approx(lengths, abs=0.1)


def test_a_tap_or_an_arrow_chooses_a_row_and_the_carry_puts_the_norm(reader: Any) -> None:
    hand = Hand(reader, explorers.CellExplorer(**CELL), **PHONE)
    hand.root.locator(".ln-rows").tap(position={"x": 60, "y": 89})  # row 9, each 10.5 px high
    hand.root.locator(".ln-handle").press("ArrowUp")
    assert {"saturated": "11", "size": "0.842", "first": "3.66"}.items() <= hand.numbers().items()
    assert "gate i0.02570.9690.298gate f" in hand.root.locator(".ln-table").text_content()
    for carry, top, told in (("raw", "51", "÷ 0.49"), ("normalized", "23", "÷ 0.6")):
        hand.tell(f"norm={carry}")  # on the way out, or on the line of the cell
        assert hand.root.locator(".ln-norm-box rect").last.get_attribute("y") == top
        assert hand.root.locator(".ln-divisor").last.text_content() == told
        assert f"÷ {float(hand.numbers()['divisor']):.2g}" == told


POINTS = r"""(root, css) => {
    const tick = words => [...root.querySelectorAll('.ln-tick')].find(e => e.textContent === words);
    const [zero, fifty] = ['layer 0', '50'].map(words => +tick(words).getAttribute('x'));
    const [one, million] = ['1', '10⁶'].map(words => tick(words).getAttribute('y') - 4);
    return [...root.querySelectorAll(css)].map(line => [...line.getAttribute('d').matchAll(
        /[ML]([\d.]+) ([\d.]+)(h4)?/g)].flatMap(([, x, y, square]) => [
            50 * (+x + (square ? 2 : 0) - zero) / Math.abs(fifty - zero),
            6 * (one - y - (square ? 2 : 0)) / Math.abs(million - one)]));
}"""  # the points of each line as the ticks tell them: layers, and powers of ten


@both_windows
def test_lines_and_marks_stand_at_their_numbers(reader: Any, size: Any) -> None:
    hand = Hand(reader, explorers.DepthExplorer(), **size)
    for order, scale, count in ("none", 1.2, 50), ("none", 0.7, 23), ("relu_first", 4, 50):
        hand.tell(f"order={order}&scale={scale}&depth={count}")
        lines = [line for both in depth(order, scale, count).values() for line in both.log10()]
        due = [[v for point in enumerate(line.tolist()) for v in point] for line in lines]
        drawn = hand.root.evaluate(POINTS, "svg :is(.ln-curve, .ln-seen)")
        assert drawn == [pytest.approx(line, abs=0.02) for line in due]  # 0.1 px


def test_a_guess_stays_as_long_as_its_state_and_the_table_tells_both(reader: Any) -> None:
    hand = Hand(reader, explorers.DepthExplorer(), guess=True, **DESK)
    hand.drag(hand.middle_of("[aria-label^=Your]"), 0, -47)  # half of the way up to 10¹²
    hand.root.get_by_role("button", name="See").click()
    assert "You said 1e6 at layer 50." in hand.root.locator(".ln-answer").text_content()
    assert hand.root.evaluate(POINTS, ".ln-rule")[1] == pytest.approx([0, 0, 50, 6], abs=0.02)
    assert hand.root.locator(".ln-title").get_by_text("your guess").is_visible()  # on no line
    hand.root.locator("[aria-label^=Number]").press("ArrowDown")  # one layer less
    assert hand.root.locator(".ln-rule").count() == 1
    assert " 431 1470 5.36 5.16 –" in hand.words("td")
    hand.root.get_by_label("ReLU → norm").check()
    assert {"last": "1", "arrives": "11900", "growth": "1.21"}.items() <= hand.numbers().items()


def test_a_guess_is_taken_anywhere_and_asked_again_for_other_weights(reader: Any) -> None:
    hand = Hand(reader, explorers.DepthExplorer(), guess=True, **PHONE)
    see = hand.root.get_by_role("button", name="See", exact=True)
    ring, (x, y) = hand.root.locator("[aria-label^=Your]"), hand.middle_of("[aria-label^=Your]")
    hand.page.touchscreen.tap(x, y)  # where it stands
    assert see.get_attribute("aria-disabled") == "false"
    hand.page.touchscreen.tap(x - 150, y + 94)  # 10⁻¹²
    ring.press("ArrowUp")
    assert ring.get_attribute("aria-valuetext") == "1.8e-12"
    for asked in ("A norm stands before each ReLU", "1 % too large", "20 % too small"):
        see.click()
        hand.root.get_by_role("button", name="Guess again").click()
        assert asked in hand.root.locator(".ln-ask").text_content()
        hand.drag(hand.middle_of(".ln-asking"), 0, 0)  # a press on the plot, at 1
    see.click()
    assert "1 at layer 50. It is 0.8⁵⁰ = 1.43e-5" in hand.root.locator(".ln-answer").text_content()
    ends = [hand.sentence()]
    for _ in range(4):
        hand.root.get_by_role("button", name="Another network").click()
        ends.append(hand.sentence())
    assert (len({*ends}), ends[0]) == (4, ends[4])


# The knee, the mark of σ and the points of the curve, as the axes have them: log₁₀ σ and variance.
CURVE = r"""root => {
    const all = name => [...root.querySelector('svg').querySelectorAll(name)];
    const [a, b, half, one] = [['10⁻⁵', 'x'], ['10⁻³', 'x'], ['½', 'y'], ['1', 'y']].map(
        ([words, at]) => +all('.ln-tick').find(e => e.textContent === words).getAttribute(at));
    return ['[data-trait=eps]', '.ln-mark', '.ln-curve'].map(name => all(name).at(-1))
        .flatMap(e => (e.getAttribute('transform') ?? e.getAttribute('d')).match(/\d[\d.]+/g))
        .map((p, i) => i % 2 ? 1 - (p - one + 4) / (half - one) / 2 : 2 * (p - a) / (b - a) - 5);
}"""


def test_knee_mark_and_curve_stand_where_the_axes_say_and_the_knee_is_dragged(reader: Any) -> None:
    hand, handle = Hand(reader, explorers.EpsilonExplorer(spread=1e-2), **DESK), "[data-trait=eps]"
    knee, half, *points = hand.root.evaluate(CURVE)
    assert [knee, half, *points[:2]] == pytest.approx([-4, 0.5, -2, 1], abs=0.02)
    variances = [1 / (1 + 1e-8 / 100**log_spread) for log_spread in points[::2]]  # ε = 1e-8
    assert points[1::2] == pytest.approx(variances, abs=0.02)
    x, y = hand.middle_of(f".ln-handle{handle}")
    hand.drag((x, y), 40, 0)
    assert hand.middle_of(f".ln-handle{handle}")[0] == pytest.approx(x + 40, abs=1)
    tick = hand.root.locator("svg").first.get_by_text("10⁻⁵", exact=True).last.bounding_box()
    hand.page.mouse.click(tick["x"] + tick["width"] / 2, tick["y"] - 60)  # puts σ there
    sigma = hand.root.get_by_label("Spread σ (units of x), as a number")
    assert float(sigma.input_value()) == pytest.approx(1e-5, rel=0.03)  # a pixel


def test_fields_strips_table_and_readings_are_of_the_state(reader: Any) -> None:
    hand = Hand(reader, explorers.EpsilonExplorer(spread=0), **DESK)
    assert hand.words(".ln-wreck").strip() == "all 8 values are NaN"
    assert hand.words("label") == "Spread σ (units of x) Constant ε (units of x²)"
    hand.tell("eps=0&spread=0")  # without a number there is no dot
    assert hand.root.locator("svg").first.locator(".ln-mark").count() == 1
    hand.tell("eps=0.25&spread=0.5")
    assert hand.words(".ln-table td") == "0.5 × 1.41 0.444 × 1.33 0.5 × 1.41"
    assert {"variance": "0.5", "factor": "1.41", "knee": "0.5"}.items() <= hand.numbers().items()


PARTS = ".ln-dot[transform]", ".ln-stems", ".ln-band, .ln-mean"


def test_dots_stems_and_bands_are_where_the_axes_say(reader: Any) -> None:
    widget = explorers.GammaBetaExplorer(weight=[1] * 7 + [2], bias=[1] * 8)
    hand, lanes = Hand(reader, widget, **PHONE), gamma_beta(**widget.state())["lanes"].values()
    numbers = [np.concatenate(hand.root.locator(part).evaluate_all(NUMBERS)) for part in PARTS]
    parts = [part.reshape(4, -1) for part in numbers]
    grids = hand.root.locator(":has(>.ln-grid)").all()
    for v, grid, dots, stems, lines in zip(lanes, grids, *parts, strict=True):
        ticks = np.concatenate(grid.locator("text").evaluate_all(NUMBERS))
        slope, zero = np.polyfit(ticks[1::2], ticks[::2] - 4, 1)
        drawn = np.array([*dots[1::2], *stems[2::3], *lines[[3, 6, 1]]])  # low, mean, high
        band = [v.mean() + side * v.std(correction=0) for side in (-1, 0, 1)]
        assert (drawn - zero) / slope == pytest.approx(np.array([*v, *v, *band]), abs=0.05)
        assert dots[::2] == pytest.approx(stems[::3], abs=0.1)


def test_each_dot_follows_the_hand_and_a_ring_with_a_letter_moves_all(reader: Any) -> None:
    hand = Hand(reader, explorers.GammaBetaExplorer(weight=[3] * 8), **DESK)
    for trait, down in (("x", 12), ("weight", 11), ("bias", -20)):
        dot = hand.root.locator(f"[data-trait={trait}] .ln-handle").nth(6)
        x, y = hand.middle_of(f"[data-trait={trait}] .ln-handle >> nth=6")
        hand.drag((x, y), 5, down)
        assert dot.bounding_box()["y"] + 22 == pytest.approx(y + down, abs=0.1)
    hand.drag(hand.middle_of("[data-trait=weight] .ln-handle >> nth=8"), 0, 11)
    moved = "x=2,4,4,4,5,5,5.5,9&weight=2,2,2,2,2,2,1,2&bias=0,0,0,0,0,0,4.55,0"
    assert hand.page.evaluate("told.text") == moved
    hand.drag(hand.middle_of("[data-trait=weight] .ln-handle >> nth=0"), 0, -40)  # a longer axis
    assert hand.numbers()["weight"] == "2.25"
    hand.root.locator("[data-trait=weight] .ln-handle >> nth=8").press("ArrowUp")
    hand.sentence()
    assert hand.words("svg > .ln-moved") == "γ = 2.25; one is at 5, its end"


@both_windows
def test_bars_begin_where_the_last_ended_and_rings_stand_at_values(reader: Any, size: Any) -> None:
    even = explorers.JacobianExplorer(x=(1, 1, 5, 5), eps=12)  # s = 4: 1/4 − 1/16 − 1/64
    root = Hand(reader, even, **size).root
    zero, *bars = root.locator(".ln-paths .ln-axis, .ln-bar").evaluate_all(NUMBERS)
    ends = [(end - zero[0]) / abs(bars[0][2] - zero[0]) for bar in bars for end in bar[:3:2]]
    assert ends == pytest.approx([0, 1, 1, 3 / 4, 3 / 4, 11 / 16, 0, 11 / 16], abs=0.005)
    rows = root.locator("[aria-label^=Feature], .ln-mean, .ln-band").evaluate_all(NUMBERS)
    band, *places = (numbers[1::2] for numbers in rows)  # each feature is μ − σ or μ + σ
    high, low = sorted(band)
    assert [y for (y,) in places] == pytest.approx([sum(band) / 2, low, low, high, high], abs=0.1)


def test_after_a_guess_the_taps_are_marked_and_a_second_tap_goes_to_the_mirror(
    reader: Any,
) -> None:
    hand = Hand(reader, explorers.JacobianExplorer(), guess=True, **PHONE)
    for nth in (3, 0, 7):
        hand.root.locator(".ln-cell").nth(nth).click()
    hand.root.locator(".ln-cell").nth(7).press("Space")  # takes the tap back, as a second one does
    hand.root.get_by_role("button", name="See").click()
    answer = "You found 1 of the 7 zeros (○: missed), with 1 wrong tap (✗)."
    assert answer == hand.root.locator(".ln-answer").text_content()
    assert hand.words(".ln-tapped") == "✗ ✓ ○ ○ ○ ○ ○ ○"
    hand.root.locator(".ln-cell >> nth=4").click()
    assert hand.verdict() == "∂y₂/∂x₁ = −0.192, like its mirror"
    hand.page.touchscreen.tap(*hand.middle_of("[aria-label^=Output]"))
    assert hand.verdict() == "∂y₁/∂x₂ = −0.192, like its mirror"
    assert hand.words(".ln-tapped")[:3] == "✗ ✓"
    hand.tell("x=1,2,3,10")
    assert hand.words(".ln-tapped") == ""


def test_a_picked_number_lies_beside_its_mirror_and_tables_have_both(reader: Any) -> None:
    hand = Hand(reader, explorers.JacobianExplorer(x=(1, 1, 5, 5), weight=(1, 2, 0, 0)), **DESK)
    _, *sums = hand.root.locator(".ln-table td").all_text_contents()[:26]
    assert " ".join(sums) == "0.25 −0.25 0 0 0 −0.5 0.5 0 0 0 0 0 0 0 0 0 0 0 0 0 −0.25 0.25 0 0 0"
    assert hand.root.locator(".ln-entry").all_text_contents() == [*sums[:4], *sums[5:9], *8 * "0"]
    hand.root.locator(".ln-cell >> nth=9").click()
    for key in ("ArrowUp", "ArrowLeft"):
        hand.root.locator("[aria-label^=Output]").press(key)
    hand.sentence()
    assert {"entry": "−0.5", "mirror": "−0.25", "direct": "0"}.items() <= hand.numbers().items()
    for part, nth in ((".ln-mirror", 1), ("rect.ln-ring", 4)):
        pair = (hand.root.locator(part), hand.root.locator(".ln-cell rect").nth(nth))
        mark, box = (one.bounding_box() for one in pair)
        assert [mark["x"], mark["y"]] == pytest.approx([box["x"], box["y"]], abs=3)


# The ends of the bars and of the band of each of the four, by where it writes 0 and another number.
ENDS = r"""(root, others) => others.flatMap(([words, value], k) => {
    const panel = root.querySelectorAll('.ln-panel')[k];
    const labels = Object.fromEntries([...panel.querySelectorAll('.ln-name')]
        .map(e => [e.textContent, e.getAttribute('y') - 4]));
    const d = name => panel.querySelector(name).getAttribute('d').match(/-?[\d.]+/g);
    return [...d('.ln-bars').filter((_, i) => i % 5 === 3), d('.ln-band')[1], d('.ln-band')[3]].map(
        y => (y - labels[0]) / (labels[words] - labels[0]) * value);
})"""


def test_bars_and_bands_keep_to_the_axes_and_a_bar_is_taken_by_a_mouse_alone(reader: Any) -> None:
    x, x_hat = [2, 4, 4, 4, 5, 5, 7, 9], [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2]
    ends = [*x, 7, 3, *(v - 5 for v in x), 2, -2, *x_hat, 1, -1, *(6 - v for v in x_hat), 7, 5]
    for size in (DESK, PHONE):
        hand = Hand(reader, explorers.RowExplorer(weight=-1, bias=6), **size)
        drawn = hand.root.evaluate(ENDS, [("10", 10), ("−σ", -2), ("√7", 7**0.5), ("β", 6)])
        assert drawn == pytest.approx(ends, abs=0.1)
    hand.drag(hand.middle_of(".ln-body >> nth=7"), 0, -200)  # beyond the axis, which grows
    assert hand.root.evaluate(ENDS, [("20", 20)])[:7] == pytest.approx(x[:7], abs=0.2)
    start, top, before = hand.middle_of(".ln-body >> nth=7"), hand.scrolled(), hand.state()
    hand.stroke(start, 3, -160)
    assert (hand.state(), hand.scrolled() > top + 30) == (before, True)


def test_x_hat_stands_still_under_mu_and_sigma_and_else_has_a_ghost(reader: Any) -> None:
    hand = Hand(reader, explorers.RowExplorer(weight=-2, bias=3), **DESK)
    x_hat, ghost = (hand.root.locator(f".ln-{css}") for css in ("bars.ln-s", "ghost"))
    first, told = x_hat.get_attribute("d"), "That moved the row, but not x̂"
    for ring in ("Mean", "Spread"):
        hand.drag(hand.middle_of(f"[aria-label^={ring}]"), 0, -52)  # 5 on the axis
        assert (hand.verdict(), x_hat.get_attribute("d"), ghost.count()) == (told, first, 0)
    assert hand.words(".ln-table td").endswith(" 24 14 2 −1 10 0 0 3 7 7 1 2")  # feature 8, μ, σ
    hand.tell("x=2,4,4,24,5,5,7,9&eps=0.1")
    assert [*hand.numbers().values()][-4:] == ["7.5", "6.54", "0.999", "2.52"]
    assert (hand.verdict(), ghost.get_attribute("d")) == (
        "The others span 1.1, not 3.5 (outline)",
        first,
    )


SPHERE = {"x": (0.4, 1.3, -0.9), "weight": (2, 1, 0.5), "bias": (0, 1, 0), "eps": 1e-5, "turn": 20}
# The circle of radius √3; the shadow of x, x̂, y and x; the ellipse.
ROUND = ".ln-circle:not(.ln-faint)", ".ln-free, .ln-mark", ".ln-ellipse:not(.ln-thin)"
OUTLINES = r"""(root, parts) => parts.map(part => [...root.querySelectorAll(part)].flatMap(
    e => (e.getAttribute('transform') ?? e.getAttribute('d')).match(/\d[\d.]+/g).map(Number)))"""


def test_points_are_where_the_camera_sees_them_and_turn_with_the_hand(reader: Any) -> None:
    hand = Hand(reader, explorers.SphereExplorer(**SPHERE), **DESK)
    terms, cells = sphere(**SPHERE)["rows"][0], hand.words("td")
    assert cells.startswith(" 1.46 −0.863 −0.597 −0.431 ")  # ∂y₁/∂x, then ∂y₂/∂x₁
    assert cells.endswith(" 0.903 0.903 1 1.16 1.63 1.56 1.73 2.26")  # std and length of all four
    points = np.stack([terms["ofX"]["centered"], terms["xHat"], terms["y"], terms["x"]])
    for turn in (20, 0):
        (left, up, radius, *_), marks, dots = hand.root.evaluate(OUTLINES, ROUND)
        right_and_down = points @ camera(turn)[:2].numpy().T * [1, -1]
        seen = right_and_down * radius / 3**0.5 + [left + radius, up]
        assert np.reshape(marks, (4, 2)) == pytest.approx(seen, abs=0.5)
        assert np.hypot(*(np.reshape(dots, (-1, 2)) - seen[2]).T).min() < 5
        x, y = hand.middle_of(".ln-back")
        hand.drag((x + 200, y - 50), 40, 0)  # by 20 degrees


def test_x_hat_leaves_a_trail_during_a_guess_unless_x_goes_up(reader: Any) -> None:
    hand = Hand(reader, explorers.SphereExplorer(), guess=True, **DESK)
    see, (x, y) = hand.root.get_by_role("button", name="See"), hand.middle_of(".ln-back")
    hand.drag((x + 200, y - 50), 40, 0)  # to look from elsewhere is no guess
    assert see.is_disabled()
    for right, down, least, most in ((0, -50, 1, 1), (60, 0, 4, 99)):  # up is along (1, 1, 1)
        hand.drag(hand.middle_of(".ln-handle:has(.ln-pill)"), right, down)
        assert least <= hand.root.locator(".ln-trail").get_attribute("d").count("M") <= most
    found = hand.root.locator("svg > g > .ln-moved").first
    assert found.text_content() == "1 of 2 found: (1, 1, 1)"
    both = "2 of 2 found: (1, 1, 1) and x − μ"
    for part, told in ((0.15, "1 of 2 found: (1, 1, 1)"), (0.4, both)):  # of the way to the middle
        x, y = hand.middle_of(".ln-handle:has(circle.ln-ring)")
        box = hand.root.locator("svg").first.bounding_box()
        hand.drag((x, y), part * (box["x"] + box["width"] / 2 - x), part * (box["y"] + 212 - y))
        assert found.text_content() == told
    see.click()
    assert hand.root.locator(".ln-answer").text_content().endswith("You found both.")


# The rows, of two numbers each, that are in boxes of some kind.
ROWS = """(all, kind) => all.flatMap((e, i) => i % 2 === 0 && [...document.querySelectorAll(
    `svg path${kind}`)].some(path => path.isPointInFill(
        { x: +e.getAttribute('x'), y: +e.getAttribute('y') })) ? [i / 2] : [])"""


@both_windows
def test_tiles_have_the_color_of_their_program_and_corners_to_drag(reader: Any, size: Any) -> None:
    widget = explorers.TilesExplorer(kernel="backward", rows=9, features=2, tile=4, step=2)
    hand = Hand(reader, widget, **size)
    cells = hand.root.locator("svg .ln-cell")
    kinds = (".ln-cell-box.ln-blue", ".ln-cell-box.ln-vermillion", ".ln-now")
    found = [cells.evaluate_all(ROWS, kind) for kind in kinds]
    assert found == [[0, 1, 2, 3, 8, 9], [4, 5, 6, 7, 10], [8]]
    hand.tell("step=4")  # the first sum is added
    assert cells.evaluate_all(ROWS, ".ln-now") == [9, 11]
    sums, table = "1.7 1.7 −1 −0.7 1.7 1.7", "1.75 −1 1.75 0.75 1.75 −0.75 1.75 1"
    assert hand.words("svg .ln-cell, .ln-table td").endswith(f" −0.7 0.7 {sums} {table}")
    hand.tell("kernel=forward&padding=counted&rows=7&features=6&tile=2&step=1")
    drags = "Tile 30 0 7 6 2 16 40,Tile -300 45 7 6 4 8 22,Array 84 -90 3 9 4 8 37"
    for part, right, down, *seen in map(str.split, drags.split(",")):
        hand.drag(hand.middle_of(f"[aria-label={part}]"), int(right), int(down))
        verdict, told = hand.verdict(), hand.numbers()
        assert [told[name] for name in ("rows", "features", "tile", "lanes", "idle")] == seen
    assert verdict == "σ² is wrong: 21 padded lanes count"


def test_numbers_of_padded_lanes_and_long_rows_and_the_way_back(reader: Any) -> None:
    hand = Hand(reader, explorers.TilesExplorer(rows=3, programs=1, padding="counted"), **DESK)
    beside = "6.15 6.33 2.81 5.18 −0.7 −0.7 −2.7 −2.7"  # σ², wrong σ² and −μ
    assert hand.words(".ln-beside, .ln-wrong, .ln-lane") == beside
    assert hand.words(".ln-table td") == "0.75 6.15 6.33 2.67 2.81 5.18 – – –"
    for step in (2, 9):  # the first sweep ends with the second, and the fourth is the last
        hand.tell(f"kernel=long&rows=2&lanes=4&step={step}")
        assert hand.words(".ln-table td") == "0 36.9 0.75 6.15 −2.75 18.1 2.67 2.81"
    hand.root.get_by_role("button", name="Back", exact=True).click()
    assert hand.sentence().startswith("Sweep 2, right to left: each program reads features 4 and 5")
    assert [hand.numbers()[name] for name in ("read", "written", "idle")] == ["32", "8", "4"]
    for key, step in (("End", 4), ("Home", 0), ("ArrowRight", 1)):
        hand.root.get_by_role("button", name="Next").press(key)
        hand.root.get_by_text(f"{step} of 4", exact=True).wait_for()


def test_down_and_right_go_to_the_next_row_of_a_guess(reader: Any) -> None:
    hand = Hand(reader, explorers.TilesExplorer(), guess=True, **DESK)
    ring = hand.root.locator("[aria-label^=Your]")
    for key, row in (("ArrowDown", 1), ("ArrowRight", 2), ("ArrowUp", 1), ("ArrowLeft", 0)):
        ring.press(key)
        assert ring.get_attribute("aria-valuetext") == f"row {row}"
