"""Random calls, right ones and wrong ones, of lnlib and of PyTorch: what each of them does.

Hypothesis draws them, and makes one that fails as small as it can.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import lnlib
from lnlib import formula

SIZES = (1, 2, 3, 5, 8, 13, 33, 0)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OTHERS = (torch.int64, torch.uint8, torch.bool, torch.complex64)
EPS = (0, 0.0, 1e-12, 0.5, -1e-3, -1e6, 1e30, 1e300, 1e-300, math.nan, math.inf, -math.inf, True)
NO_EPS = ("1e-5", None, [1e-5], 1j)
# Roundings of a few values near 1, the largest of them near 6, and of sums over up to 40 rows.
ROUNDINGS = dict(zip(FLOATS, (1e-4, 1e-10, 2e-2, 2e-1), strict=True))
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT.contiguous().mT if x.ndim > 1 else x,
    "every other": lambda x: x.repeat_interleave(2, -1)[..., ::2] if x.ndim else x,
    "with the other sign": lambda x: torch._neg_view(-x),
    "expanded": lambda x: x[:1].expand(x.shape) if x.ndim and len(x) else x,
    "at an offset": lambda x: torch.cat([x, x])[len(x) :] if x.ndim else x,
}
Outcome = list[Tensor] | type[BaseException]


def outcome(run: Callable[..., list[Tensor]], *given: Any) -> Outcome:
    """Return what a call returns, or the type of exception that it raises."""
    try:
        return run(*given)
    except Exception as error:
        return type(error)


def agree(
    some: Sequence[Tensor], others: Sequence[Tensor], part: float, lost: Sequence[float] = ()
) -> bool:
    """Tell whether results are alike, up to a part of the largest number, and what is lost."""
    for one, other, more in zip(some, others, lost or [0.0] * len(some), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        finite = other.double().nan_to_num(0, 0, 0).abs()
        room = part * max(1.0, finite.max().item() if finite.numel() else 0.0) + more
        if not torch.allclose(one.double(), other.double(), rtol=0, atol=room, equal_nan=True):
            return False
    return True


def said(value: Any) -> str:
    """Say in a line what is given, or what has come of it."""
    if isinstance(value, Tensor):
        numbers = value.flatten()[:3].tolist()
        return f"{value.dtype}{list(value.shape)}{list(value.stride())} {numbers}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, PackedSequence):
        return f"{said(value.data)} packed by {value.batch_sizes.tolist()}"
    return f"({', '.join(map(said, value))})" if isinstance(value, (tuple, list)) else repr(value)


def run(strategy: Any, differs: Callable[[Any], str], number: int, is_fixed: bool) -> None:
    """Draw a number of calls, always the same or each time others, and see that none differs.

    Those that failed are kept in .hypothesis, and are the first to be tried the next time.
    """

    def one(call: Any) -> None:
        print(said(call))  # the last of them, if it ends the process
        assert not differs(call)

    one.__name__ = differs.__name__  # by which they are kept
    quietly = {"deadline": None, "suppress_health_check": [*HealthCheck]}
    settings(max_examples=number, derandomize=is_fixed, **quietly)(given(strategy)(one))()


def one_of(*values: Any) -> Any:
    return st.sampled_from(values)


def some(fault: str) -> Any:
    """Return a strategy for the faults of a call: mostly none, else one to three of some."""
    return st.just(set()) | st.sets(one_of(*fault.split()), min_size=1, max_size=3)


@st.composite
def tensors(draw: Any, shape: tuple[int, ...], dtype: torch.dtype, offset: float = 0.0) -> Tensor:
    """Random numbers, some rows without spread, in one of several layouts."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    numbers = offset + torch.randn(shape, generator=generator, dtype=torch.float64)
    if len(shape) > 1 and draw(one_of(False, False, False, True)):
        numbers[::2] = 0.5
    if dtype in OTHERS:
        return (4 * numbers).abs().to(dtype)
    return draw(one_of(*LAYOUTS.values()))(numbers.to(dtype))


# Layer norms


class Call(NamedTuple):
    """The arguments of a layer norm, and the gradient that comes back, or None."""

    x: Any
    normalized_shape: Any
    weight: Any = None
    bias: Any = None
    eps: Any = 1e-5
    dy: Tensor | None = None


