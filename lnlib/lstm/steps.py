"""What a time step of the layer-normalized LSTM reads and writes, in whatever backend."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor


class Forward(NamedTuple):
    """The buffers of a forward pass over n rows, one for each step of each sequence.

    Attributes:
        weight_h: ``(4H,)``, γ of the norm of W_h h.
        weight_c: ``(H,)``, γ of the norm of the cell.
        bias_c: ``(H,)``, its bias.
        eps: added to each variance.
        carries_normalized: whether the normalized cell goes on to the next step, or the raw one.
        outputs: ``(n, H)``, the state h.
        carry: ``(b + n, H)``; the b cells to start from, and the cells that the steps send on.
        gates: ``(n, 4H)``; at first what the input adds to them, then their values.
        a_hat: ``(n, 4H)``; W_h h at first, then normalized.
        c_hat: ``(n, H)``, the cell, normalized.
        tanh_n: ``(n, H)``, of the normalized, scaled and shifted cell.
        rstd_a: ``(n, 1)``, of W_h h; float32 or wider.
        rstd_c: ``(n, 1)``, of the cell; likewise.
    """

    weight_h: Tensor
    weight_c: Tensor
    bias_c: Tensor
    eps: float
    carries_normalized: bool
    outputs: Tensor
    carry: Tensor
    gates: Tensor
    a_hat: Tensor
    c_hat: Tensor
    tanh_n: Tensor
    rstd_a: Tensor
    rstd_c: Tensor


class Backward(NamedTuple):
    """The buffers of a backward pass over n rows of B sequences.

    Attributes:
        dy: ``(n, H)``; what reaches the outputs from outside.
        dh: ``(B, H)``; what reaches the state h of a step from the step after it.
        dcarry: ``(B, H)``; what reaches the cell that a step sends on, then the one it was sent.
        dv: ``(n, 4H)``, for the sums that enter the gates.
        da: ``(n, 4H)``, for W_h h.
        dn: ``(n, H)``, for the normalized, scaled and shifted cell.
    """

    dy: Tensor
    dh: Tensor
    dcarry: Tensor
    dv: Tensor
    da: Tensor
    dn: Tensor


class Block(NamedTuple):
    """The rows of one time step, ``[start, stop)``, and where ``carry`` has its cells."""

    start: int
    stop: int
    before: int
    after: int


Step = Callable[[Block], None]


class Steps(Protocol):
    """A backend: how one time step is computed, but for the product with W_h."""

    def forward(self, buffers: Forward) -> Step:
        """Return a step forward over these buffers.

        Where a block's rows of ``a_hat`` hold W_h h, and those of ``gates`` what the input adds, it
        fills the block in all of them.
        """

    def backward(self, buffers: Forward, grads: Backward) -> Step:
        """Return a step back over these buffers.

        It fills the block in ``dv``, ``da`` and ``dn``, and moves ``dcarry`` one step back.
        """
