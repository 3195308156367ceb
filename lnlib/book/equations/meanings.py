"""What symbols mean: of one row in chapter 04, of a batch in 05, of an RMS norm's row in 09."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import sympy
from sympy import Expr, Integer

from lnlib.book.equations.printed import Meaning, symbol

__all__ = ["batch", "rms", "row"]


def row(n: int = 5, eps_at: Literal["variance", "std"] = "variance") -> Meaning:
    """Return the meaning of one row of ``n`` features, as chapter 04 writes it.

    Every ∂ goes through every path, so ∂σ/∂x_i is the derivative of the whole formula of σ.

    Args:
        n: number of features; five, so that none of the numbers in an equation passes for n.
        eps_at: "variance" makes s = √(σ² + ε), "std" makes s = σ + ε.
    """
    features = range(1, n + 1)
    mu, sigma, s, eps = (symbol(name) for name in ("mu", "sigma", "s", "epsilon"))
    meaning = Meaning(
        name=f"{n} features",
        sizes={"feature": n},
        slots={
            **dict.fromkeys(("mu", "sigma", "s", "epsilon", "L"), ()),
            **dict.fromkeys(("x", "tilde x", "hat x", "gamma", "beta", "y"), ("feature",)),
            **dict.fromkeys(("dy", "g", "dx", "dgamma", "dbeta"), ("feature",)),
            "J": ("feature", "feature"),
        },
        numbers={"H": Integer(n)},
    )

    def total(of: str, *places: int) -> Callable[[str, int], Expr]:
        made_of = meaning.resolve(symbol(of, *places))
        return lambda by, place: sympy.diff(made_of, symbol(by, place))

    meaning.definitions = {
        "mu": lambda: _mean(symbol("x", i) for i in features),
        "tilde x": lambda k: symbol("x", k) - mu,
        "sigma": lambda: sympy.sqrt(_mean(symbol("tilde x", j) ** 2 for j in features)),
        "s": lambda: sympy.sqrt(sigma**2 + eps) if eps_at == "variance" else sigma + eps,
        "hat x": lambda k: symbol("tilde x", k) / s,
        "y": lambda k: symbol("gamma", k) * symbol("hat x", k) + symbol("beta", k),
        "L": lambda: sympy.Add(*(symbol("dy", k) * symbol("y", k) for k in features)),
        "g": lambda k: symbol("gamma", k) * symbol("dy", k),
        "J": lambda k, i: total("hat x", k)("x", i),
        "dx": lambda i: total("L")("x", i),
        "dgamma": lambda k: total("L")("gamma", k),
        "dbeta": lambda k: total("L")("beta", k),
    }
    return meaning


def batch(B: int = 2, H: int = 5) -> Meaning:
    """Return the meaning of a batch of ``B`` rows of ``H`` features, as chapter 05 writes it.

    ∂L goes through every path. Every other ∂ is partial: it looks at one arrow of the graph and
    holds the symbol's other inputs fixed. An index that is not on the left of its chain is summed.
    The variance σ² is one symbol, and σ alone is none.

    Args:
        B: number of rows.
        H: number of features; five, so that none of the numbers in an equation passes for H.
    """
    rows, features = range(1, B + 1), range(1, H + 1)
    meaning = Meaning(
        name=f"{B} rows of {H} features",
        sizes={"row": B, "feature": H},
        slots={
            **dict.fromkeys(("epsilon", "L"), ()),
            **dict.fromkeys(("mu", "sigma^2", "s", "rstd"), ("row",)),
            **dict.fromkeys(("gamma", "beta", "dgamma", "dbeta"), ("feature",)),
            **dict.fromkeys(("x", "tilde x", "hat x", "y", "g", "dx", "dy"), ("row", "feature")),
        },
        rows="ab",
        numbers={"H": Integer(H), "B": Integer(B)},
        loss="L",
        implied=True,
    )

    def gradient(by: str, *places: int) -> Expr:
        return sympy.diff(meaning.resolve(symbol("L")), symbol(by, *places))

    meaning.definitions = {
        "mu": lambda b: _mean(symbol("x", b, j) for j in features),
        "tilde x": lambda b, k: symbol("x", b, k) - symbol("mu", b),
        "sigma^2": lambda b: _mean(symbol("tilde x", b, j) ** 2 for j in features),
        "s": lambda b: sympy.sqrt(symbol("sigma^2", b) + symbol("epsilon")),
        "y": lambda b, k: (
            symbol("tilde x", b, k) / symbol("s", b) * symbol("gamma", k) + symbol("beta", k)
        ),
        "L": lambda: sympy.Add(
            *(symbol("dy", b, k) * symbol("y", b, k) for b in rows for k in features)
        ),
        "hat x": lambda b, k: symbol("tilde x", b, k) / symbol("s", b),
        "rstd": lambda b: 1 / symbol("s", b),
        "g": lambda b, k: symbol("gamma", k) * symbol("dy", b, k),
        "dx": lambda b, i: gradient("x", b, i),
        "dgamma": lambda i: gradient("gamma", i),
        "dbeta": lambda i: gradient("beta", i),
    }
    return meaning


def _mean(values: Iterable[Expr]) -> Expr:
    terms = list(values)
    return sympy.Add(*terms) / len(terms)


def rms(n: int = 5) -> Meaning:
    """Return the meaning of one row of ``n`` features under RMS norm, as chapter 09 writes it.

    Every ∂ goes through every path, so ∂r/∂x_i is the derivative of the whole formula of r.

    Args:
        n: number of features; five, so that none of the numbers in an equation passes for n.

    Source: Zhang, Sennrich 2019, arXiv:1910.07467, eq. 4, with ε under the root.
    """
    features = range(1, n + 1)
    r, eps = symbol("r"), symbol("epsilon")
    meaning = Meaning(
        name=f"{n} features",
        sizes={"feature": n},
        slots={
            **dict.fromkeys(("r", "epsilon", "L"), ()),
            **dict.fromkeys(("x", "hat x", "gamma", "y", "dy", "g", "dx"), ("feature",)),
            "J": ("feature", "feature"),
        },
        numbers={"H": Integer(n)},
    )

    def total(of: str, *places: int) -> Callable[[int], Expr]:
        made_of = meaning.resolve(symbol(of, *places))
        return lambda i: sympy.diff(made_of, symbol("x", i))

    meaning.definitions = {
        "r": lambda: sympy.sqrt(_mean(symbol("x", j) ** 2 for j in features) + eps),
        "hat x": lambda k: symbol("x", k) / r,
        "y": lambda k: symbol("gamma", k) * symbol("hat x", k),
        "L": lambda: sympy.Add(*(symbol("dy", k) * symbol("y", k) for k in features)),
        "g": lambda k: symbol("gamma", k) * symbol("dy", k),
        "J": lambda k, i: total("hat x", k)(i),
        "dx": lambda i: total("L")(i),
    }
    return meaning
