"""The equations are the paper's, or with the other carry those of PyTorch's custom_lstms.

Three cells that are in use are written here in NumPy, from what their authors published, each with
its own parameters and order of gates. N is what normalizes, without γ and β.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lstm_cases import F64, case, every_carry, rand

import lnlib
from lnlib.lstm import formula
from lnlib.lstm.formula import NAMES

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
EPS = 0.1  # so large that its place can be seen
ROUNDING = 1e-12  # a few hundred float64 roundings of numbers near 1
DIFFERENT = 0.05  # of outputs within ±1: what no rounding makes


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def N(a):
    centered = a - a.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + EPS)


def paper(p, x, h, c):
    """Ba, Kiros, Hinton 2016, eq. 20 to 22, with the bias of each layer norm and b."""
    a = (p.gamma_h * N(h @ p.W_h.T) + p.beta_h) + (p.gamma_x * N(x @ p.W_x.T) + p.beta_x) + p.b
    f, i, o, g = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def haste(p, x, h, c):
    """lmnt-com/haste, LayerNormLSTM: one bias, another order."""
    a = p.gamma_x * N(x @ p.W_x.T) + p.gamma_h * N(h @ p.W_h.T) + p.b
    i, g, f, o = np.split(a, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(p.gamma_c * N(c) + p.beta_c), c


def custom_lstms(p, x, h, c):
    """PyTorch, benchmarks/fastrnns/custom_lstms.py, as TensorFlow Addons has it."""
    a = (p.gamma_x * N(x @ p.W_x.T) + p.beta_x + p.b) + (p.gamma_h * N(h @ p.W_h.T) + p.beta_h)
    i, f, g, o = np.split(a, 4, axis=-1)
    c = p.gamma_c * N(sigmoid(f) * c + sigmoid(i) * np.tanh(g)) + p.beta_c
    return sigmoid(o) * np.tanh(c), c


every_cell = pytest.mark.parametrize(
    ("cell", "order", "carry"),
    [(paper, "fiog", "raw"), (haste, "igfo", "raw"), (custom_lstms, "ifgo", "normalized")],
)


def numpy(*tensors):
    return [tensor.detach().double().numpy() for tensor in tensors]


def parameters(weights, order):
    """Return ours as a cell has them, with its order of gates; the betas of norms are 0."""

    def ordered(tensor):
        blocks = dict(zip("ifgo", np.split(*numpy(tensor), 4), strict=True))
        return np.concatenate([blocks[gate] for gate in order])

    zeros = torch.zeros(4 * H)
    return SimpleNamespace(
        W_x=ordered(weights.ih),
        W_h=ordered(weights.hh),
        b=ordered(zeros if weights.bias is None else weights.bias),
        beta_x=ordered(zeros),
        beta_h=ordered(zeros),
        gamma_x=ordered(weights.norm_ih),
        gamma_h=ordered(weights.norm_hh),
        gamma_c=numpy(weights.norm_c)[0],
        beta_c=0 if weights.norm_c_bias is None else numpy(weights.norm_c_bias)[0],
    )


def theirs(cell, given, p):
    x, h, c = numpy(given.x, given.h, given.c)
    outputs = []
    for x_t in x.reshape(T, B, I):
        h, c = cell(p, x_t, h, c)
        outputs.append(h)
    return np.concatenate(outputs), h, c


def ours(given, carry):
    return numpy(*formula.lstm(*given, formula.normalizing(EPS), carry))


def distance(found, expected):
    return max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("bias", [True, False])
@every_cell
def test_each_carry_is_the_function_of_the_projects_it_is_named_after(cell, order, carry, bias):
    given = case((B,) * T, I, H, bias)
    expected = theirs(cell, given, parameters(given.weights, order))
    assert distance(ours(given, carry), expected) < ROUNDING


def test_of_the_papers_three_biases_only_the_sum_counts():
    given = case((B,) * T, I, H)
    p = parameters(given.weights, "fiog")
    p.beta_x, p.beta_h = numpy(rand(4 * H, seed=30), rand(4 * H, seed=31))
    assert distance(ours(given, "raw"), theirs(paper, given, p)) > DIFFERENT
    p.b = p.b - p.beta_x - p.beta_h
    assert distance(ours(given, "raw"), theirs(paper, given, p)) < ROUNDING


@every_carry
def test_the_modules_compute_these_equations(carry):
    given = case((B,) * T, I, H)
    x, state, expected = given.x.unflatten(0, (T, B)), given[1:3], ours(given, carry)
    values = dict(zip(NAMES, given.weights, strict=True))
    network = lnlib.LayerNormLSTM(I, H, dtype=F64, carry=carry, eps=EPS)
    network.load_state_dict({f"{name}_l0": value for name, value in values.items()})
    output, (h_n, c_n) = network(x, [each[None] for each in state])
    assert distance(numpy(output.flatten(0, 1), h_n[0], c_n[0]), expected) < ROUNDING
    cell = lnlib.LayerNormLSTMCell(I, H, dtype=F64, carry=carry, eps=EPS)
    cell.load_state_dict(values)
    for x_t in x:
        state = cell(x_t, state)
    assert distance(numpy(*state), expected[1:]) < ROUNDING
