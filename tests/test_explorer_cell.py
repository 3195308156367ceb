"""The explorer of the LSTM: its arithmetic against `lnlib.lstm` and autograd, and the page."""

from __future__ import annotations

import math
import re
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from test_explorer_gamma_beta import OVERLAPS
from test_explorer_hands import DESK, PHONE, TELL, Hand
from torch import nn

from conftest import DRAWN, LISTEN
from lnlib.book.explorers import CellExplorer
from lnlib.book.explorers.base import number
from lnlib.book.explorers.cell import ROWS, SIZE, WEIGHTS, digit, saturated, size, tanh
from lnlib.lstm import formula
from lnlib.lstm.weights import Weights

EXPLODES: dict[str, Any] = {"blank": 5, "bias": "zero", "row": 3}
STATES: list[dict[str, Any]] = [
    *(
        {"norm": norm, "scale": scale, "bias": bias}
        for norm, scale, bias in product(
            ("raw", "normalized", "none"), (0.1, 1.0, 8.0), ("random", "zero")
        )
    ),
    *({"norm": norm, "blank": 5, "bias": "zero"} for norm in ("raw", "normalized", "none")),
    *({"norm": "raw", "blank": 0, "eps": eps} for eps in (1.0, 1e-12)),
    *({"norm": "normalized", "blank": 0, "eps": eps} for eps in (1.0, 1e-12)),
    {"norm": "none", "scale": 100.0},
    {"blank": 5, "bias": "zero", "eps": 0.01},  # an explosion that is only just one
    {"blank": 5, "bias": "zero", "eps": 1e-12, "scale": 100.0},
]

# --- arithmetic ----------------------------------------------------------------------------------


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def oracle(explorer: CellExplorer) -> tuple[list[torch.Tensor], list[float]]:
    """Return h after each row, and the size of the gradient of each row's sums, by autograd."""
    weights = Weights(
        *(explorer.scale * tensor(WEIGHTS.ih), explorer.scale * tensor(WEIGHTS.hh)),
        tensor(WEIGHTS.bias) * (explorer.bias == "random"),
        *(None,) * 4,  # type: ignore[arg-type]
    )
    plain = explorer.norm == "none"
    normalize = formula.not_normalizing if plain else formula.normalizing(explorer.eps)
    carry = "raw" if plain else explorer.norm
    x = tensor(digit(explorer.blank))
    leaves = [one.requires_grad_() for one in formula.gate_inputs(x, weights, normalize)[:, None]]
    h = c = torch.zeros(1, SIZE).double()
    shown = []
    for leaf in leaves:
        h, c = formula.step(leaf, h, c, weights, normalize, carry)
        shown.append(h[0].detach())
    gradients = torch.autograd.grad((h[0] * tensor(WEIGHTS.back)).sum(), leaves)
    return shown, [one.norm().item() for one in gradients]


@pytest.mark.parametrize("state", STATES, ids=str)
def test_forward_and_gradient_are_those_of_lnlib_and_autograd(state: Any) -> None:
    explorer = CellExplorer(**state)
    ours, (shown, sizes) = explorer.look(), oracle(explorer)
    for now, h in zip(ours.steps, shown, strict=True):
        # Behind a cell of almost no spread, rounding is divided by √ε, 1e-6 at the least.
        torch.testing.assert_close(tensor(now.h), h, rtol=0, atol=max(1e-12, 1e-15 / explorer.eps))
    expected = [v / sizes[-1] for v in sizes]
    # 1 − o of a gate that is 1 within rounding has few digits: they matter with weights × 100.
    assert ours.gradients == pytest.approx(expected, rel=1e-6 if explorer.scale == 100 else 1e-9)


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_without_norms_it_is_pytorchs_lstm(scale: float) -> None:
    explorer = CellExplorer(norm="none", scale=scale)
    lstm = nn.LSTM(10, SIZE, dtype=torch.float64)
    values = scale * tensor(WEIGHTS.ih), scale * tensor(WEIGHTS.hh), tensor(WEIGHTS.bias)
    with torch.no_grad():
        for parameter, value in zip(lstm.parameters(), (*values, torch.zeros(64)), strict=True):
            parameter.copy_(value)
        shown, (_, c) = lstm(tensor(digit(2)))
    steps = explorer.look().steps
    torch.testing.assert_close(tensor([now.h for now in steps]), shown, rtol=0, atol=1e-12)
    torch.testing.assert_close(tensor(steps[-1].carried), c[0], rtol=0, atol=1e-12)


