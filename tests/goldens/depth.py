"""Sizes in the network by autograd, and their law: a ReLU passes half of a normal distribution."""

import torch
from torch.nn.functional import layer_norm, relu

from goldens import data

Z = torch.linspace(0, 40, 400_001, dtype=torch.float64)  # what it lets pass
MEAN = torch.trapezoid(Z * (-Z * Z / 2).exp(), Z).item() / (2 * torch.pi) ** 0.5
# The weights of 50 layers, then an input and a gradient.
DRAWN = "{ all: Array.from({ length: (50 * 128 + 2) * 128 }, (_, i) => it.draw(i)) }"


def case(order: str, scale: float, depth: int) -> dict[str, torch.Tensor]:
    drawn = data("depth", DRAWN)["all"].view(-1, 128)
    x, dy = (v / v.square().mean().sqrt() for v in drawn[-2:])
    h, sizes, gradients = [x.requires_grad_()], [1.0], [1.0]
    for w in drawn[: 128 * depth].split(128):
        a, rms = h[-1] @ w * scale / 8, scale * 2**0.5 * sizes[-1]  # √(2/128) is 1/8
        n = layer_norm(a if order == "norm_first" else relu(a), (128,), eps=0)
        h.append({"none": relu(a), "norm_first": relu(n), "relu_first": n}[order])
        sizes.append({"none": rms / 2**0.5, "norm_first": 0.5**0.5, "relu_first": 1}[order])
        divisor = {"none": 1, "norm_first": rms, "relu_first": rms * (0.5 - MEAN**2) ** 0.5}[order]
        gradients = [*(v * scale / divisor for v in gradients), 1.0]  # by √2 scale, then √½ of them
    both = torch.stack([*h, *torch.autograd.grad(h[-1], h, dy)]).view(2, depth + 1, 128)
    return {"law": x.new_tensor([sizes, gradients]), "measured": both.square().mean(-1).sqrt()}
