"""Exercises that answer back: right, or a hint that depends on the mistake."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lnlib.book.check import to_array
from lnlib.book.exercises.answer import (
    NotAnAnswer,
    Outcome,
    article,
    as_asked,
    copy_of,
    counted,
    digits_asked,
    form,
    gap,
    is_empty,
    misfit,
    place_in,
    read,
    show,
)

__all__ = ["Exercise", "Search", "Verdict"]


@dataclass(frozen=True)
class Verdict:
    """What an exercise says about an answer."""

    right: bool
    message: str


class Question(ABC):
    """What is asked in a few words, what to do, and why the right answer is right."""

    def __init__(self, name: str, ask: str, why: str) -> None:
        self.name = name
        self._ask = ask
        self._why = why

    def __call__(self, answer: object) -> None:
        """Print what there is to say about ``answer``: nothing, before one began.

        Why it is right, the page says alone: here it would stand under the solution too, whose
        output JupyterLab unfolds as all cells run.
        """
        message = self.verdict(answer).message
        if not message.startswith("not answered yet"):
            print(message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def verdict(self, answer: object) -> Verdict:
        """Judge ``answer`` without printing."""


class Exercise(Question):
    """A question with its answer, and a hint for each mistake that people make.

    An answer is right if it agrees with ``truth`` on every input. If it agrees with one of the
    ``slips`` on every input instead, that slip's hint is shown. Nothing that a reader hands in
    raises: also an exception inside their function becomes a hint.

    >>> spread = Exercise(
    ...     "the variance of a row",
    ...     truth=lambda x: ((x - x.mean()) ** 2).mean(),
    ...     inputs=[(np.array([1.0, 2.0, 6.0]),)],
    ...     slips={"this is the standard deviation; the variance is its square": np.std},
    ... )
    >>> spread(np.var)
    right
    >>> spread(np.std)
    not yet: this is the standard deviation; the variance is its square
    >>> spread(...)

    Args:
        name: what is asked, in a few words.
        truth: the right answer: a function, or a number, array, bool or word.
        inputs: for a function, the argument tuples that it is tried on; each call gets a copy.
        slips: hint -> the wrong function or value that earns it.
        within: the largest difference allowed in any element.
        ask: what to do, for those who hand in nothing.
        why: a sentence that follows on "right" in the page, with a link to a state of its explorer.

    Raises:
        TypeError, ValueError: the exercise itself is wrong. A slip that is right, or that the
            inputs do not tell from another slip, is found here and not by a reader.
    """

    def __init__(
        self,
        name: str,
        truth: object,
        inputs: Sequence[tuple[Any, ...]] = (),
        slips: Mapping[str, object] | None = None,
        within: float = 1e-6,
        ask: str = "",
        why: str = "",
    ) -> None:
        super().__init__(name, ask, why)
        self._takes_function = callable(truth)
        self._inputs = [copy_of(case) for case in inputs]
        self._within = within
        if not within >= 0:
            raise ValueError(f"{name}: within={within!r} is not a tolerance")
        if self._takes_function != bool(self._inputs):
            raise ValueError(
                f"{name}: a function needs inputs to be tried on, and a value has none"
            )
        for case in self._inputs:
            if not isinstance(case, tuple):
                raise TypeError(f"{name}: an input is a tuple of arguments, not {case!r}")

        self._truth = self._outcomes_of_author("truth", truth)
        if not any(isinstance(t, str) or any(part.size for part in t) for t in self._truth):
            raise ValueError(f"{name}: the truth has no elements, so every answer would be right")
        self._slips: dict[str, list[Outcome]] = {}
        for hint, wrong in (slips or {}).items():
            outcomes = self._outcomes_of_author(hint, wrong)
            if self._agree(outcomes, self._truth):
                raise ValueError(f"{name}: a slip is right on every input: {hint!r}")
            for other, theirs in self._slips.items():
                if self._agree(outcomes, theirs):
                    raise ValueError(f"{name}: no input tells {hint!r} from {other!r}")
            self._slips[hint] = outcomes
        self._ask = ask or self._default_ask()

    check = Question.__call__

    def verdict(self, answer: object) -> Verdict:
        """Judge ``answer`` without printing: for tests, and for the cell that shows a solution."""
        if answer is None or answer is ... or (isinstance(answer, str) and not answer.strip()):
            return Verdict(False, f"not answered yet: {self._ask}")
        try:
            given = self._outcomes(answer)
        except NotImplementedError:
            return Verdict(False, f"not answered yet: {self._ask}")
        except NotAnAnswer as reason:
            return Verdict(False, str(reason))
        return self._judge([as_asked(*both) for both in zip(given, self._truth, strict=True)])

    def _judge(self, given: list[Outcome]) -> Verdict:
        if self._agree(given, self._truth):
            return Verdict(True, "right")
        hint = self._slip(given)
        return Verdict(False, f"not yet: {hint or self._difference(given)}")

    def _slip(self, given: list[Outcome]) -> str | None:
        """Return the hint of the slip that gives just these outcomes, if one does."""
        for hint, outcomes in self._slips.items():
            if self._agree(given, outcomes):
                return hint
        return None

    def _outcomes(self, answer: object) -> list[Outcome]:
        """Run the answer on copies of all inputs, or read it as the one outcome of a value."""
        if not self._takes_function:
            if callable(answer):
                raise NotAnAnswer("not yet: answer with the value itself, not with a function")
            return [read(answer)]
        if not callable(answer):
            raise NotAnAnswer(
                f"not yet: answer with the function itself, not with what it gives"
                f" ({article(type(answer).__name__)})"
            )
        function = self._function(answer)
        outcomes = []
        for number, case in enumerate(self._inputs):
            where = self._where(number)
            try:
                result = function(*copy_of(case))
            except NotImplementedError:
                raise
            except Exception as error:
                text = " ".join(f"{type(error).__name__}: {error}".split())
                raise NotAnAnswer(
                    f"not yet: {where} your function stops with {text[:200]}"
                ) from None
            if result is None or result is ...:
                if is_empty(answer):
                    raise NotImplementedError
                raise NotAnAnswer(f"not yet: your function gives {result}; is a return missing?")
            try:
                outcomes.append(read(result))
            except NotAnAnswer as reason:
                raise NotAnAnswer(f"{reason} {where}") from None
        return outcomes

    def _function(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``answer`` as a function of the arguments of an input, in their order."""
        return answer

    def _outcomes_of_author(self, role: str, answer: object) -> list[Outcome]:
        if callable(answer) != self._takes_function:
            raise TypeError(
                f"{self.name}: truth and slips are all functions or all values: {role!r}"
            )
        try:
            return self._outcomes(answer)
        except (NotAnAnswer, NotImplementedError) as error:
            raise ValueError(f"{self.name}: {role!r} is no answer: {error}") from error

    def _agree(self, some: list[Outcome], others: list[Outcome]) -> bool:
        return all(
            misfit(a, b) is None and gap(a, b)[0] <= self._within
            for a, b in zip(some, others, strict=True)
        )

    def _difference(self, given: list[Outcome]) -> str:
        """Say how the first outcome that is off differs from the truth, without telling it."""
        for number, (mine, truth) in enumerate(zip(given, self._truth, strict=True)):
            where = f" {self._where(number)}" if self._takes_function else ""
            reason = misfit(mine, truth)
            if reason:
                return reason + where
            if isinstance(mine, str):
                words = sorted({str(w) for [w] in [self._truth, *self._slips.values()]})
                known = f"; choose from {', '.join(map(repr, words))}" if len(words) > 1 else ""
                return f"{mine[:40]!r} is not it{where}{known}"
            is_real = mine[0].dtype.kind in "iuf"
            if not self._takes_function and is_real:
                digits = digits_asked(mine[0], truth[0], self._within)  # type: ignore[arg-type]
                if digits:
                    return f"nearly; {counted(digits)} digits, please"
            distance, part, place = gap(mine, truth)
            if distance <= self._within:
                continue
            at = place_in(place, mine[part].shape)
            of = f" in result {part + 1} of {len(mine)}" if len(mine) > 1 else ""
            a, b = mine[part][place], truth[part][place]  # type: ignore[index]
            if np.isnan(a) or np.isnan(b):
                return (
                    f"{'NaN' if np.isnan(a) else 'a number'}{at}{of}{where}, where it should not be"
                )
            if mine[part].dtype.kind == "b":
                return f"{bool(a)}{at}{of}{where} is wrong"
            is_complex = mine[part].dtype.kind == "c"
            measured = (self._takes_function or place) and np.isfinite(distance)
            if measured or is_complex:
                return f"off by about {distance:.1g}{at}{of}{where}"
            if np.sign(a) * np.sign(b) < 0 and not place:
                return f"the answer is {'negative' if a > b else 'positive'}{of}{where}"
            return f"{'too large' if a > b else 'too small'}{at}{of}{where}"
        raise AssertionError("called on a right answer")

    def _where(self, number: int) -> str:
        shown = ", ".join(show(argument) for argument in self._inputs[number])
        count = f" {number + 1} of {len(self._inputs)}" if len(self._inputs) > 1 else ""
        return f"on input{count} ({shown})"

    def _default_ask(self) -> str:
        if self._takes_function:
            count = len(self._inputs[0])
            return f"write a function of {count} argument{'s' * (count != 1)}"
        [truth] = self._truth
        if isinstance(truth, str):
            return "answer with a word in quotes"
        kind = "True or False" if truth[0].dtype.kind == "b" else "a number"
        return f"answer with {kind if len(truth) == 1 and not truth[0].ndim else 'the values'}"


