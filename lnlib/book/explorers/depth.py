"""The depth explorer: what 50 layers make of the size of a signal and of its gradient."""

from math import log10

from lnlib.book.explorers.base import Choice, Explorer, Number, Whole


class DepthExplorer(Explorer, files="depth"):
    """A stack of linear layers with a ReLU each, without a norm, with one before it or after it.

    The norm is layer norm with ε = 0, γ = 1 and β = 0. There are no biases.

    Attributes:
        order: "none", "norm_first" (the norm before the ReLU) or "relu_first".
        scale: the standard deviation of the weights over √(2/H), for H features, from 0.25 to 4.
        depth: how many layers, 1 to 50.
        network: which of four networks with random weights is measured, 1 to 4.
    """

    order = Choice("none", "norm_first", "relu_first")
    scale = Number(  # 60 steps from 1 to 2
        1.2, low=0.25, high=4, per_decade=60 / log10(2), symbol="Weights", unit="times √(2/H)"
    )
    depth = Whole(50, low=1, high=50, things="layers", symbol="Layers")
    network = Whole(1, low=1, high=4, things="networks", symbol="Network")
