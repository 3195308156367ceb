"""Which Triton runs the kernels: its compiler on a GPU, its interpreter on a CPU."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

import torch

LOADS = ("lnlib.triton_kernel.kernels",)
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
_private: list[ModuleType] = []


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
        _say(reason)
    return reason is None


@cache
def _say(reason: str) -> None:
    # No warning, which a filter may have made an error: only speed is lost.
    logging.getLogger("lnlib").warning("lnlib takes no Triton on the GPU, so is slower: %s", reason)


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
    return _compiled() if device.type == "cuda" else _interpreted()


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
def _compiled() -> ModuleType:
    return import_module(*LOADS)


def _interpreted() -> ModuleType:
    if not _private:
        with _importing:
            if not _private:  # still, now that no other thread is at it
                with _private_triton():
                    module = import_module(*LOADS)
                # Triton's own would look the variable up, and be the compiler.
                module.triton.jit = _interpret
                _private.append(module)
    return _private[0]


def _interpret(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Stand in for ``triton.jit``, for kernels that are defined after the import."""
    if function is None:
        return partial(_interpret, **options)
    interpreter = _interpreted().triton.runtime.interpreter
    return interpreter.InterpretedFunction(function, **options)


@contextmanager
def _private_triton() -> Iterator[None]:
    """Import Triton and the kernels anew within, for the interpreter, and leave no trace after.

    Triton decides between compiler and interpreter when a kernel is defined, from an environment
    variable, and so it has decided for its own library when it is imported. A second copy, of the
    Python part alone, decides again; whoever else uses Triton in this process keeps the first.
    """

    def ours() -> dict[str, ModuleType]:
        kept = "triton._C"  # the compiled part cannot be loaded twice, and need not be
        return {
            name: module
            for name, module in sys.modules.items()
            if (name == "triton" or name.startswith("triton.") or name == __package__ + ".kernels")
            and not name.startswith(kept)
        }

    import triton  # so that the compiled part is there

    package = sys.modules[__package__]
    attribute = vars(package).get("kernels")
    before, variable = ours(), os.environ.get("TRITON_INTERPRET")
    for name in before:
        del sys.modules[name]
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        yield
    finally:
        if variable is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = variable
        for name in ours():
            del sys.modules[name]
        sys.modules.update(before)
        if attribute is None:
            vars(package).pop("kernels", None)
        else:
            package.kernels = attribute  # type: ignore[attr-defined]
    del triton