@st.composite
def calls(draw: Any) -> Call:
    """Calls of a layer norm, about half of them right."""
    faults = draw(some("dtype shape weight bias mixed eps x"))
    dtype = draw(one_of(*OTHERS) if "dtype" in faults else one_of(*FLOATS[:1] * 3, *FLOATS))
    shape = tuple(draw(st.lists(one_of(*SIZES), min_size=1, max_size=4)))
    last = shape[len(shape) - draw(st.integers(1, len(shape))) :]
    x: Any = draw(tensors(shape, dtype))
    weight, bias = (draw(st.none() | tensors(last, dtype, offset=1.0)) for _ in "wb")
    if "weight" in faults:
        weight = draw(tensors((*last, 2), dtype) | one_of([1.0], 2.0))
    if "bias" in faults:
        bias = draw(tensors(last, draw(one_of(*FLOATS, *OTHERS))))
    if "mixed" in faults:
        weight, bias = (draw(st.none() | tensors(last, torch.float32)) for _ in "wb")
    eps = draw(one_of(*NO_EPS) if "eps" in faults else one_of(*[1e-5] * 25, *EPS))
    dy = draw(st.none() | tensors(shape, dtype)) if dtype.is_floating_point else None
    normalized_shape: Any = draw(one_of(last, list(last), torch.Size(last)))
    if "shape" in faults:
        longer = (*last, 2), (*last[:-1], last[-1] + 1)
        normalized_shape = draw(one_of(*longer, (), last[-1], None, (2.0,), (True,), "3"))
    if "x" in faults:
        x = draw(one_of(x.tolist(), None))
    return Call(x, normalized_shape, weight, bias, eps, dy)


