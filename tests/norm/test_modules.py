"""`lnlib.LayerNorm` is a `torch.nn.LayerNorm` in everything but the arithmetic."""

import pytest
import torch
from norms import rand, randomized
from torch import nn

import lnlib
from lnlib.triton_kernel import runtime

X = rand(3, 7).float()
OPTIONS = [{}, {"eps": 0.1}, {"bias": False}, {"elementwise_affine": False}, {"dtype": torch.half}]


@pytest.mark.parametrize("shape", [7, [5, 7], torch.Size([7])])
@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_built_as_pytorch_builds_its_own_and_does_the_same(shape, options):
    theirs, ours = nn.LayerNorm(shape, **options), lnlib.LayerNorm(shape, **options)
    assert isinstance(ours, nn.LayerNorm)
    assert repr(ours) == repr(theirs)
    assert ours.normalized_shape == theirs.normalized_shape
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)
    ours.load_state_dict(randomized(theirs).state_dict())
    results = []
    for module in (ours.float(), theirs.float()):
        leaf = rand(3, 5, 7).float().requires_grad_()
        y = module(leaf)
        y.backward(rand(3, 5, 7, seed=1).float())
        results.append([y.detach(), leaf.grad, *(p.grad for p in module.parameters())])
    torch.testing.assert_close(*results, rtol=0, atol=1e-5)  # roundings of PyTorch's


def test_a_norm_whose_class_is_changed_is_one():
    norm = randomized(nn.LayerNorm(7))
    norm.__class__ = lnlib.LayerNorm
    assert torch.equal(norm(X), lnlib.layer_norm(X, (7,), norm.weight, norm.bias))
    assert "backend" not in repr(norm)


def test_the_backend_is_what_computes_and_is_shown_only_when_chosen():
    layer = randomized(lnlib.LayerNorm(7, backend="torch"))
    assert torch.equal(layer(X), nn.functional.layer_norm(X, (7,), layer.weight, layer.bias))
    assert repr(layer) == f"{repr(nn.LayerNorm(7))[:-1]}, backend='torch')"


def test_positional_arguments_keep_pytorchs_order_and_the_backend_has_none():
    ours = lnlib.LayerNorm(7, 0.1, True, False, "meta", torch.float16)
    assert (ours.eps, ours.bias) == (0.1, None)
    assert (ours.weight.device.type, ours.weight.dtype) == ("meta", torch.float16)
    with pytest.raises(TypeError):
        lnlib.LayerNorm(7, 1e-5, True, True, None, None, "reference")


def test_a_backend_that_is_not_there_is_refused_when_the_layer_is_built(monkeypatch):
    with pytest.raises(ValueError, match='no backend \'fast\'; choose one of "auto", "reference"'):
        lnlib.LayerNorm(7, backend="fast")
    lnlib.LayerNorm(7, backend="triton")
    monkeypatch.setattr(runtime, "why_not", lambda: "it is on holiday; call it back")
    with pytest.raises(ImportError, match=r"triton.* is not available: it is on holiday; call it"):
        lnlib.LayerNorm(7, backend="triton")
    lnlib.LayerNorm(7)  # "auto" does not insist
