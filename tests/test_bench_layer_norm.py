"""The kernel's benchmark is right before it is fast: who takes part, what counts, what is told.

No GPU is needed: results are made up. What times on a GPU is tested by its first run there.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import bench_layer_norm as bench
import gpu_timing
import layer_norm_providers as providers
import pytest
import torch
import torch.nn.functional as F
from bench_layer_norm import COPY, EAGER, OURS, Case, Table, Worker
from gpu_timing import Remote
from layer_norm_providers import CHAPTER, Provider

from lnlib import formula
from lnlib.book.home import ROOT
from lnlib.book.records import kernels, tables
from lnlib.book.records.kernels import COLUMNS, microseconds, read_results, shapes, summary

CPU = torch.device("cpu")
RAGGED = Case(7, 769, "bfloat16", "checked")


# The providers, and the gate they have to pass.


def test_bytes_of_both_passes_are_those_counted_by_hand():
    half, full = (Case(4096, 1000, dtype, "between") for dtype in ("bfloat16", "float32"))
    assert half.bytes("forward") == 16_384_000  # x and y: 2 × 2 × 4,096,000
    assert half.bytes("backward") == 24_576_000  # x, dy and dx
    assert full.bytes("forward") == 32_768_000
    assert full.bytes("backward") == 49_152_000


def test_every_process_gets_the_same_inputs():
    ours, theirs = (providers.inputs_of(RAGGED, CPU) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert {t.dtype for t in ours} == {torch.bfloat16}
    other = providers.inputs_of(RAGGED._replace(rows=8), CPU)
    assert not torch.equal(ours.x, other.x[:7])


def composed(x, weight, bias, count=None, center=True, along=True, scaled=True, keep=1.0):
    """Layer norm with something left out of the forward or of the backward pass."""

    class Faulty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            x32 = x.float()
            mean = x32.mean(1, keepdim=True)
            var = (x32 - mean).square().sum(1, keepdim=True)
            if count is not None:  # lanes past the end hold -mean
                var = var + (count - x.shape[1]) * mean.square()
            rstd = (var / x.shape[1] + providers.EPS).rsqrt()
            x_hat = (x32 - mean) * rstd
            ctx.save_for_backward(x_hat, rstd, weight)
            return (x_hat * weight.float() + bias.float()).to(x.dtype)

        @staticmethod
        def backward(ctx, dy):
            x_hat, rstd, weight = ctx.saved_tensors
            dy32 = dy.float()
            g = dy32 * weight.float() if scaled else dy32
            dx = g - g.mean(1, keepdim=True) * center
            dx = (dx - x_hat * (g * x_hat).mean(1, keepdim=True) * along) * rstd
            sums = (dy32 * x_hat).sum(0), (dy32 * keep).sum(0)
            return dx.to(dy.dtype), *(s.to(weight.dtype) for s in sums)

    return Faulty.apply(x, weight, bias)


RIGHT = {
    "nothing left out": composed,
    "PyTorch": lambda x, w, b: F.layer_norm(x, w.shape, w, b, providers.EPS),
    "the formula": lambda x, w, b: formula.layer_norm(x, w, b, eps=providers.EPS).to(x.dtype),
}
WRONG = {
    "padding counted in the variance": (partial(composed, count=1024), "y"),
    "mean of g left out of dx": (partial(composed, center=False), "dx"),
    "part along x_hat left out of dx": (partial(composed, along=False), "dx"),
    "weight left out of dx": (partial(composed, scaled=False), "dx"),
    "a tenth of dbias lost": (partial(composed, keep=0.9), "dbias"),
    "nothing but NaN": (lambda x, w, b: F.layer_norm(x, w.shape, w, b) * math.nan, "y"),
}
DTYPES = ("bfloat16", "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RIGHT)
def test_the_gate_lets_a_right_provider_in(name, dtype):
    case = RAGGED._replace(dtype=dtype)
    found = providers.errors(Provider(RIGHT[name], ""), providers.inputs_of(case, CPU))
    assert providers.complaint(found, case.torch_dtype) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WRONG)
def test_the_gate_refuses_a_wrong_provider_and_names_the_result(name, dtype):
    run, what = WRONG[name]
    case = RAGGED._replace(dtype=dtype)
    found = providers.errors(Provider(run, ""), providers.inputs_of(case, CPU))
    assert f"wrong: {what} is off by" in providers.complaint(found, case.torch_dtype)


def test_errors_do_not_depend_on_the_chunks_the_truth_is_computed_in(monkeypatch):
    inputs = providers.inputs_of(Case(11, 37, "float32", ""), CPU)
    provider = Provider(RIGHT["PyTorch"], "")
    whole = providers.errors(provider, inputs)
    monkeypatch.setattr(providers, "CHUNK", 3 * 37 + 1)  # three rows, and two left over at the end
    for name, error in providers.errors(provider, inputs).items():
        assert error == pytest.approx(whole[name], rel=1e-6)  # of errors near 1e-7, in float64


def test_errors_are_the_root_mean_square_of_what_is_off():
    inputs = providers.inputs_of(Case(5, 8, "float32", ""), CPU)

    def off(x, weight, bias):
        return formula.layer_norm(x, weight, bias, eps=providers.EPS) + 0.25

    rms, relative = providers.errors(Provider(off, ""), inputs)["y"]
    truth = off(*inputs[:3]) - 0.25
    assert rms == pytest.approx(0.25, rel=1e-12)
    assert relative == pytest.approx(0.25 / truth.square().mean().sqrt().item(), rel=1e-12)


def test_a_provider_that_takes_float32_parameters_gets_them():
    inputs = providers.inputs_of(RAGGED, CPU)
    provider = Provider(RIGHT["PyTorch"], "", parameters=torch.float32)
    dtypes = [leaf.dtype for leaf in providers.leaves_of(provider, inputs)]
    assert dtypes == [torch.bfloat16, torch.float32, torch.float32]
    assert providers.complaint(providers.errors(provider, inputs), torch.bfloat16) is None


@pytest.mark.tier("all")
@pytest.mark.parametrize(("rows", "features"), [(70, 8200), (3, 769), (2, 4097)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_tutorials_algorithm_is_right_also_where_rows_share_a_buffer(rows, features, dtype):
    case = Case(rows, features, dtype, "")  # 70 rows share 64 buffers
    provider = providers.load("Triton tutorial", CPU)
    found = providers.errors(provider, providers.inputs_of(case, CPU))
    # float32: a few roundings, each at most 6e-8, times mean over std. bfloat16: the interpreter
    # cuts off, up to 2^-7 of a number, once in y and dx, twice in the sums.
    most = 1e-6 if dtype == "float32" else 2.0**-7
    assert {name: relative for name, (_, relative) in found.items() if relative > most} == {}


def test_the_tutorials_algorithm_refuses_a_row_beyond_64_kb():
    provider = providers.load("Triton tutorial", CPU)
    inputs = providers.inputs_of(Case(1, 16385, "float32", ""), CPU)
    with pytest.raises(RuntimeError, match="16385 features"):
        provider.run(*providers.leaves_of(provider, inputs))


def test_the_compiled_provider_never_runs_eagerly_in_silence(monkeypatch):
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch

    asked: dict[str, Any] = {}
    monkeypatch.setattr(torch, "compile", lambda run, **how: asked.update(how) or run)
    limits = dynamo.patch(recompile_limit=8, accumulated_recompile_limit=256)
    with limits, functorch.patch(donated_buffer=True):  # put back after
        providers.load("torch.compile", CPU)
        assert asked == {"fullgraph": True, "dynamic": False}
        # Two dtypes, two passes, some shapes: all are compiled in one process.
        assert dynamo.recompile_limit > 4 * len(bench.SHAPES)
        assert dynamo.accumulated_recompile_limit > 4 * len(bench.SHAPES)
        assert not functorch.donated_buffer  # else a backward pass that is repeated raises


# What is timed.


def test_a_regime_says_how_many_bytes_x_and_y_have_together():
    for case in bench.cases(quick=False):
        size = case.bytes("forward")
        if case.regime != "latency":
            assert case.regime == (
                "memory" if size >= 256e6 else "cache" if size <= 16e6 else "between"
            )
        else:
            assert case.rows <= 1024


def test_quick_is_a_part_of_the_whole_and_has_large_and_small_shapes():
    quick = bench.cases(quick=True)
    assert set(quick) < set(bench.cases(quick=False))
    assert {case.regime for case in quick} == {"memory", "between", "cache", "latency"}
    assert len(quick) <= 8


def test_the_copy_reads_and_writes_as_many_bytes_as_the_pass():
    case = Case(6, 10, "bfloat16", "")
    for which, copy in bench.copies(case, CPU).items():
        target = copy()
        assert 2 * target.nbytes == case.bytes(which)


# Processes.


class Clock:
    """Stands for a GPU in a process of its own: runs everything, and says it took as long."""

    device = CPU

    def timer(self, run: Any, regime: str) -> Any:
        run()
        return lambda seconds: 8.0, "ok"

    def peak_bytes(self, run: Any) -> int:
        return 12

    def free(self) -> None:
        pass


class WrongWorker(Worker):
    def __init__(self) -> None:
        super().__init__(EAGER, Clock)
        self.provider = Provider(WRONG["mean of g left out of dx"][0], "0")


class DyingWorker(Worker):
    def __init__(self) -> None:
        super().__init__(EAGER, Clock)

    def time(self, which: str, seconds: float) -> Any:
        sys.exit(3)


class SmallWorker(Worker):
    def __init__(self) -> None:
        super().__init__(EAGER, Clock)

    def check(self, case: Case) -> Any:
        if case.features > 4096:
            raise ValueError("too many features\nfor me")
        return super().check(case)


class SlowWorker:
    version = "1"

    def nap(self, seconds: float) -> Any:
        time.sleep(seconds)
        return {"status": "ok"}

    def break_down(self) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def release(self) -> None:
        pass


class Threads:
    """Stands for `multiprocessing`: a worker is a thread, which need not import PyTorch again."""

    Pipe = staticmethod(multiprocessing.Pipe)

    class Process:
        def __init__(self, target: Any, args: Any) -> None:
            theirs, make = args
            connection = Connection(os.dup(theirs.fileno()))

            def run() -> None:
                with connection, contextlib.suppress(SystemExit):
                    target(connection, make)

            self.thread = threading.Thread(target=run, daemon=True)
            self.start, self.is_ended = self.thread.start, False

        def is_alive(self) -> bool:
            return self.thread.is_alive() and not self.is_ended

        def terminate(self) -> None:
            self.is_ended = True

        def join(self, timeout: float | None = None) -> None:
            pass


def absent() -> None:
    raise ModuleNotFoundError("No module named 'quack'")


def test_a_run_checks_times_and_records_each_provider_by_itself(tmp_path, monkeypatch, capsys):
    makes = {
        EAGER: partial(Worker, EAGER, Clock),
        "wrong": WrongWorker,
        "quack": absent,
        "dying": DyingWorker,
        "small": SmallWorker,
        COPY: partial(Worker, COPY, Clock),
    }
    monkeypatch.setattr(gpu_timing.multiprocessing, "get_context", lambda method: Threads)
    remotes = [Remote(name, make) for name, make in makes.items()]
    monkeypatch.setattr(bench, "start_all", lambda names, machine_type: remotes)
    monkeypatch.setattr(bench, "CHECKED", (RAGGED, RAGGED._replace(features=4097)))
    said = {"device": "toy", "commit": "abc"}
    todo = [Case(3, 40, "bfloat16", "cache"), Case(2, 5000, "bfloat16", "latency")]
    table = Table(tmp_path / "layer_norm.csv")
    rows = bench.on_a_gpu((), Clock, todo, said, table, rounds=3, limit=1e9, seconds=0.0)

    assert read_results(table.path) == rows
    assert not any(remote.process.is_alive() for remote in remotes)
    by = {(r["provider"], r["pass"], r["features"]): r for r in rows}
    first = by[EAGER, "forward", "40"]
    assert first["median_us"] == first["q1_us"] == first["q3_us"] == "8"
    assert (first["bytes"], first["gb_per_s"], first["roof_fraction"]) == ("480", "0.06", "1")
    assert (first["error_ratio"], first["peak_bytes"], first["status"]) == ("1", "12", "ok")
    assert (first["version"], first["commit"]) == (torch.__version__, "abc")
    assert by[EAGER, "backward", "5000"]["median_us"] == "8"
    assert by[EAGER, "backward", "5000"]["roof_fraction"] == ""  # no bandwidth decides it
    assert by[COPY, "backward", "40"]["bytes"] == by[EAGER, "backward", "40"]["bytes"] == "720"
    wrong = by["wrong", "", ""]
    assert wrong["status"].startswith("wrong: dx is off by")
    assert wrong["status"].endswith("(7 × 769 bfloat16)")
    assert by["quack", "", ""]["status"] == "absent: ModuleNotFoundError: No module named 'quack'"
    assert {r["median_us"] for r in rows if r["provider"] in ("wrong", "quack", "dying")} == {""}
    assert by["dying", "forward", "40"]["status"] == "failed: its process ended"
    assert by["small", "forward", "40"]["median_us"] == "8"
    assert by["small", "forward", "5000"]["status"] == "failed: ValueError: too many features"
    out = capsys.readouterr().out
    assert "not timed: wrong: wrong: dx" in out
    assert "not timed: quack: absent" in out


@pytest.mark.tier("all")
def test_a_process_that_hangs_or_loses_its_gpu_is_replaced():
    remote = Remote("slow", SlowWorker)
    try:
        assert remote.receive() == {"status": "ok", "version": "1"}
        first = remote.process.pid
        assert "CUDA error: an illegal" in remote.ask("break_down")["status"]
        assert remote.ask("nap", 0.0) == {"status": "ok"}
        assert remote.process.pid != first
        assert not remote.is_hung
        remote.answer = 0.1
        assert remote.ask("nap", 60.0)["status"] == "failed: no answer in 0.1 s"
        assert remote.is_hung
        assert not remote.process.is_alive()
    finally:
        remote.stop()


class Scripted:
    """A remote that has its answers ready."""

    def __init__(self, name: str, prepared: dict[str, Any], times: dict[str, list[float]]) -> None:
        self.name, self.prepared = name, prepared
        self.times = {which: iter([1e6, *values]) for which, values in times.items()}
        self.process = SimpleNamespace(is_alive=lambda: True)

    def send(self, method: str, *arguments: Any) -> None:
        self.reply = self.prepared if method == "prepare" else {"status": "ok"}

    def receive(self) -> dict[str, Any]:
        return self.reply

    def ask(self, method: str, which: str, seconds: float) -> dict[str, Any]:
        return {"status": "ok", "us": next(self.times[which])}


def test_a_row_has_the_median_and_quartiles_of_the_rounds_and_its_share_of_the_copy():
    fine = {
        "status": "ok",
        "notes": {"forward": "ok", "backward": "ok"},
        "peak_bytes": {"forward": 5, "backward": 7},
    }
    wrong_by = {"y": 2.0, "dx": 3.0, "dweight": 8.0, "dbias": 0.0}
    eagers = {"y": 1.0, "dx": 4.0, "dweight": 2.0, "dbias": 0.0}
    steady = {"forward": [10.0] * 5, "backward": [20.0] * 5}
    remotes = [
        Scripted(OURS, fine | {"errors": wrong_by}, {
            "forward": [50.0, 10.0, 20.0, 40.0, 30.0],  # the first round, of 1e6, does not count
            "backward": [25.0] * 5,
        }),
        Scripted(EAGER, fine | {"errors": eagers}, steady),
        Scripted(COPY, fine, {"forward": [24.0] * 5, "backward": [20.0] * 5}),
    ]  # fmt: skip
    case = Case(1000, 1000, "bfloat16", "between")
    rows = {
        (row["provider"], row["pass"]): row for row in bench.measure(case, remotes, 5, seconds=0.0)
    }
    ahead, back = rows[OURS, "forward"], rows[OURS, "backward"]
    assert (ahead["median_us"], ahead["q1_us"], ahead["q3_us"]) == ("30", "20", "40")
    assert ahead["gb_per_s"] == "133.3"  # 4e6 bytes in 30 µs
    assert (ahead["roof_fraction"], back["roof_fraction"]) == ("0.8", "0.8")
    assert (ahead["error_ratio"], back["error_ratio"]) == ("2", "4")  # of dweight; 0 over 0 is 1
    assert (ahead["peak_bytes"], back["peak_bytes"]) == ("5", "7")


# The table.


def row(provider: str, us: float | str, **other: Any) -> dict[str, str]:
    text = f"{us}"
    made = dict.fromkeys(COLUMNS, "") | {
        "provider": provider, "pass": "forward", "dtype": "bfloat16", "regime": "memory",
        "rows": "65536", "features": "1024", "median_us": text, "q1_us": text, "q3_us": text,
        "status": "ok", "device": "toy", "date": "today", "commit": "new",
    }  # fmt: skip
    return made | {("pass" if key == "which" else key): f"{value}" for key, value in other.items()}


def test_a_table_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "layer_norm.csv"
    rows = [row(OURS, 12.5, status='failed: "a", b'), row(EAGER, 20)]
    Table(path).add(rows)
    assert read_results(path) == rows
    assert [p.name for p in tmp_path.iterdir()] == ["layer_norm.csv"]
    assert list(rows[0]) == list(COLUMNS)
    assert path.read_text(encoding="utf8").split("\n", 1)[0] == ",".join(COLUMNS)


def test_a_new_result_replaces_the_old_one_of_its_device_alone(tmp_path):
    path = tmp_path / "layer_norm.csv"
    Table(path).add([row(OURS, 12, commit="old"), row(OURS, 13, device="other")])
    Table(path).add([row(OURS, 11)])
    kept = {(r["device"], r["commit"]): r["median_us"] for r in read_results(path)}
    assert kept == {("toy", "new"): "11", ("other", "new"): "13"}


def test_who_was_absent_is_so_no_longer_once_it_is_timed(tmp_path):
    path = tmp_path / "layer_norm.csv"
    gone = dict.fromkeys(COLUMNS, "") | {"provider": "quack", "status": "absent: no"}
    Table(path).add([gone | {"device": "toy"}, gone | {"device": "other"}])
    Table(path).add([row("quack", 11)])
    assert [(r["device"], r["status"]) for r in read_results(path)] == [
        ("other", "absent: no"),
        ("toy", "ok"),
    ]


def test_the_committed_table_has_the_columns_and_no_number_without_a_source():
    path = tables.RESULTS / "layer_norm.csv"
    assert path.read_text(encoding="utf8").split("\n", 1)[0] == ",".join(COLUMNS)
    for each in read_results(path):
        assert all(each[name] for name in ("provider", "status", "device", "date", "commit"))
        if each["median_us"]:
            assert float(each["q1_us"]) <= float(each["median_us"]) <= float(each["q3_us"])


def test_a_chapter_reads_an_empty_table_as_columns_without_values(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    Table(tmp_path / "layer_norm.csv").add([])
    columns = tables.recorded("layer_norm")
    assert tuple(columns) == COLUMNS
    assert {len(values) for values in columns.values()} == {0}
    with pytest.raises(ValueError, match="provider='lnlib'"):
        tables.recorded("layer_norm", provider="lnlib")


# What is told about it.


def test_a_chapter_asks_for_the_times_of_a_shape(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    ours = [row(OURS, us, regime=where) for us, where in ((10, "memory"), (90, "latency"))]
    other = [row(OURS, 11, features="64"), row(OURS, 12, which="backward")]
    Table(tmp_path / "layer_norm.csv").add(
        each | {"device": "NVIDIA H200"} for each in [*ours, row(EAGER, 20), *other]
    )
    Table(tmp_path / "layer_norm.csv").add([row(OURS, 13)])  # of another device
    at = int(ours[0]["rows"]), int(ours[0]["features"])
    assert microseconds("forward", *at) == {OURS: 10, EAGER: 20}
    assert microseconds("forward", *at, regime="latency") == {OURS: 90}
    assert shapes("memory") == [(at[0], 64), at]


@pytest.fixture
def page_of_results():
    import page_tables  # here: Sphinx would slow down each process of a worker

    return page_tables


def text_of(page: Any, path: Any) -> str:
    return "\n".join(node.astext() for node in page.results(path))


def test_the_page_says_that_there_are_no_results_while_there_are_none(tmp_path, page_of_results):
    path = tmp_path / "layer_norm.csv"
    assert text_of(page_of_results, path) == page_of_results.NONE_YET
    gone = dict.fromkeys(COLUMNS, "") | {"provider": "quack", "status": "absent", "device": "toy"}
    Table(path).add([gone])
    assert text_of(page_of_results, path) == page_of_results.NONE_YET


def test_the_page_shows_the_targets_of_each_run(tmp_path, page_of_results):
    path = tmp_path / "layer_norm.csv"
    Table(path).add([row(OURS, 10), row(EAGER, 20)])
    fresh = text_of(page_of_results, path)
    assert "On toy, today, new:" in fresh
    Table(path).add([row(OURS, 11, features="64", commit="old")])
    assert "On toy, today, old:" in text_of(page_of_results, path)


def test_the_page_names_the_command_and_shows_the_results():
    page = (ROOT / "book" / "benchmarks.md").read_text(encoding="utf8")
    section = page.split("## The Triton kernel\n", 1)[1].split("\n## ", 1)[0]
    assert "python benchmarks/bench_layer_norm.py" in section
    assert "```{kernel-results}\n```" in section


# The verdicts.


def made_up() -> list[dict[str, str]]:
    """Forty shapes of one pass each: ours 10 µs, eager 20, compiled 20 or 10, with exceptions."""
    rows: list[dict[str, str]] = []
    for i in range(40):
        for which in ("forward", "backward"):
            at = {"which": which, "features": 64 * (i + 1), "rows": 16384 if i % 2 else 4096}
            compiled = 10 if i < 20 else 20
            rows += [
                row(OURS, 10, roof_fraction=0.95, error_ratio=0.7, **at),
                row(EAGER, 20, **at),
                row("torch.compile", compiled, **at),
            ]
    return rows


def verdicts(rows: list[dict[str, str]]) -> list[kernels.Verdict]:
    found = summary(rows)
    assert len(found) == 7
    return found


def test_a_geometric_mean_is_taken_over_the_better_of_pytorchs_two():
    for verdict in verdicts(made_up())[3:5]:
        assert verdict.measured == pytest.approx(math.sqrt(2))  # half of the ratios 1, half 2
        assert verdict.is_met
        assert f"met by {math.sqrt(2) / 1.3 - 1:.1%}" in f"{verdict}"


def test_targets_for_all_shapes_are_judged_by_the_worst_one():
    rows = made_up()
    rows.append(row(OURS, 10, which="backward", rows=65536, roof_fraction=0.72, features=99))
    rows.append(row(EAGER, 8, which="backward", rows=65536, features=99))
    ahead, back, many, _, _, anywhere, error = verdicts(rows)
    assert (ahead.measured, ahead.is_met) == (0.95, True)
    assert (back.measured, back.is_met) == (0.72, False)
    assert "MISSED by 10.0%" in f"{back}"
    assert "backward, 65,536 × 99" in f"{back}"
    assert (many.measured, many.is_met) == (0.8, False)
    assert (anywhere.measured, anywhere.is_met) == (0.8, False)
    assert (error.measured, error.is_met) == (0.7, True)


def test_ten_percent_slower_is_allowed_and_eleven_is_not():
    slow = [row(OURS, 11, regime="latency"), row(EAGER, 10, regime="latency")]
    assert summary(slow)[5].is_met
    slow[0]["median_us"] = "11.1"
    assert not summary(slow)[5].is_met


def test_an_error_above_its_bound_is_missed():
    better = row(OURS, 10, error_ratio=0.5, features=64)
    *_, error = summary([better, row(OURS, 10, error_ratio=1.2)])
    assert error.is_met is False
    assert "at most 1.05 wanted: MISSED by 14.3%" in f"{error}"


def test_a_mean_over_few_shapes_is_not_judged():
    few = made_up()[: 37 * 6]
    for verdict in summary(few)[3:5]:
        assert verdict.is_met is None
        assert "not judged: 37 shapes, and 38 are needed" in f"{verdict}"


def test_what_was_not_measured_is_not_met():
    assert [verdict.is_met for verdict in summary([])] == [None] * 7
    only_ours = summary([row(OURS, 10)])
    assert only_ours[5].measured is None


def test_small_shapes_latency_and_float32_stay_out_of_what_is_said_of_large_ones():
    rows = made_up()
    for other in ({"regime": "cache"}, {"regime": "latency"}, {"dtype": "float32"}):
        rows.append(row(OURS, 10, which="backward", roof_fraction=0.1, features=7, **other))
    assert [v.measured for v in verdicts(rows)[:2]] == [0.95, 0.95]


# The command.


@pytest.mark.tier("all")
def test_without_a_gpu_the_command_checks_says_so_and_writes_nothing():
    table = tables.RESULTS / "layer_norm.csv"
    before = table.read_bytes()
    said = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "bench_layer_norm.py"],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        encoding="utf8",
    )
    assert said.returncode == 0, said.stderr
    assert "No GPU here, so nothing can be timed, and no result is written." in said.stdout
    for name in (OURS, EAGER, "Triton tutorial", CHAPTER):
        lines = [line for line in said.stdout.splitlines() if f" {name}: " in line]
        assert len(lines) == 2 * len(bench.ON_CPU)
        assert all(line.endswith(": ok") for line in lines)
    assert table.read_bytes() == before
