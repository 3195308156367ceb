"""The numbers of notation and glossary, and what computes them."""

import re

import torch

import lnlib
from lnlib import formula
from lnlib.book.home import ROOT
from lnlib.triton_kernel import tiles
from ties import Page

page, first = Page("notation"), Page("01_formula")
tie, free = page.tie, page.free

ROW = [2.0, 4, 4, 4, 5, 5, 7, 9]
x = torch.tensor(ROW).double()
EPS = lnlib.LayerNorm(8).eps
terms = formula.terms(x, eps=EPS)
NAMES = {"sigma": terms.std.item(), "epsilon": EPS, "mu": terms.mean.item(), "x": 9.0, "H": 8.0}
fresh = lnlib.LayerNorm(8)
START, SHIFT = fresh.weight[0].item(), fresh.bias[0].item()
VARIANCE = terms.var.item()

# Symbols of the whole book
tie("| $@$ | `var` | one a row |", VARIANCE, **NAMES)
tie("the mean of $@$ |", (x[-1] - x.mean()) ** 2, **NAMES)
tie("added to $@$, so in units of $@$", VARIANCE, x[-1] ** 2, **NAMES)
tie("| `denominator` | one a row | $@$, what", terms.denominator, **NAMES)
tie("| $@$ | `rstd` |", terms.rstd, s=terms.denominator.item())
tie("learned scale, # at the start", START)
tie("learned shift, # at the start", SHIFT)
tie(r"| $\mathbf #,\ I$", torch.ones(3)[0])
tie("| # where $k=i$, else # |", torch.eye(3)[1, 1], torch.eye(3)[0, 1])

# Letters of one chapter
tie("half the distance from # to the next number: $@$", 1.0, torch.finfo(torch.float64).eps / 2)
BASE = tiles.forward(769, 4).features ** (1 / 10)  # of 769 features a tile has 1,024 lanes
tie("lanes of a tile in one row, a power of #", BASE)
tie(r"| $\tilde@$ |", VARIANCE, **NAMES)
tie(r"the root of $\overline{@}+\varepsilon$, what", x[-1] ** 2, **NAMES)

# Glossary
divisor = ((x - x.mean()).square().sum() / x.var()).item()
tie("The unbiased variance divides by $@$", divisor, **NAMES)
tie("Its variance is # and its output", x.new_full((8,), 3.0).var(correction=0))
tie('"Under the root" is $@$, as', terms.denominator, **NAMES)


def entry(place: int) -> float:
    """Return a value of the example row as chapter 01 has it."""
    written = [str(value).removesuffix(".0") for value in ROW]
    written[0] = "2.0"
    written[place] = "#"
    return first.code(f"book_row = torch.tensor([{', '.join(written)}]")()


tie("example row $(#, #, #, #, #, #, #, #)$", *(lambda i=i: entry(i) for i in range(8)))
tie("of mean # and spread #. {doc}", x.mean(), x.std(correction=0))
ends = torch.tensor([-100.0, 100.0]).double().sigmoid()
tie("gate A number between # and #, a sigmoid", *(round(end.item(), 9) for end in ends))
KERNEL = ROOT / "notebooks" / "07_triton_kernel.ipynb"
tie(
    "An H200 has #.",
    lambda: int(re.findall(r"(\d+) on an H200", KERNEL.read_text(encoding="utf8"))[0]),
)
tie(r"one-pass variance $\overline{@}-@$", x[-1] ** 2, x.mean() ** 2, **NAMES)
tie(r"without the mean: $x/\sqrt{\overline{@}+\varepsilon}$", x[-1] ** 2, **NAMES)
tie("costs at most one part in $@$", 2 / torch.finfo(torch.float32).eps)
tie("In float16 they reach down to $@$", torch.finfo(torch.float16).smallest_normal * 2**-10)
tie("some rows by a power of # of features", BASE)
tie("learning rate grows from near # to", SHIFT)
tie("warp # threads", tiles.THREADS)
tie("Storing $w = @$, which starts at #", START - 1, START - 1, gamma=START)
free("or # on AMD's MI300", why="what the maker says")
