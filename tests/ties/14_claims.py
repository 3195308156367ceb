"""The numbers of chapter 14, and what computes them."""

from math import log10, sqrt

import torch

from lnlib import formula
from lnlib.book.exercises import chapter_14 as exercises
from lnlib.book.experiments import fisher
from lnlib.book.records import norms
from lnlib.book.records.seeds import students_t
from ties import Page

page = Page("14_claims")
tie, free, code, found = page.tie, page.free, page.code, page.found

PERCENT = 100 * students_t(3) / sqrt(2 + students_t(3) ** 2)  # of Student's t, two degrees
STEP = {name: truth for name, truth, _ in exercises._ONE_STEP}
LARGE = norms.recorded("mlp_training", experiment="variants")["batch"].max().item()


def ends(claim):
    """Return sources: both ends of the interval that a check has found."""
    return found(claim, 0), found(claim, 1)


def opposite(claim):
    """Return sources: both ends of the interval of the opposite difference."""
    low, high = ends(claim)
    return lambda: -high(), lambda: -low()


def around_zero(claim):
    """Return sources: how far an interval reaches below zero, and how far above."""
    low, high = ends(claim)
    return lambda: -low(), high


def mean(epoch, *names, column="test_error"):
    """Return a source: what is known after an epoch, at the rate that its loss picks."""
    return lambda: sum(norms.after(epoch, n, column).mean[0] for n in names) / len(names)


def effective(factor):
    """Return a source: the effective rate of the first matrix of the descent, times a factor."""

    def rate():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            first = torch.randn(64, 784).double() / code("randn(64, 784).double() / #")()
        return code("def descend(W, rate=#")() / (factor * first).square().sum().item()

    return rate


def power():
    """Return the power of the length that a rate must grow with, for the same path."""
    rates = code("descend(10 * W_first, rate=#")() / code("def descend(W, rate=#")()
    return round(log10(rates) / log10(code("descend(# * W_first, rate")()), 9)


STEPS = code("(0.01, 0.03, #, 0.3)")
RMS = "RMS norm's errors differ from layer norm's by"
DETACHED = "after three epochs, detached makes more errors by"

# claim by claim
tie("a network with layer norm, and a step of # goes uphill. Now", STEPS)
tie(r"exactly by the factor $1/\lVert W\rVert^#$. This brake", power)
tie("Without them, layer norm makes # to # points", *ends(DETACHED))
tie("subtracted. | RMS norm makes between # points fewer and # points more", *around_zero(RMS))

# where the paper does not agree with itself
dead = formula.layer_norm(torch.randn(3, 7), torch.zeros(7), torch.ones(7)).unique()
tie("every scale is # and the output is # for any", dead.std(correction=0).item(), dead.item())

# the Fisher matrix
thirteen = float(fisher.by_equation_13.__name__.rpartition("_")[2])
tie("| Equation # is the Fisher", thirteen)
tie("Equation # gives the block", thirteen)
tie("Equation # is exact for batch", thirteen)
tie("it becomes equation #.[", thirteen)
tie("The entries of equation # for", thirteen)
tie("Equation # gives a positive", thirteen)
tie("equation # says that no two", thirteen)
tie("The paper's equation # is exact", thirteen)

# the brake
tie(r"So $\eta/\|W\|^#$ is the *effective*", power)
tie("train a layer of # neurons", code("torch.randn(#, 784)"))
tie("the loss, averaged over # steps", code("np.ones(#) / 20"))
tie("Starting at # it drops to below one", effective(0.01))
tie("starting at # it drops to #;", effective(0.1), found("from 0.1 W, the rate ends at"))
tie("stay level at # and #. Right", effective(1), effective(10))

