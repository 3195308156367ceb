"""The Jacobian of one row: the three paths from each feature to each output."""

from lnlib.book.explorers.base import Choice, Explorer, Number, Numbers


class JacobianExplorer(Explorer, files="jacobian"):
    """The Jacobian of a row of four features, and each of its numbers as the sum of three paths.

    Attributes:
        x: the row, four numbers from 0 to 10, in units of x.
        weight: γ, four numbers from −2 to 2, no units.
        eps: ε, from 1e-12 to 100, or 0, in units of x².
        output: the k of ∂y_k/∂x_i, 1 to 4.
        input: the i of ∂y_k/∂x_i, 1 to 4.
        step: 0 counts the direct path alone, 1 also that through μ, 2 also that through s.
    """

    x = Numbers((1, 1, 1, 5), low=0, high=10, step=0.1)
    weight = Numbers((1, 1, 1, 1), low=-2, high=2, step=0.1)
    # What is smaller than a hundredth changes nothing that is seen.
    eps = Number(0.0, low=1e-12, high=100.0, zero=True, reach=(0.01, 100.0))
    output = Choice(4, 1, 2, 3)
    input = Choice(4, 1, 2, 3)
    step = Choice(2, 1, 0)
