"""`LayerNormLSTM` and its cell have the interface of PyTorch's, and gradients that stay finite.

With normalization off the layer is PyTorch's LSTM, so that every option can be compared number by
number, the order of layers and directions too.
"""

import copy
import inspect
import itertools
import pickle

import pytest
import torch
from lstm_cases import BF16, CPP, F16, F32, F64, LOOP, every_carry, rand
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

import lnlib
from lnlib.lstm import formula
from lnlib.lstm import run as runner
from lnlib.lstm.formula import NAMES

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
ROUNDING = 1e-12  # a few hundred float64 roundings of numbers near 1
LENGTHS = [2, 4, 3]  # not sorted
CASES = list(itertools.product((1, 3), (False, True), (False, True)))  # layers, directions, order
shapes = pytest.mark.parametrize(("num_layers", "bidirectional", "batch_first"), CASES)
packings = pytest.mark.parametrize("enforce_sorted", [True, False])
every_kind = pytest.mark.parametrize("ours", [lnlib.LayerNormLSTM, lnlib.LayerNormLSTMCell])


def layer(*, seed=0, **options):
    """Return a layer in float64 with gammas that are not 1 and biases that are not 0."""
    made = lnlib.LayerNormLSTM(I, H, **{"dtype": F64, "backend": "reference", **options})
    for number, parameter in enumerate(made.parameters()):
        parameter.data += rand(*parameter.shape, seed=100 * seed + number).to(parameter) / 2
    return made


def states(number, batch=(B,), seed=0):
    return tuple(rand(number, *batch, H, seed=seed + s) for s in (50, 51))


def check(found, expected, atol=ROUNDING):
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


@pytest.fixture
def pair(monkeypatch):
    """Return a function that makes PyTorch's LSTM, and ours with its weights, not normalizing."""
    monkeypatch.setattr(formula, "normalizing", lambda eps: formula.not_normalizing)
    monkeypatch.setattr(runner, "mode_of", lambda *tensors: "not the Function's")

    def make(**options):
        theirs = nn.LSTM(I, H, dtype=F64, **options)
        for number, parameter in enumerate(theirs.parameters()):
            parameter.data = rand(*parameter.shape, seed=number) / 2
        ours = lnlib.LayerNormLSTM(I, H, dtype=F64, **options)
        weights = dict(theirs.state_dict())
        for end in {name.removeprefix("bias_ih") for name in weights if "bias_ih" in name}:
            weights[f"bias{end}"] = weights.pop(f"bias_ih{end}") + weights.pop(f"bias_hh{end}")
        ours.load_state_dict(weights, strict=False)
        return ours, theirs

    return make


# Built as PyTorch builds its own


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(lnlib.LayerNormLSTM, nn.LSTM), (lnlib.LayerNormLSTMCell, nn.LSTMCell)],
)
def test_arguments_have_pytorchs_names_order_and_defaults(ours, theirs):
    added = ("eps", "forget_bias", "carry", "backend")
    found = inspect.signature(ours).parameters
    # LSTM takes (*args, **kwargs), and hands them to RNNBase behind a mode.
    base = nn.RNNBase if theirs is nn.LSTM else theirs
    expected = {
        name: parameter.default
        for name, parameter in inspect.signature(base).parameters.items()
        if name != "mode"
    }
    assert {n: p.default for n, p in found.items() if n not in added} == expected
    assert list(found) == [*expected, *added]
    assert all(found[name].kind is inspect.Parameter.KEYWORD_ONLY for name in added)
    names = [list(inspect.signature(cls.forward).parameters) for cls in (ours, theirs)]
    assert names[0] == names[1]


def test_positional_arguments_keep_pytorchs_order():
    found = lnlib.LayerNormLSTM(I, H, 2, False, True, 0.5, True, 0, "meta", F16)
    assert (found.num_layers, found.bias, found.batch_first) == (2, False, True)
    assert (found.dropout, found.bidirectional, found.proj_size) == (0.5, True, 0)
    cell = lnlib.LayerNormLSTMCell(I, H, False, "meta", F16)
    assert (cell.bias, cell.norm_c_bias) == (None, None)
    for weight in (found.weight_ih_l1_reverse, cell.weight_ih):
        assert (weight.device.type, weight.dtype) == ("meta", F16)


