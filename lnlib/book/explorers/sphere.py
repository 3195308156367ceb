"""The sphere explorer: layer norm of three features as geometry."""

from lnlib.book.explorers.base import Explorer, Number, Numbers


class SphereExplorer(Explorer, files="sphere"):
    """Three features in space, and where layer norm takes them: a plane, a circle, an ellipse.

    Attributes:
        x: the row, three numbers from -10000 to 10000 in units of x.
        weight: γ, three numbers from -3 to 3, without units.
        bias: β, three numbers from -3 to 3, without units.
        eps: ε, from 1e-12 to 10 in units of x².
        turn: where the picture is seen from, -180 to 180 degrees about (1, 1, 1).
    """

    # 5, 7, 9 of the book's row, less the row's mean: within the picture.
    x = Numbers((0, 2, 4), low=-10000, high=10000, step=0.1, reach=(-6, 6))
    weight = Numbers((1, 1, 1), low=-3, high=3, step=0.1)
    bias = Numbers((0, 0, 0), low=-3, high=3, step=0.1)
    eps = Number(1e-5, low=1e-12, high=10)
    turn = Number(-105, low=-180, high=180, step=1, round=True, unit="degrees", title="Turn")
