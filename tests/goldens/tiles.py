"""Variances by the formula, sums of x̂·dy, and how often each number is read."""

from typing import Any

import torch

from lnlib import formula

DRAWN = [255 * pow(16807, n, 2**31 - 1) % (2**31 - 1) >> 8 for n in range(1, 2 * 12 * 16 + 1)]
BITS = torch.tensor(DRAWN).view(2, 12, 16)  # Park and Miller (1988), with the page's seed
X, DY = (BITS[0] % 17 / 2 - 2.5).double(), (BITS[1] % 9 / 4 - 1).double()


def case(kernel: str, rows: int, features: int, programs: int, padding: str, step: int) -> Any:
    x, dy = X[:rows, :features], DY[:rows, :features]
    mean, var, *_ = formula.terms(x)
    width = 1 << (features - 1).bit_length()
    counted = var + (kernel == "forward") * (width - features) / features * mean.square()
    x_hat = (x - mean) / ((counted if padding == "counted" else var) + 1e-5).sqrt()
    tile, P = torch.arange(rows) // min(4, 16 // width), programs if kernel == "backward" else 1
    turn = torch.arange(features) // 4 if kernel == "long" else tile[:, None] // P
    back = (kernel == "long") * (turn >= 2 * (turn[-1] + 1) - step)  # the second sweep
    made = {"x": x, "xHat": x_hat, "reads": ((turn < step) * 1 + back).expand_as(x)}
    sums = torch.zeros(P, features).double().index_add(0, tile % P, x_hat * dy * made["reads"])
    off = (x - x[:, :4].mean(1, keepdim=True)) * (turn < step)
    made |= {"rows": torch.cat([mean, var, counted], 1), "truth": (x_hat * dy).sum(0)}
    return made | {"sums": sums[: tile[-1] + 1], "along": torch.stack([off, off**2], 2).sum(1)}
