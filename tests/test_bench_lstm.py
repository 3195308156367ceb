"""The LSTM's benchmark is right before it is fast: who takes part, what is timed, what is told."""

from __future__ import annotations

import math
import sys

import bench_lstm as bench
import lstm_providers as providers
import pytest
import torch
from bench_lstm import BOTH, FORWARD
from lstm_providers import (
    CELL,
    COMPILED,
    HASTE,
    LOADERS,
    LSTM,
    NAIVE,
    OURS,
    PACKED,
    Case,
    Provider,
)
from torch import nn

import lnlib
from lnlib.book.records import tables
from lnlib.lstm import formula
from lnlib.lstm.stepwise import NUMBERS_AT_ONCE

# Of torch.jit.script, and of a part of PyTorch that Inductor imports.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")

CPU = torch.device("cpu")
CASE = Case(steps=5, input_size=3, hidden_size=7, batch=6)
TIMED = list(bench.ROUNDS)
BOUND, SCRIPTED = "nn.LSTM + 3T layer norms", "TorchScript"
INSTALLED = [name for name in LOADERS if name not in (COMPILED, HASTE)]
EPS32 = torch.finfo(torch.float32).eps


def found_by(provider, case=CASE):
    return providers.errors(provider, providers.input_of(case, CPU))


# The providers, and the gate they have to pass.


@pytest.mark.parametrize("name", INSTALLED)
def test_each_provider_computes_its_function_and_all_gradients(name):
    found = found_by(providers.load(name, CASE, CPU))
    # Five steps of about ten roundings each; measured, 1 to 5 of them.
    assert {kind: off for kind, off in found.items() if not off <= 20 * EPS32} == {}


def test_the_compiled_loop_is_the_naive_loop_and_never_runs_eagerly_in_silence(monkeypatch):
    asked = {}
    monkeypatch.setattr(torch, "compile", lambda module, **how: asked.update(how) or module)
    compiled, naive = (providers.load(name, CASE, CPU) for name in (COMPILED, NAIVE))
    assert asked == {"fullgraph": True, "dynamic": False}
    x = providers.input_of(CASE, CPU)
    assert torch.equal(compiled.run(x)[0], naive.run(x)[0])
    assert max(found_by(compiled).values()) <= 20 * EPS32


def test_what_takes_minutes_for_many_steps_takes_part_for_few():
    assert set(LOADERS) == set(providers.names_for(Case(28, 28, 128)))
    assert set(LOADERS) - {COMPILED, HASTE} == set(providers.names_for(Case(29, 28, 128)))


def test_torchscripts_function_is_the_one_that_carries_the_normalized_cell():
    provider = providers.load(SCRIPTED, CASE, CPU)
    ours = lnlib.LayerNormLSTM(CASE.input_size, CASE.hidden_size, carry="normalized")
    with torch.no_grad():
        made = providers._of_loop(*provider.leaves)
        for parameter, value in zip(ours.parameters(), made, strict=True):
            parameter.copy_(value)
        x = providers.input_of(CASE, CPU)
        torch.testing.assert_close(provider.run(x)[0], ours(x)[0], rtol=0, atol=20 * EPS32)
        ours.carry = "raw"
        assert (provider.run(x)[0] - ours(x)[0]).abs().max() > 1e-2


def test_the_bound_has_three_norms_a_step_beside_the_lstm():
    provider = providers.load(BOUND, CASE, CPU)
    lstm, *normalized = provider.run(providers.input_of(CASE, CPU))
    H = CASE.hidden_size
    assert lstm.shape == (CASE.steps, CASE.batch, H)
    assert [y.shape[1] for y in normalized] == [4 * H, 4 * H, H] * CASE.steps
    assert len({y.data_ptr() for y in normalized}) == 3 * CASE.steps


@pytest.mark.parametrize("name", INSTALLED)
def test_no_gain_is_1_and_no_bias_0_where_gradients_are_compared(name):
    provider = providers.load(name, CASE, CPU)
    parameters = [leaf for leaf in provider.leaves if isinstance(leaf, nn.Parameter)]
    if name == BOUND:  # its norms are those of PyTorch, beside the LSTM
        parameters = parameters[:4]
    for leaf in parameters:
        assert (leaf != 0).all()
        assert leaf.std() > 0


def detached_cell(x, leaves):
    """Return our outputs, with no gradient through the cell from step to step."""
    weights = formula.Weights(*leaves)
    h = c = x.new_zeros(x.shape[1], weights.hh.shape[1])
    outputs = []
    normalize = formula.normalizing(providers.EPS)
    for inputs in formula.gate_inputs(x, weights, normalize):
        h, c = formula.step(inputs, h, c.detach(), weights, normalize, "raw")
        outputs.append(h)
    return (torch.stack(outputs),)


