"""Who is right where: the benchmark measures it without errors of its own; pictures show it."""

import math
import re
import sys
from itertools import pairwise

import accuracy_providers
import bench_accuracy
import matplotlib.pyplot as plt
import pytest
import torch
from accuracy_providers import DTYPES, EPS, LOADERS, THEIRS, Provider, in_pytorch, one_pass
from bench_accuracy import ROUNDED, WHAT
from drawings import accuracy
from results_table import save

from lnlib import formula
from lnlib.book.home import ROOT
from lnlib.dispatch import BACKENDS

PEERS = ("Flax", "Flax two-pass", "Keras on JAX", "ONNX Runtime")
ALL = tuple(accuracy.LOOKS)


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(bench_accuracy, "MOST_DRAWS", 2)


def truth_in(dtype):
    """A provider that rounds the truth once, as no other can do better."""

    def run(draw):
        return [each.nearest.to(dtype) for each in bench_accuracy.truth(draw)]

    return Provider(run, "")


def errors(provider, dtype, mean=0.0, shape=(3, 13)):
    found = bench_accuracy.rms_errors({"it": provider}, dtype, mean, shape)
    return [a / b for a, b in zip(found["it"], found[ROUNDED], strict=True)]


# The truth.


def test_fifty_digits_agree_with_the_formula_in_float64():
    draw = next(bench_accuracy.draws((3, 13), 1e2, torch.float64))
    leaves = [tensor.clone().requires_grad_() for tensor in draw[:3]]
    y = formula.layer_norm(*leaves, eps=EPS)
    expected = [y.detach(), *torch.autograd.grad(y, leaves, draw.dy)]
    for true, each in zip(bench_accuracy.truth(draw), expected, strict=True):
        # A mean of 100 is rounded by 1e-14, which a few operations and the weight multiply.
        assert (true.nearest - each).abs().max() < 1e-12
        assert 0 < true.rest.abs().max() < 1e-15  # half of the last digit of numbers up to 8


