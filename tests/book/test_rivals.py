"""Each rival computes its equations, written out here once more in NumPy and float64."""

import numpy as np
import pytest
import torch

from lnlib.book.experiments.rivals import BatchNormLSTM, LayerNormRNN, NaiveLayerNormLSTM

T, B, I, H = 5, 3, 7, 6  # noqa: E741  (I is the field's own name)
EPS = 1e-5
ROUNDING = 1e-12  # a few hundred float64 roundings of numbers near 1


def rand(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


X, STATE = 3 + rand(1, T, B, I), (rand(2, 1, B, H), rand(3, 1, B, H))


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def normalized(a, axis):
    centered = a - a.mean(axis, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis, keepdims=True) + EPS)


def randomized(layer):
    """Return ``layer`` in float64, with gammas and biases that are not 1 and 0."""
    for number, parameter in enumerate(layer.double().parameters()):
        parameter.data = 0.5 + rand(4 + number, *parameter.shape)
    return layer


def numbers(layer):
    return {name: tensor.detach().numpy() for name, tensor in layer.state_dict().items()}


def check_lstm(layer, pre_activation, norm_c):
    """Compare all outputs and the last states; what tells cells apart is given as functions."""
    h, c = (each[0].numpy() for each in STATE)
    outputs = []
    for t, x_t in enumerate(X.numpy()):
        i, f, g, o = np.split(pre_activation(t, x_t, h), 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(norm_c(t, c))
        outputs.append(h)
    found, (last_h, last_c) = layer(X, STATE)
    expected = np.stack(outputs), h[None], c[None]
    for got, wanted in zip((found, last_h, last_c), expected, strict=True):
        assert got.shape == wanted.shape
        assert np.abs(got.detach().numpy() - wanted).max() < ROUNDING


def check_batch_norm(layer, norm):
    p = numbers(layer)

    def pre_activation(t, x_t, h):
        v = p["norm_hh_weight"] * norm("hh", t, h @ p["weight_hh"].T)
        return v + p["norm_ih_weight"] * norm("ih", t, x_t @ p["weight_ih"].T) + p["bias"]

    def norm_c(t, c):
        return p["norm_c_weight"] * norm("c", t, c) + p["norm_c_bias"]

    check_lstm(layer, pre_activation, norm_c)


def test_batch_norm_takes_the_batch_in_training_and_a_steps_own_averages_in_evaluation():
    check_batch_norm(
        randomized(BatchNormLSTM(I, H, max_length=T)), lambda name, t, a: normalized(a, 0)
    )
    layer = randomized(BatchNormLSTM(I, H, max_length=T - 2)).eval()
    for number, buffer in enumerate(layer.buffers()):
        buffer.copy_(0.5 + rand(number, *buffer.shape).abs())
    p = numbers(layer)

    def by_averages(name, t, a):
        t = min(t, T - 3)  # later steps take the last
        return (a - p[f"mean_{name}"][t]) / np.sqrt(p[f"var_{name}"][t] + EPS)

    check_batch_norm(layer, by_averages)


def test_running_averages_move_in_training_alone_and_as_those_of_batchnorm1d():
    layer = randomized(BatchNormLSTM(I, H, max_length=T))
    layer(X)
    for step in range(T):
        norm = torch.nn.BatchNorm1d(4 * H, affine=False).double()
        norm(X[step] @ layer.weight_ih.T)
        torch.testing.assert_close(layer.mean_ih[step], norm.running_mean, rtol=0, atol=ROUNDING)
        torch.testing.assert_close(layer.var_ih[step], norm.running_var, rtol=0, atol=ROUNDING)
    before = {name: buffer.clone() for name, buffer in layer.eval().named_buffers()}
    layer(X)
    assert all(torch.equal(before[name], buffer) for name, buffer in layer.named_buffers())


def test_batch_norm_begins_at_a_tenth_with_noise_on_the_first_h_of_training_alone():
    layer = BatchNormLSTM(I, H, max_length=T, noise=0.1).double()
    gammas = [p for name, p in layer.named_parameters() if "norm" in name and "weight" in name]
    assert [gamma.unique().item() for gamma in gammas] == pytest.approx([0.1] * 3)
    assert not torch.equal(layer(X)[0], layer(X)[0])
    assert torch.equal(layer(X, STATE)[0], layer(X, STATE)[0])
    assert torch.equal(layer.eval()(X)[0], layer(X)[0])
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        layer.train()(X[:, :1])


def test_the_recurrent_network_of_equation_4_normalizes_the_sum():
    layer = randomized(LayerNormRNN(I, H))
    p = numbers(layer)
    h, outputs = STATE[0][0].numpy(), []
    for x_t in X.numpy():
        a = h @ p["project_h.weight"].T + x_t @ p["project_x.weight"].T
        h = np.tanh(p["norm.weight"] * normalized(a, 1) + p["norm.bias"])
        outputs.append(h)
    found, last = layer(X, STATE[0])
    assert np.abs(found.detach().numpy() - np.stack(outputs)).max() < ROUNDING
    assert torch.equal(last[0], found[-1])


@pytest.mark.parametrize(
    "layer", [NaiveLayerNormLSTM(I, H), BatchNormLSTM(I, H, T, noise=0.0), LayerNormRNN(I, H)]
)
def test_no_state_is_zeros_every_parameter_has_a_gradient_and_layer_norm_sees_one_row(layer):
    outputs, _ = randomized(layer)(X)
    zeros = torch.zeros(1, B, H, dtype=torch.float64)
    is_rnn = isinstance(layer, LayerNormRNN)
    assert torch.equal(outputs, layer(X, zeros if is_rnn else (zeros, zeros))[0])
    outputs.backward(rand(5, *outputs.shape))
    assert all(parameter.grad.abs().max() > 0 for parameter in layer.parameters())
    if not isinstance(layer, BatchNormLSTM):
        alone = layer(X[:, 1:2])[0]
        torch.testing.assert_close(outputs[:, 1:2], alone, rtol=0, atol=ROUNDING)
