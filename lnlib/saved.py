"""What autograd hands back to a backward pass: the hooks of a user may have changed it.

`torch.autograd.graph.saved_tensors_hooks` is there to compress what is saved, or to keep it
elsewhere, and PyTorch does not check what comes back. So a Function remembers the kinds of its
tensors.
"""

from collections.abc import Sequence
from operator import attrgetter

import torch
from torch import Tensor

Kind = tuple[torch.dtype, torch.Size, torch.device, torch.layout]

_kind_of = attrgetter("dtype", "shape", "device", "layout")


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
        dtype, shape, device, layout = kind
        is_odd = tensor.layout != layout or tensor.is_complex()
        error = NotImplementedError if is_odd else RuntimeError
        raise error(
            f"{name} was saved for the backward pass as {dtype} of shape {tuple(shape)} on "
            f"{device}, expected the same back from a hook of saved_tensors_hooks, got "
            f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}, {tensor.layout}; "
            "let unpack undo what pack did"
        )