@shapes
def test_weights_have_pytorchs_names_and_shapes(num_layers, bidirectional, batch_first):
    options = {"num_layers": num_layers, "bidirectional": bidirectional}
    options["batch_first"] = batch_first
    found = lnlib.LayerNormLSTM(I, H, **options).state_dict()
    expected = {
        name: tensor.shape
        for name, tensor in nn.LSTM(I, H, **options).state_dict().items()
        if name.startswith("weight")
    }
    assert {n: t.shape for n, t in found.items() if n.startswith("weight")} == expected
    ends = [name.removeprefix("weight_ih") for name in expected if name.startswith("weight_ih")]
    assert list(found) == [name + end for end in ends for name in NAMES]
    for end in ends:
        assert [tuple(found[name + end].shape) for name in NAMES[2:]] == [(4 * H,)] * 3 + [(H,)] * 2


def test_without_bias_there_is_none_and_it_computes_what_zeros_do():
    without, with_zero = layer(bias=False), layer()
    assert [name for name, _ in without.named_parameters()] == [
        name + "_l0" for name in NAMES if not name.endswith("bias")
    ]
    with torch.no_grad():
        with_zero.bias_l0.zero_()
        with_zero.norm_c_bias_l0.zero_()
    with_zero.load_state_dict(without.state_dict(), strict=False)
    x = rand(T, B, I)
    check(without(x), with_zero(x))


def test_initial_values_are_pytorchs_and_gains_are_one():
    torch.manual_seed(0)
    made = lnlib.LayerNormLSTM(I, 50, num_layers=2, bidirectional=True)
    first, bound = made.weight_hh_l1.clone(), 50**-0.5
    for parameter in made.parameters():
        nn.init.constant_(parameter, 3)
    torch.manual_seed(0)
    made.reset_parameters()
    assert torch.equal(made.weight_hh_l1, first)
    for name, parameter in made.named_parameters():
        if name.startswith("norm"):
            assert (parameter == (0 if name.startswith("norm_c_bias") else 1)).all(), name
        else:
            assert parameter.abs().max() <= bound, name
            # Uniform: the standard deviation of 200 or more numbers within a quarter of it.
            assert parameter.std().item() == pytest.approx(bound / 3**0.5, rel=0.25), name


@every_kind
def test_the_forget_bias_is_added_to_the_forget_gate_alone(ours):
    def bias(forget_bias):
        torch.manual_seed(0)
        made = ours(I, H, forget_bias=forget_bias)
        return next(p for name, p in made.named_parameters() if name.startswith("bias")).detach()

    added = bias(1.5) - bias(0.0)
    expected = torch.zeros(4, H)
    expected[1] = 1.5
    check(added.view(4, H), expected, atol=1e-6)  # one float32 rounding of 2


def test_a_layer_describes_itself_by_what_is_not_the_default():
    assert repr(lnlib.LayerNormLSTM(I, H)) == "LayerNormLSTM(5, 7)"
    options = {"num_layers": 2, "bias": False, "batch_first": True, "bidirectional": True}
    theirs = repr(nn.LSTM(I, H, dropout=0.5, **options))
    assert repr(lnlib.LayerNormLSTM(I, H, dropout=0.5, **options)) == f"LayerNorm{theirs}"
    described = repr(lnlib.LayerNormLSTM(I, H, eps=0.1, carry="normalized", backend="reference"))
    assert described == "LayerNormLSTM(5, 7, eps=0.1, carry='normalized', backend='reference')"
    assert repr(lnlib.LayerNormLSTMCell(I, H)) == "LayerNormLSTMCell(5, 7)"
    cell = lnlib.LayerNormLSTMCell(I, H, bias=False, carry="normalized")
    assert repr(cell) == "LayerNormLSTMCell(5, 7, bias=False, carry='normalized')"


# Number by number PyTorch's, with normalization off


