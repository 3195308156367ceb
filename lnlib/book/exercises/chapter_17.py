"""Chapter 17: placing a norm today."""

from lnlib.book.exercises.base import Exercise

fixed = Exercise(
    "which blocks stay if the last matrix of the part is multiplied",
    truth=[False, False, True, True],
    slips={
        "a norm of the sum sees x as well, and the factor changes its share": [
            *(True, False, True, True),
        ],
        "a norm in front of the part does not see what the part gives": [
            *(False, True, False, True),
        ],
        "the sandwich has a norm behind the part, too": [False, False, True, False],
        "it is the other way round: the factor must meet a norm that sees it alone": [
            *(True, True, False, False),
        ],
    },
    ask="answer with four times True or False: post, pre, behind, sandwich",
    why="A norm removes the factor only if it sees f(x) alone, and in the last two blocks it does.",
)

size = Exercise(
    "the size of the stream after 48 parts",
    truth=7.0,
    slips={
        "that is the mean square after 48 parts; the size is its root": 49.0,
        "the first row counts as well": 48**0.5,
        "the first row counts as well, and the size is the root of the mean square": 48.0,
        "that is the size of what one part adds; the stream is the sum": 1.0,
    },
    within=0.05,
    ask="answer with a number",
    why="Rows that are orthogonal add their mean squares, and the root of 1 + 48 is 7.",
)
