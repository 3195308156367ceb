"""The numbers of chapter 11, and what computes them."""

from math import atan

import bench_gamma_beta as bench
import numpy as np
import torch

from lnlib import LayerNorm, formula
from lnlib.book.data import TRAIN, mnist
from lnlib.book.exercises import chapter_11
from lnlib.book.records import seeds
from lnlib.book.records.tables import recorded
from ties import Page

page = Page("11_training_gamma_beta")
tie, code, found, free = page.tie, page.code, page.found, page.free

FRESH = LayerNorm(1)
ONE, ZERO = FRESH.weight.item(), FRESH.bias.item()

# The question
COUNTED = bench.network(bench.Setting())
tie(
    "may learn: # of its # numbers",
    sum(p.numel() for p in bench.of_norms(COUNTED)),
    sum(p.numel() for p in COUNTED.parameters()),
)
ALONE, FAST = "γ, β alone", "γ, β alone, rate 1"
tie("after # steps at a learning rate of #. At", bench.STEPS[-1], bench.SETTINGS[FAST].rate)
tie("At the rate of #, which", bench.SETTINGS[ALONE].rate)

# First values
USUAL, SMALL, LARGE, NO = "γ = 1, β = 0", "γ = 0.1", "γ = 10", "γ = 0"
FIRST = {name: setting.gammas[1] for name, setting in bench.SETTINGS.items()}
START = bench.SETTINGS[USUAL].beta


def column(name: str, key: str = "test_loss") -> np.ndarray:
    return recorded("gamma_beta", setting=name)[key]


def late(name: str) -> float:
    return float(np.median(column(name)[-5:]))


def meeting() -> float:
    """Return the one step, after the start, at which the bands of γ = 1 and 0.1 meet."""
    gap = column(SMALL) - column(USUAL)
    meet = gap <= column(SMALL, "test_loss_pm") + column(USUAL, "test_loss_pm")
    (step,) = column(USUAL, "step")[1:][meet[1:]]
    return float(step)


tie(r"What if $\gamma$ does not start at #?", ONE)
tie("hidden layers of # features", bench.network(bench.Setting())[0].out_features)
tie("learns the book's # digits", TRAIN)
tie("a learning rate of # and batches of #.", bench.RATE, bench.BATCH)
tie("records # seeds for each", bench.SEEDS)
tie("Loss on # test digits from", lambda: len(mnist().test_labels))
tie(r"with $\beta = #$ and a learning rate of #. Bands", START, bench.RATE)
PERCENT = 100 * seeds._share(atan(bench.T_95 / (bench.SEEDS - 1) ** 0.5), bench.SEEDS - 1)
tie("Bands are # % intervals of the mean over ten seeds. Notice that $", PERCENT)
tie(r"Notice that $\gamma = #$ is lowest", FIRST[USUAL])
tie(r"The loss of $\gamma = #$ stays where", FIRST[NO])
tie(r"band meets that of $\gamma = #$ at", FIRST[SMALL])
tie("at step #. The", meeting)
tie("Gamma # falls soonest and ends lowest, near #.", FIRST[USUAL], lambda: column(USUAL)[-1])
tie("Gamma # starts later and ends near #.", FIRST[SMALL], lambda: column(SMALL)[-1])
TOP = code("ylim=(0.12, #)")  # of the picture
tie("Gamma # comes down from above #", FIRST[LARGE], lambda: min(TOP(), max(column(LARGE))))
tie("above 60 and ends near #.", lambda: column(LARGE)[-1])
tie("Gamma # stays at # throughout", FIRST[NO], lambda: column(NO)[-1])
tie(r"$\gamma = #$ is lowest at every recorded step but the first. Over", FIRST[USUAL])
tie(r"the median loss is # with $\gamma = #$,", lambda: late(USUAL), FIRST[USUAL])
tie(
    "# with # and # with #, and",
    lambda: late(SMALL),
    FIRST[SMALL],
    lambda: late(LARGE),
    FIRST[LARGE],
)
tie(r"interval of $\gamma = #$ overlaps", FIRST[USUAL])
tie(r"Starting from #, $\gamma$ hardly", FIRST[USUAL])
tie("ends at # in the first", lambda: column(USUAL, "gamma_1")[-1])
tie("layer and at # in the second", lambda: column(USUAL, "gamma_2")[-1])
tie("Starting from #, the second", FIRST[SMALL])
tie(r"Why does $\gamma = #$ do worse", FIRST[LARGE])
tie(r"with $\gamma = #$ in the first layer alone", bench.SETTINGS["γ = 10 in layer 1"].gammas[0])
tie("show no difference from #.", FIRST[USUAL])
tie(r"With $\gamma = #$ in the second", bench.SETTINGS["γ = 10 in layer 2"].gammas[1])
tie("no difference from # in both.", FIRST[LARGE])
tie(r"a $\gamma$ of # changes", FIRST[LARGE])
tie("many steps from # as from #.", FIRST[LARGE], FIRST[USUAL])
tie(r"training from $\gamma = #$ and $\beta = #$ in", FIRST[LARGE], START)
tie(r"*is* training from $\gamma = #$ there", FIRST[USUAL])
tie("# times the rate for that matrix", code("logits_after(1.0, 10 * last, 0.1 / 100, 0.1 * #)"))
tie(r"With $\gamma = #$ and $\beta = #$ the norm puts", FIRST[NO], START)
tie("When γ is #, and", FIRST[NO])
PUT_OUT = formula.layer_norm(torch.randn(8), torch.zeros(8)).abs().max().item()
tie("passes no gradient at #.", PUT_OUT)
tie("whose input is #. Only", PUT_OUT)
tie(r"A $\beta$ of # lets", bench.SETTINGS["γ = 0, β = 0.1"].beta)
tie("after # steps it still guesses", code("right[at <= #]"))
tie("and after # nine in", code("right[at >= #]"))
DEAD = bench.SETTINGS["β = -3"]
tie(r"A $\beta$ of $#$, with $\gamma = #$, also", DEAD.beta, DEAD.gammas[1])
tie(r"A $\beta$ of # does the", bench.SETTINGS["β = 3"].beta)
tie("every value above #, where", PUT_OUT)
tie(r"behind $\beta = #$ at", START)
tie(r"residual branch, $\gamma = #$ is", FIRST[NO])

