"""The layer-normalized LSTM and its cell, with the interfaces of `torch.nn.LSTM` and `LSTMCell`."""

import inspect
import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NoReturn, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from lnlib.autograd import as_shape
from lnlib.lstm import checks, function
from lnlib.lstm.formula import NAMES, Settings, Weights, shapes
from lnlib.modes import is_traced

State = tuple[Tensor, Tensor]
Device = torch.device | str | int | None


class _Learned(nn.Module):
    """What the network and the cell have in common: parameters, options, and their description."""

    input_size: int
    hidden_size: int

    def __init__(
        self,
        sizes: tuple[int, int],
        has_bias: bool,
        eps: float,
        forget_bias: float,
        carry: str,
        backend: str,
    ) -> None:
        checks.options(carry, has_bias, forget_bias)
        function.check_backend(backend)
        super().__init__()
        self.input_size, self.hidden_size = sizes
        self.eps = eps
        self.forget_bias = forget_bias
        self.carry = carry
        self.backend = backend

    def _inputs(self) -> dict[str, int]:
        """Return the number of features that each layer reads, by the end of its names."""
        return {"": self.input_size}

    def _add(self, has_bias: bool, device: Device, dtype: torch.dtype | None) -> None:
        for suffix, input_size in self._inputs().items():
            for name, shape in zip(NAMES, shapes(input_size, self.hidden_size), strict=True):
                made = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                is_wanted = has_bias or not name.endswith("bias")
                self.register_parameter(name + suffix, made if is_wanted else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Give the parameters their initial values.

        Weights and bias are uniform in ±1/√H, as in `torch.nn.LSTM`, then ``forget_bias`` is added;
        γ of the norms is 1, and the cell's β is 0.
        """
        H = self.hidden_size
        bound = 1 / math.sqrt(H)
        for suffix in self._inputs():
            ih, hh, bias, *norms, norm_c_bias = weights_of(self, suffix)
            for weight in (ih, hh, bias):
                if weight is not None:
                    nn.init.uniform_(weight, -bound, bound)
            for weight in norms:
                nn.init.ones_(weight)
            if bias is not None and norm_c_bias is not None:
                nn.init.zeros_(norm_c_bias)
                with torch.no_grad():
                    bias[H : 2 * H] += self.forget_bias

    def __prepare_scriptable__(self) -> NoReturn:
        """Say no to `torch.jit.script`, which asks here first."""
        raise RuntimeError(
            f"lnlib.{type(self).__name__} cannot be scripted: TorchScript does not know its "
            "arithmetic; export the model (torch.export), or trace it (torch.jit.trace)"
        )

    def extra_repr(self) -> str:
        """Describe the module as PyTorch does: the sizes, and what is not at its default."""
        shown = f"{self.input_size}, {self.hidden_size}"
        for name, argument in list(inspect.signature(LayerNormLSTM).parameters.items())[2:]:
            value = getattr(self, name, argument.default)
            if name == "bias":  # of a cell it is the parameter
                value = value is not None and value is not False
            if value != argument.default:
                shown += f", {name}={value!r}"
        return shown

    def _weights(self) -> list[Weights]:
        """Return the weights of all layers, which fit together."""
        found = []
        for suffix, input_size in self._inputs().items():
            found.append(weights_of(self, suffix))
            checks.weights(found[-1], input_size, self.hidden_size)
        return found


def weights_of(module: nn.Module, suffix: str) -> Weights:
    """Return the parameters of a layer, each looked up once, in case it is computed."""
    found: list[Any] = [getattr(module, name + suffix) for name in NAMES]
    return Weights(*found)


class LayerNormLSTM(_Learned):
    """A layer-normalized LSTM over sequences, with the interface of `torch.nn.LSTM`.

    With LN for a layer norm without bias, and ``*`` element by element, one step is ::

        i, f, candidate, o = LN(W_ih x; norm_ih_weight) + LN(W_hh h; norm_hh_weight) + bias
        c = sigmoid(f) * c + sigmoid(i) * tanh(candidate)
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
        eps: added to each of the three variances. The paper has none. Not checked: a negative one
            gives NaN where it outweighs a variance.
        forget_bias: how much higher the forget gate's part of ``bias`` starts. 0, as in PyTorch.
        carry: which cell goes on to the next step: "raw", as in the paper, or "normalized", the
            argument of the tanh above, as in PyTorch's ``custom_lstms`` and in TensorFlow Addons.
        backend: what takes the steps. "cpp": for float32 on a CPU, compiled when lnlib was built.
            "triton": a kernel for GPUs, interpreted on a CPU. "reference": operations of PyTorch,
            everywhere. "auto": C++ or Triton where they can be had, else PyTorch's operations.

    Parameters, for layer k, with ``_reverse`` after the name for the second direction:
        ``weight_ih_l{k}`` ``(4H, input_size)``, or for k > 0 ``(4H, H)``, ``(4H, 2H)`` if
        bidirectional; ``weight_hh_l{k}`` ``(4H, H)``; ``bias_l{k}`` ``(4H,)``;
        ``norm_ih_weight_l{k}`` and ``norm_hh_weight_l{k}`` ``(4H,)``; ``norm_c_weight_l{k}`` and
        ``norm_c_bias_l{k}`` ``(H,)``. The gates are in PyTorch's order,
        where the candidate is the third.

    Raises:
        TypeError, ValueError: as `torch.nn.LSTM` does; ValueError also for a ``proj_size`` that is
            not 0, for a ``carry`` or ``backend`` there is not, for a ``forget_bias`` without bias.
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
        sizes = (input_size, hidden_size, num_layers)
        checks.sizes_of_network(*sizes, bias, batch_first, dropout, bidirectional, proj_size)
        super().__init__((input_size, hidden_size), bias, eps, forget_bias, carry, backend)
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._add(bias, device, dtype)

    def flatten_parameters(self) -> None:
        """Do nothing. `torch.nn.LSTM` packs its weights for cuDNN here; these need no packing."""

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
            AttributeError, IndexError, TypeError: as it does for what is no Tensor, or no pair.
            NotImplementedError, ImportError: if ``backend`` is "triton", and ``input`` is neither
                on a GPU nor on a CPU, or what Triton's interpreter needs is missing.
        """
        layers = self._weights()
        checks.network(self, input, hx, layers[0].ih)
        if isinstance(input, PackedSequence):
            return self._packed(layers, input, hx)
        is_batched = input.dim() == 3
        if not is_batched:
            input = input.unsqueeze(1)
            hx = None if hx is None else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        elif self.batch_first:
            input = input.transpose(0, 1)
        steps, batch, _ = input.shape
        rows, h, c = self._run(layers, input.flatten(0, 1), hx, [batch] * steps)
        shape = torch.Size((steps, batch, rows.shape[-1]))
        # The rows are kept for the way back, so autograd has to see where they are changed. And a
        # trace would write down the shape, unless it sees a view.
        is_view = rows.requires_grad or is_traced()
        output = rows.view(shape) if is_view else as_shape(rows, shape)
        if not is_batched:
            return output.squeeze(1), (h.squeeze(1), c.squeeze(1))
        return output.transpose(0, 1) if self.batch_first else output, (h, c)

    def _packed(
        self, layers: Sequence[Weights], input: PackedSequence, hx: State | None
    ) -> tuple[PackedSequence, State]:
        rows, sizes, order, order_back = input
        if order is not None and hx is not None:
            hx = hx[0][:, order], hx[1][:, order]
        rows, h, c = self._run(layers, rows, hx, sizes.tolist())
        if order_back is not None:
            h, c = h[:, order_back], c[:, order_back]
        return PackedSequence(rows, sizes, order, order_back), (h, c)

    def _run(
        self, layers: Sequence[Weights], rows: Tensor, hx: State | None, batch_sizes: list[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of the last layer, and all last states; no views, to be changed."""
        if hx is None:
            hx = (rows.new_zeros((len(layers), batch_sizes[0], self.hidden_size)),) * 2
        settings = Settings(tuple(batch_sizes), self.eps, self.carry)
        turns: list[Callable[[Tensor], Tensor]] = [lambda rows: rows]
        if self.bidirectional:
            turns.append(_reversal(batch_sizes, rows.device))
        last = []
        for first in range(0, len(layers), len(turns)):
            if first > 0:
                rows = F.dropout(rows, self.dropout, self.training)
            outputs = []
            for number, turn in enumerate(turns, first):
                given = turn(rows), hx[0][number], hx[1][number], layers[number]
                output, *state = function.lstm(*given, settings, self.backend)
                outputs.append(turn(output))
                last.append(state)
            rows = torch.cat(outputs, dim=-1) if len(turns) > 1 else outputs[0]
        h, c = (torch.stack(states) for states in zip(*last, strict=True))
        return rows, h, c

    def _inputs(self) -> dict[str, int]:
        directions = ["", "_reverse"] if self.bidirectional else [""]
        above = self.hidden_size * len(directions)
        return {
            f"_l{layer}{direction}": self.input_size if layer == 0 else above
            for layer in range(self.num_layers)
            for direction in directions
        }


class LayerNormLSTMCell(_Learned):
    """One time step of `LayerNormLSTM`, with the interface of `torch.nn.LSTMCell`.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of h and of c.
        bias: learn ``bias`` and ``norm_c_bias``.
        device: of the parameters.
        dtype: of the parameters.
        eps, forget_bias, carry, backend: as in `LayerNormLSTM`, where the parameters are listed
            too; here their names have no ending.

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
        super().__init__((input_size, hidden_size), bias, eps, forget_bias, carry, backend)
        self._add(bias, device, dtype)

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
            AttributeError, TypeError: as it does for what is no Tensor, or no pair.
            NotImplementedError, ImportError: as `LayerNormLSTM.forward`.
        """
        [own] = self._weights()
        checks.cell(self, input, hx, own.ih)
        if hx is None:
            zeros = input.new_zeros(*input.shape[:-1], self.hidden_size)
            hx = (zeros, zeros)
        is_batched = input.dim() == 2
        x, h, c = (each if is_batched else each.unsqueeze(0) for each in (input, *hx))
        settings = Settings((x.shape[0],), self.eps, self.carry)
        _, h, c = function.lstm(x, h, c, own, settings, self.backend)
        return (h, c) if is_batched else (h.squeeze(0), c.squeeze(0))


def _reversal(batch_sizes: list[int], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return what puts the steps of each sequence in the opposite order, in packed rows."""
    batch, steps = batch_sizes[0], len(batch_sizes)
    if batch == batch_sizes[-1]:
        return lambda rows: rows.view(steps, batch, rows.shape[-1]).flip(0).flatten(0, 1)
    starts = list(accumulate(batch_sizes, initial=0))
    lengths = [sum(size > sequence for size in batch_sizes) for sequence in range(batch)]
    order = [
        starts[lengths[sequence] - 1 - step] + sequence
        for step, size in enumerate(batch_sizes)
        for sequence in range(size)
    ]
    index = torch.tensor(order, device=device)
    return lambda rows: rows[index]
