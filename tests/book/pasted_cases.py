"""Code to paste, run where there is torch and nothing of ours; for `nursery`."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import torch

# What the book has installed and a reader may not have; torch brings NumPy and SymPy itself.
REFUSED = {"lnlib", "matplotlib", "PIL", "IPython", "ipywidgets", "anywidget", "nbformat", "pytest"}


class Fence:
    """Finds nothing, and refuses what a reader may not have."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in REFUSED:
            raise ImportError(f"a reader may not have {name}")


def begin() -> None:
    assert not REFUSED & sys.modules.keys()
    sys.meta_path.insert(0, Fence())
    torch.set_num_threads(1)


def paste(source: str, folder: str) -> None:
    """Run a block in an empty folder; warnings are errors."""
    os.chdir(folder)
    warnings.simplefilter("error")
    # torch.func calls it.
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
    exec(compile(source, "<pasted>", "exec"), {"__name__": "__main__"})
