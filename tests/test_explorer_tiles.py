"""The tile explorer: which program reads which numbers, and what it adds up to dγ."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from conftest import luminance, violations
from lnlib import formula
from lnlib.book.explorers import TilesExplorer, TraitValueError, tiles
from lnlib.book.explorers.base import number

NAMES = ("kernel", "rows", "features", "programs", "padding", "step")
SHAPES = [(1, 1), (7, 6), (11, 6), (12, 16), (5, 9), (3, 2), (12, 3), (4, 14), (9, 8), (2, 13)]
KERNELS = ["forward", "backward", "long"]
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def dgamma_of(rows: int, features: int) -> Tensor:
    """The truth: autograd's gradient of γ through the formula, in float64."""
    weight = torch.ones(features, dtype=torch.float64, requires_grad=True)
    x, dy = tiles.X[:rows, :features], tiles.DY[:rows, :features]
    formula.terms(x, weight, eps=1e-5).y.backward(dy)
    assert weight.grad is not None
    return weight.grad


# --- traits --------------------------------------------------------------------------------------


def test_it_opens_on_the_first_program_of_the_forward_kernel() -> None:
    explorer = TilesExplorer()
    assert {name: getattr(explorer, name) for name in NAMES} == {
        **{"kernel": "forward", "rows": 7, "features": 6, "programs": 2},
        **{"padding": "masked", "step": 1},
    }


@pytest.mark.parametrize(
    ("trait", "low", "high"),
    [("rows", 1, 12), ("features", 1, 16), ("programs", 1, 3), ("step", 0, 14)],
)
def test_a_trait_is_a_whole_number_in_its_range(trait: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(TilesExplorer(**{trait: value}), trait) == value
    for refused in (low - 1, high + 1, low + 0.5, True):
        with pytest.raises(TraitValueError, match=f"{trait} must be a whole number"):
            TilesExplorer(**{trait: refused})


# --- the arithmetic ------------------------------------------------------------------------------


def test_every_cut_of_the_example_shows_something() -> None:
    assert torch.equal(2 * tiles.X, (2 * tiles.X).round())
    for H in range(1, 17):
        x = tiles.X[:, :H]
        assert x.mean(1).abs().min() > 0.2  # lanes at −μ spoil the variance visibly
        assert H == 1 or x.var(1, correction=0).min() > 0.05


@pytest.mark.parametrize(("rows", "features"), SHAPES)
def test_x_hat_is_the_formulas(rows: int, features: int) -> None:
    explorer = TilesExplorer(rows=rows, features=features)
    expected = formula.terms(explorer.x(), eps=1e-5).x_hat
    assert (explorer.x_hat() - expected).abs().max() < 1e-13  # float64, outputs of size 1


@pytest.mark.parametrize("programs", [1, 2, 3])
def test_partial_sums_add_up_to_the_gradient_of_gamma(programs: int) -> None:
    for rows, features in itertools.product(range(1, 13), range(1, 17)):
        explorer = TilesExplorer(kernel="backward", rows=rows, features=features, programs=programs)
        done = explorer.progress(explorer.plan().last)
        error = (done.dgamma - dgamma_of(rows, features)).abs().max()
        assert error < 1e-13  # sums of at most 12 terms of size 2


# --- the sentence --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (
            {"step": 0},
            "Programs: 4. Tiles: 4, of 2 × 8 numbers. Bytes read: 0 of 84; written: 0 of",
        ),
        ({"step": 4}, "Program 3 reads row 6 of x once, computes mean and variance in its regi"),
        ({"padding": "counted", "features": 8}, "Program 0 reads rows 0 and 1 of x once"),
        (
            {"kernel": "backward", "programs": 3, "rows": 11},
            "Programs 0 to 2 read rows 0 to 5 of x and dy once, write dx, and add to a partial sum "
            "each. Bytes read: 144 of 336; written: 72 of 216.",
        ),
        (
            {"kernel": "backward", "programs": 3, "step": 2},
            "Program 0 reads row 6 of x and dy once, writes dx, and adds to its partial sum. "
            "No tile is left for programs 1 and 2.",
        ),
        ({"kernel": "backward", "step": 3}, "partial sums are written in float32: 2 × 6 numbers."),
        ({"kernel": "backward", "step": 4}, "adds the partial sum of program 0. Feature 0 is at "),
        ({"kernel": "long", "features": 14}, "of its row to its sums, now over 4 of 14. Bytes"),
        ({"kernel": "long", "features": 14, "step": 4}, "to its sums. Row 0 now has μ = 0.821 and"),
        (
            {"kernel": "long", "features": 14, "step": 5},
            "Sweep 2, right to left: each program reads features 12 and 13 again and writes x̂. "
            "They are likely still in the cache. Bytes read: 224 of 392; written: 28 of 196.",
        ),
        ({"kernel": "long", "features": 3, "step": 2}, "One tile holds this row: it could be read"),
    ],
)
def test_the_sentence_says_what_the_step_does(state: dict[str, Any], told: str) -> None:
    assert told in TilesExplorer(**state).sentence()