@shapes
@pytest.mark.parametrize("given", [True, False], ids=["states", "no states"])
def test_batches_are_run_as_pytorch_runs_them(pair, num_layers, bidirectional, batch_first, given):
    ours, theirs = pair(num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)
    x = rand(T, B, I, seed=1)
    x = x.transpose(0, 1) if batch_first else x
    hx = states(num_layers * (1 + bidirectional)) if given else None
    check(ours(x, hx), theirs(x, hx))
    for number in range(B):  # the unbatched form
        alone = x[number] if batch_first else x[:, number]
        own = None if hx is None else (hx[0][:, number], hx[1][:, number])
        check(ours(alone, own), theirs(alone, own))


@shapes
@packings
@pytest.mark.parametrize("given", [True, False], ids=["states", "no states"])
def test_packed_sequences_are_run_as_pytorch_runs_them(
    pair, num_layers, bidirectional, batch_first, enforce_sorted, given
):
    ours, theirs = pair(num_layers=num_layers, bidirectional=bidirectional, batch_first=batch_first)
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    packed = pack_padded_sequence(rand(T, B, I), lengths, enforce_sorted=enforce_sorted)
    hx = states(num_layers * (1 + bidirectional)) if given else None
    found, last = ours(packed, hx)
    expected, their_last = theirs(packed, hx)
    check(last, their_last)
    assert type(found) is type(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a is None and b is None) or (a.dtype == b.dtype and a.shape == b.shape)
        if a is not None:
            check(a, b)


def test_results_are_of_the_same_type_as_pytorchs(pair):
    ours, theirs = pair()
    x = rand(T, B, I)
    output, last = ours(x, [*states(1)])  # a list does
    check(output, theirs(x, [*states(1)])[0])
    assert isinstance(last, tuple)
    assert output.is_contiguous()


@pytest.mark.parametrize("shape", [(T, 0, I), (1, 0, I)])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("way", "dtype"), [LOOP, CPP])
def test_a_batch_of_no_rows_has_results_of_no_rows(shape, bidirectional, way, dtype):
    x = rand(*shape).to(dtype).requires_grad_()
    options = {"num_layers": 2, "bidirectional": bidirectional, "dtype": dtype}
    made = layer(backend=way, **options)
    output, last = made(x)
    their_output, their_last = nn.LSTM(I, H, **options)(x)
    assert [t.shape for t in (output, *last)] == [t.shape for t in (their_output, *their_last)]
    (output.sum() + last[0].sum()).backward()
    assert x.grad.shape == shape
    assert not any(parameter.grad.any() for parameter in made.parameters())


# With normalization on: batch, packing and direction are no part of the function


@shapes
@packings
@every_carry
def test_packed_sequences_are_run_each_for_itself(
    num_layers, bidirectional, batch_first, enforce_sorted, carry
):
    made = layer(num_layers=num_layers, bidirectional=bidirectional, carry=carry)
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    sequences = [rand(length, I, seed=length) for length in lengths]
    h, c = states(num_layers * (1 + bidirectional))
    output, (h_n, c_n) = made(pack_sequence(sequences, enforce_sorted=enforce_sorted), (h, c))
    padded, found_lengths = pad_packed_sequence(output, batch_first=batch_first)
    assert found_lengths.tolist() == lengths
    for number, (x, length) in enumerate(zip(sequences, lengths, strict=True)):
        alone, (own_h, own_c) = made(x, (h[:, number], c[:, number]))
        rows = padded[number] if batch_first else padded[:, number]
        check(rows[:length], alone)
        assert (rows[length:] == 0).all()
        check((h_n[:, number], c_n[:, number]), (own_h, own_c))


