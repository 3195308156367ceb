"""The tile explorer: programs, their tiles of rows, and the partial sums of dγ, step by step."""

from lnlib.book.explorers.base import Choice, Explorer, Whole


class TilesExplorer(Explorer, files="tiles"):
    """A small matrix cut into tiles; a kernel that goes through them, one step at a time.

    A toy of lnlib's Triton kernels, whose array and tile are dragged by their corners. In the book
    it opens on the forward kernel; the second stage of the backward kernel, say, is::

        explorer = TilesExplorer(kernel="backward", rows=11, programs=3, step=6)

    γ is 1, β is 0 and ε is 1e-5. Bytes of γ, β and the statistics are not counted. dβ, which sums
    dy as dγ sums x̂·dy, is left out, and so are the kernels that differentiate long rows.

    Attributes:
        kernel: "forward" (a program for each tile of whole rows), "backward" (each program has
            every ``programs``-th tile, and keeps a partial sum of dγ over its rows) or "long" (a
            program for each row, which takes a tile of it at a time, there and back).
        rows: of the matrix, 1 to 12.
        features: of the matrix, 1 to 16.
        programs: how many run at a time, 1 to 3; in the long kernel, all do.
        tile: its rows, 1, 2 or 4; in the long kernel, 1.
        lanes: of a tile, 2, 4, 8 or 16; where whole rows are held, at least as many as hold one.
        padding: "masked", or "counted" to let the forward kernel's variance count padded lanes.
        step: 0, before anything is read, to 16; a step beyond the last is the last.
    """

    kernel = Choice("forward", "backward", "long")
    rows = Whole(7, low=1, high=12, things="rows", title="Rows", symbol="B")
    features = Whole(6, low=1, high=16, things="features", title="Features", symbol="H")
    programs = Whole(2, low=1, high=3, things="programs")
    tile = Choice(2, 1, 4)
    lanes = Choice(8, 2, 4, 16)
    padding = Choice("masked", "counted")
    step = Whole(1, low=0, high=16, things="steps")
