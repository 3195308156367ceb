"""The γ and β explorer: whether γ is the standard deviation of y, and β its mean."""

from lnlib.book.explorers.base import Choice, Explorer, Number, Numbers


class GammaBetaExplorer(Explorer, files="gamma_beta"):
    """A row of eight features, normalized, then scaled by γ and moved by β.

    Attributes:
        row: "book" (2, 4, 4, 4, 5, 5, 7, 9), "wide", "narrow", "two groups" or "constant".
        weight: γ, eight numbers from −5 to 5, no units.
        bias: β, eight numbers from −8 to 8, no units.
        eps: from 1e-12 to 1, in units of x² where it is added to the variance. It has no slider:
            on all but the narrow row it moves little that one could see.
        feature: the one that the controls of γ and β act on, 1 to 8; or 0, all of them.
    """

    row = Choice("book", "wide", "narrow", "two groups", "constant")
    weight = Numbers((1,) * 8, low=-5.0, high=5.0, step=0.05, title="")
    bias = Numbers((0,) * 8, low=-8.0, high=8.0, step=0.1, title="")
    eps = Number(1e-5, low=1e-12, high=1.0)
    feature = Choice(*range(9))
