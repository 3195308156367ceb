"""Reading LaTeX: what is read is read with nothing lost, and what is not is refused."""

from __future__ import annotations

import pytest

from lnlib.book.equations.latex import (
    Add,
    Atom,
    Derivative,
    Differentiate,
    LatexError,
    Mean,
    Mul,
    Number,
    Power,
    Sum,
    chains,
    labeled,
    parse,
)

MINUS, TWO = Number("-1"), Number("2")
X_I, MU = Atom("x", ("i",)), Atom("mu")


def over(node):
    return Power(node, MINUS)


READ = {
    r"x_i": X_I,
    r"x_{i}": X_I,
    r"x_1": Atom("x", ("1",)),
    r"\mu_{b h}": Atom("mu", ("b", "h")),
    r"\mu_{hb}": Atom("mu", ("h", "b")),  # another element: subscripts keep their order
    r"\hat x_k": Atom("hat x", ("k",)),
    r"\hat{x}_{k}": Atom("hat x", ("k",)),
    r"\tilde x_{bk}": Atom("tilde x", ("b", "k")),
    r"\mathbf{1}_h": Atom("1", ("h",)),
    r"\mathbf 1_{h}": Atom("1", ("h",)),
    r"\mathrm{rstd}_b": Atom("rstd", ("b",)),
    r"dx": Atom("dx"),
    r"d\gamma_q": Atom("dgamma", ("q",)),
    r"0.5": Number("0.5"),
    r"-x_i": Mul((MINUS, X_I)),
    r"x_i - \mu": Add((X_I, Mul((MINUS, MU)))),
    r"\mu\,x_i": Mul((MU, X_I)),
    r"\mu \odot x_i": Mul((MU, X_I)),
    r"\mu \cdot 2": Mul((MU, TWO)),
    r"x_i/\mu": Mul((X_I, over(MU))),
    r"\mu^2": Power(MU, TWO),
    r"\mu_{bh}^{-2}": Power(Atom("mu", ("b", "h")), Mul((MINUS, TWO))),
    r"\frac{1}{\mu}": Mul((Number("1"), over(MU))),
    r"\frac1\mu": Mul((Number("1"), over(MU))),
    r"\tfrac12": Mul((Number("1"), over(TWO))),
    r"\sqrt{\mu}": Power(MU, over(TWO)),
    r"\left( x_i \right)": X_I,
    r"\Big[ x_i \Big]": X_I,
    r"\overline{x_i}": Mean(X_I),
    r"\bar x": Mean(Atom("x")),
    r"\frac{\partial \mu}{\partial x_i}": Derivative(MU, X_I),
    r"\frac{\mathrm{d} \mu}{\mathrm{d} x_i}": Derivative(MU, X_I, total=True),
    r"\frac{\partial \mu}{\partial\sigma_b^2}": Derivative(MU, Atom("sigma^2", ("b",))),
    r"\frac{\partial}{\partial x_i}\mu^2": Differentiate(X_I, Power(MU, TWO)),
    r"\sum_{i=1}^{n} x_i\mu - \mu": Add(
        (Sum("i", Number("1"), Atom("n"), Mul((X_I, MU))), Mul((MINUS, MU)))
    ),
    r"\sum_{i=1}^n x_i": Sum("i", Number("1"), Atom("n"), X_I),
}


@pytest.mark.parametrize("written", READ)
def test_it_reads_what_the_derivations_are_written_in(written):
    assert parse(written) == READ[written]


REFUSED = {
    "an unknown command": r"\operatorname*{argmax}_x",
    "a matrix": r"\begin{pmatrix}1\end{pmatrix}",
    "a transposed vector": r"\mathbf{1}\mathbf{1}^\top",
    "an inequality": r"x \le y",
    "an open parenthesis": r"\left( x",
    "a closed one too many": r"x)",
    "an operator without its right side": r"x +",
    "a fraction without its denominator": r"\frac{1}",
    "a derivative, partial above and total below": r"\frac{\partial x}{\mathrm{d} y}",
    "a derivative by a cube": r"\frac{\partial x}{\partial\sigma^3}",
    "a number as a symbol's name": r"\hat 1",
    "an index that is a product": r"x_{2i+1}",
    "text": r"\text{where } x",
    "a star": r"x * y",
    "nothing": "",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_read_it_refuses(case):
    with pytest.raises(LatexError):
        parse(REFUSED[case])


def test_a_message_quotes_the_place_and_the_whole():
    with pytest.raises(LatexError, match=r"cannot read '\* y' in 'x \* y'"):
        parse("x * y")


def test_each_equal_sign_on_the_top_level_is_a_step():
    (chain,) = chains(r"a = \sum_{i=1}^n b_i = c")
    assert len(chain) == 3


def test_a_line_goes_on_with_the_chain_or_the_expression_before_it_or_begins_anew():
    one, two = chains(
        r"""\begin{aligned}
        a &= b \\[4pt]
          &= c + d \\
          &\quad - e, \\
        f &= a .
        \end{aligned}"""
    )
    assert [len(one), len(two)] == [3, 2]
    assert one[2] == Add((Atom("c"), Atom("d"), Mul((MINUS, Atom("e")))))


def test_two_equations_on_one_line_are_two():
    assert [len(chain) for chain in chains(r"a = b, \qquad c = d = e")] == [2, 3]


def test_what_claims_nothing_is_refused():
    with pytest.raises(LatexError, match="there is no ="):
        list(chains("a + b"))


def test_the_equations_of_a_page_are_found_by_their_labels():
    page = (
        "text\n\n```{math}\n:label: eq-a\na = b\n```\n$c$\n```{math}\n:label: def-d\nd = e\n```\n"
    )
    assert labeled(page) == {"eq-a": "a = b\n", "def-d": "d = e\n"}
