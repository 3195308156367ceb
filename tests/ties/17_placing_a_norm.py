"""The numbers of chapter 17, and what computes them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from ties import Page

page = Page("17_placing_a_norm")
tie, free, code = page.tie, page.free, page.code


def each(*patterns: str) -> list[Callable[[], float]]:
    return [code(pattern) for pattern in patterns]


PARTS, TIMES = code("torch.randn(2, #, H, H)"), code("sizes(place, 1), sizes(place, #)[1]")
ZERO = nn.init.zeros_(torch.empty(1)).item()
ONE = nn.LayerNorm(1).weight.item()

# before the part, behind it, or both
POST = each('three sizes", [#, 1, 1]', 'three sizes", [1, #, 1]', 'three sizes", [1, 1, #]')
PRE = each('grows", [#, 4', 'grows", [1, #, 21', 'grows", [1, 4.58, #]')
BEHIND = each('is fixed", [#, 6', 'is fixed", [6.26, #, 6', 'is fixed", [6.26, 6.38, #]')
BOTH = each('are fixed", [#, 6', 'are fixed", [1, #, 6', 'are fixed", [1, 6.38, #]')
tie("stacks of # parts with random", PARTS)
tie("the first rows have size #. In", ONE)
tie("| `norm(x + f(x))` | # | # | # |", *POST)
tie("| `x + f(norm(x))` | # | # | # |", *PRE)
tie("| `x + norm(f(x))` | # | # | # |", *BEHIND)
tie("| `x + norm(f(norm(x)))` | # | # | # |", *BOTH)
tie("of each part is # times as large", TIMES)
tie("The stream behind it | × # |", TIMES)
tie("each part adds rows of size #, however", ONE)
tie(r"Start its $\gamma$ and $\beta$ at #, and", ZERO)
tie(r"$\gamma = #$ would erase", ZERO)

# inside attention, conditions
tie("length, it cannot pass #): ", F.normalize(torch.ones(3), dim=0).square().sum())
tie(
    r"$\gamma = # + \text{scale}$",
    code("ours = ada_ln(rows, lambda v: v, norm, scale, shift, gate=#)"),
)
tie("weights and biases start at #, so", ZERO)
tie("by a gate of #. Of", ZERO)
tie("last layer starts at # too", ZERO)
tie("with # + scale, a sum", code("f((# + scale)"))

# DyT
SIZES = each("for s in (#, 7, 49)", "for s in (1, #, 49)", "for s in (1, 7, #)")
LARGE, SMALL = code("for a in (#, 0.05)"), code("for a in (0.5, #)")
OUT = each("equals=[#, 0.88, 0.98]", "equals=[0.42, #, 0.98]", "equals=[0.42, 0.88, #]")
LESS = each("equals=[#, 0.32, 0.84]", "equals=[0.05, #, 0.84]", "equals=[0.05, 0.32, #]")
SLOPE = each("equals=[#, 0.22, 0.03]", "equals=[0.83, #, 0.03]", "equals=[0.83, 0.22, #]")
SLOPE = [lambda share=share: 100 * share() for share in SLOPE]
tie(r"mean slope at $\alpha = #$ | Output at $\alpha = #$ |", LARGE, SMALL)
for size, *row in zip(SIZES, OUT, SLOPE, LESS, strict=True):
    tie(f"| {size()} | #, # % | # |", *row)
tie("---|---| | # | 0.42, 83 % | 0.05 | | # | 0.88, 22 % | 0.32 | | # | 0.98, 3 % | 0.84 |", *SIZES)
tie("features end at # or −# and", ONE, ONE)
tie("In the authors' code it is # {cite", code("def tanh(v, alpha=#)"))

# no norm
tie(r"by $@$ at each part", lambda: 2 ** code("size.log2() / #,")())
tie("After # of them", PARTS)

# takeaways, exercises
tie("the last matrix starts at #. Inside", ZERO)
tie("the last matrix of $f$ by #. Which", TIMES)
tie(r"with $\gamma = #$, the first row has size #,", ONE, ONE)
tie("stream after # parts, up to", PARTS)
ROOT = code("exercises.size(#**0.5)")
tie("adds a row of size #. For", ONE)
tie(
    "so after # parts the mean square is #, and its root is #. The",
    PARTS,
    ROOT,
    lambda: ROOT() ** 0.5,
)
free(
    "Llama and OLMo # both have",
    "OLMo # calls it before",
    "OLMo # and Swin v2 put",
    "Gemma # and # have the",
    "Qwen3 and Gemma # normalize",
    "OLMo # normalizes all",
    "for the smallest model # before attention and # elsewhere",
    "is better) of #, against # with",
    why="names, and what others report",
)
tie("The rows of this chapter have a mean of #, so", ZERO)
