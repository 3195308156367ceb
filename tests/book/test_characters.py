"""The Transformer is causal, and its norms stand where they shall and are what they say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lnlib
from lnlib import formula
from lnlib.book.experiments import characters
from lnlib.book.experiments.characters import (
    Attention,
    Block,
    DetachedLayerNorm,
    Jitter,
    NoisyLayerNorm,
    Transformer,
    persuasion,
)

LETTERS = 7


def tiny(**how: Any) -> Transformer:
    torch.manual_seed(0)
    return Transformer(LETTERS, **{"layers": 3, "width": 12, "heads": 3, "context": 11} | how)


def shaken(model: nn.Module) -> nn.Module:
    """Return it in float64 with random parameters, those of the norms too."""
    torch.manual_seed(4)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


# The text


def test_the_novel_is_the_whole_of_persuasion() -> None:
    alphabet, numbers = persuasion()
    assert (len(numbers), len(alphabet)) == (466_854, 75)
    read = "".join(alphabet[number] for number in numbers.tolist())
    assert read.startswith("Persuasion\n\n\nby\n\nJane Austen\n\n(1818)")
    assert read.endswith("its\nnational importance.\n\n\n\nFinis\n")


# The network


def test_attention_gathers_from_earlier_positions_as_the_formula_says() -> None:
    layer = shaken(Attention(12, 3))
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    ask = x @ layer.ask.weight.T + layer.ask.bias
    heads = []
    for head in range(3):
        q, k, v = (ask[..., 12 * part + 4 * head :][..., :4] for part in range(3))
        scores = q @ k.mT / math.sqrt(4)
        scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ v)
    expected = torch.cat(heads, -1) @ layer.out.weight.T + layer.out.bias
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("placement", ["post", "pre", "none"])
def test_a_block_has_its_norms_where_the_placement_says(placement: str, norm: str) -> None:
    block = shaken(Block(12, 3, placement, norm))
    x = torch.randn(2, 5, 12, dtype=torch.float64)

    def n(y: Tensor, layer: nn.Module) -> Tensor:
        if norm == "rms":
            return layer.weight * y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return formula.layer_norm(y, layer.weight, layer.bias)

    expected = x
    for part, layer in zip(block.parts, block.norms, strict=True):
        if placement == "post":
            expected = n(expected + part(expected), layer)
        elif placement == "pre":
            expected = expected + part(n(expected, layer))
        else:
            expected = expected + part(expected)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize(("norm", "kind"), [("layer", lnlib.LayerNorm), ("rms", nn.RMSNorm)])
def test_there_are_two_norms_a_block_and_one_more_after_pre_norm_blocks(
    norm: str, kind: type[nn.Module]
) -> None:
    for placement, norms in (("post", 6), ("pre", 7), ("none", 0)):
        model = tiny(placement=placement, norm=norm)
        assert sum(isinstance(module, kind) for module in model.modules()) == norms
        assert isinstance(model.last, kind) == (placement == "pre")


def test_each_position_knows_itself_and_no_position_what_comes_after_it() -> None:
    model = shaken(tiny())
    alike = model(torch.full((1, 11), 3))[0]  # attention alone sees the same everywhere
    x = torch.randint(LETTERS, (2, 11))
    y = model(x)
    for place in range(1, 11):
        assert (alike[place] - alike[0]).abs().max() > 1e-3
        changed = x.clone()
        changed[:, place:] = (changed[:, place:] + 1) % LETTERS
        torch.testing.assert_close(model(changed)[:, :place], y[:, :place])
        assert (model(changed)[:, place] != y[:, place]).any()


def test_bits_are_the_loss_of_each_character_given_those_before() -> None:
    model = shaken(tiny())
    read = torch.randint(LETTERS, (3, 9))
    each = [
        -model(read[:, :place])[:, -1].log_softmax(-1).gather(1, read[:, place, None])
        for place in range(1, 9)
    ]
    expected = torch.cat(each, 1).mean() / math.log(2)
    torch.testing.assert_close(characters.bits(model, read), expected)


# The norms that test an explanation


def test_detached_is_layer_norm_forward_and_a_fixed_affine_map_backward() -> None:
    norm = shaken(DetachedLayerNorm(5))
    x = torch.randn(7, 5, dtype=torch.float64)
    x[2], x[3] = 4.0, 1e3 + x[3]  # one constant, one far from zero
    x.requires_grad_()
    y = norm(x)
    expected = formula.layer_norm(x, norm.weight, norm.bias)
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-9)
    dy = torch.randn_like(y)
    (dx,) = torch.autograd.grad(y, x, dy)
    rstd = formula.terms(x.detach()).rstd
    torch.testing.assert_close(dx, rstd * norm.weight * dy, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [NoisyLayerNorm, Jitter])
def test_noise_moves_features_as_a_whole_and_jitter_each_number_alone(
    kind: type[NoisyLayerNorm],
) -> None:
    torch.manual_seed(1)
    norm, x = kind(6).double(), torch.randn(4000, 6, dtype=torch.float64)
    clean = formula.layer_norm(x)
    first, second = (norm(x).detach() - clean for _ in range(2))
    shifts = torch.stack([first.mean(0), second.mean(0)])  # the scale adds 0 on average
    slopes = 1 + (first * clean).mean(0) / (clean * clean).mean(0)
    if kind is Jitter:
        assert shifts.abs().max() < 0.025  # four deviations of a mean
        assert (slopes - 1.125).abs().max() < 0.025
        expected = 1 / 12 + 0.2**2 / 12 + 0.125**2 + 0.25**2 / 12 + 0.1**2
        assert first.square().mean().item() == pytest.approx(expected, rel=0.1)
    else:
        assert (shifts[0] - shifts[1]).abs().min() > 1e-3
        assert 0.3 < shifts.abs().max() < 0.5 + 0.02
        assert ((slopes > 0.98) & (slopes < 1.27)).all()
    torch.testing.assert_close(norm.eval()(x), clean)
