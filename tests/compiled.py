"""What the C++ is compiled from and with, as pyproject.toml says, and a changed copy of it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lnlib.book.home import ROOT
from lnlib.cpp_kernel import library

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
EXTENSIONS: list[dict[str, Any]] = PROJECT["tool"]["setuptools"]["ext-modules"]
NEEDS_CPP = pytest.mark.skipif(library.why_not() is not None, reason=f"{library.why_not()}")
NEEDS_GPP = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def compiled_anew(folder: Path, source: str, right: str = "", wrong: str = "") -> ctypes.CDLL:
    """Return one file of a copy of the C++, in which ``wrong`` stands for ``right``, compiled.

    g++ makes it in a hurry, for the vectors of this process.
    """
    (extension,) = (each for each in EXTENSIONS if each["name"].endswith(library.name()))
    texts = {
        name: (ROOT / name).read_text(encoding="utf8")
        for name in (*extension["sources"], *extension["depends"])
    }
    beside = [text for name, text in texts.items() if Path(name).parent == Path(source).parent]
    assert not right or sum(text.count(right) for text in beside) == 1, "where is it?"
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        changed = text.replace(right, wrong) if right and text in beside else text
        (folder / name).write_text(changed, encoding="utf8")
    flags = [flag.replace("-O3", "-O0") for flag in extension["extra-compile-args"]]
    made = folder / "made.so"
    subprocess.run(
        ["g++", *flags, "-fPIC", "-shared", str(folder / source), "-o", str(made)], check=True
    )
    return ctypes.CDLL(str(made))
