"""`lnlib.LayerNorm` is a `torch.nn.LayerNorm` in everything but the arithmetic."""

import copy
import pickle

import pytest
import torch
from norms import rand
from torch import nn

import lnlib
from lnlib.triton_kernel import runtime

TOLERANCE = 1e-5  # float32 roundings of PyTorch's layer on inputs near 1; ours is the closer one


def randomized(module: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=generator)
    return module


@pytest.mark.parametrize(
    "arguments",
    [
        {"normalized_shape": 7},
        {"normalized_shape": [5, 7], "eps": 0.1},
        {"normalized_shape": torch.Size([7]), "elementwise_affine": False},
        {"normalized_shape": (7,), "bias": False},
        {"normalized_shape": 7, "device": "cpu", "dtype": torch.float64},
    ],
)
def test_it_is_built_as_pytorch_builds_its_own(arguments):
    ours, theirs = lnlib.LayerNorm(**arguments), nn.LayerNorm(**arguments)
    assert isinstance(ours, nn.LayerNorm)
    assert repr(ours) == repr(theirs)
    assert ours.normalized_shape == theirs.normalized_shape
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name
        assert ours.state_dict()[name].dtype == value.dtype


def test_a_norm_whose_class_is_changed_is_one():
    norm = randomized(nn.LayerNorm(7))
    x = rand(3, 7).float()
    expected = norm(x)
    norm.__class__ = lnlib.LayerNorm
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=TOLERANCE)
    assert "backend" not in repr(norm)


@pytest.mark.parametrize("normalized_shape", [7, (5, 7)])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"elementwise_affine": False}])
def test_forward_and_gradients_agree_with_pytorch(normalized_shape, options):
    theirs = randomized(nn.LayerNorm(normalized_shape, eps=0.1, **options))
    ours = lnlib.LayerNorm(normalized_shape, eps=0.1, **options)
    ours.load_state_dict(theirs.state_dict())
    x, dy = rand(3, 5, 7).float(), rand(3, 5, 7, seed=1).float()
    results = []
    for module in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = module(leaf)
        y.backward(dy)
        results.append([y.detach(), leaf.grad, *(p.grad for p in module.parameters())])
    torch.testing.assert_close(*results, rtol=0, atol=TOLERANCE)
    theirs.load_state_dict(ours.state_dict())


def test_the_backend_is_what_computes_and_is_shown_only_when_chosen():
    x = rand(3, 7).float()
    layer = randomized(lnlib.LayerNorm(7, backend="torch"))
    assert torch.equal(layer(x), nn.functional.layer_norm(x, (7,), layer.weight, layer.bias))
    assert repr(layer) == f"{repr(nn.LayerNorm(7))[:-1]}, backend='torch')"
    assert "backend" not in repr(lnlib.LayerNorm(7))


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


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_the_same(duplicate):
    layer = randomized(lnlib.LayerNorm(7, backend="reference"))
    x = rand(3, 7).float()
    assert torch.equal(duplicate(layer)(x), layer(x))
    assert duplicate(layer).backend == "reference"
