"""What PyTorch is doing with a call: its mode decides what computes it.

The few private names of PyTorch that lnlib uses are in this file.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce, wraps
from operator import or_
from typing import Literal, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

_is_tracing = torch._C._is_tracing
_set_tracing = torch._C._set_tracing_state  # type: ignore[attr-defined]
_is_transformed = torch._C._are_functorch_transforms_active  # as Function.apply itself asks
_modes_of_dispatch = torch._C._len_torch_dispatch_stack
_modes_on_stack = torch.utils._python_dispatch._get_current_dispatch_mode_stack
_OF_SELECTIVE_CHECKPOINTS = "_CachingTorchDispatchMode", "_CachedTorchDispatchMode"
_modes_of_functions = torch._C._len_torch_function_stack
_is_included = torch._C._dispatch_tls_is_dispatch_key_included
_keys_of = torch._C._dispatch_keys
_BEFORE = torch._C.DispatchKey.PreDispatch

is_profiled = torch._C._autograd._profiler_enabled
recorded = torch._C._profiler._RecordFunctionFast  # a context that a profiler shows by its name

CPU = -1  # what a tensor there says of its place
Mode = Literal["eager", "watched", "graph", "program", "other"]
Function = TypeVar("Function", bound=Callable[..., object])

# In these modes tensors are plain numbers, and only reverse mode differentiates.
ORDINARY: tuple[Mode, ...] = ("eager", "watched")


def mode_of(*tensors: Tensor | None) -> Mode:
    """Return the mode of a call with ``tensors`` as its arguments.

    * "eager": ordinary tensors, as `is_ordinary` has it, with or without reverse mode.
    * "watched": the same, while a `TorchDispatchMode` sees every operation, and may replace it;
      `make_fx` and `FakeTensorMode` are such modes, also before dispatching.
    * "graph": `torch.compile` records the call, which will run in this process.
    * "program": `torch.export` or `torch.jit.trace` records it, and it may be loaded anywhere.
    * "other": a transform of `torch.func` is at work, such as jvp, vjp or vmap, or the vmap of
      `torch.autograd.grad` with ``is_grads_batched``, or a tensor carries a tangent of
      `torch.autograd.forward_ad`, even while the call is recorded. Or a tensor is not ordinary;
      in a graph, it is of a subclass.

    Raises:
        RuntimeError: if the storage of an ordinary tensor is smaller than its shape needs. Some of
            PyTorch's own operations would read beyond it, and crash.
    """
    given = [tensor for tensor in tensors if tensor is not None]
    if is_left_alone() and place_of_simple(*given) is not None:
        return "eager"  # as the rest of this function would find
    may_be_dual = in_forward_mode()
    if torch.compiler.is_compiling() or _is_tracing():
        if may_be_dual or _is_transformed():
            return "other"
        if not torch.compiler.is_compiling() or _is_exporting():
            return "program"
        return "graph" if all(type(tensor) in _TYPES for tensor in given) else "other"
    ordinary = [tensor for tensor in given if is_ordinary(tensor)]
    for tensor in ordinary:
        check_memory(tensor)
    if _is_transformed() or len(ordinary) < len(given):
        return "other"
    if may_be_dual and any(map(_is_dual, ordinary)):
        return "other"
    return "watched" if is_watched() else "eager"


def asked_while_compiling(function: Function) -> Function:
    """Mark a function that `torch.compile` calls while it records; its result is a constant."""
    # torch.compiler.assume_constant_result does the same, but imports the compiler for seconds.
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@asked_while_compiling  # before PyTorch 2.13, the compiler always takes it to be true
def _is_exporting() -> bool:
    return torch.compiler.is_exporting()


def is_watched() -> bool:
    """Tell whether a `TorchDispatchMode` sees every operation."""
    if torch.compiler.is_compiling():  # which may not ask, in the graph of compiled autograd
        return False
    return _modes_of_dispatch() > 0 or _is_included(_BEFORE)


def is_kept() -> bool:
    """Tell whether a selective checkpoint is on, which keeps results and refuses changed ones."""
    if torch.compiler.is_compiling() or not _modes_of_dispatch():
        return False
    return any(type(mode).__name__ in _OF_SELECTIVE_CHECKPOINTS for mode in _modes_on_stack())


def is_left_alone() -> bool:
    """Tell whether no mode or transform of PyTorch may look at a call, or take it over.

    If so, and its tensors are ordinary, its mode is "eager".
    """
    return not (
        torch.compiler.is_compiling()
        or _is_tracing()
        or _is_transformed()
        or forward_ad._current_level >= 0
        or _modes_of_dispatch()
        or _is_included(_BEFORE)
        or _modes_of_functions()
    )


def is_traced() -> bool:
    """Tell whether `torch.jit.trace` records what is done."""
    return not torch.compiler.is_compiling() and _is_tracing()


def untraced() -> AbstractContextManager[object]:
    """Hide from `torch.jit.trace` what is done in this context: checks, of which it would warn."""
    return _without_tracing() if is_traced() else nullcontext()


@contextmanager
def _without_tracing() -> Iterator[None]:
    state = torch._C._get_tracing_state()
    _set_tracing(None)
    try:
        yield
    finally:
        _set_tracing(state)


def is_recording_gradients() -> bool:
    """Tell whether autograd would record what is computed."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def shown(name: str, function: Function) -> Function:
    """Return a function that a profiler, which is on, shows by this name."""

    @wraps(function)
    def call(*given: object) -> object:
        with recorded(name):
            return function(*given)

    return call  # type: ignore[return-value]


