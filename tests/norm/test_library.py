"""The C++ is compiled with lnlib, loaded for the processor there is, and not needed."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from compiled import EXTENSIONS, NEEDS_CPP
from norms import by, rand
from tiers import few

import lnlib
from lnlib import cpp_kernel, dispatch, modes
from lnlib.book.home import ROOT
from lnlib.cpp_kernel import NUMBERS, library

env = pytest.fixture(lambda: {"LNLIB_CPP": ""})  # whatever it is for the tests


@pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda each: each["name"])
def test_a_library_is_made_of_every_file_and_is_not_older(extension):
    sources = {*extension["sources"], *extension["depends"]}
    there = [path for kind in ("cpp", "h") for path in (ROOT / "lnlib").rglob(f"*.{kind}")]
    assert sources == {*(path.relative_to(ROOT).as_posix() for path in there), "pyproject.toml"}
    if library.why_not() is not None:
        return
    spec = find_spec(extension["name"])
    assert spec is not None, "run `make`"
    made = os.stat(spec.origin).st_mtime
    assert [name for name in sources if Path(ROOT, name).stat().st_mtime > made] == [], "run `make`"


@NEEDS_CPP
def test_each_library_holds_each_dtype_and_the_lstm():
    functions = [f"{way}_{of}" for way in ("forward", "backward") for of in NUMBERS.values()]
    for extension in EXTENSIONS:
        found = ctypes.CDLL(find_spec(extension["name"]).origin)
        for function in (*functions, "lstm_forward", "lstm_backward"):
            assert found[function]


# Who takes it


@NEEDS_CPP
def test_auto_takes_it_for_ordinary_tensors_on_a_cpu():
    for dtype in NUMBERS:
        assert dispatch.best_backend(dtype, "cpu", "eager") == "cpp"
    assert dispatch.best_backend(torch.float32, "meta", "eager") == "reference"
    for mode in {*modes.Mode.__args__} - {"eager", "graph", "program"}:
        assert dispatch.best_backend(torch.float32, "cpu", mode) == "reference"


def test_asked_for_by_name_it_refuses_what_it_is_not_for():
    with pytest.raises(RuntimeError, match=r"not take torch\.float32 on meta: C.. is for a CPU"):
        library.check(torch.ones(7, device="meta"), cpp_kernel.why_not(torch.float32, "meta"))


def test_without_a_compiler_auto_is_the_reference_and_the_name_is_refused(monkeypatch):
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    monkeypatch.setattr(cpp_kernel, "KERNELS", {})
    x = rand(3, 7).float()
    assert torch.equal(lnlib.layer_norm(x, (7,)), by("reference")(x, (7,)))
    with pytest.raises(
        RuntimeError, match=r'take torch.float32 on cpu: there is no compiler; use "auto"'
    ):
        by("cpp")(x, (7,))


@NEEDS_CPP
def test_all_is_cpp_and_nothing_is_said(nursery, env):
    nursery.run("expects", "cpp", **env)


@NEEDS_CPP
@few("name", ["auto", "LSTM"], 1)
def test_threads_whose_first_call_is_one_moment_are_right(nursery, env, name):
    nursery.run("eight_threads_at_one_moment", name, **env)


@pytest.mark.skipif(sys.platform != "linux", reason="C++ is for Linux")
@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("none_was_installed", "installed without a compiler"),
        ("nothing_can_be_loaded", "failed to map segment"),
    ],
)
def test_without_a_library_the_reference_runs_and_one_line_says_so(nursery, env, where, reason):
    nursery.run(f"expects_where_{where}", "reference", reason, seconds=60, **env)


def test_a_variable_forbids_it_and_nothing_is_said(nursery):
    off = {"LNLIB_CPP": "off"}
    nursery.run("expects", "reference", "LNLIB_CPP=off forbids C++", **off)
    nursery.run("expects_in_a_graph", False, **off)


@pytest.mark.tier("all")
@NEEDS_CPP
def test_a_first_call_may_be_one_that_pytorchs_compiler_records(nursery, env):
    nursery.run("expects_in_a_graph", True, **env)


@NEEDS_CPP
def test_it_shares_the_threads_of_pytorch():
    assert library.library()
    with open("/proc/self/maps", encoding="utf8") as maps:
        assert len({line.split()[-1] for line in maps if "libgomp" in line}) == 1


@pytest.mark.tier("all")
@NEEDS_CPP
def test_the_first_call_of_a_process_takes_no_time_to_speak_of(nursery, env):
    took = min(float(nursery.run("time_of_first_calls", **env)) for _ in range(3))
    assert took < 0.02  # seconds beyond PyTorch's; the machine may be busy
