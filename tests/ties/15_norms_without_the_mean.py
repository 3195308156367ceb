"""The numbers of chapter 15, and what computes them."""

import torch

from lnlib import formula
from lnlib.book.exercises import chapter_15 as exercises
from ties import Page

page = Page("15_norms_without_the_mean")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

# RMS norm
row = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
mean, std, square = row.mean().item(), row.std(correction=0).item(), row.square().mean().item()
tie("with mean # and spread #. The mean of its", mean, std)
tie("squares is $@=#$. So layer", square, square)
rms = (row / formula.layer_norm(row, eps=0.0, center=False)).mean().item()
tie("norm divides it by #, and RMS norm by #:", std, rms)
off, squares = ((row - mean)[6] ** 2).item(), (row[6] ** 2).item()
tie(r"two: $x$, then $@$ | one: $@$ |", off, squares, x=7, mu=5)
rstd = formula.terms(row, eps=0.0).rstd.item()
tie(r" and $@$ | $@$ | RMS norm", rstd, 1 / rms, s=2, r=29**0.5)
tie("RMS norm ends within # bits of", bound("RMS norm and layer norm: the same bits, within"))
tie("RMS norm took # seconds", found("seconds, RMS norm"))
tie("in these runs, layer norm #.", found("seconds, layer norm"))

# zero-centered
gamma, w = code('"γ": torch.full((7,), #)'), code('"w": torch.full((7,), #)')
tie("Gemma stores $w = @$ and", w, gamma=1.5)
tie("and multiplies by $@$ {cite", gamma, w=0.5)

# exercises
x = torch.tensor([1.0, 2.0], requires_grad=True)
(x**3).sum().backward()
tie(r"|\hat x_i|^{@}$: the $p$ of", (x.grad[1] / x.grad[0]).log2().item(), p=3)
jacobians = {p: exercises._p_norm_jacobian(row, p) for p in (1, 2, 3, 4)}
(symmetric,) = (p for p, J in jacobians.items() if torch.allclose(J, J.T))
tie(r"For $p=#$ it is symmetric", symmetric)
tie(r"For $p=#$ it is {eq}`eq-meet-rms", symmetric)


def m(p):
    """Return what the exercise divides by."""
    return row.abs().pow(p).mean().pow(1 / p).item()


(plain,) = (p for p in (1, 2, 3) if abs(m(p) - row.abs().mean()) < 1e-9)  # the mean size
inside = (m(3) ** 3 * 8 / row.abs().pow(3).sum()).item()
outside = (torch.tensor(m(3)).log() / row.abs().pow(3).mean().log() * 3).item()
tie(
    r"$m = \big(\frac#H\sum_j |x_j|^p\big)^{#/p}$ instead: for $p=#$",
    round(inside, 5),
    round(outside, 5),
    plain,
)
leaf = row.clone().requires_grad_()
leaf.abs().pow(3).mean().pow(1 / 3).backward()
tie(r"\partial x_i = \frac#H\,", round((leaf.grad * 8 / (row / m(3)) ** 2)[0].item(), 5))
tie(r"of the power and the $#/p$ of", round(outside, 5))
tie(r"with $\varepsilon = #$.", round(m(symmetric) ** symmetric - square, 9))
shift = torch.ones(8).double()
tie(r"out of a gradient, $(#,\dots,#)$", shift[0], shift[7])
free("report # to # % less", why="the paper's own")
tie(r"and with $\beta=#$, computes", torch.nn.LayerNorm(64).bias[0])
free("Takeaways #. RMS", "are equal. #. The", "compute the same. #. RMS", why="of a list")
