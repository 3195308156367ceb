"""Chapter 13: experiments with the layer-normalized LSTM."""

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

VARIANCE = 1 / (3 * 128)  # of PyTorch's first values of W_x, with a state of 128


def _why_no_gray(eps: Tensor) -> str | None:
    if not 0 < eps < math.inf:
        return "ε is a positive number"
    full, half = (x / math.sqrt(x**2 + float(eps) / VARIANCE) for x in (1.0, 0.5))
    if half / full > 0.55:
        return f"half the ink counts as {half / full:.2g} of full ink; ε is too small"
    if full < 0.4:
        return f"full ink has the factor {full:.2g} only; ε is too large"
    return None


gray = Search(
    "an ε with which layer norm of one number sees gray",
    wrong=_why_no_gray,
    ask="answer with a number",
    shape=(),
    why=(
        "Your ε is more than three times the variance that it is added to, so the norm has "
        "nearly ceased to be one, and gray stays gray."
    ),
)
