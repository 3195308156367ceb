"""The exercises of the chapters: right answers are right, and near misses get a hint that helps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lnlib.book.exercises import chapter_01, chapter_02, chapter_03

nan, inf = float("nan"), float("inf")


def reshaped(x: Any, weight: Any, bias: Any) -> Any:
    last = x.reshape(2, 4, 5, 3)
    return F.layer_norm(last, (3,), weight, bias).reshape(x.shape)


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
    (chapter_02.smallest_half_eps, 3e-8),
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
]
MISSED = [
    (chapter_01.by_hand, [-3, -1, 1, 3], "divide"),
    (chapter_01.by_hand, [-1.16, -0.39, 0.39, 1.16], "H = 4"),
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
    (chapter_02.choose_eps, 1e-4, "leaves half"),
    (chapter_02.choose_eps, 0.01 / 9, "units of x²"),
    (chapter_02.convert_eps, lambda std: 1e-5, "another function"),
    (chapter_02.smallest_half_eps, 1e-7, "go down"),
    (chapter_02.smallest_half_eps, 2.9e-8, "go up"),
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
