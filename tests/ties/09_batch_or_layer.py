"""The numbers of chapter 09, and what computes them."""

import inspect
import re
from functools import cache
from math import log10, sqrt

import torch
from torch import nn

from lnlib import formula
from lnlib.book.data import TRAIN
from lnlib.book.exercises import chapter_09 as exercises
from lnlib.book.experiments import mlp, table_1
from lnlib.book.records import norms
from lnlib.book.records.seeds import students_t
from ties import Page

page = Page("09_batch_or_layer")
tie, free, code, found = page.tie, page.free, page.code, page.found

DELTA = inspect.signature(table_1.deviation).parameters["delta"].default
LARGE, SMALL = code('RUNS = {#: "batch"'), code('"batch", #: "small-batch"}')
FEW, TEST = code('{"rows": #,'), 10_000 - TRAIN
PERCENT = 100 * students_t(3) / sqrt(2 + students_t(3) ** 2)  # of Student's t, two degrees
STEP = {name: truth for name, truth, _ in exercises._ONE_STEP}


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


@cache
def column(norm, experiment, name, lr=None):
    return norms.digits(norm, experiment, name, lr).mean


def last(norm, name="test_loss", experiment="batch"):
    return lambda: column(norm, experiment, name)[-1]


def picked(epoch, *names):
    """Return a source: percent wrong, at the rate that the loss after that epoch picks."""

    def wrong(norm):
        experiment = "batch" if norm in ("layer", "none") else "variants"
        rates = (0.0003, 0.001, 0.003)
        lr = min(rates, key=lambda lr: column(norm, experiment, "valid_loss", lr)[epoch - 1])
        return column(norm, experiment, "test_error", lr)[epoch - 1]

    return lambda: sum(map(wrong, names)) / len(names)


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


def asked(thing, pattern):
    """Return a number that an exercise has in its code."""
    return float(re.search(pattern, inspect.getsource(thing))[1])


# table 1
zeros, _ = table_1.weight_norm(table_1.random_layer(0))
tie(r"has $\mu_i=#$, and $\sigma_i$ is", zeros.abs().max().item())
tie("with a factor of # or a shift of about #.", DELTA, DELTA)
tie("The next cell takes # random layers", code("for case in range(#)"))
eps = code("2.1, 0.25), #")
tie(r"share, about $@$. At", lambda: eps() / 2 / 0.7**2, epsilon=1e-5, delta=2, sigma=0.35)
KNEE = formula.layer_norm(torch.tensor([-0.3, 0.3]), eps=0.3**2).std(correction=0)
tie(r"At the knee, $\delta\sigma=\sqrt\varepsilon$, # % of", 100 * (1 - KNEE.item()))
tie(r"$\sqrt\varepsilon = #$: to its right", lambda: sqrt(eps()))
tie("near one up to a spread of #, marked", lambda: sqrt(eps()))
dead = formula.layer_norm(torch.randn(3, 7), torch.zeros(7), torch.ones(7)).unique()
tie("every scale is # and the output is # for any", dead.std(correction=0).item(), dead.item())

# the digits, once through
tie("the same # test digits, in fours", TEST)
tie("a plain network, #–#–#–#,", mlp.PIXELS, mlp.HIDDEN, mlp.HIDDEN, mlp.CLASSES)
tie("batch norm and layer norm at batches of # and of #.", LARGE, SMALL)
tie("one epoch of # digits, hidden layers of #,", FEW, code('"hidden": #, "epochs"'))
tie("seeds. At batches of # layer norm reaches", LARGE)
tie("its initial value. At batches of # layer norm", SMALL)
tie("√# times as large", code("linear.weight *= #**0.5"))
tie("more than half of its lead at # is gone", LARGE)
tie("One rate, one epoch and # digits", FEW)
tie("the book's # digits, of which # choose", TRAIN, TRAIN / mlp.VALID_EVERY)
tie("rate and # train, and # to test on", TRAIN - TRAIN / mlp.VALID_EVERY, TEST)
tie("clipping. At batches of # batch norm divides by", SMALL)
weights = torch.tensor([1.0, 2.0, 4.0, 9.0])
unbiased = weights.var(correction=0) / weights.var() * 4  # (B − 1) / B of it, times B
tie("norm divides by $@$, as in the paper", unbiased, B=4)
tie("over five seeds at # and three at #.", LARGE, SMALL)
tie("seed by seed, has a # % interval", PERCENT)

