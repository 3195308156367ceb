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


def novel() -> Iterator[tuple[str, Way]]:
    """Yield the ways of 300 steps; the wide ranges of rates say which ones a network tolerates."""
    wide, narrow = (0.001, 0.1), (0.003, 0.1)
    first = dict.fromkeys(TRANSFORMERS, narrow) | {"post-norm": (0.001, 0.03)}
    first |= dict.fromkeys(("no norm, zeros", "layer norm", "layer norm, zeros"), wide)
    for kind, (low, high) in first.items():
        yield kind, Way(low, high, functools.partial(writing, kind=kind, steps=300), ("bits",))
    for kind in ("layer norm", "post-norm"):
        run = functools.partial(writing, kind=kind, steps=300, warmup=0)
        yield f"{kind}, no warm-up", Way(3e-4, 0.01, run, ("bits",))


def longer() -> Iterator[tuple[str, Way]]:
    """Yield the ways of 1,000 steps."""
    for kind in ("no norm, zeros", "layer norm"):
        run = functools.partial(writing, kind=kind, steps=1000)
        yield kind, Way(0.003, 0.03, run, ("bits",))


TABLES: dict[str, Mapping[str, Way]] = {
    "runs_novel": dict(novel()),
    "runs_novel_longer": dict(longer()),
}


if __name__ == "__main__":
    raise SystemExit(trainings.command(__doc__, TABLES))
