"""The axes explorer: which values share a mean and a variance, and whose outputs a change moves."""

from lnlib.book.explorers.base import Choice, Explorer, Number


class AxesExplorer(Explorer, files="axes"):
    """A block of 3 samples, 4 channels and 5 positions; six norms; one sample that you change.

    Choosing a cell frames the values that share its mean and standard deviation, and the outputs
    that the change moves are marked::

        explorer = AxesExplorer(norm="layer_sample")
        explorer.changed, explorer.change = 3, -2

    Attributes:
        norm: "batch" (in training), "layer_sample" (over channels and positions of a sample, as in
            the paper), "layer_position" (over the channels at each position, as in a Transformer),
            "instance", "group" (two groups of channels) or "rms" (as "layer_position", but without
            subtracting the mean). ε is 1e-5, γ is 1, β is 0.
        sample: of the selected cell, 1 to 3.
        channel: of the selected cell, 1 to 4.
        position: of the selected cell, 1 to 5.
        changed: the sample that is changed, 1 to 3; at first 2.
        change: how often a fixed pattern is added to it, from -8 to 8, in units of x; at first 4.
    """

    norm = Choice("batch", "layer_sample", "layer_position", "instance", "group", "rms")
    sample = Choice(1, 2, 3)
    channel = Choice(1, 2, 3, 4)
    position = Choice(1, 2, 3, 4, 5)
    changed = Choice(2, 1, 3)
    change = Number(4.0, low=-8, high=8, step=0.5, symbol="Change", unit="times a fixed pattern")
