"""Run a command with fewer vector units: python .ci/as_if.py plain|v3 COMMAND.

"plain" is what every x86-64 processor has, "v3" adds AVX2 and FMA. PyTorch, oneDNN, MKL, OpenBLAS
and NumPy are told so, each in its own way; lnlib's C++ goes by what PyTorch is told.
"""

from __future__ import annotations

import os
import sys

os.environ.pop("NPY_DISABLE_CPU_FEATURES", None)  # else NumPy says that those are not there
from numpy._core import _multiarray_umath as numpy_core

AS_IF = {
    "plain": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    "v3": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
}
KEPT_BY_NUMPY = {"plain": (), "v3": ("X86_V3",)}


def environment(processor: str) -> dict[str, str]:
    """Return what is said to all of them; NumPy can only be told to leave out what is there."""
    left_out = [
        name
        for name in numpy_core.__cpu_dispatch__
        if numpy_core.__cpu_features__[name] and name not in KEPT_BY_NUMPY[processor]
    ]
    return AS_IF[processor] | {"NPY_DISABLE_CPU_FEATURES": " ".join(left_out)}


def main() -> None:
    """Become the command."""
    if len(sys.argv) < 3 or sys.argv[1] not in AS_IF:
        sys.exit(__doc__.splitlines()[0])
    _, processor, *command = sys.argv
    if processor == "v3" and not numpy_core.__cpu_features__.get("AVX2"):
        sys.exit("this processor has no AVX2: python .ci/as_if.py plain")
    os.execvpe(command[0], command, os.environ | environment(processor))


if __name__ == "__main__":
    main()
