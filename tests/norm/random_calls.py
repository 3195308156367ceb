"""Random calls, right ones and wrong ones, of lnlib and of PyTorch: what each of them does."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import lnlib
from lnlib import formula

SIZES = (0, 1, 2, 3, 5, 8, 13, 33)
FLOATS = (torch.float16, torch.bfloat16, torch.float64)
OTHERS = (torch.int64, torch.uint8, torch.bool, torch.complex64)
EPS = (0, 0.0, 1e-12, 0.5, -1e-3, -1e6, 1e30, 1e300, 1e-300, math.nan, math.inf, -math.inf, True)
NO_EPS = ("1e-5", None, [1e-5], 1j)
# Roundings of a few values near 1, the largest of them near 6, and of sums over up to 40 rows.
TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-4,
    torch.float16: 2e-2,
    torch.bfloat16: 2e-1,
}


class Chance(random.Random):
    """Numbers that a seed decides, and nothing that is computed between them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def happens(self, probability: float) -> bool:
        return self.random() < probability

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)


class Call(NamedTuple):
    """The arguments of a layer norm, and the gradient that comes back, or None."""

    x: Any
    normalized_shape: Any
    weight: Any
    bias: Any
    eps: Any
    dy: Tensor | None

    def __str__(self) -> str:
        """Say it in a line."""
        given = (_said(each) for each in self)
        return ", ".join(f"{name}={text}" for name, text in zip(self._fields, given, strict=True))


def _said(value: object) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    return f"{value.dtype}{list(value.shape)}{list(value.stride())}"


def calls(number: int, seed: int = 0) -> Iterator[Call]:
    """Yield random calls; about half of them are right."""
    chance = Chance(seed)
    for _ in range(number):
        yield _call(chance)


def _call(chance: Chance) -> Call:
    happens = chance.happens
    dtype = torch.float32 if happens(0.6) else chance.choice(FLOATS)
    dtype = chance.choice(OTHERS) if happens(0.05) else dtype
    shape = tuple(chance.choice(SIZES) for _ in range(chance.choice((1, 2, 2, 3, 3, 4))))
    x: Any = _tensor(chance, shape, dtype)
    last: Any = shape[len(shape) - chance.randint(1, len(shape)) :]
    wrong_shapes = (
        (*last, 2),
        (*last[:-1], last[-1] + 1),
        (),
        last[-1],
        None,
        (2.0,),
        (True,),
        "3",
    )
    weight, bias = (
        None if happens(0.4) else _tensor(chance, last, dtype, offset=1.0) for _ in range(2)
    )
    if happens(0.1):
        weight = chance.choice((_tensor(chance, (*last, 2), dtype), [1.0], 2.0))
    if happens(0.1):
        bias = _tensor(chance, last, chance.choice((torch.float32, *FLOATS, *OTHERS)))
    if happens(0.1):
        weight = _tensor(chance, last, torch.float32)
        bias = _tensor(chance, last, torch.float32)
    eps: Any = chance.choice(EPS) if happens(0.3) else 1e-5
    eps = chance.choice(NO_EPS) if happens(0.04) else eps
    dy = _tensor(chance, shape, dtype) if dtype.is_floating_point and happens(0.6) else None
    normalized_shape = chance.choice((last, list(last), torch.Size(last)))
    if happens(0.12):
        normalized_shape = chance.choice(wrong_shapes)
    x = chance.choice((x.tolist(), None)) if happens(0.02) else x
    return Call(x, normalized_shape, weight, bias, eps, dy)


def _tensor(
    chance: Chance, shape: tuple[int, ...], dtype: torch.dtype, offset: float = 0.0
) -> Tensor:
    """Return random numbers, some rows without spread, in one of several layouts."""
    numbers = offset + chance.normal(shape)
    if chance.happens(0.2) and len(shape) > 1:
        numbers[::2] = 0.5
    if dtype in OTHERS:
        return (4 * numbers).abs().to(dtype)
    tensor = numbers.to(dtype)
    how = chance.randrange(8)
    if how == 0:
        return tensor.mT.contiguous().mT if tensor.ndim > 1 else tensor
    if how == 1 and tensor.ndim:
        return tensor.repeat_interleave(2, -1)[..., ::2]
    if how == 2:
        return torch._neg_view(-tensor)
    if how == 3 and tensor.ndim and len(tensor):
        return tensor[:1].expand(shape)
    if how == 4 and tensor.ndim:
        return torch.cat([tensor, tensor])[len(tensor) :]
    return tensor