# batches of 128
tie("error on # test digits, at batches of # (above) and of # (below)", TEST, LARGE, SMALL)
tie("Bands are # % intervals of the mean", PERCENT)
tie("loss and, at #, the fewest errors; at batches of # it has", LARGE, SMALL)
tie("Four panels. At batches of # the training", LARGE)
tie("are lowest, near # percent, layer norm", last("batch", "test_error"))
tie("layer norm near #, no norm near #.", last("layer", "test_error"), last("none", "test_error"))
tie("no norm near 4. At batches of # layer norm and", SMALL)
tie("training loss and errors, near # percent", last("layer", "test_error", "small-batch"))
tie("**Training loss at #.**", LARGE)
tie("ends lowest, at #; at that rate", lambda: norms.best_rate("none", "batch"))
tie("**Test loss at #.**", LARGE)
tie("batch norm has #, batch norm on the hidden", last("batch"))
tie("on the hidden layers #, layer norm # and", last("batch-hidden"), last("layer"))
tie("and no norm #. In validation loss", last("none"))
tie("**Errors at #.**", LARGE)
more, than = "layer norm's errors over batch", "layer norm's errors over none"
tie("In the end layer norm makes # to # points more errors, and", *ends(more))
tie("and # to # more than batch norm on the", *ends(f"{more}-hidden"))
tie("against no norm, between # fewer and # more.", *around_zero(than))
tie("both make # % errors there", picked(1, "none", "layer"))

# batches of 4
tie("there. At batches of #, after three epochs,", SMALL)
four = "{}: more errors at 4".format
tie("makes between # points fewer and # points more errors than after", *around_zero(four("layer")))
tie("than after three at # (where", LARGE)
tie("The plain network makes # to # fewer", *opposite(four("none")))
tie("on the hidden layers # to # more, and the", *ends(four("batch-hidden")))
tie("and the paper's # to # more. At", *ends(four("batch")))
tie(
    "it is after the third # % against # %.",
    found("in epoch 3, batch norm, %"),
    found("layer norm, %"),
)
tie("the interval ends at # to # points", *ends("layer norm's errors over no norm's"))
tie("no benefit from # times as many", lambda: LARGE() / SMALL())
tie("at inference? At # its errors", LARGE)
tie("change by less than # points. At # it", page.bound("128, batch: close", 1), SMALL)
tie("a disaster: # % of the", found("in fours, %"))
tie("are wrong instead of # %", found("with what is stored, %"))
tie("with momentum #, remember some", nn.BatchNorm1d(1).momentum)
tie("CPU core. Notice that at # layer norm takes", LARGE)
tie("against CPU seconds, at batches of # and of #. At # the", LARGE, SMALL, LARGE)
tie("curve ends at about # seconds", last("layer", "cpu_seconds"))
tie("the others at about #. At", last("none", "cpu_seconds"))
tie(
    "at about 15. At # all take about # seconds", SMALL, last("layer", "cpu_seconds", "small-batch")
)
tie("nearly a third longer at #, and that", LARGE)

# the brake
tie(r"So $\eta/\|W\|^#$ is the *effective*", power)
tie("the loss, averaged over # steps", code("np.ones(#) / 20"))
tie("Starting at # it drops to below one", effective(0.01))
tie("starting at # it drops to #;", effective(0.1), found("0.1: ends at"))
tie("stay level at # and #. Right", effective(1), effective(10))

# later work
tie("four more networks at batches of #, three", LARGE)
tie("epoch picks; bars are # % intervals", PERCENT)
tie("After one epoch RMS norm is near # percent", picked(1, "rms"))
tie(
    "layer norm and no norm at #, weight norm at #,",
    picked(1, "layer", "none"),
    picked(1, "weight"),
)
tie("noisy layer norm at #, detached", picked(1, "layer-noisy"))
tie("detached layer norm at #. After", picked(1, "layer-detached"))
tie("noisy and RMS norm are near # percent", picked(15, "layer", "layer-noisy", "rms"))
tie("and the others between # and #.", picked(15, "none"), picked(15, "layer-detached"))
tie(
    "it makes between # points fewer and # more than no",
    *around_zero("epoch 1: layer norm has no lead"),
)
tie("changes its errors by # to # points in", *ends("noise, errors in the end"))
tie("after fifteen epochs: # against # without", last("layer"), last("none"))
tie("the loss ends up to # lower", lambda: -page.bound("noise, loss in the end")())
tie("with noise, after # to # more in", *ends("after one epoch"))
tie("Detached, layer norm makes # to # points", *ends("detached, after three epochs"))
tie("After fifteen the interval is # to #, and", *ends("after fifteen"))
tie("and in test loss # to #. Whether", *ends("in test loss"))
tie("it ends with # to # points more errors at", *ends("over no norm"))
tie(
    "chosen rates, with # to # fewer at # for", *opposite("at 0.0003 for both"), code("none, lr=#)")
)
weight = "weight norm over none, one rate"
tie(
    "makes between # points fewer and # more errors after one",
    lambda: -page.bound(weight)(),
    found(weight, 1),
)
tie("Its test loss ends # to # lower", *opposite("its loss in the end"))
tie("train until the loss is #, with", code("if loss < #:"))
tie("gradient promises, at a loss of #. Bars are # %", code("if loss < #:"), PERCENT)
tie("shows at steps of # and more", code("(0.01, 0.03, #, 0.3)"))
tie("rough: a step of # goes uphill", code("(0.01, 0.03, #, 0.3)"))
tie("a step of its own size (#) yields", code("(torch.optim.SGD, #)"))
tie("RMS norm ends with between # points fewer and # more", *around_zero("RMS norm, errors"))
tie("the same test loss to within #. (claim-all)", page.bound("RMS norm, test loss", 1))

