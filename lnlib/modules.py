"""The layer to build networks from."""

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor, nn

from lnlib import triton_kernel
from lnlib.dispatch import check_backend
from lnlib.functional import layer_norm


class LayerNorm(nn.LayerNorm):
    """Layer normalization as a module: `torch.nn.LayerNorm` with lnlib doing the arithmetic.

    It is a `torch.nn.LayerNorm`, with the same arguments, parameters and state dict, so the one
    loads the checkpoints of the other.

    Args:
        normalized_shape: an int, the size of the last dimension, or the sizes of the trailing
            dimensions that share one mean and one variance.
        eps: added to the variance, so in units of the input squared.
        elementwise_affine: learn ``weight``, 1 at first.
        bias: learn ``bias`` too, 0 at first; without ``elementwise_affine`` there is none.
        device: of the parameters.
        dtype: of the parameters.
        backend: what computes it; see `lnlib.layer_norm`, which also says what is refused.

    Raises:
        ValueError: if there is no such ``backend``.
        ImportError: if it is "triton", and Triton is missing here, or older than 3.6.

    >>> LayerNorm(3)(torch.tensor([[1.0, 2.0, 3.0]])).detach()
    tensor([[-1.2247,  0.0000,  1.2247]])
    """

    backend: str = "auto"  # of one that was not made by __init__, too

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        check_backend(backend)
        if backend == "triton":
            triton_kernel.check_installed()
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.backend = backend

    def forward(self, input: Tensor) -> Tensor:
        """Normalize ``input``, ``(..., *normalized_shape)``; the same shape and dtype come back."""
        return layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps, backend=self.backend
        )

    def __prepare_scriptable__(self) -> NoReturn:
        """Say no to `torch.jit.script`, which asks here first."""
        raise RuntimeError(
            "lnlib.LayerNorm cannot be scripted: TorchScript does not know its arithmetic; export "
            "the model (torch.export), trace it (torch.jit.trace), or keep torch.nn.LayerNorm in it"
        )

    def extra_repr(self) -> str:
        """Describe the module as PyTorch does, and name the backend if one was asked for."""
        shown = super().extra_repr()
        return shown if self.backend == "auto" else f"{shown}, backend={self.backend!r}"
