"""A probe reads a classifier as it claims to: checked where the answer is known beforehand."""

import pytest
import torch
from torch import nn

import lnlib
from lnlib.book.experiments import probes
from lnlib.book.experiments.trainers import Reader

N, T, I, H = 23, 5, 28, 6  # noqa: E741  (I is the field's own name)


def test_gradient_norms_are_those_of_finite_differences():
    """The gradient of each loss alone: directional derivatives of h_t, with c_t held."""
    torch.manual_seed(0)
    model = Reader("LSTM", hidden=H).double()
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
