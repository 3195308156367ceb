"""Chapter 11: what is claimed of layer norm."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lnlib.book.exercises.base import Exercise, Search

# Percent right after three epochs, by seed.
OURS = torch.tensor([94.9, 94.6, 95.9, 96.1, 95.15], dtype=torch.float64)
PLAIN = torch.tensor([93.6, 94.3, 94.75, 95.15, 93.95], dtype=torch.float64)
STUDENTS_T = 2.776  # of five values
_POINTS = OURS - PLAIN
_MEAN = float(_POINTS.mean())
_ERROR = float(_POINTS.std()) / math.sqrt(5)

paired_lead = Exercise(
    "the lead of layer norm, seed by seed, and half of its interval",
    truth=[_MEAN, STUDENTS_T * _ERROR],
    slips={
        "that is the standard error; the interval is wider": [_MEAN, _ERROR],
        "too wide: take the differences seed by seed, and divide their spread by √5": [
            *(_MEAN, STUDENTS_T * _ERROR * math.sqrt(5)),
        ],
        "the squares are divided by n − 1, as five seeds are a sample": [
            *(_MEAN, STUDENTS_T * _ERROR * math.sqrt(4 / 5)),
        ],
        "1.96 is for many values; five have 2.776": [_MEAN, 1.96 * _ERROR],
        "layer norm minus LSTM: the sign": [-_MEAN, STUDENTS_T * _ERROR],
    },
    within=0.006,
    ask="answer with two numbers: the mean difference, half of its interval",
    why=(
        "A seed that is lucky for one network is lucky for the other, so the differences vary "
        "less than the results, and their interval does not reach 0."
    ),
)

SHARE, KNOWN_TO = 0.965, 0.002
_DIGITS = (1.96 / KNOWN_TO) ** 2 * SHARE * (1 - SHARE)

test_digits = Exercise(
    "how many test digits tell an accuracy to ±0.2 points",
    truth=_DIGITS,
    slips={
        "four times as narrow takes sixteen times as many, not four": 8000.0,
        "that is one standard error; ±0.2 points are to be 1.96 of them": _DIGITS / 1.96**2,
        "±0.2 points are 0.002 of a share": _DIGITS / 100**2,
    },
    within=440.0,
    ask="answer with a number",
    why=(
        "A standard error falls with the root of the number of digits, so a quarter of the "
        "interval takes sixteen times as many."
    ),
)

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
    "a matrix before a norm after one step",
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
