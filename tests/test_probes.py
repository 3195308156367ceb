"""A probe reads a classifier as it claims to: checked where the answer is known beforehand."""

import pytest
import torch
from torch import nn

import lnlib
from lnlib.book.experiments import probes
from lnlib.book.experiments.recurrent import Classifier

N, T, I, H = 23, 5, 3, 6  # noqa: E741  (I is the field's own name)


class Repeats(nn.Module):
    """A layer whose output is its input: what it answers is the label that a step spells out."""

    def forward(self, x, state=None):
        return x, (x[-1:], x[-1:])


@pytest.fixture
def spelled():
    """A classifier that answers with the largest of 10 features of the last step."""
    model = Classifier(Repeats(), 10)
    with torch.no_grad():
        model.label.weight.copy_(torch.eye(10))
        model.label.bias.zero_()
    return model.eval()


def spell(answers):
    """Return sequences (N, T, 10) that spell out answers (N, T)."""
    return nn.functional.one_hot(answers, 10).float()


def test_accuracy_is_counted_after_each_step(spelled, monkeypatch):
    monkeypatch.setattr(probes, "BATCH", 7)  # so that 23 is no multiple of it
    labels = torch.arange(N) % 10
    right_from = torch.arange(N) % (T + 1)  # the step from which an answer is right
    answers = (labels.unsqueeze(1) + (torch.arange(T) < right_from.unsqueeze(1)).long()) % 10
    accuracy = probes.accuracy_after_each_step(spelled, spell(answers), labels)
    expected = [(right_from <= step).sum().item() / N for step in range(T)]
    assert accuracy.tolist() == pytest.approx(expected)


def test_a_stranger_has_another_label_and_all_labels_come():
    labels = torch.arange(500) % 10
    top = probes.strangers(labels)
    assert (labels[top] != labels).all()
    assert set(labels[top][labels == 3].tolist()) == set(range(10)) - {3}
    assert torch.equal(top, probes.strangers(labels))
    assert not torch.equal(top, probes.strangers(labels, seed=1))


@pytest.mark.parametrize("steps", [0, 2, T - 1, T])
def test_a_lent_beginning_is_that_of_the_other_and_the_rest_is_ones_own(spelled, steps):
    labels = torch.arange(N) % 10
    top = probes.strangers(labels)
    answers = labels.unsqueeze(1).expand(N, T)
    share = probes.answers(spelled, spell(answers), labels, top, steps)
    # This classifier answers by the last step, which is lent if all of them are.
    assert share == ((0.0, 1.0) if steps == T else (1.0, 0.0))


def test_gradient_norms_are_those_of_finite_differences():
    """The gradient of each loss alone: directional derivatives of h_t, with c_t held."""
    torch.manual_seed(0)
    model = Classifier(nn.LSTM(I, H), H).double()
    x, labels = torch.randn(N, T, I).double(), torch.randint(10, (N,))
    norms = probes.gradient_norms(model, x, labels)
    steps, delta = x.transpose(0, 1), 1e-5
    for step in range(T):
        _, (h, c) = model.recurrent(steps[: step + 1])

        def loss(h, c=c, step=step):
            rest = steps[step + 1 :]
            if len(rest):
                _, (h, _) = model.recurrent(rest, (h.contiguous(), c))
            return nn.functional.cross_entropy(model.label(h[0]), labels, reduction="none")

        with torch.no_grad():
            slopes = [
                (loss(h + delta * unit) - loss(h - delta * unit)) / (2 * delta)
                for unit in torch.eye(H).double()
            ]
        expected = torch.stack(slopes).norm(dim=0).mean()
        # Central differences in float64 are good to about 1e-10.
        torch.testing.assert_close(norms[step], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", [lnlib.LayerNormLSTM, nn.LSTM])
def test_gate_inputs_are_those_of_which_the_outputs_are_made(kind):
    """The outputs are computed again from the sums that enter the gates, and nothing else."""
    torch.manual_seed(0)
    layer = kind(7, 13, dtype=torch.float64)
    for parameter in layer.parameters():  # gammas that are not all 1
        nn.init.normal_(parameter)
    x = 3 + torch.randn(5, 3, 7, dtype=torch.float64)
    sums = probes.gate_inputs(layer, x)
    assert not sums.requires_grad
    c = torch.zeros(3, 13, dtype=torch.float64)
    for v, output in zip(sums, layer(x)[0], strict=True):
        i, f, g, o = v.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        n = c
        if kind is lnlib.LayerNormLSTM:
            std = (c.var(1, correction=0, keepdim=True) + layer.eps).sqrt()
            n = layer.norm_c_weight_l0 * (c - c.mean(1, keepdim=True)) / std + layer.norm_c_bias_l0
        # float64, five steps of some hundred operations on numbers near 1
        torch.testing.assert_close(o.sigmoid() * n.tanh(), output, rtol=0, atol=1e-12)


def test_weights_are_found_in_a_network_and_in_a_cell():
    cell, network = lnlib.LayerNormLSTMCell(7, 13), lnlib.LayerNormLSTM(7, 13)
    ends = "weight_ih weight_hh bias norm_ih_weight norm_hh_weight norm_c_weight norm_c_bias"
    for layer, suffix in ((cell, ""), (network, "_l0")):
        wanted = [layer.get_parameter(name + suffix) for name in ends.split()]
        found = probes.weights_of(layer)
        assert all(a is b for a, b in zip(found, wanted, strict=True))