def test_the_weights_are_drawn_as_pytorch_draws_them() -> None:
    drawn = torch.cat([tensor(each).flatten() for each in (WEIGHTS.hh, WEIGHTS.ih, WEIGHTS.bias)])
    bound = 1 / math.sqrt(SIZE)
    assert drawn.abs().max() <= bound
    assert drawn.std() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert drawn.mean().abs() < 0.01


def test_each_blank_row_multiplies_the_gradient_by_the_chapters_factor() -> None:
    """It is 1/(4ε), times what the candidate's part of the weights leaves of a vector."""
    explorer = CellExplorer(**EXPLODES)
    new = tensor(WEIGHTS.hh)[2 * SIZE : 3 * SIZE]
    gradients = explorer.look().gradients
    bound = torch.linalg.matrix_norm(new, 2).item() / (4 * explorer.eps)
    assert all(1e3 < before / after < bound for before, after in pairwise(gradients[:5]))


def golden_case(state: dict[str, Any]) -> dict[str, Any]:
    explorer = CellExplorer(**state)
    traits = {name: getattr(explorer, name) for name in ("scale", "norm", "eps", "blank", "bias")}
    told = []
    for row in range(1, ROWS + 1):
        explorer.row = row
        told.append([row, explorer.sentence(), explorer.verdict()])
    run = explorer.look()
    wires = [[now.gates, now.c, now.n, now.h, now.carried, now.divisors] for now in run.steps]
    return {"state": traits, "steps": wires, "gradients": run.gradients, "said": told}


def test_javascript(run_js: Any) -> None:
    traits = CellExplorer.class_own_traits()
    names = ("scale", "norm", "row", "eps", "blank", "bias")
    arguments = [k / 16 * sign for k in range(330) for sign in (1, -1)] + [1e-300, 1e-9, 40.0]
    golden = {
        "defaults": {name: traits[name].default_value for name in names},
        "limits": {n: [traits[n].low, traits[n].high] for n in ("scale", "row", "eps", "blank")},
        "weights": WEIGHTS._asdict(),
        "digits": [digit(blank) for blank in range(6)],
        "tanh": [[x, tanh(x)] for x in arguments],
        "cases": [golden_case(state) for state in STATES],
    }
    run_js("cell", golden)


SAID = """2 of 48 gates are saturated
At row 6, 2 of 48 gates are saturated, and the cell goes on with size 0.614. \
Row 1 gets 6.57 times the last row’s gradient.
17 of 48 gates are saturated
At row 6, 17 of 48 gates are saturated, and the cell goes on with size 1.08. \
Row 1 gets 3.66 times the last row’s gradient.
The gradient fades to 7.22e-4
Row 13 is blank: state and bias alone set the gates; \
0 of 48 gates are saturated, and the cell goes on with size 0.137. \
Row 1 gets 7.22e-4 times the last row’s gradient.
The gradient explodes to 4.82e19
Row 3 is blank, and state and bias are 0: all gates are half open, \
and each norm divides by √ε = 0.00316. \
Row 1 gets 4.82e19 times the last row’s gradient.
The gradient fades to 0.00796
Row 1 is blank: the bias alone sets the gates; \
0 of 48 gates are saturated, and the cell goes on with size 0.0699. \
Row 1 gets 0.00796 times the last row’s gradient.
The cell has size 1 at every row
At row 6, 2 of 48 gates are saturated, and the cell goes on with size 1. \
Row 1 gets 30.6 times the last row’s gradient.
Hardly a gate is saturated
At row 4, 0 of 48 gates are saturated, and the cell goes on with size 0.583. \
Row 1 gets 6.57 times the last row’s gradient.""".splitlines()
TOLD: list[dict[str, Any]] = [
    {},
    {"scale": 8, "norm": "none"},
    {"norm": "none", "row": 13},
    EXPLODES,
    {"norm": "none", "row": 1, "scale": 2},
    {"norm": "normalized"},
    {"row": 4},
]


def test_words_and_picture_tell_each_kind_of_state() -> None:
    for state, verdict, sentence in zip(TOLD, SAID[::2], SAID[1::2], strict=True):
        explorer = CellExplorer(**state)
        assert (explorer.verdict(), explorer.sentence()) == (verdict, sentence)
        (ax,) = explorer.picture().axes
        drawn = [text.get_text() for text in ax.texts]
        norms = 0 if explorer.norm == "none" else 3
        assert drawn.count("N") == norms
        assert sum(text.startswith("÷") for text in drawn) == norms
        i, f, new, o = explorer.look().steps[explorer.row - 1].gates
        heights = [[-bar.get_height() for bar in bars] for bars in ax.containers[2:6]]
        for bars, gate, unit in zip(heights, (f, i, new, o), (76, 76, 38, 76), strict=True):
            assert bars == pytest.approx([unit * v for v in gate])
    assert len(CellExplorer(norm="none", scale=8).png()) < 14_000


