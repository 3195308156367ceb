"""Chapter 06: from equations to an autograd Function."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lnlib import formula
from lnlib.book.exercises.answer import Outcome, form, misfit
from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.inputs import normal

_SAID, _MEANT = 1e-5, 1e-12  # what is written into the Function, and what was asked for


def _layers() -> list[tuple[Tensor, Tensor, Tensor, float]]:
    shapes = [(4, 5), (2, 3, 5)]
    return [
        (normal(*shape, seed=1), normal(*shape, seed=2), normal(5, seed=3), eps)
        for shape, eps in zip(shapes, (0.3, 1e-5), strict=True)
    ]


def _weight_only(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    eps: float,
    *,
    without: str = "",
    gamma: str = "first",
    correction: int = 0,
    rows: str = "sum",
) -> tuple[Tensor, Tensor]:
    """Return dx and dγ, right unless a keyword puts a mistake in."""
    t = formula.terms(x, eps=0.0 if without == "eps" else eps, correction=correction)
    g = weight * dy if gamma == "first" else dy
    lost = torch.zeros_like(g)
    if without != "mean":
        lost = lost + g.mean(-1, keepdim=True)
    if without != "x_hat":
        along = (g * t.x_hat).mean(-1, keepdim=True)
        lost = lost + (along if without == "x_hat in front" else t.x_hat * along)
    dx = t.rstd * (g - lost)
    products = dy * t.x_hat
    dweight = {
        "sum": lambda: products.flatten(0, -2).sum(0),
        "mean": lambda: products.flatten(0, -2).mean(0),
        "first": lambda: products.sum(0),
        "g": lambda: (g * t.x_hat).flatten(0, -2).sum(0),
    }[rows]()
    return (weight * dx if gamma == "last" else dx), dweight


weight_only = Exercise(
    "the backward of a layer norm with γ and without β",
    truth=lambda dy, x, weight, eps: _weight_only(dy, x, weight, eps),
    inputs=_layers(),
    slips={
        "γ comes first on the way back: it multiplies dy before the means are taken": (
            lambda *a: _weight_only(*a, gamma="last")
        ),
        "dx forgets γ: g is γ times dy": lambda *a: _weight_only(*a, gamma="nowhere"),
        "the mean term of dx is missing": lambda *a: _weight_only(*a, without="mean"),
        "the x̂ term of dx is missing": lambda *a: _weight_only(*a, without="x_hat"),
        "the x̂ term of dx has an x̂ in its mean and one in front": (
            lambda *a: _weight_only(*a, without="x_hat in front")
        ),
        "dx forgets ε, in rstd or in x̂": lambda *a: _weight_only(*a, without="eps"),
        "ε is an argument: use it": (lambda dy, x, weight, eps: _weight_only(dy, x, weight, _SAID)),
        "PyTorch's var divides by H − 1; say correction=0": (
            lambda *a: _weight_only(*a, correction=1)
        ),
        "dγ is a sum over the rows, not a mean": lambda *a: _weight_only(*a, rows="mean"),
        "dγ sums over all leading dimensions, not over the first alone": (
            lambda *a: _weight_only(*a, rows="first")
        ),
        "there is no γ in dγ: take dy there, not g": lambda *a: _weight_only(*a, rows="g"),
        "dγ comes after dx": lambda *a: _weight_only(*a)[::-1],
    },
    within=1e-6,  # float32 is right too; the slips are further off
    ask="return dx and dγ",
)

blind_check = Exercise(
    "the deletion that a check with summed outputs does not see",
    truth="x_hat",
    slips={
        "without the mean term dx is rstd, which is not 0: the check sees that": "mean",
        "it does see one of them: put dy = 1 and γ = 1 into the formula for dx": "both",
        "put dy = 1 and γ = 1 into the formula for dx, and look at each term": "neither",
    },
    ask='answer "mean", "x_hat", "both" or "neither"',
)


def _why_eps_does_not_matter(row: Tensor) -> str | None:
    if row.shape != (4,):
        return f"four numbers, please; you gave {form(row.shape)}"
    said, meant = (formula.terms(row, eps=eps) for eps in (_SAID, _MEANT))
    if not said.denominator.isfinite():
        return "finite numbers, please, with a finite variance"
    if row.min() == row.max():
        return "all four are equal, so x̂ is 0 for any ε; one must differ"
    share = float(meant.denominator / said.denominator)
    if share >= 0.01:
        return f"x̂ still has {share:.1%} of its length; bring the numbers closer to each other"
    return None


break_eps = Search(
    "a row of which an ε of 1e-5 leaves less than a hundredth",
    wrong=_why_eps_does_not_matter,
    ask="answer with a list of four numbers",
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
