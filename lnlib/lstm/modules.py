"""The layer-normalized LSTM as modules, with the interface of PyTorch's LSTM and LSTMCell."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from lnlib.dispatch import mode_of
from lnlib.lstm import backends, checks, formula, function
from lnlib.lstm.formula import Weights

State = tuple[Tensor, Tensor]
Device = torch.device | str | int | None


class LayerNormLSTM(nn.Module):
    """A layer-normalized LSTM over sequences, with the interface of `torch.nn.LSTM`.

    With LN for a layer norm without bias, and ``*`` element by element, one step is ::

        i, f, g, o = LN(W_ih x; norm_ih_weight) + LN(W_hh h; norm_hh_weight) + bias
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(LN(c; norm_c_weight) + norm_c_bias)

    The two upper norms are each over all 4H numbers. The paper adds three biases in the first line;
    only their sum has an effect, and here there is one.

    Args:
        input_size: the number of features of each step's input.
        hidden_size: H, the number of features of h and of c.
        num_layers: how many LSTMs are stacked, each reading the outputs of the one below.
        bias: learn ``bias`` and ``norm_c_bias``.
        batch_first: input and output are ``(B, T, ...)``; the states are not.
        dropout: the probability to drop an output of a layer but the last, while training.
        bidirectional: a second LSTM in each layer reads the sequence from its end.
        proj_size: 0; anything else is refused, since the paper's cell has no projection.
        device: of the parameters.
        dtype: of the parameters.
        eps: added to each of the three variances. The paper has none.
        forget_bias: what the forget gate's part of ``bias`` starts higher. 0, as in PyTorch.
        carry: which cell goes on to the next step: "raw", as in the paper, or "normalized", the
            argument of the tanh above, as in PyTorch's ``custom_lstms`` and in TensorFlow Addons.
        backend: what takes the steps. "cpp": for float32 on a CPU, compiled on first use by g++.
            "triton": a kernel for GPUs, interpreted on a CPU. "torch": operations of PyTorch,
            everywhere. "auto": the fastest of them that there is.

    Parameters, for layer k, with ``_reverse`` behind the name for the second direction:
        ``weight_ih_l{k}`` ``(4H, input_size)``, or for k > 0 ``(4H, H)``, ``(4H, 2H)`` if
        bidirectional; ``weight_hh_l{k}`` ``(4H, H)``; ``bias_l{k}`` ``(4H,)``;
        ``norm_ih_weight_l{k}`` and ``norm_hh_weight_l{k}`` ``(4H,)``; ``norm_c_weight_l{k}`` and
        ``norm_c_bias_l{k}`` ``(H,)``. The gates are in PyTorch's order: i, f, g, o.

    Raises:
        TypeError, ValueError: as `torch.nn.LSTM` does; ValueError also for a ``proj_size`` that is
            not 0, a ``carry`` or a ``backend`` that there is not.
        ImportError: if ``backend`` is "triton", and Triton is missing, or older than 3.6.

    Source: Ba, Kiros, Hinton 2016, eq. 20 to 22.

    >>> network = LayerNormLSTM(28, 128)
    >>> output, (h, c) = network(torch.randn(28, 64, 28))
    >>> output.shape, h.shape, c.shape
    (torch.Size([28, 64, 128]), torch.Size([1, 64, 128]), torch.Size([1, 64, 128]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        eps: float = 1e-5,
        forget_bias: float = 0.0,
        carry: str = "raw",
        backend: str = "auto",
    ) -> None:
        checks.sizes_of_network(
            *(input_size, hidden_size, num_layers, bias),
            *(batch_first, dropout, bidirectional, proj_size),
        )
        checks.carry(carry)
        backends.check(backend)
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self.eps = eps
        self.forget_bias = forget_bias
        self.carry = carry
        self.backend = backend
        for number, suffix in enumerate(self._suffixes()):
            below = input_size if number < self._directions() else hidden_size * self._directions()
            _add_weights(self, below, hidden_size, bias, suffix, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give the parameters their first values.

        Weights and bias are uniform in ±1/√H, as in `torch.nn.LSTM`, then ``forget_bias`` is added;
        the gains of the norms are 1, and the cell's bias 0.
        """
        for suffix in self._suffixes():
            _reset_weights(_weights_of(self, suffix), self.forget_bias)

    @overload
    def forward(self, input: Tensor, hx: State | None = None) -> tuple[Tensor, State]: ...

    @overload
    def forward(
        self, input: PackedSequence, hx: State | None = None
    ) -> tuple[PackedSequence, State]: ...

    def forward(
        self, input: Tensor | PackedSequence, hx: State | None = None
    ) -> tuple[Tensor | PackedSequence, State]:
        """Run over sequences; shapes, order and defaults are those of `torch.nn.LSTM`.

        Args:
            input: ``(T, B, input_size)``, ``(B, T, input_size)`` with ``batch_first``,
                ``(T, input_size)`` for one sequence, or a PackedSequence.
            hx: h and c before the first step, each ``(num_layers * directions, B, H)``, or without
                B for one sequence; zeros if None.

        Returns:
            The last layer's h after each step, like ``input`` but with ``directions * H`` features,
            and the last h and c of each sequence, like ``hx``.

        Raises:
            ValueError, RuntimeError: as `torch.nn.LSTM` does where shapes, dtypes or devices do not
                fit together, or there is no step; RuntimeError also if ``backend`` is "cpp" and
                cannot be had.
            TypeError: if an argument is not a Tensor.
        """
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        checks.input_of_network(input, False, self.input_size, _weights_of(self, "_l0").ih)
        is_batched = input.dim() == 3
        if not is_batched:
            input = input.unsqueeze(1)
        elif self.batch_first:
            input = input.transpose(0, 1)
        steps, batch, _ = input.shape
        checks.length(steps)
        h, c = self._state(hx, input, batch, is_batched)
        outputs, h, c = self._layers(input.flatten(0, 1), h, c, [batch] * steps)
        output = outputs.view(steps, batch, outputs.shape[-1])
        if not is_batched:
            return output.squeeze(1), (h.squeeze(1), c.squeeze(1))
        return output.transpose(0, 1) if self.batch_first else output, (h, c)

    def _packed(self, input: PackedSequence, hx: State | None) -> tuple[PackedSequence, State]:
        rows, sizes, order, order_back = input
        checks.input_of_network(rows, True, self.input_size, _weights_of(self, "_l0").ih)
        batch_sizes = sizes.tolist()
        h, c = self._state(hx, rows, batch_sizes[0], True)
        if order is not None and hx is not None:
            h, c = h[:, order], c[:, order]
        outputs, h, c = self._layers(rows, h, c, batch_sizes)
        if order_back is not None:
            h, c = h[:, order_back], c[:, order_back]
        return PackedSequence(outputs, sizes, order, order_back), (h, c)

    def _state(self, hx: State | None, input: Tensor, batch: int, is_batched: bool) -> State:
        shape = (self.num_layers * self._directions(), batch, self.hidden_size)
        if hx is None:
            zeros = input.new_zeros(shape)
            return zeros, zeros
        checks.state_of_network(hx, input, shape, is_batched)
        h, c = hx
        return (h, c) if is_batched else (h.unsqueeze(1), c.unsqueeze(1))

    def _layers(
        self, rows: Tensor, h: Tensor, c: Tensor, batch_sizes: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        last_h, last_c = [], []
        suffixes = self._suffixes()
        for layer in range(self.num_layers):
            if layer > 0:
                rows = F.dropout(rows, self.dropout, self.training)
            outputs = []
            for direction in range(self._directions()):
                number = layer * self._directions() + direction
                read = rows if direction == 0 else _reversed(rows, batch_sizes)
                output, state_h, state_c = _run(
                    *(read, h[number], c[number], _weights_of(self, suffixes[number]), batch_sizes),
                    *(self.eps, self.carry, self.backend),
                )
                outputs.append(output if direction == 0 else _reversed(output, batch_sizes))
                last_h.append(state_h)
                last_c.append(state_c)
            rows = torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0]
        return rows, torch.stack(last_h), torch.stack(last_c)

    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self) -> list[str]:
        directions = ("", "_reverse")[: self._directions()]
        return [f"_l{layer}{end}" for layer in range(self.num_layers) for end in directions]

    def extra_repr(self) -> str:
        """Describe the module as PyTorch does: the sizes, and what is not at its default."""
        defaults = {
            **{"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0},
            **{"bidirectional": False, "eps": 1e-5, "forget_bias": 0.0},
            **{"carry": "raw", "backend": "auto"},
        }
        return f"{self.input_size}, {self.hidden_size}{_changed(self, defaults)}"


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
        checks.carry(carry)
        backends.check(backend)
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.eps = eps
        self.forget_bias = forget_bias
        self.carry = carry
        self.backend = backend
        _add_weights(self, input_size, hidden_size, bias, "", device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give the parameters their first values, those of `LayerNormLSTM`."""
        _reset_weights(_weights_of(self, ""), self.forget_bias)

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
        """
        weights = _weights_of(self, "")
        checks.input_of_cell(input, self.input_size, weights.ih)
        if hx is None:
            zeros = input.new_zeros(*input.shape[:-1], self.hidden_size)
            hx = (zeros, zeros)
        checks.state_of_cell(hx, input, self.hidden_size)
        rows, h, c = (tensor.reshape(-1, tensor.shape[-1]) for tensor in (input, *hx))
        _, h, c = _run(rows, h, c, weights, [len(rows)], self.eps, self.carry, self.backend)
        return h.reshape(hx[0].shape), c.reshape(hx[1].shape)

    def extra_repr(self) -> str:
        """Describe the module as PyTorch does: the sizes, and what is not at its default."""
        defaults = {"eps": 1e-5, "forget_bias": 0.0, "carry": "raw", "backend": "auto"}
        bias = "" if self.bias is not None else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}{_changed(self, defaults)}"


def _add_weights(
    module: nn.Module,
    input_size: int,
    size: int,
    bias: bool,
    suffix: str,
    device: Device,
    dtype: torch.dtype | None,
) -> None:
    shapes = {
        "weight_ih": (4 * size, input_size),
        "weight_hh": (4 * size, size),
        "bias": (4 * size,),
        "norm_ih_weight": (4 * size,),
        "norm_hh_weight": (4 * size,),
        "norm_c_weight": (size,),
        "norm_c_bias": (size,),
    }
    for name, shape in shapes.items():
        made = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        is_wanted = bias or not name.endswith("bias")
        module.register_parameter(name + suffix, made if is_wanted else None)


def _weights_of(module: nn.Module, suffix: str) -> Weights:
    names = ("weight_ih", "weight_hh", "bias", "norm_ih_weight", "norm_hh_weight")
    return Weights(*(getattr(module, n + suffix) for n in (*names, "norm_c_weight", "norm_c_bias")))


def _reset_weights(weights: Weights, forget_bias: float) -> None:
    size = weights.hh.shape[-1]
    bound = 1 / math.sqrt(size)
    for weight in weights[:3]:
        if weight is not None:
            nn.init.uniform_(weight, -bound, bound)
    for gain in (weights.norm_ih, weights.norm_hh, weights.norm_c):
        nn.init.ones_(gain)
    with torch.no_grad():
        if weights.bias is not None:
            weights.bias[size : 2 * size] += forget_bias
    if weights.norm_c_bias is not None:
        nn.init.zeros_(weights.norm_c_bias)


def _run(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    batch_sizes: Sequence[int],
    eps: float,
    carry: str,
    backend: str,
) -> tuple[Tensor, Tensor, Tensor]:
    device = x.device.type
    if checks.is_autocast(device):  # to one dtype, as PyTorch does with its LSTM
        dtype = torch.get_autocast_dtype(device)
        x, h, c = (tensor.to(dtype) for tensor in (x, h, c))
        narrowed: list[Any] = [None if weight is None else weight.to(dtype) for weight in weights]
        weights = Weights(*narrowed)
        with torch.autocast(device, enabled=False):
            return _run(x, h, c, weights, batch_sizes, eps, carry, backend)
    if mode_of(x, h, c, *weights) != "eager":
        return formula.lstm(x, h, c, weights, batch_sizes, formula.normalizing(eps), carry)
    steps = backends.steps_for(backend, x)
    return function.lstm(x, h, c, weights, batch_sizes, eps, carry, steps)


def _reversed(rows: Tensor, batch_sizes: Sequence[int]) -> Tensor:
    """Return packed rows with the steps of each sequence in the opposite order."""
    batch, steps = batch_sizes[0], len(batch_sizes)
    if batch == batch_sizes[-1]:
        return rows.view(steps, batch, rows.shape[-1]).flip(0).flatten(0, 1)
    starts = list(accumulate(batch_sizes, initial=0))
    lengths = [sum(size > sequence for size in batch_sizes) for sequence in range(batch)]
    order = [
        starts[lengths[sequence] - 1 - step] + sequence
        for step, size in enumerate(batch_sizes)
        for sequence in range(size)
    ]
    return rows[torch.tensor(order, device=rows.device)]


def _changed(module: nn.Module, defaults: dict[str, object]) -> str:
    return "".join(
        f", {name}={getattr(module, name)!r}"
        for name, default in defaults.items()
        if getattr(module, name) != default
    )
