"""Chapter 14: what the papers claim."""

from __future__ import annotations

from torch import Tensor

from lnlib.book.exercises.base import Exercise, Search

_ONE_STEP = (  # what is asked, the answer, and the slips of each, in the order of the question
    (
        "‖W‖",
        5.0,
        {
            7.0: "the step is at a right angle to W; lengths do not add, their squares do",
            73**0.5: "the step has the length η‖dW‖, not ‖dW‖",
        },
    ),
    (
        "‖dW‖",
        4.8,
        {
            8.0: "the gradient has changed too: it depends on the length of W",
            40 / 3: "a longer W has a shorter gradient",
            2.88: "the gradient shrinks as 1/‖W‖, not as its square",
        },
    ),
    (
        "the factor",
        0.36,
        {
            1.0: "η has stayed, but the effective rate is η/‖W‖²",
            0.6: "the effective rate depends on the square of ‖W‖",
            25 / 9: "the effective rate falls as W grows",
        },
    ),
)


def _why_not_one_step(values: Tensor) -> str | None:
    for value, (name, truth, slips) in zip(values.tolist(), _ONE_STEP, strict=True):
        if not abs(value - truth) <= 0.01:
            near = [hint for slip, hint in slips.items() if abs(value - slip) <= 0.01]
            return f"{name}: {near[0] if near else 'too large' if value > truth else 'too small'}"
    return None


one_step = Search(
    "a matrix in front of a norm after one step",
    wrong=_why_not_one_step,
    ask="answer with three numbers: ‖W‖, ‖dW‖ and a factor",
    shape=(3,),
    why=(
        "The step is at a right angle to W, so 3, 4 and 5 are the sides of a triangle; the "
        "gradient falls as 1/‖W‖, and the effective rate as its square."
    ),
)


def _balance(lr: float, decay: float, c: float) -> float:
    return float((1 - (1 - lr * decay) ** 2) ** 0.5 / c)


balance = Exercise(
    "the effective learning rate where brake and decay balance",
    truth=_balance,
    inputs=[(0.3, 0.02, 1.7), (0.5, 0.1, 0.4), (2.0, 0.25, 3.0)],
    slips={
        "that is right for a small ηλ; keep the square of it too": lambda lr, decay, c: (
            (2 * lr * decay) ** 0.5 / c
        ),
        "that is ‖W‖²; divide η by it": lambda lr, decay, c: lr / _balance(lr, decay, c),
        "that is ‖W‖; the effective rate is η/‖W‖²": lambda lr, decay, c: (
            (lr / _balance(lr, decay, c)) ** 0.5
        ),
        "that is its square; take the root": lambda lr, decay, c: _balance(lr, decay, c) ** 2,
        "‖W‖² shrinks by the square of 1 − ηλ": lambda lr, decay, c: (lr * decay) ** 0.5 / c,
        "c is the length of the gradient at the direction U; divide by it": lambda lr, decay, c: (
            _balance(lr, decay, c) * c**2
        ),
        "c is missing": lambda lr, decay, c: _balance(lr, decay, 1.0),
    },
    ask="write a function of lr, decay and c",
)