def test_the_sentence_tells_the_wrong_variance_beside_the_right_one() -> None:
    row = tiles.X[2, :6]
    lanes = torch.cat([row - row.mean(), -row.mean().expand(2)])
    right, wrong = (number((d.square().sum() / 6).item()) for d in (lanes[:6], lanes))
    said = TilesExplorer(padding="counted", step=2).sentence()
    told = f"row 2, with μ = {number(row.mean().item())}, gets σ² = {wrong}, not {right}."
    assert said.startswith(f"Program 1 counts 2 lanes of −μ in each row: {told}")
    assert "counts 1 lane of" in TilesExplorer(padding="counted", features=7).sentence()


def test_the_last_sentence_adds_the_partial_sums_of_feature_0() -> None:
    product = (formula.terms(tiles.X[:11, :6], eps=1e-5).x_hat * tiles.DY[:11, :6])[:, 0]
    parts = [number(product[i].sum().item()) for i in ([0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10])]
    total = number(dgamma_of(11, 6)[0].item())
    said = TilesExplorer(kernel="backward", rows=11, programs=3, step=6).sentence()
    assert f"Feature 0: {', '.join(parts)} in order give {total}, the sum over all rows." in said


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ({"step": 0}, "Nothing has been read yet"),
        ({}, "Each x is read once; 4 of 16 lanes idle"),
        ({"step": 4}, "Each x is read once; 10 of 16 lanes idle"),
        ({"features": 8, "padding": "counted"}, "Each x is read once; no lane is idle"),
        ({"padding": "counted"}, "σ² is wrong: 4 padded lanes are counted"),
        ({"padding": "counted", "rows": 1, "features": 7}, "σ² is wrong: 1 padded lane is counted"),
        ({"kernel": "backward", "rows": 12, "step": 3}, "Each x is read once; 8 of 32 lanes idle"),
        ({"kernel": "backward", "step": 3}, "Partial sums are stored, not yet added"),
        ({"kernel": "backward", "step": 14}, "2 of 2 partial sums are in dγ"),
        ({"kernel": "long", "step": 2}, "First read of each x; 14 of 28 lanes idle"),
        ({"kernel": "long", "step": 4}, "Second read of each x; no lane is idle"),
    ],
)
def test_the_verdict_counts_what_is_idle_and_what_is_read(state: dict[str, Any], seen: str) -> None:
    explorer = TilesExplorer(**state)
    assert explorer.verdict() == seen
    assert explorer.picture().axes[0].get_title().startswith(f"{seen}\n")


# --- what stands in for the widget ---------------------------------------------------------------


@each_kernel
@pytest.mark.parametrize(("rows", "features"), [(1, 1), (7, 6), (12, 16)])
def test_the_picture_is_small_and_shows_every_number(kernel: str, rows: int, features: int) -> None:
    explorer = TilesExplorer(kernel=kernel, rows=rows, features=features, programs=3, step=14)
    assert len(explorer.png()) < 30_000
    (ax,) = explorer.picture().axes
    sums = explorer.plan().programs + 1 if kernel == "backward" else 0
    assert len(ax.texts) == (rows + sums) * features
    assert f"step {explorer.plan().last} of" in ax.get_title()
    explorer.padding = "counted"
    told = "counted by mistake" in explorer.picture().axes[0].get_title()
    assert told == (kernel == "forward")


