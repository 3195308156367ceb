"""How do time and memory grow with the input? Writes ``benchmarks/results/growth.csv``.

    python benchmarks/bench_growth.py           # about two minutes
    python benchmarks/bench_growth.py --quick   # tiny sizes, seconds; only prints

Float32, forward and backward, on this CPU. A layer norm is timed against rows and against features,
an LSTM of one layer against steps, sequences and numbers of state; each time four times as many,
over three decades and more, while the other sizes stay. Layer norms are those of ``bench_speed.py``
that compile nothing, LSTMs the first three of ``bench_lstm.py``. Before a size is timed, results
and gradients are compared with the truth in float64; who is wrong is named, and takes no part.

Each round times every size of everybody, in turn, and has a slope of its own: that of the straight
line through log(time) against log(size), by least squares, over the three largest sizes. 1 says
that twice the size takes twice the time, 2 that it takes four times. A row has the median time of
its size in ms, and for its whole series the median and quartiles of the slopes. ``peak_bytes`` is
what ``bench_memory.py`` counts, and ``memory_slope`` comes from the same three sizes.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import bench_lstm
import bench_speed
import lstm_providers
import timing
from bench_memory import peak_bytes
from bench_speed import BOTH
from lstm_providers import LSTM, NAIVE, OURS
from results_table import noted, write

POWERS = 7  # sizes of a series: 1, 4, 16 and so on
LARGE = 3  # sizes that the slope is of
AT_LEAST, AT_MOST, SECONDS = 5, 25, 8.0

Row = dict[str, Any]
Runs = dict[str, Callable[[], object]]


class Sweep(NamedTuple):
    """What grows, through which sizes, and what makes the runs of one size, by provider."""

    what: str
    along: str
    sizes: Sequence[int]
    runs_of: Callable[[int], Runs]


def layer_norms(case: bench_speed.Case) -> Runs:
    """Return both passes of each layer norm that is right."""
    given = bench_speed.arguments_of(case)
    about = f", {case.rows} × {case.features}"
    right = bench_speed.admitted(bench_speed.EAGER, given, about)
    return {
        name: partial(bench_speed.both_ways, entrant.layer_norm, given)
        for name, entrant in right.items()
    }


def lstms(case: lstm_providers.Case) -> Runs:
    """Return both passes of each LSTM that is right."""
    runs: Runs = {}
    for name in (OURS, LSTM, NAIVE):
        entrant = bench_lstm.admit(name, case, bench_lstm.Cpu())
        if isinstance(entrant, str):
            print(f"{name}, {case}: {entrant}", flush=True)
        else:
            runs[name] = entrant.passes[BOTH]
    return runs


def sweeps(powers: int) -> list[Sweep]:
    """Return what is timed: ``powers`` sizes of each, or one fewer."""
    case, lstm = bench_speed.Case, lstm_providers.Case
    ones, twos, threes = ([least * 4**power for power in range(powers)] for least in (1, 2, 3))
    return [
        Sweep("layer norm", "rows", ones, lambda n: layer_norms(case(n, 768))),
        Sweep("layer norm", "features", threes, lambda n: layer_norms(case(257, n))),
        # From two on: in one step no weight acts on the state.
        Sweep("LSTM", "steps", twos[:-1], lambda n: lstms(lstm(n, 32, 32, batch=8))),
        Sweep("LSTM", "sequences", ones, lambda n: lstms(lstm(8, 32, 32, batch=n))),
        Sweep("LSTM", "numbers of state", twos[:-1], lambda n: lstms(lstm(4, 16, n, batch=16))),
    ]


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return p of the power law c·sizeᵖ that is closest to the ``LARGE`` largest, in logarithms."""
    logs = ([math.log(value) for value in each[-LARGE:]] for each in (sizes, values))
    return statistics.linear_regression(*logs).slope


def slopes(sizes: Sequence[float], rounds: Sequence[Sequence[float]]) -> tuple[float, str]:
    """Return the median slope of the rounds, each with a time for every size, and the quartiles."""
    low, middle, high = statistics.quantiles([slope(sizes, times) for times in rounds], n=4)
    return middle, f"{low:.3g} to {high:.3g}"


def table(is_quick: bool) -> Iterator[Row]:
    """Yield the rows of the table, or of tiny sizes."""
    powers, seconds, at_least = (4, 0.0, 3) if is_quick else (POWERS, SECONDS, AT_LEAST)
    for sweep in sweeps(powers):
        yield from measure(sweep, seconds, at_least)


def measure(sweep: Sweep, seconds: float, at_least: int) -> list[Row]:
    """Return a row for each size of each provider that is right at all sizes."""
    by_size = {size: sweep.runs_of(size) for size in sweep.sizes}
    names = [name for name in by_size[sweep.sizes[0]] if all(name in by_size[n] for n in by_size)]
    runs = {(name, size): by_size[size][name] for name in names for size in sweep.sizes}
    peaks = {key: peak_bytes(run) for key, run in runs.items()}
    times = timing.in_turn(runs, seconds, at_least, AT_MOST)
    rows = []
    for name in names:
        of_name = [times[name, size] for size in sweep.sizes]
        time_slope, quartiles = slopes(sweep.sizes, list(zip(*of_name, strict=True)))
        memory_slope = slope(sweep.sizes, [peaks[name, size] for size in sweep.sizes])
        rows += [
            {
                "what": sweep.what,
                "along": sweep.along,
                "provider": name,
                "size": size,
                "ms": f"{1e3 * statistics.median(of_size):.3g}",
                "peak_bytes": peaks[name, size],
                "time_slope": f"{time_slope:.3g}",
                "quartiles": quartiles,
                "memory_slope": f"{memory_slope:.3g}",
                "rounds": len(of_size),
            }
            for size, of_size in zip(sweep.sizes, of_name, strict=True)
        ]
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    options = parser.parse_args(arguments)
    rows = noted(table(options.quick), bench_speed.where)
    if not options.quick:
        write("growth", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
