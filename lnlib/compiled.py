"""C++ in lnlib: compiled by g++ when it is first used, for the processor that is there."""

import ctypes
import functools
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

# Vector code for this machine. The last two let sqrt and rounding become instructions; they change
# no result.
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math"]


@functools.cache
def library(source: Path) -> ctypes.CDLL | None:
    """Return what g++ makes of a file, or None where there is no Linux or no g++.

    It is None as well, after one warning with the compiler's words, if g++ fails.

    Args:
        source: a C++ file, whose functions are ``extern "C"`` and return nothing.
    """
    if sys.platform != "linux" or shutil.which("g++") is None:
        return None
    try:
        return _compile(source)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        warnings.warn(
            f"lnlib runs without {source.name}, so slower; mend g++, or choose another backend "
            f"to say that this is well. It said: {reason}",
            stacklevel=2,
        )
        return None


def _compile(source: Path) -> ctypes.CDLL:
    # Compiled anew in each process: it takes a third of a second, and no file can be stale.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / source.with_suffix(".so").name
        command = ["g++", *FLAGS, "-fopenmp", "-fPIC", "-shared", str(source), "-o", str(path)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return ctypes.CDLL(str(path))
