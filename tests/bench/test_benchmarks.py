"""The benchmarks: who is wrong is not timed, a number is what it says, and each runs."""

from __future__ import annotations

import math
import re

import accuracy_providers
import bench_accuracy
import bench_layer_norm as on_gpu
import bench_lstm
import bench_memory
import bench_models
import bench_speed
import lstm_providers as lstms
import pytest
import timing
import torch
import torch.nn.functional as F
from accuracy_providers import DTYPES, LOADERS, THEIRS, Provider
from bench_accuracy import ROUNDED, WHAT
from tiers import few

from lnlib import formula
from lnlib.book.records.tables import RESULTS

# Of torch.jit.script, and of a part of PyTorch that Inductor imports.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

CPU = torch.device("cpu")
PEERS = ("Flax", "Flax two-pass", "Keras on JAX", "ONNX Runtime")


# Whoever is wrong is found out, in speed and on a GPU.


def by_hand(x, weight, bias, projected=True):
    """Return a layer norm whose dx lacks the terms of the statistics, unless ``projected``."""
    x32 = x.float()
    mean, var = x32.mean(-1, keepdim=True), x32.var(-1, correction=0, keepdim=True)
    if not projected:
        mean, var = mean.detach(), var.detach()
    return (x32 - mean) / (var + 1e-5).sqrt() * weight.float() + bias.float()


WRONG = {
    "y": lambda x, w, b: by_hand(x, w, b) * 1.05,
    "y of NaN": lambda x, w, b: by_hand(x, w, b) * math.nan,
    "dx": lambda x, w, b: by_hand(x, w, b, projected=False),
    "dweight": lambda x, w, b: by_hand(x, w, b) + (w - w.detach()).float(),
    "dbias": lambda x, w, b: by_hand(x, w, b) + 0.3 * (b - b.detach()).float(),
}
RIGHT = (by_hand, lambda x, w, b: F.layer_norm(x, w.shape, w, b))
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


def complaints(norm, dtype):
    """Return what both benchmarks say of a norm."""
    as_x = lambda x, w, b: norm(x, w, b).to(x.dtype)  # noqa: E731
    given = bench_speed.arguments_of(bench_speed.Case(33, 257, dtype))
    called = lambda x, shape, w, b: as_x(x, w, b)  # noqa: E731
    found = bench_speed.errors(called, given, bench_speed.truth_of(given))
    inputs = on_gpu.inputs_of(on_gpu.Case(7, 769, f"{dtype}".removeprefix("torch.")), CPU)
    yield bench_speed.complaint(found, dtype)
    yield on_gpu.complaint(on_gpu.errors(on_gpu.Provider(as_x), inputs), dtype)


@TYPES
@pytest.mark.parametrize("norm", RIGHT, ids=["by hand", "PyTorch's"])
def test_the_gates_let_a_right_norm_in(norm, dtype):
    assert [*complaints(norm, dtype)] == [None, None]


@TYPES
@pytest.mark.parametrize("what", WRONG)
def test_the_gates_refuse_a_wrong_norm_and_name_the_result(what, dtype):
    for said in complaints(WRONG[what], dtype):
        assert re.match(rf"wrong: {what.split()[0]} (is )?off by", said)


@pytest.mark.parametrize("name", bench_speed.EAGER)
def test_everybody_whose_speed_is_told_is_right(name):
    given = bench_speed.arguments_of(bench_speed.Case(33, 257))
    found = bench_speed.errors(bench_speed.EAGER[name], given, bench_speed.truth_of(given))
    assert bench_speed.complaint(found, torch.float32) is None


