"""Compile all of lnlib's C++ now, half a minute: ``python -m lnlib.cpp_kernel``.

The kernels of layer norm and of the LSTM would be compiled when they are first used; after this an
image of a container has them. `lnlib.cpp_kernel.whole` is compiled by this command alone.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import torch

from lnlib import cpp_kernel
from lnlib.arguments import FLOAT_DTYPES
from lnlib.cpp_kernel import whole
from lnlib.lstm import cpp

PARTS: dict[str, Callable[[], str | None]] = {
    f"layer norm, {str(dtype).removeprefix('torch.')}": partial(cpp_kernel.why_not, dtype, "cpu")
    for dtype in FLOAT_DTYPES
}
PARTS["LSTM, float32"] = partial(cpp.why_not, torch.float32, "cpu")
PARTS["calls, with their node of autograd"] = whole.why_not


def main() -> int:
    """Compile each, and say how long it took, or why it cannot be; return 1 if one cannot."""
    reasons = []
    for name, why_not in PARTS.items():
        start = time.perf_counter()
        reasons.append(why_not())
        said = reasons[-1] or f"{time.perf_counter() - start:.1f} s"
        print(f"{name}: {said}", flush=True)
    return int(any(reasons))


if __name__ == "__main__":
    sys.exit(main())
