"""The tests can be run as on another processor: whoever computes is told so, and listens."""

from __future__ import annotations

import json
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

units = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__[name]]
print(json.dumps([torch.backends.cpu.get_cpu_capability(), units, library.library()._name]))
"""


@pytest.fixture
def told() -> Any:
    def told(processor: str) -> Any:
        script = f"{ROOT / '.ci' / 'as_if.py'}"
        command = [sys.executable, "-c", ASK]
        done = subprocess.run(
            [sys.executable, script, processor, *command], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return told


def test_plain_is_without_vector_units_that_not_every_processor_has(told: Any) -> None:
    capability, units, loaded = told("plain")
    assert capability == "DEFAULT"
    assert units == []
    assert "/_base." in loaded


@pytest.mark.skipif(not numpy_core.__cpu_features__.get("AVX2"), reason="there is no AVX2")
def test_v3_has_avx2_and_no_more(told: Any) -> None:
    capability, units, loaded = told("v3")
    assert capability == "AVX2"
    assert units == ["X86_V3"]
    assert "/_avx2." in loaded


def test_others_are_not_known(told: Any) -> None:
    with pytest.raises(AssertionError, match="plain"):
        told("v9")
