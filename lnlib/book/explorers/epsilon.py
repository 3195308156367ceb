"""The ε explorer: how close together the values of a row may lie before ε decides the output."""

from lnlib.book.explorers.base import Explorer, Number


class EpsilonExplorer(Explorer, files="epsilon"):
    """The book's row with mean 0 and a spread you choose, normalized three ways.

    Attributes:
     eps: from 1e-12 to 1, or 0, in units of x² where it is added to the variance.
     spread: σ, the biased standard deviation of the row, from 1e-7 to 10 in units of x; or 0,
         a constant row.
    """

    eps = Number(1e-8, low=1e-12, high=1.0, zero=True)
    spread = Number(
        3e-5, low=1e-7, high=10, zero=True, unit="units of x", title="Spread", symbol="σ"
    )
