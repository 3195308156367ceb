"""What does a layer-normalized LSTM cost? Time and memory of lnlib's, beside PyTorch's LSTM.

    python benchmarks/bench_lstm.py                          # about ten minutes
    python benchmarks/bench_lstm.py --quick                  # tiny sizes, seconds; only prints
    python benchmarks/bench_lstm.py --out FILE

Float32, on this CPU, and then on a CUDA device if there is one. Timed in turn, one of each in every
round and each round beginning with another, so a machine that slows down slows them all. On several
threads the time is that of the clock on the wall, and the machine should have nothing else to do.
On one thread, with ``OMP_NUM_THREADS=1``, it is CPU time, which a busy machine hardly changes.

* nn.LSTM, which normalizes nothing: all times are told as ratios to its time;
* lnlib: `lnlib.LayerNormLSTM`, and the same with the steps in plain operations of PyTorch;
* the naive loop: the cell as walkthroughs write it, all of it called for every step, with a layer
  norm of mean, variance and quotient; again with `torch.nn.LayerNorm`; again the first one through
  torch.compile, for 28 steps only, since it unrolls the loop and compiles for a minute or two;
* TorchScript: the function of PyTorch's ``benchmarks/fastrnns/custom_lstms.py``;
* nn.LSTM + 3T layer norms: that LSTM, and as many layer norms of the same sizes beside it: what
  the parts cost if nobody fuses them;
* for a cell and for packed sequences, nn.LSTMCell or nn.LSTM and lnlib's alone;
* haste, if `haste_pytorch` can be imported. haste-pytorch 0.5.0rc0, the project's own, does not
  install without CUDA. haste-pytorch-cpu 0.5.5, somebody's copy, does where there is no nvcc, with
  ``pip install --no-build-isolation``. On a CPU both are a loop in Python; the product of the input
  and its norm are taken out of it. For 28 steps only: backward its time grows with their square.

Before anything is timed, the outputs and all gradients of each are compared with its own function
in float64. Who is wrong is named, and not timed. "forward" is without gradients; "forward and
backward" gives those of x and of all parameters.

A row has the median time in ms, and the medians and quartiles of the ratios within one round: over
nn.LSTM's, and the naive loop's over this one's (above 1: this one is faster). ``first_s`` is the
first call, with all compiling (for 784 steps, of a few sequences only); ``saved_bytes`` what is
kept for the backward pass besides x and the parameters, ``peak_bytes`` the most that PyTorch's
allocator hands out during the pass. On a GPU a pass is replayed as a CUDA graph where it can be
captured; ``status`` says so where it cannot.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lstm_providers as providers
import torch
from bench_memory import peak_bytes
from bench_speed import ratio
from gpu_timing import Gpu, Machine
from lstm_providers import CELL, COMPILED, LSTM, NAIVE, OURS, PACKED, SEQUENCES, Case, Provider
from results_table import RESULTS, noted, provenance, save
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache

from lnlib.book.experiments.memory import saved_bytes
from lnlib.book.records.kernels import Verdict

ROUNDS = {
    Case(28, 28, 128): 50,
    Case(28, 28, 512): 15,
    Case(784, 1, 128): 7,
    Case(28, 28, 128, batch=1): 100,
    Case(1, 28, 128, batch=1, kind=CELL): 1000,
    Case(100, 28, 128, kind=PACKED): 15,
}
QUICK = {
    Case(5, 3, 7, 6): 3,
    Case(29, 1, 7, 6): 3,
    Case(1, 3, 7, 6, CELL): 3,
    Case(5, 3, 7, 6, PACKED): 3,
}
WARM_UP = 3
FORWARD, BOTH = "forward", "forward and backward"

Row = dict[str, Any]


class Cpu:
    """One call at a time; the `gpu_timing.Machine` that is always there."""

    device = torch.device("cpu")

    def timer(self, run: Callable[[], object], regime: str) -> tuple[Callable[[float], float], str]:
        """Return what times one call of ``run``, in µs, and a status."""
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        return lambda seconds: 1e6 * seconds_of(run, clock), "ok"

    def peak_bytes(self, run: Callable[[], object]) -> int:
        """Return the most bytes that ``run`` has in use at one time, beyond those before."""
        return peak_bytes(run)

    def free(self) -> None:
        """Leave memory to the allocator."""


class Entrant(NamedTuple):
    """A provider that is right: what is timed, by pass, and what its rows say besides times."""

    passes: dict[str, Callable[[], object]]
    rows: dict[str, Row]


def seconds_of(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def passes_of(provider: Provider, x: Tensor) -> dict[str, Callable[[], object]]:
    """Return what is timed; the gradients that arrive are made in the first call."""
    leaves = (x, *provider.leaves)
    upstream: list[Tensor] = []

    def forward() -> object:
        with torch.no_grad():
            return provider.run(x)

    def both_ways() -> object:
        outputs = provider.run(x)
        if not upstream:
            upstream.extend(providers.upstream_of(outputs))
        return torch.autograd.grad(outputs, leaves, upstream)

    return {BOTH: both_ways, FORWARD: forward}


def admit(name: str, case: Case, machine: Machine) -> Entrant | str:
    """Return a provider that is right, with its memory counted, or why it does not take part."""
    try:
        provider = providers.load(name, case.checked, machine.device)
    except ImportError as error:
        return f"absent: {error}"
    x = providers.input_of(case.checked, machine.device)
    first = {which: seconds_of(run) for which, run in passes_of(provider, x).items()}
    found = providers.errors(provider, x)
    wrong = providers.complaint(found)
    if wrong is not None:
        return wrong
    if case.checked != case:
        provider = providers.load(name, case, machine.device)
        x = providers.input_of(case, machine.device)
    passes = passes_of(provider, x)
    rows: dict[str, Row] = {}
    for which, run in passes.items():
        run()  # what is made once is no part of the peak
        rows[which] = {
            "first_s": f"{first[which]:.3g}",
            "saved_bytes": "",
            "peak_bytes": machine.peak_bytes(run),
            "error": f"{max(found.values()):.2g}",
        }
    rows[BOTH]["saved_bytes"] = kept_bytes(provider, x)
    return Entrant(passes, rows)


def kept_bytes(provider: Provider, x: Tensor) -> int:
    """Return the bytes kept for the backward pass, besides x and parameters."""
    held = [x, *(leaf for leaf in provider.leaves if isinstance(leaf, nn.Parameter))]
    return saved_bytes(lambda: provider.run(x), held=held)


def table(is_quick: bool) -> Iterator[list[Row]]:
    """Yield the rows of each shape, on the CPU and on a GPU if there is one."""
    machines: list[Machine] = [Cpu()]
    if torch.cuda.is_available():
        torch.backends.cudnn.allow_tf32 = False  # float32 for all of them
        machines.append(Gpu())
    with fresh_cache():  # so that first_s has all of torch.compile in it
        for machine in machines:
            for case, rounds in (QUICK if is_quick else ROUNDS).items():
                names = providers.names_for(case)
                if is_quick:
                    names = [name for name in names if name != COMPILED]
                yield measure(case, names, machine, rounds)
                machine.free()


def measure(case: Case, names: Iterable[str], machine: Machine, rounds: int) -> list[Row]:
    """Return a row for each pass of each provider that is there and right."""
    load = os.getloadavg()[0]
    entrants: dict[str, Entrant] = {}
    for name in names:
        entrant = admit(name, case, machine)
        if isinstance(entrant, str):
            print(f"{name}: {entrant}", flush=True)
        else:
            entrants[name] = entrant
    if not {LSTM, NAIVE if case.kind == SEQUENCES else OURS} <= entrants.keys():
        raise RuntimeError(f"{LSTM} and the {NAIVE}, to which all are compared, must be right")
    timers = {
        (name, which): machine.timer(run, "between")
        for name, entrant in entrants.items()
        for which, run in entrant.passes.items()
    }
    times: dict[tuple[str, str], list[float]] = {each: [] for each in timers}
    order = list(timers)
    for turn in range(WARM_UP + rounds):
        first = turn % len(order)
        for each in order[first:] + order[:first]:
            sample, _ = timers[each]
            times[each].append(sample(0.0))
    timed = {each: found[WARM_UP:] for each, found in times.items()}
    return [
        row_of(case, each, timed)
        | entrants[each[0]].rows[each[1]]
        | {"status": timers[each][1], "device": device_name(machine), "load": f"{load:.2f}"}
        for each in order
    ]


def row_of(case: Case, each: tuple[str, str], times: dict[tuple[str, str], list[float]]) -> Row:
    """Return what the times of one pass of one provider come to."""
    name, which = each
    over_lstm, quartiles = ratio(times[each], times[LSTM, which])
    naive = times.get((NAIVE, which))
    naive_over, quartiles_naive = ratio(naive, times[each]) if naive else ("", "")
    return {
        "provider": name,
        "pass": which,
        "kind": case.kind,
        "batch": case.batch,
        "steps": case.steps,
        "input_size": case.input_size,
        "hidden_size": case.hidden_size,
        "ms": f"{statistics.median(times[each]) / 1e3:.3g}",
        "over_lstm": over_lstm,
        "quartiles": quartiles,
        "naive_over": naive_over,
        "quartiles_naive_over": quartiles_naive,
    }


def device_name(machine: Machine) -> str:
    is_cpu = machine.device.type == "cpu"
    return "cpu" if is_cpu else torch.cuda.get_device_name(machine.device)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Return how far lnlib's rows are from what it wants to reach, training on a CPU."""
    both = [row for row in rows if row["pass"] == BOTH and row["device"] == "cpu"]
    both = [row for row in both if row["kind"] == SEQUENCES]
    found = []
    for ours in (row for row in both if row["provider"] == OURS):
        about = f"B = {ours['batch']}, T = {ours['steps']}, H = {ours['hidden_size']}"
        naive = next(
            row
            for row in both
            if row["provider"] == NAIVE
            and all(row[size] == ours[size] for size in ("batch", "steps", "hidden_size"))
        )
        kept = ours["saved_bytes"] / naive["saved_bytes"]
        found += [
            Verdict("time over nn.LSTM's", 1.1, float(ours["over_lstm"]), about, at_most=True),
            Verdict("the naive loop's time over ours", 1.8, float(ours["naive_over"]), about),
            Verdict("bytes kept over the naive loop's", 1.0, kept, about, at_most=True),
        ]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes; nothing is compiled")
    parser.add_argument("--out", type=Path, help="the table (default: benchmarks/results/lstm.csv)")
    options = parser.parse_args(arguments)
    path = options.out or (None if options.quick else RESULTS / "lstm.csv")
    where = provenance() | {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    rows: list[Row] = []
    for found in table(options.quick):
        rows += noted(found, lambda: where)
        if path is not None:
            save(path, rows)  # a run that is stopped keeps what it had
            print(f"wrote {path.name}")
    print(*verdicts(rows), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
