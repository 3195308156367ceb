"""The C++ of lnlib, which is compiled when lnlib is built or installed, never where it runs.

One library holds the layer norm of every dtype and the LSTM, and there is one for each width of
vectors: ``_base`` for any processor, ``_avx2`` and ``_avx512``. A process loads the one that
PyTorch's own kernels have there, so the environment variable ``ATEN_CPU_CAPABILITY`` narrows both.
``LNLIB_CPP=off`` forbids C++; it is read at the first use.
"""

import ctypes
import functools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

VARIABLE = "LNLIB_CPP"
NAMES = {"AVX2": "_avx2", "AVX512": "_avx512"}  # by what PyTorch says of the processor

_has_threads = False
# How many threads a loop may have: PyTorch's number, or 1 after a fork that lost some. OpenMP's
# threads do not survive a fork, and a child would wait for them forever.
threads: Callable[[], int] = torch.get_num_threads
_said: set[str] = set()  # what the log has been told


def library() -> ctypes.CDLL:
    """Return the compiled C++, for which `why_not` knows no reason."""
    found = _load()
    assert not isinstance(found, str)
    return found


def why_not() -> str | None:
    """Return why there is no C++ here, and what to do; None if there is."""
    found = _load()
    return found if isinstance(found, str) else None


def check(input: Tensor, reason: str | None) -> None:
    """Raise RuntimeError, with what to do, if there is a reason against C++ for ``input``."""
    if reason is not None:
        raise RuntimeError(
            f'backend "cpp" does not take {input.dtype} on {input.device}: {reason}; use "auto"'
        )


def name() -> str:
    """Return which library is for this processor."""
    return NAMES.get(torch.backends.cpu.get_cpu_capability(), "_base")


@functools.cache
def _load() -> ctypes.CDLL | str:
    """Return the library for this processor, or why there is none."""
    if os.environ.get(VARIABLE) == "off":
        return f"{VARIABLE}=off forbids C++"
    if sys.platform != "linux":
        return "C++ is compiled on Linux alone"
    path = Path(__file__).with_name(f"{name()}.abi3.so")
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        reason = f"C++ cannot be loaded: {error}"
    if not path.exists():
        # pip keeps a wheel that it has built, and would install it again.
        again = "pip install --force-reinstall --no-deps --no-cache-dir"
        reason = (
            "installed without a compiler; install g++, then run make in a checkout, "
            f"or install lnlib again with {again}"
        )
    say_once("lnlib runs without its C++, so slower", reason)
    return reason


def say_once(what: str, reason: str) -> None:
    """Tell the log, in one line and once a process, what is slower, and why."""
    if what not in _said:
        _said.add(what)
        first, *rest = reason.splitlines()
        more = f" [{len(rest)} more lines: print(lnlib.backends())]" if rest else ""
        # No warning, which a filter may have made an error: only speed is lost.
        logging.getLogger("lnlib").warning("%s: %s%s", what, first, more)


def _before_fork() -> None:
    """Have OpenMP end its threads, which a child would wait for; the next loop starts new ones."""
    global _has_threads
    try:
        openmp = ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)  # PyTorch's, if it is loaded
        _has_threads = openmp.omp_pause_resource_all(1) != 0
    except (OSError, AttributeError):
        _has_threads = True


def _after_fork() -> None:
    global threads
    if _has_threads:
        threads = lambda: 1  # noqa: E731


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
