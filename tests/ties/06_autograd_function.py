"""The numbers of chapter 06, and what computes them."""

import inspect
from math import ceil, floor, log2

import numpy as np
import torch
from torch.autograd import gradcheck

from lnlib import formula
from lnlib.book.exercises import chapter_06 as exercises
from ties import Page

page = Page("06_autograd_function")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

torch.manual_seed(0)
draws = torch.rand(1000)
fresh = int(torch.nn.LayerNorm(4).weight[0].item())  # a new layer's γ
step = inspect.signature(gradcheck).parameters["eps"].default
strict, loose = code('strict = {"atol": #, "rtol": 0}'), code('loose = {"atol": #, "rtol": 0.1}')
relative = code('loose = {"atol": 0.1, "rtol": #}')

# A first Function

tie("The tolerance is $#$. The", bound("First: dx is right"))
sent, x_hat = formula.layer_norm(torch.randn(2, 10**5))  # a term of the sums is a product of such
tie("a hundred terms near #, and each", (sent * x_hat).std().item())
tie("costs at most $#$ of one", torch.finfo(torch.float64).eps / 2)
tie("ε is # whatever", code("std = (var + #).sqrt()"))
tie(
    "its spread of # shrunk to #, and",
    code("* book_row[None] / #,"),
    code("flat, one, zero = # * book"),
)
tie(r"you want $\varepsilon=#$. The", code("for e in (1e-5, #))"))
tie("is off by more than #. [", bound("that is far from ε = 1e-12"))

# What gradcheck sees, and what it does not

wide = code("for s in ((32, 64), (#,), (64,))")
near_four = np.spacing(bound("the largest y")()) / 2
spacing = float(np.spacing(np.float32(3)))
tie("on # rows of # numbers", code("for s in ((#, 64), (64,), (64,))"), wide)
tie("numbers between # and #. What", floor(draws.min()), ceil(draws.max()))
tie("at most # here with $H = #$, which", found("the largest entry of the mean term"), wide)
tie("which is less than #. [", loose)
tie("has the same $@$, but", lambda: 1 / wide(), H=64)
tie(r"off by $# + #\,|J|$", loose, relative)
tie(r"-y(x-h)}{#h}$, for $h=#$", lambda: code("- 1e-6 * steps)) / #")() / step, step)
tie("is just above #, and", bound("the largest y"))
tie("rounded by up to $#$; divided by $h$ that is $#$", near_four, near_four / step)
tie("The other is $@$ times", step**2 / 6, h=1e-6)
tie("So $#$ is about the smallest safe tolerance", strict)
tie("and `rtol` can be #:", code("atol=1e-9, rtol=#)"))
tie("Between # and #, neighboring", 2 ** floor(log2(3)), 2 ** ceil(log2(3)))
tie("float32 numbers are $#$ apart", spacing)
tie("there is rounded by up to $#$, and", spacing / 2)
tie("and $#/#$ is #: more", spacing / 2, step, spacing / 2 / step)

# One repair at a time

tie(r"With $\gamma = #$ the Jacobian", fresh)
free(r"add $(\lVert\nabla\rVert-#)^#$", why="the penalty of the paper")
constant = formula.terms(torch.ones(1, 4).requires_grad_().detach())
tie("two derivatives are #, and", int(constant.mean.requires_grad))
tie("formula has #, `First`", code("expected = [1, 1, 1, 2, #]"))
tie("`First` has #, and", code("expected = [1, 1, 1, #, 5]"))
tie("the others have #.", code("expected = [#, 1, 1, 2, 5]"))

# Takeaways, exercises and fine print

free("Takeaways #. A", "a row. #. A", "fails. #. Saved", why="the number of a takeaway")
tie("differences allow $#$; at # a whole", strict, loose)
x = torch.randn(4).double().requires_grad_()
y = formula.layer_norm(x)
dy, dx = torch.autograd.grad(y.sum(), [y, x])
g = fresh * dy
mean, along, lost = (round(float(v)) for v in (g.mean(), (g * y.detach()).mean(), dx.abs().max()))
tie(r"every $\gamma$ equal to #. The", fresh)
tie(r"every $dy$ a #. With $\gamma = #$, $g = #$, so", int(dy[0]), fresh, int(g[0]))
tie(r"so $\overline g = #$ and $\overline{g\,\hat x} = #$", mean, along)
tie(r"is $\mathrm{rstd}\,(# - # - #) = #$", int(g[0]), mean, along, lost)
tie("x̂ term it is still #.", lost)
tie(r"of the $\hat x$ for $\varepsilon=#$", exercises._MEANT)
row = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
length = formula.terms(row, eps=0.5).x_hat.norm()
tie("has the length $@$. With", length, H=8, sigma=2, epsilon=0.5)
hundredth = 1 / 100
left_at = hundredth / (1 - hundredth**2) ** 0.5  # of √ε, where x̂ has this share of its length
said = exercises._SAID
tie(r"With $\varepsilon = #$, a hundredth", said)
tie(r"$\sigma \approx #\sqrt\varepsilon \approx #$", left_at, left_at * said**0.5)
tie(r"where $\varepsilon=#$ makes hardly", exercises._MEANT)


def bend(row: torch.Tensor) -> float:
    """Return the third derivative of one output of a row by its first feature."""
    at = torch.zeros((), dtype=torch.float64, requires_grad=True)
    slope = formula.layer_norm(row + at * torch.eye(len(row))[0], eps=0.0)[1]
    for _ in range(3):
        (slope,) = torch.autograd.grad(slope, at, create_graph=True)
    return slope.item()


tie("The bound $#$ is for values up to # or", strict, bound("the largest y"))
free("a spread not far below #;", why="a rough size")
tie("the third derivative grows as $@$.", bend(2 * row) / bend(row), s=2)
