"""The numbers of notation and glossary, and what computes them."""

import math

import torch

import lnlib
from lnlib import formula
from lnlib.book.records.tables import recorded
from lnlib.triton_kernel import tiles
from ties import Page

page, first = Page("notation"), Page("01_formula")
tie, free = page.tie, page.free

ROW = [2.0, 4, 4, 4, 5, 5, 7, 9]
x = 1.7 * torch.tensor(ROW).double()  # with a spread of 2, σ² would be 2σ
EPS = lnlib.LayerNorm(8).eps
terms = formula.terms(x, eps=EPS)
NAMES = {"sigma": terms.std.item(), "epsilon": EPS, "mu": terms.mean.item(), "H": 8.0}
NAMES["x"] = x[-1].item()
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
GAP = torch.finfo(torch.float64).eps
(UNIT,) = (n for n in (0.5, 1.0, 2.0, 4.0) if math.ulp(n) == GAP)
tie("half the distance from # to the next number: $@$", UNIT, GAP / 2)
BASE = tiles.forward(769, 4).features ** (1 / 10)  # of 769 features a tile has 1,024 lanes
tie("lanes of a tile in one row, a power of #", BASE)
tie(r"| $\tilde@$ |", VARIANCE, **NAMES)
tie(r"the root of $\overline{@}+\varepsilon$, what", x[-1] ** 2, **NAMES)

# Glossary
divisor = ((x - x.mean()).square().sum() / x.var()).item()
tie("The unbiased variance divides by $@$", divisor, **NAMES)
tie("Its variance is # and its output", x.new_full((8,), 3.0).var(correction=0))
tie('"Under the root" is $@$, as', terms.denominator, **NAMES)
R = ["2.0", *"4445579"]
PLACES = [", ".join([*R[:i], "#", *R[i + 1 :]]) for i in range(8)]
ROW_CODE = [first.code(f"book_row = torch.tensor([{place}]") for place in PLACES]
tie("example row $(#, #, #, #, #, #, #, #)$", *ROW_CODE)
tie("of mean # and spread #. {doc}", x.mean() / 1.7, x.std(correction=0) / 1.7)
ends = torch.tensor([-100.0, 100.0]).double().sigmoid()
tie("gate A number between # and #, a sigmoid", *(round(end.item(), 9) for end in ends))
tie("An H200 has #.", Page("07_triton_kernel").code("programs(8192, tile, multiprocessors=#)"))
tie(r"one-pass variance $\overline{@}-@$", x[-1] ** 2, x.mean() ** 2, **NAMES)
tie(r"without the mean: $x/\sqrt{\overline{@}+\varepsilon}$", x[-1] ** 2, **NAMES)
tie("costs at most one part in $@$", 2 / torch.finfo(torch.float32).eps)
HALF = torch.finfo(torch.float16)
tie("In float16 they reach down to $@$", HALF.smallest_normal * HALF.eps)
tie("some rows by a power of # of features", BASE)
WARM = recorded("characters", experiment="placements")["warmup"].max()
tie("learning rate grows from near # to", 1 / WARM)  # the first step has this share of it
tie("warp # threads", tiles.THREADS)
tie("Storing $w = @$, which starts at #", 2.5 - START, START - 1, gamma=2.5)
free("or # on AMD's MI300", why="what the maker says")
