"""The Transformer is causal, its norms stand where they shall, and a run can be repeated."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import lnlib
from lnlib.book.experiments import characters
from lnlib.book.experiments.characters import (
    Attention,
    Block,
    Config,
    build,
    persuasion,
    run,
    sample,
)

TINY = Config(layers=3, width=12, heads=3, context=11, batch=5, steps=40, lr=1e-2)
LETTERS = 7


@pytest.fixture(scope="module")
def text() -> characters.Text:
    whole = persuasion()
    return whole._replace(train=whole.train[:5000], valid=whole.valid[:2000])


def shaken(model: nn.Module) -> nn.Module:
    """Return it in float64 with random parameters, those of the norms too."""
    torch.manual_seed(4)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


# The text


def test_the_novel_is_the_whole_of_persuasion() -> None:
    text = persuasion()
    assert len(text.train) + len(text.valid) == 466_854
    assert len(text.valid) == pytest.approx(0.1 * 466_854, abs=1)
    assert len(text.alphabet) == 75
    read = "".join(text.alphabet[number] for number in torch.cat([text.train, text.valid]).tolist())
    assert read.startswith("Persuasion\n\n\nby\n\nJane Austen\n\n(1818)")
    assert read.endswith("its\nnational importance.\n\n\n\nFinis\n")
    romance = (
        "She had been forced into prudence in her youth, she learned romance as she grew older"
    )
    assert romance in read.replace("\n", " ")


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


@pytest.mark.parametrize("norm", characters.NORMS)
@pytest.mark.parametrize("placement", characters.PLACEMENTS)
def test_a_block_has_its_norms_where_the_placement_says(placement: str, norm: str) -> None:
    block = shaken(Block(12, 3, placement, norm))
    x = torch.randn(2, 5, 12, dtype=torch.float64)

    def n(y: Tensor, layer: nn.Module) -> Tensor:
        if norm == "rms":
            return layer.weight * y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return lnlib.formula.layer_norm(y, layer.weight, layer.bias)

    expected = x
    for part, layer in zip(block.parts, block.norms, strict=True):
        if placement == "post":
            expected = n(expected + part(expected), layer)
        elif placement == "pre":
            expected = expected + part(n(expected, layer))
        else:
            expected = expected + part(expected)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize(("placement", "norms"), [("post", 6), ("pre", 7), ("none", 0)])
def test_there_are_two_norms_a_block_and_one_more_behind_pre_norm_blocks(
    placement: str, norms: int
) -> None:
    for norm, kind in (("layer", lnlib.LayerNorm), ("rms", nn.RMSNorm)):
        model = build(replace(TINY, placement=placement, norm=norm), LETTERS)
        assert sum(isinstance(module, kind) for module in model.modules()) == norms
        assert isinstance(model.last, kind) == (placement == "pre")


def test_no_position_knows_what_comes_after_it() -> None:
    model = shaken(build(TINY, LETTERS))
    x = torch.randint(LETTERS, (2, 11))
    y = model(x)
    for place in range(1, 11):
        changed = x.clone()
        changed[:, place:] = (changed[:, place:] + 1) % LETTERS
        torch.testing.assert_close(model(changed)[:, :place], y[:, :place])
        assert (model(changed)[:, place] != y[:, place]).any()


def test_it_knows_which_position_is_which() -> None:
    model = shaken(build(TINY, LETTERS))
    y = model(torch.full((1, 11), 3))  # attention alone sees the same everywhere
    for place in range(1, 11):
        assert (y[0, place] - y[0, 0]).abs().max() > 1e-3


def test_matrices_begin_as_glorots_and_biases_at_zero() -> None:
    model = build(replace(TINY, width=60), LETTERS)
    wide = model.blocks[0].parts[1][0]
    bound = math.sqrt(6 / (60 + 240))
    assert 0.95 * bound < wide.weight.abs().max() <= bound
    assert not wide.bias.any()


# Runs


def test_bits_are_the_loss_of_each_character_given_those_before() -> None:
    model = shaken(build(TINY, LETTERS))
    read = torch.randint(LETTERS, (3, 9))
    each = [
        -model(read[:, :place])[:, -1].log_softmax(-1).gather(1, read[:, place, None])
        for place in range(1, 9)
    ]
    expected = torch.cat(each, 1).mean() / math.log(2)
    torch.testing.assert_close(characters.bits(model, read), expected)


def test_windows_are_stretches_of_the_text_one_longer_than_the_context() -> None:
    found = characters.windows(torch.arange(50) * 10, torch.tensor([0, 7, 43]), 6)
    assert found.tolist() == [[10 * (start + i) for i in range(7)] for start in (0, 7, 43)]


def without_seconds(records: list[characters.Record]) -> list[characters.Record]:
    return [record._replace(seconds=0.0, cpu_seconds=0.0) for record in records]


def test_a_run_is_repeated_to_the_last_bit(text: characters.Text) -> None:
    before = torch.get_rng_state()
    once, again = (without_seconds(list(run(TINY, text))) for _ in range(2))
    assert once == again
    assert torch.equal(before, torch.get_rng_state())
    assert once != without_seconds(list(run(replace(TINY, seed=1), text)))


def test_the_network_that_is_given_is_the_one_that_learns(text: characters.Text) -> None:
    model = build(TINY, len(text.alphabet))
    first = model.logits.weight.clone()
    records = list(run(TINY, text, model))
    assert not torch.equal(model.logits.weight, first)
    last = len(text.valid) - TINY.context - 1
    unseen = characters.windows(text.valid, torch.linspace(0, last, 200).long(), TINY.context)
    assert records[-1].valid_bits == pytest.approx(characters.bits(model, unseen).item())


def test_the_seed_decides_what_is_read_too(
    text: characters.Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(characters, "build", lambda config, n: build(replace(config, seed=0), n))
    first, second = (next(run(replace(TINY, seed=seed), text)) for seed in (0, 1))
    assert first.train_bits != second.train_bits


def test_a_record_has_the_mean_of_what_was_read_since_the_one_before(
    text: characters.Text,
) -> None:
    config = replace(TINY, steps=60, lr=1e-12)  # so slow that it stays as it was
    model = build(config, len(text.alphabet))
    generator = torch.Generator().manual_seed(config.seed)
    last = len(text.train) - config.context
    for record in run(config, text):
        starts = (torch.randint(last, (config.batch,), generator=generator) for _ in range(3))
        losses = [
            characters.bits(model, characters.windows(text.train, each, config.context)).item()
            for each in starts
        ]
        assert record.train_bits == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_it_learns_and_records_twenty_times(text: characters.Text) -> None:
    records = list(run(replace(TINY, steps=200), text))
    assert [record.step for record in records] == list(range(10, 201, 10))
    assert records[-1].valid_bits < records[0].valid_bits - 0.5
    odd = [record.step for record in run(replace(TINY, steps=47), text)]
    assert odd[-1] == 47


def test_the_rate_grows_to_its_value_over_the_warm_up(
    text: characters.Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = []
    step = torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *args: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *args)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    list(run(replace(TINY, steps=6, warmup=4), text))
    assert rates == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])
    rates.clear()
    list(run(replace(TINY, steps=2), text))
    assert rates == [0.01, 0.01]


def test_what_is_written_begins_as_asked_and_is_repeatable(text: characters.Text) -> None:
    model = build(TINY, len(text.alphabet))
    once = sample(model, text, "She had ", 30)
    assert len(once) == 38
    assert once.startswith("She had ")
    assert once == sample(model, text, "She had ", 30)
    assert once != sample(model, text, "She had ", 30, seed=1)


def test_what_is_written_next_depends_on_the_last_characters(text: characters.Text) -> None:
    model, seen = build(TINY, len(text.alphabet)), []
    model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0][0].tolist()))
    written = [text.alphabet.index(c) for c in sample(model, text, "She had ", 20)]
    assert seen == [written[max(0, n - TINY.context) : n] for n in range(8, 28)]


def test_what_is_written_follows_the_networks_probabilities(text: characters.Text) -> None:
    model = build(TINY, len(text.alphabet))
    with torch.no_grad():
        model.logits.weight.zero_()
        model.logits.bias.fill_(-100.0)[text.alphabet.index("e")] = 0.0
    assert sample(model, text, "S", 20) == "S" + 20 * "e"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"placement": "mid"}, "placement is 'mid', expected one of post, pre, none"),
        ({"norm": "batch"}, "norm is 'batch', expected one of layer, rms"),
        ({"steps": 0}, "steps is 0, expected a positive number"),
        ({"lr": -1.0}, r"lr is -1\.0"),
        ({"width": 10, "heads": 4}, "width 10 does not divide into 4 heads"),
    ],
)
def test_a_wrong_setting_is_refused_before_any_work(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Config(**wrong)


def test_cross_entropy_of_equal_logits_is_the_alphabets_size_in_bits(text: characters.Text) -> None:
    model = build(TINY, len(text.alphabet))
    nn.init.zeros_(model.logits.weight)
    read = characters.windows(text.train, torch.tensor([0, 100]), 11)
    assert characters.bits(model, read).item() == pytest.approx(math.log2(75))
