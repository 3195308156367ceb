"""The numbers of chapter 09, and what computes them."""

import inspect
import re
from math import sqrt

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


def ends(claim):
    """Return sources: both ends of the interval that a check has found."""
    return found(claim, 0), found(claim, 1)


def around_zero(claim):
    """Return sources: how far an interval reaches below zero, and how far above."""
    low, high = ends(claim)
    return lambda: -low(), high


def results(norm, experiment, column):
    return norms.digits(norm, experiment, column)


def last(norm, column="test_loss", experiment="batch"):
    return lambda: results(norm, experiment, column).mean[-1]


def picked(*names):
    """Return a source: percent wrong after an epoch, at the rate that its loss picks."""
    return lambda: sum(norms.after(1, norm).mean[0] for norm in names) / len(names)


def row(norm, experiment):
    """Return sources: the rate, errors after one epoch and after the last, and the last loss."""

    def part(column, name, epoch):
        return lambda: getattr(results(norm, experiment, column), name)[epoch]

    errors = (part("test_error", name, epoch) for epoch in (0, -1) for name in ("mean", "half"))
    return (lambda: norms.best_rate(norm, experiment)), *errors, part("test_loss", "mean", -1)


def asked(thing, pattern):
    """Return a number that an exercise has in its code."""
    return float(re.search(pattern, inspect.getsource(thing))[1])


# the answers
tie("Its test loss, at batches of #, is lower for", LARGE)
batches = "At batches of #, layer norm makes # to # points more errors than batch norm. At"
more = "at 128 layer norm's errors differ from"
tie(batches, LARGE, *ends(f"{more} batch norm's by"))
fewer = "at 4 batch norm's errors differ from layer norm's by"
tie("norm. At batches of #, it makes # to # points fewer.", SMALL, *ends(fewer))
rise = "from 128 to 4, {} errors change by".format
tie("At batches of #, layer norm makes between", SMALL)
tie(
    "makes between # points fewer and # points more errors than", *around_zero(rise("layer norm's"))
)
tie("more errors than at batches of #, and the", LARGE)
tie("the paper's batch norm makes # to # points more.", *ends(rise("batch norm's")))

# table 1
zeros, _ = table_1.weight_norm(table_1.random_layer(0))
tie(r"has $\mu_i=#$, and its $\sigma_i$ is", zeros.abs().max().item())
tie("with a factor of # or a shift of about #.", DELTA, DELTA)
tie("Both equations hold for # random layers", code("for case in range(#)"))
eps = code("2.1, 0.25), #")
tie(r"share, about $@$. At", lambda: eps() / 2 / 0.7**2, epsilon=1e-5, delta=2, sigma=0.35)
KNEE = formula.layer_norm(torch.tensor([-0.3, 0.3]), eps=0.3**2).std(correction=0)
tie(r"At the knee, $\delta\sigma=\sqrt\varepsilon$, it loses # %", 100 * (1 - KNEE.item()))
tie(r"$\sqrt\varepsilon = #$: to its right", lambda: sqrt(eps()))
tie("near one up to a spread of #, marked", lambda: sqrt(eps()))

# one sample
tie("Give both networks the # test digits in fours", TEST)

# how networks are compared
tie("a plain network, #–#–#–#,", mlp.PIXELS, mlp.HIDDEN, mlp.HIDDEN, mlp.CLASSES)
tie("Batches of # Section", LARGE)
tie("batch norm and layer norm, at batches of # and of #.", LARGE, SMALL)
tie("the book's # digits, of which # choose", TRAIN, TRAIN / mlp.VALID_EVERY)
tie("rate and # train, and # to test on", TRAIN - TRAIN / mlp.VALID_EVERY, TEST)
tie("clipping. At batches of # batch norm divides by", SMALL)
weights = torch.tensor([1.0, 2.0, 4.0, 9.0])
unbiased = weights.var(correction=0) / weights.var() * 4  # (B − 1) / B of it, times B
tie("norm divides by $@$, as in the paper", unbiased, B=4)
tie("There are five seeds at # and three at #.", LARGE, SMALL)
tie("and take the # % interval of the mean", PERCENT)
tie("from the same # digits, so", TEST)
tie("how another # would differ", TEST)
for norm, name in (
    ("none", "no norm"),
    ("batch", "the paper's batch norm"),
    ("batch-hidden", "batch norm, hidden layers"),
    ("layer", "layer norm"),
):
    cells = f"{name} | # | # ± # | # ± # | # |"
    for batch, experiment, size in ((128, "batch", LARGE), (4, "small-batch", SMALL)):
        tie(f"| {batch} | {cells}", *row(norm, experiment))
        tie(f"| # | {name} | {norms.best_rate(norm, experiment):g} |", size)

