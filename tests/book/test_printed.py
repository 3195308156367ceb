"""Printed equations: a true one passes exactly as it stands, and a slip in it does not."""

from __future__ import annotations

import nbformat
import pytest
import sympy

from lnlib.book.check import CheckFailed
from lnlib.book.equations import meanings, printed
from lnlib.book.equations.latex import LatexError
from lnlib.book.equations.printed import Printed

ROOT, BESIDE, BATCH = meanings.row(), meanings.row(eps_at="std"), meanings.batch()


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Return a function that puts one equation on a page and checks it."""
    monkeypatch.setattr(printed, "NOTEBOOKS", tmp_path)

    def check(latex, meaning):
        text = f"Text.\n\n```{{math}}\n:label: eq-it\n{latex}\n```\n"
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
        nbformat.write(notebook, tmp_path / "a_page.ipynb")
        Printed("a_page").check("it holds", "eq-it", meaning)

    return check


# A true equation, its meaning, and what to replace by what to make it false.
DS = r"\frac{\partial \sigma}{\partial x_i}"
DL = r"\frac{\partial L}{\partial y_{ak}}"
TRUE = {
    "a derivative": (rf"{DS} = \frac{{x_i-\mu}}{{H\sigma}}", ROOT, "-", "+"),
    "an ε that is not there": (rf"{DS} = \frac{{x_i-\mu}}{{H\sigma}}", ROOT, r"H\sigma", "Hs"),
    "ε beside σ": (r"s = \sigma + \varepsilon", BESIDE, "+", "-"),
    "ε under the root": (r"s^2 = \sigma^2 + \varepsilon", ROOT, r"\sigma^2", r"\sigma"),
    "a sum": (r"\sum_{r=1}^{H} (x_r - \mu) = 0", ROOT, "x_r", "2x_r"),
    "the limits of a sum": (r"\sum_{r=1}^{H} x_r = H\mu", ROOT, "r=1", "r=2"),
    "a number": (r"\frac{\partial}{\partial x_i} x_k^2 = 2 x_k\delta_{ik}", ROOT, "= 2", "= 3"),
    "an exponent": (r"\frac{\partial}{\partial x_i} x_k^2 = 2 x_k\delta_{ik}", ROOT, "^2", "^3"),
    "a derivative through every path": (
        r"\frac{\partial}{\partial x_i} (x_k - \mu) = \delta_{ik} - \frac1H",
        ROOT,
        r" - \frac1H",
        "",
    ),
    "a delta": (
        r"\frac{\partial x_k}{\partial x_i} = \delta_{ki}",
        ROOT,
        r"\delta_{ki}",
        "1",
    ),
    "swapped indices of what is not symmetric": (
        r"\frac{\partial y_k}{\partial x_i} = \gamma_k J_{ki}",
        ROOT,
        r"\gamma_k",
        r"\gamma_i",
    ),
    "a factor that one ε needs and the other not": (
        r"J_{ki} = \frac1s\Big(\delta_{ki}-\frac1H-\frac{s}{\sigma}\frac{\hat x_k\hat x_i}{H}\Big)",
        BESIDE,
        r"\frac{s}{\sigma}",
        "",
    ),
    "a row without indices": (
        r"dx = \frac1s\Big(g - \overline{g} - \hat x\,\overline{g\,\hat x}\Big)",
        ROOT,
        r"\overline{g\,\hat x}",
        r"\overline{g}\,\overline{\hat x}",
    ),
    "rows without indices": (
        r"dx = \mathrm{rstd}\Big(g - \overline{g} - \hat x\,\overline{g\,\hat x}\Big)",
        BATCH,
        r"\Big(g",
        r"\Big(dy",
    ),
    "two means in one term": (
        r"\mu\,\mu = \overline{x}\,\overline{x}",
        BATCH,
        r"x}\,\overline{",
        "x ",
    ),
    "a row that occurs twice on the left": (
        r"\hat x\,\hat x = \hat x^2",
        BATCH,
        r"\hat x^2",
        r"H\,\overline{\hat x\,\hat x}",
    ),
    "one number for all features": (
        r"\frac{\partial y_1}{\partial x_2} = \gamma_1 J_{12}",
        ROOT,
        r"\gamma_1",
        r"\gamma_2",
    ),
    "an implied sum": (
        rf"\frac{{\partial L}}{{\partial s_a}} = -{DL} \tilde x_{{ak}}s_a^{{-2}}\gamma_k",
        BATCH,
        "s_a^{-2}",
        "s_a^{-1}",
    ),
    "an index that occurs once is summed too": (
        r"\sigma_b^2 = \frac1H \tilde x_{bj}^2",
        BATCH,
        r"\tilde x_{bj}",
        r"\tilde x_{bk}\mathbf{1}_j",
    ),
    "a sum in a part of a term": (
        r"\tilde x_{bk} = x_{bk} - \frac1H x_{bj}",
        BATCH,
        "x_{bj}",
        "x_{bk}",
    ),
    "a sum in one part of a parenthesis": (
        r"\mu_b + \frac1H \mu_b = \frac1H (x_{bk} + \mu_b)",
        BATCH,
        r"+ \mu_b)",
        r"+ \mathbf{1}_k \mu_b)",
    ),
    "a root of a sum": (
        r"s_b = \sqrt{\frac1H \tilde x_{bj}\tilde x_{bj} + \varepsilon}",
        BATCH,
        r"\frac1H",
        "",
    ),
    "a sum that vanishes": (r"\mathbf{1}_k \tilde x_{ak} = 0", BATCH, r"\tilde x", "x"),
    "a partial derivative": (
        r"\frac{\partial \tilde x_{bk}}{\partial x_{ai}} = \delta_{ba}\delta_{ki}",
        BATCH,
        r"\partial",
        r"\mathrm{d}",
    ),
    "a total derivative": (
        r"\frac{\mathrm{d} \tilde x_{bk}}{\mathrm{d} x_{ai}} = \delta_{ba}(\delta_{ki}-\frac1H)",
        BATCH,
        r"\mathrm{d}",
        r"\partial",
    ),
    "a loss with two consumers on its way": (
        r"\frac{\partial L}{\partial \tilde x_{ai}}"
        r" = \frac{\partial L}{\partial \sigma_a^2}\frac{2\tilde x_{ai}}{H}"
        r" + \frac{\partial L}{\partial y_{ai}}\frac{\gamma_i}{s_a}",
        BATCH,
        r" + \frac{\partial L}{\partial y_{ai}}\frac{\gamma_i}{s_a}",
        "",
    ),
    "a derivative by a square": (
        r"\frac{\partial s_b}{\partial \sigma_a^2} = \frac{\delta_{ba}}{2\,s_b}",
        BATCH,
        r"2\,s_b",
        r"2\,\sigma_b^2",
    ),
    "a derivative of a square": (
        r"\frac{\partial \sigma_b^2}{\partial \tilde x_{ai}} = \frac2H\,\tilde x_{bi}\,\delta_{ba}",
        BATCH,
        r"\tilde x_{bi}",
        "x_{bi}",
    ),
}


@pytest.mark.parametrize("case", TRUE)
def test_a_true_equation_passes_and_a_slip_in_it_fails(case, page, capsys):
    latex, meaning, old, new = TRUE[case]
    page(latex, meaning)
    assert capsys.readouterr().out == f"✓ it holds (as printed, in symbols, {meaning.name})\n"
    assert old in latex
    with pytest.raises(CheckFailed, match="expression 2 of the equation differs from the first"):
        page(latex.replace(old, new), meaning)
    assert capsys.readouterr().out == ""


def test_every_step_of_a_chain_is_compared(page):
    chain = rf"{DS} &= \frac{{x_i-\mu}}{{H\sigma}} \\ &= \frac{{x_i-\mu}}{{H\sigma}}"
    page(chain, ROOT)
    with pytest.raises(CheckFailed, match="expression 3"):
        page(chain[::-1].replace("-", "+", 1)[::-1], ROOT)


def test_every_equation_of_a_block_is_compared(page):
    with pytest.raises(CheckFailed, match="at b = 1"):
        page(r"\tilde x_{bk} &= x_{bk} - \mu_b, \\ \mu_b &= x_{bk}", BATCH)


MEANINGLESS = {
    "an unknown symbol": (r"\rho = \sigma", ROOT),
    "an index too many": (r"\mu_i = \mu", ROOT),
    "an index too many in a derivative": (r"\frac{\partial \mu_i}{\partial x_i} = \frac1H", ROOT),
    "an index of rows where one of features belongs": (r"\gamma_b = \gamma_b", BATCH),
    "a delta between a row and a feature": (r"\delta_{bk} = \delta_{bk}", BATCH),
    "a square of a sum that is not written": (r"\mu_b^2 = (\frac1H x_{bj})^2", BATCH),
    "half of a symbol that is a square": (r"\sigma_b = \sigma_b", BATCH),
    "a cube of it": (r"\sigma_b^3 = \sigma_b^3", BATCH),
    "a derivative by a square that is no symbol": (
        r"\frac{\partial L}{\partial \tilde x_{ai}^2} = 0",
        BATCH,
    ),
    "a derivative at a place that nothing names": (
        r"\mu_b = \frac{\partial}{\partial x_{ai}} (\mu_b)",
        BATCH,
    ),
}


@pytest.mark.parametrize("case", MEANINGLESS)
def test_what_has_no_meaning_is_refused(case, page):
    with pytest.raises(LatexError):
        page(*MEANINGLESS[case])


def test_a_label_that_is_not_there_is_named_with_those_that_are(page):
    page("s = s", ROOT)
    with pytest.raises(KeyError, match="no equation eq-other; it has eq-it"):
        Printed("a_page").check("it holds", "eq-other", ROOT)


def test_the_readers_own_copy_of_a_page_is_read_before_the_books(page, tmp_path, monkeypatch):
    page(r"s = \sigma + \varepsilon", BESIDE)
    mine = tmp_path / "mine"
    mine.mkdir()
    text = (tmp_path / "a_page.ipynb").read_text(encoding="utf8").replace("eq-it", "eq-mine")
    (mine / "a_page.ipynb").write_text(text, encoding="utf8")
    assert set(Printed("a_page").equations) == {"eq-it"}
    monkeypatch.chdir(mine)
    assert set(Printed("a_page").equations) == {"eq-mine"}


def test_a_page_that_is_not_there_is_named_with_where_it_was_looked_for():
    with pytest.raises(FileNotFoundError, match=r"no no_such_chapter\.ipynb in .+ nor in"):
        Printed("no_such_chapter")


@pytest.mark.parametrize("n", [2, 4, 6])
def test_rows_of_any_length_have_the_jacobian(n, page):
    page(
        r"J_{ki} = \frac1s\left(\delta_{ki}-\frac1H-\frac{\hat x_k\hat x_i}{H}\right)",
        meanings.row(n),
    )


def test_the_meanings_are_those_of_the_oracle():
    """At numbers, the symbols give what lnlib.formula and autograd give."""
    import torch

    from lnlib import formula

    torch.manual_seed(0)
    x, dy = torch.randn(2, 2, 5, dtype=torch.float64)
    weight, bias = torch.randn(2, 5, dtype=torch.float64)
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    terms = formula.terms(*leaves, eps=0.1)
    dx, dweight, dbias = torch.autograd.grad((terms.y * dy).sum(), leaves)
    values = {sympy.Symbol("epsilon", real=True): sympy.Float(0.1)}
    for name, tensor in {"x": x, "dy": dy, "gamma": weight, "beta": bias}.items():
        for place in torch.cartesian_prod(*map(torch.arange, tensor.shape)).reshape(
            -1, tensor.ndim
        ):
            key = printed.symbol(name, *(int(i) + 1 for i in place))
            values[key] = sympy.Float(tensor[tuple(place)].item(), 17)

    def at(name, *places):
        expression = BATCH.resolve(printed.symbol(name, *places))
        return float(expression.xreplace(values).evalf(20))

    expected = {"dx": dx, "y": terms.y, "hat x": terms.x_hat, "tilde x": x - terms.mean}
    for name, tensor in expected.items():
        assert at(name, 2, 3) == pytest.approx(tensor[1, 2].item(), abs=1e-12), name
    for name, tensor in {"mu": terms.mean, "sigma^2": terms.var, "rstd": terms.rstd}.items():
        assert at(name, 2) == pytest.approx(tensor[1].item(), abs=1e-12), name
    for name, tensor in {"dgamma": dweight, "dbeta": dbias}.items():
        assert at(name, 3) == pytest.approx(tensor[2].item(), abs=1e-12), name
