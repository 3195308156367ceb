"""One time step of the layer-normalized LSTM, with the interface of `torch.nn.LSTMCell`."""

import torch
from torch import Tensor, nn

from lnlib.lstm import backends, checks, weights
from lnlib.lstm.run import Options, State, run
from lnlib.lstm.weights import Device, changed


class LayerNormLSTMCell(nn.Module):
    """One time step of `LayerNormLSTM`, with the interface of `torch.nn.LSTMCell`.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of h and of c.
        bias: learn ``bias`` and ``norm_c_bias``.
        device: of the parameters.
        dtype: of the parameters.
        eps: as in `LayerNormLSTM`, where the parameters are listed too; here their names have no
            ending.
        forget_bias: likewise.
        carry: likewise.
        backend: likewise.

    Raises:
        TypeError, ValueError, ImportError: as `LayerNormLSTM` does.

    Source: Ba, Kiros, Hinton 2016, eq. 20 to 22.

    >>> h, c = LayerNormLSTMCell(28, 128)(torch.randn(64, 28))
    >>> h.shape, c.shape
    (torch.Size([64, 128]), torch.Size([64, 128]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        eps: float = 1e-5,
        forget_bias: float = 0.0,
        carry: str = "raw",
        backend: str = "auto",
    ) -> None:
        checks.sizes_of_network(input_size, hidden_size, 1, bias, False, 0.0, False, 0)
        checks.options(carry, bias, forget_bias)
        backends.check(backend)
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.eps = eps
        self.forget_bias = forget_bias
        self.carry = carry
        self.backend = backend
        weights.add(self, "", input_size, hidden_size, bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give the parameters their first values, those of `LayerNormLSTM`."""
        weights.reset(weights.of(self, ""), self.forget_bias)

    def forward(self, input: Tensor, hx: State | None = None) -> State:
        """Take one step.

        Args:
            input: ``(B, input_size)``, or ``(input_size,)`` for one case.
            hx: h and c, each ``(B, H)``, or ``(H,)``; zeros if None.

        Returns:
            The new h and c, like ``hx``.

        Raises:
            ValueError, RuntimeError: as `torch.nn.LSTMCell` does where shapes, dtypes or devices do
                not fit together; RuntimeError also if ``backend`` is "cpp" and cannot be had.
            TypeError: if an argument is not a Tensor.
            NotImplementedError, ImportError: if ``backend`` is "triton", and ``input`` is neither
                on a GPU nor on a CPU, or what Triton's interpreter needs is missing.
        """
        own = weights.of(self, "")
        checks.weights(own, self.input_size, self.hidden_size)
        checks.cell(self, input, hx, own.ih)
        if hx is None:
            zeros = input.new_zeros(*input.shape[:-1], self.hidden_size)
            hx = (zeros, zeros)
        h, c = hx
        options = Options(self.eps, self.carry, self.backend)
        if input.dim() == 2:
            return run(input, h, c, own, [input.shape[0]], options)[1:]
        one = input.unsqueeze(0), h.unsqueeze(0), c.unsqueeze(0)
        _, h, c = run(*one, own, [1], options)
        return h.squeeze(0), c.squeeze(0)

    def extra_repr(self) -> str:
        """Describe the module as PyTorch does: the sizes, and what is not at its default."""
        defaults = {"eps": 1e-5, "forget_bias": 0.0, "carry": "raw", "backend": "auto"}
        bias = "" if self.bias is not None else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}{changed(self, defaults)}"