def test_who_is_wrong_or_cannot_run_is_named_and_not_timed(monkeypatch, capsys):
    def broken(*arguments):
        raise RuntimeError("no compiler\nand so on")

    spoiled = lambda x, shape, w, b: WRONG["dx"](x, w, b)  # noqa: E731
    entrants = {bench_speed.PYTORCH: F.layer_norm, "spoiled": spoiled, "broken": broken}
    rows = bench_speed.measure(bench_speed.Case(5, 7), entrants, 0.0, 3)
    assert {row["provider"] for row in rows} == {bench_speed.PYTORCH}
    monkeypatch.setitem(on_gpu.LOADERS, "spoiled", lambda d: on_gpu.Provider(WRONG["dx"]))
    cases = [on_gpu.Case(5, 7, "float32")]
    assert [*on_gpu.admitted(["spoiled", "PyTorch"], cases, CPU)] == ["PyTorch"]
    said = capsys.readouterr().out
    for line in ("spoiled: wrong: dx off by", "broken: does not run here: no compiler\n"):
        assert line in said
    assert "spoiled: wrong: dx is off by" in said


def test_errors_are_the_root_mean_square_of_what_is_off_whatever_the_chunks(monkeypatch):
    inputs = on_gpu.inputs_of(on_gpu.Case(11, 8, "float32"), CPU)
    off = on_gpu.Provider(lambda x, w, b: formula.layer_norm(x, w, b, eps=1e-5) + 0.25)
    whole = on_gpu.errors(off, inputs)
    assert whole["y"][0] == pytest.approx(0.25, rel=1e-12)
    monkeypatch.setattr(on_gpu, "CHUNK", 3 * 8 + 1)  # three rows, and two left over at the end
    for name, pair in on_gpu.errors(off, inputs).items():
        assert pair == pytest.approx(whole[name], rel=1e-6, abs=1e-12)


def test_bytes_regimes_and_copies_are_those_counted_by_hand():
    half, full = (on_gpu.sized(4096, 1000, dtype) for dtype in ("bfloat16", "float32"))
    assert (half.bytes("forward"), half.bytes("backward")) == (16_384_000, 24_576_000)
    assert (full.bytes("forward"), full.bytes("backward")) == (32_768_000, 49_152_000)
    assert (half.regime, full.regime) == ("between", "between")
    assert on_gpu.sized(1, 64, "bfloat16").regime == "cache"
    assert on_gpu.sized(65536, 1024, "bfloat16").regime == "memory"
    case = on_gpu.Case(6, 10, "bfloat16")
    for which, copy in on_gpu.copies(case, CPU).items():
        assert 2 * copy().nbytes == case.bytes(which)
    assert {*on_gpu.cases(is_quick=True)} < {*on_gpu.cases(is_quick=False)}


def test_a_row_has_the_median_the_quartiles_and_the_share_of_the_copy():
    case = on_gpu.Case(1000, 1000, "bfloat16", "between")
    taken = [50e-6, 10e-6, 20e-6, 40e-6, 30e-6]
    said = on_gpu.in_numbers(taken, [24e-6] * 5, case, "forward")
    assert (said["median_us"], said["q1_us"], said["q3_us"]) == ("30", "20", "40")
    assert (said["gb_per_s"], said["roof_fraction"]) == ("133.3", "0.8")  # 4e6 bytes in 30 µs
    eager = {"y": (1.0, 0), "dx": (4.0, 0), "dweight": (2.0, 0), "dbias": (0.0, 0)}
    mine = {"y": (2.0, 0), "dx": (3.0, 0), "dweight": (8.0, 0), "dbias": (0.0, 0)}
    assert on_gpu.ratio_to_eager(mine, eager, "forward") == "2"
    assert on_gpu.ratio_to_eager(mine, eager, "backward") == "4"  # of dweight; 0 over 0 is 1


def test_a_new_result_takes_the_place_of_the_old_one_of_its_device_alone():
    row = dict.fromkeys(on_gpu.KEY, "1") | {"rows": 5, "median_us": 12}
    here, there = row | {"median_us": 11}, row | {"device": "other"}
    assert on_gpu.joined([row | {"rows": "5"}, there], [here]) == [here, there]