# Freeze them, or train them alone
tie("frozen at # and #, does", ONE, ZERO)
tie("Share of # test digits", lambda: len(mnist().test_labels))
tie("by what learns. Bands are # % intervals", PERCENT)


def rising() -> float:
    """Return by which recorded step both upper curves have reached 0.9."""
    both = np.minimum(column(USUAL, "accuracy"), column("γ, β frozen", "accuracy"))
    return float(column(USUAL, "step")[both > 0.895][0])


tie("curves rise within # steps to #", lambda: 100 * np.ceil(rising() / 100), 0.9)
tie("and end together at #.", lambda: column(USUAL, "accuracy")[-1])
tie("slowly: to # at rate #,", lambda: column(FAST, "accuracy")[-1], bench.SETTINGS[FAST].rate)
tie("and to # at rate #.", lambda: column(ALONE, "accuracy")[-1], bench.SETTINGS[ALONE].rate)
tie("These # numbers are", sum(p.numel() for p in bench.of_norms(COUNTED)))
tie("trained for # steps", code("train(trained, digits.train_images, #)"))
tie("changed digits for # steps", code("train(tried, change(digits.train_images), #)"))
tie(r"the # numbers $\gamma$ and $\beta$", sum(p.numel() for p in bench.of_norms(COUNTED)))
tie("last layer with its #:", sum(p.numel() for p in COUNTED[-1].parameters()))
DARK, DIM = code("return # + 0.3 * images"), code("return 0.5 + # * images")
tie(r"makes $# + #\,x$ of", DARK, DIM)
tie(r"becomes $#\,Wx + #\,W\mathbf 1$", DIM, DARK)

# Weight decay
BOTH = "decay on W, γ, β"
tie("every parameter toward #, and", ZERO)
tie("with a decay of # on", bench.SETTINGS[BOTH].decay)
tie("gamma falls from # to # along", *(lambda i=i: column(BOTH, "gamma_1")[i] for i in (0, -1)))
tie("throughout and ends at #.", lambda: column(BOTH, "gamma_2")[-1])
tie("the median loss is # without decay", lambda: late(USUAL))
tie("# with decay on the matrices alone", lambda: late("decay on W"))
tie(r"alone and # with decay on $\gamma$", lambda: late(BOTH))
free(r"In layer # $\gamma$ decays", "In layer # the loss", why="the names of layers")


# Takeaways, exercises
free(r"#. Training hardly", r"#. $\gamma$ and $\beta$ alone make", "#. Weight decay", why="a list")
tie(r"moved a $\gamma$ of # here", FIRST[USUAL])
tie(r"step sizes. $\gamma = #$ and $\beta = #$ in front", FIRST[NO], START)
tie(r"a $\gamma$ that starts at #. With a learning rate of #", ONE, bench.RATE)
tie("and a weight decay of #, after", bench.SETTINGS[BOTH].decay)
FARTHEST = formula.terms(torch.eye(8)[0].double(), eps=0.0).x_hat.max().item()
KEPT = 1 - bench.RATE * bench.SETTINGS[BOTH].decay
tie("multiplies $\\gamma$ by $@ = #$.", KEPT, KEPT)
tie("is $#^n$.", KEPT)
tie(r"features have $\gamma = #$ and the same", 2 * FARTHEST / 7**0.5)
tie("of eight features exceeds $@$, so", FARTHEST)
tie(r"so $#\hat x_i+\beta$ is never above # for", 2, PUT_OUT)
tie(r"$\beta\le@$. No", chapter_11.all_cut._truth[0][0].item())
GAMMAS = [
    code(f"firsts = ({part}) if what")() for part in ("#, 0.1, 3.0", "1.0, #, 3.0", "1.0, 0.1, #")
]
BETAS = [code(f"else ({part})\n")() for part in ("#, 1.0, -4.0", "0.0, #, -4.0", "0.0, 1.0, #")]
tie(r"solid line, $\gamma = #$ and $\beta = #$, is", GAMMAS[0], BETAS[0])
tie(r"lose time: $\gamma = #$ starts slowly, and $\beta = #$ never", GAMMAS[1], BETAS[2])
tie("Left, beta is #: gamma # falls at once, gamma # falls slowly", BETAS[0], *GAMMAS[:2])
tie("slowly, gamma # rises", GAMMAS[2])
tie("Right, gamma is #: beta # starts higher than beta #", GAMMAS[0], BETAS[1], BETAS[0])
tie("and beta minus # is a flat", -BETAS[2])
tie(r"With $\beta = #$ the output", BETAS[0])
tie(r"So $\gamma = #$ makes the first steps short, and $\gamma = #$ makes", *GAMMAS[1:])
tie(r"Here $\gamma = #$ still", GAMMAS[2])
tie(r"With $\beta = #$ the ReLU cuts", BETAS[2])
tie("of eight features exceeds $@$, by", FARTHEST)