# --- the page ------------------------------------------------------------------------------------

# Each strip of numbers, as the heights of its bars over where they start.
STRIPS = f"""async root => {{
    {DRAWN};
    const paths = [...root.querySelectorAll('.ln-bars')].map(e => e.getAttribute('d'));
    const heights = (d, [, zero]) => [...d.matchAll(/V([-\\d.]+)H/g)].map(([, y]) => zero - y);
    return paths.map(d => [d, /^M\\S+ ([-\\d.]+)V/.exec(d)]).filter(([, from]) => from)
        .map(([d, from]) => heights(d, from));
}}"""
# The bars beside the digit, each as [from, to].
BARS = """(root, kind) => {
    const paths = [...root.querySelectorAll(kind)].map(e => e.getAttribute('d'));
    const bars = paths.flatMap(d => [...d.matchAll(/M([-\\d.]+) [-\\d.]+h([-\\d.]+)v/g)]);
    return bars.map(([, x, width]) => [+x, +x + +width]);
}"""
TICKS = "texts => texts.map(t => [+t.getAttribute('x'), t.textContent])"


def tell(page: Any, state: dict[str, Any]) -> None:
    """Set a state as a link in the text does."""
    words = "&".join(f"{name}={value}" for name, value in state.items())
    page.locator(".ln-explorer").evaluate(TELL, words)


@pytest.mark.parametrize("context", [PHONE, {"viewport": {"width": 1280, "height": 800}}])
def test_what_is_drawn_are_the_numbers_and_fits_on_a_screen(reader: Any, context: Any) -> None:
    someone = reader(**context)
    page = someone.alone(CellExplorer())
    for state in [*TOLD, {"scale": 100, "norm": "none", "row": 9}]:
        tell(page, state)
        explorer = CellExplorer(**state)
        run, now = explorer.look(), explorer.look().steps[explorer.row - 1]
        strips = page.evaluate(STRIPS)
        i, f, new, o = now.gates
        states = now.c_before, now.carried, now.h_before, now.h
        for drawn, values in zip(strips, (f, i, new, o, *states), strict=True):
            tall = max(range(SIZE), key=lambda k, values=values: abs(values[k]))
            unit = drawn[tall] / values[tall] if values[tall] else 0
            assert unit >= 0
            assert drawn == pytest.approx([v * unit for v in values], abs=0.11)
        sizes = [end - start for start, end in page.evaluate(BARS, ".ln-of-cell")]
        wanted = [size(one.carried) for one in run.steps]
        assert sizes == pytest.approx([v * max(sizes) / max(wanted) for v in wanted], abs=0.11)
        bars = page.evaluate(BARS, ".ln-of-gradient")
        low, (one, _), high = page.locator(".ln-tick").evaluate_all(TICKS)[2:5]
        end, power = max(low, high, key=lambda tick: len(tick[1]))  # one may have no room
        exponent = float("".join("-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".index(c)] for c in power[2:]))
        assert low[0] < one < high[0]
        expected = [one + math.log10(v) * (end - one) / exponent for v in run.gradients]
        assert [end for _, end in bars] == pytest.approx(expected, abs=0.3)
        norms = page.locator(".ln-norm-box:not([visibility])").count()
        assert norms == (0 if explorer.norm == "none" else 3)
        told = page.locator(".ln-divisor").all_text_contents()
        assert told == [f"÷ {number(v, 2)}" if norms else "" for v in now.divisors]
        caps = [e.get_attribute("d").count("M") for e in page.locator(".ln-caps").all()]
        counts = [sum(map(saturated, gate)) for gate in (f, i, o)]
        assert [*caps[:2], caps[3]] == counts
        heads = page.locator(":is(.ln-value, .ln-moved)").all_text_contents()
        gradient = number(run.gradients[explorer.row - 1])
        assert heads == [f"row {explorer.row}", number(size(now.carried)), f"× {gradient}"]
        assert page.locator(".ln-verdict").inner_text() == explorer.verdict()
        assert page.locator(".ln-sentence").inner_text().replace("\xa0", " ") == explorer.sentence()
        height = page.locator(".ln-explorer").bounding_box()["height"]
        assert height <= (760 if context is PHONE else 620)
        across = someone.page.evaluate("document.documentElement.scrollWidth")
        assert across <= context["viewport"]["width"]


