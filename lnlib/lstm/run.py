"""One direction of one layer over packed sequences, by whichever way is right and fast."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lnlib.lstm import backends, checks, formula, function
from lnlib.lstm.weights import Weights
from lnlib.modes import mode_of

State = tuple[Tensor, Tensor]


class Options(NamedTuple):
    """What `lnlib.LayerNormLSTM` says of its arguments of the same names."""

    eps: float
    carry: str
    backend: str


def run(
    x: Tensor, h: Tensor, c: Tensor, weights: Weights, batch_sizes: Sequence[int], options: Options
) -> tuple[Tensor, Tensor, Tensor]:
    """Do what `lnlib.lstm.formula.lstm` does: by the Function for ordinary tensors, or as it is.

    Autocast narrows all to its dtype first, as it does for PyTorch's LSTM on a GPU; float64 stays.
    """
    device = x.device.type
    if checks.is_autocast(device):
        dtype = torch.get_autocast_dtype(device)
        x, h, c = (_narrowed(tensor, dtype) for tensor in (x, h, c))
        narrowed: list[Any] = [None if w is None else _narrowed(w, dtype) for w in weights]
        with torch.autocast(device, enabled=False):
            return run(x, h, c, Weights(*narrowed), batch_sizes, options)
    if mode_of(x, h, c, *weights) != "eager":
        normalize = formula.normalizing(options.eps)
        return formula.lstm(x, h, c, weights, batch_sizes, normalize, options.carry)
    passes = backends.passes_for(options.backend, x)
    return function.lstm(x, h, c, weights, batch_sizes, options.eps, options.carry, passes)


def _narrowed(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if checks.is_narrowed(tensor) else tensor
