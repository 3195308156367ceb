"""How long a GPU would take for a launch: a model, fixed before the launches were mended.

A launch cannot end before its bytes are moved, before its instructions are issued, or before the
waves of its programs have run one after the other. Each of the three gives a time, and the longest
is the prediction:

    bytes / roof
    instructions / (4 a cycle on each multiprocessor, 1 on AMD's)
    waves × (time of one program that has the chip to itself)

A program alone waits once for each group of loads between two barriers, and at each barrier; then
its bytes come as fast as one multiprocessor can take them. What a loop loads ahead comes while the
turns before compute. Stores are not waited for.

Nothing in it was fitted to lnlib. The roofs of A100 and H100 are the slopes of Liger-Kernel's own
forward times (``published.csv``), those of H200 and MI300X the same share of what their makers
state. The latencies are those of quack's blog, 400 ns to memory and 200 ns to the cache. Assumed
are twice that on AMD, and what a barrier, a launch and a multiprocessor's way to the cache take.
``tests/test_gpu_time.py`` compares the model with what others have published.
"""

from __future__ import annotations

import math
from typing import NamedTuple

BARRIER = 100  # cycles: a sum's shuffles, its way through shared memory, and the wait
TAKEN = 64  # bytes that a multiprocessor takes from the cache in a cycle
LAUNCH = 2e-6  # seconds from one kernel of a recorded graph to the next


class Chip(NamedTuple):
    """A GPU: how many programs it holds, and how fast it moves, waits and issues."""

    name: str
    target: str  # what Triton compiles for
    multiprocessors: int
    roof: float  # bytes a second that a copy reads and writes
    memory: float  # seconds that a load from memory takes
    cached: float  # seconds that a load from the cache takes
    clock: float  # cycles a second
    issue: int  # instructions that a multiprocessor issues in a cycle
    cache: float  # bytes that stay in the cache between two walks along a row
    registers: int  # of a multiprocessor, 4 bytes each
    threads: int
    shared: int  # bytes
    lanes: int  # threads to a warp


_A100 = Chip(
    "A100", "cuda:80", 108, 1.74e12, 4e-7, 2e-7, 1.41e9, 4, 20e6, 65536, 2048, 164 * 1024, 32
)
_H100 = _A100._replace(name="H100", target="cuda:90", multiprocessors=132, roof=3.07e12)
_H100 = _H100._replace(clock=1.755e9, cache=25e6, shared=228 * 1024)
CHIPS = {
    chip.name: chip
    for chip in (
        _A100,
        _H100,
        _H100._replace(name="H200", roof=4.8e12 * 3.07 / 3.35),
        Chip(
            *("MI300X", "hip:gfx942", 304, 5.3e12 * 3.07 / 3.35, 8e-7, 4e-7, 2.1e9, 1, 128e6),
            *(131072, 2048, 64 * 1024, 64),
        ),
    )
}


# Of chips that others timed, too. GB300's is a triad of theirs, and B200's memory is as fast.
ROOFS = {**{name: chip.roof for name, chip in CHIPS.items()}, "GB300": 7.14e12, "B200": 7.14e12}


class Cost(NamedTuple):
    """What one part of a kernel's code costs a program that runs it once."""

    instructions: int  # of each warp
    barriers: int
    memory: int  # groups of loads that wait for memory
    cached: int  # groups of loads that wait for the cache


class Work(NamedTuple):
    """What a launch is: how many programs, of what code, and what they move together."""

    programs: int
    turns: float  # of each loop
    once: Cost
    each: Cost  # of a turn
    ahead: int  # turns whose loads are on their way before they are needed
    warps: int
    registers: int
    shared: int
    bytes: float  # between memory and chip, of all programs


def slots(work: Work, chip: Chip) -> int:
    """Return how many programs a multiprocessor holds at once."""
    threads = work.warps * chip.lanes
    granted = math.ceil(max(work.registers, 1) / 8) * 8 * threads
    limits = [32, chip.threads // threads, chip.registers // granted]
    if work.shared:
        limits.append(chip.shared // (work.shared + 1024))  # the system keeps 1 KB of each
    return max(1, min(limits))


def waves(work: Work, chip: Chip) -> float:
    """Return how many times over the programs fill the chip."""
    return work.programs / (slots(work, chip) * chip.multiprocessors)


def seconds(work: Work, chip: Chip) -> float:
    """Return the predicted time of a launch, without what it takes to start it."""
    issued = work.once.instructions + work.turns * work.each.instructions
    rate = chip.clock * chip.issue
    busy = min(work.programs, chip.multiprocessors)
    moving = work.bytes / chip.roof
    issuing = work.programs * work.warps * issued / (rate * busy)
    alone = _alone(work, chip)
    return max(moving, issuing, math.ceil(waves(work, chip)) * alone)


def _alone(work: Work, chip: Chip) -> float:
    """Return the time of one program that nobody shares the chip with."""
    moving = work.bytes / work.programs / (TAKEN * chip.clock)
    once, turn = (
        work.warps * cost.instructions / (chip.clock * chip.issue)
        + cost.barriers * BARRIER / chip.clock
        for cost in (work.once, work.each)
    )
    once += _loading(work.once, chip)
    if work.ahead:
        turn = max(turn, chip.memory / work.ahead)
        return once + max(moving, work.turns * turn)
    return once + moving + work.turns * (turn + _loading(work.each, chip))


def _loading(cost: Cost, chip: Chip) -> float:
    return cost.memory * chip.memory + cost.cached * chip.cached
