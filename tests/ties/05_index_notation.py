"""The numbers of chapter 05, and what computes them."""

import inspect

import torch
from torch.autograd.functional import jacobian

from lnlib import formula
from lnlib.book.equations import meanings
from ties import Page

page = Page("05_index_notation")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

torch.manual_seed(0)
x = torch.randn(3, 5).double()
t = formula.terms(x, eps=0.1)
gamma, dy = torch.randn(5).double(), torch.randn(3, 5).double()
tensor = jacobian(formula.layer_norm, x)
ones, delta = [int(v) for v in torch.ones(3)], torch.eye(2).int()


def of_sigma(sigma: torch.Tensor) -> torch.Tensor:
    return (dy * (x - t.mean) / sigma * gamma).sum()


slope = jacobian(of_sigma, t.denominator)[2, 0]
three = (dy * (x - t.mean) * gamma).sum(1)[2]

# The question, the letters and the rules

B, H = code("rows, features = #, 256"), code("rows, features = 128, #")
tie("$B = #$ rows of $H = #$ features. $x$", B, H)
tie("They take # GB: $@$ is", found("4.3 GB in float32"), lambda: (B() * H()) ** 2, B=128, H=256)
tie("| $@$ | the variance |", t.var[0], sigma=float(t.std[0]))
tie(r"**The symbol $\mathbf #_h$** is # for every", *ones[:2])
tie(r"$\delta_{hq}$** is # if $h = q$, and # otherwise", delta[0, 0], delta[0, 1])
tie("divided by $@$.", three / slope, sigma_p=float(t.denominator[2]))
tie(r"In the first line $\mathbf #_h$ sums", ones[0])

# Sizes and roundings

rows, features = code("B, H = #, 253"), code("B, H = 127, #")
sent, x_hat = formula.layer_norm(torch.randn(2, 10**5))  # a term of the sums is a product of such
tie("have at most # terms of size # or so", features, (sent * x_hat).std().item())
tie("costs at most $#$ of what is added", torch.finfo(torch.float64).eps / 2)
tie("So the bound $#$ leaves room", bound("∂l/∂γ is autograd's"))
tie("*tensor of order #*, with $@$", tensor.ndim, lambda: (B() * H()) ** 2, B=128, H=256)
tie("entries. They take the # GB of", found("4.3 GB in float32"))
tie("so at most $@$ of the entries", lambda: B() * H() ** 2, B=128, H=256)
tie("can differ from zero, one in #.", lambda: (B() * H()) ** 2 // (B() * H() ** 2))
tie(r"\gamma_k}{#\,\sigma_p^3}$. If", code(r"{#\,\sigma_p^3}"))
tie(r"\gamma_k}{2\,\sigma_p^#}$. If", code(r"{2\,\sigma_p^#}"))
tie("costs at most $#$ of what is rounded", torch.finfo(torch.float32).eps / 2)
tie("So ask for $#$ of the largest", bound("dx in float32, ours and PyTorch's"))
tie("the tensor of order # has # entries", tensor.ndim, code("tensor.numel(), equals=#"))

# Takeaways, exercises and fine print

free("Takeaways #. An", "belongs to. #. A", "have two. #. If", why="the number of a takeaway")
tie("need the tensor of order #, and", tensor.ndim)
five, ten = code("exercises.count([#, 5, 10])"), code("exercises.count([5, 5, #])")
tie("There are $B = #$ rows and $H = #$ features. What", lambda: ten() // five(), five)
tie(r"(a) $\mathbf #_h\mathbf #_h$,", *ones[:2])
tie(r"(c) $\mathbf #_b\,\mathbf #_h\,\delta", *ones[:2])
tie("Of the # places", lambda: five() ** 2)
tie("are for # rows of #, and", rows, features)
tie("cannot tell a # from", inspect.signature(meanings.batch).parameters["B"].default)
tie('"One in #" counts', lambda: (B() * H()) ** 2 // (B() * H() ** 2))
