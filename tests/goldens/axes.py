"""The block, its outputs by means over dimensions that share statistics, and which of them move."""

import torch

from goldens import data

DIMS = {"batch": (-4, -1), "layer_sample": (-3, -2, -1), "layer_position": (-3, -2)}
DIMS |= {"instance": (-1,), "group": (-2, -1), "rms": (-3, -2)}  # channels as two groups of two


def case(norm: str, changed: int, change: float, **cell: int) -> dict[str, object]:
    fixed, dims = data("axes", "{ values: it.values, pattern: it.pattern }"), DIMS[norm]
    x = fixed["values"].view(3, 2, 2, 5).repeat(2, 1, 1, 1, 1)  # before the change, and now
    x[1, changed - 1] += change * fixed["pattern"].view(2, 2, 5)
    mean = x.mean(dims, keepdim=True) * (norm != "rms")
    std = (x - mean).square().mean(dims, keepdim=True).sqrt()
    group = torch.arange(60.0).view_as(x[0]).mean(dims, keepdim=True)  # no two have the same
    group, x_hat = group.expand_as(x[0]).flatten(), (x - mean) / (std**2 + 1e-5).sqrt()
    x, x_hat, mean, std = (v.expand_as(x).flatten(1) for v in (x, x_hat, mean, std))
    at = 20 * cell["sample"] + 5 * cell["channel"] + cell["position"] - 26
    before, now = zip(x, x_hat, mean[:, at], std[:, at], strict=True)
    found = {"before": before, "now": now, "marks": (x_hat[1] - x_hat[0]).abs() > 1e-9}
    return found | {"places": (group == group[at]).nonzero()[:, 0], "pairs": len(group.unique())}
