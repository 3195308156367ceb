"""The γ and β explorer: whether γ is the standard deviation of y, and β its mean."""

from lnlib.book.explorers.base import Explorer, Number, Numbers


class GammaBetaExplorer(Explorer, files="gamma_beta"):
    """A row of eight features, normalized, then scaled by γ and moved by β.

    Attributes:
        x: the row, eight numbers from 0 to 10, in units of x.
        weight: γ, eight numbers from −5 to 5, no units.
        bias: β, eight numbers from −8 to 8, no units.
        eps: from 1e-12 to 1, in units of x² where it is added to the variance. It has no handle:
            on all but a narrow row it moves little that one could see.
    """

    x = Numbers((2, 4, 4, 4, 5, 5, 7, 9), low=0.0, high=10.0, step=0.1)
    weight = Numbers((1, 1, 1, 1, 1, 1, 1, 3), low=-5.0, high=5.0, step=0.05)
    bias = Numbers((0,) * 8, low=-8.0, high=8.0, step=0.1)
    eps = Number(1e-5, low=1e-12, high=1.0)
