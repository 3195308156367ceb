"""Explorers: pictures of layer norm that a reader can move, in Jupyter and in the built book."""

from lnlib.book.explorers.axes import AxesExplorer
from lnlib.book.explorers.backward import BackwardExplorer
from lnlib.book.explorers.base import Explorer, TraitValueError
from lnlib.book.explorers.cell import CellExplorer
from lnlib.book.explorers.depth import DepthExplorer
from lnlib.book.explorers.epsilon import EpsilonExplorer
from lnlib.book.explorers.gamma_beta import GammaBetaExplorer
from lnlib.book.explorers.jacobian import JacobianExplorer
from lnlib.book.explorers.row import RowExplorer
from lnlib.book.explorers.sphere import SphereExplorer
from lnlib.book.explorers.tiles import TilesExplorer

__all__ = [
    "AxesExplorer",
    "BackwardExplorer",
    "CellExplorer",
    "DepthExplorer",
    "EpsilonExplorer",
    "Explorer",
    "GammaBetaExplorer",
    "JacobianExplorer",
    "RowExplorer",
    "SphereExplorer",
    "TilesExplorer",
    "TraitValueError",
]