# four more networks
tie("four more networks at batches of #, three", LARGE)
tie("epoch picks; bars are # % intervals", PERCENT)
tie("After one epoch RMS norm is near # percent", mean(1, "rms"))
tie("layer norm and no norm at #, weight", mean(1, "layer", "none"))
tie("no norm at 7.1, weight norm at #,", mean(1, "weight"))
tie("noisy layer norm at #, detached", mean(1, "layer-noisy"))
tie("detached layer norm at #. After", mean(1, "layer-detached"))
tie("noisy and RMS norm are near # percent", mean(15, "layer", "layer-noisy", "rms"))
tie("and the others between # and #.", mean(15, "none"), mean(15, "layer-detached"))
lead = "after one epoch layer norm has no lead in errors"
tie("epoch it makes between # points fewer and # points more than no", *around_zero(lead))
tie("changes its errors by # to # points.", *ends("noise changes the last errors by"))
losses = (mean(15, norm, column="test_loss") for norm in ("layer", "none"))
tie("after fifteen epochs: # against # without", *losses)
tie("network's loss is # to # higher", *ends("after one epoch noise changes the test loss by"))
tie("up to # lower.", lambda: -page.bound("in the end noise changes the test loss by")())
tie("Detached, layer norm makes # to # points", *ends(DETACHED))
later = "after fifteen epochs its {} by".format
tie("the interval is # to # points, and", *ends(later("errors differ")))
tie("and in test loss # to #. Whether", *ends(later("test loss differs")))
tie("it ends with # to # points more errors at", *ends("at the chosen rates it exceeds no norm by"))
fewer = opposite("at 0.0003 it differs from no norm by")
tie("and with # to # points fewer at # for", *fewer, code('"none", lr=#)'))
weight = "after one epoch weight norm differs from no norm by"
low, high = lambda: -page.bound(weight)(), found(weight, 1)
tie("for both, it makes between # points fewer and # points more", low, high)
tie("loss ends # to # lower", *opposite("weight norm's last test loss differs from no norm's by"))

# a smoother loss
LEVEL = code("mlp.until(#, norm, (")
tie("until its loss is #, with", LEVEL)
tie("gradient promises, at a loss of #. Bars are # %", LEVEL, PERCENT)
tie("shows at steps of # and more", STEPS)
tie("rough: a step of # goes uphill", STEPS)
tie("optimizer's own size (#) brings", code("(descent, #)):"))
tie("The step of #, which went uphill", STEPS)

# the mean
tie("RMS norm ends with between # points fewer and # points more", *around_zero(RMS))
same = page.bound("RMS norm's test loss differs from layer norm's by", 1)
tie("the same test loss to within #.", same)

tie(r"their learning rate, $\eta/\|W\|^#$.", power)

# exercises
before = sqrt(STEP["the factor"])
tie(r"has length $\|W\| = #$", before * STEP["‖W‖"])
tie(r"has length $\|dW\| = #$", STEP["‖dW‖"] / before)
tie(r"By {eq}`eq-claim-length` $@=#$", STEP["‖W‖"], STEP["‖W‖"])
tie("by {eq}`eq-claim-euler`, so it is $@ = #$", STEP["‖dW‖"], STEP["‖dW‖"])
tie(r"proportional to $1/\|W\|^#$, so it has changed by $@ = #$", power, *2 * [STEP["the factor"]])
tie(r"*effective* learning rate $\eta/\|W\|^#$ do they", power)
lr, decay, c = 0.5, 0.25, 1.7
known = {"eta": lr, "lambda": decay, "c": c}
w = torch.nn.Parameter(torch.ones(1).double())
w.grad = torch.zeros_like(w)
torch.optim.SGD([w], lr, weight_decay=decay).step()
kept = w.item()
tie(r"a step is $W \leftarrow (@)\,W -", kept, **known)
tie(
    r"so $\|W\|^#$ becomes $@\|W\|^#+@/\|W\|^#$. In balance this equals $\|W\|^#$.",
    *(power, kept**2, power, (lr * c) ** 2, power, power),
    **known,
)
tie(r"So $\big(\eta/\|W\|^#\big)^# =", power, power)
tie(r"\big)^2 = @ = @$. For a small", *2 * [exercises._balance(lr, decay, c) ** 2], **known)
tiny = 1e-11
balanced = (2 * lr * tiny - (lr * tiny) ** 2) ** 0.5 / c
tie(r"the effective rate is $@$: decay", balanced, **known | {"lambda": tiny})

free(
    "the paper's equation #: ```",
    "*Fisher matrix*, equation #. For",
    "In equations # to # the",
    "| Section #: all the norms",
    "| Table #: weight norm",
    "| Table #: layer norm",
    "| Below equation #,",
    "adds and starts at #;",
    "multiplies and starts at #. |",
    "| Equation #:",
    "| Equation # normalizes a sum",
    "| Equation # normalizes its",
    "| Equation # has three",
    "Section # of the paper asks",
    why="numbers of the paper: its sections, tables and equations",
)
free("Takeaways #. The", "more terms. #. In", "only fall. #. The runs", why="of a list")
free(
    r"at $\delta=#$, and by",
    r"lower the loss by $\eta\,\|d\theta\|^#$",
    r"any part along $(#,\dots,#)$",
    r"the query $(#,\dots,#)$ gives",
    r"is proportional to $#/\|W\|$, by",
    r"section $\phi = #$, as",
    r"($\varepsilon = #$) has length",
    why="what a symbol means",
)
