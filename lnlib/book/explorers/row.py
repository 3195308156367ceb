"""The row machine: eight numbers, and what layer norm makes of them."""

from lnlib.book.explorers.base import Explorer, Number, Numbers


class RowExplorer(Explorer, files="row"):
    """A row of eight numbers, centered, normalized, scaled by one γ and moved by one β.

    Setting a trait moves the picture, and moving the picture sets the trait::

        explorer = RowExplorer()
        explorer.x = (0, 0, 0, 0, 0, 0, 0, 8)
        explorer.observe(print, "x")

    Attributes:
        x: the row, eight numbers from −1e7 to 1e7, in units of x.
        eps: from 1e-12 to 1, or 0, in units of x² where it is added to the variance.
        weight: γ of all features, from −5 to 5, no units.
        bias: β of all features, from −8 to 8, no units.

    Raises:
        TraitValueError: a TraitError and a ValueError, if a value is out of range, not a number,
            or not eight of them.
    """

    x = Numbers((2, 4, 4, 4, 5, 5, 7, 9), low=-1e7, high=1e7, unit="units of x")
    eps = Number(1e-5, low=1e-12, high=1.0, zero=True, unit="units of x²")
    weight = Number(1.0, low=-5.0, high=5.0, unit="no units")
    bias = Number(0.0, low=-8.0, high=8.0, unit="no units")
