"""The numbers of chapter 02, and what computes them."""

import re
from math import log10, sqrt

import numpy as np
import torch
from torch.autograd.functional import jacobian

from lnlib import LayerNorm, formula, layer_norm
from lnlib.book.explorers import EpsilonExplorer, epsilon
from ties import Page

page = Page("02_epsilon")
tie, code, found, free = page.tie, page.code, page.found, page.free


def row(name: str) -> torch.Tensor:
    """Return a row that the page's code writes out."""
    [written] = {
        m[1]
        for c in page.cells
        for m in re.finditer(rf"^{name} = (?:torch.tensor\()?\[(.*?)\]", c.source, re.MULTILINE)
    }
    return torch.tensor([float(n) for n in written.split(",")]).double()


def left(eps: float) -> float:
    return formula.layer_norm(FIVE, eps=eps).var(correction=0).item()


FIVE, ROW = row("features"), row("book_row")
EPS, START = torch.nn.LayerNorm(8).eps, EpsilonExplorer().eps
SMALL = code("for eps, expected, within in ((#, 0.286")()
T = formula.terms(ROW)
SIGMA, STRETCH = T.var.sqrt().item(), EPS**-0.5
AT = {"sigma": SIGMA, "epsilon": EPS}
SQUARE = log10((formula.terms(10 * ROW).var / T.var).item())  # of ten times the row, 10² times
CONSTANT = formula.terms(torch.full((8,), 3.0))
ZERO = CONSTANT.var.item()

# The question
tie("row of five features: #, #, #, #, #.", *map(float, FIVE))
tie("promises a variance of #.", left(0.0))
tie(r"do you get with $\varepsilon = #$? And", SMALL)
tie(r"PyTorch's default, $\varepsilon = #$?", EPS)
tie("guessed # with $#$, and # with $#$.", left(SMALL), SMALL, left(EPS), EPS)
tie("The variance of the row is $#$.", FIVE.var(correction=0).item())
tie(r"opening question has $\sigma^# = #$.", lambda: SQUARE, FIVE.var(correction=0).item())
tie(r"variance of # with $\varepsilon = #$,", left(SMALL), SMALL)
tie("and of # with $#$.", left(EPS), EPS)

# The law, and the explorer
tie("Dividing by $@$ instead", T.denominator.item(), **AT)
tie(r"For $\varepsilon = #$ the [knee", EPS)
tie(r"is at $\sigma \approx #$. Since", sqrt(EPS))
tie("has the units of $x^#$, whether", SQUARE)
tie(
    r"last of them fails: $\varepsilon = #$ rounds to # in it",
    START,
    lambda: torch.tensor(START).half(),
)
tie("chart at epsilon #.", START)
SPREADS = torch.tensor([0.0, *np.logspace(-7, 1, 321)]).double()
CURVES = epsilon.versions(SPREADS[:, None] * torch.tensor(epsilon.PATTERN).double(), START)
tie("rises from # to # around", *(CURVES[0].output_variance[i].item() for i in (0, -1)))
tie("at a spread of #, above", SPREADS[CURVES[2].gradient_size.isinf()].max().item())

# What it is for
tie(r"constant row, $\sigma = #$ and every deviation is #.", ZERO, CONSTANT.x_hat[0].item())
tie("What is #/#?", ZERO, ZERO)
COPIES = code("constant = np.full(3, #)")
tie("copies of # is not quite #. So", COPIES, COPIES)
TENTHS = np.full(3, COPIES())
TENTHS_OFF = (TENTHS - TENTHS.mean()) / TENTHS.std()
tie("error by another, and says $#$.", float(TENTHS_OFF[0]))
EXACTLY = layer_norm(torch.from_numpy(TENTHS), (3,))[0].item()
tie("it says almost #, and `lnlib` says exactly #.", EXACTLY, EXACTLY)
tie("stretches a vector by at most $@$,", T.rstd.item(), **AT)
tie(r"which is # for $\varepsilon = #$. For", STRETCH, EPS)
LARGE = np.full(3, code("large = np.full(3, #, dtype")(), dtype=np.float32)
MISSED = (LARGE - LARGE.mean()) / np.sqrt(LARGE.var() + EPS)
tie("three float32 copies of # into", code("large = np.full(3, #, dtype"))
tie("into $#$ instead of #.", float(MISSED[0]), formula.layer_norm(torch.tensor(LARGE))[0].item())
tie("and multiplied by $@$.", STRETCH, epsilon=EPS)