# claim by claim
tie("In training loss, at # and at #. In test loss at #, for", LARGE, SMALL, LARGE)
tie("does not say. | At #, # to # points more. At #,", LARGE, *ends(more), SMALL)
tie("more. At 4, # to # fewer. |", *ends("batch norm's over layer norm's"))
tie("From # to #, # to # points more errors; the", LARGE, SMALL, *ends(four("layer")))
tie("the paper's batch norm, # to #. | Yes", *ends(four("batch")))
tie(r"By $\eta/\lVert W\rVert^#$, exactly", power)
tie("epochs; after fifteen, # to # points more", *ends("after fifteen"))
tie("the mean can stay. | # to # points more", *ends("RMS norm, errors"))
tie("functions, and at batches of # both of them", SMALL)
tie(r"their learning rate, $\eta/\|W\|^#$; the runs", power)

# exercises
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
fresh = nn.BatchNorm1d(1)
tie("the stored mean # and variance #.", fresh.running_mean.item(), fresh.running_var.item())
limit = asked(exercises._why_the_modes_agree, r"abs\(\) <= (\d)")
tie("each between # and #, such that", -limit, limit)
tie("differs by at least # between", asked(exercises._why_the_modes_agree, r"apart < (\d)"))
odd = code("break_modes([2, 2, 2, #])")
batch = formula.layer_norm(torch.tensor([2.0, 2, 2, 1.9]), eps=0.0)  # over the samples
tie(r"become $\pm@$ and the fourth becomes $\mp@$", batch[0].item(), -batch[3].item())
tie("At inference it stays #.", odd)
tie("from the same # digits, so", TEST)
tie("how another # would differ", TEST)

free(
    "Table #, run",
    "one form, the paper's equation #. The",
    "The paper's table # has six",
    "the paper's table #, cell by",
    "Equations # and # Two",
    "are gone: equation #. (The",
    "scale with it: equation #.",
    "What table # leaves out",
    "Section #: all the norms",
    "Table #: weight norm",
    "Table #: not to",
    "Below equation #,",
    "adds and starts at #;",
    "multiplies and starts at #. |",
    "| Equation #:",
    "Equation # normalizes a sum",
    "Equation # normalizes its",
    "Equation # has three",
    "Section # of the paper trains",
    "The paper has # digits and # epochs",
    "Section # asks how far",
    "the paper's equation #: ```",
    "*Fisher matrix*, equation #. For",
    "Equation # gives the block",
    "becomes equation #. Does",
    "Equation # gives a positive",
    "In equations # to # the",
    "The paper: table #, equations # and #.",
    "Equation # is the Fisher",
    "Table # is older",
    "softmax. Equation #'s",
    why="numbers of the paper: its sections, tables, equations, digits and epochs",
)
free("Takeaways #. What", "batch norm. #. Under", "errors here. #. In front", why="of a list")
free(
    r"at $\delta=#$, and by",
    r"lower the loss by $\eta\,\|d\theta\|^#$",
    r"any part along $(#,\dots,#)$",
    r"the query $(#,\dots,#)$ gives",
    r"$a_i/\sqrt{\overline{a^#}}$",
    r"is proportional to $#/\|W\|$, by",
    r"section $\phi = #$, as",
    why="what a symbol means",
)
free(
    r"($\varepsilon = #$) has length $\|W\| = #$",
    r"has length $\|dW\| = #$",
    why="given in an exercise",
)
