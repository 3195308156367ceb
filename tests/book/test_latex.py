"""Equations are read with nothing lost, and proved or refused: the reader, symbols, and zero."""

from __future__ import annotations

import nbformat
import pytest
import sympy
import torch
import torch.nn.functional as F
from sympy import Rational, sqrt

from lnlib import formula
from lnlib.book.check import CheckFailed
from lnlib.book.equations import meanings, printed
from lnlib.book.equations.latex import Add, Atom, LatexError, Mul, Number, chains, parse
from lnlib.book.equations.printed import Printed, difference, symbol
from lnlib.book.equations.zero import is_zero

# What is written, and what is read


def test_subscripts_keep_their_order_and_have_one_digit_each():
    assert parse(r"\mu_{hb}") == Atom("mu", ("h", "b"))
    assert parse("J_{12}") == Atom("J", ("1", "2"))


@pytest.mark.parametrize("written", [
    r"\operatorname*{argmax}_x", r"\begin{pmatrix}1\end{pmatrix}", r"\mathbf{1}\mathbf{1}^\top",
    r"x \le y", r"\left( x", "x)", "x +", r"\frac{1}", r"\mu \cdot x_i", r"\hat 1", r"x_{2i+1}",
    r"\frac{\partial x}{\mathrm{d} y}", r"\frac{\partial x}{\partial\sigma^3}", "",
    r"\text{where } x",
])  # fmt: skip
def test_what_it_cannot_read_it_refuses(written):
    with pytest.raises(LatexError):
        parse(written)


def test_a_message_quotes_the_place_and_the_whole():
    with pytest.raises(LatexError, match=r"cannot read '\* y' in 'x \* y'"):
        parse("x * y")
    with pytest.raises(LatexError, match="there is no ="):
        list(chains("a + b"))


def test_a_line_goes_on_with_the_chain_or_the_expression_before_it_or_begins_anew():
    block = r"\begin{aligned} a &= b \\[4pt] &= c + d \\ &\quad - e, \\ f &= a . \end{aligned}"
    one, two = chains(block)
    assert [len(one), len(two)] == [3, 2]
    assert one[2] == Add((Atom("c"), Atom("d"), Mul((Number("-1"), Atom("e")))))
    assert [len(chain) for chain in chains(r"a = b, \qquad c = \sum_{i=1}^n d = e")] == [2, 3]


# A true equation, and what makes it false


ROOT, BESIDE, BATCH = meanings.row(), meanings.row(eps_at="std"), meanings.batch()
DS = r"\frac{\partial \sigma}{\partial x_i} = \frac{x_i-\mu}{H\sigma}"
TRUE = [
    (ROOT, DS, "-", "+"),
    (ROOT, DS, r"H\sigma", "Hs"),  # an ε that is not there
    (BESIDE, r"s = \sigma + \varepsilon", "+", "-"),
    (ROOT, r"\sum_{r=1}^{H} x_r = H\mu", "r=1", "r=2"),
    (ROOT, r"\frac{\partial}{\partial x_i} x_k^2 = 2 x_k\delta_{ik}", "= 2", "= 3"),
    (ROOT, r"\frac{\partial y_k}{\partial x_i} = \gamma_k J_{ki}", r"\gamma_k", r"\gamma_i"),
    (BATCH, r"dx = \mathrm{rstd}\Big(g - \overline{g} - \hat x\,\overline{g\,\hat x}\Big)",
     r"\Big(g", r"\Big(dy"),
    (BATCH, r"\mu\,\mu = \overline{x}\,\overline{x}", r"x}\,\overline{", "x "),
    # sums that are implied: of a term, of an index that occurs once, within a term or a root
    (BATCH, r"\frac{\partial L}{\partial s_a} = -\frac{\partial L}{\partial y_{ak}}"
            r" \tilde x_{ak}s_a^{-2}\gamma_k", "s_a^{-2}", "s_a^{-1}"),
    (BATCH, r"\sigma_b^2 = \frac1H \tilde x_{bj}^2", r"\tilde x_{bj}",
     r"\tilde x_{bk}\mathbf{1}_j"),
    (BATCH, r"\mu_b + \frac1H \mu_b = \frac1H (x_{bk} + \mu_b)", r"+ \mu_b)",
     r"+ \mathbf{1}_k \mu_b)"),
    (BATCH, r"s_b = \sqrt{\frac1H \tilde x_{bj}\tilde x_{bj} + \varepsilon}", r"\frac1H", ""),
    # ∂ looks at one arrow, d and ∂L at every path
    (BATCH, r"\frac{\partial \tilde x_{bk}}{\partial x_{ai}} = \delta_{ba}\delta_{ki}",
     r"\partial", r"\mathrm{d}"),
    (BATCH, r"\frac{\mathrm{d} \tilde x_{bk}}{\mathrm{d} x_{ai}}"
            r" = \delta_{ba}(\delta_{ki}-\frac1H)", r"\mathrm{d}", r"\partial"),
    (BATCH, r"\frac{\partial L}{\partial \tilde x_{ai}} = \frac{\partial L}{\partial \sigma_a^2}"
            r"\frac{2\tilde x_{ai}}{H} + \frac{\partial L}{\partial y_{ai}}\frac{\gamma_i}{s_a}",
     r" + \frac{\partial L}{\partial y_{ai}}\frac{\gamma_i}{s_a}", ""),
]  # fmt: skip


