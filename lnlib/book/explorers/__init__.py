"""Explorers: pictures of layer norm that a reader can move, in Jupyter and in the built book.

Each is imported when it is asked for: a chapter reads the files of those that it shows.
"""

import re
from importlib import import_module
from typing import Any

from lnlib.book.explorers.base import Explorer, TraitValueError

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


def __getattr__(name: str) -> Any:
    """Import ``GammaBetaExplorer`` from ``gamma_beta``, and so on."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    words = re.findall("[A-Z][a-z]+", name.removesuffix("Explorer"))
    return getattr(import_module(f"{__name__}.{'_'.join(words).lower()}"), name)
