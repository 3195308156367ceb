"""The numbers of layer norm on one page, and what computes them."""

import torch

import lnlib
from lnlib import formula
from ties import Page

page = Page("summary")
tie = page.tie

ROW = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
EPS = lnlib.LayerNorm(8).eps
terms = formula.terms(1.7 * ROW, eps=EPS)  # with a spread of 2, σ² would be 2σ
RMS = (terms.var + terms.mean**2).sqrt().item()
NAMES = {"sigma": terms.std.item(), "epsilon": EPS, "mu": terms.mean.item(), "x": RMS, "H": 8.0}


def jacobian(eps: float) -> torch.Tensor:
    return torch.autograd.functional.jacobian(lambda x: formula.layer_norm(x, eps=eps), ROW)


ones = torch.ones(8).double()

# The formula
tie(r"$\mu,\ @,\ @$ |", terms.var, terms.rstd, **NAMES)

# What it keeps, ε, γ and β
far = formula.layer_norm(3 * ROW, eps=0.0) - formula.layer_norm(ROW, eps=0.0)
tie(r"With $\varepsilon = #$, a positive factor and a shift", round(far.abs().max().item(), 9))
scaled = formula.layer_norm(RMS * ROW, eps=RMS**2 * EPS) - formula.layer_norm(ROW, eps=EPS)
assert scaled.abs().max() < 1e-12  # so ε has the units of x squared
UNIT = (RMS * ROW).var() / ROW.var()
tie(r"is in units of $@$, since it is added to $@$", UNIT, terms.var, **NAMES)
tie(r"at $#\max|\gamma|$ for $\varepsilon = @$", EPS**-0.5, EPS)
fresh = lnlib.LayerNorm(8)
tie("They start at # and #: a fresh layer", fresh.weight[0].item(), fresh.bias[0].item())

# Gradients
tie(
    r"It maps $\mathbf #$ to #, and $\hat x$ too if $\varepsilon=#$",
    ones[0],
    round((jacobian(EPS) @ ones).abs().max().item(), 9),
    round((jacobian(0.0) @ formula.layer_norm(ROW, eps=0.0)).abs().max().item(), 9),
)

# Conventions, the LSTM
divisor = ((ROW - ROW.mean()).square().sum() / ROW.var()).item()
tie(r"divided by $H$ or $@$; $\varepsilon$ under", divisor, **NAMES)
tie(r"with or without the mean; $\gamma$ or $@$?", 2.5 - fresh.weight[0].item(), gamma=2.5)
tie(r"over all its $@$ entries", len(lnlib.LayerNormLSTM(3, 8).weight_hh_l0), **NAMES)

# Pitfalls
tie(r"`x.var()` in PyTorch divides by $@$ unless", divisor, **NAMES)
tie(r"$\overline{@}-@$ cancels", (1.7 * ROW).square().mean(), terms.mean**2, **NAMES)
x = torch.stack([ROW, ROW.flip(0) ** 2]).requires_grad_()
(dx,) = torch.autograd.grad(formula.layer_norm(x, 3 * ones).sum(), x)
tie("makes $dx$ #: test with", round(dx.abs().max().item(), 9))