# --- the page's arithmetic -----------------------------------------------------------------------


def golden_case(rows: int, features: int) -> dict[str, Any]:
    x = tiles.X[:rows, :features]
    width = 1 << (features - 1).bit_length()
    lanes = F.pad(x, (0, width - features)) - x.mean(1, keepdim=True)
    counted = lanes.square().sum(1) / features
    terms = formula.terms(x, eps=1e-5)
    wrong = (x - terms.mean) / (counted[:, None] + 1e-5).sqrt()
    named = {"mean": terms.mean[:, 0], "variance": terms.var[:, 0], "xHat": terms.x_hat}
    named |= {"counted": counted, "wrong": wrong, "dgamma": dgamma_of(rows, features)}
    return {"rows": rows, "features": features} | {k: v.tolist() for k, v in named.items()}


def all_states() -> list[dict[str, Any]]:
    """Every state of every shape in SHAPES, steps included."""
    states = []
    for (rows, features), kernel in itertools.product(SHAPES, KERNELS):
        paddings = ["masked", "counted"] if kernel == "forward" else ["masked"]
        programs = [1, 2, 3] if kernel == "backward" else [2]
        for padding, p, step in itertools.product(paddings, programs, range(15)):
            values = (kernel, rows, features, p, padding, step)
            states.append(dict(zip(NAMES, values, strict=True)))
    return states


def golden_partials() -> list[dict[str, Any]]:
    found = []
    for programs, (rows, features) in itertools.product((1, 2, 3), SHAPES):
        product = formula.terms(tiles.X[:rows, :features], eps=1e-5).x_hat
        product = product * tiles.DY[:rows, :features]
        plan = TilesExplorer(rows=rows, features=features).plan()  # forward: all tiles
        for step in (1, 2, 14):
            mine = torch.zeros(min(programs, plan.tiles), features, dtype=torch.float64)
            for row in range(rows):
                tile = row // plan.height
                if tile // programs < step:
                    mine[tile % programs] += product[row]
            values = ("backward", rows, features, programs, "masked", step)
            state = dict(zip(NAMES, values, strict=True))
            found.append({"state": state, "sums": mine.tolist()})
    return found


def golden_tables() -> list[dict[str, Any]]:
    """What the table says in three states, by PyTorch."""
    x = tiles.X[:7, :6]
    var, mean = torch.var_mean(x, 1, correction=0)
    counted = var + 2 * mean.square() / 6
    words = [[number(v.item()) for v in row] for row in torch.stack([mean, var, counted], 1)]
    forward = [[f"{i}", *(row if i < 4 else "–––")] for i, row in enumerate(words)]
    deviations = x - x[:, :4].mean(1, keepdim=True)
    sums = torch.stack([deviations.sum(1), deviations.square().sum(1), mean, var], 1)
    long = [[f"{i}", *(number(v.item()) for v in row)] for i, row in enumerate(sums)]
    product = formula.terms(x, eps=1e-5).x_hat * tiles.DY[:7, :6]
    parts = torch.stack([product[[0, 1, 4, 5]].sum(0), product[[2, 3, 6]].sum(0)])
    columns = torch.cat([parts, parts[:1], product.sum(0, keepdim=True)])
    backward = [[f"{j}", *(number(v.item()) for v in row)] for j, row in enumerate(columns.T)]
    shape = {"rows": 7, "features": 6, "programs": 2, "padding": "masked"}
    return [
        {"state": {**shape, "kernel": kernel, "step": step}, "lines": lines}
        for kernel, step, lines in (
            ("forward", 2, forward),
            ("long", 2, long),
            ("backward", 4, backward),
        )
    ]


def words(explorer: TilesExplorer) -> dict[str, str]:
    return {"sentence": explorer.sentence(), "verdict": explorer.verdict()}


