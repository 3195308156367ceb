"""Time several things in turn on a CPU, so that a machine that slows down slows them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

WARM_UP = 2  # rounds that are not counted
TRIES = 5  # of which the quickest says how long a call takes
SAMPLE = 1e-3  # seconds; the clock is read around so many calls that they take as long

Key = TypeVar("Key", bound=Hashable)
Run = Callable[[], object]


def calls_for(run: Run) -> int:
    """Return how many calls of ``run`` take about a millisecond together; 1 if one is slower."""
    run()
    # If one that waits for a thread to wake decided, a round would have one call, which waits too.
    quickest = min(seconds_of(run, 1) for _ in range(TRIES))
    return max(1, round(SAMPLE / max(quickest, 1e-9)))


def seconds_of(run: Run, calls: int) -> float:
    """Return the time of one call, as a mean over ``calls``."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def in_turn(
    runs: Mapping[Key, Run], seconds: float, at_least: int, at_most: int
) -> dict[Key, list[float]]:
    """Return the seconds that a call of each of ``runs`` takes, round by round.

    Each round times everybody once and begins with another.

    Args:
        runs: what is timed.
        seconds: after which no further round begins.
        at_least: rounds, however long they take.
        at_most: rounds, however quick they are.
    """
    calls = {key: calls_for(run) for key, run in runs.items()}
    order, times = list(runs), {key: list[float]() for key in runs}
    start = time.perf_counter()
    for turn in range(WARM_UP + at_most):
        if turn >= WARM_UP + at_least and time.perf_counter() - start > seconds:
            break
        first = turn % len(order)
        for key in order[first:] + order[:first]:
            times[key].append(seconds_of(runs[key], calls[key]))
    return {key: each[WARM_UP:] for key, each in times.items()}
