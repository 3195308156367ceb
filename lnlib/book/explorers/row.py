"""The row machine: eight numbers, and what layer norm makes of them."""

from lnlib.book.explorers.base import Explorer, Number, Numbers


class RowExplorer(Explorer, files="row"):
    """A row of eight numbers, centered, normalized, scaled by one γ and moved by one β.

    Attributes:
        x: the row, eight numbers from −1e7 to 1e7, in units of x.
        eps: from 1e-12 to 1, or 0, in units of x² where it is added to the variance.
        weight: γ of all features, from −5 to 5, no units.
        bias: β of all features, from −8 to 8, no units.
    """

    x = Numbers((2, 4, 4, 4, 5, 5, 7, 9), low=-1e7, high=1e7, step=0.1)
    eps = Number(1e-5, low=1e-12, high=1.0, zero=True)
    weight = Number(1.0, low=-5.0, high=5.0, step=0.1)
    bias = Number(0.0, low=-8.0, high=8.0, step=0.1)
