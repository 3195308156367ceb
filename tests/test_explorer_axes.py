"""The axes explorer: who shares a mean and a variance, and whose outputs a change moves."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from conftest import luminance, violations
from lnlib.book.explorers import AxesExplorer, TraitValueError, axes
from lnlib.book.explorers.base import number

NORMS = ["batch", "layer_sample", "layer_position", "instance", "group", "rms"]
SIZES = {
    "layer_sample": 20,
    "layer_position": 4,
    "batch": 15,
    "instance": 5,
    "group": 10,
    "rms": 4,
}
CELLS = list(itertools.product((1, 2, 3), (1, 2, 3, 4), (1, 2, 3, 4, 5)))
STEPS = [k / 2 for k in range(-16, 17)]  # where the slider stops
TYPED = [0.123, -1e-3, 1e-6, 1e-12, 7.77]

# PyTorch's own norms of a (3, 4, 5) block, without weight and bias.
PYTORCH: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_sample": lambda x: F.layer_norm(x, (4, 5), eps=1e-5),
    "layer_position": lambda x: F.layer_norm(x.mT, (4,), eps=1e-5).mT,
    "batch": lambda x: F.batch_norm(x, None, None, training=True, eps=1e-5),
    "instance": lambda x: F.instance_norm(x, eps=1e-5),
    "group": lambda x: F.group_norm(x, 2, eps=1e-5),
    "rms": lambda x: F.rms_norm(x.mT, (4,), eps=1e-5).mT,
}
each_norm = pytest.mark.parametrize("norm", NORMS)


@functools.cache
def shared_by_pytorch(norm: str) -> Tensor:
    """Which of the 60 values share statistics, (60, 60): where PyTorch's derivatives are not 0."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(PYTORCH[norm], x)
    return jacobian.reshape(60, 60).abs() > 1e-9


def changed_block(changed: int, change: float) -> Tensor:
    x = torch.tensor(axes.BLOCK, dtype=torch.float64)
    x[changed - 1] += change * torch.tensor(axes.PATTERN, dtype=torch.float64)
    return x


def moved_in_pytorch(norm: str, changed: int, change: float) -> Tensor:
    now, before = (PYTORCH[norm](changed_block(changed, c)) for c in (change, 0))
    return (now - before).abs() > 1e-9


# --- traits --------------------------------------------------------------------------------------


def test_at_first_batch_norm_and_a_change_in_the_middle() -> None:
    explorer = AxesExplorer()
    assert explorer.norm == "batch"
    assert (explorer.sample, explorer.channel, explorer.position) == (1, 1, 1)
    assert (explorer.changed, explorer.change) == (2, 4.0)
    assert AxesExplorer(changed=1).changed == 1