def test_javascript(run_js: Any) -> None:
    traits = TilesExplorer.class_traits()
    limits = ("rows", "features", "programs", "step")
    states = all_states()
    assert len(states) > 800
    golden = {
        "defaults": {name: getattr(TilesExplorer(), name) for name in NAMES},
        "limits": {name: [traits[name].low, traits[name].high] for name in limits},
        "x": tiles.X.tolist(),
        "dy": tiles.DY.tolist(),
        "cases": [golden_case(rows, features) for rows, features in SHAPES],
        "partials": golden_partials(),
        "tables": golden_tables(),
        "sentences": [{"state": s, **words(TilesExplorer(**s))} for s in states],
    }
    run_js("tiles", golden, at_least=18)


# --- the page ------------------------------------------------------------------------------------

DESK, PHONE = {"width": 900, "height": 1000}, {"width": 390, "height": 844}
STARTS: dict[str, dict[str, Any]] = {
    "A tile cut off by the edge": {"step": 4},
    "Padding counted by mistake": {"padding": "counted", "step": 2},
    "Backward, two programs": {"kernel": "backward", "rows": 11},
    "The second stage": {"kernel": "backward", "rows": 11, "programs": 3, "step": 6},
    "A row longer than its tile": {"kernel": "long", "rows": 4, "features": 14, "step": 5},
}
DRAWN = """explorer => {
    const svg = explorer.querySelector('svg').getBoundingClientRect();
    const all = (kind) => [...explorer.querySelectorAll('svg ' + kind)].map((e) => {
        const { left, top, right, bottom } = e.getBoundingClientRect();
        return [e.textContent, [left, top, right, bottom]];
    });
    return { cells: all('.ln-cell'), frames: all('.ln-now'), masked: all('.ln-masked'),
             beside: all('.ln-beside'), wrong: all('.ln-wrong'), boxes: all('.ln-cell-box') };
}"""


def alone(someone: Any, **state: Any) -> Any:
    """Open the explorer on a page of its own, whose time passes when the test says so."""
    someone.page.clock.install()
    return someone.alone(TilesExplorer(**state))


def said(someone: Any, explorer: Any) -> str:
    someone.page.clock.run_for(400)  # the sentence waits for a pause
    return str(explorer.locator(".ln-sentence").inner_text().replace("\xa0", " "))


def grid(cells: list[Any]) -> list[list[float]]:
    """The numbers that are drawn, line by line, by where they stand."""
    lines: dict[int, dict[float, float]] = {}
    for words, (left, top, right, _) in cells:
        lines.setdefault(round(top), {})[left + right] = float(words.replace("−", "-"))
    return [[line[x] for x in sorted(line)] for _, line in sorted(lines.items())]


def assert_shows(someone: Any, explorer: Any, **state: Any) -> None:
    """The sentence, every number that is drawn, and the frames are those of ``state``."""
    expected = TilesExplorer(**state)
    plan, H = expected.plan(), expected.features
    step = min(expected.step, plan.last)
    done = expected.progress(step)
    assert said(someone, explorer) == expected.sentence()
    values = expected.x_hat() * expected.dy()
    if expected.kernel != "backward":
        written = done.reads == (2 if expected.kernel == "long" else 1)
        values = torch.where(written, expected.x_hat(), expected.x())
    lines = values.tolist()
    if expected.padding == "counted" and expected.kernel == "forward":
        for i in range(int((done.reads[:, 0] > 0).sum())):
            lines[i] += [-expected.x()[i].mean().item()] * (plan.width - H)
    if expected.kernel == "backward":
        lines += (done.sums.tolist() if step else []) + [done.dgamma.tolist()] * bool(done.added)
    drawn = explorer.evaluate(DRAWN)
    shown = grid(drawn["cells"])
    assert [len(line) for line in shown] == [len(line) for line in lines]
    for found, line in zip(shown, lines, strict=True):
        assert found == pytest.approx(line, abs=0.0501)
    assert explorer.locator(".ln-verdict").inner_text() == expected.verdict()
    assert len(drawn["frames"]) == len(expected.tiles_at(step)) + 2 * bool(done.added)


def choose(explorer: Any, label: str) -> None:
    explorer.locator(".ln-fold").evaluate("e => { e.open = true; }")
    explorer.get_by_role("radio", name=label, exact=True).press("Space")


