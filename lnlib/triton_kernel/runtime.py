"""Which Triton runs the kernels: its compiler on a GPU, its interpreter on a CPU."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import Lock
from types import ModuleType
from typing import Any

import torch

from lnlib.cpp_kernel.library import say_once

KERNELS = "lnlib.triton_kernel.kernels"
OLDEST = (3, 6)
INSTALL = "pip install triton (on Linux; PyTorch for CUDA or ROCm brings its own)"


def _is_installed() -> bool:
    try:
        return find_spec("triton") is not None  # without importing it
    except ValueError:  # somebody's stand-in
        return False


IS_INSTALLED = _is_installed()

_importing = Lock()
_one_at_a_time = Lock()
_private: dict[str, ModuleType] = {}  # the copy of Triton that interprets, and kernels of it


@cache
def why_not() -> str | None:
    """Return why the kernels cannot run on this machine, and what to do; None if they can."""
    try:
        import triton
    except ImportError as error:
        return f"Triton cannot be imported ({error}); {INSTALL}"
    if tuple(map(int, triton.__version__.split(".")[:2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"Triton {triton.__version__} is too old, {oldest} or newer is needed; {INSTALL}"
    return None


@cache
def why_not_on_gpu() -> str | None:
    """Return why the kernels cannot be compiled for this machine's GPU; None if they can."""
    reason = why_not()
    if reason is None:
        import triton

        try:
            triton.runtime.driver.active.utils  # noqa: B018  built at first use, by a C compiler
        except Exception as error:  # whatever a driver may raise
            return f"Triton has no driver for this GPU ({error})"
    return reason


def runs_on_gpu() -> bool:
    """Tell whether "auto" may take the kernels; if not, say why, once."""
    if torch.compiler.is_compiling():  # for a GPU, PyTorch's compiler itself needs Triton
        return IS_INSTALLED
    reason = why_not_on_gpu()
    if reason is not None:
        say_once("lnlib takes no Triton on the GPU, so is slower", reason)
    return reason is None


def check_installed() -> None:
    """Raise ImportError, with what to do, if there is no Triton here or too old a one."""
    reason = why_not()
    if reason is not None:
        raise ImportError(f'backend="triton" is not available: {reason}')


def check(device: torch.device) -> None:
    """Raise what `check_installed` raises, and NotImplementedError if not for ``device``."""
    check_installed()
    if device.type == "cpu" and find_spec("numpy") is None:
        raise ImportError("on a CPU, Triton's interpreter needs NumPy: pip install numpy")
    if device.type not in ("cuda", "cpu"):
        raise NotImplementedError(
            f'backend="triton" runs on cuda (NVIDIA or AMD) and, interpreted, on cpu; '
            f'got a tensor on {device}; use backend="reference" there'
        )


def kernels(device: torch.device) -> ModuleType:
    """Return `lnlib.triton_kernel.kernels`, compiled or interpreted as suits ``device``."""
    return load(KERNELS, device)


def load(name: str, device: torch.device) -> ModuleType:
    """Return a module of kernels by its name, compiled or interpreted as suits ``device``.

    It may take from `lnlib.triton_kernel.kernels` what it needs, and must take Triton.
    """
    if device.type == "cuda" or _interprets_itself():
        return import_module(name)
    return _interpreted(name)


def triton_for(device: torch.device) -> ModuleType:
    """Return the Triton whose ``jit`` compiles or interprets, as suits ``device``."""
    found: ModuleType = kernels(device).triton
    return found


@contextmanager
def interpreting() -> Iterator[None]:
    """Interpret in one thread at a time, and give inf and NaN as a GPU does: without warnings.

    The interpreter keeps the number of the program that runs in a variable of its module.
    """
    import numpy as np

    with _one_at_a_time, np.errstate(all="ignore"):
        yield


@cache
def multiprocessors(device: torch.device) -> int:
    """Return how many programs of 16 warps run at once; on a CPU 2, to have more than one."""
    if device.type != "cuda":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def _interprets_itself() -> bool:
    """Tell whether Triton was first imported with TRITON_INTERPRET=1 set."""
    import triton

    return not isinstance(triton.language.sum, triton.JITFunction)


def _interpreted(name: str) -> ModuleType:
    names = KERNELS, name
    with _importing:
        if name not in _private:
            with _second_triton(names):
                for each in names:
                    if each not in sys.modules:
                        _load_alone(each)
    return _private[name]


def _load_alone(name: str) -> None:
    """Import a module but do not make it an attribute of its package, where the compiled one is."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # For kernels that are defined later: Triton's own would import the compiler's copy, by name.
    module.triton.jit = partial(_interpret, module.triton.runtime.interpreter.InterpretedFunction)


def _interpret(kind: Any, function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Stand in for ``triton.jit``."""
    return partial(kind, **options) if function is None else kind(function, **options)


@contextmanager
def _second_triton(kernels: Iterable[str]) -> Iterator[None]:
    """Let ``kernels`` be imported with a Triton that interprets, and leave no trace.

    Triton decides for a whole process, as it is imported, whether it compiles or interprets, and
    PyTorch imports it at the first torch.compile, on a CPU too: so with TRITON_INTERPRET=1 alone,
    nobody could interpret a kernel after that, or compile one after interpreting. Hence a second
    copy of its Python part, which depends on how Triton's modules are laid out; `make test-oldest`
    and `make test-latest` watch that. Should it break, set the variable before Triton is imported:
    then there is no second copy, and no compiler.
    """
    import_module("triton")  # so that its compiled part, which cannot be loaded twice, is there

    def taken_out() -> dict[str, ModuleType]:
        of_triton = re.compile(r"triton(?!\._C)(\.|$)")
        names = [name for name in sys.modules if name in kernels or of_triton.match(name)]
        return {name: sys.modules.pop(name) for name in names}

    first, variable = taken_out(), os.environ.get("TRITON_INTERPRET")
    sys.modules.update(_private)
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
        _private.update(taken_out())
    finally:
        taken_out()
        sys.modules.update(first)
        del os.environ["TRITON_INTERPRET"]
        if variable is not None:
            os.environ["TRITON_INTERPRET"] = variable
