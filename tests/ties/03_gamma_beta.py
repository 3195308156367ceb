"""The numbers of chapter 03, and what computes them."""

from math import atan, log10

import bench_gamma_beta as bench
import numpy as np
import torch
from torch.autograd.functional import jacobian

from lnlib import LayerNorm, formula
from lnlib.book.data import TRAIN, mnist
from lnlib.book.exercises import chapter_03
from lnlib.book.records import seeds
from lnlib.book.records.tables import recorded
from ties import Page

page = Page("03_gamma_beta")
tie, code, free = page.tie, page.code, page.free

ROW = chapter_03._ROW
T = formula.terms(ROW, eps=0.0)
AT = {"sigma": T.var.sqrt().item(), "epsilon": torch.nn.LayerNorm(8).eps}
SQUARE = log10((formula.terms(10 * ROW).var / formula.terms(ROW).var).item())
DENOMINATOR = formula.terms(ROW).denominator.item()
FRESH = LayerNorm(1)
ONE, NONE = FRESH.weight.item(), FRESH.bias.item()
ZERO = T.x_hat.mean().item()

# The question, and one γ and one β
free("each of its # features", why="an example")
GAMMA, BETA = code("gamma = # / by_layer.std")(), code("beta = # - gamma")()
tie(r"On average $\gamma$ is # and $\beta$ is #.", GAMMA, BETA)
tie('"Mean # and standard deviation #" is', BETA, GAMMA)
tie("γ and β start at # and # PyTorch", ONE, NONE)
tie(r"starts with $\gamma_i = #$ and $\beta_i = #$,", ONE, NONE)
FLAT = torch.tensor([1.0, 1.0, 1.1, 0.9, 1.0]).double() * 1e-3
NORMED = formula.layer_norm(FLAT)
SPREADS = [row.std(correction=0).item() for row in (NORMED, formula.layer_norm(NORMED))]
tie("leaves a standard deviation of #, and a second one #.", *SPREADS)
tie("Take a skewed row of # numbers", code("Exponential(1.0).sample((#,))"))
tie(r"small beside $\sigma^#$. But", SQUARE)

# One γ and one β for each feature
tie(r"that of $\hat x$ is at most #. The", T.x_hat.std(correction=0).item())
tie(r"the last feature has $\hat x = #$. [Raise its", T.x_hat[-1].item())
tie(r"from # to #, with $\beta = #$:", ONE, code("loud[-1] = #"), NONE)
LIFTED = formula.layer_norm(ROW, T.x_hat, eps=0.0).mean().item()
tie(r", $\gamma = \hat x$ averages #, and without $\beta$ gives the row the mean #:", ZERO, LIFTED)

# Four reasons
tie(r"With $\gamma = @$ and $\beta=\mu$", DENOMINATOR, **AT)
FARTHEST = formula.terms(-torch.eye(len(ROW))[0], eps=0.0).x_hat.min().item()
tie(r"With $\beta = #$ it [cuts", code("bias=torch.full((8,), #))"))
tie("features is below $@$, by", FARTHEST)
DIGITS = code("digits.train_images[:#].flatten")
tie("are # random features of # digits", code("torch.randn(784, #).double() / 28"), DIGITS)
tie("leave in each of # digits", DIGITS)
tie(r"$\gamma_i = #$ [silences", code("weight[3] = #"))

# The picture
POINT = torch.tensor([0.2, 2.5, 1.1]).double()
P = formula.terms(POINT)
ONES = torch.ones(3).double()
RADIUS = P.x_hat / P.x_hat.norm()
J = jacobian(formula.layer_norm, POINT)
PLACE = {"sigma": P.var.sqrt().item(), "epsilon": AT["epsilon"], "s": P.denominator.item()}
free("#. Subtracting the mean", "#. Dividing by", r"#. $\gamma$ [stretches", why="a list")
tie("along $(#, #, #)$, onto", *map(float, ONES))
tie("Dividing by $@$ moves", P.denominator.item(), **PLACE)
tie("a circle of radius $@$;", formula.terms(POINT, eps=0.0).x_hat.norm().item())
tie("along $(#,#,#)$: the shadow", *map(float, ONES))
tie("step along $(#,#,#)$ by #,", *map(float, ONES), round((J @ ONES).norm().item(), 9))
tie("along the radius by $@$, with $s=@$,", (RADIUS @ J @ RADIUS).item(), PLACE["s"], **PLACE)
tie("and along the circle by $@$.", torch.linalg.matrix_norm(J, ord=2).item(), **PLACE)

# First values
USUAL, SMALL, LARGE, NO = "γ = 1, β = 0", "γ = 0.1", "γ = 10", "γ = 0"
FIRST = {name: setting.gammas[1] for name, setting in bench.SETTINGS.items()}
START = bench.SETTINGS[USUAL].beta


def column(name: str, key: str = "test_loss") -> np.ndarray:
    return recorded("gamma_beta", setting=name)[key]


def late(name: str) -> float:
    return float(np.median(column(name)[-5:]))


def meeting(place: int) -> float:
    """Return a step, after the start, of the two at which the bands of γ = 1 and 0.1 meet."""
    gap = column(SMALL) - column(USUAL)
    meet = gap <= column(SMALL, "test_loss_pm") + column(USUAL, "test_loss_pm")
    first, last = column(USUAL, "step")[1:][meet[1:]]
    return float((first, last)[place])