# Under the root or beside σ
tie(r"| | $@$ | $\sigma+\varepsilon$ |", T.denominator.item(), **AT)
tie("has the units of | $x^#$ |", SQUARE)
tie("on a constant row | $@$ | $@$ |", STRETCH, 1 / EPS, epsilon=EPS)
tie(r"| at $\varepsilon=#$ | # | # |", EPS, STRETCH, 1 / EPS)
NEAR = code("x = # * (book_row - 5) / 2\nclaim = ")
tie(r"Take $\varepsilon = #$ and a row of spread #.", EPS, NEAR)
tie(r"At $\sigma = #$ the second", ZERO)
tie(r"has a kink at #, like", ZERO)
tie(r"multiplied by $x - \mu = #$", CONSTANT.x_hat[0].item())
free(r"(I - \frac#H\mathbf #\mathbf #^\top)", why="the names of matrices")
tie("slope ∞ at #, and ∞ · # is NaN", ZERO, ZERO)
STD = jacobian(lambda x: x.std(correction=0), torch.full((5,), 3.0))
tie("its gradient as # there", STD[0].item())

# Half precision
HALF = torch.finfo(torch.float16)
TINY = HALF.smallest_normal * HALF.eps
tie("has numbers down to $#$ and up to #.", TINY, HALF.max)
tie("a deviation of # or more", sqrt(HALF.max))
LIKE = code("constant = torch.full((768,), #, dtype=dtype)")()
PRODUCT = LIKE * float(torch.tensor(EPS).sqrt().reciprocal())
tie("float16 row of # into #, although", LIKE, PRODUCT - float(np.float32(PRODUCT)))
tie("products are $#$, where", PRODUCT)
tie("float32 numbers are # apart", float(np.spacing(np.float32(PRODUCT))))
FOURTEEN = code("fourteens = torch.full((768,), #, dtype")


def miss(eps: float) -> float:
    """Return the rounding error of 14/√ε in float32."""
    product = FOURTEEN() * float(torch.tensor(eps).sqrt().reciprocal())
    return product - float(np.float32(product))


SMALLER = [code("for eps, error in ((#, 1.2e-4)"), code("1.2e-4), (#, -9.8e-4)")]
tie(r"did the same: at $\varepsilon = #$ a row of #s", SMALLER[0], FOURTEEN)
tie("came out as # {cite", lambda: miss(SMALLER[0]()))
tie(r"rounding error of $\mu/@$, so", T.denominator.item(), **AT)
tie("larger: at $#$ it is $#$.", SMALLER[1], lambda: miss(SMALLER[1]()))
free("the end of August #", why="a year")
tie(r"a variance of $#\,\varepsilon$, and", code("one + 1 / #,"))

# What ε cannot mend
tie(r"shortcut $\sigma^# = \overline{x^#} - \mu^#$ needs", SQUARE, SQUARE, SQUARE)
tie("negative results off at # {cite", torch.zeros(3).clamp(min=0).max().item())
tie(r"of size $\mu^#$ to get one of size $\sigma^#$,", SQUARE, SQUARE)
RUN = {"torch": torch}
exec(next(c.source for c in page.cells if "def worst_error" in c.source), RUN)


def error(way: str, mean: float) -> float:
    return float(RUN["worst_error"](RUN[way], mean))


def crossing() -> float:
    """Return the mean at which the error of one pass is 1, since it grows with the square."""
    mean = code("means = [1, 10, #, 1e3")()
    return mean / sqrt(error("one_pass", mean))


