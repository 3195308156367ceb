"""Arguments that do not fit, refused in the words of `torch.nn.LSTM` and `torch.nn.LSTMCell`.

Of shapes PyTorch's own module says it, one of the same sizes on the meta device, where no number is
looked at and none is drawn. What PyTorch leaves to a product of matrices to find is said here.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from lnlib.lstm.formula import NAMES, Weights, shapes

State = tuple[Tensor, Tensor]


def is_autocast(device: str) -> bool:
    """Tell whether autocast is on for this type of device; some, as meta, do not know it."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_narrowed(tensor: Tensor) -> bool:
    """Tell whether autocast narrows a tensor of this kind: it leaves float64 alone."""
    return tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)


def weights(given: Weights, input_size: int, hidden_size: int) -> None:
    """Refuse weights that are not of one dtype and device, or that have lost their shapes."""
    dtype, device = given.ih.dtype, given.ih.device
    for name, weight, shape in zip(NAMES, given, shapes(input_size, hidden_size), strict=True):
        if weight is None:
            continue
        if weight.shape != shape:
            raise RuntimeError(f"{name} must have the shape {shape}, got {tuple(weight.shape)}")
        if weight.dtype != dtype or weight.device != device:
            raise RuntimeError(
                f"{name} must be {dtype} on {device} as weight_ih is, "
                f"got {weight.dtype} on {weight.device}; convert the module with .to()"
            )


def packed(rows: Tensor, batch_sizes: Sequence[int]) -> None:
    """Refuse batch sizes that are not those of the rows, rise, or are below 0."""
    length(len(batch_sizes))
    rises = any(a < b for a, b in pairwise(batch_sizes))
    if sum(batch_sizes) != len(rows) or rises or min(batch_sizes) < 0:
        raise RuntimeError(
            f"batch_sizes must add up to the {len(rows)} rows of a PackedSequence, and not rise, "
            f"got {list(batch_sizes)[:8]} with the sum {sum(batch_sizes)}"
        )


def sizes_of_network(*arguments: object) -> None:
    """Let `torch.nn.LSTM` itself refuse its arguments, and refuse ``proj_size``, the last one."""
    nn.LSTM(*arguments, device="meta")
    if arguments[-1] != 0:
        raise ValueError(
            f"proj_size must be 0, got {arguments[-1]}: the paper's cell has no projection, and "
            "with one it is open what to normalize; put a Linear behind the LSTM"
        )


def options(carry: str, bias: bool, forget_bias: float) -> None:
    """Raise ValueError for a ``carry`` there is not, or a ``forget_bias`` without a bias."""
    if carry not in ("raw", "normalized"):
        raise ValueError(
            f'carry should be "raw" (eq. 21 of the paper) or "normalized" (the cell goes on as it '
            f"leaves its layer norm), got {carry!r}"
        )
    if forget_bias and not bias:
        raise ValueError(f"forget_bias is {forget_bias}, expected 0 where bias=False")


def length(steps: int) -> None:
    """Refuse a sequence without a step."""
    if steps == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")


def network(
    module: Any, input: Tensor, hx: State | None, weight: Tensor, packed: Sequence[int] = ()
) -> None:
    """Refuse an input, or states, of the wrong type, dtype, device or shape.

    Args:
        module: the `lnlib.LayerNormLSTM`, for its sizes.
        input: as it is given, or the rows of a PackedSequence.
        hx: as they are given.
        weight: any of the weights.
        packed: the batch sizes of a PackedSequence.
    """
    _types(input, hx, "a Tensor or a PackedSequence")
    have_ranks = hx is None or packed or all(state.dim() == input.dim() for state in hx)
    if have_ranks:  # which PyTorch looks at first
        _fit_together(input, hx, weight, RuntimeError if packed else ValueError)
    batch = list(packed[:1])
    if input.dim() == 3:
        batch = [input.shape[0 if module.batch_first else 1]]
    state = (module.num_layers * (1 + module.bidirectional), *batch, module.hidden_size)
    ranks = (2,) if packed else (2, 3)
    if input.dim() in ranks and _have_sizes(input, hx, module.input_size, state):
        return
    theirs = nn.LSTM(
        *(module.input_size, module.hidden_size, module.num_layers),
        batch_first=module.batch_first,
        bidirectional=module.bidirectional,
        device="meta",
        dtype=input.dtype if have_ranks else weight.dtype,
    )
    if not packed:
        theirs(*_without_numbers(input, hx))
    elif hx is None:
        theirs.check_input(input, torch.tensor(packed))
    else:
        theirs.check_forward_args(input, hx, torch.tensor(packed))


def cell(module: Any, input: Tensor, hx: State | None, weight: Tensor) -> None:
    """Refuse an input, or states, as `network` does for `lnlib.LayerNormLSTMCell`."""
    _types(input, hx, "a Tensor")
    _fit_together(input, hx, weight, RuntimeError)
    state = (*input.shape[:-1], module.hidden_size)
    if input.dim() in (1, 2) and _have_sizes(input, hx, module.input_size, state):
        return
    sizes = module.input_size, module.hidden_size
    nn.LSTMCell(*sizes, device="meta", dtype=input.dtype)(*_without_numbers(input, hx))


def _have_sizes(input: Tensor, hx: State | None, input_size: int, state: tuple[int, ...]) -> bool:
    return input.shape[-1] == input_size and (hx is None or hx[0].shape == hx[1].shape == state)


def _without_numbers(input: Tensor, hx: State | None) -> tuple[Tensor, State | None]:
    return input.to("meta"), hx and (hx[0].to("meta"), hx[1].to("meta"))


def _types(input: Tensor, hx: State | None, expected: str) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"input must be {expected}, got {type(input).__name__}; see torch.as_tensor"
        )
    is_pair = isinstance(hx, (tuple, list)) and len(hx) == 2
    if hx is not None and not (is_pair and all(isinstance(state, Tensor) for state in hx)):
        raise TypeError(f"hx must be a pair of Tensors (h, c), got {type(hx).__name__}")


def _fit_together(input: Tensor, hx: State | None, weight: Tensor, error: type[Exception]) -> None:
    """Raise ``error`` for the dtype of ``input``; RuntimeError for a state's, or for a device."""
    if not _fits(input, weight):
        raise error(
            f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
            f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
        )
    _same_device(input, weight, "parameter")
    for number, state in enumerate(hx or ()):
        if not _fits(state, input):
            raise RuntimeError(
                f"hidden[{number}] must have the dtype of input, {input.dtype}, got {state.dtype}; "
                "convert it with .to(dtype)"
            )
        _same_device(input, state, "hidden")


def _fits(tensor: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are of one dtype, or will be."""
    if tensor.dtype == other.dtype:
        return True
    return is_autocast(tensor.device.type) and is_narrowed(tensor) and is_narrowed(other)


def _same_device(input: Tensor, other: Tensor, name: str) -> None:
    if input.device != other.device:
        raise RuntimeError(
            f"Input and {name} tensors are not at the same device, found input tensor at "
            f"{input.device} and {name} tensor at {other.device}"
        )