@pytest.mark.parametrize("width", [320, 390, 640, 1000])
def test_no_word_lies_on_another(reader: Any, width: int) -> None:
    page = reader(viewport={"width": width, "height": 800}).alone(CellExplorer())
    for state in (*TOLD, {**EXPLODES, "norm": "normalized"}, {**EXPLODES, "eps": 1e-12}):
        tell(page, state)
        assert page.locator(".ln-explorer").evaluate(OVERLAPS) == [], state


def test_the_norm_of_the_cell_stands_where_its_carry_says(reader: Any) -> None:
    page = reader(**DESK).alone(CellExplorer())
    norm = page.locator(".ln-norm-box rect").last
    places = []
    for carry in ("raw", "normalized"):
        page.locator("select").select_option(carry)
        places.append([float(norm.get_attribute(name)) for name in ("x", "y")])
        line = page.locator(".ln-wires").get_attribute("d")
    cell = float(re.match(r"M\S+ (\S+)H", line)[1])
    (_, below), (_, on) = places
    assert on + 9 == cell < below  # on the line of the cell, or on its way out


def test_a_row_is_chosen_by_finger_mouse_and_keys(reader: Any) -> None:
    hand = Hand(reader, CellExplorer())
    row = "root => +root.querySelector('.ln-handle').getAttribute('aria-valuenow')"
    x, y = hand.middle_of(".ln-handle")
    for tapped, below in ((9, 33), (2, -44), (14, 300)):  # 11 px a row
        if tapped < 14:
            hand.page.touchscreen.tap(x + 60, y + below)
            assert hand.root.evaluate(row) == tapped
            hand.reset()
        else:
            hand.stroke((x, y), 5, below)
            hand.settle()
            assert hand.root.evaluate(row) == tapped
            hand.reset()
    handle = hand.root.locator(".ln-handle")
    keys = {"ArrowDown": 7, "ArrowRight": 8, "ArrowUp": 7, "End": 14, "Home": 1}
    for key, there in keys.items():
        handle.press(key)
        assert hand.root.evaluate(row) == there
        assert handle.get_attribute("aria-valuetext") == f"row {there} of 14"
    box = hand.root.locator(".ln-handle .ln-target").bounding_box()
    assert min(box["width"], box["height"]) >= 44


def test_the_fold_has_epsilon_blank_rows_bias_and_numbers(reader: Any) -> None:
    someone = reader(**DESK)
    page = someone.alone(CellExplorer(row=1))
    page.locator("summary").click()
    spreads = page.locator(".ln-table td:last-child")
    page.get_by_label("Zero").check()
    assert spreads.all_inner_texts() == ["0"] * 9  # of row 1, with nothing but zeros
    page.locator("input[type=number]").last.fill("0")
    someone.page.keyboard.press("Enter")
    now = CellExplorer(row=1, bias="zero", blank=0).look().steps[0]
    rows = page.locator(".ln-table tbody tr").nth(1).locator("td").all_inner_texts()
    assert rows[:2] == [number(min(now.from_x)), number(max(now.from_x))]
    assert float(rows[2]) == pytest.approx(now.divisors[1], rel=1e-2)
    eps = page.get_by_label("Constant ε (units of x²), as a number")
    eps.fill("1")
    eps.press("Enter")
    shown = CellExplorer(row=1, bias="zero", blank=0, eps=1)
    assert page.locator(".ln-sentence").inner_text().replace("\xa0", " ") == shown.sentence()


def test_links_in_the_text_read_and_nudge_it(reader: Any) -> None:
    someone = reader(**DESK)
    page = someone.alone(CellExplorer())
    page.evaluate(LISTEN)
    tell(page, EXPLODES | {"norm": "batch", "scale": 1e9})  # an option and a number that are none
    names = "['saturated', 'size', 'first', 'divisor', 'scale', 'row'].map(n => told.numbers()[n])"
    shown = CellExplorer(**EXPLODES, scale=100)
    first = number(shown.look().gradients[0])
    assert someone.page.evaluate(names) == ["0", "0", first, "0.00316", "100", "3"]
    for trait, by in (("scale", -20), ("row", 4)):
        page.locator(".ln-explorer").evaluate(
            "(e, detail) => e.dispatchEvent(new CustomEvent('ln-nudge', { detail }))",
            {"trait": trait, "by": by},
        )
    assert someone.page.evaluate(names)[-2:] == ["10", "7"]