@pytest.mark.parametrize(
    ("trait", "low", "high"),
    [("sample", 1, 3), ("channel", 1, 4), ("position", 1, 5), ("changed", 1, 3), ("change", -8, 8)],
)
def test_a_trait_is_kept_in_its_range(trait: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(AxesExplorer(**{trait: value}), trait) == value
    for value in (low - 1, high + 1):
        with pytest.raises(TraitValueError, match=f"{trait} must be"):
            AxesExplorer(**{trait: value})


def test_a_value_from_the_page_is_checked_too() -> None:
    explorer = AxesExplorer()
    with pytest.raises(ValueError, match="change must be a number from −8 to 8"):
        explorer.set_state({"change": 9})
    explorer.set_state({"norm": "rms", "sample": 3, "change": 1})
    assert (explorer.norm, explorer.sample, explorer.change) == ("rms", 3, 1.0)


# --- the arithmetic ------------------------------------------------------------------------------


def test_samples_and_channels_differ_in_mean_and_spread() -> None:
    x = axes.block(1, 0)
    for dims in ((1, 2), (0, 2)):
        for statistics in (x.mean(dims), x.std(dims)):
            gaps = torch.pdist(statistics[:, None])
            assert gaps.min() > 0.01
            assert gaps.max() > 1
    assert torch.equal(2 * x, (2 * x).round())  # halves


@each_norm
def test_x_hat_is_pytorchs(norm: str) -> None:
    for changed, change in ((1, 0.0), (2, 4.0), (3, -8.0)):
        x = changed_block(changed, change)
        assert torch.equal(axes.block(changed, change), x)
        error = (axes.normalize(x, norm).x_hat - PYTORCH[norm](x)).abs().max().item()
        assert error < 1e-13  # float64, 20 terms, outputs of size 1


@each_norm
def test_cells_are_lit_that_share_statistics_in_pytorch(norm: str) -> None:
    shared = shared_by_pytorch(norm)
    for row, (sample, channel, position) in enumerate(CELLS):
        lit = AxesExplorer(norm=norm, sample=sample, channel=channel, position=position).lit()
        assert torch.equal(lit.flatten(), shared[row])
        assert lit.sum() == SIZES[norm]


@each_norm
def test_mean_and_deviation_are_those_of_the_lit_cells(norm: str) -> None:
    for sample, channel, position in CELLS:
        here = {"sample": sample, "channel": channel, "position": position}
        explorer = AxesExplorer(norm=norm, changed=2, change=4, **here)
        group = axes.block(2, 4)[explorer.lit()]
        now, at = explorer.now(), (sample - 1, channel - 1, position - 1)
        rms = group.square().mean().sqrt()
        mean, std = (0, rms) if norm == "rms" else (group.mean(), group.std(correction=0))
        assert now.mean[at].item() == pytest.approx(float(mean), abs=1e-14)
        assert now.std[at].item() == pytest.approx(float(std), rel=1e-14)


@each_norm
def test_at_every_stop_of_the_slider_all_outputs_move_that_can(norm: str) -> None:
    """No stop is an accident at which an output happens to come back to where it was."""
    for changed, change in itertools.product((1, 2, 3), STEPS):
        moved = AxesExplorer(norm=norm, changed=changed, change=change).moved()
        assert torch.equal(moved, moved_in_pytorch(norm, changed, change))
        expected = torch.zeros(3, dtype=torch.int64)
        if change != 0:
            expected[slice(None) if norm == "batch" else changed - 1] = 20
        assert torch.equal(moved.sum((1, 2)), expected)
        if change != 0:
            now, before = (PYTORCH[norm](changed_block(changed, c)) for c in (change, 0))
            least = (now - before).abs()[moved].min()
            assert least > 5e-4  # as the comment at PATTERN says, far above MOVED_BY


# --- the sentence --------------------------------------------------------------------------------

HERE = {"sample": 1, "channel": 2, "position": 3, "changed": 2}


@pytest.mark.parametrize(
    ("norm", "told", "count"),
    [
        ("batch", "Batch norm in training: the 15 values of channel 2 in all samples", 4),
        ("layer_sample", "Layer norm, whole sample: the 20 values of sample 1", 3),
        (
            "layer_position",
            "Layer norm, each position: the 4 values of sample 1 at position 3",
            15,
        ),
        ("instance", "Instance norm: the 5 values of sample 1 in channel 2", 12),
        ("group", "Group norm, two groups: the 10 values of sample 1 in channels 1 and 2", 6),
        ("rms", "RMS norm, each position: the 4 values of sample 1 at position 3", 15),
    ],
)
def test_sentence_and_verdict_say_what_shares_statistics_and_what_moved(
    norm: str, told: str, count: int
) -> None:
    pairs = "" if norm == "rms" else " pairs"
    for change in (0, 4):
        explorer = AxesExplorer(norm=norm, change=change, **HERE)
        sentence = explorer.sentence()
        share = "a root mean square of " if norm == "rms" else "μ = "
        assert sentence.startswith(f"{told} share {share}")
        assert len(sentence) < 170
        moved = 0 if change == 0 else 60 if norm == "batch" else 20
        assert sentence.endswith(f", one of {count}{pairs}. {moved} of 60 outputs moved.")
        where = "samples 1, 2 and 3" if norm == "batch" else "sample 2 only"
        seen = f"Outputs moved in {where}" if change else "Nothing is changed yet"
        assert explorer.verdict() == seen


def test_the_sentence_tells_the_statistics_before_and_now() -> None:
    x, later = changed_block(2, 0), changed_block(2, 4)
    before, now = (
        " and ".join(number(v.item()) for v in (c.mean(), c.std(correction=0)))
        for c in (x[:, 1], later[:, 1])
    )
    batch = AxesExplorer(norm="batch", change=4, **HERE).sentence()
    assert f"share μ = {now.replace('and ', 'and σ = ')} (before: {before}), one" in batch
    first = " and σ = ".join(number(v.item()) for v in (x[0].mean(), x[0].std(correction=0)))
    layer = AxesExplorer(norm="layer_sample", change=4, **HERE).sentence()
    assert f"share μ = {first}, one of 3" in layer  # as before the change
    size, later_size = (number(c[1, :, 2].square().mean().sqrt().item()) for c in (x, later))
    rms = AxesExplorer(norm="rms", change=4, **{**HERE, "sample": 2}).sentence()
    assert f"square of {later_size} (before: {size}), one of 15. " in rms


def test_a_change_too_small_to_move_anything_is_told() -> None:
    explorer = AxesExplorer(changed=3, change=1e-12)
    assert explorer.sentence().endswith(" 0 of 60 outputs moved.")
    assert explorer.verdict() == "No output moved"


# --- what stands in for the widget ---------------------------------------------------------------


@pytest.mark.parametrize(("norm", "change"), [*zip(NORMS, 3 * [-8, 8], strict=True), ("group", 0)])
def test_the_picture_is_small_in_every_edge_state(norm: str, change: float) -> None:
    for at in ((1, 1, 1), (3, 4, 5)):
        here = dict(zip(("sample", "channel", "position"), at, strict=True))
        assert len(AxesExplorer(norm=norm, changed=at[0], change=change, **here).png()) < 15_000


def boxes(ax: Any, color: str) -> list[tuple[float, ...]]:
    """The rectangles outlined in a color: left, top, width, height in cells."""
    found = [p for p in ax.patches if isinstance(p, Rectangle) and not p.get_fill()]
    outlined = [p for p in found if p.get_edgecolor() == plain_color(color)]
    return [(p.get_x() + 0.5, p.get_y() + 0.5, p.get_width(), p.get_height()) for p in outlined]


def plain_color(color: str) -> tuple[float, ...]:
    return (*(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)), 1.0)


