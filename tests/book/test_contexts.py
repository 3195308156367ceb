"""What RMS norm is in symbols, in chapter 09: it is PyTorch's, and a slip in the LaTeX is found."""

from __future__ import annotations

import json

import pytest
import sympy
import torch
import torch.nn.functional as F

from lnlib.book.check import CheckFailed
from lnlib.book.equations import latex, meanings
from lnlib.book.equations.printed import Meaning, compare, symbol
from lnlib.book.home import ROOT

RMS = meanings.rms()


@pytest.mark.parametrize("n", [1, 4])
def test_the_meaning_of_rms_norm_is_what_pytorch_computes(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x, gamma, dy = torch.randn(3, n, dtype=torch.float64, generator=generator)
    x.requires_grad_()
    y = F.rms_norm(x, (n,), gamma, 0.3)
    (dx,) = torch.autograd.grad(y, x, dy)
    meaning = meanings.rms(n)
    numbers = {symbol("epsilon"): 0.3}
    for name, values in (("x", x), ("gamma", gamma), ("dy", dy)):
        numbers |= {symbol(name, k): values[k - 1].item() for k in range(1, n + 1)}

    def value(name: str, *places: int) -> float:
        return float(meaning.resolve(meaning.define(name, places)).xreplace(numbers))

    jacobian = torch.autograd.functional.jacobian(lambda v: F.rms_norm(v, (n,), None, 0.3), x)
    for k in range(1, n + 1):  # 1e-12: a few roundings of numbers near 1
        assert value("y", k) == pytest.approx(y[k - 1].item(), abs=1e-12)
        assert value("dx", k) == pytest.approx(dx[k - 1].item(), abs=1e-12)
        for i in range(1, n + 1):
            entry = jacobian[k - 1, i - 1].item()
            assert value("J", k, i) == pytest.approx(entry, abs=1e-12)


def printed() -> dict[str, str]:
    path = ROOT / "notebooks" / "09_which_norm.ipynb"
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return latex.labeled("\n".join("".join(cell["source"]) for cell in cells))


# What stands on the page, and what a slip would make of it.
SLIPS = [
    ("def-meet-rms", r"+ \varepsilon", r"- \varepsilon"),
    ("def-meet-rms", "x_j^2", "x_j"),
    ("def-meet-rms", r"\frac{x_k}{r}", r"\frac{x_k}{r^2}"),
    ("def-meet-rms", r"\gamma_k\,\hat x_k", r"\gamma_k x_k"),
    ("eq-meet-rms-dr", r"\frac{1}{2r}", r"\frac{1}{r}"),
    ("eq-meet-rms-dr", r"\frac{\hat x_i}{H}", r"\frac{x_i}{H}"),
    ("eq-meet-rms-jacobian", r"- \frac{x_k}{r^2}", r"+ \frac{x_k}{r^2}"),
    ("eq-meet-rms-jacobian", r"\frac1r\Big(", r"\Big("),
    ("eq-meet-rms-jacobian", r"\hat x_k\,\hat x_i", r"\hat x_k\,\hat x_k"),
    ("eq-meet-rms-dx", r"\Big(g - ", r"\Big(g - \overline{g} - "),
    ("eq-meet-rms-dx", r"\overline{g\,\hat x}", r"\overline{g}"),
    ("eq-meet-rms-dx", r"\Big(g", r"\Big(dy"),
]


@pytest.mark.parametrize(("label", "old", "new"), SLIPS)
def test_a_slip_in_an_equation_of_rms_norm_is_found(label: str, old: str, new: str) -> None:
    equation = printed()[label]
    compare("as printed", equation, RMS)
    assert old in equation
    with pytest.raises(CheckFailed):
        compare("with a slip", equation.replace(old, new, 1), RMS)


def test_the_symbols_of_rms_norm_are_real_features_and_nothing_is_rounded() -> None:
    assert isinstance(RMS, Meaning)
    made_of = RMS.resolve(RMS.define("r", ()))
    assert made_of.free_symbols == {symbol("epsilon"), *(symbol("x", k) for k in range(1, 6))}
    assert not made_of.atoms(sympy.Float)
