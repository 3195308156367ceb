"""Train a small Transformer on a novel, with its norms and without, each way at its own rate.

    python benchmarks/sweep_novel.py   # an hour and a half on two free cores

The protocol stands in `lnlib/book/records/verdicts.py`. Ctrl-C stops; the same command goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import trainings
from trainings import Way

from lnlib.book.experiments.trainers import TRANSFORMERS, in_bits, tenths, write


def writing(rate: float, seed: int, **how: Any) -> dict[str, float]:
    """Train a Transformer."""
    return in_bits(write(rate=rate, seed=seed, **how), tenths(seed))


def novel(steps: int, kinds: Mapping[str, tuple[float, float]]) -> Iterator[tuple[str, Way]]:
    """Yield ways of some steps, each with its first rates."""
    for kind, (low, high) in kinds.items():
        run = functools.partial(writing, kind=kind, steps=steps)
        yield kind, Way(low, high, run, ("bits",))


WIDE, NARROW = (0.001, 0.1), (0.003, 0.1)  # the wide ones say which rates a network tolerates
RATES = dict.fromkeys(TRANSFORMERS, NARROW)
RATES |= dict.fromkeys(("no norm, zeros", "layer norm", "layer norm, zeros"), WIDE)
RATES |= {"post-norm": (0.001, 0.03)}
LONGER = dict.fromkeys(("no norm, zeros", "layer norm", "RMS norm"), (0.003, 0.03))

TABLES: dict[str, Mapping[str, Way]] = {
    "runs_novel": dict(novel(300, RATES)),
    "runs_novel_longer": dict(novel(1000, LONGER)),
}


def runs_of(table: str) -> Iterator[dict[str, Any]]:
    """Yield what the rows of each run in ``table`` say of it."""
    return trainings.runs_of(table, TABLES[table])


if __name__ == "__main__":
    raise SystemExit(trainings.command(__doc__, TABLES))
