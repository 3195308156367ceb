"""The numbers of the preface, and what computes them."""

import re
import tomllib

import torch

from lnlib.book.home import ROOT
from lnlib.formula import layer_norm
from ties import Page

page = Page("index")
tie, free = page.tie, page.free

# The row machine
Y = layer_norm(torch.tensor([2.0, 4, 4, 4, 5, 5, 7, 9], dtype=torch.float64), eps=0.0)
tie("with mean # and spread #. Move", Y.mean(), Y.std(correction=0))


# Who it is for
def lines(*parts: str) -> float:
    """Return how many lines of code some parts of the package have."""
    folders = [ROOT / "lnlib" / part for part in parts]
    paths = [p for folder in folders for p in folder.iterdir() if p.suffix in {".py", ".cpp", ".h"}]
    return float(sum(len(path.read_text(encoding="utf8").splitlines()) for path in paths))


tie("# lines for the norm on a CPU", lambda: lines(".", "cpp_kernel"))
tie("# for its GPU kernels", lambda: lines("triton_kernel"))
tie("# for the LSTM", lambda: lines("lstm"))


# How to run it
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
tie("and Python # or newer", float(re.findall(r">=(.*)", PROJECT["requires-python"])[0]))
free(r"\sqrt{\sigma^#+", why="a square")
free("on macOS # with Apple silicon", why="what the wheels of PyTorch need")
