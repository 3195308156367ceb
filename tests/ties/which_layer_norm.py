"""The numbers of the page on conventions, and what computes them."""

import math

import torch

from lnlib import formula
from ties import Page

page = Page("which_layer_norm")
tie, free, code, found, bound = page.tie, page.free, page.code, page.found, page.bound

ROW = torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9]).double()
EPS = torch.nn.LayerNorm(8).eps
fresh = torch.nn.LayerNorm(8)
START, SHIFT = fresh.weight[0].item(), fresh.bias[0].item()
NAMES = {"H": 8.0, "sigma": 3.4, "epsilon": 0.5, "mu": 5.0, "x": 9.0, "gamma": 2.5}
divisor = ((ROW - ROW.mean()).square().sum() / ROW.var()).item()
squares = ROW.square().max()

# The question
tie(r"both say $\varepsilon = @$. By how", EPS)
tie(r"divide by $@$, put", divisor, **NAMES)
tie(r"or store $@$. All", 2.5 - START, **NAMES)

# The conventions
free("the paper, eq. #", "the paper's eq. #, with $b$", "the paper's eq. #, on", why="equations")
free("PyTorch, Flax, Keras, GPT-#", "OpenAI's GPT-#", "Gemma # to #", "OLMo #", why="names")
free("on CPUs before #", "until September #", why="years")
tie("| | divide by $@$, unbiased", divisor, **NAMES)
variance = formula.terms(1.7 * ROW).var.item()  # with a spread of 2, σ² would be 2σ
tie(r"shown <eps-convention>`): $@$ | nearly", (variance + 0.5) ** 0.5, **NAMES)
tie(r'| `eps_at="std"` | | $@$ | Flux', (variance + 0.25) ** 0.5, **NAMES)
tie("its $@$ is a floor", code("np.maximum(length, #)"))
tie(r"one pass, $\overline{@}-@$ | Flax", squares, ROW.mean() ** 2, **NAMES)
tie("by default, cut off at #", torch.tensor(-1e-9).clamp(min=0.0))
tie(r"two passes, $\overline{@}$ | MLX", (ROW - ROW.mean()).square().max(), **NAMES)
tie(r"$\gamma$ starts at #, $\beta$ at # | most", START, SHIFT)
tie(r"zero-centered: $\gamma = @$ | Gemma", START + 0.5, w=0.5)
tie("Divide by H or by H − # In", ROW.numel() - divisor)
tie("`x.std()` divides by $@$ unless", divisor, **NAMES)
tie(r"it pulls $\gamma$ toward #. If", START)
tie("is multiplied by nearly #. If $w$ starts at #, the factor is #", START - 1, START, 2 * START)

# How much it matters
tie(r"with $\gamma = #$ and $\beta = #$. A row has # features", START, SHIFT, code("randn(64, #)"))
WIDE, NARROW = code("ordinary, flat = gaps(#), gaps("), code("ordinary, flat = gaps(1.0), gaps(#)")
tie("of mean ½ and spread # or #.", WIDE, NARROW)
tie("for rows of spread # (dots) and # (squares)", WIDE, NARROW)
tie("since no row has a mean of #. Dot", formula.terms(ROW).x_hat.mean().abs().round(decimals=9))


def gaps() -> list[float]:
    """Return how far three conventions are from PyTorch's on the page's ordinary rows."""
    torch.manual_seed(1)
    x = code("x = # + std * rows")() + torch.randn(64, 768).double()
    usual = formula.layer_norm(x)
    others: list[dict[str, object]] = [{"correction": 1}, {"eps_at": "std"}, {"eps": EPS**2}]
    return [(formula.layer_norm(x, **each) - usual).abs().max().item() for each in others]


tie("On rows of spread # the unbiased", WIDE)
tie("differ by # to #. On rows of spread #", lambda: min(gaps()), lambda: max(gaps()), NARROW)
tie(
    "of epsilon differ by about #. RMS",
    lambda: round(found("flat rows: ε and its place change y by")()),
)
R = ["2.0", *"4445579"]
PLACES = [", ".join([*R[:i], "#", *R[i + 1 :]]) for i in range(8)]
ROW_CODE = [Page("01_formula").code(f"book_row = torch.tensor([{place}]") for place in PLACES]
tie("example row, (#, #, #, #, #, #, #, #)", *ROW_CODE)

# Where the norm sits
free(r"W_h h_{t-#} + W_x", why="an index")
tie(
    r"rows of spread # after a norm (while $\gamma = #$)",
    round(formula.terms(ROW).x_hat.std(correction=0).item(), 3),
    START,
)

# What the usual explanations get wrong
far = formula.layer_norm(torch.eye(8).double()[0], eps=0.0)
pair = formula.layer_norm(torch.tensor([1.0, 2.0]), eps=0.0)
alone = formula.layer_norm(torch.tensor([3.0]))[0]
tie(
    r"\rvert \le @$: with two features it is $\pm#$, with one it is #.",
    far.max(),
    pair[1],
    alone,
    **NAMES,
)
SHOWN = torch.tensor([0.001, 0.001, 0.0011, 0.0009, 0.001], dtype=torch.float64)  # of that text
tiny = round(2.5 * SHOWN.var(correction=0).item(), 15)  # two and a half times
tie(r"A tiny $\varepsilon$ such as $@$ changes", tiny)
tie("Normalized values lie within # and #.", *torch.tensor([-99.0, 99.0]).tanh())
tie("half times the variance, $@$, of the", SHOWN.var(correction=0))
tie(
    r"but with $\gamma=#$ they multiply a gradient by $@ = #$",
    START,
    EPS**-0.5,
    EPS**-0.5,
    epsilon=EPS,
)
constant = torch.full((4,), 3.0).double()


def beside(x: torch.Tensor) -> torch.Tensor:
    """Return layer norm with 1 beside the spread, whose slope at 0 is taken as 0."""
    centered = x - x.mean()
    return centered / (centered.square().mean().clamp(min=1e-300).sqrt() + 1)


J = torch.autograd.functional.jacobian(beside, constant)
tie(r"$(I-\frac#H\mathbf#\mathbf#^\top)/", 4 * (1 - J[0, 0]), *2 * [torch.ones(4)[0]])
mean = torch.autograd.functional.jacobian(lambda x: x.mean(), constant)
tie(r"(\delta_{hq}-\frac#H)$. One", 4 * mean[0])
spread = far.std(correction=0).item()
both = math.hypot(spread, spread)  # of the sum of two that are independent
outside = [100 * math.erfc(1 / each / 2**0.5) for each in (spread, both)]
tie("They have spread #, so of normal values # % lie", spread, outside[0])
tie(r"the sum has spread $@$, and # % lie outside", both, outside[1])
tie("On all $@$ summed inputs", len(torch.nn.LSTM(3, 8).weight_hh_l0), **NAMES)
free("Equation # is layer", why="of the paper")
free("Takeaways #. ", "weights. #. With", "centered. #. Believe", why="the places in a list")
