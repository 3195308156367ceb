"""What the chapters use: checks, exercises, figure style, data and explorers.

Nothing here is imported by ``import lnlib``; it needs the ``book`` extra.

``from lnlib.book import style, data, pictures`` imports those three then, not before: a chapter
without figures does not pay for matplotlib.
"""

from lnlib.book.check import CheckFailed, check, max_abs
from lnlib.book.exercises.base import Exercise, Search, Verdict

__all__ = [
    "CheckFailed",
    "Exercise",
    "Search",
    "Verdict",
    "check",
    "data",
    "max_abs",
    "pictures",
    "style",
]
