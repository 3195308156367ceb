"""The numbers of the page on conventions, and what computes them."""

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
free("the paper's eq. #, with $b$", "the paper's eq. #, on", why="equations")
free("PyTorch, Flax, Keras, GPT-#", "OpenAI's GPT-#", "Gemma #n and # {cite", why="names")
free("on CPUs before #", "until September #", why="years")
tie("Variance: divide by $@$, unbiased", divisor, **NAMES)
variance = formula.terms(1.7 * ROW).var.item()  # with a spread of 2, σ² would be 2σ
tie(r"Place of $\varepsilon$: $@$ | nearly", (variance + 0.5) ** 0.5, **NAMES)
tie(r'| `eps_at="std"` | | Place of $\varepsilon$: $@$ | Flux', (variance + 0.25) ** 0.5, **NAMES)
tie("its $@$ is a floor", code("length.clamp(min=#)"))
tie(r"one pass, $\overline{@}-@$ | Flax", squares, ROW.mean() ** 2, **NAMES)
tie("by default, cut off at #", torch.tensor(-1e-9).clamp(min=0.0))
tie(r"two passes, $\overline{@}$ | MLX", (ROW - ROW.mean()).square().max(), **NAMES)
tie(r"$\gamma$ starts at #, $\beta$ at # | most", START, SHIFT)
tie(r"zero-centered: $\gamma = @$ | the first", START + 0.5, w=0.5)
tie("Divide by H or by H − # | Conv", ROW.numel() - divisor)
tie("`x.std()` divides by $@$ unless", divisor, **NAMES)
tie(r"it pulls $\gamma$ toward #. If", START)
tie("is multiplied by nearly #. If $w$ starts at #, the factor is #", START - 1, START, 2 * START)

# How much it matters
tie(r"with $\gamma = #$ and $\beta = #$. A row has # features", START, SHIFT, code("randn(64, #)"))
WIDE, NARROW = code("ordinary, flat = gaps(#), gaps("), code("ordinary, flat = gaps(1.0), gaps(#)")
tie("change no output by more than #. On flat", bound("ordinary rows: these three agree to 0.003"))
tie("of mean ½ and spread # or #.", WIDE, NARROW)
tie("for rows of spread # (dots) and # (squares)", WIDE, NARROW)
tie("since no row has a mean of #. Dot", formula.terms(ROW).x_hat.mean().abs().round(decimals=9))


def gaps() -> list[float]:
    """Return how far three conventions are from PyTorch's on the page's ordinary rows."""
    torch.manual_seed(1)
    x = code("x, ln = # + std * rows")() + torch.randn(64, 768).double()
    usual = formula.layer_norm(x)
    others: list[dict[str, object]] = [{"correction": 1}, {"eps_at": "std"}, {"eps": EPS**2}]
    return [(formula.layer_norm(x, **each) - usual).abs().max().item() for each in others]


tie("On rows of spread # the unbiased", WIDE)
tie("differ by # to #. On rows of spread #", lambda: min(gaps()), lambda: max(gaps()), NARROW)
tie(
    "of epsilon differ by about #. RMS",
    lambda: round(found("flat rows: ε and its place change y")()),
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

free("Takeaways #. ", "weights. #. With", why="the places in a list")