def shown_as(name: str) -> AbstractContextManager[object]:
    """Return a context that appears under this name in a profiler, if one is on."""
    if torch.compiler.is_compiling() or not is_profiled():
        return nullcontext()
    return recorded(name)


def in_forward_mode() -> bool:
    """Tell whether `torch.autograd.forward_ad` or a jvp of `torch.func` is under way."""
    return forward_ad._current_level >= 0


def _is_dual(tensor: Tensor) -> bool:
    if torch.is_inference_mode_enabled():  # where no tangent is carried on
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def is_ordinary(tensor: Tensor) -> bool:
    """Tell whether a tensor is a strided array of numbers in memory, and nothing more.

    A tensor of a subclass is not, such as a jagged one. Nor is one whose plain type hides another
    kind: meta, sparse, quantized, nested, functional, a batch of vmap, or zeros without memory.
    """
    if type(tensor) not in _TYPES:
        return False
    return not _keys_of(tensor).raw_repr() & _EXTRAORDINARY


def place_of_simple(*tensors: Tensor | None) -> int | None:
    """Return where all of these are, if they are simple: a GPU's number, -1 for the CPU, or None.

    A tensor is simple if it is ordinary, dense, not empty, and in memory. C++ and the kernels know
    only an address, so any other would crash them, or give garbage.
    """
    place = None
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in _TYPES:
            return None
        keys = _keys_of(tensor).raw_repr()
        if keys not in _SIMPLE or not tensor.is_contiguous():
            return None
        here = _SIMPLE[keys] or tensor.get_device()
        if place is None:
            place = here
        elif place != here:
            return None
        there, size = tensor.untyped_storage().nbytes(), tensor.nbytes
        if offset := tensor.storage_offset():
            there -= int(offset) * tensor.itemsize
        if not 0 < size <= there:
            return None
    return place


def is_simple(*tensors: Tensor | None) -> bool:
    """Tell whether all of these are simple and in the CPU's memory."""
    return place_of_simple(*tensors) == CPU


def check_memory(tensor: Tensor) -> None:
    """Raise RuntimeError if the storage of an ordinary tensor is smaller than its shape needs."""
    last = tensor.storage_offset()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        last += (size - 1) * stride
    needed = (last + 1) * tensor.itemsize
    found = tensor.untyped_storage().nbytes()
    if found < needed and tensor.numel():
        raise RuntimeError(
            f"a tensor of shape {tuple(tensor.shape)} needs {needed} bytes, got a storage of "
            f"{found}: its memory has been freed, or taken from it with resize_"
        )


def _keys_of_ordinary_tensors(*devices: str) -> int:
    """Return, as bits, the dispatch keys that an ordinary tensor may have."""
    kinds = "", "Autograd", "Autocast"
    return _bits("ADInplaceOrView", *(kind + device for kind in kinds for device in devices))


def _bits(*keys: str) -> int:
    found = (torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)) for key in keys)
    return reduce(or_, (each.raw_repr() for each in found))


_TYPES = Tensor, Parameter
_EXTRAORDINARY = ~(_keys_of_ordinary_tensors("CPU", "CUDA", "MPS", "XPU") | _bits("Negative"))
_SIMPLE = {  # with autograd, and of an inference mode; a GPU has to be asked for its number
    _bits(device, f"Autocast{device}", *more): place
    for device, place in (("CPU", CPU), ("CUDA", None))
    for more in ((), (f"Autograd{device}", "ADInplaceOrView"))
}