@each_norm
def test_the_picture_frames_marks_and_counts_what_the_norm_says(norm: str) -> None:
    explorer = AxesExplorer(norm=norm, change=4, sample=2, channel=3, position=4, changed=2)
    figure = explorer.picture()
    above, below = figure.axes[:3], figure.axes[3:]
    lit, moved, x_hat = explorer.lit(), explorer.moved(), PYTORCH[norm](changed_block(2, 4))
    assert boxes(above[1], axes.MOVED) == [(3, 2, 1, 1)]
    for n, (upper, lower) in enumerate(zip(above, below, strict=True)):
        framed = {
            (c, p)
            for x, y, width, height in boxes(upper, axes.BLUE)
            for c in range(int(y), int(y + height))
            for p in range(int(x), int(x + width))
        }
        assert framed == {tuple(at) for at in lit[n].nonzero().tolist()}
        assert boxes(upper, axes.BLUE) == boxes(lower, axes.BLUE)
        marks = [p.get_xy() for p in lower.patches if isinstance(p, Polygon)]
        corners = {(round(xy[0][1]), round(xy[0][0])) for xy in marks}
        assert corners == {tuple(at) for at in moved[n].nonzero().tolist()}
        assert not any(isinstance(p, Polygon) for p in upper.patches)
        assert lower.get_title() == f"{int(moved[n].sum())} of 20 moved"
        assert upper.get_title() == ("sample 2, changed" if n == 1 else f"sample {n + 1}")
        for ax in (upper, lower):  # channel 1 on top, position 1 on the left
            assert ax.get_ylim() == (3.6, -0.6)
            assert ax.get_xlim() == (-0.6, 4.6)
        assert len(lower.texts) == int(lit[n].sum())
        for text in lower.texts:  # the numbers in the cells
            p, c = (int(v) for v in text.get_position())
            shown = float(text.get_text().replace("−", "-"))
            assert shown == pytest.approx(x_hat[n, c, p].item(), abs=0.0501)
    assert f"framed: {SIZES[norm]} values" in figure.get_suptitle()
    assert figure.get_suptitle().startswith(f"{explorer.verdict()}\n")


@pytest.mark.parametrize(
    ("value", "words"),
    [(-1.25, "−1.3"), (0.04, "0"), (-0.04, "0"), (9.94, "9.9"), (9.96, "10"), (-10.5, "−11")],
)
def test_a_number_in_a_cell_is_written_as_on_the_page(value: float, words: str) -> None:
    assert axes.cell_number(value) == words


# --- the page's arithmetic -----------------------------------------------------------------------


def golden_case(norm: str, changed: int, change: float) -> dict[str, Any]:
    x = changed_block(changed, change)
    return {
        "norm": norm,
        "changed": changed,
        "change": change,
        "x": x.flatten().tolist(),
        "xHat": PYTORCH[norm](x).flatten().tolist(),
        "moved": moved_in_pytorch(norm, changed, change).flatten().tolist(),
    }


def golden_group(norm: str, cell: tuple[int, int, int], shared: Tensor) -> dict[str, Any]:
    """What PyTorch says of the values in the group of ``cell``, with sample 2 changed by 4."""
    places = shared[CELLS.index(cell)]
    values = changed_block(2, 4).flatten()[places]
    rms = values.square().mean().sqrt().item()
    center = norm != "rms"
    return {
        "norm": norm,
        "cell": dict(zip(("sample", "channel", "position"), cell, strict=True)),
        "places": places.nonzero().flatten().tolist(),
        "mean": values.mean().item() if center else 0,
        "std": values.std(correction=0).item() if center else rms,
    }


def golden_sentences(norm: str, shared: Tensor) -> list[dict[str, Any]]:
    """One cell of each group, at every stop of the slider and some numbers that are typed."""
    firsts = sorted({int(row.nonzero()[0]) for row in shared})
    explorer, told = AxesExplorer(norm=norm), []
    changes = [(changed, change) for changed in (1, 2, 3) for change in (0.0, 4.0, 0.123)]
    changes += zip(itertools.cycle((1, 2, 3)), STEPS + TYPED, strict=False)
    for changed, change in changes:
        for place in firsts[:: 1 if change in (0.0, 4.0, 0.123) else 4]:
            cell = dict(zip(("sample", "channel", "position"), CELLS[place], strict=True))
            state = {"norm": norm, **cell, "changed": changed, "change": change}
            explorer.set_state(state)
            words = {"sentence": explorer.sentence(), "verdict": explorer.verdict()}
            told.append({"state": state, **words})
    return told


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    traits = AxesExplorer.class_traits()
    names = ("norm", "sample", "channel", "position", "changed", "change")
    shared = {norm: shared_by_pytorch(norm) for norm in NORMS}
    return {
        "defaults": {name: getattr(AxesExplorer(), name) for name in names},
        "limits": {"change": [traits["change"].low, traits["change"].high]}
        | {name: [*traits[name].options[:: len(traits[name].options) - 1]] for name in names[1:5]},
        "values": torch.tensor(axes.BLOCK).flatten().tolist(),
        "pattern": torch.tensor(axes.PATTERN).flatten().tolist(),
        "cells": [dict(zip(("sample", "channel", "position"), c, strict=True)) for c in CELLS],
        "norms": NORMS,
        "pairs": {norm: len({tuple(row) for row in shared[norm].tolist()}) for norm in NORMS},
        "cases": [
            golden_case(norm, changed, change)
            for norm in NORMS
            for changed in (1, 2, 3)
            for change in (-8, -3.5, 0, 0.5, 4, 8, *TYPED)
        ],
        "groups": [golden_group(norm, c, shared[norm]) for norm in NORMS for c in CELLS],
        "sentences": [s for norm in NORMS for s in golden_sentences(norm, shared[norm])],
    }


