"""The exercises of the chapters: right answers are right, and near misses get a hint that helps."""

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
)

nan, inf = float("nan"), float("inf")
ROW = torch.tensor([2, 4, 4, 4, 5, 5, 7, 9]).double()


def reshaped(x: Any, weight: Any, bias: Any) -> Any:
    last = x.reshape(2, 4, 5, 3)
    return F.layer_norm(last, (3,), weight, bias).reshape(x.shape)


def by_autograd(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    x, weight = x.requires_grad_(), weight.requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, weight.shape, weight, eps=eps), (x, weight), dy)


def step_by_step(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    centered = x - x.mean(-1, keepdim=True)
    std = (centered.square().mean(-1, keepdim=True) + eps).sqrt()
    dvar = -0.5 * (dy * weight * centered).sum(-1, keepdim=True) / std**3
    dcentered = dy * weight / std + 2 * dvar * centered / x.shape[-1]
    dx = dcentered - dcentered.mean(-1, keepdim=True)
    return dx, (dy * centered / std).reshape(-1, x.shape[-1]).sum(0)


def in_float32(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    return step_by_step(dy.float(), x.float(), weight.float(), eps)


def folded(W: Any, b: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: Any) -> Any:
    scale = weight / (var + eps) ** 0.5
    return torch.diag(scale) @ W, scale * (b - mean) + bias


def columns_for_rows(W: Any, *rest: Any) -> Any:
    return folded(W.T, *rest)[0].T, folded(W, *rest)[1]


def without_root(W: Any, b: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: Any) -> Any:
    return folded(W, b, mean, (var + eps) ** 2, weight, bias, 0.0)


def normalized(a: Any) -> Any:
    std = (a.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    return (a - a.mean(1, keepdim=True)) / std


def gru_of_the_paper(x: Any, h: Any, W_x: Any, W_h: Any, W: Any, U: Any) -> Any:
    gates = torch.sigmoid(normalized(x @ W_x.T) + normalized(h @ W_h.T))
    update, reset = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    new = torch.tanh(normalized(x @ W.T) + reset * normalized(h @ U.T))
    return torch.lerp(h, new, update)


def gru_of_the_authors(x: Any, h: Any, W_x: Any, W_h: Any, W: Any, U: Any) -> Any:
    gates = torch.sigmoid(normalized(x @ W_x.T) + normalized(h @ W_h.T))
    update, reset = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    new = torch.tanh(normalized(x @ W.T) + reset * normalized(h @ U.T))
    return torch.lerp(new, h, update)


def gru_that_resets_first(x: Any, h: Any, W_x: Any, W_h: Any, W: Any, U: Any) -> Any:
    gates = torch.sigmoid(normalized(x @ W_x.T) + normalized(h @ W_h.T))
    update, reset = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    new = torch.tanh(normalized(x @ W.T) + normalized((reset * h) @ U.T))
    return torch.lerp(h, new, update)


def gru_that_normalizes_the_sum(x: Any, h: Any, W_x: Any, W_h: Any, W: Any, U: Any) -> Any:
    gates = torch.sigmoid(normalized(x @ W_x.T + h @ W_h.T))
    update, reset = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    new = torch.tanh(normalized(x @ W.T) + reset * normalized(h @ U.T))
    return torch.lerp(h, new, update)


def gamma_forgotten(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    return by_autograd(dy, x, torch.ones_like(weight), eps)


def x_hat_once(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    dx, dweight = by_autograd(dy, x, weight, eps)
    x_hat = F.layer_norm(x.detach(), weight.shape, eps=eps)
    rstd = (x.var(-1, correction=0, keepdim=True) + eps).rsqrt()
    return dx + rstd * (x_hat - 1) * (weight * dy * x_hat).mean(-1, keepdim=True), dweight


def without_mean_term(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    dx, dweight = by_autograd(dy, x, weight, eps)
    rstd = (x.var(-1, correction=0, keepdim=True) + eps).rsqrt()
    return dx + rstd * (weight * dy).mean(-1, keepdim=True), dweight


def gamma_outside(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    dx, dweight = by_autograd(dy / weight, x, weight, eps)
    return weight * dx, dweight * weight


def per_step(dy: Any, x: Any, weight: Any, eps: Any) -> Any:
    dx, _ = by_autograd(dy, x, weight, eps)
    return dx, (dy * F.layer_norm(x, weight.shape, eps=eps)).sum(0)


def rms_jacobian(x: Any, weight: Any, eps: Any) -> Any:
    return jacobian(lambda v: F.rms_norm(v, v.shape, weight, eps), x)


def first_weights() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(6)
    W, v = torch.randn(8, 4, generator=generator), torch.randn(8, generator=generator)
    return W, v / math.sqrt(8)


def trained(
    gamma: Any, beta: Any, *, weights: Any = None, zero: bool = True, after: bool = False
) -> list[Any]:
    """Return the losses of ex-first-values, in float32 with a module and ``backward()``."""
    samples = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    norm = torch.nn.LayerNorm(8)
    torch.nn.init.constant_(norm.weight, gamma)
    torch.nn.init.constant_(norm.bias, beta)
    W, v = (t.requires_grad_() for t in weights or first_weights())
    learned = [W, v, *norm.parameters()]  # torch.optim would import the compiler: seconds

    def loss() -> Any:
        return F.mse_loss(torch.relu(norm(samples @ W.T)) @ v, samples[:, 0].abs())

    curve = []
    for _ in range(25):
        now = loss()
        for t in learned:
            t.grad = None if zero else t.grad
        now.backward()
        with torch.no_grad():
            for t in learned:
                t -= 0.1 * t.grad
        curve.append(loss().detach() if after else now.detach())
    return curve


def trained_beside_norm(gamma: Any, beta: Any) -> list[Any]:
    """Leave γ and β as they start."""
    samples = torch.randn(32, 4, generator=torch.Generator().manual_seed(0)).double()
    W, v = (t.double() for t in first_weights())
    weight, bias = torch.full_like(v, gamma), torch.full_like(v, beta)
    curve = []
    for _ in range(25):
        W, v = W.detach().requires_grad_(), v.detach().requires_grad_()
        h = torch.relu(F.layer_norm(samples @ W.T, (8,), weight, bias))
        curve.append(F.mse_loss(h @ v, samples[:, 0].abs()))
        dW, dv = torch.autograd.grad(curve[-1], (W, v))
        W, v = W - 0.1 * dW, v - 0.1 * dv
    return curve


TRAINED_BEFORE = first_weights()  # every run goes on where the last one stopped


# The derivation of chapter 05, as its page solves it.
ALL_SEVEN: dict[str, Any] = {
    "weight": lambda dy, centered, s: (dy * centered / s[:, None]).sum(0),
    "bias": lambda dy: dy.sum(0),
    "s": lambda dy, centered, s, weight: -(dy * centered * weight).sum(1) / s**2,
    "var": lambda ds, s: ds / (2 * s),
    "centered": lambda dvar, centered, H, dy, weight, s: (
        dvar[:, None] * 2 * centered / H + dy * weight / s[:, None]
    ),
    "mean": lambda dcentered: -dcentered.sum(1),
    "x": lambda dmean, dcentered, H: dmean[:, None] / H + dcentered,
}

RIGHT = [
    (chapter_01.by_hand, [-1.342, -0.447, 0.447, 1.342]),
    (chapter_01.by_hand, [-1.34, -0.45, 0.45, 1.34]),
    (chapter_01.from_scratch, F.layer_norm),
    (chapter_01.break_it, [0, 0, 0, 1e-4]),
    (chapter_01.break_it, torch.tensor([5.0, 5.0001, 5.0, 5.0])),
    (chapter_02.choose_eps, 1.11e-5),
    (chapter_02.convert_eps, lambda std: math.sqrt(std**2 + 1e-5) - std),
    (chapter_02.convert_eps, lambda std: torch.tensor(std).square().add(1e-5).sqrt() - std),
    (chapter_02.smallest_half_eps, 6e-8),
    (chapter_02.break_variance, [1e4, 1e4, 1e4, 1e4 + 0.25]),
    (
        chapter_03.row_mean,
        lambda x_hat, w, b: (
            b.mean() + torch.cov(torch.stack([w, x_hat]))[0, 1] * (len(w) - 1) / len(w)
        ),
    ),
    (chapter_03.fold, lambda W, b, w, bias: (W @ torch.diag(w), F.linear(bias, W, b))),
    (chapter_03.undo, lambda x, eps: (math.sqrt(x.var(correction=0) + eps), x.mean())),
    (chapter_03.undo, lambda x, eps: torch.stack([(x.var(correction=0) + eps).sqrt(), x.mean()])),
    (chapter_03.break_mean, [0, 0, 0, 0, 0, 0, 0, 8]),
    (chapter_04.dsigma, (ROW - 5) / 16),
    (chapter_04.dsigma, [-0.1875, -0.0625, -0.0625, -0.0625, 0, 0, 0.125, 0.25]),
    (chapter_04.dsigma, [-0.19, -0.06, -0.06, -0.06, 0, 0, 0.13, 0.25]),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: jacobian(lambda v: formula.layer_norm(v, w, eps=eps, eps_at="std"), x),
    ),
    (chapter_04.rank, 6),
    (chapter_04.break_test, [0, 0, 0, 0, 1, 0, 0, 0]),
    (chapter_04.break_test, [0, 0, 0, 0, 3, -2, 0, 0]),
    (chapter_04.break_test, [4, 0, 0, 0, 0, 0, 0, 3]),  # weighed so that x̂ does not see it
    (chapter_05.count, [5, 5, 10]),
    (chapter_05.read, lambda u, w, v: u.T @ (v * (u @ w))),
    (chapter_05.read, lambda u, w, v: torch.einsum("bi,bk,k,b->i", u, u, w, v)),
    (chapter_05.game, ALL_SEVEN),
    (chapter_05.break_axis, [[1, 2], [3, 4]]),
    (chapter_05.break_axis, torch.tensor([[1.0, 2.0, 6.0], [6.0, 2.0, 1.0], [-1.0, -2.0, -6.0]])),
    (chapter_06.weight_only, by_autograd),
    (chapter_06.weight_only, step_by_step),
    (chapter_06.weight_only, in_float32),
    (chapter_06.blind_check, "x_hat"),
    (chapter_06.break_eps, [0, 0, 0, 5e-5]),
    (chapter_06.break_eps, [1, 1, 1, 1.00001]),
    (chapter_06.saved_for, [4, 3, 0]),
    (chapter_06.break_half, [290, -290, -290, -290]),
    (chapter_06.break_half, [0, 299, -299, 1]),
    (chapter_07.count_bytes, (8, 10)),
    (chapter_07.masked_lanes, [0, 1, -inf, inf]),
    (chapter_07.break_careless, [100, 100, 100, 101, 101, 101]),
    (chapter_07.break_careless, [-1e3, -1e3, -1e3, -1e3, -1e3, -999]),
    (chapter_08.forget_bias, (0, 5)),
    (chapter_08.gru, gru_of_the_paper),
    (chapter_08.break_forgetting, 0.02),
    (chapter_08.break_forgetting, 0.0067),
    (chapter_08.break_forgetting, 0.0499),
    (chapter_09.rms_column, (True, False, False, True, False, True)),
    (chapter_09.rms_column, torch.tensor([True, False, False, True, False, True])),
    (chapter_09.rms_column, [1, 0, 0, 1, 0, 1]),
    (chapter_11.one_step, [5, 4.8, 0.36]),
    (chapter_11.one_step, (5.0, 24 / 5, (3 / 5) ** 2)),
    (
        chapter_11.balance,
        lambda lr, decay, c: lr / lr**2 * (lr**2 * (2 * lr * decay - (lr * decay) ** 2)) ** 0.5 / c,
    ),
    (chapter_09.reductions, [True, False, True, False]),
    (chapter_09.reductions, torch.tensor([True, False, True, False])),
    (chapter_09.reductions, [1, 0, 1, 0]),
    (chapter_09.rms_jacobian, rms_jacobian),
    (chapter_10.break_pre_norm, [1000, 0, 0, 0, 0, 0, 0, 0]),
    (chapter_10.break_pre_norm, [0, 0, 0, 0, 0, 0, -300, 300]),
    (chapter_10.break_pre_norm, [1] * 8),  # its norm is 0
    (chapter_03.first_values, trained),
    (chapter_11.paired_lead, [0.98, 0.5]),
    (chapter_11.paired_lead, (0.98, 0.498)),
    (chapter_11.test_digits, 32_000),
    (chapter_11.test_digits, (1.96 / 0.002) ** 2 * 0.965 * 0.035),
    (chapter_08.gray, 0.0087),
    (chapter_08.gray, 0.0136),
    (chapter_10.ratio, 7 / 2**0.5),
    (chapter_10.ratio, 4.95),
    (chapter_09.fold_batch_norm, folded),
    (chapter_10.fixed, [False, False, True, True]),
    (chapter_10.fixed, [0, 0, 1, 1]),
]
MISSED = [
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, w, b), "not always 1e-5"),
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, eps=e), "are missing"),
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, w, eps=e), "the bias is"),
    (chapter_01.from_scratch, lambda x, n, w, b, e: F.layer_norm(x, n, w, b, 0.0), "ε is missing"),
    (chapter_01.over_channels, reshaped, "permute"),
    (chapter_01.break_it, [1, 1, 1, 1], "one must differ"),
    (chapter_01.break_it, [1, 2, 3, 4], "closer"),
    (chapter_01.break_it, [1, 2, nan, 4], "finite"),
    (chapter_01.break_it, [1e300, 1, 1, 1], "finite"),
    (chapter_01.break_it, [1, 1, 2], "four numbers"),
    (chapter_01.break_it, ["a"], "list of four numbers"),
    (chapter_02.convert_eps, lambda std: 1e-5, "another function"),
    (chapter_02.smallest_half_eps, 1e-7, "go down"),
    (chapter_02.smallest_half_eps, 2.9e-8, "go up"),
    (chapter_02.smallest_half_eps, 3e-8, "says to which"),
    (chapter_02.smallest_half_eps, inf, "positive number"),
    (chapter_02.break_variance, [1, 2, 3, 4], "still positive"),
    (chapter_02.break_variance, [nan, 1, 2, 3], "not finite"),
    (chapter_02.break_variance, [1e20, 1, 2, 3], "not finite"),
    (chapter_02.break_variance, [7, 7, 7, 7], "equal"),
    (chapter_03.row_mean, lambda x_hat, w, b: b.mean(), "what γ favors"),
    (chapter_03.row_mean, lambda x_hat, w, b: w * x_hat + b, "average it"),
    (chapter_03.fold, lambda W, b, w, bias: (W * w, b), "β is missing"),
    (chapter_03.fold, lambda W, b, w, bias: W * w, "where 2 are expected"),
    (chapter_03.undo, lambda x, eps: (x.std(correction=0), x.mean()), "ε is missing"),
    (chapter_03.undo, lambda x, eps: (x.mean(), (x.var(correction=0) + eps).sqrt()), "other order"),
    (chapter_03.break_mean, [1] * 8, "larger where x̂ is positive"),
    (chapter_03.break_mean, [0.9, 1, 1, 1, 1, 1, 1, 1.1], "larger where x̂ is large"),
    (chapter_03.break_mean, [0, 1, 1, 1, 1, 1, 1, 2], "the mean of y is 0.44"),
    (chapter_03.break_mean, [2] * 8, "average 2, not 1"),
    (chapter_03.break_mean, [8], "eight numbers"),
    (chapter_03.break_mean, [nan] * 8, "finite"),
    (chapter_04.dsigma, [0.25], "a list of one number instead of 8 numbers"),
    (chapter_04.dsigma, [-0.19, -0.06, -0.06, -0.06, 0, 0, 0.5, 0.25], "place 7 of 8"),
    (chapter_04.dsigma, (ROW - 5) / 14, "you divided by H − 1"),
    (chapter_04.dsigma, (ROW - 5) / 4, "the root has one too"),
    (chapter_04.dsigma, ROW / 16, "subtract the mean"),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: jacobian(lambda v: formula.layer_norm(v, w, eps=eps), x),
        "under the root",
    ),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: (
            jacobian(lambda v: formula.layer_norm(v, w, eps=eps, eps_at="std"), x)
            * (x.std(correction=0) + eps)
        ),
        "divide by s",
    ),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: jacobian(lambda v: formula.layer_norm(v, w, eps=eps, eps_at="std"), x).T,
        "denominator layout",
    ),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: jacobian(lambda v: formula.layer_norm(v, eps=eps, eps_at="std"), x),
        "γ is missing",
    ),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: jacobian(lambda v: formula.layer_norm(v, w, eps=0.0), x),
        "ε is missing",
    ),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: jacobian(lambda v: w * (v - v.mean()) / (v.std() + eps), x),
        "a σ that divides by H − 1",
    ),
    (
        chapter_04.jacobian_beside,
        lambda x, w, eps: (
            w[:, None]
            / (x.std() + eps)
            * (
                torch.eye(len(x))
                - 1 / len(x)
                - torch.outer(x - x.mean(), x - x.mean()) / (x.std() + eps) / x.std() / len(x)
            )
        ),
        "x.std() divides by H − 1",
    ),
    (chapter_04.break_test, [0] * 8, "zeros"),
    (chapter_04.break_test, [1, 1 / 2, 1, 1 / 3, 1, 1 / 2, 1, 1], "constant"),
    (chapter_04.break_test, [0, 0, 0, 0, 0, 0, 0, 1], "the mean of g x̂ is 0.25"),
    (chapter_04.break_test, [1, 2], "eight numbers"),
    (chapter_04.break_test, [inf] * 8, "finite"),
    (chapter_04.break_test, [1e308] * 8, "the mean of g x̂"),
    (chapter_04.break_test, [1j] * 8, "list of eight numbers"),
    (chapter_05.count, [5, 5], "2 numbers instead of 3 numbers"),
    (chapter_05.read, lambda u, w, v: torch.einsum("bi,bk,k,b->bi", u, u, w, v), "b is summed"),
    (chapter_05.read, lambda u, w, v: (u * u * w).T @ v, "two letters"),
    (chapter_05.read, lambda u, w, v: u.T @ (v * (u @ w)) if len(v) == len(w) else w, "1 of 2"),
    (chapter_05.game, ALL_SEVEN | {"x": lambda dcentered: dcentered}, "6 of 7 exact"),
    (chapter_05.game, {}, "0 of 7 exact"),
    (chapter_05.break_axis, [[1, 2], [3, 5]], "off by 1: feature k is divided by the s of row k"),
    (chapter_05.break_axis, [[1, 2, 3], [1, 2, 4]], "s has 2 rows, and 3 is not 2"),
    (chapter_05.break_axis, [[1, 2], [1, 2]], "let two differ"),
    (chapter_05.break_axis, [[1, 1], [2, 2]], "constant"),
    (chapter_05.break_axis, [[1, nan], [2, 2]], "finite"),
    (chapter_05.break_axis, [[1e200, 2], [1e200, 5]], "does not fit into float64"),
    (chapter_05.break_axis, [1, 2], "two rows"),
    (chapter_05.break_axis, [[1], [2, 3]], "list of rows"),
    (chapter_06.weight_only, without_mean_term, "mean term"),
    (chapter_06.weight_only, gamma_outside, "γ comes first"),
    (chapter_06.weight_only, per_step, "all leading dimensions"),
    (chapter_06.weight_only, lambda dy, x, w, eps: by_autograd(dy, x, w, 1e-5), "use it"),
    (chapter_06.weight_only, gamma_forgotten, "forgets γ"),
    (chapter_06.weight_only, x_hat_once, "one in front"),
    (chapter_06.weight_only, lambda dy, x, w, eps: by_autograd(dy, x, w, 0.0), "forgets ε"),
    (chapter_06.weight_only, lambda dy, x, w, eps: by_autograd(dy, x, w, eps)[0], "2 are expected"),
    (chapter_06.break_eps, [1, 2, 3, 4], "100.0%"),
    (chapter_06.break_eps, [1, 1, 1, 1.001], "closer"),
    (chapter_06.break_eps, [7, 7, 7, 7], "all four are equal"),
    (chapter_06.break_eps, [1e300, 1, 1, 1], "finite variance"),
    (chapter_06.break_eps, [nan, 1, 1, 1], "finite"),
    (chapter_06.break_eps, [1], "four numbers"),
    (chapter_06.saved_for, [4, 3], "2 numbers instead of 3"),
    (chapter_06.break_half, [250, -200, 100, 3], "still fits into float16"),
    (chapter_06.break_half, [1000, 0, 0, 0], "between −300 and 300"),
    (chapter_06.break_half, [nan, 0, 0, 0], "between −300 and 300"),
    (chapter_06.break_half, [7, 7, 7, 7.0001], "equal in float16"),
    (chapter_06.break_half, [290], "four numbers"),
    (chapter_07.count_bytes, [12, 10], "off by about 4"),
    (chapter_07.count_bytes, 8, "one number instead of 2 numbers"),
    (chapter_07.masked_lanes, [0, 1, -1e30, inf], "too large at place 3 of 4"),
    (chapter_07.break_careless, [1, 2, 3, 4, 5, 6], "2.4 times"),
    (chapter_07.break_careless, [-1, 1, -1, 1, -1, 1], "1 times"),
    (chapter_07.break_careless, [7] * 6, "one must differ"),
    (chapter_07.break_careless, [7, 8], "six numbers"),
    (chapter_07.break_careless, [nan] * 6, "finite"),
    (chapter_08.forget_bias, [0, 2.5], "off by"),
    (chapter_08.gru, gru_of_the_authors, "1 − z to the old state"),
    (chapter_08.gru, gru_that_resets_first, "it multiplies h"),
    (chapter_08.gru, gru_that_normalizes_the_sum, "not their sum"),
    (chapter_08.gru, lambda x, h, W_x, W_h, W, U: x @ W.T, "off by"),
    (chapter_08.break_forgetting, 0.0501, "close the gate further"),
    (chapter_08.break_forgetting, 0.0065, "swallowed by ε"),
    (chapter_08.break_forgetting, 0, "swallowed by ε"),
    (chapter_08.break_forgetting, -0.02, "between 0 and 1"),
    (chapter_08.break_forgetting, nan, "between 0 and 1"),
    (chapter_08.break_forgetting, [0.02] * 4, "one number"),
    (chapter_09.rms_column, [True] * 6, "is wrong"),
    (chapter_09.rms_column, [1, 0, 0, 1, 0, 2], "numbers instead of True or False"),
    (chapter_11.one_step, [7, 24 / 7, 9 / 49], "right angle"),
    (chapter_11.one_step, [73**0.5, 24 / 73**0.5, 9 / 73], "length η"),
    (chapter_11.one_step, [5, 13.33, 0.36], "shorter gradient"),
    (chapter_11.one_step, [5, 4.8, 2.78], "falls as W grows"),
    (chapter_11.one_step, [7, 8, 1], "right angle"),
    (chapter_11.one_step, [5, 8, 1], "the gradient has changed too"),
    (chapter_11.one_step, [5, 4.8, 1], "the effective rate is η/‖W‖²"),
    (chapter_11.one_step, [5, 2.88, 0.36], "not as its square"),
    (chapter_11.one_step, [5, 4.8, 0.6], "square of ‖W‖"),
    (chapter_11.one_step, [4, 4.8, 0.36], "‖W‖: too small"),
    (chapter_11.one_step, [5, 4.8], "you gave 2 numbers"),
    (chapter_11.balance, lambda lr, decay, c: (2 * lr * decay) ** 0.5 / c, "the square of it too"),
    (chapter_11.balance, lambda lr, decay, c: (lr * decay) ** 0.5 / c, "square of 1 − ηλ"),
    (
        chapter_11.balance,
        lambda lr, decay, c: (1 - (1 - lr * decay) ** 2) ** 0.5,
        "c is missing",
    ),
    (chapter_11.balance, lambda lr, decay, c: lr, "off by"),
    (chapter_09.reductions, [True, False], "2 values instead of 4 values"),
    (chapter_09.reductions, [1, 0, 1, 3], "numbers instead of True or False"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, w, 1e-5), "off by"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, w, 0.0), "ε is missing"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, None, eps), "γ is missing"),
    (chapter_09.rms_jacobian, lambda x, w, eps: rms_jacobian(x, w, eps).T, "to the output"),
    (
        chapter_09.rms_jacobian,
        lambda x, w, eps: torch.diag(w * (x.square().mean() + eps).rsqrt()),
        "r depends on x too",
    ),
    (
        chapter_09.rms_jacobian,
        lambda x, w, eps: jacobian(lambda v: F.layer_norm(v, v.shape, w, eps=eps), x),
        "subtracts no mean",
    ),
    (
        chapter_09.rms_jacobian,
        lambda x, w, eps: rms_jacobian(x, w * (x.square().mean() + eps).sqrt(), eps),
        "divide by r",
    ),
    (chapter_10.break_pre_norm, [1, 2, 3, 4, 5, 6, 7, 8], "turns your row by"),
    (chapter_10.break_pre_norm, [0] * 8, "no direction"),
    (chapter_10.break_pre_norm, [1e200] * 8, "below 1e100"),
    (chapter_10.break_pre_norm, [nan] * 8, "finite"),
    (chapter_10.break_pre_norm, [1000], "eight numbers"),
    (chapter_03.first_values, lambda gamma, beta: trained(beta, gamma), "swapped"),
    (chapter_03.first_values, trained_beside_norm, "γ and β are learned too"),
    (chapter_03.first_values, functools.partial(trained, after=True), "before the step"),
    (chapter_03.first_values, functools.partial(trained, zero=False), "pile up"),
    (
        chapter_03.first_values,
        functools.partial(trained, weights=TRAINED_BEFORE),
        "fresh weights",
    ),
    (chapter_03.first_values, lambda gamma, beta: trained(gamma, 0.0), "β starts at 0"),
    (chapter_03.first_values, lambda gamma, beta: trained(1.0, beta), "γ starts at 1"),
    (chapter_03.first_values, lambda gamma, beta: trained(gamma, beta)[1:], "24 numbers instead"),
    (chapter_11.paired_lead, [0.98], "instead of 2 numbers"),
    (chapter_11.test_digits, 10_000, "too small"),
    (chapter_08.gray, 0.0086, "too small"),
    (chapter_08.gray, 0.0137, "too large"),
    (chapter_08.gray, 0, "positive"),
    (chapter_08.gray, nan, "positive"),
    (chapter_08.gray, [0.01] * 2, "one number"),
    (chapter_09.fold_batch_norm, lambda W, *rest: (W, rest[0]), "off by"),
    (chapter_09.fold_batch_norm, columns_for_rows, "multiply rows"),
    (chapter_09.fold_batch_norm, lambda *g: folded(*g[:6], 0.0), "ε is missing"),
    (chapter_09.fold_batch_norm, lambda *g: folded(*g[:5], 0, g[6]), "bias of the norm"),
    (chapter_09.fold_batch_norm, without_root, "the root of the variance"),
]


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_a_right_answer_is_right(exercise: Any, answer: Any) -> None:
    assert exercise.verdict(answer).message == "right"


@pytest.mark.parametrize(("exercise", "answer", "hint"), MISSED)
def test_a_near_miss_gets_a_hint_that_fits(exercise: Any, answer: Any, hint: str) -> None:
    verdict = exercise.verdict(answer)
    assert not verdict.right
    assert verdict.message.startswith("not yet: ")
    assert hint in verdict.message
