"""Explorers: pictures of layer norm that a reader can move, in Jupyter and in the built book."""

from lnlib.book.explorers.base import Explorer, TraitValueError
from lnlib.book.explorers.epsilon import EpsilonExplorer

__all__ = ["EpsilonExplorer", "Explorer", "TraitValueError"]
