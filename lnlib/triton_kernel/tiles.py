"""How rows are cut into tiles: plain Python, to be read without a GPU and without Triton.

The shape of a tile follows from the length of a row, H, and from the type of its statistics. The
number of rows has no say in it, so a row gets the same bits whatever batch it comes in.
"""

from typing import NamedTuple

THREADS = 32  # to a warp, those that step together; AMD's warps have 64, with half as much each
# The most numbers that a program holds of each operand, float32 or half as many float64. Found with
# the compiler's report: twice as many spill from the registers to memory.
FORWARD = 16384
BACKWARD = 8192
LONG = 4096  # what a program takes at a time of a row that is longer than that
# Rows and warps of the backward pass for so many features. More rows would leave registers for
# fewer programs than `programs` counts on.
NARROW = {128: (4, 2), 256: (4, 2), 512: (2, 2)}
# Of a row of up to so many features, a thread may hold a single number. If a compiler adds its
# product to those of other threads unrounded, threads that share the row disagree about the sum.
LONE = 256


class Tile(NamedTuple):
    """What a program holds at a time: ``rows`` × ``features`` numbers, shared by ``warps``."""

    rows: int
    features: int
    warps: int


def forward(H: int, itemsize: int) -> Tile | None:
    """Return the tile of the forward pass, or None if a row is too long to be held.

    ``itemsize`` is that of the statistics: 4 or 8 bytes.
    """
    return _tile(H, itemsize, least=1024, most=FORWARD, each=32, fewest=2)


def backward(H: int, itemsize: int) -> Tile | None:
    """Return the tile of the backward pass, or None if a row is too long to be held."""
    least = 1024 if H % 4 and H <= 64 else 2048  # where each address takes registers of its own
    tile = _tile(H, itemsize, least, most=BACKWARD, each=16, fewest=4)
    if itemsize == 4 and tile is not None and tile.features in NARROW:
        rows, warps = NARROW[tile.features]
        return Tile(rows, tile.features, warps)
    return tile


def long(itemsize: int, is_aligned: bool) -> Tile:
    """Return the tile in which a program walks along a row that is too long to be held."""
    # Loads of single numbers want few of them in a thread, and many programs.
    return Tile(1, LONG * 4 // itemsize, 8) if is_aligned else Tile(1, LONG // 2 // itemsize, 2)


def columns(itemsize: int, is_aligned: bool) -> Tile:
    """Return the tile of a program that goes down the rows, for some features of a long row."""
    return Tile(rows=4 if is_aligned else 2, features=LONG // itemsize, warps=8)


def partials(itemsize: int, columns: int) -> Tile:
    """Return the tile of a program that sums the sums of other programs, many for one column."""
    rows, features = (512, 32) if columns == 1 else (64, 256)
    return Tile(rows // itemsize, features, warps=8)


def registers(tile: Tile, itemsize: int) -> int | None:
    """Return how many registers a thread of the forward pass may have at most; None for any number.

    The limit lets two programs of 16 warps share a multiprocessor: one computes while one loads.
    """
    return 64 if tile.warps == 16 and itemsize == 4 else None


def programs(B: int, tile: Tile, multiprocessors: int, columns: int = 1) -> int:
    """Return how many programs share ``B`` rows when each keeps sums over its own.

    As many as the GPU runs at once, ``columns`` beside each other, but one to about 32 rows, and no
    fewer than multiprocessors: a program's sums are written and read again, 16 bytes a feature for
    both parameters, which is to stay small beside x, dy and dx where there are many rows.
    """
    at_once = multiprocessors * (16 // tile.warps) // columns
    fewest = max(1, multiprocessors // columns)
    return min(-(-B // tile.rows), max(fewest, min(at_once, B // 32)))


def unit(stride: int, itemsize: int) -> int:
    """Return the largest power of 2 that divides ``stride``, up to 16 bytes, in numbers.

    A thread loads 16 bytes at once where the compiler can tell that rows start at multiples of 16.
    """
    most = 16 // itemsize
    return (stride | most) & -(stride | most)


def _tile(H: int, itemsize: int, least: int, most: int, each: int, fewest: int) -> Tile | None:
    # A thread has ``each`` numbers: enough loads on their way at once to hide how long one takes,
    # and still room for several programs beside each other. Of float64 it has half as many or less.
    scale = itemsize // 4
    features = 1 << max(H - 1, 0).bit_length()
    if features * scale > most:
        return None
    rows = min(128, max(1, least // scale**2 // features))
    warps = scale * max(fewest, rows * features // (each * THREADS))
    return Tile(rows, features, min(16, warps))
