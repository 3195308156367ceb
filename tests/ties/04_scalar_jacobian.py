r"""The numbers of chapter 04, and what computes them."""

import re
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from lnlib import formula
from lnlib.book.exercises import chapter_04 as exercises
from ties import Page

page = Page("04_scalar_jacobian")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound
printed = page.printed


def listed(snippet: str) -> list[Callable[[], float]]:
    """Return a source for each number in a piece of the page's code."""
    numbers = re.finditer(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?", snippet)
    return [code(f"{snippet[: m.start()]}#{snippet[m.end() :]}") for m in numbers]


def whole(value: Tensor | float) -> int | float:
    """Return a number; what is whole up to rounding must be met exactly."""
    number = float(value)
    return round(number) if abs(number - round(number)) < 1e-9 else number


def slopes(f: Callable[[Tensor], Tensor], at: Tensor) -> list[int | float]:
    return [whole(v) for v in jacobian(f, at).flatten()]


# One gradient in numbers. Each way is taken by autograd, with what it does not go through held.

row = torch.tensor([1.0, 1, 5, 5]).double()
mean, std = row.mean(), row.std(correction=0)
y = formula.layer_norm(row, eps=0.0)
sent = whole(code("return # * (x[3] - mean) / std")())


def loss(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return sent * (x[3] - mean) / std


directly = slopes(lambda x: loss(x, mean, std), row)
through_mean = slopes(lambda x: loss(row, x.mean(), std), row)
through_std = slopes(lambda x: loss(row, mean, x.std(correction=0)), row)
right = slopes(lambda x: sent * formula.layer_norm(x, eps=0.0)[3], row)
(by_mean,), (by_std,) = (
    slopes(lambda m: loss(row, m, std), mean),
    slopes(lambda s: loss(row, mean, s), std),
)
squares = slopes(lambda x: ((x - mean.detach()) ** 2).sum(), row)
one, five = whole(row[0]), whole(row[3])

gamma_is_one = whole((y[3] - y[0]) / 2)
tie("Take the row $(#,#,#,#)$ with", *listed("torch.tensor([1.0, 1, 5, 5])"))
tie(r"5)$ with $\gamma=#$, $\beta=#$", gamma_is_one, whole(y.mean()))
tie(r"and $\varepsilon=#$. Its mean is", code("formula.layer_norm(x, eps=#)[3]"))
tie("Its mean is #, its variance #, its spread #", whole(mean), whole(std**2), whole(std))
tie(r"Let the loss be $L=#\,y_4$, where", sent)
tie("called $dy$, is then $(#,#,#,#)$.", *(sent * int(i == 3) for i in range(4)))
tie("**Directly**, if $i=#$", 1 + next(i for i, slope in enumerate(directly) if slope))
tie(r"$L$ grows by $@=#$ for", directly[3], directly[3], sigma=float(std))
tie("$L$ falls by # for", -by_mean)
tie(r"reaches $\mu$. The product is $#$ for", through_mean[0])
tie(r"With $x_4-\mu=#$ fixed, $L$ is $@$", whole(row[3] - mean), loss(row, mean, std), sigma=2)
tie(r"and falls by $@=#$ for", -by_std, -by_std, sigma=float(std))
for x, grows in ((one, squares[0]), (five, squares[3])):
    tie("the square $@$ grows", whole((x - mean) ** 2), x_i=x)
    tie("grows by $@$: $", grows, x_i=x)
tie("(x_i-3)$: $#$ for a # and $#$ for a #. A", squares[0], one, squares[3], five)
tie("the variance, and $@$ of that", slopes(torch.sqrt, std**2)[0], sigma=float(std))
tie("Times $#$ this is $#$ for a", by_std, through_std[0])
tie("for a # and $#$ for a #. (The", one, through_std[3], five)
tie("$x_1=#$ | $x_2=#$ | $x_3=#$ | $x_4=#$", *map(whole, row))
tie("directly | # | # | # | # |", *directly)
tie(r"through $\mu$ | # | # | # | # |", *through_mean)
tie(r"through $\sigma$ | # | # | # | # |", *through_std)
tie(r"x_i$ | # | # | # | # |", *right)
tie("alone gives # where # is right", directly[3], right[3])
tie('"), and divide by #. You get', sent)
entries = jacobian(lambda x: formula.layer_norm(x, eps=0.0), row)
for k in range(4):
    two = [whole(v) for v in entries[k] if not v]
    around = "| # | # | ¼ | −¼ |", "| # | # | −¼ | ¼ |"
    ends = "| ¼ | −¼ | # | # |", "| −¼ | ¼ | # | # |"
    tie(f"$y_{k + 1}$ {[*ends, *around][k]}", *two)
tie("no output moves: each line adds up to #.", whole(entries.sum(1).abs().max()))
tie(r"along $\hat x=(#,#,#,#)$, and no", *(whole(v) for v in y))

# By hand, for both places of ε

example = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
widest = whole(example[formula.terms(example + torch.eye(8)).denominator.argmax()])
torch.manual_seed(0)
x = torch.randn(11).double()
t = formula.terms(x, eps=0.1)
s, sigma = float(t.denominator), float(t.std)
at = {"sigma": sigma, "epsilon": 0.1, "s": s, "H": 11}
identity, ones = torch.eye(11), torch.ones(11)
square_of_ones = torch.outer(ones, ones)

tie(r"\begin{cases}# & k=i\\ # & k", whole(identity[0, 0]), whole(identity[0, 1]))
tie(r"of $x_k-\mu$ and $@$, and both", 1 / s, **at)
tie("only one term of the sum is not #", whole(identity[0, 1:].max()))
tie(r"differentiate $@=\sigma^2+\varepsilon$", s**2, **at)
tie(r"differentiate $s^2=@$", s**2, **at)
tie(r"and $\sigma$ may be #", whole(formula.terms(ones).std))
tie(r"$\mathbf #$ is a column of ones", whole(ones[0]))
tie(r"entries of $\mathbf #\mathbf #^\top$ are #", *map(whole, square_of_ones[0, :3]))
tie("In the row $(#,#,#,#,#,#,#,#)$ the # widens", *listed("[2.0, 4, 4, 4, 5, 5, 7, 9]"), widest)
tie(r"know the derivative of $@$ from", sigma**2, **at)
dy = torch.tensor([0.0, 0, 0, sent]).double()
average, along = whole(dy.mean()), whole((dy * y).mean())
tie("For the row $(#,#,#,#)$ above, both averages are #", *map(whole, row), average)
tie(r"2, and $@$ is again the # of", right[3], right[3])
assert average == along

# What the Jacobian looks like, and what it does

outlier = torch.tensor([1.0, 2, 3, 10]).double()
J = jacobian(lambda v: formula.layer_norm(v, eps=0.0), outlier) * outlier.std(correction=0)
tie("three ways, here for $(#,#,#,#)$. Try", *map(whole, row))
tie(
    r"`eq-row-matrix-form`, divided by $s$: $I$, then $-\mathbf #\mathbf #^\top/H$",
    *[whole(ones[0])] * 2,
)
tie(r"so $\hat x_4\hat x_1=#$", whole(y[3] * y[0]))
tie("Next to nothing, # of the direct way: the outlier, #,", J[3, 3], whole(outlier[3]))
tie("on the diagonal and # elsewhere. This", whole(torch.diag(outlier)[0, 1]))


def eigen(eps: float, eps_at: str = "variance") -> Tensor:
    """Return what J multiplies each direction by: the ones, x̂, and the rest."""
    matrix = jacobian(lambda v: formula.layer_norm(v, eps=eps, eps_at=eps_at), x)
    return torch.linalg.eigvalsh((matrix + matrix.T) / 2)


def rank(eps: float, v: Tensor = x) -> int:
    matrix = jacobian(lambda u: formula.layer_norm(u, eps=eps), v)
    return int(torch.linalg.matrix_rank(matrix, atol=1e-9))


lost, shrunk, kept = (float(v) for v in eigen(0.1)[:3])
middle = float(eigen(0.1, "std")[1])
beside = at | {"s": sigma + 0.1}
rest = sum(bool(abs(v - kept) < 1e-9) for v in eigen(0.1))
v = torch.linalg.eigh(jacobian(lambda u: formula.layer_norm(u, eps=0.1), x))[1][:, -1]
zero_eps = listed("for at, rank in ((0.1, 10), (0.0, 9)):")[2]
square = "a square in an expression that has a mean, which ties cannot evaluate"

tie(r"that of {eq}`eq-row-dx` with $\gamma=#$", gamma_is_one)
tie(r"the averages $\overline{\hat x}=#$ and", whole(t.x_hat.mean()))
tie(r"averages $\overline{\hat x}=0$ and $\overline{\hat x^2}=@$", (t.x_hat**2).mean(), **at)
tie("s^2$, which is $@$.", (t.x_hat**2).mean(), **at)
free(r"=0$ and $\overline{\hat x^#}", r"multiplies $\overline{\hat x^#}", why=square)
tie(r"$\overline v=#$ and $\overline{\hat x\,v}=#$", whole(v.mean()), whole((v * t.x_hat).mean()))
tie("There are $@$ independent", rest, H=11)
tie("eigenvalues of $J$ are # once, $@$ once, and $@$ for", whole(lost), shrunk, kept, **at)
tie(r"rest. For $\varepsilon>#$ only", zero_eps)
tie(r"and the rank is $@$. For $\varepsilon=#$ the direction", rank(0.1), zero_eps, H=11)
tie("is lost too, and the rank is $@$", rank(0.0), H=11)
tie(
    r"x^2}=@$, which leaves $@$. [✓]",
    (sigma / beside["s"]) ** 2,
    1 - middle * beside["s"],
    **beside,
)
tie("straight up along $(#,#,#)$", *[whole(ones[0])] * 3)
tie("not change along $(#,#,#)$", *[whole(ones[0])] * 3)
questions = "[Raise", "Move", "Pull", "Count", "[Why", "Make", "Give"
free(*(f" #. {each}" for each in questions), why="the number of a question")
answers = "tried #. $", "shrink.) #. Nothing", "(1,1,1)$. #. $", "tried #. The terms"
free(*answers, " #. The two", " #. Next", " #. It stays", why="the number of an answer")
tie("tried 1. $@$ grows, $@$ shrinks", shrunk, kept, **at)
twice = code("torch.tensor([#, 2.2, 5.0, 10.0]) * spread")
tie(r"(Beyond $\varepsilon=@$ both", lambda: twice() * sigma**2, **at)
flat = ones.double()
met = torch.linalg.eigvalsh(jacobian(lambda u: formula.layer_norm(u, eps=0.1), flat))[1]
tie("3. $@$ and $@$: both become $@$", *[float(met)] * 3, epsilon=0.1, s=0.1**0.5)

# A constant row

constant = formula.terms(flat, eps=0.0)
near = formula.terms(flat + 1e-12 * x, eps=0.1, eps_at="std")
none = whole(constant.std)
tie(r"be equal, so that $\sigma=#$", none)
tie(r"`eq-row-root`, $\hat x$ is # and", whole(formula.terms(flat, eps=0.1).x_hat.abs().max()))
tie(r"divides by $\sigma=#$. There", none)
tie("like that of $|x|$ at #.", none)
tie("its derivative there is #.", whole((near.std * near.x_hat / 1e-12).abs().max()))
tie("tip, multiplies # by", whole((flat - flat.mean()).abs().max()))
tie("is to keep # away", none)
undefined = next(e for e in (0.1, 0.0) if formula.layer_norm(flat, eps=e).isnan().any())
tie(r"With $\varepsilon=#$ there is no derivative", whole(undefined))
tie(r"$\hat x$ is #/#. Autograd", whole((flat - flat.mean()).max()), whole(constant.denominator))

# Ones are a poor test

leaf = x.clone().requires_grad_()
out = formula.layer_norm(leaf)
back = torch.autograd.grad(out.sum(), [out, leaf])
tie(r"sends back $dy=(#,\dots,#)$", whole(back[0][0]), whole(back[0][-1]))
tie(r"dots,1)$. With $\gamma=#$, or", gamma_is_one)
tie("`eq-row-eigen` the gradient is #.", whole(back[1].abs().max()))
tie("asks for agreement to $#$: five", code("enumerate(off, 1) if far < #]"))
begins = "no mean", "no $", r"$\hat x$ term a", "mean", "$s$ sq", r"$\gamma$ out", "zeros"
free(*(f"| #. {each}" for each in begins), why="the number of a wrong gradient")
tie(r"vector $\gamma$: with $\gamma=#$ nobody", gamma_is_one)
tie("When is the true gradient #, so that", whole(back[1].abs().max()))
tie(r"nothing? For $\varepsilon>#$ the gradient is # if", zero_eps, whole(back[1].abs().max()))
weight = torch.tensor([3.0, *ones[1:]]).double()
out = formula.layer_norm(leaf, weight)
assert not whole(torch.autograd.grad(out, leaf, 1 / weight)[0].abs().max())
tie(r"this happens for $dy_k=@$. For $\varepsilon=#$", 1 / weight[0], zero_eps, gamma_k=3)
tie(r"multiples of $\mathbf #$ and", whole(ones[0]))

# Three ways to be sure

u = torch.finfo(torch.float64).eps / 2
bend = code("check(claim, bend, equals=#, within")
step = code("check(claim, best, equals=#, within")
ends = listed("xlim=(1e-10, 1e-1)")


def theory(h: float, bend: float = 1.0) -> float:
    return h**2 * bend / 6 + u / h


best = max(np.roots([1 / 3, 0, 0, -u]).real)  # there the derivative of theory is 0
held = code("meanings.row(H, eps_at) for H in range(#, 7)"), code("for H in range(2, #))")
tie("`eq-row-beside` hold for # to # features.", held[0], lambda: held[1]() - 1)
tie(r"at most $u=#\approx #$ of", u, u)
tie("; a bound of # leaves room", bound("autograd agrees on rows of 2, 11 and 300"))
free("$f'''$ are near #, the", why="an assumption")
tie("the error is about $@$.", theory(0.5), h=0.5, u=u)
tie(r"smallest at $h=@\approx #$, where it is about $#$", best, best, theory(best), u=u)
two_points = "two points never come down to 1e-14"
tie("for agreement to $#$ must", code("never come down to #"))
tie("at $h=#$ their error is near", code("steps = # * torch"))
tie("their error is near $#$", found("six points come near it"))
tie("over the # features of a row", code("torch.randn(4, #)"))
tie("Notice the floor near $#$", found(two_points))
tie("from about # at h = #,", lambda: theory(ends[0]()), ends[0])
tie("reaches about # near h = #,", found(two_points), step)
tie("slope two to about # at h = #.", lambda: theory(ends[1](), bend()), ends[1])

# What cancelling saves

tie("sum itself costs less than # of", bound("the vanishing sum costs less than 0.2"))

# Takeaways

entry = jacobian(lambda u: formula.layer_norm(u, eps=0.1), x)[3, 5]
places = {"delta_k_i": 0, "hat x_k": float(t.x_hat[3]), "hat x_i": float(t.x_hat[5])}
free("Takeaways #. $J", r"s/\sigma$. #. $J$", r"for $\varepsilon=0$. #. Test", why="its number")
tie("Takeaways 1. $J_{ki}=@$ is exact", entry, **at, **places)
tie(r"$J$ multiplies $\mathbf #$ by #, $\hat x$ by", whole(ones[0]), whole(lost))
tie(r"by 0, $\hat x$ by $@$ (", shrunk, **at)
tie(r"($@$ beside $\sigma$) and", middle, **beside)
tie(r"every vector with mean # and no part along $\hat x$ by $@$.", whole(v.mean()), kept, **at)
tie("not constant its rank is $@$, and", rank(0.1), H=11)
tie(r"rank is $H-1$, and $@$ for $\varepsilon=#$. 3", rank(0.0), zero_eps, H=11)

# Exercises and fine print

example_row = listed("[2.0, 4, 4, 4, 5, 5, 7, 9]")
tie("By hand: the row is (#, #, #, #, #, #, #, #).", *example_row)
tie("(Its mean is #.)", whole(example.mean()))
tie(r"$\sigma$ is #, so", whole(example.std(correction=0)))
tie("`eq-row-dsigma` is $@$.", slopes(lambda r: r.std(correction=0), example)[7], x_i=9)
answer = code("exercises.rank(#)")
tie(r"A layer norm of # features has $\varepsilon>#$", lambda: answer() + 2, zero_eps)
free(r"Two of its $\gamma$ are #,", r"two with $\gamma=#$ can", why="what the exercise sets")
tie(r"their gradient is $\frac#s(", whole(kept * s))
tie(r"g)$. The row is (#, #, #, #, #, #, #, #), and", *example_row)
tie(r"9), and $\gamma=(#,#,#,#,#,#,#,#)$.", *(whole(v) for v in exercises._GAMMA))
tie("with $f$, which is # here", code("check(claim, f, equals=#, within"))
tie(r"arithmetic and $\sigma>#$;", none)
tie(r"constant row with $\varepsilon>#$ has rank $@$ too", zero_eps, rank(0.1, flat), H=11)
smallest = next(H for H in range(2, 12) if rank(0.0, x[:H]) == 0)
tie(r"For $H=#$ and $\varepsilon=#$ the rank is #:", smallest, zero_eps, rank(0.0, x[:smallest]))
tie(r"$\hat x$ is ±#.", whole(formula.terms(x[:smallest], eps=0.0).x_hat.abs().max()))
free("for `std` from # to #", why="years")
