"""Whole calls in C++: compiled when somebody asks for it, and taken along from then on.

What they compute is in test_quick.py and test_hostile.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
import whole_calls

from lnlib import cpp_kernel
from lnlib.cpp_kernel import __main__ as command
from lnlib.cpp_kernel import compile, whole

CALL = """
import torch, lnlib
x = torch.randn(3, 7, requires_grad=True)
lnlib.layer_norm(x, (7,))  # loads the kernel
print(lnlib.layer_norm(x, (7,)).grad_fn.name())
"""


AT_THE_END = """
import torch, lnlib
lnlib.layer_norm(torch.ones(2, 3), (3,))  # loads the kernel
class Late:
    def __init__(self): self.x = torch.randn(5, 7, requires_grad=True)
    def __del__(self, norm=lnlib.layer_norm): norm(self.x, (7,))
late = Late()
print("ends")
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with all that this machine has compiled, and whole calls."""
    if whole_calls.MISSING:
        pytest.skip(whole_calls.MISSING)
    whole_calls.compiled()
    folder = whole_calls.CACHE / "lnlib"
    for made in compile._cache().glob("*.so"):
        if not (folder / made.name).exists() and "whole" not in made.name:
            shutil.copy2(made, folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(whole_calls.CACHE))


def said(*arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.usefixtures("cache")
def test_the_command_compiles_all_there_is_and_later_processes_have_it() -> None:
    lines = said("-m", "lnlib.cpp_kernel")
    assert [line.rpartition(": ")[0] for line in lines] == list(command.PARTS)
    assert all(line.endswith(" s") for line in lines)
    assert said("-c", CALL) == ["LayerNormFunctionBackward"]


@pytest.mark.usefixtures("cache")
def test_a_call_while_the_interpreter_ends_does_not_abort() -> None:
    assert said("-c", AT_THE_END) == ["ends"]


@pytest.mark.parametrize(
    "environment", [{"LNLIB_CPP": "off"}, {"XDG_CACHE_HOME": "/nobody/compiled/anything/here"}]
)
def test_where_it_is_not_there_calls_are_taken_by_python(environment, monkeypatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert compile.compiled(whole.SOURCE, *whole.flags()) is None


def test_one_that_was_made_for_another_pytorch_is_left(tmp_path, monkeypatch) -> None:
    broken = tmp_path / "whole.so"
    broken.write_text("no library")
    monkeypatch.setattr(compile, "compiled", lambda *_: broken)
    assert whole_calls.LOAD.__wrapped__(cpp_kernel.PASSES) is None


def test_each_pytorch_has_its_own(monkeypatch) -> None:
    before = whole.flags()
    monkeypatch.setattr(whole.torch, "__version__", "9.9.9")
    assert set(whole.flags()) - set(before) == {"-DPYTORCH=9.9.9"}


def test_without_pythons_headers_it_says_what_to_do(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(whole, "_headers", lambda: tmp_path)
    assert whole.why_not() == (
        "there is no Python.h; install it, as with `apt install python3-dev`"
    )


def test_pythons_headers_are_where_python_says() -> None:
    import sysconfig

    assert os.fspath(whole._headers()) == sysconfig.get_path("include")


def test_the_command_says_what_fails_and_goes_on(monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "PARTS", {"one": lambda: "no g++", "other": lambda: None})
    assert command.main() == 1
    assert capsys.readouterr().out == "one: no g++\nother: 0.0 s\n"
    monkeypatch.setattr(command, "PARTS", {"other": lambda: None})
    assert command.main() == 0
