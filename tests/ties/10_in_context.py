"""The numbers of chapter 10, and what computes them."""

from math import sqrt

import torch

from lnlib import formula
from lnlib.book.exercises import chapter_10 as exercises
from lnlib.book.records import norms
from lnlib.book.records.seeds import students_t
from lnlib.book.records.tables import recorded
from ties import Page

page = Page("10_in_context")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

PERCENT = 100 * students_t(3) / sqrt(2 + students_t(3) ** 2)  # of Student's t, two degrees
MIDDLE, HIGH = code("1e-3, #, 1e-2)"), code("3e-3, #)")
FEW, MANY, DEEP = code("depths = (#, 6"), code("12, #, 48)"), code("24, #)")
FIVE = code("last_state(summed_input, k) for k in (1, #)")
FIRST = code('"steps": #, "context"')

PLACED = recorded("characters", experiment="placements")
RATES, WARMUP = sorted({*PLACED["lr"].tolist()}), int(PLACED["warmup"].max())
(RATE,) = set(recorded("characters", experiment="two-minutes")["lr"].tolist())


def steps(experiment):
    return int(recorded("characters", experiment=experiment)["steps"].max())


def short(placement, lr, warmup):
    """Return a source: bits a character after the short runs."""
    where = {"placement": placement, "lr": lr, "warmup": warmup}
    return lambda: norms.novel("placements", **where).mean[-1]


def long(placement, norm="layer"):
    """Return a source: bits a character after two minutes."""
    return lambda: norms.novel("two-minutes", placement=placement, norm=norm).mean[-1]


ENDS = {
    placement: torch.tensor([[short(placement, lr, w)() for lr in RATES] for w in (0, WARMUP)])
    for placement in ("pre", "post", "none")
}
BEST = {placement: [RATES[i] for i in ends.argmin(1)] for placement, ends in ENDS.items()}
EVEN = RATES[(ENDS["post"] < ENDS["pre"]).all(0).nonzero().max()]  # warm-up or not
EXPLODES = RATES[(ENDS["none"][0] > 10).nonzero().min()]

# the networks
tie("`nn.TransformerEncoder` with # layers", code("nn.TransformerEncoder(layer, #).double()"))
tie("calls none of the # modules", code('check("training: 24 calls", calls(model, x), equals=#)'))
tie("the counter says #.)", code('check("batch_first=False", calls(default, x), equals=#)'))
tie("Multiply both matrices by #.", FIVE)

# gradients by depth
tie("Under pre-norm it shrinks like $@$. Try", lambda: DEEP() ** -0.5, L=48)
tie("after each of # blocks", DEEP)
tie("in the stack of # (lines)", DEEP)
tie("in stacks of # to # (dots)", FEW, MANY)
tie("under post-norm in all # blocks", DEEP)
tie("from block to block, over # blocks by", DEEP)
tie("first form ignores the factor # up to", FIVE)

# training
tie("for a few seconds: # steps, learning rate #,", FIRST, code('short = {"lr": #'))
tie("After # steps the pre-norm network", FIRST)
tie("for # steps of plain Adam", lambda: steps("placements"))
tie("and with one of # steps, three seeds", WARMUP)
tie("of the novel after # steps, against", lambda: steps("placements"))
tie("over three seeds with # % intervals", PERCENT)
tie("Notice that up to # post-norm is even", EVEN)
tie("on the right. Up to # post-norm lies", EVEN)
tie("to the dashed line at # while", found("by frequency alone: bits"))
tie("pre-norm falls to about #. On", short("pre", 0.01, 0))
tie("pre-norm falls to #, post-norm reaches #", short("pre", 0.01, 100), short("post", 0.003, 100))
tie("no point at # on the left", EXPLODES)
tie("wrong with post-norm.** Up to # it is even", EVEN)
tie("in every seed, by at most # bits", lambda: -found("and by at most")())
tie("needs the warm-up.** At # post-norm ends at # bits", MIDDLE, short("post", 0.003, 0))
tie("with one, at #, less than a tenth", short("post", 0.003, 100))
tie("from pre-norm. At # it learns only", HIGH)
warm, cold = short("pre", 0.01, 100), short("pre", 0.01, 0)
tie("best result, # bits at #, has one", warm, BEST["pre"][1])
tie("the loss there ends # bits higher", lambda: cold() - warm())
tie("three seeds by more than #. Without", bound("pre-norm at 0.01: a warm-up helps"))
tie("its best is #, at #.", short("pre", 0.003, 0), BEST["pre"][0])
tie("every rate, and at # its loss explodes", EXPLODES)
tie("Here are # steps, up to", lambda: steps("two-minutes"))
tie("a warm-up and the rate #. In", RATE)
tie("the others did best at #. So", BEST["none"][1])
tie("(After # steps, each at", lambda: steps("placements"))
tie("pre-norm is ahead by # bits.)", lambda: short("post", 0.003, 100)() - warm())
tie("bands are # % intervals. All with a warm-up, at the rate #.", PERCENT, RATE)
tie("against the steps, up to #.", lambda: steps("two-minutes"))
tie("No norm ends at about #, post-norm at #", long("none"), long("post"))
tie("a little below it, at #.", long("pre"))
tie("come close: # bits for post-norm, # for pre-norm", long("post"), long("pre"))
tie("The network without a norm is at #.", long("none"))

