"""The exercises of the chapters: functions that are right, and near misses with a fitting hint.

That the answers of the solutions are right, `test_book` reads from their outputs, and that each
value that is a slip has its hint, `test_answers`.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.autograd.functional import jacobian

from lnlib import formula
from lnlib.book.exercises import (
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_05,
    chapter_06,
    chapter_07,
    chapter_08,
    chapter_09,
    chapter_10,
    chapter_11,
    chapter_12,
)

nan, inf = float("nan"), float("inf")
some = functools.partial


def reshaped(x: Any, weight: Any, bias: Any) -> Any:
    last = x.reshape(2, 4, 5, 3)
    return F.layer_norm(last, (3,), weight, bias).reshape(x.shape)


def beside(x: Any, w: Any, eps: Any) -> Any:
    return jacobian(lambda v: formula.layer_norm(v, w, eps=eps, eps_at="std"), x)


def beside_of_torch(x: Any, w: Any, eps: Any) -> Any:
    """The formula of ∂y/∂x with x.std() for σ, which divides by H − 1."""
    centered, s, H = x - x.mean(), x.std() + eps, len(x)
    J = torch.eye(H) - 1 / H - torch.outer(centered, centered) / s / x.std() / H
    return w[:, None] / s * J


def by_root(x: Any, w: Any, eps: Any, std: bool) -> Any:
    """∂y/∂x by autograd, of ε under the root, or of x.std(), which divides by H − 1."""
    if std:
        return jacobian(lambda v: w * (v - v.mean()) / (v.std() + eps), x)
    return jacobian(lambda v: formula.layer_norm(v, w, eps=eps), x)


def by_autograd(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    x, weight = x.requires_grad_(), weight.requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, weight.shape, weight, eps=eps), (x, weight), dy)


def closed(dy: Any, x: Any, w: Any, eps: Any, *, mean: bool = True, x_hat_twice: bool = True,
           gamma: str = "first", steps: bool = False) -> Any:  # fmt: skip
    """dx and dγ from the formula, or without a part of it."""
    rstd = (x.var(-1, correction=0, keepdim=True) + eps).rsqrt()
    x_hat = (x - x.mean(-1, keepdim=True)) * rstd
    g = dy * w if gamma == "first" else dy
    along = (g * x_hat).mean(-1, keepdim=True)
    dx = rstd * (g - mean * g.mean(-1, keepdim=True) - (x_hat if x_hat_twice else 1) * along)
    dweight = (dy * x_hat).sum(0) if steps else (dy * x_hat).reshape(-1, len(w)).sum(0)
    return dx * w if gamma == "last" else dx, dweight


def in_float32(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    return closed(dy.float(), x.float(), weight.float(), eps)


def folded(W: Any, b: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: Any) -> Any:
    scale = weight / (var + eps) ** 0.5
    return torch.diag(scale) @ W, scale * (b - mean) + bias


def gru(x: Any, h: Any, W_x: Any, W_h: Any, W: Any, U: Any, slip: str = "") -> Any:
    """A step of the paper's GRU, or one with a slip."""

    def N(a: Any) -> Any:
        return F.layer_norm(a, a.shape[1:], eps=1e-5)

    whole = N(x @ W_x.T + h @ W_h.T) if slip == "one norm" else N(x @ W_x.T) + N(h @ W_h.T)
    update, reset = torch.sigmoid(whole).split(h.shape[1], 1)
    old = N((reset * h) @ U.T) if slip == "reset first" else reset * N(h @ U.T)
    new = torch.tanh(N(x @ W.T) + old)
    return torch.lerp(new, h, update) if slip == "swapped" else torch.lerp(h, new, update)


def rms_jacobian(x: Any, weight: Any, eps: Any) -> Any:
    return jacobian(lambda v: F.rms_norm(v, v.shape, weight, eps), x)


def first_weights() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(6)
    W, v = torch.randn(8, 4, generator=generator), torch.randn(8, generator=generator)
    return W, v / math.sqrt(8)


def trained(gamma: Any, beta: Any, *, weights: Any = None, zero: bool = True, after: bool = False,
            learned: int = 4) -> list[Any]:  # fmt: skip
    """Return the losses of ex-first-values, in float32 with a module and ``backward()``."""
    samples = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    norm = torch.nn.LayerNorm(8)
    torch.nn.init.constant_(norm.weight, gamma)
    torch.nn.init.constant_(norm.bias, beta)
    W, v = (t.requires_grad_() for t in weights or first_weights())
    moved = [W, v, *norm.parameters()][:learned]  # torch.optim would import the compiler: seconds

    def loss() -> Any:
        return F.mse_loss(torch.relu(norm(samples @ W.T)) @ v, samples[:, 0].abs())

    curve = []
    for _ in range(25):
        now = loss()
        for t in moved:
            t.grad = None if zero else t.grad
        now.backward()
        with torch.no_grad():
            for t in moved:
                t -= 0.1 * t.grad
        curve.append(loss().detach() if after else now.detach())
    return curve


