"""What does a layer-normalized LSTM cost? Time and memory of lnlib's, beside PyTorch's LSTM.

    python benchmarks/bench_lstm.py                          # about ten minutes
    python benchmarks/bench_lstm.py --quick                  # tiny sizes, seconds; only prints

Float32, on this CPU, and then on a CUDA device if there is one, where a pass is replayed as a CUDA
graph. All are timed in turn, each round beginning with another; the machine should have nothing
else to do.

* nn.LSTM, which normalizes nothing: all times are told as ratios to its time;
* lnlib: `lnlib.LayerNormLSTM`, and the same with the steps in plain operations of PyTorch;
* the naive loop: the cell as walkthroughs write it, all of it called for every step, with a layer
  norm of mean, variance and quotient; and the same through torch.compile, for 28 steps only, since
  it unrolls the loop and compiles for a minute or two;
* TorchScript: the function of PyTorch's ``benchmarks/fastrnns/custom_lstms.py``;
* nn.LSTM + 3T layer norms: that LSTM, and as many layer norms of the same sizes beside it: what
  the parts cost if nobody fuses them;
* for a cell and for packed sequences, nn.LSTMCell or nn.LSTM and lnlib's alone.

Before anything is timed, the outputs and all gradients of each are compared with its own function
in float64. Who is wrong is named, and not timed. "forward" is without gradients; "forward and
backward" gives those of x and of all parameters.

A row has the median time in ms, and the medians and quartiles of the ratios within one round: over
nn.LSTM's, and the naive loop's over this one's (above 1: this one is faster). ``first_s`` is the
first call, with all compiling (for 784 steps, of a few sequences only); ``saved_bytes`` what is
kept for the backward pass besides x and the parameters, ``peak_bytes`` the most that PyTorch's
allocator hands out during the pass.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import lstm_providers as providers
import timing
import torch
from bench_memory import CPU, peak_bytes
from bench_speed import BOTH, FORWARD, ratio
from lstm_providers import CELL, COMPILED, LSTM, NAIVE, OURS, PACKED, SEQUENCES, Case, Provider
from results_table import RESULTS, Row, noted, provenance, save
from torch import Tensor, nn
from torch._inductor.utils import fresh_cache

from lnlib.book.experiments.memory import saved_bytes

ROUNDS = {
    Case(28, 28, 128): 50,
    Case(28, 28, 512): 15,
    Case(784, 1, 128): 7,
    Case(28, 28, 128, batch=1): 100,
    Case(1, 28, 128, batch=1, kind=CELL): 200,
    Case(100, 28, 128, kind=PACKED): 15,
}
QUICK = {
    Case(5, 3, 7, 6): 3,
    Case(29, 1, 7, 6): 3,
    Case(1, 3, 7, 6, CELL): 3,
    Case(5, 3, 7, 6, PACKED): 3,
}


class Entrant(NamedTuple):
    """A provider that is right: what is timed, by pass, and what its rows say besides times."""

    passes: dict[str, timing.Run]
    rows: dict[str, Row]


def passes_of(provider: Provider, x: Tensor) -> dict[str, timing.Run]:
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


def admit(name: str, case: Case, device: torch.device) -> Entrant | str:
    """Return a provider that is right, with its memory counted, or why it does not take part."""
    provider = providers.load(name, case.checked, device)
    x = providers.input_of(case.checked, device)
    first = {which: timing.seconds_of(run) for which, run in passes_of(provider, x).items()}
    found = providers.errors(provider, x)
    wrong = providers.complaint(found)
    if wrong is not None:
        return wrong
    if case.checked != case:
        provider, x = providers.load(name, case, device), providers.input_of(case, device)
    passes = passes_of(provider, x)
    rows: dict[str, Row] = {}
    for which, run in passes.items():
        run()  # what is made once is no part of the peak
        rows[which] = {
            "first_s": f"{first[which]:.3g}",
            "saved_bytes": kept_bytes(provider, x) if which == BOTH else "",
            "peak_bytes": peak_bytes(run, device),
            "error": f"{max(found.values()):.2g}",
            "status": "ok",
            "device": "cpu" if device == CPU else torch.cuda.get_device_name(),
        }
    return Entrant(passes, rows)


def kept_bytes(provider: Provider, x: Tensor) -> int:
    """Return the bytes kept for the backward pass, besides x and parameters."""
    held = [x, *(leaf for leaf in provider.leaves if isinstance(leaf, nn.Parameter))]
    return saved_bytes(lambda: provider.run(x), held=held)


def table(is_quick: bool) -> Iterator[list[Row]]:
    """Yield the rows of each shape, on the CPU and on a GPU if there is one."""
    devices = [CPU]
    if torch.cuda.is_available():
        torch.backends.cudnn.allow_tf32 = False  # float32 for all of them
        timing.use_one_stream()
        devices.append(torch.device("cuda"))
    with fresh_cache():  # so that first_s has all of torch.compile in it
        for device in devices:
            for case, rounds in (QUICK if is_quick else ROUNDS).items():
                names = [n for n in providers.names_for(case) if not (is_quick and n == COMPILED)]
                yield measure(case, names, device, rounds)


def measure(case: Case, names: Iterable[str], device: torch.device, rounds: int) -> list[Row]:
    """Return a row for each pass of each provider that is right."""
    load = os.getloadavg()[0]
    entrants: dict[str, Entrant] = {}
    for name in names:
        entrant = admit(name, case, device)
        if isinstance(entrant, str):
            print(f"{name}: {entrant}", flush=True)
        else:
            entrants[name] = entrant
    if not {LSTM, NAIVE if case.kind == SEQUENCES else OURS} <= entrants.keys():
        raise RuntimeError(f"{LSTM} and the {NAIVE}, to which all are compared, must be right")
    runs = {
        (name, which): run
        for name, entrant in entrants.items()
        for which, run in entrant.passes.items()
    }
    sampler = timing.on_cpu if device == CPU else timing.on_gpu
    times = timing.in_turn(runs, 0, rounds, rounds, sampler)
    return [
        row_of(case, each, times) | entrants[each[0]].rows[each[1]] | {"load": f"{load:.2f}"}
        for each in runs
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
        "ms": f"{1e3 * statistics.median(times[each]):.3g}",
        "over_lstm": over_lstm,
        "quartiles": quartiles,
        "naive_over": naive_over,
        "quartiles_naive_over": quartiles_naive,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes; only prints")
    is_quick = parser.parse_args(arguments).quick
    where = provenance() | {"threads": torch.get_num_threads(), "torch": torch.__version__}
    rows: list[Row] = []
    path = RESULTS / "lstm.csv"
    with path.open(encoding="utf8", newline="") as file:
        before = list(csv.DictReader(file))
    for found in table(is_quick):
        rows += noted(found, lambda: where)
        timed = {row["device"] for row in rows}
        if not is_quick:  # a run that is stopped keeps what it had, and others' devices their rows
            save(path, rows + [row for row in before if row["device"] not in timed])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