def passes(layer_norm: Callable[..., Tensor], call: Call) -> list[Tensor]:
    """Return y, and the gradients of what can have one if dy is given."""
    *arguments, dy = call
    if dy is None:
        return [layer_norm(*arguments)]
    arguments = [
        t.detach().requires_grad_() if isinstance(t, Tensor) and t.is_floating_point() else t
        for t in arguments
    ]
    y = layer_norm(*arguments)
    leaves = [t for t in arguments if isinstance(t, Tensor) and t.requires_grad]
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def true(x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Return the formula's y, computed in float64 and rounded once."""
    y = formula.layer_norm(x, weight, bias, normalized_shape=tuple(shape), eps=eps)
    return y.to(x.dtype)


def difference(call: Call) -> str:
    """Return what differs between lnlib's layer norm and PyTorch's; empty if nothing should not.

    PyTorch's backward pass may refuse a float32 bias beside a narrower input and no weight, which
    its forward pass takes. And it computes in float32, where eps below 1e-45 is 0 and what a few
    features leave of a rounding is multiplied by 1/sqrt(eps), where lnlib is the float64 formula.
    """
    ours, theirs = (outcome(passes, norm, call) for norm in (lnlib.layer_norm, F.layer_norm))
    if isinstance(ours, type) or isinstance(theirs, type):
        is_known = call.dy is not None and call.weight is None and call.bias is not None
        is_known = is_known and theirs is RuntimeError and not isinstance(ours, type)
        is_fine = ours is theirs or is_known
    else:
        is_fine = any(
            agree(ours, each(), ROUNDINGS[call.x.dtype])
            for each in (lambda: theirs, lambda: passes(true, call))
        )
    return "" if is_fine else f"{said(ours)}, PyTorch {said(theirs)}"


# LSTMs


SETTINGS: dict[str, tuple[Any, ...]] = {
    "input_size": (1, 3, 5),
    "hidden_size": (1, 4, 7),
    "num_layers": (1, 2),
    "bias": (True, False),
    "batch_first": (False, True),
    "bidirectional": (False, True),
}
WRONG = {"input_size": 2.5, "hidden_size": 0, "num_layers": 0, "bias": 1, "dropout": 2}


class LSTMCall(NamedTuple):
    """The settings of an LSTM, its dtype, and the arguments of a call of it."""

    settings: dict[str, Any]
    dtype: torch.dtype
    input: Any
    hx: Any

    def in_float64(self) -> LSTMCall:
        """Return the call in float64, but for what is of another dtype than the network."""

        def wide(value: Any) -> Any:
            if isinstance(value, (tuple, list)):
                made = map(wide, value)
                return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
            is_right = isinstance(value, Tensor) and value.dtype == self.dtype
            return value.double() if is_right else value

        return LSTMCall(self.settings, torch.float64, wide(self.input), wide(self.hx))


@st.composite
def lstm_calls(draw: Any) -> LSTMCall:
    """Calls of an LSTM, about half of them right."""
    faults = draw(some("shape dtype hx setting none"))
    settings = {name: draw(one_of(*values)) for name, values in SETTINGS.items()}
    width, H, layers, _, batch_first, bidirectional = settings.values()
    T, B = draw(
        one_of((0, 3), (2, 0)) if "none" in faults else st.tuples(one_of(1, 2, 5), one_of(1, 3))
    )
    dtype = draw(one_of(torch.float32, torch.float64))
    shape: tuple[int, ...] = (B, T, width) if batch_first else (T, B, width)
    state: tuple[int, ...] = (layers * (1 + bidirectional), B, H)
    if draw(one_of(False, False, False, True)):
        shape, state = (T, width), (state[0], H)
    if "shape" in faults:
        shape = draw(one_of((width,), (*shape, 1), (*shape[:-1], width + 1), ()))
    other = draw(one_of(torch.float16, torch.int64)) if "dtype" in faults else dtype
    input: Any = draw(tensors(shape, other))
    if input.ndim == 3 and input.numel() and draw(one_of(False, False, False, True)):
        rows = shape[0] if batch_first else shape[1]
        lengths = draw(st.lists(st.integers(1, T), min_size=rows, max_size=rows))
        input = pack_padded_sequence(input, lengths, batch_first, enforce_sorted=False)
    hx: Any = draw(st.none() | st.tuples(tensors(state, dtype), tensors(state, dtype)))
    if "hx" in faults:
        others = (*state, 1), state[1:], (*state[:-1], H + 1), (state[0] + 1, *state[1:])
        h = draw(tensors(draw(one_of(*others)), dtype))
        hx = draw(one_of((h, h), h, (h,), [h, h], (h, None)))
    if "setting" in faults:
        name = draw(one_of(*WRONG))
        settings[name] = WRONG[name]
    return LSTMCall(settings, dtype, input, hx)


def lstm_passes(kind: Callable[..., Any], call: LSTMCall) -> list[Tensor]:
    """Return outputs, last states and the gradient of the input."""
    torch.manual_seed(0)
    network = kind(**call.settings).to(call.dtype)
    is_packed = isinstance(call.input, PackedSequence)
    x = call.input.data if is_packed else call.input
    x = x.detach().requires_grad_(x.is_floating_point())
    output, (h, c) = network(call.input._replace(data=x) if is_packed else x, call.hx)
    y = output.data if is_packed else output
    return [y.detach(), h.detach(), c.detach(), *torch.autograd.grad(y.sum(), x)]


def lstm_difference(call: LSTMCall) -> str:
    """Return what differs between lnlib's LSTM and PyTorch's; empty if nothing should not.

    PyTorch takes hx apart before it looks at it, and raises whatever comes of that. States of a
    packed sequence it does not look at, and some crash it; in float32 it may corrupt the heap.
    """
    wide, is_packed = call.in_float64(), isinstance(call.input, PackedSequence)
    # Of a row that has hardly a spread, a smaller eps would make much of a rounding.
    norms = functools.partial(lnlib.LayerNormLSTM, eps=0.1)
    ours = outcome(lstm_passes, norms, call)
    exact = outcome(lstm_passes, functools.partial(norms, backend="reference"), wide)
    is_asked = call.hx is None or not is_packed
    theirs = outcome(lstm_passes, torch.nn.LSTM, wide) if is_asked else exact
    if isinstance(ours, type) or isinstance(theirs, type):
        hx = call.hx
        is_pair = isinstance(hx, (tuple, list)) and [type(h) for h in hx] == [Tensor, Tensor]
        is_fine = ours is theirs or (hx is not None and (not is_pair or is_packed))
    else:
        is_fine = [t.shape for t in ours] == [t.shape for t in theirs]
        is_fine &= agree(ours, [t.to(call.dtype) for t in exact], ROUNDINGS[call.dtype])
    return "" if is_fine else f"{said(ours)}, PyTorch {said(theirs)}"
