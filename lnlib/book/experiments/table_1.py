"""Table 1 of the layer-norm paper, to be run: three normalizations, six ways to change a layer.

One function stands for each normalization, one for each change, and `deviation` runs a cell of the
table. Everything is float64.

Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, section 5.1: equation 5 is the form that all
normalizations share, and its table 1 says which change each of them does not notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "CHANGES",
    "NORMS",
    "TABLE_1",
    "Change",
    "Layer",
    "Norm",
    "batch_norm",
    "center_data",
    "center_matrix",
    "deviation",
    "layer_norm",
    "normalized",
    "random_layer",
    "rms_norm",
    "running",
    "scale_data",
    "scale_matrix",
    "scale_row",
    "scale_sample",
    "weight_norm",
]


class Layer(NamedTuple):
    """The weights of a linear layer and the data that it is shown.

    ``weight`` is (H, D) and ``x`` is (B, D). ``inside`` is a bias in front of the norm, where the
    paper has none: (H,), or 0.
    """

    weight: Tensor
    x: Tensor
    inside: Tensor | float = 0.0

    @property
    def sums(self) -> Tensor:
        """The summed inputs a, (B, H)."""
        return self.x @ self.weight.mT + self.inside


# What is subtracted from the summed inputs and what they are divided by; each broadcasts to (B, H).
Norm = Callable[[Layer], tuple[Tensor, Tensor]]
# The layer after a change by the amount δ, a factor or the size of a shift.
Change = Callable[[Layer, float], Layer]


def batch_norm(layer: Layer) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each summed input over the batch, (1, H)."""
    return layer.sums.mean(0, keepdim=True), layer.sums.std(0, correction=0, keepdim=True)


def weight_norm(layer: Layer) -> tuple[Tensor, Tensor]:
    """Return zeros and the length of each row of the weights, (H,).

    Source: Salimans, Kingma 2016, arXiv:1602.07868.
    """
    lengths = layer.weight.norm(dim=1)
    return torch.zeros_like(lengths), lengths


def layer_norm(layer: Layer) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each sample over its summed inputs, (B, 1)."""
    return layer.sums.mean(1, keepdim=True), layer.sums.std(1, correction=0, keepdim=True)


def rms_norm(layer: Layer) -> tuple[Tensor, Tensor]:
    """Return zeros and the root mean square of each sample, (B, 1).

    Source: Zhang, Sennrich 2019, arXiv:1910.07467, which is younger than table 1.
    """
    size = layer.sums.square().mean(1, keepdim=True).sqrt()
    return torch.zeros_like(size), size


def running(seen: Layer) -> Norm:
    """Return batch norm as it is at inference: with the statistics of what it has ``seen``."""
    mean, std = batch_norm(seen)
    return lambda layer: (mean, std)


def normalized(layer: Layer, norm: Norm, eps: float = 0.0) -> Tensor:
    """Return the normalized summed inputs, (B, H), without γ and β: equation 5.

    ``eps`` is added to the square of what is divided by; the paper has none.
    """
    mean, std = norm(layer)
    return (layer.sums - mean) / (std.square() + eps).sqrt()


def scale_matrix(layer: Layer, delta: float) -> Layer:
    """Multiply all weights by δ."""
    return layer._replace(weight=delta * layer.weight)


def center_matrix(layer: Layer, delta: float) -> Layer:
    """Add one vector, of entries about δ, to every row of the weights."""
    return layer._replace(weight=layer.weight + delta * _vector(layer))


def scale_row(layer: Layer, delta: float) -> Layer:
    """Multiply one row, the incoming weights of one neuron, by δ."""
    return layer._replace(weight=_first_times(layer.weight, delta))


def scale_data(layer: Layer, delta: float) -> Layer:
    """Multiply all samples by δ."""
    return layer._replace(x=delta * layer.x)


def center_data(layer: Layer, delta: float) -> Layer:
    """Add one vector, of entries about δ, to every sample."""
    return layer._replace(x=layer.x + delta * _vector(layer))


def scale_sample(layer: Layer, delta: float) -> Layer:
    """Multiply one sample by δ."""
    return layer._replace(x=_first_times(layer.x, delta))


def _first_times(rows: Tensor, delta: float) -> Tensor:
    return torch.cat([delta * rows[:1], rows[1:]])


def _vector(layer: Layer) -> Tensor:
    generator = torch.Generator().manual_seed(layer.x.shape[1])
    return torch.randn(layer.x.shape[1], generator=generator, dtype=torch.float64)


NORMS: dict[str, Norm] = {
    "Batch norm": batch_norm,
    "Weight norm": weight_norm,
    "Layer norm": layer_norm,
}
CHANGES: dict[str, Change] = {
    "W re-scaled": scale_matrix,
    "W re-centered": center_matrix,
    "one row re-scaled": scale_row,
    "data re-scaled": scale_data,
    "data re-centered": center_data,
    "one sample re-scaled": scale_sample,
}
# The paper's table, in the order of CHANGES: True stands for its word "Invariant".
TABLE_1 = {
    "Batch norm": (True, False, True, True, True, False),
    "Weight norm": (True, False, True, False, False, False),
    "Layer norm": (True, True, False, True, False, True),
}


def random_layer(seed: int, B: int = 11, H: int = 7, D: int = 5) -> Layer:
    """Return normal weights (H, D) and samples (B, D), not centered, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    weight = 0.3 + torch.randn(H, D, generator=generator, dtype=torch.float64)
    return Layer(weight, 0.5 + torch.randn(B, D, generator=generator, dtype=torch.float64))


def deviation(
    layer: Layer, norm: Norm, change: Change, delta: float = 3.0, eps: float = 0.0
) -> float:
    """Return the largest change of a normalized summed input when the layer is changed.

    Args:
        layer: what is changed.
        norm: how its summed inputs are normalized, before and after.
        change: what is done to it.
        delta: by how much: the factor, or the size of the shift.
        eps: as in `normalized`.
    """
    before, after = normalized(layer, norm, eps), normalized(change(layer, delta), norm, eps)
    return float((after - before).abs().max())
