"""The numbers of the page on the usual explanations, and what computes them."""

import math

import torch

from lnlib import formula
from ties import Page, load

page = Page("usual_explanations")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

EPS = torch.nn.LayerNorm(8).eps
START = torch.nn.LayerNorm(8).weight[0].item()
NAMES = {"H": 8.0}
ROW = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()

# What it does to a row, and what ε does
far = formula.layer_norm(torch.eye(8).double()[0], eps=0.0)
pair = formula.layer_norm(torch.tensor([1.0, 2.0]), eps=0.0)
alone = formula.layer_norm(torch.tensor([3.0]))[0]
tie(
    r"\rvert \le @$: with two features it is $\pm#$, with one it is #.",
    far.max(),
    pair[1],
    alone,
    **NAMES,
)
SHOWN = torch.tensor([0.001, 0.001, 0.0011, 0.0009, 0.001], dtype=torch.float64)  # of that text
tiny = round(2.5 * SHOWN.var(correction=0).item(), 15)  # two and a half times
tie(r"A tiny $\varepsilon$ such as $@$ changes", tiny)
tie("Normalized values lie within # and #.", *torch.tensor([-99.0, 99.0]).tanh())
tie("half times the variance, $@$, of the", SHOWN.var(correction=0))
tie(
    r"but with $\gamma=#$ they multiply a gradient by $@ = #$",
    START,
    EPS**-0.5,
    EPS**-0.5,
    epsilon=EPS,
)
constant = torch.full((4,), 3.0).double()


def beside(x: torch.Tensor) -> torch.Tensor:
    """Return layer norm with 1 beside the spread, whose slope at 0 is taken as 0."""
    centered = x - x.mean()
    return centered / (centered.square().mean().clamp(min=1e-300).sqrt() + 1)


J = torch.autograd.functional.jacobian(beside, constant)
tie(r"$(I-\frac#H\mathbf#\mathbf#^\top)/", 4 * (1 - J[0, 0]), *2 * [torch.ones(4)[0]])
mean = torch.autograd.functional.jacobian(lambda x: x.mean(), constant)
tie(r"(\delta_{hq}-\frac#H)$. One", 4 * mean[0])
spread = far.std(correction=0).item()
both = math.hypot(spread, spread)  # of the sum of two that are independent
outside = [100 * math.erfc(1 / each / 2**0.5) for each in (spread, both)]
tie("They have spread #, so of normal values # % lie", spread, outside[0])
tie(r"the sum has spread $@$, and # % lie outside", both, outside[1])
tie("acts on all $@$ summed inputs", len(torch.nn.LSTM(3, 8).weight_hh_l0), **NAMES)

# Transformers: the numbers are those of chapters 10 and 15
PLACED, NORMS = load("10_in_context"), load("15_norms_without_the_mean")
FEW, DEEP = PLACED.code("depths = (#, 6"), PLACED.code("12, 24, #)")
tie("they shrink like $@$ {cite", lambda: DEEP() ** -0.5, L=48)
tie("first step and for # to # blocks:", FEW, DEEP)
tie("The first of # has more than", DEEP)
RATES = "RATES = (3e-4, {}, 3e-3, {})"
EVEN, HIGH = PLACED.code(RATES.format("#", "1e-2")), PLACED.code(RATES.format("1e-3", "#"))
tie("trains without one, too, up to #, and is even a little ahead; at # it", EVEN, HIGH)
tie(
    "After # steps at one rate, the same within # bits",
    PLACED.code("ax.set(xlim=(0, #)"),
    NORMS.bound("RMS norm and layer norm: the same bits, within"),
)
x_hat = formula.terms(ROW).x_hat
middle, size = (round(each.item(), 4) for each in (x_hat.mean(), x_hat.std(correction=0)))
tie("Neither. Mean # and spread # do not", middle, size)
tie("Mean # and spread # say nothing", middle, size)
tie(r"further out than $@$. One", far.max(), **NAMES)
tie(r"with $\gamma$ = √($@$+$", ROW.var(correction=0), sigma=2)
free("Equation # is layer", why="of the paper")
free("forget that. #. A claim", "have none. #. Believe", why="of a list")
