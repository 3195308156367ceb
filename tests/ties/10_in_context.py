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
MIDDLE, HIGH = code("RATES = (3e-4, 1e-3, #, 1e-2)"), code("RATES = (3e-4, 1e-3, 3e-3, #)")
FEW, MANY, DEEP = code("depths = (#, 6"), code("12, #, 48)"), code("12, 24, #)")
FIVE = code("ln(a).tanh(), k) for k in (1, #)")
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
tie("Multiply both matrices by #.", FIVE)

# gradients by depth
tie("Under pre-norm it shrinks like $@$. The next", lambda: DEEP() ** -0.5, L=48)
tie("From # to # blocks, the last", FEW, DEEP)
tie("it shrinks about like $@$. So the", lambda: DEEP() ** -0.5, L=48)
tie("after each of # blocks", DEEP)
tie("in the stack of # (lines)", DEEP)
tie("in stacks of # to # (dots)", FEW, MANY)
tie("under post-norm in all # blocks", DEEP)
tie("from block to block, over # blocks by", DEEP)
tie("first form ignores the factor # up to", FIVE)

# training
tie("at a learning rate of #. After # steps it", code('short = {"lr": #'), FIRST)
tie("With # steps of warm-up, or", WARMUP)
tie("for a few seconds: # steps, learning rate #,", FIRST, code('short = {"lr": #'))
tie("for # steps of plain Adam", lambda: steps("placements"))
tie("and with one of # steps, three seeds", WARMUP)
tie("of the novel after # steps, against", lambda: steps("placements"))
tie("over three seeds with # % intervals", PERCENT)
tie("Notice that up to # post-norm is even", EVEN)
tie("on the right. Up to # post-norm lies", EVEN)
tie("to the dashed line at # while", found("frequencies alone: bits a character"))
tie("pre-norm falls to about #. On", short("pre", 0.01, 0))
tie("pre-norm falls to #, post-norm reaches #", short("pre", 0.01, 100), short("post", 0.003, 100))
tie("no point at # on the left", EXPLODES)
tie("wrong with post-norm.** Up to # it is even", EVEN)
tie("in every seed, by at most # bits", lambda: -found("up to 0.001: it is ahead by at most")())
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

# exercises, fine print
STACK = code("exercises.ratio((# / 2) ** 0.5)")  # the mean square after the last block
LAST, AFTER_FIRST = lambda: STACK() ** 0.5, code("exercises.ratio((49 / #) ** 0.5)")
tie("starts with the mean square #, and each block adds exactly # to", *2 * [lambda: STACK() - 48])
tie("gradient of the first of # blocks as", lambda: STACK() - 1)
tie("the mean square is $@$. So", lambda: STACK() - 30, n=18)
tie(r"are divided by $@$ and by #, and", lambda: AFTER_FIRST() ** 0.5, LAST)
tie(r"their ratio is $@\approx#$.", *2 * [lambda: (STACK() / AFTER_FIRST()) ** 0.5])
tie("a random $W$, # by #. Give", *exercises.BRANCH.shape)
length = formula.layer_norm(torch.arange(8.0), eps=0.0).norm().item()
tie(r"has length $@$ at most", length)
tie("eight seeds of width # and", code("H = #\n"))
tie("within a fifth, and $@$ within a third", lambda: DEEP() ** -0.5, L=48)
tie(r"the check takes $\varepsilon = @$", code("partial(formula.layer_norm, eps=#)"))

free(
    "The paper's equation # normalizes",
    "GPT-# {cite:p}`radford2019`, Llama",
    "at its end. GPT-# has",
    "Their Theorem # bounds",
    "[^lemma]: Lemma # of",
    why="names, and numbers of papers",
)
free("Takeaways #. Post", "block to block. #. At", "without one. #. With", why="of a list")
