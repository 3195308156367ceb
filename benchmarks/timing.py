"""Time several things in turn, so that a machine that slows down slows them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch

WARM_UP = 2  # rounds that are not counted
TRIES = 5  # of which the quickest says how long a call takes
SAMPLE = 1e-3  # seconds; the clock is read around so many calls that they take as long
IN_A_GRAPH = 50  # calls that find the cache warm
ON_THE_WALL = 100  # calls from Python
REPEATED = 20  # milliseconds for which a graph is replayed in a round

Key = TypeVar("Key", bound=Hashable)
Run = Callable[[], object]
Sample = Callable[[], float]


def calls_for(run: Run) -> int:
    """Return how many calls of ``run`` take about a millisecond together; 1 if one is slower."""
    run()
    # If one that waits for a thread to wake decided, a round would have one call, which waits too.
    quickest = min(seconds_of(run, 1) for _ in range(TRIES))
    return max(1, round(SAMPLE / max(quickest, 1e-9)))


def seconds_of(run: Run, calls: int = 1) -> float:
    """Return the time of one call, as a mean over ``calls``."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def on_cpu(run: Run) -> Sample:
    """Return what takes the time of one call, in seconds."""
    return partial(seconds_of, run, calls_for(run))


def one_call(run: Run) -> Sample:
    """Return what takes the time of one call that is slow, such as an interpreted kernel's."""
    return partial(seconds_of, run)


def use_one_stream() -> None:
    """Leave the default stream, which cannot be captured; a backward pass stays on this one."""
    torch.cuda.set_stream(torch.cuda.Stream())


def on_gpu(run: Run, regime: str = "") -> Sample:
    """Return what takes the time of one call on the current CUDA device, in seconds.

    "latency" is the clock on the wall over a hundred calls from Python. In other regimes Python
    does not count: the calls are replayed as a CUDA graph, and Triton empties the cache before each
    replay. In "cache" a replay is fifty calls, of which all but the first find it warm.
    """
    if regime == "latency":
        return partial(_on_the_wall, run)
    from triton.testing import do_bench

    count = IN_A_GRAPH if regime == "cache" else 1
    replay = captured(run, count)
    timed = partial(do_bench, replay, warmup=1, rep=REPEATED, return_mode="median")
    return lambda: float(timed()) / 1e3 / count


def captured(run: Run, count: int) -> Run:
    """Return ``count`` calls of ``run`` as a CUDA graph; raise RuntimeError if it allows none."""
    for _ in range(3):  # loads kernels, and fills the allocator's pool
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(count):
            run()
    return graph.replay


def _on_the_wall(run: Run) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(ON_THE_WALL):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / ON_THE_WALL


def in_turn(
    runs: Mapping[Key, Any],
    seconds: float,
    at_least: int,
    at_most: int,
    sampler: Callable[[Any], Sample] = on_cpu,
) -> dict[Key, list[float]]:
    """Return the seconds that a call of each of ``runs`` takes, round by round.

    Each round times everybody once and begins with another.

    Args:
        runs: what is timed.
        seconds: after which no further round begins.
        at_least: rounds, however long they take.
        at_most: rounds, however quick they are.
        sampler: makes of a run what takes its time.
    """
    samples = {key: sampler(run) for key, run in runs.items()}
    order, times = list(runs), {key: list[float]() for key in runs}
    start = time.perf_counter()
    for turn in range(WARM_UP + at_most):
        if turn >= WARM_UP + at_least and time.perf_counter() - start > seconds:
            break
        first = turn % len(order)
        for key in order[first:] + order[:first]:
            times[key].append(samples[key]())
    return {key: each[WARM_UP:] for key, each in times.items()}
