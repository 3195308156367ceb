"""The equations are the paper's, or with the other carry PyTorch's; and nobody else's."""

import numpy as np
import pytest
import torch
from lstm_cases import CARRIES, case, rand
from lstm_oracles import (
    EPS,
    ORDERS,
    SAME_AS,
    as_cell_has_them,
    numpy,
    paper,
    run,
    to_pytorch,
    weights_of_pytorch,
)
from torch import nn

import lnlib
from lnlib.lstm import formula
from lnlib.lstm.formula import Weights

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
ROUNDING = 1e-12  # a few hundred float64 roundings of numbers near 1
DIFFERENT = 0.05  # of outputs within ±1: what no rounding makes; the closest rival is at 0.2
CELLS = list(ORDERS)


def ours(given, carry, normalize=None):
    normalize = normalize or formula.normalizing(EPS)
    outputs, h, c = numpy(*formula.lstm(*given, normalize, carry))
    return outputs.reshape(T, B, H), h, c


def theirs(cell, given):
    x, h, c = numpy(given.x, given.h, given.c)
    return run(cell, as_cell_has_them(given.weights, ORDERS[cell]), x.reshape(T, B, I), h, c)


def distance(found, expected):
    return max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("carry", "cell"), [(carry, cell) for carry in CARRIES for cell in SAME_AS[carry]]
)
def test_each_carry_is_the_function_of_the_projects_it_is_named_after(carry, cell, bias):
    given = case((B,) * T, I, H, bias)
    assert distance(ours(given, carry), theirs(cell, given)) < ROUNDING


@pytest.mark.parametrize(
    ("carry", "cell"),
    [(carry, cell) for carry in CARRIES for cell in CELLS if cell not in SAME_AS[carry]],
)
def test_no_other_function_of_the_name_is_ours(carry, cell):
    given = case((B,) * T, I, H)
    assert distance(ours(given, carry)[:1], theirs(cell, given)[:1]) > DIFFERENT


@pytest.mark.parametrize("cell", CELLS)
def test_a_wrong_order_of_the_gates_would_show(cell):
    given = case((B,) * T, I, H)
    x, h, c = numpy(given.x, given.h, given.c)
    p = as_cell_has_them(given.weights, ORDERS[cell][::-1])
    found = run(cell, p, x.reshape(T, B, I), h, c)
    assert distance(found[:1], theirs(cell, given)[:1]) > DIFFERENT


def test_of_the_papers_three_biases_only_the_sum_counts():
    given = case((B,) * T, I, H)
    p = as_cell_has_them(given.weights, ORDERS[paper])
    x, h, c = numpy(given.x, given.h, given.c)
    expected = run(paper, p, x.reshape(T, B, I), h, c)
    p.beta_x, p.beta_h = numpy(rand(4 * H, seed=30), rand(4 * H, seed=31))
    assert distance(run(paper, p, x.reshape(T, B, I), h, c), expected) > DIFFERENT
    p.b = p.b - p.beta_x - p.beta_h
    assert distance(run(paper, p, x.reshape(T, B, I), h, c), expected) < ROUNDING
    assert distance(ours(given, "raw"), expected) < ROUNDING


@pytest.mark.parametrize("carry", CARRIES)
def test_the_modules_compute_these_equations(carry):
    given = case((B,) * T, I, H)
    network = lnlib.LayerNormLSTM(I, H, dtype=torch.float64, carry=carry, eps=EPS)
    cell = lnlib.LayerNormLSTMCell(I, H, dtype=torch.float64, carry=carry, eps=EPS)
    for module, suffix in ((network, "_l0"), (cell, "")):
        names = ("weight_ih", "weight_hh", "bias", "norm_ih_weight", "norm_hh_weight")
        names += ("norm_c_weight", "norm_c_bias")
        values = zip(names, given.weights, strict=True)
        module.load_state_dict({name + suffix: value for name, value in values})
    expected = theirs(SAME_AS[carry][0], given)
    x = given.x.unflatten(0, (T, B))
    output, (h_n, c_n) = network(x, (given.h[None], given.c[None]))
    assert distance(numpy(output, h_n[0], c_n[0]), expected) < ROUNDING
    h, c = given.h, given.c
    for x_t in x:
        h, c = cell(x_t, (h, c))
    assert distance(numpy(h, c), expected[1:]) < ROUNDING


def test_eps_is_added_to_the_variance_under_the_root():
    given = case((B,) * T, I, H)
    values = numpy(given.x, given.weights.ih, given.weights.norm_ih, given.weights.bias)
    x, W, gamma, bias = values
    a = x @ W.T
    centered = a - a.mean(-1, keepdims=True)
    for eps in (1e-5, 0.1, 3.0):
        expected = gamma * centered / np.sqrt(a.var(-1, keepdims=True) + eps) + bias
        [found] = numpy(formula.gate_inputs(given.x, given.weights, formula.normalizing(eps)))
        assert np.abs(found - expected).max() < ROUNDING


# With normalization off


def gradients(results, wanted):
    return torch.autograd.grad(results, wanted, [rand(*y.shape, seed=9) for y in results])


def test_without_normalization_the_equations_are_pytorchs_lstm():
    torch.manual_seed(0)
    layer = nn.LSTM(I, H, dtype=torch.float64)
    weights = Weights(*(weight.requires_grad_() for weight in weights_of_pytorch(layer)))
    x, h, c = (
        rand(*shape, seed=s).requires_grad_() for s, shape in enumerate(((T, B, I), (B, H), (B, H)))
    )
    output, (h_n, c_n) = layer(x, (h[None], c[None]))
    expected = output.flatten(0, 1), h_n[0], c_n[0]
    found = formula.lstm(x.flatten(0, 1), h, c, weights, [B] * T, formula.not_normalizing, "raw")
    inputs = (x, h, c)
    learned = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0)
    for a, b in zip(
        (*found, *gradients(found, (*inputs, *weights[:3]))),
        (*expected, *gradients(expected, (*inputs, *learned))),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("bias", [True, False])
def test_our_weights_without_normalization_make_pytorchs_lstm_ours(bias):
    given = case((B,) * T, I, H, bias)
    layer = nn.LSTM(I, H, dtype=torch.float64)
    to_pytorch(given.weights, layer)
    output, (h_n, c_n) = layer(given.x.unflatten(0, (T, B)), (given.h[None], given.c[None]))
    expected = numpy(output, h_n[0], c_n[0])
    assert distance(ours(given, "raw", formula.not_normalizing), expected) < ROUNDING
    assert distance(ours(given, "raw")[:1], expected[:1]) > DIFFERENT  # LN does do something
