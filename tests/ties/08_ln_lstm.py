"""The numbers of chapter 08, and what computes them."""

import math
import re

import torch

import lnlib
from lnlib.book.data import mnist
from lnlib.book.exercises import chapter_08 as exercises
from lnlib.book.experiments.recurrent import STEPS, Config
from lnlib.book.experiments.sequential_mnist import scaled
from ties import Page

page = Page("08_ln_lstm")
tie, code, found, bound, free = page.tie, page.code, page.found, page.bound, page.free


def first_value(parameter: torch.nn.Parameter | None) -> float:
    assert parameter is not None
    return parameter[0].item()


H = Config().hidden
ROWS = STEPS["rows"]
CELL = lnlib.LayerNormLSTMCell(3, 7)
QUARTER = CELL.weight_hh.shape[0] // CELL.hidden_size  # 4H over H
NORM = lnlib.LayerNorm(3)
GAMMA, BETA = first_value(NORM.weight), first_value(NORM.bias)
EPS = code("def N(a, eps=#)")()
FACTOR = found("with zero bias a blank row multiplies the gradient")
NOTHING = torch.zeros(1)
OPEN = NOTHING.sigmoid().item()
SOURCE = re.search(r"eq\. (\d+) to (\d+)", lnlib.LayerNormLSTM.__doc__ or "")
FROM, TO = (int(number) for number in SOURCE.groups()) if SOURCE else (0, 0)
tie("equations #, # and #, with one bias", FROM, FROM + 1, TO)
tie("equations # to #, with the gates", FROM - 3, FROM - 1)  # as many lines without norms
tie("the paper's eq. #–#, haste", FROM, TO)
tie("Below equation #", TO)
free("equation # puts one norm", "DRAW model, eq. #–#", "(equations # to #)", why="the paper's")
free("its equation # has", "Sonnet # {cite:p}`sonnet_lstm`", why="the paper's, a name")
free("#. In a layer-n", "#. No norm lies on the cell", "#. Of an input that", why="a list")
tie(r"has an $\varepsilon$ of $#$, under", EPS)
free(r"$\varepsilon$ is $#^{-#}$ or $#^{-#}$, and", why="cited")
free('additive and multiplicative parameters", starting at # and #;', why="cited")
free(r"divided by $\sqrt{\sigma^#+\varepsilon}$.", why="a square")

# The question
tie("With a state of # features, each row multiplies the gradient by about #, nearly", H, FACTOR)
free("nearly $#^{2", why="a base")
tie("nearly $10^{#}$ in all", lambda: 5 * math.log10(FACTOR()))

# Why another norm
tie("sequence of # rows of # pixels", ROWS, code("equals=(8000, 28, #))"))
tie("right of row #, where", ROWS)
tie("Over # digits it is", Config().rows)
SHADED = code("ax.axvspan(#, 36,")() + 1
tie("Rows # to # are shaded", SHADED, code("ax.axvspan(28, #,"))
FIRST, LATER = code("by_step[#], below=0.02")(), code("by_step[#], above=0.2")()
tie("statistics of step # are not those of step #.", FIRST + 1, LATER + 1)
tie(r"$\gamma$ starts at # and $\beta$ at #, which", GAMMA, BETA)
tie("where the slope is near # and", lambda: float(1 - torch.tanh(torch.tensor(9.0)) ** 2))

# The cell
tie("product makes $#H$ summed", QUARTER)
tie("on the left are over all $#H$ sums.**", QUARTER)
tie("wastes $#H$ or $#H$ parameters", QUARTER, 2 * QUARTER)
tie("each over $#H$ | yes", QUARTER)
tie("their sum, over $#H$ |", QUARTER)
tie("each over $#H$ | **no**", QUARTER)
tie("or more after # steps", ROWS)
tie("up to size # again", code("size, equals=#, within=1e-3)"))

BLANK = mnist().train_images.min()
PAPER = scaled(BLANK, "standardized").item()
SPREAD = lnlib.layer_norm(torch.arange(7.0).double(), (7,), eps=0.0).std(correction=0).item()

# Blank rows
tie("forget gate, between # and #. No", *torch.tensor([-200.0, 200.0]).sigmoid().tolist())
tie("have spreads near #, that is", SPREAD)
tie("these digits, # % are", lambda: 100 * code("check(claim, share, equals=#")())
tie("begins with # of them", code("leading.mean(), equals=#"))
SUMS = lnlib.layer_norm(CELL.weight_hh @ torch.zeros(7), (28,)).abs().max()
STILL = lnlib.LayerNormLSTMCell(3, 7, bias=False)(torch.zeros(1, 3))
H_T, C_T = (state.abs().max() for state in STILL)
tie("all four sums are #: three", SUMS)
tie("the candidate is #. So $c_t = #$ and $h_t = #$", SUMS.tanh(), C_T, H_T)
tie("With $dn_t = @ dh_t$", OPEN)
tie(r"has $\hat x = #$ and", lnlib.layer_norm(torch.zeros(2), (2,)).max().item())
tie(r"divides by $\sqrt\varepsilon$, #. The", EPS**0.5)
tie("slope is # and its gate is $@$", (1 - NOTHING.tanh() ** 2).item(), OPEN)
tie("other three gradients are #. With", NOTHING.tanh().item())
tie("again: with a state of # features", H)
tie("a factor of about # is left", FACTOR)
tie("multiplies it by some #, but", FACTOR)
tie("against up to # blank rows", code("counts = range(#)")() - 1)
tie("ink it stays below #.", bound("with a random bias blank rows are harmless"))
tie(r"within $\pm@$, as", H**-0.5, H=H)
tie(r"drawn from $\pm@$.", H**-0.5, H=H)
tie("bare paper is #, and", PAPER)
tie(
    "So all become #, and", code('check("clipping turns every gradient into 0", clipped, equals=#)')
)

# Pixels
tie("a tenth counts as # %", lambda: 100 * found("a tenth of the ink counts as most of it")())
SIGN = torch.tensor([-1.0, 1.0]).sign().tolist()
tie("every pixel is near # or +#.", *SIGN)
tie("over all $#H$ sums, and", QUARTER)

# Exercises and fine print
tie("a bias of # on all", code("exercises.forget_bias([0, #])"))
tie("have $#H$ rows, `W`", code(".sigmoid().chunk(#, dim=-1)"))
free("$h' = (#-z)", why="one less a gate")
tie("$(#, #, #, #, #, #, #, #)$. Find a forget", *exercises.CELL.tolist())


def forgets(gate: float) -> bool:
    return exercises.break_forgetting.verdict(gate).right


def edge(inside: float, outside: float) -> float:
    """Return the last gate, from one that is an answer to one that is none, that is one."""
    for _ in range(40):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if forgets(middle) else (inside, middle)
    return inside


LEAST, GREATEST = edge(0.02, 0.001), edge(0.02, 0.2)
SIZE = exercises.CELL.square().mean().sqrt().item()
KEPT = lnlib.layer_norm(LEAST * exercises.CELL, (8,)).square().mean().sqrt().item()
tie("square) of at most #, and", GREATEST * SIZE)
tie("a size of at least #. ```", KEPT)
tie("between about # and #. The", LEAST, GREATEST)
tie(r"Taken literally, every $\gamma$ is # and", BETA)
tie("The # of {ref}`lstm-blank` is # times", FACTOR, 1 / (4 * EPS))
tie("at each step, about $@$ for", (H * (H**-0.5) ** 2 / 3) ** 0.5)
