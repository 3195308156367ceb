"""The numbers of the page on the API, and what computes them."""

import re
import tomllib

import torch

import lnlib
from lnlib.book import data
from lnlib.book.home import ROOT
from lnlib.lstm import triton_steps
from lnlib.triton_kernel import tiles
from ties import Page

page = Page("api")
tie, free = page.tie, page.free

# The LSTM
lstm = lnlib.LayerNormLSTM(3, 8)
zeros = torch.zeros(2, 1, 3)
h, c = lnlib.LayerNormLSTM(3, 8, bias=False)(zeros)[1]
free("eq. # to # of {cite", why="equations of the paper")
tie("a bias of #, states of # and an input of #, each", h.abs().max(), c.abs().max(), zeros.max())


def slope() -> float:
    """Return how much a nudge of the candidates changes the cell where all sums are 0."""

    def cell(nudge: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.tensor(0.0)) * torch.tanh(nudge)

    gate = torch.autograd.functional.jacobian(cell, torch.tensor(0.0)).item()
    shown = torch.sigmoid(torch.tensor(0.0)).item()
    return gate * shown / lstm.eps  # through both norms, each of which divides by √ε


tie(r"multiplies the gradient by $@$ and by weights", slope, epsilon=lstm.eps)
tie("do not feed it rows of #", zeros.max())
tie("for up to # features; it has not been timed", triton_steps.MOST)
ROWS = data.mnist().train_images.shape[1]
tie("digits of # rows train", ROWS)
tie("ten-thousandfold over # rows of zeros", ROWS)

# C++: mean and rstd are float64
tie("besides results, # bytes a row between the passes", 2 * torch.float64.itemsize)

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
tie("Between # and # such rows of $x$ and $dy$", sums(False), longest("backward"))
tie("the mean of a sample of # features", tiles.LONG)
free("from about $@$ on, gives NaN", why="an order of magnitude")
