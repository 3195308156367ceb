"""Arguments that do not fit, refused in the words of `torch.nn.LSTM` and `torch.nn.LSTMCell`."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from lnlib.lstm.weights import NAMES, Weights, shapes

State = tuple[Tensor, Tensor]


def is_autocast(device: str) -> bool:
    """Tell whether autocast is on for this type of device; some, as meta, do not know it."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def is_narrowed(tensor: Tensor) -> bool:
    """Tell whether autocast narrows a tensor of this kind: it leaves float64 alone."""
    return tensor.dtype in (torch.float32, torch.float16, torch.bfloat16)


def weights(given: Weights, input_size: int, hidden_size: int) -> None:
    """Refuse weights that are not of one dtype and device, or that have lost their shapes."""
    for name, weight, shape in zip(NAMES, given, shapes(input_size, hidden_size), strict=True):
        if weight is None:
            continue
        if tuple(weight.shape) != shape:
            raise RuntimeError(f"{name} must have the shape {shape}, got {tuple(weight.shape)}")
        if weight.dtype != given.ih.dtype or weight.device != given.ih.device:
            raise RuntimeError(
                f"{name} must be {given.ih.dtype} on {given.ih.device} as weight_ih is, "
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


def input_of_network(input: Tensor, is_packed: bool, input_size: int, weight: Tensor) -> None:
    """Refuse an input of the wrong type, rank, size, dtype, device or length."""
    if not isinstance(input, Tensor):
        raise TypeError(
            f"input must be a Tensor or a PackedSequence, got {type(input).__name__}; "
            "see torch.as_tensor"
        )
    if not is_packed and input.dim() not in (2, 3):
        raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {input.dim()}D instead")
    if is_packed and input.dim() != 2:
        raise RuntimeError(f"input must have 2 dimensions, got {input.dim()}")
    if not _fits(input, weight):
        error = RuntimeError if is_packed else ValueError
        raise error(
            f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
            f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
        )
    if input.size(-1) != input_size:
        raise RuntimeError(
            "input.size(-1) must be equal to input_size. "
            f"Expected {input_size}, got {input.size(-1)}"
        )
    _same_device(input, weight)


def length(steps: int) -> None:
    """Refuse a sequence without a step."""
    if steps == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")


def state_of_network(hx: State, input: Tensor, expected: Sequence[int], is_batched: bool) -> None:
    """Refuse states that do not fit to ``input``; ``expected`` is the shape of a batched one."""
    _pair(hx)
    rank = 3 if is_batched else 2
    if any(state.dim() != rank for state in hx):
        kind = f"batched {rank}-D" if is_batched else f"unbatched {rank}-D"
        raise RuntimeError(
            f"For {kind} input, hx and cx should also be {rank}-D but got "
            f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
        )
    for number, state in enumerate(hx):
        shape = [*state.shape] if is_batched else [state.shape[0], 1, state.shape[1]]
        if shape != list(expected):
            raise RuntimeError(f"Expected hidden[{number}] size {tuple(expected)}, got {shape}")
    _like_input(hx, input)


def input_of_cell(input: Tensor, input_size: int, weight: Tensor) -> None:
    """Refuse an input of the wrong type, rank, size, dtype or device."""
    if not isinstance(input, Tensor):
        raise TypeError(f"input must be a Tensor, got {type(input).__name__}; see torch.as_tensor")
    if input.dim() not in (1, 2):
        raise ValueError(f"LSTMCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
    if input.size(-1) != input_size:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.size(-1)} expected {input_size}"
        )
    if not _fits(input, weight):
        raise RuntimeError(
            f"input and weights must have the same dtype, but got {input.dtype} and {weight.dtype}"
        )
    _same_device(input, weight)


def state_of_cell(hx: State, input: Tensor, hidden_size: int) -> None:
    """Refuse states that do not fit to ``input``, ``(input_size,)`` or ``(B, input_size)``."""
    _pair(hx)
    for number, state in enumerate(hx):
        if state.dim() not in (1, 2):
            raise ValueError(
                f"LSTMCell: Expected hx[{number}] to be 1D or 2D, got {state.dim()}D instead"
            )
        rows = 1 if input.dim() == 1 else input.shape[0]
        shape = state.shape if input.dim() == 2 else (1, *state.shape)
        if shape[0] != rows:
            raise RuntimeError(
                f"Input batch size {rows} doesn't match hidden{number} batch size {shape[0]}"
            )
        if shape[1:] != (hidden_size,):
            size = shape[1] if len(shape) > 1 else 1
            raise RuntimeError(
                f"hidden{number} has inconsistent hidden_size: got {size}, expected {hidden_size}"
            )
    _like_input(hx, input)


def _fits(tensor: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are of one dtype, or will be."""
    if tensor.dtype == other.dtype:
        return True
    return is_autocast(tensor.device.type) and is_narrowed(tensor) and is_narrowed(other)


def _pair(hx: State) -> None:
    is_pair = isinstance(hx, (tuple, list)) and len(hx) == 2
    if not is_pair or not all(isinstance(state, Tensor) for state in hx):
        raise TypeError(f"hx must be a pair of Tensors (h, c), got {type(hx).__name__}")


def _like_input(hx: State, input: Tensor) -> None:
    for number, state in enumerate(hx):
        if not _fits(state, input):
            raise RuntimeError(
                f"hidden[{number}] must have the dtype of input, {input.dtype}, got {state.dtype}; "
                "convert it with .to(dtype)"
            )
        if state.device != input.device:
            raise RuntimeError(
                "Input and hidden tensors are not at the same device, found input tensor at "
                f"{input.device} and hidden tensor at {state.device}"
            )


def _same_device(input: Tensor, weight: Tensor) -> None:
    if input.device != weight.device:
        raise RuntimeError(
            "Input and parameter tensors are not at the same device, found input tensor at "
            f"{input.device} and parameter tensor at {weight.device}"
        )