@each_kernel
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_next_walks_through_every_step(reader: Any, kernel: str, viewport: Any) -> None:
    someone = reader(viewport=viewport)
    explorer = alone(someone, features=7)
    choose(explorer, {"forward": "Forward", "backward": "Backward", "long": "Long row"}[kernel])
    last = TilesExplorer(kernel=kernel, features=7).plan().last
    for step in range(1, last + 1):
        assert_shows(someone, explorer, kernel=kernel, features=7, step=step)
        explorer.get_by_role("button", name="Next").click(force=True)
    assert_shows(someone, explorer, kernel=kernel, features=7, step=last)
    next_ = explorer.get_by_role("button", name="Next")
    assert next_.get_attribute("aria-disabled") == "true"
    explorer.get_by_role("button", name="Back", exact=True).click()
    assert_shows(someone, explorer, kernel=kernel, features=7, step=last - 1)
    assert next_.get_attribute("aria-disabled") is None


def test_the_keys_walk_through_the_steps(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, kernel="backward", rows=11)
    slider = explorer.get_by_role("slider", name="Step")
    slider.focus()
    for key, step in (("ArrowRight", 2), ("ArrowLeft", 1), ("End", 6), ("Home", 0)):
        someone.page.keyboard.press(key)
        assert_shows(someone, explorer, kernel="backward", rows=11, step=step)
        assert slider.get_attribute("aria-valuetext") == f"{step} of 6"
    explorer = alone(someone, step=9)  # of 4, and so the last
    explorer.get_by_role("button", name="Back", exact=True).click()
    assert_shows(someone, explorer, step=3)
    explorer = alone(someone, kernel="backward", rows=11, step=0)
    next_ = explorer.get_by_role("button", name="Next")
    next_.focus()
    for _ in range(7):  # one more than there are; the button keeps the focus
        someone.page.keyboard.press("Enter")
    assert_shows(someone, explorer, kernel="backward", rows=11, step=6)
    assert next_.evaluate("e => e === document.activeElement")


def test_rows_and_features_follow_slider_and_field(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, step=4)
    explorer.locator("summary").click()
    explorer.get_by_role("slider", name="Rows B").press("ArrowRight")
    assert_shows(someone, explorer, rows=8, step=4)
    typed = explorer.get_by_role("spinbutton", name="Features H, as a number")
    for given, taken in (("13", 13), ("2.6", 3)):
        typed.fill(given)
        typed.press("Enter")
        assert_shows(someone, explorer, rows=8, features=taken, step=4)
    typed.fill("17")
    typed.press("Enter")
    assert explorer.get_by_role("alert").last.inner_text() == "H goes from 1 to 16"
    assert_shows(someone, explorer, rows=8, features=3, step=4)


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_counted_padding_shows_the_wrong_variance_beside_the_right_one(
    reader: Any, viewport: Any
) -> None:
    someone = reader(viewport=viewport)
    explorer = alone(someone, step=2)
    masked = explorer.evaluate(DRAWN)
    choose(explorer, "Counted by mistake")
    assert_shows(someone, explorer, padding="counted", step=2)
    drawn = explorer.evaluate(DRAWN)
    right, wrong = TilesExplorer().variances()
    rights, wrongs = ([number(v.item()) for v in column[:4]] for column in (right, wrong))
    assert [words for words, _ in masked["beside"]] == rights
    assert masked["wrong"] == []
    assert [words for words, _ in drawn["beside"]] == rights
    assert [words for words, _ in drawn["wrong"]] == wrongs


def test_the_names_of_the_programs_that_run_are_bold(reader: Any) -> None:
    for state, names in (
        ({"step": 2}, ["program 1"]),
        ({"kernel": "backward", "rows": 11, "step": 1}, ["program 0", "program 1"]),
        ({"step": 0}, []),
    ):
        explorer = reader(viewport=DESK).alone(TilesExplorer(**state))
        assert explorer.locator("text.ln-runs").all_text_contents() == names


