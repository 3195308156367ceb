"""What autograd hands back to a backward pass: the hooks of a user may have changed it.

`torch.autograd.graph.saved_tensors_hooks` is there to compress what is saved, or to keep it
elsewhere, and nobody checks what comes back. So a Function remembers of what kind its tensors were.
"""

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


def check(name: str, tensor: Tensor | None, kind: Kind | None) -> None:
    """Refuse a tensor that is of another kind than when it was saved, as PyTorch does.

    Raises:
        NotImplementedError: if its layout is another, such as a sparse one.
        RuntimeError: if its dtype, shape or device is another.
    """
    if tensor is None or kind is None or _kind_of(tensor) == kind:
        return
    dtype, shape, device, layout = kind
    error = RuntimeError if tensor.layout == layout else NotImplementedError
    raise error(
        f"{name} was saved for the backward pass as {dtype} of shape {tuple(shape)} on {device}, "
        "expected the same back from a hook of saved_tensors_hooks, got "
        f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}, {tensor.layout}; "
        "let unpack undo what pack did"
    )