# RMS norm
row = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
mean, std, square = row.mean().item(), row.std(correction=0).item(), row.square().mean().item()
tie("with mean # and spread #. The mean of its", mean, std)
tie("squares is $@=#$. So layer", square, square)
rms = (row / formula.layer_norm(row, eps=0.0, center=False)).mean().item()
tie("norm divides it by #, and RMS norm by #:", std, rms)
off, squares = ((row - mean)[6] ** 2).item(), (row[6] ** 2).item()
tie(r"two: $x$, then $@$ | one: $@$ |", off, squares, x=7, mu=5)
rstd = formula.terms(row, eps=0.0).rstd.item()
tie(r" and $@$ | $@$ | RMS norm", rstd, 1 / rms, s=2, r=29**0.5)
tie("RMS norm ends within # bits of", bound("the same within 0.02 bits"))
tie("RMS norm took # seconds", found("seconds, RMS norm"))
tie("processor here, layer norm #.", found("seconds, layer norm"))

# variations
gamma, w = code('"γ": torch.full((7,), #)'), code('"w": torch.full((7,), #)')
tie("Gemma stores $w = @$ and", w, gamma=1.5)
tie("and multiplies by $@$ {cite", gamma, w=0.5)

# claims, exercises, fine print
tie("pre-norm they shrink like $@$ {cite", lambda: DEEP() ** -0.5, L=48)
tie("first step and for # to # blocks:", FEW, DEEP)
tie("The first of # has more than", DEEP)
tie("does too up to #, and is even a little ahead; at # it", EVEN, HIGH)
tie(
    "After # steps at one rate, the same within # bits",
    lambda: steps("two-minutes"),
    bound("the same within 0.02 bits"),
)
x = torch.tensor([1.0, 2.0], requires_grad=True)
(x**3).sum().backward()
tie(r"|\hat x_i|^{@}$: the $p$ of", (x.grad[1] / x.grad[0]).log2().item(), p=3)
jacobians = {p: exercises._p_norm_jacobian(row, p) for p in (1, 2, 3, 4)}
(symmetric,) = (p for p, J in jacobians.items() if torch.allclose(J, J.T))
tie(r"For $p=#$ it is symmetric", symmetric)
tie(r"For $p=#$ it is {eq}`eq-meet-rms", symmetric)
tie("a random $W$, # by #. Give", *exercises.BRANCH.shape)
length = formula.layer_norm(torch.arange(8.0), eps=0.0).norm().item()
tie(r"has length $@$ at most", length)
tie("eight seeds of width # and", code("H = #\n"))
tie("within a fifth, and $@$ within a third", lambda: DEEP() ** -0.5, L=48)
tie(r"the cell takes $\varepsilon = @$", code("return torch.tanh(formula.layer_norm(a, eps=#))"))

free(
    "The paper's equation # normalizes",
    "GPT-# {cite:p}`radford2019`, Llama",
    "at its end. GPT-# has",
    "Their Theorem # bounds",
    "(Lemma #: a half",
    "report # to # % less",
    "(section #). They",
    "at about # billion parameters",
    "up to # layers. Their",
    why="names, and numbers of papers",
)
free("Takeaways #. Post", "without one. #. RMS", "stored statistics. #. Before", why="of a list")
free(
    r"out of a gradient, $(#,\dots,#)$",
    r"$\gamma = #$ at the end",
    r"$m = \big(\frac#H\sum_j |x_j|^p\big)^{#/p}$ instead: for $p=#$",
    r"\partial x_i = \frac#H\,",
    r"of the power and the $#/p$ of",
    r"`eq-meet-rms-jacobian` with $\varepsilon = #$.",
    why="what a symbol means, and the powers in a formula",
)
