"""Chapter 12: in a trained model."""

from __future__ import annotations

from lnlib.book.exercises.base import Exercise

ONE, OTHERS, FEATURES = 20_000.0, 100.0, 576
_SQUARES = ONE**2 + (FEATURES - 1) * OTHERS**2
_SIZE = (_SQUARES / FEATURES) ** 0.5

beside = Exercise(
    "what RMS norm makes of one number and of the others",
    truth=[ONE / _SIZE, OTHERS / _SIZE],
    slips={
        "that divides by the length; RMS norm divides by the root of the mean square": [
            *(ONE / _SQUARES**0.5, OTHERS / _SQUARES**0.5),
        ],
        "that is the bound, which one number alone would reach": [
            *(FEATURES**0.5, OTHERS / ONE * FEATURES**0.5),
        ],
        "the root of the mean square, not the mean of the sizes": [
            ONE / ((ONE + (FEATURES - 1) * OTHERS) / FEATURES),
            OTHERS / ((ONE + (FEATURES - 1) * OTHERS) / FEATURES),
        ],
    },
    within=0.0005,
    ask="answer with two numbers: the one, and one of the others",
    why="One number that is far longer than the rest decides by what the whole row is divided.",
)

number = Exercise(
    "which of four changes of the number cost more than one nat",
    truth=[True, True, True, False],
    slips={
        "in an ordinary row feature 507 is not what the row is divided by": [True] * 4,
        "the norm divides by the size, whatever the sign; a tenth of it is too little": [
            *(True, False, True, False),
        ],
        "no later block expects the number at 247, where γ does not silence it either": [
            *(True, True, False, False),
        ],
        "a tenth of the number keeps the row far less quiet": [False, False, True, False],
    },
    ask="answer with four times True or False",
    why="The number must be far larger than the rest of its row, and stand where blocks expect it.",
)

epsilon = Exercise(
    "which of three changes of ε cost more than 0.1 nats",
    truth=[True, False, False],
    slips={
        "compare ε with the square of the size of the rows: 0.12 in block 0, and over 1.6 later": [
            *(True, True, False),
        ],
        "0.01 is not small beside 0.12²": [False, False, False],
        "0.001 is small beside 0.12²": [True, False, True],
        "in block 0 rows are small, and later they are not": [False, True, False],
    },
    ask="answer with three times True or False",
    why="ε matters where it is not small beside the mean square of a row.",
)