# batches of 128
tie("errors on # test digits, at batches of # (above) and of # (below)", TEST, LARGE, SMALL)
tie("Bands are # % intervals of the mean", PERCENT)
tie("loss and, at #, the fewest errors; at batches of # it has", LARGE, SMALL)
tie("Four panels. At batches of # the training", LARGE)
tie("are lowest, near # percent, layer norm", last("batch", "test_error"))
tie("layer norm near #, no norm near #.", last("layer", "test_error"), last("none", "test_error"))
tie("no norm near 4. At batches of # layer norm and", SMALL)
tie("training loss and errors, near # percent", last("layer", "test_error", "small-batch"))
tie("ends lowest, at its rate of #. At", lambda: norms.best_rate("none", "batch"))
tie("In the end layer norm makes # to # points more errors, and", *ends(f"{more} batch norm's by"))
tie("and # to # points more than batch norm on the", *ends(f"{more} hidden batch norm's by"))
tie("makes between # points fewer and # points more. The", *around_zero(f"{more} no norm's by"))
tie("both make # % errors after", picked("none", "layer"))
tie("√# times as large", code("(1, #**0.5)"))
tie("After one epoch of # digits, with hidden layers of #,", FEW, code('"hidden": #, "epochs"'))

# batches of 4
tie("Batches of # How many", SMALL)
tie("in batches of # than after three epochs in batches of #?", SMALL, LARGE)
tie("picks the same rates at # as", LARGE)
tie("| Network | Additional errors at batches of # |", SMALL)
tie("| layer norm | # to # |", *ends(rise("layer norm's")))
tie("| no norm | # to # |", *ends(rise("no norm's")))
tie("| batch norm, hidden layers | # to # |", *ends(rise("hidden batch norm's")))
tie("| the paper's batch norm | # to # |", *ends(rise("batch norm's")))
tie("makes # % errors after the third epoch", found("at 4 batch norm makes 9 % errors"))
tie("third epoch, and layer norm # %.", found("at 4 layer norm makes 5 % errors"))
plain = "at 4 layer norm's errors differ from no norm's by"
tie("layer norm makes between # points fewer and # points more. [", *around_zero(plain))
tie("no benefit from the # times as many", lambda: LARGE() / SMALL())
tie("at inference? At # its errors", LARGE)
little = page.bound("batch norm's errors change little at 128", 1)
tie("change by less than # points. At # it", little, SMALL)
tie("it fails: # % of the", found("with its batches, 20 % of the answers are wrong"))
tie("are wrong instead of # %", found("with what is stored, 9 % are wrong"))
tie("with momentum #, remember some", nn.BatchNorm1d(1).momentum)

# by the clock
tie("took nearly a third longer at # than", LARGE)
tie("CPU core. Notice that at # layer norm takes", LARGE)
tie("against CPU seconds, at batches of # and of #. At # the", LARGE, SMALL, LARGE)
tie("curve ends at about # seconds", last("layer", "cpu_seconds"))
tie("the others at about #. At", last("none", "cpu_seconds"))
seconds = last("layer", "cpu_seconds", "small-batch")
tie("at about 15. At # all take about # seconds", SMALL, seconds)
tie("functions, and at batches of # it makes", SMALL)

# exercises
fresh = nn.BatchNorm1d(1)
tie("the stored mean # and variance #.", fresh.running_mean.item(), fresh.running_var.item())
limit = asked(exercises._why_the_modes_agree, r"abs\(\) <= (\d)")
tie("each between # and #, such that", -limit, limit)
tie("differs by at least # between", asked(exercises._why_the_modes_agree, r"apart < (\d)"))
odd = code("break_modes([2, 2, 2, #])")
batch = formula.layer_norm(torch.tensor([2.0, 2, 2, 1.9]), eps=0.0)  # over the samples
tie(r"become $\pm@$ and the fourth becomes $\mp@$", batch[0].item(), -batch[3].item())
tie("At inference it stays #.", odd)

free(
    "that the paper's table # lists",
    "Table #, run",
    "one form, the paper's equation #. The",
    "The paper's table # says",
    "the paper's table #, cell by",
    "Equations # and # Two",
    "That is the paper's equation #, where",
    "scale with it. That is equation #:",
    "What table # leaves out",
    "Section # of the paper trains",
    "The paper has # digits and # epochs",
    "Table # is older",
    why="numbers of the paper: its sections, tables, equations, digits and epochs",
)
free("Takeaways #. What", "norm's. #. Under", "either mode. #. In these", why="of a list")
free(r"$a_i/\sqrt{\overline{a^#}}$", why="what a symbol means")