tie(r"What if $\gamma$ does not start at #?", ONE)
tie("hidden layers of # features", bench.network(bench.Setting())[0].out_features)
tie("learns the book's # digits", TRAIN)
tie("a learning rate of # and batches of #.", bench.RATE, bench.BATCH)
tie("records # seeds for each", bench.SEEDS)
tie("Loss on # test digits from", lambda: len(mnist().test_labels))
tie(r"with $\beta = #$ and a learning rate of #. Bands", START, bench.RATE)
PERCENT = 100 * seeds._share(atan(bench.T_95 / (bench.SEEDS - 1) ** 0.5), bench.SEEDS - 1)
tie("Bands are # % intervals", PERCENT)
tie(r"Notice that $\gamma = #$ is lowest", FIRST[USUAL])
tie(r"The loss of $\gamma = #$ stays where", FIRST[NO])
tie(r"band meets that of $\gamma = #$ at", FIRST[SMALL])
tie("at steps # and #. The", lambda: meeting(0), lambda: meeting(1))
tie("Gamma # falls soonest and ends lowest, near #.", FIRST[USUAL], lambda: column(USUAL)[-1])
tie("Gamma # starts later and ends near #.", FIRST[SMALL], lambda: column(SMALL)[-1])
TOP = code("ylim=(0.12, #)")  # of the picture
tie("Gamma # comes down from above #", FIRST[LARGE], lambda: min(TOP(), max(column(LARGE))))
tie("above 60 and ends near #.", lambda: column(LARGE)[-1])
tie("Gamma # stays at # throughout", FIRST[NO], lambda: column(NO)[-1])
tie(r"the median loss is # with $\gamma = #$,", lambda: late(USUAL), FIRST[USUAL])
tie("# with # and # with #.", lambda: late(SMALL), FIRST[SMALL], lambda: late(LARGE), FIRST[LARGE])
tie(r"Starting from #, $\gamma$ itself", FIRST[USUAL])
tie("ends at # in the first", lambda: column(USUAL, "gamma_1")[-1])
tie("layer and at # in the second", lambda: column(USUAL, "gamma_2")[-1])
tie(r"Why does $\gamma = #$ do worse", FIRST[LARGE])
tie(r"with $\gamma = #$ in the first layer alone", bench.SETTINGS["γ = 10 in layer 1"].gammas[0])
tie("show no difference from #.", FIRST[USUAL])
tie("many steps from # as from #.", FIRST[LARGE], FIRST[USUAL])
tie(r"Training from $\gamma = #$ and $\beta = #$ in", FIRST[LARGE], START)
tie(r"*is* training from $\gamma = #$ there", FIRST[USUAL])
tie("# times the rate for that matrix", code("logits_after(1.0, 10 * last, 0.1 / 100, 0.1 * #)"))
tie(r"γ = # With $\gamma = #$ and $\beta = #$ the", FIRST[NO], FIRST[NO], START)
PUT_OUT = formula.layer_norm(ROW, torch.zeros(8)).abs().max().item()
tie("passes no gradient at #.", PUT_OUT)
tie("whose input is #. Only", PUT_OUT)
tie(r"A $\beta$ of # lets", bench.SETTINGS["γ = 0, β = 0.1"].beta)
tie("after # steps it still guesses", code("right[at <= #]"))
tie("and after # nine in", code("right[at >= #]"))
DEAD = bench.SETTINGS["β = -3"]
tie(r"A $\beta$ of $#$, with $\gamma = #$, also", DEAD.beta, DEAD.gammas[1])
tie(r"residual branch, $\gamma = #$ is", FIRST[NO])

# Weight decay
BOTH = "decay on W, γ, β"
tie("every parameter toward #, and", ZERO)
tie("with a decay of # on", bench.SETTINGS[BOTH].decay)
tie("gamma falls from # to # along", *(lambda i=i: column(BOTH, "gamma_1")[i] for i in (0, -1)))
tie("throughout and ends at #.", lambda: column(BOTH, "gamma_2")[-1])
tie("the median loss is # without decay", lambda: late(USUAL))
tie("# with decay on the matrices alone", lambda: late("decay on W"))
tie(r"alone and # with decay on $\gamma$", lambda: late(BOTH))
free(r"in layer # $\gamma$ decays", "; in layer # the loss", why="the names of layers")

# Takeaways, exercises, fine print
free(r"#. With one $\gamma$ and", r"#. $\gamma$ and $\beta$ undo", "#. On the way", why="a list")
tie(r"taken out: $(#,\dots,#)$ and", ONES[0].item(), ONES[-1].item())
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
tie("of eight features exceeds $@$, by", -FARTHEST)
tie(r'"with $\beta = #$ the mean of $y$ is #".', BETAS[0], ZERO)
tie(r"eight $\gamma$ that average # and lift", (1 + T.x_hat).mean().item())
tie(r"out: $\gamma = # + \hat x$ averages #, and", ONE, (ONE + T.x_hat).mean().item())
tie("with itself, which is #.", T.x_hat.square().mean().item())
tie(r"only for $\varepsilon = #$. The", code("formula.layer_norm(book_row, row_hat, eps=#)"))
