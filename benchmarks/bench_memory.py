"""How much memory does a layer norm take? Writes ``benchmarks/results/memory.csv``.

Run ``python benchmarks/bench_memory.py``. It takes about ten seconds. The figures are exact and the
same in every run: they come from the events of PyTorch's allocator on the CPU.

The layer norms are those of ``bench_speed.py`` that compile nothing.

* peak: the most bytes in use at one time during forward and backward, beyond x, weight, bias and
  dy, which were there before. y and dx, which no method can do without, are two times x.
* saved: the bytes that the forward pass keeps for the backward pass, beyond x, weight and bias.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from bench_speed import EAGER, PYTORCH, Case, arguments_of, both_ways
from results_table import noted, provenance, write
from torch.profiler import ProfilerActivity, profile

from lnlib.book.experiments.memory import saved_bytes

CPU = torch.device("cpu")
SHAPES = ((512, 257), (4096, 1024), (16384, 256), (2048, 4096))
DTYPES = (torch.bfloat16, torch.float32, torch.float64)


def peak_bytes(run: Callable[[], object], device: torch.device = CPU) -> int:
    """Return the most bytes in use at one time during ``run``, beyond those in use before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return max(itertools.accumulate(event.nbytes() for event in events), default=0)


def table() -> Iterator[dict[str, Any]]:
    """Yield a row for each layer norm on each shape, in each type."""
    for dtype, (rows, features) in itertools.product(DTYPES, SHAPES):
        given = arguments_of(Case(rows, features, dtype))
        x, *parameters = given[:3]
        peaks = {name: peak_bytes(partial(both_ways, run, given)) for name, run in EAGER.items()}
        for name, method in EAGER.items():
            saved = saved_bytes(partial(method, x, x.shape[1:], *parameters), held=given[:3])
            yield {
                "dtype": str(dtype).removeprefix("torch."),
                "rows": rows,
                "features": features,
                "provider": name,
                "peak_bytes": peaks[name],
                "peak_over_torch": f"{peaks[name] / peaks[PYTORCH]:.3g}",
                "saved_bytes": saved,
                "bytes_of_x": x.nbytes,
            }


if __name__ == "__main__":
    where = provenance() | {"torch": torch.__version__}
    write("memory", noted(table(), lambda: where))