WRONG = {
    "outputs a thousandth too large": (lambda y, x, leaves: (y * 1.001,), "outputs"),
    "nothing but NaN": (lambda y, x, leaves: (y * math.nan,), "outputs"),
    "a gradient lost in the cell": (lambda y, x, leaves: detached_cell(x, leaves), "dx"),
    "no gradient of x": (lambda y, x, leaves: (y.detach() + 0 * sum(map(torch.sum, (x, *leaves))),),
                         "dx"),
    "one gradient doubled": (
        lambda y, x, leaves: (y + (leaves[5] - leaves[5].detach()),), "gradients"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_the_gate_refuses_what_is_wrong_and_names_it(what):
    right = providers.load(OURS, CASE, CPU)
    spoil, kind = WRONG[what]
    wrong = right._replace(run=lambda x: spoil(right.run(x)[0], x, right.leaves))
    assert providers.complaint(found_by(right)) is None
    assert f"wrong: {kind} off by" in providers.complaint(found_by(wrong))


def test_sequences_that_are_compared_fill_several_chunks():
    case = Case(784, 1, 128)
    rows = case.checked.batch * case.steps
    assert 1 < case.checked.batch < case.batch
    assert rows * 4 * case.hidden_size > NUMBERS_AT_ONCE
    assert TIMED[0].checked == TIMED[0]  # what is compiled for 64 sequences is compared with 64


# What is timed.


@pytest.mark.parametrize("kind", [CELL, PACKED])
@pytest.mark.parametrize("name", [LSTM, OURS])
def test_a_cell_and_packed_sequences_are_compared_with_float64(name, kind):
    case = Case(1 if kind == CELL else 5, 3, 7, 4, kind)
    assert providers.names_for(case) == [LSTM, OURS]
    provider = providers.load(name, case, CPU)
    # Two layers of five steps; measured, up to 26 of our roundings, and 20 step by step.
    assert max(found_by(provider, case).values()) <= 64 * EPS32
    wrong = provider._replace(run=lambda x: tuple(1.01 * y for y in provider.run(x)))
    assert "wrong: outputs off by" in providers.complaint(found_by(wrong, case))


@pytest.mark.parametrize("name", INSTALLED)
def test_one_pass_keeps_nothing_and_the_other_gives_every_gradient(name):
    provider = providers.load(name, CASE, CPU)
    x = providers.input_of(CASE, CPU)
    passes = bench.passes_of(provider, x)
    assert not any(y.requires_grad for y in passes[FORWARD]())
    gradients = passes[BOTH]()
    assert [g.shape for g in gradients] == [t.shape for t in (x, *provider.leaves)]
    again = passes[BOTH]()  # with the upstream gradients of the first call
    assert all(torch.equal(a, b) for a, b in zip(gradients, again, strict=True))


class Clock(bench.Cpu):
    """Says that the first that is timed takes 1 ms, the second 2 ms; remembers who was timed.

    All are slow until they are warm.
    """

    def __init__(self):
        self.log, self.timers = [], 0

    def timer(self, run, regime):
        number, self.timers = self.timers, self.timers + 1

        def sample(seconds):
            self.log.append(number)
            is_warm = self.log.count(number) > bench.WARM_UP
            return 1e3 * (1 + number) if is_warm else 1e6

        return sample, "ok"

    def peak_bytes(self, run):
        return 12


def measured(names, rounds=4):
    clock = Clock()
    return bench.measure(CASE, names, clock, rounds), clock


def test_each_round_times_everybody_once_and_begins_with_another():
    _, clock = measured([LSTM, NAIVE])
    turns = [clock.log[start : start + 4] for start in range(0, len(clock.log), 4)]
    assert len(turns) == bench.WARM_UP + 4
    assert all(sorted(turn) == [0, 1, 2, 3] for turn in turns)
    assert [turn[0] for turn in turns] == [0, 1, 2, 3, 0, 1, 2]


def test_ratios_are_those_of_one_pass_and_one_round_once_all_are_warm():
    rows, _ = measured([LSTM, NAIVE, OURS], rounds=2)
    told = {(r["provider"], r["pass"]): (r["ms"], r["over_lstm"], r["naive_over"]) for r in rows}
    # The clock's times are 1 to 6 ms: LSTM 1 (both ways) and 2, the loop 3 and 4, ours 5 and 6.
    assert told[OURS, BOTH] == ("5", "5", "0.6")
    assert told[OURS, FORWARD] == ("6", "3", "0.667")
    assert told[LSTM, BOTH] == ("1", "1", "3")


def test_who_is_wrong_or_absent_is_named_and_not_timed(monkeypatch, capsys):
    def broken(case, device):
        right = LOADERS[OURS](case, device)
        return right._replace(run=lambda x: (right.run(x)[0] * 1.01,))

    monkeypatch.setitem(LOADERS, "broken", broken)
    monkeypatch.setitem(sys.modules, "haste_pytorch", None)  # to import it fails
    rows, _ = measured([LSTM, NAIVE, "broken", HASTE])
    assert {row["provider"] for row in rows} == {LSTM, NAIVE}
    said = capsys.readouterr().out
    assert "broken: wrong: outputs off by 0.01" in said
    assert "haste: absent" in said


def test_nothing_is_told_without_what_it_is_compared_to():
    with pytest.raises(RuntimeError, match="must be right"):
        measured([LSTM, OURS])
    cell = CASE._replace(kind=CELL)
    rows = bench.measure(cell, [LSTM, OURS], Clock(), 2)
    assert {row["naive_over"] for row in rows} == {""}
    with pytest.raises(RuntimeError, match="must be right"):
        bench.measure(cell, [LSTM], Clock(), 2)


def test_bytes_that_are_kept_are_counted_without_x_and_parameters():
    x = providers.input_of(CASE, CPU)
    weight = nn.Parameter(torch.ones(CASE.input_size))
    product = Provider(lambda x: (x.exp() * (x * weight),), [weight], lambda x, leaves: ())
    # exp keeps its result, and the outer product both its factors; x and weight are there.
    assert bench.kept_bytes(product, x) == 2 * x.nbytes


@pytest.mark.parametrize("case", [case._replace(batch=5) for case in TIMED], ids=str)
def test_ours_keeps_no_more_than_the_naive_loop(case):
    x = providers.input_of(case, CPU)
    kept = {name: bench.kept_bytes(providers.load(name, case, CPU), x) for name in (OURS, NAIVE)}
    assert kept[OURS] <= kept[NAIVE]


# What is told.


def row(provider, over_lstm, naive_over, kept):
    sizes = {"pass": BOTH, "device": "cpu", "steps": 28, "hidden_size": 128}
    sizes |= {"kind": "sequences", "batch": 64}
    ratios = {"over_lstm": over_lstm, "naive_over": naive_over, "saved_bytes": kept}
    return {"provider": provider, **sizes, **ratios}


def test_verdicts_are_those_of_the_three_targets():
    rows = [row(NAIVE, "3.1", "1", 200), row(OURS, "1.05", "2.07", 100)]
    missed = [row(NAIVE, "2.9", "1", 100), row(OURS, "1.15", "1.71", 101)]
    assert [verdict.is_met for verdict in bench.verdicts(rows)] == [True, True, True]
    assert [verdict.is_met for verdict in bench.verdicts(missed)] == [False, False, False]
    gpu = [each | {"device": "H200"} for each in rows]
    assert bench.verdicts(gpu) == []


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The table of a quick run."""
    path = tmp_path_factory.mktemp("lstm") / "table.csv"
    assert bench.main(["--quick", "--out", str(path)]) == 0
    return tables.rows_of(path)


def shape_of(row):
    sizes = (int(row[size]) for size in ("steps", "input_size", "hidden_size", "batch"))
    return Case(*sizes, row["kind"])


def test_a_quick_run_times_all_but_what_takes_minutes_to_compile(quick):
    told = {(shape_of(row), row["provider"], row["pass"]) for row in quick}
    wanted = {
        (case, name, which)
        for case in bench.QUICK
        for name in providers.names_for(case)
        for which in (FORWARD, BOTH)
        if name in INSTALLED
    }
    assert wanted <= told
    assert COMPILED not in {row["provider"] for row in quick}


def test_a_quick_run_writes_nothing_it_was_not_asked_to(monkeypatch):
    monkeypatch.setattr(bench, "measure", lambda case, *others: [])
    monkeypatch.setattr(bench, "save", None)  # to call it fails
    assert bench.main(["--quick"]) == 0


def test_the_recorded_table_is_what_the_command_writes(quick):
    recorded_rows = tables.rows_of(tables.RESULTS / "lstm.csv")
    assert list(recorded_rows[0]) == list(quick[0])


@pytest.fixture(scope="module")
def table():
    """The rows of the recorded table that were timed on a CPU."""
    return [row for row in tables.rows_of(tables.RESULTS / "lstm.csv") if row["device"] == "cpu"]


def test_the_recorded_table_has_everybody_on_every_shape(table):
    told = sorted(
        (shape_of(row), row["provider"], row["pass"])
        for row in table
        if row["provider"] != HASTE  # which need not be installed
    )
    wanted = [
        (case, name, which)
        for case in TIMED
        for name in providers.names_for(case)
        if name != HASTE
        for which in (FORWARD, BOTH)
    ]
    assert told == sorted(wanted)
    for column in ("date", "machine", "threads", "torch", "commit"):
        assert len({row[column] for row in table}) == 1
        assert table[0][column]
