"""Checks of what autograd hands back to a backward pass.

A user's `torch.autograd.graph.saved_tensors_hooks` may return other tensors than were saved, and
PyTorch does not check them. So a Function remembers the kinds of its tensors.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Kind = tuple[torch.dtype, torch.Size, torch.device, torch.layout]


def _kind_of(tensor: Tensor) -> Kind:
    return tensor.dtype, tensor.shape, tensor.device, tensor.layout


def kinds_of(*tensors: Tensor | None) -> list[Kind | None]:
    """Return the kinds of tensors that will be saved, or have come back."""
    return [None if tensor is None else _kind_of(tensor) for tensor in tensors]


def check_gradient(dy: Tensor) -> None:
    """Raise NotImplementedError, as PyTorch does, for a gradient of y that is sparse."""
    if dy.layout != torch.strided:
        raise NotImplementedError(
            f"the gradient of y must be dense, expected layout torch.strided, got {dy.layout}; "
            "convert it with .to_dense()"
        )


def check(
    names: Sequence[str], tensors: Sequence[Tensor | None], kinds: Sequence[Kind | None]
) -> None:
    """Refuse tensors that are of other kinds than when they were saved, as PyTorch does.

    Args:
        names: of the first tensors; only these are looked at.
        tensors: that have come back.
        kinds: theirs when they were saved.

    Raises:
        NotImplementedError: if the layout of one is another, as of a sparse one, or it is complex.
        RuntimeError: if its dtype, shape or device is another.
    """
    for name, tensor, kind in zip(names, tensors, kinds, strict=False):
        if tensor is None or kind is None or _kind_of(tensor) == kind:
            continue
        is_odd = tensor.layout != kind[-1] or tensor.is_complex()
        error = NotImplementedError if is_odd else RuntimeError
        raise error(
            f"{name} was saved for the backward pass as {kind}, expected the same back from a hook "
            f"of saved_tensors_hooks, got {_kind_of(tensor)}; let unpack undo what pack did"
        )
