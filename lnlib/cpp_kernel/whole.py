"""A whole call in C++, its node of autograd included, if ``python -m lnlib.cpp_kernel`` was run.

What `lnlib.cpp_kernel.quick` does in Python, whole.cpp does by PyTorch's own C++, with the same
bits. That takes a quarter of a minute to compile, and Python's headers. So it is compiled when
asked for, once a machine and PyTorch; whoever loads a kernel from then on takes it along.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from lnlib import saved
from lnlib.closed_form import Dtypes, Gradients, LayerNormFunction, Needs, Passes
from lnlib.cpp_kernel import compile

SOURCE = Path(__file__).with_name("whole.cpp")

# Once it is loaded: called as `lnlib.layer_norm`, it returns y, or None if a call is not simple.
layer_norm: Callable[..., Tensor | None] | None = None


def flags() -> tuple[str, ...]:
    """Return what g++ is told besides: which PyTorch and Python there are, and where."""
    root = Path(torch.__file__).parent
    return (
        "-std=c++20",
        "-O2",
        f"-DPYTORCH={torch.__version__}",
        *(f"-I{path}" for path in (root / "include", _headers())),
        "-Wl,--no-as-needed",
        f"-L{root / 'lib'}",
        *("-ltorch_python", "-ltorch_cpu", "-lc10"),
    )


def _headers() -> Path:
    """Return the folder of Python's headers, as `sysconfig` would, which takes longer."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    return Path(sys.base_prefix, "include", version)


def why_not() -> str | None:
    """Compile it, and return why that cannot be, and what to do; None if it is there."""
    if not (_headers() / "Python.h").exists():
        return "there is no Python.h; install it, as with `apt install python3-dev`"
    return compile.why_not(SOURCE, *flags())


def hand_over(
    passes: Passes, dtype: torch.dtype, parameters: torch.dtype, functions: Sequence[Any]
) -> None:
    """Let it call the functions of a kernel, if somebody has compiled it.

    Args:
        passes: those of the kernel, for what is not simple on the way back.
        dtype: of the rows.
        parameters: of weight and bias, as the kernel takes them.
        functions: forward, backward and scratch, of ctypes.
    """
    global layer_norm
    module = _load(passes)
    if module is not None:
        addresses = (ctypes.cast(function, ctypes.c_void_p).value for function in functions)
        module.take(dtype, parameters, *addresses)
        layer_norm = module.layer_norm


@functools.cache
def _load(passes: Passes) -> Any:
    path = compile.compiled(SOURCE, *flags())
    try:
        begin = ctypes.PyDLL(str(path)).PyInit_lnlib_whole if path else None
    except OSError:  # made for another PyTorch of this name
        return None
    if begin is None:
        return None
    begin.restype = ctypes.py_object
    module = begin()
    module.begin(functools.partial(gradients, passes), compile.is_fork())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: compile.is_fork() and module.fork())
    return module


def gradients(
    passes: Passes,
    dy: Tensor,
    found: tuple[Tensor | None, ...],
    shape: Sequence[int],
    normalized_shape: Sequence[int],
    eps: float,
    needs: Needs,
    dtypes: Dtypes,
) -> Gradients:
    """Return the gradients of x, weight and bias where a backward pass is not simple.

    Args:
        passes: of the kernel.
        dy: the gradient of y.
        found: input, weight and statistics, or nothing, as they have come back.
        shape: of the input.
        normalized_shape: the sizes that share a mean.
        eps: added to the variance.
        needs: which gradients are asked for.
        dtypes: of input, weight and bias.
    """
    needs_dx, needs_dweight, needs_dbias = needs
    as_kept = SimpleNamespace(
        needs_input_grad=(needs_dx, False, needs_dweight, needs_dbias, False, False),
        normalized_shape=tuple(normalized_shape),
        kinds=saved.kinds_of_call(dtypes, shape, normalized_shape, found),
        eps=eps,
        passes=passes,
        dtypes=dtypes,
    )
    dx, _, dweight, dbias, *_ = LayerNormFunction.from_saved(as_kept, dy, found)
    return dx, dweight, dbias
