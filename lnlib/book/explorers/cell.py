"""The explorer of the layer-normalized LSTM: its cell, with a digit that is read row by row."""

from lnlib.book.explorers.base import Choice, Explorer, Number, Whole


class CellExplorer(Explorer, files="cell"):
    """One step of an LSTM that reads a small digit row by row, and the gradient back through rows.

    The state has 16 features and each row ten pixels. Weights are PyTorch's first ones, times
    ``scale``; γ is 1, and first state and β are 0. The first row is row 1::

        explorer = CellExplorer(norm="none", scale=8)

    Attributes:
        scale: what all weights are multiplied by, 0.1 to 100, no units; biases are not.
        norm: "raw" (three norms, and the raw cell goes on), "normalized" (what goes on is the
            normalized cell) or "none" (PyTorch's LSTM).
        row: the row whose step is drawn, 1 to 14.
        eps: from 1e-12 to 1, in units of x² where it is added to the variance.
        blank: rows above the digit, 0 to 5; below it are as many as are left of five.
        bias: "random" as PyTorch starts, within ±1/4, or "zero".
    """

    scale = Number(1.0, low=0.1, high=100.0, unit="no units", symbol="Weights ×")
    norm = Choice("raw", "normalized", "none")
    row = Whole(6, low=1, high=14, things="rows")
    eps = Number(1e-5, low=1e-12, high=1.0)
    blank = Whole(2, low=0, high=5, things="rows", symbol="Blank rows above")
    bias = Choice("random", "zero")
