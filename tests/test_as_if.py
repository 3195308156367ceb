"""The tests can be run as on another processor: whoever computes is told so, and listens."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from typing import Any

import pytest
from numpy._core import _multiarray_umath as numpy_core

from lnlib.book.home import ROOT

IS_X86 = platform.machine() == "x86_64" and sys.platform == "linux"
pytestmark = [
    pytest.mark.skipif(not IS_X86, reason="its names are of x86-64"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++"),
]
ASK = """
import json, subprocess
import torch
from lnlib import backends
from numpy._core import _multiarray_umath as numpy_core

commands = []
subprocess.run = lambda command, **_: commands.append(command) or 1 / 0
try:
    backends()
except ZeroDivisionError:
    pass
units = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__[name]]
print(json.dumps([torch.backends.cpu.get_cpu_capability(), units, commands[0]]))
"""


@pytest.fixture
def told(tmp_path: Any) -> Any:
    def told(processor: str) -> Any:
        script = f"{ROOT / '.ci' / 'as_if.py'}"
        command = ["env", f"XDG_CACHE_HOME={tmp_path}", sys.executable, "-c", ASK]
        done = subprocess.run(
            [sys.executable, script, processor, *command], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return told


def test_plain_is_without_vector_units_that_not_every_processor_has(told: Any) -> None:
    capability, units, command = told("plain")
    assert capability == "DEFAULT"
    assert units == []
    assert "-march=x86-64" in command


@pytest.mark.skipif(not numpy_core.__cpu_features__.get("AVX2"), reason="there is no AVX2")
def test_v3_has_avx2_and_no_more(told: Any) -> None:
    capability, units, command = told("v3")
    assert capability == "AVX2"
    assert units == ["X86_V3"]
    assert "-march=x86-64-v3" in command


def test_others_are_not_known(told: Any) -> None:
    with pytest.raises(AssertionError, match="plain"):
        told("v9")