def test_each_round_times_everybody_once_and_begins_with_another_once_all_are_warm():
    log: list[str] = []
    samples = {n: lambda n=n: log.append(n) or float(log.count(n)) for n in "abc"}
    times = timing.in_turn(samples, 0.0, 4, 9, sampler=lambda sample: sample)
    turns = ["".join(log[i : i + 3]) for i in range(0, len(log), 3)]
    assert turns == ["abc", "bca", "cab", "abc", "bca", "cab"]
    assert times == {name: [3, 4, 5, 6] for name in "abc"}


def test_what_is_quicker_than_the_clock_is_called_often_and_told_for_one_call(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    waits = iter([timing.SAMPLE / 8, 3 * timing.SAMPLE])  # one call that waits decides nothing

    def run():
        now[0] += next(waits, timing.SAMPLE / 8)

    assert timing.calls_for(run) == 8
    assert timing.on_cpu(run)() == pytest.approx(timing.SAMPLE / 8)


def test_a_ratio_is_the_median_of_rounds_with_quartiles():
    slower, faster = [3.0, 2.0, 4.0, 16.0, 32.0], [3.0, 1.0, 1.0, 2.0, 2.0]
    assert bench_speed.ratio(slower, faster) == ("4", "1.5 to 12")  # of 1, 2, 4, 8 and 16


def test_the_peak_is_what_is_alive_at_one_time():
    x = torch.ones(25_000)
    beside = bench_memory.peak_bytes(lambda: (x + 1, x + 2))
    after = bench_memory.peak_bytes(lambda: (x + 1).sum() + (x + 2).sum())
    assert [beside, after] == pytest.approx([2 * x.nbytes, x.nbytes], abs=100)  # the 1 and the 2


# Accuracy.


@pytest.fixture
def few_draws(monkeypatch):
    monkeypatch.setattr(bench_accuracy, "MOST_DRAWS", 2)


def truth_in(dtype):
    """Return a provider that rounds the truth once, as no other can do better."""
    return Provider(lambda draw: [t.nearest.to(dtype) for t in bench_accuracy.truth(draw)], "")


def multiples(provider, dtype, mean=0.0):
    found = bench_accuracy.rms_errors({"it": provider}, dtype, mean, (3, 13))
    return [a / b for a, b in zip(found["it"], found[ROUNDED], strict=True)]


def test_fifty_digits_agree_with_the_formula_in_float64():
    draw = next(bench_accuracy.draws((3, 13), 1e2, torch.float64))
    leaves = [tensor.clone().requires_grad_() for tensor in draw[:3]]
    y = formula.layer_norm(*leaves, eps=accuracy_providers.EPS)
    expected = [y.detach(), *torch.autograd.grad(y, leaves, draw.dy)]
    for true, each in zip(bench_accuracy.truth(draw), expected, strict=True):
        # A mean of 100 is rounded by 1e-14, which a few operations and the weight multiply.
        assert (true.nearest - each).abs().max() < 1e-12
        assert 0 < true.rest.abs().max() < 1e-15  # half of the last digit of numbers up to 8
    far = bench_accuracy.Truth(*torch.tensor([[1.0], [1e-20]], dtype=torch.float64))
    assert bench_accuracy.squared_error(far.nearest, far) == pytest.approx(1e-40, abs=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_truth_rounded_once_has_an_error_of_one(dtype, few_draws):
    assert multiples(truth_in(dtype), dtype) == [1, 1, 1, 1]


@pytest.mark.parametrize("i", range(4))
def test_a_wrong_result_has_a_large_error_and_no_other_has(i, few_draws):
    def run(draw):
        results = truth_in(torch.float32).run(draw)
        results[i] = results[i] * 1.01
        return results

    found = multiples(Provider(run, ""), torch.float32)
    assert found.pop(i) > 1e4  # one percent, where a rounding is 3e-8
    assert found == [1, 1, 1]


@pytest.mark.parametrize("name", [name for name in LOADERS if name not in PEERS])
def test_whoever_needs_no_installation_is_right_on_easy_rows(name, few_draws):
    provider = LOADERS[name]()
    dtype = torch.float64 if bench_accuracy.takes(provider, torch.float64) else torch.float32
    assert max(multiples(provider, dtype)) < 10  # roundings: a few dozen operations, at random
    if name == "one pass":
        assert math.isnan(multiples(provider, torch.float32, 1e4)[0])


def test_ratios_are_geometric_means_over_shapes_and_the_worst_is_named():
    def of(y, dx=2.0):
        return {ROUNDED: [1.0] * 4, THEIRS: [2.0] * 4, "it": [y, dx, None, None]}

    row = bench_accuracy.row_of("it", {(8, 7): of(2.0), (3, 257): of(8.0)})
    assert (row["y_over_rounding"], row["y_over_torch"]) == ("4", "2")
    assert (row["worst_over_torch"], row["worst_at"]) == ("4", "y of 3 × 257")
    assert row[f"{WHAT[2]}_over_torch"] == ""  # a library without gradients
    row = bench_accuracy.row_of("it", {(8, 7): of(8.0), (3, 257): of(math.nan)})
    assert (row["y_over_rounding"], row["worst_over_torch"]) == ("nan", "nan")


def test_constant_rows_say_what_became_of_beta():
    def gives(y):
        return bench_accuracy.on_constant_rows(Provider(lambda draw: [y(draw)], ""), torch.float32)

    assert gives(lambda draw: draw.bias.expand_as(draw.x)) == "β"
    assert gives(lambda draw: draw.bias + 0.54 * (draw.x > 0)) == "off by 0.5"
    fourth = lambda d: torch.arange(len(d.x))[:, None] % 4 == 0  # noqa: E731
    assert gives(lambda d: torch.where(fourth(d), torch.nan, d.x)) == "NaN in 25%"


# The LSTM.


LSTMS = [
    (name, case)
    for case in bench_lstm.QUICK
    for name in lstms.names_for(case)
    if name != lstms.COMPILED and case.steps < 9
]


@pytest.mark.parametrize(("name", "case"), LSTMS, ids=str)
def test_each_lstm_computes_its_function_and_a_wrong_one_is_refused(name, case):
    provider, x = lstms.load(name, case, CPU), lstms.input_of(case, CPU)
    # Two layers of five steps of about ten roundings each; measured, up to 26 of them.
    assert max(lstms.errors(provider, x).values()) <= 64 * torch.finfo(torch.float32).eps
    last = provider.leaves[-1]
    spoilt = {
        "outputs": lambda x: tuple(1.01 * y for y in provider.run(x)),
        "dx": lambda x: tuple(y + 0.01 * (x - x.detach()).sum() for y in provider.run(x)),
        "gradients": lambda x: tuple(y + (last - last.detach()).sum() for y in provider.run(x)),
    }
    for what, run in spoilt.items():
        said = lstms.complaint(lstms.errors(provider._replace(run=run), x))
        assert said.startswith(f"wrong: {what} off by")


@few("bench", [on_gpu, bench_lstm, bench_models, bench_speed], 1)
def test_a_quick_run_tells_of_all_and_writes_nothing(bench, monkeypatch, capsys):
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main(["--quick"]) == 0
    said = capsys.readouterr().out
    for name in {on_gpu: on_gpu.ON_CPU, bench_lstm: ("lnlib", "naive loop")}.get(bench, ["lnlib"]):
        assert name in said
    assert not re.search("wrong|failed", said)
    assert before == {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}


@pytest.mark.gpu
def test_a_gpu_is_timed_in_every_regime(capsys):
    assert on_gpu.main(["--quick"]) == 0
    said = capsys.readouterr().out
    assert {"memory", "between", "cache", "latency"} <= {*said.split()}
    assert "failed" not in said
