"""How lnlib's simple calls on a CPU are taken: by Python, or in C++, as the user may have it.

What ``python -m lnlib.cpp_kernel`` compiles is there for all later processes of a machine. So a
benchmark says which of the two it times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor

from lnlib import cpp_kernel
from lnlib.arguments import FLOAT_DTYPES
from lnlib.cpp_kernel import whole


def take_by_python() -> None:
    """Have calls taken by Python, as after a plain ``pip install``."""
    _loaded()
    whole.layer_norm = None


def take_in_cpp() -> None:
    """Have them taken in C++, if `are_in_cpp`."""
    whole.layer_norm = _loaded()


@functools.cache
def are_in_cpp(name: str) -> bool:
    """Compile what takes them, a quarter of a minute; say of ``name`` if it does not run here."""
    reason = whole.why_not()
    if reason is not None:
        print(f"{name}: does not run here: {reason}", flush=True)
    return reason is None


@functools.cache
def _loaded() -> Callable[..., Any] | None:
    """Load the kernels, each of which hands itself over, so that none does it later."""
    for dtype in FLOAT_DTYPES:
        if cpp_kernel.why_not(dtype, "cpu") is None:
            cpp_kernel.kernel(dtype)
    return whole.layer_norm


def taken(take: Callable[[], None], layer_norm: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a layer norm whose calls are taken so."""

    def call(*arguments: Any) -> Tensor:
        take()
        return layer_norm(*arguments)

    return call
