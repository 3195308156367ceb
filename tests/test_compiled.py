"""C++ is compiled on first use; where it cannot be, one warning says why, or none is needed."""

import ctypes
import functools
import shutil
import sys
import warnings
from pathlib import Path

import pytest

from lnlib import compiled

SOURCE = 'extern "C" void twice(double* x) { *x *= 2; }'


@pytest.fixture
def forgetful(monkeypatch):
    """`compiled` that has tried nothing yet; what it finds out is forgotten after the test."""
    again = functools.cache(compiled.library.__wrapped__)
    monkeypatch.setattr(compiled, "library", again)
    return monkeypatch


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a folder" / "twice.cpp"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


def test_a_file_is_compiled_once_and_its_functions_run(forgetful, source):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    library = compiled.library(source)
    number = ctypes.c_double(21.0)
    library.twice(ctypes.byref(number))
    assert number.value == 42.0
    source.unlink()
    assert compiled.library(source) is library


def without_compiler(patch):
    patch.setattr(shutil, "which", lambda name: None)


def on_another_system(patch):
    patch.setattr(sys, "platform", "darwin")


@pytest.mark.parametrize("missing", [without_compiler, on_another_system])
def test_where_there_is_no_compiler_nothing_is_said(forgetful, source, missing):
    missing(forgetful)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled.library(source) is None


def with_a_compiler_that_refuses(patch):
    patch.setattr(compiled, "FLAGS", ["--no-such-flag"])


def with_a_library_that_does_not_load(patch):
    def refuse(path):
        raise OSError("no-such-flag is not what this says; it cannot be loaded")

    patch.setattr(ctypes, "CDLL", refuse)


@pytest.mark.parametrize(
    "broken", [with_a_compiler_that_refuses, with_a_library_that_does_not_load]
)
def test_a_compiler_that_fails_is_reported_once_with_its_words(forgetful, source, broken):
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    broken(forgetful)
    with pytest.warns(UserWarning, match=r"(?s)without twice\.cpp.*no-such-flag") as record:
        assert [compiled.library(source) for _ in range(2)] == [None, None]
    assert len(record) == 1
    for words_of_python in ("exit status", "said: b'"):
        assert words_of_python not in str(record[0].message)
