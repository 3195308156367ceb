"""Code to paste, run in a process that has imported torch alone; for `nursery`."""

from __future__ import annotations

import os
import warnings

import torch


def begin() -> None:
    torch.set_num_threads(1)


def paste(source: str, folder: str) -> None:
    """Run a block in an empty folder; warnings are errors."""
    os.chdir(folder)
    warnings.simplefilter("error")
    # torch.func calls it.
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
    exec(compile(source, "<pasted>", "exec"), {"__name__": "__main__"})
