"""Variances by the formula, sums of dγ by autograd, and how often each number is read."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from lnlib import formula

# Park and Miller (1988), with the page's seed.
DRAWN = [255 * pow(16807, n, 2**31 - 1) % (2**31 - 1) >> 8 for n in range(1, 2 * 12 * 16 + 1)]
BITS = torch.tensor(DRAWN).view(2, 12, 16)
X, DY = (BITS[0] % 17 / 2 - 2.5).double(), (BITS[1] % 9 / 4 - 1).double()


def case(kernel: str, rows: int, features: int, programs: int, padding: str, step: int) -> Any:
    x, dy = X[:rows, :features], DY[:rows, :features]
    mean, var, *_ = formula.terms(x)
    lanes = F.pad(x, (0, 2 ** math.ceil(math.log2(features)) - features))
    wrong = (lanes - mean).square().sum(1, keepdim=True) / features
    counted = wrong if kernel == "forward" else var
    x_hat = (x - mean) / ((counted if padding == "counted" else var) + 1e-5).sqrt()
    made = {"x": x, "xHat": x_hat, "rows": {"mean": mean, "variance": var, "counted": counted}}
    if kernel == "long":
        turn, last = torch.arange(features) // 4, math.ceil(features / 4)
        off = (x - x[:, :4].mean(1, keepdim=True)) * (turn < step)
        made["along"] = {"sum": off.sum(1), "squares": off.square().sum(1)}
        return made | {"reads": ((turn < step) * 1 + (2 * last - turn <= step)).expand_as(x)}
    tile = torch.arange(rows) // min(4, 16 // lanes.shape[1])
    P = min(programs, int(tile[-1]) + 1) if kernel == "backward" else 1
    read = (tile < step * P).long()[:, None].expand_as(x)
    weight = torch.ones(P, features, dtype=torch.float64, requires_grad=True)
    y = x_hat * weight[tile % P]  # each program has a γ of its own
    sums, whole = (torch.autograd.grad(y, weight, g, retain_graph=True)[0] for g in (dy * read, dy))
    gamma = {"sums": sums, "truth": whole.sum(0)} if kernel == "backward" else {}
    return made | {"reads": read} | gamma
