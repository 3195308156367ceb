"""Tensors that are not just numbers, dense, in memory that is there: what PyTorch has of them.

This file imports nothing of lnlib, so a process can still meet it for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor


class Plain(Tensor):
    """A subclass that overrides nothing."""


def cut(tensor: Tensor, left: int, start: int = 0) -> Tensor:
    """Return a copy, at an offset, whose storage has so many bytes left."""
    copy = torch.cat([tensor, tensor])[start:][: len(tensor)].detach()
    copy.untyped_storage().resize_(left)
    return copy


ODD: dict[str, Callable[[Tensor], Any]] = {
    "of a subclass": lambda t: t.as_subclass(Plain),
    "of a wrapper": lambda t: TwoTensor(t, t.clone()),
    "lazily cloned": torch._lazy_clone,
    "functional": torch._to_functional_tensor,
    "zeros that are nowhere": lambda t: torch._efficientzerotensor(*t.shape),
    "with the other sign": lambda t: torch._neg_view(-t),
    "complex, conjugated": lambda t: torch.complex(t, t).conj(),
    "the imaginary part of a conjugated one": lambda t: torch.complex(t, -t).conj().imag,
    "every other": lambda t: t.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda t: t[..., :1].expand(t.shape),
    "backwards": lambda t: t.flip(0).T.contiguous().T,
    "freed": lambda t: cut(t, 0),
    "cut off": lambda t: cut(t, 8),
    "cut off after an offset": lambda t: cut(t, t.nbytes, start=len(t)),
    "sparse": Tensor.to_sparse,
    "quantized": lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
    "meta": lambda t: t.to("meta"),
    "of another dtype": Tensor.double,
    "of ints": Tensor.int,
    "of another shape": lambda t: t[..., 1:],
    "one number": lambda t: t.flatten()[0],
    "empty": lambda t: t[:0],
}
