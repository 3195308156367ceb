"""Arguments that do not fit, refused by `torch.nn.LSTM` and `torch.nn.LSTMCell` themselves.

One of the same sizes gets them on the meta device, where no number is looked at and none is drawn.
What it leaves to its kernels to find, dtypes and devices, is said here, and what it crashes on.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from lnlib.lstm.formula import NAMES, Weights, shapes


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


def sizes_of_network(*arguments: object) -> None:
    """Let `torch.nn.LSTM` itself refuse its arguments, and refuse ``proj_size``, the last one."""
    nn.LSTM(*arguments, device="meta")
    if arguments[-1] != 0:
        raise ValueError(
            f"proj_size must be 0, got {arguments[-1]}: the paper's cell has no projection, and "
            "with one it is open what to normalize; put a Linear after the LSTM"
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


def network(module: Any, input: Any, hx: Any, weight: Tensor) -> None:
    """Refuse an input, or states, of the wrong type, dtype, device or shape.

    Args:
        module: the `lnlib.LayerNormLSTM`, for its sizes.
        input: as it is given.
        hx: as they are given.
        weight: any of the weights.
    """
    rows, ranks, steps, batch = input, [2, 3], 1, []
    if isinstance(input, PackedSequence):
        rows, ranks, batch = input.data, [2], [_batch(*input[:2])]
    elif isinstance(input, Tensor) and input.dim() in ranks:
        steps, *batch = input.shape[:-1]
        if module.batch_first and batch:
            steps, batch = batch[0], [steps]
    state = (module.num_layers * (1 + module.bidirectional), *batch, module.hidden_size)
    if steps > 0 and _are_right(rows, hx, weight, ranks, module.input_size, state):
        return
    theirs: Any = nn.LSTM(
        *(module.input_size, module.hidden_size, module.num_layers),
        batch_first=module.batch_first,
        bidirectional=module.bidirectional,
        device="meta",
        dtype=weight.dtype if rows is input else rows.dtype,
    )
    if rows is not input:  # of packed rows, it leaves all to its kernels
        rnn, sizes = theirs, input.batch_sizes
        theirs = lambda rows, hx: (  # noqa: E731
            rnn.check_forward_args(rows, hx, sizes)
            if hx is not None
            else rnn.check_input(rows, sizes)
        )
    _refuse(theirs, rows, hx, weight)


def cell(module: Any, input: Any, hx: Any, weight: Tensor) -> None:
    """Refuse an input, or states, as `network` does for `lnlib.LayerNormLSTMCell`."""
    sizes = module.input_size, module.hidden_size
    batch = input.shape[:-1] if isinstance(input, Tensor) else ()
    if not _are_right(input, hx, weight, [1, 2], sizes[0], (*batch, sizes[1])):
        _refuse(nn.LSTMCell(*sizes, device="meta", dtype=weight.dtype), input, hx, weight)


def _batch(rows: Tensor, batch_sizes: Tensor) -> int:
    """Return how many sequences are packed; refuse batch sizes that are not those of the rows."""
    sizes: list[int] = batch_sizes.tolist()
    if not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    rises = any(a < b for a, b in pairwise(sizes))
    if batch_sizes.dtype != torch.int64 or sum(sizes) != len(rows) or rises or sizes[-1] < 0:
        raise RuntimeError(
            f"batch_sizes must be int64, add up to the {len(rows)} rows of a PackedSequence, and "
            f"not rise, got {sizes[:8]} of {batch_sizes.dtype} with the sum {sum(sizes)}"
        )
    return sizes[0]


def _are_right(
    input: Any, hx: Any, weight: Tensor, ranks: Sequence[int], size: int, state: tuple[int, ...]
) -> bool:
    if not isinstance(input, Tensor) or input.dim() not in ranks or input.shape[-1] != size:
        return False
    given = (input,) if hx is None else (input, *hx) if isinstance(hx, (tuple, list)) else ()
    if len(given) != (1 if hx is None else 3):
        return False
    if not all(isinstance(each, Tensor) and each.shape == state for each in given[1:]):
        return False
    return all(each.device == weight.device and _fits(each, weight) for each in given)


def _fits(tensor: Tensor, weight: Tensor) -> bool:
    """Tell whether a tensor is of the dtype of the weights, or will be."""
    if tensor.dtype == weight.dtype:
        return True
    return is_autocast(tensor.device.type) and is_narrowed(tensor) and is_narrowed(weight)


def _refuse(theirs: Callable[..., object], input: Any, hx: Any, weight: Tensor) -> None:
    """Have PyTorch raise what it does; where it does not, say which tensor does not fit."""

    def on_meta(given: Any) -> Any:
        if isinstance(given, (tuple, list)):
            return (tuple if isinstance(given, tuple) else list)(map(on_meta, given))
        if not isinstance(given, Tensor):
            return given
        return given.to("meta", weight.dtype if _fits(given, weight) else given.dtype)

    theirs(on_meta(input), on_meta(hx))
    if hx is not None and len(hx) != 2:  # of an unbatched input, its cell takes the first two
        raise RuntimeError(f"hx must be a pair of states, h and c, got {len(hx)} of them")
    of_devices = [("parameter", weight), *(("hidden", state) for state in hx or ())]
    for name, other in of_devices:
        if input.device != other.device:
            raise RuntimeError(
                f"Input and {name} tensors are not at the same device, found input tensor at "
                f"{input.device} and {name} tensor at {other.device}"
            )
    for number, state in enumerate(hx or ()):
        if _fits(input, weight) and not _fits(state, weight):
            raise RuntimeError(
                f"hidden[{number}] must have the dtype of input, {weight.dtype}, "
                f"got {state.dtype}; convert it with .to(dtype)"
            )
    raise RuntimeError(
        f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
        f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
    )
