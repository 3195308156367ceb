"""Chapter 12: a Function in production."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lnlib.book.exercises.answer import Outcome, misfit
from lnlib.book.exercises.base import Exercise, Search

saved_for = Exercise(
    "how many tensors must be saved for dx, for dγ and for dβ",
    truth=[4, 3, 0],
    slips={
        "γ does not occur in dγ, the sum of dy times x̂": [4, 4, 0],
        "dβ is the sum of dy, which backward is given": [4, 3, 1],
        "γ multiplies dy before dx is taken: it must be saved for dx": [3, 3, 0],
        "x̂ is not among the four: it takes x, the mean and rstd": [4, 1, 0],
    },
    ask="answer with three numbers: for dx, for dγ, for dβ",
    why="dx needs γ and what x̂ is made of, dγ only what x̂ is made of, and dβ is the sum of dy.",
)


LARGEST = 300.0  # of a number of the row


def _why_float16_holds_it(row: Tensor) -> str | None:
    if not bool((row.abs() < LARGEST).all()):
        return f"all four must lie between −{LARGEST:.0f} and {LARGEST:.0f}"
    half = row.half()
    if half.min() == half.max():
        return "all four are equal in float16; one must differ"
    largest = (half - half.mean()).square().max()
    if largest.isfinite():
        return f"the largest squared deviation, {largest:.0f}, still fits into float16"
    return None


break_half = Search(
    "a row of float16 whose variance float16 cannot hold",
    wrong=_why_float16_holds_it,
    ask="answer with a list of four numbers",
    shape=(4,),
    why=(
        "A deviation of 256 or so has a square above 65504, which is ∞ in float16, so the "
        "variance is ∞ and x̂ is 0."
    ),
)


@dataclass
class Machine:
    """A pretend computer: two functions, a clock in pretend seconds, and what troubles them.

    Args:
        hint: for those who get this machine wrong.
        ratio: how many times as long as ``a`` it takes ``b`` to run.
        cold: so many first calls of each function take 50 ms more; ``a`` itself takes 1 ms.
        every: after so many seconds of work, one call takes ten times as long.
        drift: with each call, all later ones get slower by this share of the first.
    """

    hint: str
    ratio: float
    cold: int = 0
    every: float = float("inf")
    drift: float = 0.0
    now: float = 0.0
    work: float = 0.0
    a_calls: int = 0
    b_calls: int = 0
    readings: int = 0

    def clock(self) -> float:
        """Return the pretend time in seconds."""
        self.readings += 1
        return self.now

    def a(self) -> None:
        """Run for 1 ms, if nothing is the matter."""
        self.a_calls += 1
        self._run(1e-3, self.a_calls)

    def b(self) -> None:
        """Run for ``ratio`` times as long."""
        self.b_calls += 1
        self._run(1e-3 * self.ratio, self.b_calls)

    def _run(self, seconds: float, call: int) -> None:
        disturbed = (self.work + seconds) // self.every > self.work // self.every
        self.work += seconds
        speed = 1 + self.drift * (self.a_calls + self.b_calls)
        self.now += speed * (seconds * (10 if disturbed else 1) + 0.05 * (call <= self.cold))


Step = Callable[[], None]
Clock = Callable[[], float]


def there_and_back(a: Step, b: Step, clock: Clock) -> float:
    """Time a, b, b, a: over these four a steady drift cancels, so the median is exact."""
    ratios = []
    for _ in range(40):
        times = []
        for function in (a, b, b, a):
            start = clock()
            function()
            times.append(clock() - start)
        ratios.append((times[1] + times[2]) / (times[0] + times[3]))
    return statistics.median(ratios)


def _once(a: Step, b: Step, clock: Clock) -> float:
    start = clock()
    a()
    middle = clock()
    b()
    return (clock() - middle) / (middle - start)


class _Race(Exercise):
    """A function of two functions and a clock, tried on machines with a trouble each."""

    def _function(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def on(machine: Machine) -> Any:
            result = answer(machine.a, machine.b, machine.clock)
            unanswered = result is None or result is ...
            return result if unanswered or machine.readings >= 20 else "by luck"

        return on

    def _slip(self, given: list[Outcome]) -> str | None:
        hint = super()._slip(given)
        tried = list(zip(self._inputs, given, self._truth, strict=True))
        if hint or any(misfit(mine, truth) for _, mine, truth in tried):
            return hint
        # How far off a mistake leads depends on the number of rounds: what tells is where it does.
        off = (m for [m], mine, truth in tried if not self._agree([mine], [truth]))
        machine: Machine = next(off)
        return machine.hint


_COLD = "the first calls compile and fill caches: make some calls before you time any"
_DISTURBED = "now and then something disturbs one call: a median, not a mean, passes over it"
_DRIFT = "the machine gets slower all the time: let a and b take turns"

MACHINES = [
    Machine("nothing disturbs here: divide the time of b by the time of a", 2.5),
    Machine(_COLD, 2.5, cold=4),
    Machine(_DISTURBED, 2.0, every=0.037),
    Machine(_DISTURBED, 2.5, every=0.053),
    Machine(_DRIFT, 2.0, drift=0.006),
    Machine("you handle each trouble, but not all at once", 1.6, 4, 0.041, 0.006),
]

race = _Race(
    "the time of b divided by that of a",
    truth=there_and_back,
    inputs=[(machine,) for machine in MACHINES],
    slips={
        "divide the time of b by that of a, not the other way round": (
            lambda a, b, clock: 1 / there_and_back(a, b, clock)
        ),
        "a few readings tell little: time 15 calls of each, or more, one by one": _once,
    },
    within=0.08,
    ask="return the time of b divided by that of a",
)
