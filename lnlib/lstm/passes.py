"""What a backend of the layer-normalized LSTM does: both passes over packed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from lnlib.lstm.weights import Weights

Results = tuple[Tensor, Tensor, Tensor]  # outputs (N, H), last h and last c (B, H); or gradients
Gradients = tuple[Tensor | None, ...]  # of x, h, c and the weights; None where not needed


class Settings(NamedTuple):
    """What a run depends on besides tensors; see `lnlib.lstm.function.lstm`."""

    batch_sizes: tuple[int, ...]
    eps: float
    carry: str
    passes: Passes


class Passes(Protocol):
    """A backend: how the sequences are gone through, forward and back."""

    def forward(
        self, settings: Settings, x: Tensor, h: Tensor, c: Tensor, weights: Weights, keeps: bool
    ) -> tuple[Results, list[Tensor]]:
        """Return the results, and what `backward` needs besides the outputs if ``keeps``."""

    def backward(
        self,
        settings: Settings,
        given: tuple[Tensor, Tensor, Tensor, Weights],
        outputs: Tensor,
        kept: Sequence[Tensor],
        grads: Results,
        needs: tuple[bool, bool],
    ) -> Gradients:
        """Return the gradients of x and of the weights, where they are needed, and of h and c.

        Args:
            settings: as in the forward pass.
            given: likewise: x, h, c and the weights.
            outputs: as the forward pass returned them.
            kept: likewise; the strides may be others.
            grads: of the results.
            needs: whether the gradients of x and of the weights are needed.
        """
