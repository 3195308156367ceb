"""The numbers of chapter 01, and what computes them."""

import inspect
import re
from math import log10, pi, sqrt

import torch

from lnlib import LayerNorm, formula
from lnlib.book import pictures
from lnlib.book.exercises import chapter_01
from lnlib.book.explorers import DepthExplorer
from ties import Page

page = Page("01_formula")
tie, code, found, free = page.tie, page.code, page.found, page.free

DEPTH = code("WIDTH, DEPTH, BATCH = 256, #, 32")()
NORM_EPS = code("lnlib.layer_norm(a, (WIDTH,), eps=#) if")
LINEAR = 1 / sqrt(code('claim = "PyTorch\'s Linear: s = 1/√#"')())
NO_EPS = code("y = formula.layer_norm(W @ h, eps=#)")()
EPS = inspect.signature(formula.layer_norm).parameters["eps"].default
[CELL] = [c.source for c in page.cells if "book_row = " in c.source]
ROW = torch.tensor([float(n) for n in re.findall(r"\d[.\d]*", CELL.partition("]")[0])]).double()
T = formula.terms(ROW, eps=NO_EPS)
H, SIGMA, LAST = len(ROW), T.var.sqrt().item(), T.x_hat[-1].item()
FRESH = LayerNorm(1)
FRESH_WEIGHT, FRESH_BIAS = FRESH.weight.item(), FRESH.bias.item()
ZEROS = torch.zeros(1).item()
BIASED = H - round(T.var.item() * H / ROW.var().item())  # what torch's var takes off H

# The question, and the depth explorer
HALF = torch.relu(T.x_hat[[0, -1]] / T.x_hat[[0, -1]].abs()).square().mean().item()
S, HE = DepthExplorer().scale, 1 / HALF  # a ReLU leaves half of the mean square
tie("every weight of a #-layer perceptron by two", DEPTH)
tie("grow by $@$, about $#$", 2.0**DEPTH, 10.0 ** round(log10(2.0**DEPTH)))
tie(r"biases, and $\varepsilon$ is #.)", NORM_EPS)
tie("Take # layers, each", DEPTH)
tie(r"deviation $s\sqrt{#/H}$", HE)
tie("Where does $s = #$ lead?", S)
tie("a row by $@$, and a ReLU halves it.", HE * S**2, s=S)
tie(r"start with $s = @$, and nothing", LINEAR)
tie("{cite:p}`he2015` has $s = #$:", code("level = norms_by_depth(#, normalize=False)"))

# The formula
free(
    "variance, equation # of {cite", "(their equation #)", "it is equation # of", why="the paper's"
)
free("paper's equation # is", why="the paper's")
free(r"| $\mu,\ \sigma^#$ |", "in units of $x^#$.", r"the $\hat x_i^#$ sum", why="a square")
tie("by $H$, not by $@$. The root", H - BIASED, H=H)
tie("| $@$ | `rstd`", formula.terms(ROW).rstd.item(), sigma=SIGMA, epsilon=EPS)
tie("shift per feature, # and # at the start", FRESH_WEIGHT, FRESH_BIAS)
tie("the book: $(#, #, #, #, #, #, #, #)$", *map(float, ROW))
tie("Its mean is # and its spread is #,", T.mean.item(), SIGMA)
tie("in PyTorch divides by $@$ unless", H - BIASED, H=H)
tie("Divide by $@$ where", H - BIASED, H=H)
SLIP = (ROW.std() * T.x_hat / (ROW - T.mean)).nanmean().item() ** -1
tie("where $H = #$, and the output shrinks by a factor of $@$,", H, SLIP)
tie("that is, by # %.", 100 * (1 - SLIP))
MANY = torch.arange(768.0).double()
SHRUNK = (MANY.std(correction=0) / MANY.std()).item()
tie("With $H = #$ it is # %: too little", len(MANY), 100 * (1 - SHRUNK))
[DRAWN] = re.findall(r"np.zeros\(\((\d), (\d)\)\)", inspect.getsource(pictures.shared_cells))
tie("Two tables of # samples by # features", *map(float, DRAWN))