@pytest.mark.parametrize(("meaning", "latex", "old", "new"), TRUE)
def test_a_true_equation_passes_and_a_slip_in_it_fails(meaning, latex, old, new):
    assert difference(latex, meaning) is None
    assert old in latex
    assert difference(latex.replace(old, new), meaning).number == 2


def test_every_step_of_a_chain_and_every_equation_of_a_block_is_compared():
    chain = rf"{DS} \\ &= \frac{{x_i+\mu}}{{H\sigma}} \\ &= \frac{{x_i-\mu}}{{H\sigma}}"
    assert difference(chain, ROOT).number == 3
    block = r"\tilde x_{bk} &= x_{bk} - \mu_b, \\ \mu_b &= x_{bk}"
    assert difference(block, BATCH).places["b"] == 1


@pytest.mark.parametrize(("meaning", "latex"), [
    (ROOT, r"\rho = \sigma"),
    (ROOT, r"\mu_i = \mu"),
    (ROOT, r"\frac{\partial \mu_i}{\partial x_i} = \frac1H"),
    (BATCH, r"\gamma_b = \gamma_b"),
    (BATCH, r"\delta_{bk} = \delta_{bk}"),
    (BATCH, r"\mu_b^2 = (\frac1H x_{bj})^2"),  # squared before or after it is summed?
    (BATCH, r"\sigma_b = \sigma_b"),  # half of a symbol that is a square
    (BATCH, r"\sigma_b^3 = \sigma_b^3"),
    (BATCH, r"\frac{\partial L}{\partial \tilde x_{ai}^2} = 0"),
    (BATCH, r"\mu_b = \frac{\partial}{\partial x_{ai}} (\mu_b)"),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(meaning, latex):
    with pytest.raises(LatexError):
        difference(latex, meaning)


def test_a_page_is_read_the_readers_own_copy_first_and_what_is_missing_is_named(
    tmp_path, monkeypatch, capsys
):
    def write(folder, equation):
        text = f"Text.\n\n```{{math}}\n:label: eq-it\n{equation}\n```\n"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
        nbformat.write(notebook, folder / "a_page.ipynb")

    monkeypatch.setattr(printed, "NOTEBOOKS", tmp_path)
    write(tmp_path, DS)
    Printed("a_page").check("it holds", "eq-it", ROOT)
    assert capsys.readouterr().out == f"✓ it holds (as printed, in symbols, {ROOT.name})\n"
    with pytest.raises(KeyError, match="no equation eq-other; it has eq-it"):
        Printed("a_page").check("it holds", "eq-other", ROOT)
    with pytest.raises(FileNotFoundError, match=r"no no_such_chapter\.ipynb in .+ nor in"):
        Printed("no_such_chapter")
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    write(mine, DS.replace("-", "+"))
    with pytest.raises(CheckFailed, match="expression 2 of the equation differs") as failure:
        Printed("a_page").check("it holds", "eq-it", ROOT)
    assert "  equation: eq-it" in failure.value.__notes__
    assert capsys.readouterr().out == ""


# At numbers, the symbols are what lnlib.formula and autograd give; 1e-12: a few roundings near 1


def values(tensors, meaning):
    """Return how to work out a symbol of ``meaning`` where the variables are ``tensors``."""
    known = {symbol("epsilon"): sympy.Float(0.1)}
    for name, tensor in tensors.items():
        for place in torch.ones(tensor.shape).nonzero().tolist():
            at = sympy.Float(tensor[tuple(place)].item(), 17)
            known[symbol(name, *(i + 1 for i in place))] = at

    def value(name, *places):
        made_of = meaning.resolve(meaning.define(name, places))
        return pytest.approx(float(made_of.xreplace(known).evalf(20)), abs=1e-12)

    return value


def test_the_meanings_are_those_of_the_oracle():
    torch.manual_seed(0)
    x, dy = torch.randn(2, 2, 5, dtype=torch.float64)
    weight, bias = torch.randn(2, 5, dtype=torch.float64)
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    t = formula.terms(*leaves, eps=0.1)
    dx, dweight, dbias = torch.autograd.grad((t.y * dy).sum(), leaves)
    value = values({"x": x, "dy": dy, "gamma": weight, "beta": bias}, BATCH)
    for name, tensor in {"dx": dx, "y": t.y, "hat x": t.x_hat, "tilde x": x - t.mean}.items():
        assert tensor[1, 2].item() == value(name, 2, 3), name
    for name, tensor in {"mu": t.mean, "sigma^2": t.var, "rstd": t.rstd}.items():
        assert tensor[1].item() == value(name, 2), name
    for name, tensor in {"dgamma": dweight, "dbeta": dbias}.items():
        assert tensor[2].item() == value(name, 3), name


@pytest.mark.parametrize("n", [1, 4])
def test_the_meaning_of_rms_norm_is_what_pytorch_computes(n):
    x, gamma, dy = torch.randn(3, n, dtype=torch.float64, generator=torch.manual_seed(n))
    x.requires_grad_()
    y = F.rms_norm(x, (n,), gamma, 0.1)
    (dx,) = torch.autograd.grad(y, x, dy)
    J = torch.autograd.functional.jacobian(lambda v: F.rms_norm(v, (n,), None, 0.1), x)
    value = values({"x": x, "gamma": gamma, "dy": dy}, meanings.rms(n))
    for k in range(1, n + 1):
        assert [y[k - 1].item(), dx[k - 1].item()] == [value("y", k), value("dx", k)]
        assert J[k - 1].tolist() == [value("J", k, i) for i in range(1, n + 1)]


# Zero is told from what is nearly zero, for fractions and roots within one another


a, b, x = sympy.symbols("a b x")
root = sqrt(x**2 + 1)
outer = sqrt(root + x)


@pytest.mark.parametrize("expression", [
    sympy.Integer(0),
    (root + 1) * (root - 1) - x**2,
    sqrt((x - 1) ** 2 + x) - sqrt((1 - x) ** 2 + x),  # one radicand, written in two ways
    # what stands below: of a sum, of powers, of numbers
    1 / (a - b) + 1 / (b - a),
    a / (a + b) ** 2 + b / (a + b) ** 2 - 1 / (a + b),
    # a root in a root, a fraction in one, and powers of both
    outer**4 - 2 * x * outer**2 - 1,
    sqrt(a + a / b) ** 3 - sqrt(a + a / b) * a * (b + 1) / b,
    (1 + sqrt(a / (b + 1))) * (1 - sqrt(a / (b + 1))) * (b + 1) - (b + 1) + a,
    # numbers in a root
    sqrt(Rational(1, 2)) * sqrt(a / 3 + b / 6) - sqrt(2 * a + b) / sqrt(12),
    # a root of what is 0, seen at once or after another root
    sqrt((x + 1) ** 2 - x**2 - 2 * x - 1) + a - a,
    sqrt((root + x) ** 2 - 2 * x * (root + x) - 1),
    # what is neither is a letter
    a**b * (x + 1) - a**b * x - a**b,
], ids=str)  # fmt: skip
def test_zero_is_zero_and_what_is_nearly_zero_is_not(expression):
    assert is_zero(expression)
    assert not is_zero(expression + Rational(1, 10**30) * x)
    assert not is_zero(expression + Rational(1, 10**30) * outer)


def test_a_wrong_sign_is_seen_and_a_division_by_zero_is_an_error():
    for off in (root - x, 1 / root + root / (x**2 + 1), 1 / (a + b) - 1 / (a - b)):
        assert not is_zero(off)
    for below in ((x + 1) ** 2 - x**2 - 2 * x - 1, (root + x) ** 2 - 2 * x * (root + x) - 1):
        with pytest.raises(ZeroDivisionError):
            is_zero(a - a / below)
