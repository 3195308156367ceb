"""The backward pass: the five small steps of layer norm, gone back through arrow by arrow."""

from lnlib.book.explorers.base import Choice, Explorer, Number, Numbers


class BackwardExplorer(Explorer, files="backward"):
    """A row of four features, and its gradient, passed back from y to x arrow by arrow::

        explorer = BackwardExplorer(step=6)
        explorer.forget = "var-centered"

    Attributes:
        x: the row, four numbers from −100 to 100, in units of x.
        weight: γ, four numbers from −5 to 5, no units.
        dy: what arrives at y, four numbers from −10 to 10, in units of the loss.
        eps: from 1e-12 to 1, in units of x².
        step: how many arrows the gradient has passed, 0 to 9; 10 shows the three terms of dx.
        forget: the arrow that carries nothing back, such as "var-centered", or "".
    """

    x = Numbers((1, 3, 3, 9), low=-100, high=100, step=0.1)
    weight = Numbers((1, 2, 1, 1.5), low=-5, high=5, step=0.1)
    dy = Numbers((-2, 2, -1, 2), low=-10, high=10, unit="units of the loss", step=0.1)
    eps = Number(1e-5, low=1e-12, high=1.0)
    step = Choice(*range(11))
    forget = Choice(
        *("", "y-weight", "y-bias", "y-s", "s-var", "var-centered"),
        *("y-centered", "centered-mean", "mean-x", "centered-x"),
    )
