"""Which Triton runs the kernels: its compiler on a GPU, its interpreter on a CPU."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
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


try:
    IS_INSTALLED = find_spec("triton") is not None  # without importing it
except ValueError:  # somebody's stand-in
    IS_INSTALLED = False

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


def launch_of(compiled: Any) -> Callable[..., None]:
    """Return what launches a compiled kernel: called with a grid, a GPU's number, and its operands.

    The GPU is the current one, and tensors are given by their addresses. Triton's own way, which is
    ``compiled[grid]``, takes twice as long: it asks the driver about each tensor, and calls the
    hooks that a profiler may have set, even where there are none.
    """
    from triton import knobs
    from triton.runtime import driver

    run, made = compiled.run, (compiled.function, compiled.packed_metadata)
    stream_of, hooks = driver.active.get_current_stream, knobs.runtime

    def launch(grid: tuple[int, int, int], gpu: int, *operands: float | None) -> None:
        if _is_set(hooks.launch_enter_hook) or _is_set(hooks.launch_exit_hook):
            compiled[grid](*operands)
        else:
            run(*grid, stream_of(gpu), *made, None, None, None, *operands)

    return launch


def _is_set(hook: Any) -> bool:
    return bool(getattr(hook, "calls", hook))  # of a chain, what it calls


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
    """Return a module of kernels made with a second copy of Triton, one that interprets.

    Triton decides for a whole process, as it is imported, whether it compiles or interprets, and
    PyTorch imports it at the first torch.compile, on a CPU too: so with TRITON_INTERPRET=1 alone,
    nobody could interpret a kernel after that, or compile one after interpreting. The copy depends
    on how Triton's modules are laid out; `make test-oldest` and `make test-latest` watch that.
    Should it break, set the variable before Triton is imported: then there is no copy.
    """
    with _importing:
        if name in _private:
            return _private[name]
        import_module("triton")  # so that its compiled part, which cannot be loaded twice, is there
        first, variable = _taken_out(name), os.environ.get("TRITON_INTERPRET")
        sys.modules.update(_private)
        os.environ["TRITON_INTERPRET"] = "1"
        try:
            for each in (KERNELS, name):
                if each not in sys.modules:
                    _load_alone(each)
            _private.update(_taken_out(name))
        finally:
            _taken_out(name)
            sys.modules.update(first)
            del os.environ["TRITON_INTERPRET"]
            if variable is not None:
                os.environ["TRITON_INTERPRET"] = variable
        return _private[name]


def _taken_out(name: str) -> dict[str, ModuleType]:
    """Take Triton and the kernels out of the modules that are imported, and return them."""
    kinds = re.compile(rf"triton(?!\._C)(\.|$)|({KERNELS}|{name})$")
    return {each: sys.modules.pop(each) for each in list(sys.modules) if kinds.match(each)}


def _load_alone(name: str) -> None:
    """Import a module but do not make it an attribute of its package, where the compiled one is."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # A kernel that is defined later needs this: Triton's own jit imports by name, from the first.
    interpret = module.triton.runtime.interpreter.InterpretedFunction
    module.triton.jit = lambda function=None, **_: interpret(function) if function else interpret
