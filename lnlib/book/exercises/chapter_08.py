"""Chapter 08: the layer-normalized LSTM."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.book.exercises.base import Exercise, Search
from lnlib.book.exercises.inputs import normal

forget_bias = Exercise(
    "how much higher the forget gate's sums are on average, by the place of a bias of 5",
    truth=[0.0, 5.0],
    slips={
        "the norm of a gate takes the mean off that gate's sums; what becomes of a constant?": [
            *(5, 5),
        ],
        "what is added after a norm stays": [0, 0],
        "it is the other way round: before the norm, after the norm": [5, 0],
    },
    ask="answer with two numbers: before the norm, after it",
    why=(
        "Before the norm a constant is part of the mean, which the norm subtracts; after it "
        "nothing takes the constant away."
    ),
)


def _normalized(a: Tensor) -> Tensor:
    return F.layer_norm(a, a.shape[-1:])


def _gates(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor) -> tuple[Tensor, Tensor]:
    z, r = (_normalized(h @ W_h.T) + _normalized(x @ W_x.T)).sigmoid().chunk(2, dim=-1)
    return z, r


def _gru(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor) -> Tensor:
    z, r = _gates(x, h, W_x, W_h)
    candidate = torch.tanh(_normalized(x @ W.T) + r * _normalized(h @ U.T))
    return (1 - z) * h + z * candidate


def _update_the_other_way(
    x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor
) -> Tensor:
    z, r = _gates(x, h, W_x, W_h)
    candidate = torch.tanh(_normalized(x @ W.T) + r * _normalized(h @ U.T))
    return z * h + (1 - z) * candidate


def _reset_inside(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor) -> Tensor:
    z, r = _gates(x, h, W_x, W_h)
    candidate = torch.tanh(_normalized(x @ W.T) + _normalized((r * h) @ U.T))
    return (1 - z) * h + z * candidate


def _reset_before_norm(
    x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor
) -> Tensor:
    z, r = _gates(x, h, W_x, W_h)
    candidate = torch.tanh(_normalized(x @ W.T) + _normalized(r * (h @ U.T)))
    return (1 - z) * h + z * candidate


def _gates_swapped(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor) -> Tensor:
    r, z = _gates(x, h, W_x, W_h)
    candidate = torch.tanh(_normalized(x @ W.T) + r * _normalized(h @ U.T))
    return (1 - z) * h + z * candidate


def _sum_normalized(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor) -> Tensor:
    z, r = _normalized(h @ W_h.T + x @ W_x.T).sigmoid().chunk(2, dim=-1)
    candidate = torch.tanh(_normalized(x @ W.T) + r * _normalized(h @ U.T))
    return (1 - z) * h + z * candidate


def _gate_by_gate(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor) -> Tensor:
    halves = zip(W_x.chunk(2), W_h.chunk(2), strict=True)
    z, r = (_normalized(h @ b.T) + _normalized(x @ a.T) for a, b in halves)
    candidate = torch.tanh(_normalized(x @ W.T) + r.sigmoid() * _normalized(h @ U.T))
    return h + z.sigmoid() * (candidate - h)


def _without_norm(x: Tensor, h: Tensor, W_x: Tensor, W_h: Tensor, W: Tensor, U: Tensor) -> Tensor:
    z, r = (h @ W_h.T + x @ W_x.T).sigmoid().chunk(2, dim=-1)
    return (1 - z) * h + z * torch.tanh(x @ W.T + r * (h @ U.T))


gru = Exercise(
    "one step of the layer-normalized GRU",
    truth=_gru,
    inputs=[
        (
            normal(B, 5, seed=B),
            normal(B, H, seed=B + 1),
            *(normal(2 * H, 5, seed=B + 2), normal(2 * H, H, seed=B + 3)),
            *(normal(H, 5, seed=B + 4), normal(H, H, seed=B + 5)),
        )
        for B, H in ((3, 7), (4, 6))
    ],
    slips={
        "z belongs to the candidate, 1 − z to the old state": _update_the_other_way,
        "the reset gate multiplies N(U h) from outside; here it multiplies h": _reset_inside,
        "the reset gate multiplies N(U h) from outside; here it is in the norm": _reset_before_norm,
        "the first half of the numbers is z, the second r": _gates_swapped,
        "the two terms are normalized separately, not their sum": _sum_normalized,
        "one norm goes over all 2H numbers, not one for each gate": _gate_by_gate,
        "the norms are missing": _without_norm,
    },
    ask="write a function of x, h, W_x, W_h, W and U",
)


# x_hat of the book's row; its size is 1.
CELL = torch.tensor([-1.5, -0.5, -0.5, -0.5, 0.0, 0.0, 1.0, 2.0], dtype=torch.float64)


def _why_the_cell_is_forgotten(gate: Tensor) -> str | None:
    if not 0 <= gate <= 1:
        return "a gate is between 0 and 1"
    raw = gate * CELL
    size = float(raw.square().mean().sqrt())
    if size > 0.05:
        return f"the raw cell still has size {size:.2g}; close the gate further"
    left = float(_normalized(raw).square().mean().sqrt())
    if left < 0.9:
        return f"the normalized cell has size {left:.2g}: so small a cell is swallowed by ε"
    return None


break_forgetting = Search(
    "a forget gate that forgets, and a norm that brings the cell back",
    wrong=_why_the_cell_is_forgotten,
    ask="answer with a number between 0 and 1",
    shape=(),
    why=(
        "The norm does not see a factor as long as the variance that is left is large beside ε,"
        " so [the normalized cell](#explorer-cell?norm=normalized) comes back to its old size."
    ),
)

VARIANCE = 1 / (3 * 128)  # of PyTorch's initial values of W_x, with a state of 128


def _why_no_gray(eps: Tensor) -> str | None:
    if not 0 < eps < math.inf:
        return "ε is a positive number"
    full, half = (x / math.sqrt(x**2 + float(eps) / VARIANCE) for x in (1.0, 0.5))
    if half / full > 0.55:
        return f"half the ink counts as {half / full:.2g} of full ink; ε is too small"
    if full < 0.4:
        return f"full ink has the factor {full:.2g} only; ε is too large"
    return None


gray = Search(
    "an ε with which layer norm of one number sees gray",
    wrong=_why_no_gray,
    ask="answer with a number",
    shape=(),
    why=(
        "Your ε is more than three times the variance that it is added to, so the norm has "
        "nearly ceased to be one, and gray stays gray."
    ),
)