def test_javascript(run_js: Any, golden: dict[str, Any]) -> None:
    assert len(golden["sentences"]) > 900
    run_js("axes", golden)


# --- the page ------------------------------------------------------------------------------------

DESK, PHONE = {"width": 900, "height": 1000}, {"width": 390, "height": 844}
STARTS = {
    "Batch norm": {},
    "The paper’s layer norm": {"norm": "layer_sample"},
    "A Transformer’s layer norm": {"norm": "layer_position", "sample": 2},
    "RMS norm: no mean": {"norm": "rms", "sample": 2},
}

DRAWN = """explorer => {
    const box = (e) => e.getBoundingClientRect();
    const shown = (kind) => [...explorer.querySelectorAll('svg .ln-' + kind)]
        .filter((e) => getComputedStyle(e).visibility !== 'hidden')
        .map((e) => [e.textContent, [box(e).left, box(e).top, box(e).right, box(e).bottom]]);
    const kinds = 'tint cell lit corner group ring changed some none title'.split(' ');
    return Object.fromEntries(kinds.map((kind) => [kind, shown(kind)]));
}"""


def middle(box: list[float]) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def around(outer: list[float], point: tuple[float, float]) -> bool:
    return outer[0] < point[0] < outer[2] and outer[1] < point[1] < outer[3]


class Drawing:
    """What a reader sees, by where it stands: no cell is looked up by its order in the page."""

    def __init__(self, explorer: Any) -> None:
        self.parts = explorer.evaluate(DRAWN)
        tints = [box for _, box in self.parts["tint"]]
        self.columns = sorted({round(middle(box)[0]) for box in tints})
        self.rows = sorted({round(middle(box)[1]) for box in tints})
        self.wide = len(self.columns) == 15
        assert len(tints) == 120
        assert (len(self.columns), len(self.rows)) == ((15, 8) if self.wide else (10, 12))

    def place(self, point: tuple[float, float]) -> tuple[int, int, int, int]:
        """Row of slabs (0 for x, 1 for its output), sample, channel, position, from 0."""
        column = min(range(len(self.columns)), key=lambda i: abs(self.columns[i] - point[0]))
        row = min(range(len(self.rows)), key=lambda i: abs(self.rows[i] - point[1]))
        if self.wide:
            return row // 4, column // 5, row % 4, column % 5
        return column // 5, row // 4, row % 4, column % 5

    def point(self, row: int, sample: int, channel: int, position: int) -> tuple[float, float]:
        """The middle of a cell on the screen; sample, channel and position from 1."""
        n, c, p = sample - 1, channel - 1, position - 1
        if self.wide:
            return self.columns[5 * n + p], self.rows[4 * row + c]
        return self.columns[5 * row + p], self.rows[4 * n + c]

    def numbers(self) -> tuple[Tensor, Tensor]:
        """The numbers written in the cells of x and of its output."""
        both = torch.full((2, 3, 4, 5), torch.nan, dtype=torch.float64)
        for words, box in self.parts["cell"]:
            both[self.place(middle(box))] = float(words.replace("−", "-"))
        return both[0], both[1]

    def marked(self, kind: str) -> Tensor:
        """Where marks of a kind are, (2, 3, 4, 5)."""
        found = torch.zeros(2, 3, 4, 5, dtype=torch.bool)
        for _, box in self.parts[kind]:
            found[self.place(middle(box))] = True
        return found

    def inside(self, kind: str) -> Tensor:
        """Which cells lie inside outlines of a kind, (2, 3, 4, 5)."""
        found = torch.zeros(2, 3, 4, 5, dtype=torch.bool)
        for _, box in self.parts["tint"]:
            at = middle(box)
            found[self.place(at)] = any(around(outer, at) for _, outer in self.parts[kind])
        return found

    def counts(self) -> list[str]:
        """What is written under, or on a phone above, the outputs of samples 1, 2 and 3."""
        said = [part for kind in ("some", "none") for part in self.parts[kind]]
        counted = sorted((middle(box), words) for words, box in said if "of 20" in words)
        return [words for (x, y), words in sorted(counted, key=lambda c: c[0][not self.wide])]


