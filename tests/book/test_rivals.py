"""Each rival computes its equations, written out here once more in NumPy and float64."""

import numpy as np
import pytest
import torch

from lnlib.book.experiments.rivals import BatchNormLSTM, LayerNormRNN, NaiveLayerNormLSTM

T, B, I, H = 5, 3, 7, 6  # noqa: E741  (I is the field's own name)
EPS = 1e-5
ROUNDING = 1e-12  # a few hundred float64 roundings of numbers near 1


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def normalized(a, axis):
    centered = a - a.mean(axis, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis, keepdims=True) + EPS)


@pytest.fixture
def x():
    generator = torch.Generator().manual_seed(1)
    return 3 + torch.randn(T, B, I, dtype=torch.float64, generator=generator)


@pytest.fixture
def state():
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randn(1, B, H, dtype=torch.float64, generator=generator) for _ in "hc")


def randomized(layer):
    """Return ``layer`` in float64, with gammas and biases that are not 1 and 0."""
    generator = torch.Generator().manual_seed(3)
    layer.double()
    for parameter in layer.parameters():
        parameter.data = 0.5 + torch.randn(
            parameter.shape, dtype=torch.float64, generator=generator
        )
    return layer


def numbers(layer):
    return {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}


def lstm_by_formula(x, h, c, pre_activation, norm_c):
    """Return all outputs and the last states; what tells cells apart is given as functions."""
    outputs = []
    for t, x_t in enumerate(x):
        i, f, g, o = np.split(pre_activation(t, x_t, h), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(norm_c(t, c))
        outputs.append(h)
    return np.stack(outputs), h, c


def check_equal(found, expected):
    outputs, (h, c) = found
    assert h.shape == c.shape == (1, B, H)
    for got, wanted in zip((outputs, h[0], c[0]), expected, strict=True):
        assert np.abs(got.detach().numpy() - wanted).max() < ROUNDING


def test_the_naive_cell_is_its_equations_with_three_layer_norms(x, state):
    layer = randomized(NaiveLayerNormLSTM(I, H))
    p = numbers(layer)

    def norm(name, a):
        return normalized(a, 1) * p[f"norm_{name}.weight"] + p[f"norm_{name}.bias"]

    def pre_activation(t, x_t, h):
        return norm("x", x_t @ p["project_x.weight"].T) + norm("h", h @ p["project_h.weight"].T)

    h, c = (each[0].numpy() for each in state)
    expected = lstm_by_formula(x.numpy(), h, c, pre_activation, lambda t, c: norm("c", c))
    check_equal(layer(x, state), expected)


def batch_norm_formula(layer, x, h, c, norm):
    p = numbers(layer)

    def pre_activation(t, x_t, h):
        v = p["norm_hh_weight"] * norm("hh", t, h @ p["weight_hh"].T)
        return v + p["norm_ih_weight"] * norm("ih", t, x_t @ p["weight_ih"].T) + p["bias"]

    def norm_c(t, c):
        return p["norm_c_weight"] * norm("c", t, c) + p["norm_c_bias"]

    return lstm_by_formula(x.numpy(), h[0].numpy(), c[0].numpy(), pre_activation, norm_c)


def test_in_training_batch_norm_takes_mean_and_variance_over_the_batch(x, state):
    layer = randomized(BatchNormLSTM(I, H, max_length=T))
    expected = batch_norm_formula(layer, x, *state, lambda name, t, a: normalized(a, 0))
    check_equal(layer(x, state), expected)


def test_in_evaluation_each_step_takes_its_own_averages_and_later_ones_the_last(x, state):
    layer = randomized(BatchNormLSTM(I, H, max_length=T - 2))
    generator = torch.Generator().manual_seed(4)
    for buffer in layer.buffers():
        buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator, dtype=torch.float64))
    p = numbers(layer)

    def norm(name, t, a):
        t = min(t, T - 3)
        return (a - p[f"mean_{name}"][t]) / np.sqrt(p[f"var_{name}"][t] + EPS)

    check_equal(layer.eval()(x, state), batch_norm_formula(layer, x, *state, norm))