@packings
def test_gradients_of_packed_sequences_are_those_of_each_for_itself(enforce_sorted):
    made = layer(num_layers=2, bidirectional=True)
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    sequences = [rand(length, I, seed=length).requires_grad_() for length in lengths]
    wanted = [*sequences, *made.parameters()]
    output, last = made(pack_sequence(sequences, enforce_sorted=enforce_sorted))
    padded, _ = pad_packed_sequence(output)
    dy, dh, dc = rand(*padded.shape, seed=60), *states(4, seed=61)
    found = torch.autograd.grad((padded, *last), wanted, (dy, dh, dc))
    total = 0.0
    for number, x in enumerate(sequences):
        alone, (h, c) = made(x)
        total = total + (alone * dy[: len(x), number]).sum()
        total = total + (h * dh[:, number]).sum() + (c * dc[:, number]).sum()
    for a, b in zip(found, torch.autograd.grad(total, wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_a_row_that_is_not_finite_leaves_the_others_alone():
    made = layer()
    x = rand(T, B, I)
    expected = made(x)[0]
    x[1, 0, 0], x[1, 2, 0] = float("nan"), float("inf")
    output, _ = made(x)
    assert torch.equal(output[:, 1], expected[:, 1])
    assert torch.equal(output[0], expected[0])
    assert output[1:, [0, 2]].isnan().all()


def test_a_sequence_can_be_run_in_pieces_and_a_row_alone():
    made = layer(num_layers=2)
    x = rand(T, B, I)
    output, last = made(x)
    first, state = made(x[:1])
    rest, state = made(x[1:], state)
    check((torch.cat([first, rest]), state), (output, last))
    check(made(x[:, 1:2])[0], output[:, 1:2])


@every_carry
@pytest.mark.parametrize("shape", [(B, I), (I,), (0, I)])
@pytest.mark.parametrize("given", [True, False], ids=["states", "no states"])
def test_the_cell_is_the_network_of_one_step(carry, shape, given):
    network = layer(carry=carry)
    cell = lnlib.LayerNormLSTMCell(I, H, dtype=torch.float64, carry=carry)
    cell.load_state_dict({n.removesuffix("_l0"): w for n, w in network.state_dict().items()})
    x = rand(*shape)
    hx = tuple(s[0] for s in states(1, shape[:-1])) if given else None
    h, c = cell(x, hx)
    theirs = nn.LSTMCell(I, H, dtype=torch.float64)(x, hx)
    assert [h.shape, c.shape] == [t.shape for t in theirs]
    _, (h_n, c_n) = network(x[None], None if hx is None else (hx[0][None], hx[1][None]))
    check((h, c), (h_n[0], c_n[0]))


# Dropout


def test_dropout_acts_between_layers_and_only_in_training(pair):
    ours, theirs = pair(num_layers=3, dropout=0.5)
    x = rand(T, B, I)
    for module in (ours, theirs):
        module.eval()
    check(ours(x), theirs(x))
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outputs.append(ours.train()(x)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    torch.manual_seed(0)
    theirs.train()
    check(outputs[0], theirs(x)[0])  # the very numbers that PyTorch drops


def test_dropout_of_everything_leaves_the_last_layer_its_own_output():
    made = layer(num_layers=2, dropout=1.0)
    x = rand(T, B, I)
    output, (h_n, _) = made(x)
    other, (other_h, _) = made(2 + rand(T, B, I, seed=5))
    assert torch.equal(output, other)  # nothing passes the dropout
    assert output.abs().min() > 0  # and nothing after the last layer is dropped
    assert not torch.allclose(h_n[0], other_h[0])


# Saved, copied, moved


def test_checkpoints_copies_and_pickles_compute_the_same(tmp_path):
    options = {"num_layers": 2, "bidirectional": True, "eps": 0.01, "carry": "normalized"}
    made, loaded, x = layer(**options), layer(seed=1, **options), rand(T, B, I)
    expected, _ = made(x)
    torch.save(made.state_dict(), tmp_path / "weights.pt")
    assert not torch.allclose(loaded(x)[0], expected)
    loaded.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    for module in (loaded, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert torch.equal(module(x)[0], expected)


@pytest.mark.parametrize("dtype", [F32, F64, BF16, F16])
def test_dtype_is_that_of_the_weights(dtype):
    made = layer(backend="auto").to(dtype)
    output, (h, c) = made(rand(T, B, I).to(dtype))
    assert {output.dtype, h.dtype, c.dtype} == {dtype}
    assert made.double()(rand(T, B, I))[0].dtype == torch.float64


def test_on_meta_only_the_shapes_are_computed():
    with torch.device("meta"):
        made = lnlib.LayerNormLSTM(I, H, num_layers=2, bidirectional=True)
        output, (h, c) = made(torch.empty(T, B, I))
    assert (output.device.type, output.shape) == ("meta", (T, B, 2 * H))
    assert h.shape == c.shape == (4, B, H)
    made.to_empty(device="cpu").reset_parameters()
    assert made(torch.zeros(T, B, I))[0].isfinite().all()


# Rows without variance: the trap of MNIST's blank rows, one of which in four is blank

# With the default weights a blank row multiplies the gradient by about 1.1: over 40 seeds, the
# largest number in it was 24 to 29 after 1 row and 70 to 11,000 after 28, half of them below 410.
# With zero biases it is 20,000 for each row.
BOUND = 1e4
BLANK = 28


def largest_gradient(made, x):
    output, _ = made(x)
    (output[-1] * rand(*output.shape[1:], seed=5).to(x.dtype)).sum().backward()
    return max(p.grad.abs().max().item() for p in made.parameters())


@pytest.mark.parametrize("seed", range(4))
@every_carry
@pytest.mark.parametrize("dtype", [F32, F64])
def test_default_weights_have_bounded_gradients_on_blank_sequences(seed, carry, dtype):
    torch.manual_seed(seed)
    made = lnlib.LayerNormLSTM(28, 128, carry=carry, dtype=dtype)
    x = torch.zeros(BLANK, 2, 28, dtype=dtype)
    assert largest_gradient(made, x) < BOUND
    made.zero_grad()
    x[10:] = rand(BLANK - 10, 2, 28).to(dtype)  # ten blank rows, then a digit
    assert largest_gradient(made, x) < BOUND


@pytest.mark.parametrize("dtype", [F32, F64])
def test_zero_biases_make_them_explode_in_every_dtype(dtype):
    """So it is the defaults that are safe, and the explosion is mathematics, not rounding."""
    torch.manual_seed(0)
    made = lnlib.LayerNormLSTM(28, 128, dtype=dtype)
    nn.init.zeros_(made.bias_l0)
    x = torch.cat([torch.zeros(4, 1, 28), rand(2, 1, 28)]).to(dtype)
    assert largest_gradient(made, x) > 1e12


@every_carry
def test_one_and_two_features_have_finite_results_and_gradients(carry):
    """The norm of one number is 0 and of two is ±1, or near it: a poor LSTM, but no NaN."""
    for size in (1, 2):
        made = lnlib.LayerNormLSTM(I, size, carry=carry, dtype=F64)
        output, last = made(torch.cat([torch.zeros(2, B, I), rand(T, B, I)]))
        grads = torch.autograd.grad(output.square().sum(), made.parameters(), retain_graph=True)
        assert all(y.isfinite().all() for y in (output, *last, *grads))
        if size == 1:
            assert (output == 0).all()  # tanh of the cell's bias, which starts at 0


def test_it_can_be_exported_for_any_batch():
    batch = torch.export.Dim("batch", min=2, max=64)
    x, wider = torch.randn(3, 5, I), torch.randn(3, 9, I)
    for layer, few, many, at in (
        (lnlib.LayerNormLSTM(I, H), x, wider, 1),
        (lnlib.LayerNormLSTMCell(I, H), x[0], wider[0], 0),
    ):
        exported = torch.export.export(layer, (few,), dynamic_shapes=({at: batch},)).module()
        check(exported(many)[0].detach(), layer(many)[0].detach(), atol=1e-5)


def test_a_weight_that_is_computed_is_computed_once_a_call():
    class Counted(nn.Module):
        calls = 0

        def forward(self, weight):
            Counted.calls += 1
            return 2 * weight

    network = lnlib.LayerNormLSTM(I, H)
    nn.utils.parametrize.register_parametrization(network, "weight_hh_l0", Counted())
    Counted.calls = 0
    network(torch.randn(3, 2, I))
    assert Counted.calls == 1


def test_code_written_for_pytorchs_lstm_may_flatten_the_parameters():
    network = lnlib.LayerNormLSTM(I, H)
    before = copy.deepcopy(network.state_dict())
    network.flatten_parameters()
    check(dict(network.state_dict()), dict(before), atol=0)