def alone(someone: Any, **state: Any) -> Any:
    """Open the explorer on a page of its own, whose time passes when the test says so."""
    someone.page.clock.install()
    return someone.alone(AxesExplorer(**state))


def said(someone: Any, explorer: Any) -> str:
    someone.page.clock.run_for(400)  # the sentence waits for a pause
    return str(explorer.locator(".ln-sentence").inner_text().replace("\xa0", " "))


def assert_shows(someone: Any, explorer: Any, **state: Any) -> None:
    """Every number, frame, mark and word on the page is that of ``state``, by PyTorch."""
    expected = AxesExplorer(**state)
    norm, changed, change = expected.norm, expected.changed, expected.change
    told, drawing = said(someone, explorer), Drawing(explorer)
    x = changed_block(changed, change)
    for shown, value in zip(drawing.numbers(), (x, PYTORCH[norm](x)), strict=True):
        error = (shown - value).abs()
        assert error[value.abs() < 9.9].max() < 0.0501
        assert error.max() < 0.501
    here = (expected.sample, expected.channel, expected.position)
    lit = shared_by_pytorch(norm)[CELLS.index(here)].view(3, 4, 5)
    assert torch.equal(drawing.inside("group"), torch.stack([lit, lit]))
    assert torch.equal(drawing.marked("lit"), torch.stack([lit, lit]))
    moved = moved_in_pytorch(norm, changed, change)
    assert torch.equal(drawing.marked("corner"), torch.stack([torch.zeros_like(moved), moved]))
    assert drawing.counts() == [f"{int(one.sum())} of 20 moved" for one in moved]
    ring = torch.zeros(3, 4, 5, dtype=torch.bool)
    ring[here[0] - 1, here[1] - 1, here[2] - 1] = True
    assert torch.equal(drawing.inside("ring"), torch.stack([ring, ring]))
    frame = drawing.inside("changed")
    assert frame[0, changed - 1].all()
    assert frame.sum() == 20
    heads = [words for words, _ in drawing.parts["title"] if words.startswith("sample")]
    yours = f"sample {changed}" + (", changed" if change else "")
    assert heads == [yours if n == changed else f"sample {n}" for n in (1, 2, 3)]
    assert told == expected.sentence()
    assert explorer.locator(".ln-verdict").inner_text() == expected.verdict()


def field(explorer: Any) -> Any:
    return explorer.get_by_role("spinbutton", name="Change (times a fixed pattern), as a number")


def choose(explorer: Any, norm: str) -> None:
    explorer.get_by_label("Norm").select_option(norm)


def fold(explorer: Any) -> None:
    explorer.locator(".ln-fold").evaluate("e => { e.open = true; }")


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_a_norm_shows_what_pytorch_computes(reader: Any, viewport: Any) -> None:
    someone = reader(viewport=viewport)
    explorer = alone(someone, **HERE, change=4)
    assert Drawing(explorer).wide == (viewport is DESK)
    for norm in NORMS:
        choose(explorer, norm)
        assert_shows(someone, explorer, norm=norm, change=4, **HERE)


def test_the_slider_changes_the_sample_with_the_keys(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, change=0)
    slider = explorer.get_by_role("slider", name="Change (times a fixed pattern)")
    slider.focus()
    for _ in range(3):
        someone.page.keyboard.press("ArrowRight")
    assert_shows(someone, explorer, change=1.5)
    assert slider.get_attribute("aria-valuetext") == "1.5 times the pattern"
    someone.page.keyboard.press("Home")
    assert_shows(someone, explorer, change=-8)
    someone.page.keyboard.press("End")
    assert_shows(someone, explorer, change=8)


def test_a_typed_change_is_taken_and_one_out_of_range_is_refused(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone)
    number_field = field(explorer)
    number_field.fill("-2.25")
    number_field.press("Enter")
    assert_shows(someone, explorer, change=-2.25)
    number_field.fill("9")
    number_field.press("Enter")
    assert number_field.get_attribute("aria-invalid") == "true"
    assert explorer.get_by_role("alert").inner_text() == "Change goes from −8 to 8"
    assert_shows(someone, explorer, change=-2.25)
    number_field.fill("3")
    number_field.press("Enter")
    number_field.press("ArrowUp")
    assert_shows(someone, explorer, change=3.5)
    number_field.press("PageDown")
    assert_shows(someone, explorer, change=1.5)


def test_the_sample_to_change_is_chosen_with_the_arrow_keys(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, change=3, changed=1)
    fold(explorer)
    explorer.get_by_role("radio", name="Sample 1").focus()
    someone.page.keyboard.press("ArrowRight")
    assert_shows(someone, explorer, change=3, changed=2)
    someone.page.keyboard.press("ArrowRight")
    assert_shows(someone, explorer, change=3, changed=3)


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_a_cell_is_selected_with_a_click_in_the_input_and_in_the_output(
    reader: Any, viewport: Any
) -> None:
    someone = reader(viewport=viewport)
    explorer = alone(someone, norm="instance")
    for row, cell in ((0, (3, 4, 5)), (1, (2, 3, 1)), (0, (1, 1, 1)), (1, (3, 1, 4))):
        explorer.locator(".ln-chart svg").scroll_into_view_if_needed()
        someone.page.mouse.click(*Drawing(explorer).point(row, *cell))
        here = dict(zip(("sample", "channel", "position"), cell, strict=True))
        assert_shows(someone, explorer, norm="instance", **here)