def test_masked_lanes_lie_outside_the_matrix(reader: Any) -> None:
    for viewport in (DESK, PHONE):
        explorer = reader(viewport=viewport).alone(TilesExplorer(step=4))
        drawn = explorer.evaluate(DRAWN)
        (frame,) = (box for _, box in drawn["frames"])
        right = max(box[2] for _, box in drawn["boxes"])
        bottom = max(box[3] for _, box in drawn["boxes"])
        ((_, masked),) = drawn["masked"]
        assert masked[2] == pytest.approx(frame[2], abs=2)
        assert masked[3] == pytest.approx(frame[3], abs=2)
        assert masked[2] - right > 20  # two lanes
        assert masked[3] - bottom > 20  # one row
    full = reader(viewport=DESK).alone(TilesExplorer(rows=8, features=8))
    assert "hatched" not in full.locator(".ln-caption").inner_text()
    assert full.locator(".ln-masked").get_attribute("d") == ""


def test_only_the_controls_of_the_kernel_are_shown(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone)
    for label, shown in (
        ("Backward", ["Kernel", "Programs at a time"]),
        ("Long row", ["Kernel"]),
        ("Forward", ["Kernel", "Padded lanes"]),
    ):
        choose(explorer, label)
        said(someone, explorer)
        assert explorer.locator("legend:visible").all_inner_texts() == shown


def test_another_kernel_begins_at_its_first_step(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, step=3)
    choose(explorer, "Backward")
    assert_shows(someone, explorer, kernel="backward", step=1)


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader: Any) -> None:
    someone = reader(viewport=DESK)
    odd = {
        **{"kernel": "long", "rows": 2, "features": 9},
        **{"programs": 1, "step": 3, "padding": "counted"},
    }
    explorer = alone(someone, **odd)
    explorer.locator("summary").click()
    for name, start in STARTS.items():
        explorer.get_by_role("button", name=name).click()
        assert_shows(someone, explorer, **start)
        explorer.get_by_role("button", name="Reset").click()
        assert_shows(someone, explorer, **odd)


def test_the_tables_hold_the_numbers(reader: Any) -> None:
    someone = reader(viewport=PHONE)
    explorer = alone(someone, kernel="backward", rows=11, step=14)
    explorer.locator("summary").click()
    sums = explorer.locator(".ln-table tbody tr")
    heads = explorer.locator(".ln-table thead th").all_inner_texts()
    assert heads == ["feature", "program 0", "program 1", "dγ", "all rows at once"]
    assert sums.count() == 6
    truth = dgamma_of(11, 6)
    for j, row in enumerate(sums.all()):
        *_, dgamma, all_rows = row.locator("td").all_inner_texts()
        assert dgamma == all_rows == number(truth[j].item())
    for label, lines in (("Long row", 11), ("Backward", 6), ("Forward", 11)):
        choose(explorer, label)
        said(someone, explorer)
        cells = 3 if label == "Forward" else 4
        assert (sums.count(), sums.first.locator("td").count()) == (lines, cells)


# What a step writes into the drawing; each node that is put in or taken out counts.
TOUCHED = """async (explorer) => {
    let seen = [];
    const watch = new MutationObserver((all) => seen.push(...all));
    const all = { subtree: true, childList: true, attributes: true };
    watch.observe(explorer.querySelector('svg'), all);
    explorer.querySelectorAll('.ln-stepper button')[1].click();
    await new Promise((done) => setTimeout(done, 50));
    return seen.reduce((n, { addedNodes, removedNodes }) =>
        n + Math.max(addedNodes.length + removedNodes.length, 1), 0);
}"""


@each_kernel
def test_a_step_keeps_the_drawing_and_touches_what_it_changes(reader: Any, kernel: str) -> None:
    explorer = reader(viewport=DESK).alone(TilesExplorer(kernel=kernel, rows=12, features=16))
    parts = explorer.locator("svg :is(text, path)").count()
    assert parts > 200
    assert 0 < explorer.evaluate(TOUCHED) < 0.6 * parts


