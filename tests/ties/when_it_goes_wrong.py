"""The numbers of the page for when it goes wrong, and what computes them."""

import math

import torch
import torch.nn.functional as F

from lnlib import formula
from lnlib.book.records import tables
from ties import Page

page = Page("when_it_goes_wrong")
tie, free, code, found = page.tie, page.free, page.code, page.found
EPS = torch.nn.LayerNorm(8).eps
free(
    "four ways: #. $", r'y = 0") #. The sum', "becomes NaN. #. The sq", "is 0 again. #. The",
    "numbers. #. **The t",
    "of bfloat16. #. **", "`pytorch_issue_76012`. #. **", 'operations") #. **', "bandwidth. #. **",
    "Takeaways #. ", "puts one out. #. A", "learning rate. #. Measure",
    why="the places in a list",
)  # fmt: skip

# NaN behind a norm
tie("one row, all # features", code("norm(torch.randn(4000, #)))"))
is_nan = [torch.full((768,), math.nan), torch.tensor([0.0]) / 0, torch.tensor([0.0]) * math.nan]
assert all(each.isnan().all() for each in is_nan)
dy = torch.autograd.grad(F.relu(x := torch.zeros(1, requires_grad=True)).sum(), x)[0].item()
tie(r"The row's $dy$ is then #, but $#\cdot\mathrm{NaN}$ is NaN", dy, dy)
exponentials = torch.full((4,), -math.inf).exp()
tie("and their softmax is #/#.", exponentials[0], exponentials.sum())
flat = torch.full((8,), 0.1).double()
tie(
    r"A constant row, and ε = # With $\varepsilon=#$, a row",
    *2 * [code("eps=#).isnan().any(1)")],
)
centered, spread = flat[0] - flat[-1], flat.amax() - flat.amin()
tie("a row of equal numbers is #/#.", centered, spread)
TINY = code("formula.layer_norm(zeros, eps=#, dtype=half)")
tie(r"that is not # in the type", lambda: torch.tensor(TINY()).half())
tie(r"$\varepsilon$ turns into #: in float16", lambda: torch.tensor(TINY()).half())
tie("in float16, $@$ does", TINY)
free(
    "in one pass until #", "unit spread around #", "at # features, compiled", why="what issues say"
)
FAR = formula.terms(torch.tensor([3.0, 5.0]))
MU, RMS = FAR.mean.item(), (FAR.var + FAR.mean**2).sqrt().item()
tie(r"one-pass variance $\overline{@}-@$ can", FAR.var + MU**2, FAR.mean**2, x=RMS, mu=MU)

# Only the gradients are NaN
root = torch.zeros(1, requires_grad=True)
slope = torch.autograd.grad(root.sqrt().sum(), root)[0].item()
assert math.isinf(slope)
tie("is there a square root of #?", root.item())
tie("Look for a square root of #. Its", root.item())
tie(r"$\infty\cdot#$ is NaN", root.item())

# A dead feature
tie("is # or nearly #.** Then", *2 * [code("layer.weight[2] = #\n")])
tie("is far below #, in front of a ReLU", F.relu(torch.tensor(-3.0)))
NAMES = {"H": 8.0, "C": 10.0, "sigma": 0.5, "epsilon": EPS}
outlier = torch.zeros(8).double()
outlier[3] = 1e6
largest = formula.layer_norm(outlier, eps=0.0).max()
WIDE = code("bound = -math.sqrt(# - 1)")
LOW = code("norm.bias[5], norm.bias[9] = #, -4.5"), code("norm.bias[5], norm.bias[9] = -6.0, #")
tie(
    r"< -\lvert\gamma_i\rvert@$: $#$ with # features",
    largest,
    lambda: -math.sqrt(WIDE() - 1),
    WIDE,
    **NAMES,
)
tie(
    r"at $\beta_i = #$ or $#$ already, not one of # random rows",
    *LOW,
    code("norm(torch.randn(#, 768)))"),
)
ALIVE = code("layer.weight[never] = #"), code("layer.bias[never] = #")
tie(r"with $\gamma_i = #$ and $\beta_i = #$. [✓]", *ALIVE)
tie(r"is stuck near $@$, and", largest, **NAMES)
ones, zeros = torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
GAMMA = ones.weight[0].item()
tie("from # to about #, and", GAMMA, code("louder = # * x_hat"))
torch.nn.init.zeros_(zeros.weight)
stuck = torch.autograd.grad(F.relu(zeros(torch.randn(9, 8))).sum(), zeros.weight)[0]
assert stuck.abs().max() == 0
tie(r"not with $\gamma = #$ and $\beta = #$ in front", zeros.weight[0].item(), zeros.bias[0].item())
decayed = 1.0 * (1 - 0.01) ** 10_000
tie(r"Decay pulls $\gamma$ to # ({numref}", round(decayed, 9))
x = torch.randn(3, 8, requires_grad=True)
(dx,) = torch.autograd.grad(F.layer_norm(x, (8,)).sum(), x)
tie("a gradient of # may be correct", round(dx.abs().max().item(), 4))