def test_a_click_beside_the_cells_selects_nothing(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, sample=2, channel=2, position=2)
    (head,) = (box for words, box in Drawing(explorer).parts["title"] if words == "input x")
    someone.page.mouse.click(*middle(head))
    assert_shows(someone, explorer, sample=2, channel=2, position=2)


def test_a_tap_selects_a_cell(reader: Any) -> None:
    someone = reader(viewport=PHONE, has_touch=True)
    explorer = alone(someone, norm="group")
    explorer.locator(".ln-chart svg").scroll_into_view_if_needed()
    someone.page.touchscreen.tap(*Drawing(explorer).point(0, 2, 3, 4))
    assert_shows(someone, explorer, norm="group", sample=2, channel=3, position=4)


def test_the_ring_is_dragged_to_the_cell_under_the_pointer(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, norm="layer_position")
    drawing, mouse = Drawing(explorer), someone.page.mouse
    x, y = drawing.point(0, 1, 1, 1)
    mouse.move(x - 16, y + 12)
    mouse.down()
    mouse.move(*drawing.point(0, 2, 2, 5), steps=4)
    state = {"norm": "layer_position", "sample": 2, "channel": 2, "position": 5}
    assert_shows(someone, explorer, **state)  # before it is let go
    mouse.move(*drawing.point(0, 3, 4, 2), steps=4)
    mouse.up()
    state = {"norm": "layer_position", "sample": 3, "channel": 4, "position": 2}
    assert_shows(someone, explorer, **state)
    mouse.move(*drawing.point(0, 1, 1, 1))
    assert_shows(someone, explorer, **state)


def test_the_ring_stops_at_the_nearest_cell(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone)
    x, y = Drawing(explorer).point(0, 1, 1, 1)
    someone.page.mouse.move(x, y)
    someone.page.mouse.down()
    someone.page.mouse.move(899, y + 5)
    assert_shows(someone, explorer, sample=3, channel=1, position=5)
    someone.page.mouse.up()


def test_the_ring_walks_with_the_arrow_keys(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone)
    ring = explorer.get_by_role("slider", name="Selected cell")
    ring.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight"):
        someone.page.keyboard.press(key)
    assert_shows(someone, explorer, channel=2, position=2)
    for _ in range(4):
        someone.page.keyboard.press("ArrowRight")  # on into the next sample
    someone.page.keyboard.press("ArrowLeft")
    assert_shows(someone, explorer, channel=2, position=5)
    someone.page.keyboard.press("ArrowRight")
    assert_shows(someone, explorer, sample=2, channel=2, position=1)
    x = changed_block(2, 4)
    values = [number(v[1, 1, 0].item()) for v in (x, PYTORCH["batch"](x))]
    told = f"sample 2, channel 2, position 1: x is {values[0]}, x̂ is {values[1]}"
    assert ring.get_attribute("aria-valuetext") == told
    assert ring.get_attribute("aria-valuenow") == "26"
    assert ring.get_attribute("aria-valuemin") == "1"
    assert ring.get_attribute("aria-valuemax") == "60"


def test_a_start_is_what_its_button_says_and_reset_undoes_it(reader: Any) -> None:
    someone = reader(viewport=DESK)
    first = {"norm": "group", "sample": 3, "channel": 4, "position": 5, "changed": 3, "change": -8}
    explorer = alone(someone, **first)
    fold(explorer)
    for name, start in STARTS.items():
        explorer.get_by_role("button", name=name, exact=True).click()
        assert_shows(someone, explorer, **start)
        assert field(explorer).input_value() == "4"
        assert explorer.get_by_label("Norm").input_value() == AxesExplorer(**start).norm
        assert explorer.locator("input:checked + span").all_inner_texts() == ["Sample 2"]
        explorer.get_by_role("button", name="Reset").click()
        assert_shows(someone, explorer, **first)
        assert field(explorer).input_value() == "-8"


