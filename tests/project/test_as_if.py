"""The tests can be run as on another processor: whoever computes is told so, and listens."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from typing import Any

import pytest
from compiled import NEEDS_CPP
from numpy._core import _multiarray_umath as numpy_core

from lnlib.book.home import ROOT

IS_X86 = platform.machine() == "x86_64" and sys.platform == "linux"
pytestmark = [pytest.mark.skipif(not IS_X86, reason="its names are of x86-64"), NEEDS_CPP]
ASK = """
import json
import torch
from lnlib.cpp_kernel import library
from numpy._core import _multiarray_umath as numpy_core

torch.conv2d(torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3))  # oneDNN says what it uses
units = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__[name]]
print(json.dumps([torch.backends.cpu.get_cpu_capability(), units, library.library()._name]))
"""


@pytest.mark.parametrize(
    ("processor", "found"),
    [
        ("plain", ["DEFAULT", [], "/_base.", "SSE4.1"]),
        ("v3", ["AVX2", ["X86_V3"], "/_avx2.", "AVX2"]),
    ],
)
def test_who_computes_is_told_of_fewer_vector_units_and_listens(
    processor: str, found: list[Any]
) -> None:
    if processor == "v3" and not numpy_core.__cpu_features__.get("AVX2"):
        pytest.skip("there is no AVX2")
    script = f"{ROOT / '.ci' / 'as_if.py'}"
    command = [sys.executable, script, processor, sys.executable, "-c", ASK]
    env = os.environ | {"ONEDNN_VERBOSE": "1"}
    said = subprocess.check_output(command, text=True, env=env)
    *units, loaded = json.loads(next(line for line in said.splitlines() if line.startswith("[")))
    assert units == found[:2]
    assert found[2] in loaded
    assert f",isa:Intel {found[3]}\n" in said