class Search(Question):
    """A question with many right answers: find numbers that have a property.

    >>> def why_not(numbers):
    ...     return None if numbers.sum() == 0 else "they do not sum to zero"
    >>> find = Search("numbers that sum to zero", wrong=why_not, ask="answer with a list")
    >>> find([1, 2, -3])
    right
    >>> find([1, 2])
    not yet: they do not sum to zero

    Args:
        name: what is asked, in a few words.
        wrong: takes the answer as a float64 tensor and returns a hint, or None if it is right.
        ask: what to do, for those who hand in nothing.
        shape: of the answer, () for one number; None leaves it open.
        why: as for an `Exercise`.
    """

    def __init__(
        self,
        name: str,
        wrong: Callable[[Tensor], str | None],
        ask: str,
        shape: tuple[int, ...] | None = None,
        why: str = "",
    ) -> None:
        super().__init__(name, ask, why)
        self._wrong = wrong
        self._shape = shape

    def verdict(self, answer: object) -> Verdict:
        """Judge ``answer`` without printing."""
        if answer is None or answer is ...:
            return Verdict(False, f"not answered yet: {self._ask}")
        try:
            array = to_array(answer).astype(np.float64, casting="same_kind")  # not complex numbers
            numbers = torch.as_tensor(array)
        except (TypeError, ValueError):
            return Verdict(False, f"not yet: {self._ask}")
        if self._shape not in (None, array.shape):
            many = f"{counted(*self._shape)} numbers" if self._shape else "one number"
            return Verdict(False, f"not yet: {many}, please; you gave {form(array.shape)}")
        hint = self._wrong(numbers)
        return Verdict(True, "right") if hint is None else Verdict(False, f"not yet: {hint}")
