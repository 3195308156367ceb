"""Arguments that do not fit, refused by `torch.nn.LSTM` and `torch.nn.LSTMCell` themselves.

One of the same sizes gets them on the meta device, where no number is looked at and none is drawn.
What it leaves to its kernels to find, dtypes and devices, is said here, and what it crashes on.
"""

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
    for name, weight, shape in zip(NAMES, given, shapes(input_size, hidden_size), strict=True):
        if weight is None:
            continue
        if weight.shape != shape:
            raise RuntimeError(f"{name} must have the shape {shape}, got {tuple(weight.shape)}")
        if weight.dtype != given.ih.dtype or weight.device != given.ih.device:
            raise _of_another_kind(name, weight, given.ih)


def sizes_of_network(*arguments: object) -> None:
    """Let `torch.nn.LSTM` itself refuse its arguments, and refuse ``proj_size``, the last one."""
    nn.LSTM(*arguments, device="meta")
    if arguments[-1] != 0:
        raise ValueError(
            f"proj_size must be 0, got {arguments[-1]}: the paper's cell has no projection, and "
            "with one it is open what to normalize; put a Linear after the LSTM"
        )


def options(carry: str, has_bias: bool, forget_bias: float) -> None:
    """Raise ValueError for a ``carry`` there is not, or a ``forget_bias`` without a bias."""
    if carry not in ("raw", "normalized"):
        raise ValueError(
            f'carry should be "raw" (eq. 21 of the paper) or "normalized" (the cell goes on as it '
            f"leaves its layer norm), got {carry!r}"
        )
    if forget_bias and not has_bias:
        raise ValueError(f"forget_bias is {forget_bias}, expected 0 where bias=False")


def network(module: Any, input: Any, hx: Any, weight: Tensor) -> None:
    """Refuse an input, or states, of the wrong type, shape, or dtype and device beside weights."""
    rows, ranks, steps, batch = input, [2, 3], 1, []
    if isinstance(input, PackedSequence):
        rows, ranks, batch = input.data, [2], [_batch(*input[:2])]
    elif isinstance(input, Tensor) and input.dim() in ranks:
        steps, *batch = input.shape[:-1]
        if module.batch_first and batch:
            steps, batch = batch[0], [steps]
    state = (module.num_layers * (1 + module.bidirectional), *batch, module.hidden_size)
    if steps == 0 or not _are_right(rows, hx, weight, ranks, module.input_size, state):
        theirs = nn.LSTM(
            *(module.input_size, module.hidden_size, module.num_layers),
            batch_first=module.batch_first,
            bidirectional=module.bidirectional,
            device="meta",
            dtype=weight.dtype if rows is input else rows.dtype,
        )
        _refuse(theirs, input, hx, weight)


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
    input: Any, hx: Any, weight: Tensor, ranks: list[int], size: int, state: tuple[int, ...]
) -> bool:
    if not isinstance(input, Tensor) or input.dim() not in ranks or input.shape[-1] != size:
        return False
    states = hx if _is_pair(hx) else ()
    if not all(isinstance(each, Tensor) and each.shape == state for each in states):
        return False
    return (hx is None or _is_pair(hx)) and all(_fits(each, weight) for each in (input, *states))


def _is_pair(hx: object) -> bool:
    return isinstance(hx, (tuple, list)) and len(hx) == 2


def _fits(tensor: Tensor, weight: Tensor) -> bool:
    """Tell whether a tensor is on the device of the weights, and of their dtype or will be."""
    if tensor.device != weight.device:
        return False
    if tensor.dtype == weight.dtype:
        return True
    return is_autocast(tensor.device.type) and is_narrowed(tensor) and is_narrowed(weight)


def _refuse(theirs: Any, input: Any, hx: Any, weight: Tensor) -> None:
    """Have PyTorch raise what it does; where it does not, say which tensor does not fit."""

    def on_meta(given: Any) -> Any:
        if isinstance(given, PackedSequence):
            return given._replace(data=on_meta(given.data))
        if isinstance(given, (tuple, list)):
            return (tuple if isinstance(given, tuple) else list)(map(on_meta, given))
        if not isinstance(given, Tensor):
            return given
        return given.to("meta", weight.dtype if _fits(given, weight) else given.dtype)

    there, states = on_meta(input), on_meta(hx)
    if isinstance(input, PackedSequence):  # whose states its kernels look at, and some crash it
        theirs.check_input(there.data, there.batch_sizes)
        if hx is not None:
            taken = theirs.permute_hidden(states, there.sorted_indices)
            if not (_is_pair(taken) and all(isinstance(state, Tensor) for state in taken)):
                theirs(there, states)
            elif _is_pair(hx):
                theirs.check_forward_args(there.data, states, there.batch_sizes)
    else:
        theirs(there, states)
    if hx is not None and not _is_pair(hx):
        what = f"{type(hx).__name__} of length {len(hx)}"
        raise RuntimeError(f"hx must be a tuple of two states, (h, c), got a {what}")
    rows = input.data if isinstance(input, PackedSequence) else input
    given = zip(("input", "h", "c"), (rows, *(hx or ())), strict=False)
    raise _of_another_kind(*next(pair for pair in given if not _fits(pair[1], weight)), weight)


def _of_another_kind(name: str, given: Tensor, weight: Tensor) -> RuntimeError:
    return RuntimeError(
        f"{name} must be {weight.dtype} on {weight.device} as weight_ih is, got {given.dtype} on "
        f"{given.device}; convert the one or the other with .to()"
    )