def test_a_reader_guesses_whose_outputs_move_before_any_is_marked(reader: Any) -> None:
    for viewport in (DESK, PHONE):
        someone = reader(viewport=viewport, guess=True)
        explorer = alone(someone, norm="batch", sample=2)
        drawing = Drawing(explorer)
        shown = torch.stack(drawing.numbers())
        before = torch.stack([changed_block(2, 0), PYTORCH["batch"](changed_block(2, 0))])
        assert (shown - before).abs().max() < 0.0501  # the change is yet to come
        assert [drawing.parts[kind] for kind in ("corner", "some", "group", "lit")] == 4 * [[]]
        assert [words for words, _ in drawing.parts["none"]] == 3 * [""]
        later = explorer.locator(".ln-later, .ln-sentence, .ln-answer")
        assert all(not one.is_visible() or one.inner_text() == "" for one in later.all())
        bets = explorer.locator(".ln-bet")
        box = bets.first.bounding_box()
        for x in (box["x"] - 3, box["x"] + 30):  # beside it, where a cell is near, and on a sample
            someone.page.mouse.click(x, box["y"] + 60)
        third = explorer.get_by_role("button", name="Outputs of sample 3 will move")
        third.press("Space")
        explorer.get_by_role("button", name="Outputs of sample 1 will move").press("Enter")
        assert bets.all_inner_texts() == ["?", "?", "will move"]
        pressed = [one.get_attribute("aria-pressed") for one in bets.all()]
        assert pressed == ["false", "false", "true"]
        for one in bets.all():
            box = one.bounding_box()
            assert min(box["width"], box["height"]) >= 44
            assert one.get_attribute("data-lm-suppress-shortcuts") == "true"
        assert Drawing(explorer).parts["corner"] == []
        assert violations(someone.page) == []
        explorer.get_by_role("button", name="See").click()
        answer = explorer.locator(".ln-answer").inner_text()
        assert answer == "You said sample 3; samples 1, 2 and 3 moved."
        assert_shows(someone, explorer, norm="batch", sample=2)
        assert bets.count() == 0


def test_what_is_asked_names_the_norm_and_the_sample_and_nothing_if_none_changes(
    reader: Any,
) -> None:
    someone = reader(viewport=DESK, guess=True)
    explorer = someone.alone(AxesExplorer(norm="group", changed=3))
    asked = explorer.locator(".ln-ask p").inner_text()
    assert asked.startswith("Group norm, two groups: sample 3 will change. Tap each sample")
    explorer = someone.alone(AxesExplorer(change=0))
    assert explorer.locator(".ln-ask, .ln-bet").count() == 0
    assert explorer.locator(".ln-verdict").inner_text() == "Nothing is changed yet"


def test_the_text_nudges_the_change_and_shows_numbers(reader: Any) -> None:
    explorer = reader(viewport=DESK).alone(AxesExplorer(norm="instance", sample=2))
    told = explorer.evaluate(
        """explorer => new Promise((done) => {
            explorer.addEventListener("ln-drawn", ({ detail }) => done(detail.numbers()));
            const nudge = new CustomEvent("ln-nudge", { detail: { trait: "change", by: -3 } });
            explorer.querySelector(".ln-axes").dispatchEvent(nudge);
        })"""
    )
    group = changed_block(2, 2.5)[1, 0]
    numbers = {"mean": group.mean(), "std": group.std(correction=0), "change": torch.tensor(2.5)}
    expected = {name: number(v.item()) for name, v in numbers.items()} | {"moved": "20"}
    assert {name: told[name] for name in expected} == expected


@pytest.mark.parametrize("norm", ["batch", "group", "rms"])
def test_the_table_tells_the_selected_cell_before_and_now(reader: Any, norm: str) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, norm=norm, **{**HERE, "sample": 2}, change=4)
    fold(explorer)
    heads = explorer.locator(".ln-table thead th").all_inner_texts()
    assert heads == ["the selected cell", "before the change", "now"]
    lit = shared_by_pytorch(norm)[CELLS.index((2, 2, 3))].view(3, 4, 5)
    columns = []
    for change in (0, 4):
        x = changed_block(2, change)
        group, x_hat = x[lit], PYTORCH[norm](x)[1, 1, 2]
        spread = group.square().mean().sqrt() if norm == "rms" else group.std(correction=0)
        shown = [number(v.item()) for v in (x[1, 1, 2], group.mean(), spread, x_hat)]
        columns.append([shown[0], "–", *shown[2:]] if norm == "rms" else shown)
    rows = explorer.locator(".ln-table tr:has(td)")
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    assert cells == [list(row) for row in zip(*columns, strict=True)]
    told = rows.locator("th").all_inner_texts()
    center = ["mean μ", "standard deviation σ", "x̂ = (x − μ) / √(σ² + ε)"]
    rms = ["mean, not subtracted", "root mean square", "x̂ = x / √(mean of x² + ε)"]
    assert [t.replace("\xa0", " ") for t in told] == ["x", *(rms if norm == "rms" else center)]


# Text may touch, not overlap: half a pixel is rounding. A line's box is higher than its letters.
OVERLAPS = """explorer => {
    const frame = explorer.getBoundingClientRect();
    const texts = [...explorer.querySelectorAll('svg text')].filter((t) => t.textContent);
    const boxes = texts.map((t) => {
        const { left, right, top, bottom, height } = t.getBoundingClientRect();
        const upright = t.getAttribute('transform')?.includes('rotate');
        const [above, below] = upright ? [0, 0] : [height / 4, height / 5];
        return { words: t.textContent, left, right, top: top + above, bottom: bottom - below };
    });
    const out = boxes.filter((r) => r.left < frame.left + 1 || r.right > frame.right - 1);
    const found = out.map((r) => r.words);
    const apart = (r, s) => r.left > s.right - 0.5 || r.top > s.bottom - 0.5;
    boxes.forEach((r, i) => boxes.slice(0, i).forEach((s) => {
        if (!apart(r, s) && !apart(s, r)) found.push(`${r.words} | ${s.words}`);
    }));
    return found;
}"""
EDGES = [
    {"norm": norm, "changed": changed, "change": change, "sample": changed, "channel": 4}
    for norm in NORMS
    for changed in (1, 3)
    for change in (-8, 8)
]


