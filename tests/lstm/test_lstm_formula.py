"""The equations are the paper's, or with the other carry those of PyTorch's custom_lstms.

Three cells that are in use are written here in NumPy, from what their authors published, each with
its own parameters and order of gates. N is what normalizes, without γ and β.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lstm_cases import CARRIES, EPS, F64, case, every_carry, rand
from torch import nn

import lnlib
from lnlib.lstm import formula
from lnlib.lstm.formula import NAMES, Weights

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
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


CELLS = {"raw": {paper: "fiog", haste: "igfo"}, "normalized": {custom_lstms: "ifgo"}}
every_cell = pytest.mark.parametrize(
    ("carry", "cell"), [(carry, cell) for carry in CARRIES for cell in CELLS[carry]]
)


def numpy(*tensors):
    return [tensor.detach().double().numpy() for tensor in tensors]


def parameters(weights, order):
    """Return ours as a cell has them, with its order of gates; the betas of norms are 0."""
    ih, hh, bias, norm_ih, norm_hh, norm_c, beta_c = (
        0 if w is None else numpy(w)[0] for w in weights
    )

    def ordered(array):
        blocks = dict(zip("ifgo", np.split(array, 4), strict=True))
        return np.concatenate([blocks[gate] for gate in order])

    zeros = np.zeros(len(ih))
    return SimpleNamespace(
        W_x=ordered(ih),
        W_h=ordered(hh),
        b=ordered(zeros + bias),
        beta_x=zeros,
        beta_h=zeros,
        gamma_x=ordered(norm_ih),
        gamma_h=ordered(norm_hh),
        gamma_c=norm_c,
        beta_c=beta_c,
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
def test_each_carry_is_the_function_of_the_projects_it_is_named_after(carry, cell, bias):
    given = case((B,) * T, I, H, bias)
    expected = theirs(cell, given, parameters(given.weights, CELLS[carry][cell]))
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
    network = lnlib.LayerNormLSTM(I, H, dtype=F64, carry=carry, eps=EPS)
    cell = lnlib.LayerNormLSTMCell(I, H, dtype=F64, carry=carry, eps=EPS)
    for module, suffix in ((network, "_l0"), (cell, "")):
        values = zip(NAMES, given.weights, strict=True)
        module.load_state_dict({name + suffix: value for name, value in values})
    expected = ours(given, carry)
    x = given.x.unflatten(0, (T, B))
    output, (h_n, c_n) = network(x, (given.h[None], given.c[None]))
    assert distance(numpy(output.flatten(0, 1), h_n[0], c_n[0]), expected) < ROUNDING
    state = given.h, given.c
    for x_t in x:
        state = cell(x_t, state)
    assert distance(numpy(*state), expected[1:]) < ROUNDING


def test_eps_is_added_to_the_variance_under_the_root():
    given = case((B,) * T, I, H)
    x, W, gamma, bias = numpy(given.x, given.weights.ih, given.weights.norm_ih, given.weights.bias)
    a = x @ W.T
    for eps in (1e-5, 0.1, 3.0):
        x_hat = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + eps)
        [found] = numpy(formula.gate_inputs(given.x, given.weights, formula.normalizing(eps)))
        assert np.abs(found - (gamma * x_hat + bias)).max() < ROUNDING


def test_without_normalization_the_equations_are_pytorchs_lstm():
    torch.manual_seed(0)
    layer = nn.LSTM(I, H, dtype=F64)
    given = case((B,) * T, I, H)
    matrices = layer.weight_ih_l0, layer.weight_hh_l0
    ones = torch.ones(4 * H, dtype=F64)
    weights = Weights(*matrices, layer.bias_ih_l0 + layer.bias_hh_l0, ones, ones, ones[:H], None)
    found = formula.lstm(*given[:3], weights, [B] * T, formula.not_normalizing, "raw")
    output, (h_n, c_n) = layer(given.x.unflatten(0, (T, B)), (given.h[None], given.c[None]))
    expected = output.flatten(0, 1), h_n[0], c_n[0]
    wanted = [*given[:3], *matrices, layer.bias_ih_l0]
    dys = [rand(*y.shape, seed=9) for y in found]
    assert distance(numpy(*found), numpy(*expected)) < ROUNDING
    gradients = (torch.autograd.grad(results, wanted, dys) for results in (found, expected))
    assert distance(*(numpy(*grads) for grads in gradients)) < ROUNDING
