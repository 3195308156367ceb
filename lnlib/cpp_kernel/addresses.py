"""What C++ is given: where the numbers of a tensor are, if they are where C++ would look for them.

C++ knows an address and nothing else. Whatever is not just numbers of the expected type and number,
one behind the other in a CPU's memory, is refused here, and so cannot end in a crash or in garbage.
"""

import torch
from torch import Tensor

from lnlib.modes import check_memory, is_ordinary


def address(tensor: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    """Return where the first number of ``tensor`` is; 0 if it has none.

    Args:
        tensor: contiguous, on a CPU.
        dtype: what it must be of.
        shape: what it must have.

    Raises:
        RuntimeError: if ``tensor`` is anything else.
    """
    is_as_expected = tensor.dtype == dtype and tensor.shape == shape and tensor.is_cpu
    is_dense = is_as_expected and tensor.is_contiguous() and not tensor.is_neg()
    if not (is_dense and is_ordinary(tensor)):
        raise RuntimeError(
            f"C++ reads ordinary, contiguous tensors on a CPU, expected {dtype} of shape {shape}, "
            f"got a {type(tensor).__name__} of {tensor.dtype} and shape {tuple(tensor.shape)} on "
            f"{tensor.device}"
        )
    check_memory(tensor)
    return tensor.data_ptr() if tensor.numel() else 0


def dense(tensor: Tensor) -> Tensor:
    """Return ``tensor`` as `address` wants it: contiguous, and no view with the other sign."""
    return tensor.resolve_neg().contiguous()