@pytest.mark.parametrize("width", [360, 390, 640, 760, 1000])
def test_no_text_overlaps_another_or_leaves_the_frame(reader: Any, width: int) -> None:
    someone = reader(viewport={"width": width, "height": 900})
    explorer = alone(someone)
    fold(explorer)
    for state in EDGES:
        choose(explorer, str(state["norm"]))
        explorer.get_by_role("radio", name=f"Sample {state['changed']}").press("Space")
        field(explorer).fill(str(state["change"]))
        field(explorer).press("Enter")
        assert explorer.evaluate(OVERLAPS) == [], state
        assert someone.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_mark_covers_no_number(reader: Any) -> None:
    for viewport in (DESK, PHONE):
        explorer = reader(viewport=viewport).alone(AxesExplorer(change=8))
        parts = Drawing(explorer).parts
        assert len(parts["corner"]) == 60
        for _, mark in parts["corner"]:
            for words, box in parts["cell"]:
                top = box[1] + (box[3] - box[1]) / 4  # of the letters
                covers = mark[0] < box[2] and box[0] < mark[2] and mark[3] > top
                assert not (covers and mark[1] < box[3]), words


# The color that each tint gives on its paper, then the color and the text of the number on it.
TINTS = """explorer => {
    const numbers = (color) => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    return [...explorer.querySelectorAll('.ln-tint')].map((box) => {
        const all = [box.parentNode.querySelector('.ln-paper'), box];
        const [paper, tint] = all.map((e) => getComputedStyle(e));
        const [under, over] = [paper, tint].map((style) => numbers(style.fill));
        const seen = under.map((c, i) => c + (over[i] - c) * Number(tint.fillOpacity));
        const words = box.nextElementSibling;
        return [seen, numbers(getComputedStyle(words).fill), words.textContent];
    });
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("norm", ["layer_sample", "batch"])
def test_numbers_are_readable_on_every_tint(reader: Any, theme: str, norm: str) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone, norm=norm, change=8, changed=2, sample=2)
    someone.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    contrasts = []
    for tint, letters, _ in explorer.evaluate(TINTS):
        low, high = sorted((luminance(tint), luminance(letters)))
        contrasts.append((high + 0.05) / (low + 0.05))
    assert len(contrasts) == 120
    assert min(contrasts) >= 4.5
    assert max(contrasts) - min(contrasts) > 3  # the tints are there


def test_a_tint_tells_sign_and_size(reader: Any) -> None:
    explorer = reader(viewport=DESK).alone(AxesExplorer(sample=2, norm="layer_sample", change=0))
    strength = {}
    for (red, _, blue), _, words in explorer.evaluate(TINTS)[20:40]:  # the input of sample 2
        value = float(words.replace("−", "-"))
        assert (blue > red) == (value > 0)
        strength[value] = abs(blue - red)
    positive = [strength[value] for value in sorted(strength) if 0 < value <= 5]
    assert positive == sorted(positive)
    assert positive[-1] > 4 * positive[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(reader: Any, theme: str) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone)
    someone.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
    color = explorer.locator(".ln-explorer").evaluate("e => getComputedStyle(e).backgroundColor")
    assert color == ("rgb(255, 255, 255)" if theme == "light" else "rgb(20, 24, 30)")
    found = violations(someone.page)
    assert {v["id"]: [node["html"][:200] for node in v["nodes"]] for v in found} == {}


def test_a_finger_can_hit_every_control(reader: Any) -> None:
    someone = reader(viewport=PHONE, has_touch=True)
    explorer = alone(someone)
    fold(explorer)
    kinds = (
        "button",
        "select",
        "summary",
        ".ln-choice label",
        "input[type=range]",
        "input[type=number]",
    )
    for kind in (*kinds, ".ln-target"):
        for one in explorer.locator(kind).all():
            box = one.bounding_box()
            assert min(box["width"], box["height"]) >= 44, kind
    keep = explorer.locator("input, button, select, summary, [tabindex]")
    assert keep.count() == 1 + 1 + 2 + 1 + 1 + 4 + 3
    for one in keep.all():
        assert one.get_attribute("data-lm-suppress-shortcuts") == "true"


def test_the_drawing_follows_its_width(reader: Any) -> None:
    someone = reader(viewport=DESK)
    explorer = alone(someone)
    assert Drawing(explorer).wide
    someone.page.set_viewport_size(PHONE)
    someone.page.wait_for_timeout(200)
    assert not Drawing(explorer).wide
    assert_shows(someone, explorer, change=4)
    assert explorer.locator("[id]").count() == 0