# A loss spike
tie(r"by up to $\max|\gamma|/@$, {eq}", (0.25 + EPS) ** 0.5, **NAMES)
tie(r"that is # at $\gamma=#$ and", found("largest factor"), ones.weight[0].item())
tie(r"and $\varepsilon=@$. Feed", EPS)
tie("If the third is near #, one", lambda: (largest / 7**0.5).item())

# It is slow
SPEED = [
    float(row["over_torch"])
    for row in tables.rows_of(tables.RESULTS / "speed_pinned.csv")
    if row["provider"] == "lnlib reference"
]
tie("which takes # to # times as long as PyTorch", min(SPEED), max(SPEED))

# Half precision
HALF, BRAIN = torch.finfo(torch.float16), torch.finfo(torch.bfloat16)
one = torch.tensor(1.0).bfloat16()
below, above = (torch.nextafter(one, one * to).item() for to in (0, 2))
tie("float16 ends at #. Divide", HALF.max)
tie("sum of the row passes #. The", HALF.max)
WIDEST = code("wide = 10 * torch.randn(#).to(half)")
tie(
    "squares passes #: with # features, from a spread of # on. The output is # again",
    HALF.max,
    WIDEST,
    lambda: (HALF.max / WIDEST()) ** 0.5,
    lambda: formula.layer_norm(10 * torch.randn(WIDEST()).half(), dtype=torch.float16).abs().max(),
)
tie(
    "deviation overflows, from # on",
    min(2**k for k in range(16) if torch.tensor(2.0**k).half() ** 2 > HALF.max),
)
tie("The neighbors of # in bfloat16 are $@$ and $@$.", one, below, above)
tie(r"store $w = @$, since", 2.5 - GAMMA, gamma=2.5)
finest = min((0.0, 0.5, 1.0), key=lambda w: torch.nextafter(torch.tensor(w), 2 * one.float()) - w)
tie("has finer steps near #.", finest)
tie("may be $@$ of the value apart, $@$. One", *2 * [BRAIN.eps])
ROWS = {mean: (mean + torch.randn(64, 768)).bfloat16() for mean in (20.0, 0.0)}
OFF = {m: formula.layer_norm(r, dtype=r.dtype) - formula.layer_norm(r) for m, r in ROWS.items()}
tie("with a mean far from #. [✓]", min(OFF, key=lambda mean: OFF[mean].abs().max()))

# It does not match
ROW = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
R = ["2.0", *"4445579"]
PLACES = [", ".join([*R[:i], "#", *R[i + 1 :]]) for i in range(8)]
ROW_CODE = [code(f"book_row = torch.tensor([{place}]") for place in PLACES]
tie("The row (#, #, #, #, #, #, #, #) has", *ROW_CODE)
tie("has mean # and spread #. Its", ROW.mean(), ROW.std(correction=0))
tie("last feature is # above the first, so a fresh norm divides by $#/", *2 * [ROW[-1] - ROW[0]])
tie("|---|---| | # | the variance", ROW.std(correction=0))
tie("does not sum to #, the mean", round(formula.layer_norm(ROW).sum().item(), 9))
tie("| # | it is unbiased | | # | no mean", ROW.std(), ROW.square().mean().sqrt())
HALVED = ROW.std(correction=0) / code('half of 2", half, equals=#')()
tie(r"is $@$, and you loaded a # where # was meant", HALVED, GAMMA, GAMMA - 1, w=GAMMA)

# The newer symptoms
tie(r"is $\varepsilon$ # there?", lambda: torch.tensor(TINY()).half())
inactive = F.relu(torch.tensor(-3.0))
tie("a feature that is always # behind a ReLU", inactive)
tie("for every row, or # for every row behind", inactive)
tie(
    "on. The output is #, which",
    lambda: (
        formula.layer_norm(
            300 * torch.tensor([-3, -1, -1, -1, 0, 0, 2, 4]).half(), dtype=torch.float16
        )
        .abs()
        .max()
    ),
)
tie(r"each logit within $@$, while $\gamma = #$", 16**0.5, GAMMA, d=16.0)
P = code("half = torch.nn.LayerNorm(64), torch.nn.Dropout(#)")
tie(
    r"mean is # and its features are many, training then sees, $\beta$ apart, $@$ of what"
    " evaluation sees: # at",
    torch.randn(9999, 64).mean().round().abs(),
    0.5**0.5,
    lambda: (1 - P()) ** 0.5,
    p=0.5,
)
tie("at $p = #$. [✓]", P)
MINE = code("mine = torch.nn.LayerNorm(8, eps=#)")
tie(r"An $\varepsilon$ of $@$ became #", MINE, lambda: torch.tensor(MINE()).half())
tie(r"zero-centered $\gamma$ is $@$. A m", 1 + 0.5, w=0.5)
tie("In # bits, one", torch.iinfo(torch.int8).bits)