tie("passing # near a mean of #.", lambda: error("one_pass", crossing()), crossing)
tie("up to a mean of # and then", code("means = [1, 10, 100, #, 1e4"))
tie("At a mean of # spreads", code("worst_error(one_pass, #)"))
tie("digits even at #.", code("worst_error(corrected, #)"))
tie(r"At #, one pass returns negative variances, and $\varepsilon = #$", code("768) + #"), EPS)
tie("then grows to #. The", lambda: error("two_pass", code("1e3, 1e4, #]\nfor")()))

# Which ε do people use
KERAS, BERT = code("for eps in (#, 1e-5, 1e-12):")(), code("for eps in (1e-3, 1e-5, #):")()
tie(r"`pytorch_layernorm` | $#$ | $\sigma^#$", EPS, SQUARE)
free(r"`flax_layernorm` | $#$ |", r"| GPT-# {cite", "`transformers_gpt2` | $#$ |", why="cited")
free("(RMS norm: no mean) | $#$ |", "Transformer {cite:p}`rush2018` | $#$ |", why="cited")
tie(r"`keras_layernorm` | $#$ | $\sigma^#$", KERAS, SQUARE)
tie(r"`transformers_bert` | $#$ | $\sigma^#$", BERT, SQUARE)
tie(r"| $\sigma^#$ | | Keras", SQUARE)
tie(r"| $\sigma^#$ | | T5", SQUARE)
tie("mean of $x^#$ |", SQUARE)
tie("None is $#$; float16", code("tiny = torch.tensor(#, dtype=half)"))
tie(r"Keras is at $\sigma = #$, that of BERT at $#$.", sqrt(KERAS), sqrt(BERT))
tie("has a variance of #, and $#$ is safe", found("the flattest digit's variance"), EPS)
tie("blank ones aside, has $#$; there $#$ takes", found("the flattest line's variance"), EPS)

# Takeaways, exercises, fine print
free(
    "#. Far below a spread",
    r"#. $\varepsilon$ turns the NaN",
    "#. It does not repair",
    why="a list",
)
ONE = LayerNorm(1).weight.item()
tie(r": # for $\gamma = #$ and $\varepsilon = #$.", STRETCH, ONE, EPS)
WIDE, SHARE = code("choose_eps(#**2 / 9)")(), code("choose_eps(0.01**2 / #)")()
KEPT = WIDE**2 / (WIDE**2 + WIDE**2 / SHARE)
tie("a standard deviation of #. Which", WIDE)
tie("variance of exactly #?", KEPT)
SOLVED = {"sigma": WIDE, "epsilon": WIDE**2 / SHARE}
tie(r"Solve $@ = #$: $\varepsilon = @$.", KEPT, KEPT, SOLVED["epsilon"], **SOLVED)
tie(r"from $@$ with $\varepsilon = #$ to a", T.denominator.item(), EPS, **AT)


def beside(std: float) -> float:
    """Return the ε beside σ that gives the same denominator."""
    return sqrt(std**2 + EPS) - std


tie(r"equal: $\varepsilon' = @$.", beside(SIGMA), **AT)
tie(r"on $\sigma$: # for a constant row, and nearly # for", beside(0), beside(100))
tie(r"subnormal number is $@ \approx #$. Half of it, $@$,", TINY, TINY, TINY / 2)


def stretched(features: int, spread: float) -> bool:
    """Tell whether some direction is stretched by one over the denominator."""
    x = spread * torch.arange(features).double()
    J = jacobian(formula.layer_norm, x)
    most = formula.terms(x).rstd.item()
    return abs(torch.linalg.matrix_norm(J, ord=2).item() / most - 1) < 1e-9


def fewest(spread: float) -> int:
    return next(features for features in range(1, 9) if stretched(features, spread))


tie(r"The stretch $@$ is reached", T.rstd.item(), **AT)
tie(r"for $H \ge #$, and on a constant row for $H \ge #$.", lambda: fewest(1), lambda: fewest(0))
tie(r"$\varepsilon = #$ is legal", code("y = formula.layer_norm(torch.full((8,), 3.0), eps=#)"))