def test_running_averages_move_as_those_of_batchnorm1d(x):
    layer = randomized(BatchNormLSTM(I, H, max_length=T))
    layer(x)
    for step in range(T):
        norm = torch.nn.BatchNorm1d(4 * H, affine=False).double()
        norm(x[step] @ layer.weight_ih.T)
        torch.testing.assert_close(layer.mean_ih[step], norm.running_mean, rtol=0, atol=ROUNDING)
        torch.testing.assert_close(layer.var_ih[step], norm.running_var, rtol=0, atol=ROUNDING)


def test_evaluation_leaves_the_running_averages_alone(x):
    layer = randomized(BatchNormLSTM(I, H, max_length=T)).eval()
    before = {name: buffer.clone() for name, buffer in layer.named_buffers()}
    layer(x)
    assert all(torch.equal(before[name], buffer) for name, buffer in layer.named_buffers())


def test_gammas_of_batch_norm_begin_at_a_tenth():
    layer = BatchNormLSTM(I, H, max_length=T)
    gammas = [p for name, p in layer.named_parameters() if "norm" in name and "weight" in name]
    assert len(gammas) == 3
    assert all((gamma == 0.1).all() for gamma in gammas)


def test_noise_is_on_the_first_h_of_training_alone(x, state):
    layer = randomized(BatchNormLSTM(I, H, max_length=T, noise=0.1))
    assert not torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(layer(x, state)[0], layer(x, state)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_a_batch_of_one_row_has_no_variance_to_train_with(x):
    layer = BatchNormLSTM(I, H, max_length=T).double()
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        layer(x[:, :1])


def test_the_recurrent_network_of_equation_4_normalizes_the_sum(x, state):
    layer = randomized(LayerNormRNN(I, H))
    p = numbers(layer)
    h, outputs = state[0][0].numpy(), []
    for x_t in x.numpy():
        a = h @ p["project_h.weight"].T + x_t @ p["project_x.weight"].T
        h = np.tanh(p["norm.weight"] * normalized(a, 1) + p["norm.bias"])
        outputs.append(h)
    found, last = layer(x, state[0])
    assert np.abs(found.detach().numpy() - np.stack(outputs)).max() < ROUNDING
    assert torch.equal(last[0], found[-1])


@pytest.mark.parametrize("layer", [NaiveLayerNormLSTM(I, H), BatchNormLSTM(I, H, T, noise=0.0)])
def test_no_state_means_a_state_of_zeros(layer, x):
    layer.double()
    zeros = torch.zeros(1, B, H, dtype=torch.float64)
    assert torch.equal(layer(x)[0], layer(x, (zeros, zeros))[0])


def test_the_recurrent_network_starts_from_zeros_too(x):
    layer = LayerNormRNN(I, H).double()
    assert torch.equal(layer(x)[0], layer(x, torch.zeros(1, B, H, dtype=torch.float64))[0])


@pytest.mark.parametrize("kind", [NaiveLayerNormLSTM, LayerNormRNN])
def test_a_layer_norm_rival_does_not_look_across_the_batch(kind, x):
    layer = randomized(kind(I, H))
    whole, alone = layer(x)[0], layer(x[:, 1:2])[0]
    torch.testing.assert_close(whole[:, 1:2], alone, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(
    "layer", [NaiveLayerNormLSTM(I, H), BatchNormLSTM(I, H, T), LayerNormRNN(I, H)]
)
def test_every_parameter_has_a_gradient(layer, x):
    layer.double()
    outputs, _ = layer(x)
    generator = torch.Generator().manual_seed(5)
    outputs.backward(torch.randn(outputs.shape, dtype=torch.float64, generator=generator))
    assert all(parameter.grad.abs().max() > 0 for parameter in layer.parameters())