Outcome = list[Tensor] | type[BaseException]


def outcome(layer_norm: Callable[..., Tensor], call: Call) -> Outcome:
    """Return y and its gradients, or the type of exception."""
    *arguments, dy = call
    if dy is not None:
        arguments = [
            t.detach().requires_grad_() if isinstance(t, Tensor) and t.is_floating_point() else t
            for t in arguments
        ]
    try:
        y = layer_norm(*arguments)
        if dy is None:
            return [y]
        leaves = [t for t in arguments if isinstance(t, Tensor) and t.requires_grad]
        return [y.detach(), *torch.autograd.grad(y, leaves, dy)]
    except Exception as error:
        return type(error)


# What may differ, and why.
CLOSER = (
    "PyTorch computes in float32, where eps below 1e-45 is 0 and what a few features leave of a \
rounding is multiplied by 1/sqrt(eps); lnlib's result is the float64 formula's, rounded"
)
BIAS_ALONE = (
    "PyTorch's backward pass refuses a float32 bias beside a narrower input and no weight, \
which its forward pass takes"
)


def difference(call: Call) -> str:
    """Return what differs between lnlib's layer norm and PyTorch's; empty if nothing does."""
    ours, theirs = outcome(lnlib.layer_norm, call), outcome(F.layer_norm, call)
    if isinstance(ours, type) or isinstance(theirs, type):
        if ours is theirs:
            return ""
        is_known = theirs is RuntimeError and call.weight is None and not isinstance(ours, type)
        is_known = is_known and call.bias is not None and call.bias.dtype != call.x.dtype
        return BIAS_ALONE if is_known else f"{_named(ours)}, PyTorch {_named(theirs)}"
    if _agree(ours, theirs, call.x.dtype):
        return ""
    truth = outcome(_formula, call._replace(**{k: _double(v) for k, v in call._asdict().items()}))
    exact = [t.to(like.dtype) for t, like in zip(truth, ours, strict=True)]
    return CLOSER if _agree(ours, exact, call.x.dtype) else f"{ours}, PyTorch {theirs}"


