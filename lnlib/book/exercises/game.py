"""The derivation game: write each gradient, from y back to x, and hear how far off it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lnlib.book.check import max_abs
from lnlib.book.exercises.answer import NotAnAnswer, Outcome, gap, misfit
from lnlib.book.exercises.base import Exercise, Verdict

__all__ = ["APPROXIMATE", "EXACT", "Derivation", "Gradient"]

EXACT = 1e-12  # a few dozen float64 roundings of 1e-16, with room
# What float32 leaves, with room on both sides: one rounding is 6e-8 of a value, and a gradient
# here takes a few. A slip as near as that is the reader's, computed in float32.
FLOAT32 = 1e-9, 1e-6
APPROXIMATE = 0.01
BY_HAND = 6e-3  # two digits after the point

Known = Mapping[str, Any]  # name -> what the reader may use under it


class Gradient(Exercise):
    """One gradient of a derivation, as a function of what is known when its turn comes.

    The function takes what it needs *by name*: ``lambda dy: ...`` gets dy, whatever else is known.
    Being off is measured as the largest difference over the largest value of the true gradient, on
    the input where that is worst.

    >>> known = [{"dy": np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 5.0]]), "H": 2}]
    >>> dbeta = Gradient(
    ...     "∂l/∂β",
    ...     known,
    ...     truth=lambda dy: dy.sum(0),
    ...     slips={"the sign is wrong": lambda dy: -dy.sum(0)},
    ... )
    >>> dbeta(lambda dy: dy.sum(axis=0))
    exact: within rounding (largest relative error below 1e-12)
    >>> dbeta(lambda dy: -dy.sum(axis=0))
    wrong: off by 200 % of its largest value; likely slip: the sign is wrong
    >>> dbeta(lambda dy: 1.00003 * dy.sum(axis=0))
    approximate: off by 3e-5 of its largest value

    Args:
        name: of the gradient, such as "∂l/∂β".
        known: for each input, what is known by name; the names are the same in all.
        truth: the right function; it takes what it needs by name, too.
        slips: hint -> the wrong function that earns it.

    Raises: ValueError, as `Exercise` does, if a slip is right or is another slip up to float32.
    """

    def __init__(
        self,
        name: str,
        known: Sequence[Known],
        truth: Callable[..., Any],
        slips: Mapping[str, Callable[..., Any]],
    ) -> None:
        self._names = tuple(known[0])
        self._functions = truth, dict(slips)
        super().__init__(
            name,
            truth=truth,
            inputs=[tuple(case.values()) for case in known],
            slips=slips,
            within=EXACT,
            ask=f"write a function of what you need from {', '.join(self._names)}",
        )

    def first(self, known: Known) -> Exercise:
        """Ask for the first number of this gradient, by hand, on one input.

        Raises: ValueError if a slip gives the right number there, or that of another slip.
        """
        truth, slips = self._functions
        case = [known[name] for name in self._names]

        def number(function: Callable[..., Any]) -> float:
            return float(self._function(function)(*case).flatten()[0])

        place = "₁" * self._function(truth)(*case).ndim
        return Exercise(
            f"{self.name}{place}",
            truth=number(truth),
            slips={hint: number(wrong) for hint, wrong in slips.items()},
            within=BY_HAND,
            ask="answer with a number; two digits after the point are enough",
        )

    def _function(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        try:
            parameters = inspect.signature(answer).parameters.values()
        except Exception:  # also what a property of the reader's raises
            raise NotAnAnswer(
                "not yet: write a def or a lambda, whose arguments have names"
            ) from None
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        named = [p for p in parameters if p.kind not in variadic]
        for parameter in named:
            if parameter.name not in self._names and parameter.default is parameter.empty:
                raise NotAnAnswer(
                    f"not yet: nothing is called {parameter.name!r} here;"
                    f" you may use {', '.join(self._names)}"
                )
        wanted = [p.name for p in named if p.name in self._names]

        def with_names(*case: Any) -> Any:
            known = dict(zip(self._names, case, strict=True))
            return answer(**{name: known[name] for name in wanted})

        return with_names

    def _agree(self, some: list[Outcome], others: list[Outcome]) -> bool:
        return _off(some, others) <= FLOAT32[1]

    def _judge(self, given: list[Outcome]) -> Verdict:
        off = _off(given, self._truth)
        if off <= EXACT:
            return Verdict(
                True, f"exact: within rounding (largest relative error below {_short(EXACT)})"
            )
        slip = self._slip(given)
        if np.isinf(off):
            return Verdict(False, f"wrong: {slip or self._why_no_distance(given)}")
        how = "approximate" if off < APPROXIMATE else "wrong"
        why = f"; likely slip: {slip}" if slip else ""
        if not slip and FLOAT32[0] < off < FLOAT32[1]:
            why = "; computed in float32?"
        return Verdict(False, f"{how}: off by {_share(off)} its largest value{why}")

    def _why_no_distance(self, given: list[Outcome]) -> str:
        for number, (mine, truth) in enumerate(zip(given, self._truth, strict=True)):
            if reason := _unfit(mine, truth):
                return f"{reason}, {self._where(number)}"
        return "NaN or infinite, where it should not be"

    def _where(self, number: int) -> str:
        sizes = dict(zip(self._names, self._inputs[number], strict=True))
        shown = ", ".join(f"{name} = {sizes[name]}" for name in ("B", "H") if name in sizes)
        return f"with {shown}" if shown else super()._where(number)


class Derivation:
    """A derivation to be written step by step: one function for each gradient.

    ``game(weight=..., s=...)`` says of each function handed in whether it is exact, and how many of
    all gradients are. The first line is "right" when all of them are. An Exception in a function
    becomes a hint.

    Args:
        gradients: the name under which each is handed in -> the gradient.
        numbers: what is known, by name, where the first number of each gradient is found by hand.
    """

    def __init__(self, gradients: Mapping[str, Gradient], numbers: Known) -> None:
        self.gradients = dict(gradients)
        self.numbers = dict(numbers)
        self.by_hand = {name: gradient.first(numbers) for name, gradient in gradients.items()}

    def __call__(self, *unnamed: object, **answers: object) -> None:
        """Print one line for each function, and how many gradients are exact."""
        if unnamed:
            print(f"not yet: say which is which, as in game({next(iter(self.gradients))}=...)")
        verdicts = self._verdicts(answers)
        lines, missing = [], []
        for name in answers:
            gradient = self.gradients.get(name)
            if not gradient:
                known = ", ".join(self.gradients)
                lines.append(f"{name}: there is no such gradient; there are {known}")
                continue
            message = verdicts[name].message
            if not message.startswith("not answered yet"):
                lines.append(f"{gradient.name} {message}")
            else:
                missing.append(gradient.name)
        if missing and not lines:
            return  # nothing was begun
        if missing:
            lines.append(f"not answered yet: {', '.join(missing)}")
        whole = self._count(verdicts)
        print("\n".join([whole.message, *lines] if whole.right else [*lines, whole.message]))

    def verdict(self, answers: Mapping[str, object]) -> Verdict:
        """Judge all gradients at once, without printing; one that is missing is not exact."""
        return self._count(self._verdicts(answers))

    def _verdicts(self, answers: Mapping[str, object]) -> dict[str, Verdict]:
        return {name: g.verdict(answers.get(name)) for name, g in self.gradients.items()}

    def _count(self, verdicts: Mapping[str, Verdict]) -> Verdict:
        exact = sum(verdict.right for verdict in verdicts.values())
        if exact == len(verdicts):
            return Verdict(True, "right")
        return Verdict(False, f"not yet: {exact} of {len(verdicts)} exact")


def _unfit(mine: Outcome, truth: Outcome) -> str | None:
    """Say why ``mine`` is at no distance from ``truth``, or None if it is at one."""
    if isinstance(mine, str) or isinstance(truth, str):
        return "the answer is not a word"
    reason = misfit(mine, truth)
    if reason and [_without_ones(part) for part in mine] == [part.shape for part in truth]:
        return f"{reason} (drop the axis of length 1)"
    if not reason and any(part.dtype.kind == "c" for part in mine):
        return "complex numbers where real ones are expected"
    return reason


def _without_ones(part: npt.NDArray[Any]) -> tuple[int, ...]:
    return tuple(size for size in part.shape if size != 1)


def _off(some: list[Outcome], others: list[Outcome]) -> float:
    """Return the largest difference over the largest of ``others``; infinite if they do not fit."""
    worst = 0.0
    for mine, theirs in zip(some, others, strict=True):
        if _unfit(mine, theirs):
            return np.inf
        size = max(max_abs(part) for part in theirs)
        difference, _, _ = gap(mine, theirs)
        worst = max(worst, difference / size if size else difference)
    return worst


def _share(off: float) -> str:
    """Write how far off a gradient is, with one digit.

    >>> [_share(off) for off in (2.7e-5, 0.4, 2.0, 31.0)]
    ['3e-5 of', '40 % of', '200 % of', '30 times']
    """
    if off < APPROXIMATE:
        return f"{_short(off)} of"
    rounded = float(f"{off:.1g}")
    return f"{100 * rounded:.0f} % of" if rounded < 10 else f"{rounded:g} times"


def _short(number: float) -> str:
    return f"{number:.0e}".replace("e-0", "e-")