def test_an_error_far_below_the_last_digit_of_float64_is_seen():
    true = bench_accuracy.Truth(*torch.tensor([[1.0], [1e-20]], dtype=torch.float64))
    assert bench_accuracy.squared_error(true.nearest, true) == pytest.approx(1e-40, abs=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_truth_rounded_once_has_an_error_of_one(dtype):
    assert errors(truth_in(dtype), dtype) == [1, 1, 1, 1]


# The providers.


@pytest.mark.parametrize("name", [name for name in LOADERS if name not in PEERS])
def test_whoever_needs_no_installation_is_right_on_easy_rows(name):
    provider = LOADERS[name]()
    dtype = torch.float64 if bench_accuracy.takes(provider, torch.float64) else torch.float32
    assert max(errors(provider, dtype)) < 10  # roundings: a few dozen operations, at random


def test_every_backend_of_lnlib_takes_part_and_every_method_has_a_look():
    ours = {f"lnlib {backend}" for backend in BACKENDS if backend != "torch"}
    assert ours == {name for name in LOADERS if name.startswith("lnlib ")}
    assert set(ALL) == set(LOADERS)


@pytest.mark.parametrize("i", range(4))
def test_a_wrong_result_has_a_large_error_and_no_other_has(i):
    def run(draw):
        results = truth_in(torch.float32).run(draw)
        results[i] = results[i] * 1.01
        return results

    found = errors(Provider(run, ""), torch.float32)
    assert found.pop(i) > 1e4  # one percent, where a rounding is 3e-8
    assert found == [1, 1, 1]


def test_one_pass_fails_far_from_zero_and_two_passes_do_not():
    assert math.isnan(errors(in_pytorch(one_pass), torch.float32, 1e4)[0])
    assert 1e2 < errors(LOADERS["composed"](), torch.float32, 1e4)[0] < 1e6


def test_all_get_the_same_inputs_in_the_type_that_is_compared():
    seen = []

    def run(draw):
        seen.append(draw)
        return truth_in(torch.bfloat16).run(draw)

    both = {"one": Provider(run, ""), "other": Provider(run, "")}
    bench_accuracy.rms_errors(both, torch.bfloat16, 1.0, (3, 13))
    for one, other in zip(seen[::2], seen[1::2], strict=True):
        assert all(
            torch.equal(a, b) and a.dtype == torch.bfloat16 for a, b in zip(one, other, strict=True)
        )
        assert one.dy.std() > 0.5  # random, not ones
    assert not torch.equal(seen[0].x, seen[2].x)


def test_what_takes_no_such_type_or_so_many_elements_is_left_out():
    def refuses(draw):
        raise RuntimeError("float32 alone")

    assert not bench_accuracy.takes(Provider(refuses, ""), torch.float64)
    triton = accuracy_providers.ours("triton")
    assert not bench_accuracy.takes(triton, torch.bfloat16)  # truncated by the interpreter
    large = (1, accuracy_providers.INTERPRETED + 1)
    found = bench_accuracy.rms_errors({"it": triton}, torch.float32, 0.0, large)
    assert set(found) == {ROUNDED}


# Peers that are not installed, and a toy in their place.


def test_a_peer_that_is_absent_is_named_and_never_an_error(monkeypatch):
    for module in ("flax", "keras", "onnxruntime"):
        monkeypatch.setitem(sys.modules, module, None)
    found, absent = accuracy_providers.load(LOADERS)
    assert set(absent) == set(PEERS)
    assert set(found) == set(LOADERS) - set(PEERS)
    rows = list(bench_accuracy.constant_table({}, absent, {}))
    assert [(row["method"], row["version"]) for row in rows] == [(p, "absent") for p in PEERS]


def test_a_library_without_gradients_has_empty_cells():
    def run(draw):
        return [*truth_in(torch.float32).run(draw)[:1], None, None, None]

    torchs = LOADERS[THEIRS]()
    found = bench_accuracy.rms_errors(
        {"it": Provider(run, ""), THEIRS: torchs}, torch.float32, 0.0, (3, 13)
    )
    row = bench_accuracy.row_of("it", {(3, 13): found})
    assert row["y_over_rounding"] == "1"
    assert [row[f"{what}_over_torch"] for what in WHAT[1:]] == ["", "", ""]
    assert row["worst_at"] == "y of 3 × 13"


# The table.


def test_ratios_are_geometric_means_over_shapes_and_the_worst_is_named():
    def of(y):
        return {ROUNDED: [1.0] * 4, THEIRS: [2.0] * 4, "it": [y, 2.0, 2.0, 2.0]}

    row = bench_accuracy.row_of("it", {(8, 7): of(2.0), (3, 257): of(8.0)})
    assert (row["y_over_rounding"], row["y_over_torch"]) == ("4", "2")
    assert (row["worst_over_torch"], row["worst_at"]) == ("4", "y of 3 × 257")
    row = bench_accuracy.row_of("it", {(8, 7): of(8.0), (3, 257): of(math.nan)})
    assert (row["y_over_rounding"], row["dx_over_torch"]) == ("nan", "1")
    assert (row["worst_over_torch"], row["worst_at"]) == ("nan", "y of 3 × 257")


def test_means_whose_steps_are_wider_than_the_rows_are_left_out():
    resolved = {
        str(dtype): [
            mean for mean in bench_accuracy.MEANS if bench_accuracy.is_resolved(dtype, mean)
        ]
        for dtype in DTYPES
    }
    assert max(resolved["torch.bfloat16"]) == 1e2  # steps of 0.5; at 1,000 of 4
    assert max(resolved["torch.float16"]) == 1e3  # steps of 0.5; at 10,000 of 8
    assert max(resolved["torch.float32"]) == max(resolved["torch.float64"]) == 1e5


def test_constant_rows_are_constant_and_say_what_became_of_beta():
    draws = list(bench_accuracy.constant_rows(torch.float16))
    assert all((draw.x == draw.x[:, :1]).all() and draw.x.isfinite().all() for draw in draws)
    assert torch.cat([draw.x[:, 0] for draw in draws]).abs().max() > 1e3

    def gives(y):
        return bench_accuracy.on_constant_rows(Provider(lambda draw: [y(draw)], ""), torch.float32)

    def some_nan(draw):
        return torch.where(torch.arange(len(draw.x))[:, None] % 4 == 0, torch.nan, draw.x)

    assert gives(lambda draw: draw.bias.expand_as(draw.x)) == "β"
    assert gives(lambda draw: draw.bias + 0.54 * (draw.x > 0)) == "off by 0.5"
    assert gives(some_nan) == "NaN in 25%"


# The pictures.


@pytest.fixture
def table(tmp_path):
    """A table in which no two methods are equal, and some fail, as the benchmark writes it."""
    path = tmp_path / "accuracy.csv"
    columns, rows = [f"{what}_over_rounding" for what in WHAT], []
    for dtype in accuracy.DTYPES:
        for power, mean in enumerate(("0", "1", "100")):
            for i, name in enumerate(ALL):
                value = "nan" if (name, power) == ("one pass", 2) else 30.0 ** (i * power / 3)
                row = {"dtype": dtype, "mean_over_std": mean, "method": name}
                row |= dict.fromkeys(columns, value)
                if name == "ONNX Runtime":
                    row |= dict.fromkeys(columns[1:], "")
                rows.append(row)
    save(path, rows)
    yield path
    plt.close("all")


def test_each_type_has_a_panel_with_a_line_and_a_name_for_each_method(table):
    figure = accuracy.outputs(table)
    assert [ax.get_title() for ax in figure.axes] == list(accuracy.DTYPES)
    for ax in figure.axes:
        lines = {line.get_label(): line for line in ax.get_lines()}
        assert set(ALL) <= set(lines)
        assert list(lines["Flax"].get_ydata()) == pytest.approx([1, 30**3, 30**6])
        written = "\n".join(text.get_text() for text in ax.texts).replace("\N{NO-BREAK SPACE}", " ")
        names = sorted(name if name != "one pass" else "one pass: NaN" for name in ALL)
        assert sorted(re.split(r",\n|\n|, ", written)) == names


def test_a_nan_is_a_cross_at_the_top_of_its_panel(table):
    for ax in accuracy.outputs(table).axes:
        (cross,) = [line for line in ax.get_lines() if line.get_marker() == "X"]
        assert list(cross.get_xdata()) == [2]
        assert list(cross.get_ydata()) == [ax.get_ylim()[1]]


def test_names_at_the_ends_do_not_overlap(table):
    figure = accuracy.outputs(table)
    figure.draw_without_rendering()
    for ax in figure.axes:
        boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
        assert all(a.y1 <= b.y0 + 1 for a, b in pairwise(boxes))


def test_a_tile_is_as_dark_as_its_error_is_large_and_a_nan_is_crossed(table):
    figure = accuracy.gradients(table)
    panels = [figure.axes[i : i + 4] for i in range(0, 12, 4)]
    for ax in (panel for line in panels for panel in line):
        names = [label.get_text() for label in panels[0][0].get_yticklabels()]
        assert names == [name for name in ALL if name != "ONNX Runtime"]  # it has no gradients
        assert len(ax.patches) == 3 * len(names)
        assert len(ax.get_lines()) == 1
        darkness = [sum(ax.patches[2 * len(names) + i].get_facecolor()[:3]) for i in (0, 2, 4, -1)]
        assert darkness == sorted(darkness, reverse=True)
        assert len(set(darkness)) == 4
    assert len(figure.legends[0].get_texts()) == 5


def test_the_page_shows_both_pictures_and_the_command():
    page = (ROOT / "book" / "benchmarks.md").read_text(encoding="utf8")
    section = page.split("## Accuracy\n", 1)[1].split("\n## ", 1)[0]
    for part in ("{drawn} accuracy\n", "{drawn} accuracy-gradients\n", "bench_accuracy.py"):
        assert part in section
