"""What whole.cpp does with simple calls, whether or not the user has had it compiled."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable
from unittest import mock

from torch import Tensor

from lnlib import arguments, cpp_kernel
from lnlib.book.home import ROOT
from lnlib.cpp_kernel import compile, whole

LOAD = whole._load  # which conftest.py takes away from the other tests
HAS_CPP = sys.platform == "linux" and shutil.which("g++") is not None
HAS_HEADERS = (whole._headers() / "Python.h").exists()
MISSING = "no g++, or not Linux" if not HAS_CPP else "" if HAS_HEADERS else "no Python.h"
CACHE = ROOT / "_build" / "cache"  # not the user's: other tests are to run without it


@functools.cache
def compiled() -> Callable[..., Tensor | None]:
    """Return what ``whole.layer_norm`` is where it is compiled: here once a checkout."""
    kernels = {dtype: cpp_kernel.kernel(dtype) for dtype in arguments.FLOAT_DTYPES}
    libraries = {
        dtype: compile.library(cpp_kernel.SOURCE, cpp_kernel.flag(dtype)) for dtype in kernels
    }
    with (
        mock.patch.dict(os.environ, XDG_CACHE_HOME=str(CACHE)),
        mock.patch.object(whole, "_load", LOAD),
        mock.patch.object(whole, "layer_norm", None),
    ):
        assert whole.why_not() is None, whole.why_not()
        LOAD.cache_clear()
        for dtype, of in kernels.items():
            functions = [getattr(libraries[dtype], name) for name in of._fields[1:]]
            whole.hand_over(cpp_kernel.PASSES, dtype, of.parameters, functions)
        assert whole.layer_norm is not None
        return whole.layer_norm