# Half a pixel is rounding. A line's box is higher than its letters.
OVERLAPS = """explorer => {
    const frame = explorer.getBoundingClientRect();
    const texts = [...explorer.querySelectorAll('svg text:not(.ln-cell)')];
    const boxes = texts.filter((t) => t.textContent).map((t) => {
        const { left, right, top, height } = t.getBoundingClientRect();
        const letters = { top: top + height / 4, bottom: top + 0.8 * height };
        return { words: t.textContent, left, right, ...letters };
    });
    const out = boxes.filter((r) => r.left < frame.left + 1 || r.right > frame.right - 1);
    const found = out.map((r) => r.words);
    const apart = (r, s) => r.left > s.right - 0.5 || r.top > s.bottom - 0.5;
    boxes.forEach((r, i) => boxes.slice(0, i).forEach((s) => {
        if (!apart(r, s) && !apart(s, r)) found.push(`${r.words} | ${s.words}`);
    }));
    return found;
}"""


@pytest.mark.parametrize("width", [360, 390, 640, 1000])
def test_no_text_overlaps_another_and_the_page_does_not_scroll_sideways(
    reader: Any, width: int
) -> None:
    someone = reader(viewport={"width": width, "height": 900})
    for kernel, (rows, features) in itertools.product(KERNELS, [(12, 16), (11, 7), (1, 1)]):
        state = {"kernel": kernel, "rows": rows, "features": features, "step": 14}
        explorer = someone.alone(TilesExplorer(padding="counted", **state))
        explorer.locator("summary").click()
        assert explorer.evaluate(OVERLAPS) == [], state
        assert someone.page.evaluate("document.documentElement.scrollWidth") <= width


# The colors of a cell's paper, of its tint and of its number, and how strong the tint is.
TINTS = """explorer => {
    const root = getComputedStyle(explorer.querySelector('.ln-explorer')).backgroundColor;
    const numbers = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const letters = [...explorer.querySelectorAll('.ln-cell')].map((e) => getComputedStyle(e).fill);
    return [...explorer.querySelectorAll('.ln-cell-box')].flatMap((box) => {
        const { fill, fillOpacity } = getComputedStyle(box);
        const seen = numbers(root).map((c, i) => c + (numbers(fill)[i] - c) * fillOpacity);
        const read = !box.classList.contains('ln-read-0');
        const own = [...explorer.querySelectorAll(read ? '.ln-done' : '.ln-cell:not(.ln-done)')];
        return own.slice(0, 1).map((e) => [seen, numbers(getComputedStyle(e).fill)]);
    });
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_are_readable_and_axe_finds_nothing(reader: Any, theme: str) -> None:
    someone = reader(viewport=DESK)
    for kernel, step in (("forward", 2), ("backward", 2), ("backward", 5), ("long", 3)):
        explorer = someone.alone(TilesExplorer(kernel=kernel, step=step))
        someone.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        tints = explorer.evaluate(TINTS)
        assert len(tints) >= 3
        for tint, letters in tints:
            low, high = sorted((luminance(tint), luminance(letters)))
            assert (high + 0.05) / (low + 0.05) >= 4.5
        explorer.locator("summary").click()
        found = violations(someone.page)
        assert {v["id"]: [node["html"][:200] for node in v["nodes"]] for v in found} == {}


def test_a_finger_can_hit_every_control(reader: Any) -> None:
    explorer = reader(viewport=PHONE, has_touch=True).alone(TilesExplorer(kernel="backward"))
    explorer.locator("summary").click()
    kinds = "button, .ln-choice label, input[type=range], input[type=number], summary"
    controls = [one for one in explorer.locator(kinds).all() if one.is_visible()]
    assert len(controls) == 1 + 3 + 1 + 5 + 3 + 3 + 2 * 2
    for one in controls:
        box = one.bounding_box()
        assert min(box["width"], box["height"]) >= 44
    for one in explorer.locator("input, button, summary").all():
        assert one.get_attribute("data-lm-suppress-shortcuts") == "true"


def test_the_drawing_follows_its_width_and_nothing_has_an_id(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, kernel="backward")
    width = explorer.locator("svg").get_attribute("width")
    someone.page.set_viewport_size(PHONE)
    someone.page.wait_for_timeout(200)
    assert float(explorer.locator("svg").get_attribute("width")) < float(width)
    assert_shows(someone, explorer, kernel="backward")
    assert explorer.locator("[id]").count() == 0