def _agree(some: list[Tensor], others: list[Tensor], dtype: torch.dtype) -> bool:
    for one, other in zip(some, others, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        finite = other.double().nan_to_num(0, 0, 0).abs()
        room = TOLERANCE[dtype] * max(1.0, finite.max().item() if len(finite.flatten()) else 0.0)
        if not torch.allclose(one.double(), other.double(), rtol=0, atol=room, equal_nan=True):
            return False
    return True


def _formula(x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return formula.layer_norm(x, weight, bias, normalized_shape=tuple(shape), eps=eps)


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) else value


def _named(outcome: Outcome) -> str:
    return outcome.__name__ if isinstance(outcome, type) else "a result"


class LSTMCall(NamedTuple):
    """The settings of an LSTM, its dtype, and the arguments of a call of it."""

    settings: dict[str, Any]
    dtype: torch.dtype
    input: Any
    hx: Any

    def __str__(self) -> str:
        """Say it in a line."""
        hx = self.hx if isinstance(self.hx, (tuple, list)) else [self.hx]
        return f"{self.settings}, {self.dtype}, {_said(self.input)}, {list(map(_said, hx))}"


def lstm_calls(number: int, seed: int = 0) -> Iterator[LSTMCall]:
    """Yield random calls of LSTMs; about two thirds of them are right."""
    chance = Chance(seed)
    for _ in range(number):
        yield _lstm_call(chance)


def _lstm_call(chance: Chance) -> LSTMCall:
    fault = (
        chance.choice(("shape", "dtype", "hx", "setting", "none")) if chance.happens(0.4) else ""
    )
    settings: dict[str, Any] = {
        "input_size": chance.choice((1, 3, 5)),
        "hidden_size": chance.choice((1, 4, 7)),
        "num_layers": chance.choice((1, 1, 2)),
        "bias": chance.happens(0.8),
        "batch_first": chance.happens(0.3),
        "bidirectional": chance.happens(0.3),
    }
    width, H, layers = (settings[name] for name in ("input_size", "hidden_size", "num_layers"))
    T, B = chance.choice((1, 2, 5)), chance.choice((1, 3))
    if fault == "none":
        T, B = chance.choice(((0, B), (T, 0)))
    dtype = chance.choice((torch.float32, torch.float32, torch.float64))
    shape: tuple[int, ...] = (B, T, width) if settings["batch_first"] else (T, B, width)
    state: tuple[int, ...] = (layers * (1 + settings["bidirectional"]), B, H)
    if chance.happens(0.2):
        shape, state = (T, width), (state[0], H)
    if fault == "shape":
        shape = chance.choice(((width,), (*shape, 1), (*shape[:-1], width + 1), ()))
    given = chance.choice((torch.float16, torch.int64)) if fault == "dtype" else dtype
    input: Any = _tensor(chance, shape, given)
    if input.ndim == 3 and input.numel() and chance.happens(0.2):
        rows = shape[0] if settings["batch_first"] else shape[1]
        lengths = [chance.randint(1, T) for _ in range(rows)]
        input = pack_padded_sequence(input, lengths, settings["batch_first"], enforce_sorted=False)
    hx: Any = None
    if chance.happens(0.5):
        hx = _tensor(chance, state, dtype), _tensor(chance, state, dtype)
    if fault == "hx":
        others = (*state, 1), state[1:], (*state[:-1], H + 1), (state[0] + 1, *state[1:])
        other = _tensor(chance, chance.choice(others), dtype)
        hx = chance.choice(((other, other), other, (other,), [other, other], (other, None)))
    if fault == "setting":
        wrong = {"input_size": 2.5, "hidden_size": 0, "num_layers": 0, "bias": 1, "dropout": 2}
        name = chance.choice(list(wrong))
        settings[name] = wrong[name]
    return LSTMCall(settings, dtype, input, hx)


NO_PAIR = "PyTorch takes hx apart before it looks at it, and raises whatever comes of that"
TOO_MANY = "PyTorch reads the first of too many states of a packed sequence, and drops the others"


def lstm_difference(call: LSTMCall) -> str:
    """Return what differs between lnlib's LSTM and PyTorch's; empty if nothing does."""
    by_operations = functools.partial(lnlib.LayerNormLSTM, backend="reference")
    ours, exact = _run_lstm(lnlib.LayerNormLSTM, call), _run_lstm(by_operations, _in_float64(call))
    theirs = _run_lstm(torch.nn.LSTM, _in_float64(call))  # in float32 it may corrupt the heap
    if isinstance(ours, type) or isinstance(theirs, type):
        return "" if ours is theirs else _known_of_lstm(call) or f"{_named(ours)}, {_named(theirs)}"
    looks = [t.shape for t in ours], [t.shape for t in theirs]
    if looks[0] != looks[1] or {t.dtype for t in ours} != {call.dtype}:
        return f"{looks}, {ours[0].dtype}"
    rounded = [t.to(call.dtype) for t in exact]
    return "" if _agree(ours, rounded, call.dtype) else f"{ours}, exactly {exact}"


def _known_of_lstm(call: LSTMCall) -> str:
    hx = call.hx
    is_pair = isinstance(hx, (tuple, list)) and [isinstance(h, Tensor) for h in hx] == [True, True]
    if hx is not None and not is_pair:
        return NO_PAIR
    return TOO_MANY if isinstance(call.input, PackedSequence) and hx is not None else ""


def _in_float64(call: LSTMCall) -> LSTMCall:
    """Return the call in float64, but for what is of another dtype than the network."""

    def convert(value: Any) -> Any:
        if isinstance(value, PackedSequence):
            return value._replace(data=convert(value.data))
        if isinstance(value, (tuple, list)):
            return type(value)(map(convert, value))
        is_right = isinstance(value, Tensor) and value.dtype == call.dtype
        return value.double() if is_right else value

    return LSTMCall(call.settings, torch.float64, convert(call.input), convert(call.hx))


def _run_lstm(kind: Callable[..., Any], call: LSTMCall) -> Outcome:
    """Return outputs, last states and the gradient of the input, or the type of exception."""
    torch.manual_seed(0)
    try:
        network = kind(**call.settings).to(call.dtype)
        is_packed = isinstance(call.input, PackedSequence)
        x = call.input.data if is_packed else call.input
        x = x.detach().requires_grad_(x.is_floating_point())
        output, (h, c) = network(call.input._replace(data=x) if is_packed else x, call.hx)
        y = output.data if is_packed else output
        return [y.detach(), h.detach(), c.detach(), *torch.autograd.grad(y.sum(), x)]
    except Exception as error:
        return type(error)