# The ReLU: of a normal input it leaves half of the mean square, and a mean of 1/√(2π)
MEAN = 1 / sqrt(2 * pi)
VARIANCE = HALF - MEAN**2  # of a ReLU's output, where its input has 1
free(
    r"divides it by its $\sigma^#$.",
    r'scale=1"), $\sigma^#$ is the variance',
    why="a square",
)
tie("multiplies its mean square by $@$.", HE * S**2, s=S)
tie(r"matrix's output, $@$ times the mean square # that", HE * S**2, HALF, s=S)
tie("gets a row of mean square # and makes it $@$.", T.x_hat.square().mean().item(), HE * S**2, s=S)
tie(r"variance of $(#-#/\pi)/#$ times", HALF / HALF, MEAN**2 * pi / HALF, HE)
GROWTH = sqrt(HALF / VARIANCE)
tie(r"by $#/\sqrt{#-#/\pi} \approx #$,", *2 * [HALF / HALF], MEAN**2 * pi / HALF, GROWTH)

# How far out a value can be
OUTLIER = torch.zeros(code("outlier = torch.zeros(#, dtype")()).double()
OUTLIER[0] = code("for size in (#, 1e9)")()
FAR = formula.terms(OUTLIER).x_hat.max().item()
tie("Take # features. One", len(OUTLIER))
tie("and the others are #. How", ZEROS)
tie(r"$\hat x$? It is #. Make it a billion, and it is still #:", FAR, FAR)
tie("no value gets past $@$.", FAR, H=len(OUTLIER))
SQUARES = formula.terms(ROW).x_hat.square().sum().item()
tie("sum to $@$. For the second", SQUARES, H=H, sigma=SIGMA, epsilon=EPS)
OTHERS = H - 1
EQUAL = OTHERS * (LAST / OTHERS) ** 2
tie("the other $@$ values", len(ROW[1:]), H=H)
tie("equal; then it is $@$. So", EQUAL, H=H, **{"hat x_i": LAST})
tie(r"So $@ \le H$", LAST**2 + EQUAL, H=H, **{"hat x_i": LAST})
PAIR = formula.terms(torch.tensor([3.0, 3.5]), eps=NO_EPS).x_hat
tie(r"With $\varepsilon = #$ every row has", code("torch.tensor([3.0, 3.5]), eps=#)"))
tie(r"always have $\hat x = \pm#$.", PAIR[1].item())
tie(r"with any $\varepsilon > #$", NO_EPS)

# What layer norm cannot see
tie(r"For $\varepsilon = #$, a factor $\delta > #$", NO_EPS, ZEROS)
free(r"Here $\mathbf #$ is", r"so $\mathbf # c", why="the name of a vector")
free("#. Layer norm standardizes", "#. It looks", "#. Standardizing keeps", why="a list")
tie(r"every $|\hat x_i|$ by $@$,", FAR, H=len(OUTLIER))

# Exercises
FOUR = chapter_01._ROW.double()
AWAY = FOUR - FOUR.mean()
tie(r"of the row $(#, #, #, #)$ for", *map(float, FOUR))
tie(r"for $\varepsilon = #$, by hand", NO_EPS)
tie("The mean is #. The deviations are $#, #, #, #$;", FOUR.mean().item(), *map(float, AWAY))
tie("average to $(#+#+#+#)/# = #$.", *map(float, AWAY**2), len(FOUR), FOUR.var(correction=0).item())
tie("So divide by $@$.", FOUR.std(correction=0).item())
tie(r"its channels with $\varepsilon = #$,", EPS)
[WIDEST] = re.findall(r"if not std < (\S+):", inspect.getsource(chapter_01._why_not_narrow))
tie(r"(with $\varepsilon = #$) has a standard deviation below #,", EPS, float(WIDEST))
tie(r"$\sqrt\varepsilon \approx #$", sqrt(EPS))
tie(r"whose norm has $\varepsilon = #$ for this", NORM_EPS)
