"""The numbers of chapter 03, and what computes them."""

from math import log10

import torch
from torch.autograd.functional import jacobian

from lnlib import LayerNorm, formula
from lnlib.book.exercises import chapter_03
from ties import Page

page = Page("03_gamma_beta")
tie, code, found, free = page.tie, page.code, page.found, page.free

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
tie(r"starts with $\gamma_i = #$ and $\beta_i = #$ and", ONE, NONE)
FLAT = torch.tensor([1.0, 1.0, 1.1, 0.9, 1.0]).double() * 1e-3
NORMED = formula.layer_norm(FLAT)
SPREADS = [row.std(correction=0).item() for row in (NORMED, formula.layer_norm(NORMED))]
tie("leaves a standard deviation of #, and a second one #.", *SPREADS)
tie("Take a skewed row of # numbers", code("Exponential(1.0).sample((#,))"))
tie(r"small beside $\sigma^#$. But", SQUARE)

# One γ and one β for each feature
tie(r"that of $\hat x$ is at most #. The", T.x_hat.std(correction=0).item())
tie(r"the last feature has $\hat x = #$. [Raise its", T.x_hat[-1].item())
tie(r"from # to #, with $\beta = #$. The", ONE, code("loud[-1] = #"), NONE)
LOUD = torch.tensor([*[1.0] * 7, 3.0]).double()
tie("The mean of $y$ rises from # to #. Its", ZERO, formula.layer_norm(ROW, LOUD, eps=0.0).mean())
tie("becomes #, while the mean", found("the spread of y is far above it"))
tie(r"mean of $\gamma$ is only #.", LOUD.mean())
tie(r"$\hat x$ and $\varepsilon = #$.", code("formula.layer_norm(book_row, row_hat, eps=#)"))
LIFTED = formula.layer_norm(ROW, T.x_hat, eps=0.0).mean().item()
tie(r", $\gamma = \hat x$ averages #, and without $\beta$ gives the row the mean #.", ZERO, LIFTED)

# Four reasons
tie(r"one digit with $\gamma = @$ and $\beta=\mu$", DENOMINATOR, **AT)
FARTHEST = formula.terms(-torch.eye(len(ROW))[0], eps=0.0).x_hat.min().item()
tie(r"With $\beta = #$ it [cuts", code("bias=torch.full((8,), #))"))
tie("features is below $@$, by", FARTHEST)
DIGITS = code("digits.train_images[:#].flatten")
AS_BATCH = code('mean 0", means, equals=#'), code('is 1", spreads, equals=#')
NEAR = found("σ near the mean γ: the median error")
tie("are # random features of # digits", code("torch.randn(784, #).double() / 28"), DIGITS)
tie("these features the mean # and the spread #.", *AS_BATCH)
tie("gives one a mean # away from 0, and", found("layer norm: one feature's mean is far from 0"))
tie("spreads go from #", found("the smallest spread is about ½"))
tie("to #. [✓]", found("the largest spread is above 1"))
tie("leave in each of # digits", DIGITS)
tie(r"is within # of the mean $\gamma$, # %", code("gamma.mean()).abs() < #"), lambda: 100 * NEAR())
tie(r"$\sigma$ is below #, more than half", code("left[spread < #]"))
tie(r"$\gamma_i = #$ [silences", code("silent[3] = #"))

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

# The gradient, takeaways, exercises
tie("it is on average # degrees off", found("γ outside: degrees off, on average"))
free(r"#. With one $\gamma$ and", r"#. $\gamma$ and $\beta$ undo", "#. On the way", why="a list")
tie(r"taken out: $(#,\dots,#)$ and", ONES[0].item(), ONES[-1].item())
tie(r'"with $\beta = #$ the mean of $y$ is #".', NONE, ZERO)
tie(r"eight $\gamma$ that average # and lift", (1 + T.x_hat).mean().item())
tie(r"out: $\gamma = # + \hat x$ averages #, and", ONE, (ONE + T.x_hat).mean().item())
tie("with itself, which is #.", T.x_hat.square().mean().item())
