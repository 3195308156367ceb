"""Pictures of what the benchmarks recorded, which `drawn` puts into the pages."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from drawings import accuracy, speed

# A name that pages use, and what draws it in the look of `lnlib.book.style`.
DRAWINGS: dict[str, Callable[[], Figure]] = {
    "accuracy": accuracy.outputs,
    "gpu": speed.gpu,
    "lstm": speed.lstm,
    "memory": speed.memory,
    "speed": speed.speed,
}