RIGHT = [
    (chapter_01.by_hand, [-1.34, -0.45, 0.45, 1.34]),
    (chapter_01.from_scratch, F.layer_norm),
    (chapter_02.choose_eps, 1.11e-5),
    (chapter_02.convert_eps, lambda std: torch.tensor(std).square().add(1e-5).sqrt() - std),
    (chapter_03.row_mean,
     lambda x, w, b: b.mean() + torch.cov(torch.stack([w, x]), correction=0)[0, 1]),
    (chapter_03.fold, lambda W, b, w, bias: (W @ torch.diag(w), F.linear(bias, W, b))),
    (chapter_03.undo, lambda x, eps: torch.stack([(x.var(correction=0) + eps).sqrt(), x.mean()])),
    (chapter_03.first_values, trained),
    (chapter_04.dsigma, [-0.19, -0.06, -0.06, -0.06, 0, 0, 0.13, 0.25]),
    (chapter_04.jacobian_beside, beside),
    (chapter_05.read, lambda u, w, v: u.T @ (v * (u @ w))),
    (chapter_06.weight_only, by_autograd),
    (chapter_06.weight_only, in_float32),
    (chapter_08.gru, gru),
    (chapter_09.fold_batch_norm, folded),
    (chapter_09.rms_jacobian, rms_jacobian),
    (chapter_10.ratio, 4.95),
    (chapter_11.balance, lambda lr, decay, c: (1 - (1 - lr * decay) ** 2) ** 0.5 / c),
    (chapter_11.paired_lead, (0.98, 0.498)),
    (chapter_11.test_digits, (1.96 / 0.002) ** 2 * 0.965 * 0.035),
    (chapter_12.beside, (23.829, 0.11915)),
    (chapter_12.number, (True, True, True, False)),
    (chapter_12.epsilon, (True, False, False)),
]  # fmt: skip
MISSED = [
    (chapter_01.by_hand, [-1.3, -0.4, 0.4, 1.3], "three digits, please"),
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, w, b), "not always 1e-5"),
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, eps=e), "are missing"),
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, w, b, 0.0), "ε is missing"),
    (chapter_01.over_channels, reshaped, "permute"),
    (chapter_02.convert_eps, lambda std: 1e-5, "another function"),
    (chapter_03.row_mean, lambda x_hat, w, b: b.mean(), "what γ favors"),
    (chapter_03.fold, lambda W, b, w, bias: (W * w, b), "β is missing"),
    (chapter_03.undo, lambda x, eps: (x.std(correction=0), x.mean()), "ε is missing"),
    (chapter_03.undo, lambda x, eps: (x.mean(), (x.var(correction=0) + eps).sqrt()), "other order"),
    (chapter_03.first_values, lambda gamma, beta: trained(beta, gamma), "swapped"),
    (chapter_03.first_values, some(trained, learned=2), "γ and β are learned too"),
    (chapter_03.first_values, some(trained, after=True), "before the step"),
    (chapter_03.first_values, some(trained, zero=False), "pile up"),
    (chapter_03.first_values, some(trained, weights=first_weights()), "fresh weights"),
    (chapter_03.first_values, lambda gamma, beta: trained(1.0, beta), "γ starts at 1"),
    (chapter_04.jacobian_beside, some(by_root, std=False), "under the root"),
    (chapter_04.jacobian_beside,
     lambda x, w, e: beside(x, w, e) * (x.std(correction=0) + e), "divide by s"),
    (chapter_04.jacobian_beside,
     lambda x, w, e: beside(x, w, e) * (1 + e / x.std(correction=0)), "not by σ"),
    (chapter_04.jacobian_beside, lambda x, w, eps: beside(x, w, eps).T, "denominator layout"),
    (chapter_04.jacobian_beside, lambda x, w, eps: beside(x, None, eps), "γ is missing"),
    (chapter_04.jacobian_beside, some(by_root, std=True), "a σ that divides by H − 1"),
    (chapter_04.jacobian_beside, beside_of_torch, "x.std() divides by H − 1"),
    (chapter_05.read, lambda u, w, v: torch.einsum("bi,bk,k,b->bi", u, u, w, v), "b is summed"),
    (chapter_05.read, lambda u, w, v: (u * u * w).T @ v, "two letters"),
    (chapter_05.read, lambda u, w, v: u.T @ (v * (u @ w)) if len(v) == len(w) else w, "1 of 2"),
    (chapter_06.weight_only, some(closed, mean=False), "mean term"),
    (chapter_06.weight_only, some(closed, gamma="last"), "γ comes first"),
    (chapter_06.weight_only, some(closed, steps=True), "all leading dimensions"),
    (chapter_06.weight_only, some(closed, gamma="nowhere"), "forgets γ"),
    (chapter_06.weight_only, some(closed, x_hat_twice=False), "one in front"),
    (chapter_06.weight_only, lambda dy, x, w, eps: by_autograd(dy, x, w, 1e-5), "use it"),
    (chapter_06.weight_only, lambda dy, x, w, eps: by_autograd(dy, x, w, 0.0), "forgets ε"),
    (chapter_08.gru, some(gru, slip="swapped"), "1 − z to the old state"),
    (chapter_08.gru, some(gru, slip="reset first"), "it multiplies h"),
    (chapter_08.gru, some(gru, slip="one norm"), "not their sum"),
    (chapter_09.fold_batch_norm,
     lambda W, *g: (folded(W.T, *g)[0].T, folded(W, *g)[1]), "multiply rows"),
    (chapter_09.fold_batch_norm, lambda *g: folded(*g[:6], 0.0), "ε is missing"),
    (chapter_09.fold_batch_norm, lambda *g: folded(*g[:5], 0, g[6]), "bias of the norm"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, w, 1e-5), "off by"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, None, eps), "γ is missing"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, w, eps).T, "to the output"),
    (chapter_09.rms_jacobian,
     lambda x, w, e: torch.diag(w * (x.square().mean() + e).rsqrt()), "r depends on x"),
    (chapter_09.rms_jacobian,
     lambda x, w, e: jacobian(lambda v: F.layer_norm(v, v.shape, w, eps=e), x), "subtracts no"),
    (chapter_11.balance, lambda lr, decay, c: (2 * lr * decay) ** 0.5 / c, "the square of it too"),
    (chapter_11.balance, lambda lr, decay, c: (1 - (1 - lr * decay) ** 2) ** 0.5, "c is missing"),
    (chapter_12.beside, (24, 0.12), "the bound"),
    (chapter_12.beside, (0.9929, 0.00496), "divides by the length"),
    (chapter_12.number, [True] * 4, "an ordinary row"),
    (chapter_12.epsilon, [True, True, False], "compare ε with the square"),
]  # fmt: skip
# What is found, and what is said of it; `test_answers` tries what lies between two of these.
SEARCHES: dict[str, tuple[Any, list[tuple[Any, str]]]] = {
    "break_it": (chapter_01.break_it, [
        ([0, 0, 0, 1e-4], "right"), ([5.0, 5.0001, 5.0, 5.0], "right"), ([1, 2, 3, 4], "closer"),
        ([1, 1, 1, 1], "one must differ"), ([1, 2, nan, 4], "finite"), ([1e300, 1, 1, 1], "finite"),
    ]),
    "smallest_half_eps": (chapter_02.smallest_half_eps, [
        (6e-8, "right"), (1e-7, "go down"), (2.9e-8, "go up"), (3e-8, "says to which"),
        (2.0**-25, "go up"), (inf, "positive number"), (2.0**-24 + 2.0**-34, "right"),
        (2.0**-25 * (1 + 2.0**-30), "go up"),  # rounded once, it is half of the smallest
    ]),
    "break_variance": (chapter_02.break_variance, [
        ([1e4, 1e4, 1e4, 1e4 + 0.25], "right"), ([1, 2, 3, 4], "still positive"),
        ([1e20, 1, 2, 3], "not finite"), ([nan, 1, 2, 3], "not finite"), ([7, 7, 7, 7], "equal"),
    ]),
    "break_mean": (chapter_03.break_mean, [
        ([0, 0, 0, 0, 0, 0, 0, 8], "right"), ([1] * 8, "larger where x̂ is positive"),
        ([0.9, 1, 1, 1, 1, 1, 1, 1.1], "larger where x̂ is large"), ([nan] * 8, "finite"),
        ([0, 1, 1, 1, 1, 1, 1, 2], "the mean of y is 0.44"), ([2] * 8, "average 2, not 1"),
    ]),
    "break_test": (chapter_04.break_test, [
        ([0, 0, 0, 0, 3, -2, 0, 0], "right"), ([4, 0, 0, 0, 0, 0, 0, 3], "right"),
        ([0] * 8, "zeros"), ([1, 1 / 2, 1, 1 / 3, 1, 1 / 2, 1, 1], "constant"),
        ([0, 0, 0, 0, 0, 0, 0, 1], "the mean of g x̂ is 0.25"), ([inf] * 8, "finite"),
        ([1e308] * 8, "the mean of g x̂"),
    ]),
    "break_axis": (chapter_05.break_axis, [
        ([[1, 2], [3, 4]], "right"), ([[1, 2, 6], [6, 2, 1], [-1, -2, -6]], "right"),
        ([[1, 2], [3, 5]], "off by 1: feature k is divided by the s of row k"),
        ([[1, 2, 3], [1, 2, 4]], "s has 2 rows, and 3 is not 2"), ([[1, 2], [1, 2]], "let two dif"),
        ([[1, 1], [2, 2]], "constant"), ([[1, nan], [2, 2]], "finite"), ([1, 2], "two rows"),
        ([[1e200, 2], [1e200, 5]], "does not fit into float64"),
    ]),
    "break_eps": (chapter_06.break_eps, [
        ([0, 0, 0, 5e-5], "right"), ([1, 2, 3, 4], "100.0%"), ([1, 1, 1, 1.001], "closer"),
        ([7, 7, 7, 7], "all four are equal"), ([1e300, 1, 1, 1], "finite variance"),
        ([nan, 1, 1, 1], "finite"),
    ]),
    "break_half": (chapter_06.break_half, [
        ([290, -290, -290, -290], "right"), ([0, 299, -299, 1], "right"),
        ([250, -200, 100, 3], "still fits into float16"), ([7, 7, 7, 7.0001], "equal in float16"),
        ([1000, 0, 0, 0], "between −300 and 300"), ([nan, 0, 0, 0], "between −300 and 300"),
    ]),
    "break_careless": (chapter_07.break_careless, [
        ([100, 100, 100, 101, 101, 101], "right"), ([1, 2, 3, 4, 5, 6], "2.4 times"),
        ([-1e3, -1e3, -1e3, -1e3, -1e3, -999], "right"), ([-1, 1, -1, 1, -1, 1], "1 times"),
        ([7] * 6, "one must differ"), ([nan] * 6, "finite"),
    ]),
    "break_forgetting": (chapter_08.break_forgetting, [
        (0.02, "right"), (0.0067, "right"), (0.0499, "right"), (0.0501, "close the gate further"),
        (0.0065, "swallowed by ε"), (0, "swallowed by ε"), (-0.02, "between 0 and 1"),
        (nan, "between 0 and 1"), (0.145, "close the gate"), (1, "close the gate"),
    ]),
    "gray": (chapter_08.gray, [
        (0.0087, "right"), (0.0136, "right"), (0.0086, "too small"), (0.0137, "too large"),
        (0, "positive"), (nan, "positive"),
    ]),
    "break_pre_norm": (chapter_10.break_pre_norm, [
        ([0, 0, 0, 0, 0, 0, -300, 300], "right"), ([1] * 8, "right"),  # its norm is 0
        ([1, 2, 3, 4, 5, 6, 7, 8], "turns your row by"), ([0] * 8, "no direction"),
        ([1e200] * 8, "below 1e100"), ([nan] * 8, "finite"),
    ]),
    "one_step": (chapter_11.one_step, [
        ([5, 4.8, 0.36], "right"), ((5.0, 24 / 5, (3 / 5) ** 2), "right"),
        ([7, 24 / 7, 9 / 49], "right angle"), ([73**0.5, 24 / 73**0.5, 9 / 73], "length η"),
        ([5, 13.33, 0.36], "shorter gradient"), ([5, 4.8, 2.78], "falls as W grows"),
        ([7, 8, 1], "right angle"), ([5, 8, 1], "the gradient has changed too"),
        ([5, 4.8, 1], "the effective rate is η/‖W‖²"), ([5, 2.88, 0.36], "not as its square"),
        ([5, 4.8, 0.6], "square of ‖W‖"), ([4, 4.8, 0.36], "‖W‖: too small"),
    ]),
}  # fmt: skip


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_a_right_answer_is_right(exercise: Any, answer: Any) -> None:
    assert exercise.verdict(answer).message == "right"


@pytest.mark.parametrize(("exercise", "answer", "hint"), MISSED)
def test_a_near_miss_gets_a_hint_that_fits(exercise: Any, answer: Any, hint: str) -> None:
    verdict = exercise.verdict(answer)
    assert not verdict.right
    assert verdict.message.startswith("not yet: ")
    assert hint in verdict.message


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_tells_what_has_the_property_and_what_the_rest_lacks(name: str) -> None:
    search, answers = SEARCHES[name]
    for answer, said in answers:
        verdict = search.verdict(answer)
        assert said in verdict.message, (answer, verdict)
        assert verdict.right == (said == "right"), answer
