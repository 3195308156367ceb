"""The numbers of the page on what is inside lnlib, and what computes them."""

import re
import tomllib

import torch

from lnlib import in_graph
from lnlib.book.home import ROOT
from lnlib.triton_kernel import tiles
from ties import Page

page = Page("internals")
tie, free = page.tie, page.free

# Doors
tie('with "auto" below # values the formula', in_graph.WORTH_AN_OPERATOR)

# C++: mean, its rest and rstd are float64
tie("besides results, # bytes a row between the passes", 3 * torch.float64.itemsize)

# Triton
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
LEAST = float(PROJECT["optional-dependencies"]["triton"][0].partition(">=")[2][:3])
PINS = (ROOT / "requirements.txt").read_text(encoding="utf8")
PINNED = float(re.findall(r"^triton==(\d+\.\d+)", PINS, re.MULTILINE)[0])
tie("| needs | Triton # or #, which PyTorch", LEAST, PINNED)
tie("with Triton # | | on a CPU", LEAST)
free("NumPy, older than # with", why="a version")
AT_ONCE = tiles.unit(0, 1)  # bytes


def longest(direction: str, odd: bool = False) -> int:
    """Return the most features that a tile holds, of powers of 2 or of odd numbers below them."""
    tile = getattr(tiles, direction)
    return max(H for H in (2**n for n in range(20)) if tile(H - odd, 4))


def sums(is_aligned: bool) -> int:
    """Return the most features whose program keeps sums too."""
    fits = (H for H in (2**n for n in range(14)) if tiles.backward(H, 4))
    return max(H for H in fits if tiles.holds_sums(tiles.backward(H, 4), 4, is_aligned))


tie(
    "for rows of up to # features forward, or # if their number is no multiple of #, and of up to "
    "# backward, or # where rows do not all start at multiples of # bytes",
    *(longest("forward"), longest("forward", odd=True), AT_ONCE // 4, sums(True), sums(False)),
    AT_ONCE,
)
SAMPLES = [tiles.long(4, is_aligned).features for is_aligned in (True, False)]
tie("a sample of # features, or of # where they do not start", *SAMPLES)
tie("start at multiples of # bytes (half of each in float64), which is", AT_ONCE)
free("from about $@$ on, gives NaN", why="an order of magnitude")
