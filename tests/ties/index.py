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


# How to run it
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
tie("and Python # or newer", float(re.findall(r">=(.*)", PROJECT["requires-python"])[0]))
free(r"\sqrt{\sigma^#+", why="a square")
free("on macOS # with Apple silicon", why="what the wheels of PyTorch need")
