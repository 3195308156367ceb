"""What does not fit is refused before any work, in the words of PyTorch's LSTM and LSTMCell."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import lnlib
from lnlib.cpp_kernel import library
from lnlib.lstm import run

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)


def ones(*shape, **options):
    return torch.ones(shape, **options)


def state(h, c=None):
    return ones(*h), ones(*(h if c is None else c))


def packed(features=I):
    return pack_padded_sequence(ones(T, B, features), [4, 2, 2])


def message(call, *arguments):
    with pytest.raises(Exception) as caught:  # noqa: PT011  (its type is what is compared)
        call(*arguments)
    return type(caught.value), str(caught.value)


NETWORK_IN_PYTORCHS_WORDS = {
    "input of no dimension": (ones(),),
    "input of 1 dimension": (ones(I),),
    "input of 4 dimensions": (ones(2, 2, 2, I),),
    "input too wide": (ones(T, B, I + 1),),
    "unbatched input too narrow": (ones(T, I - 1),),
    "input of another dtype": (ones(T, B, I, dtype=torch.float64),),
    "input of integers": (ones(T, B, I, dtype=torch.int64),),
    "input of integers, states without layers": (
        ones(T, B, I, dtype=torch.int64),
        state((B, H)),
    ),
    "input on another device": (ones(T, B, I, device="meta"),),
    "no step": (ones(0, B, I),),
    "no step, unbatched": (ones(0, I),),
    "states without layers": (ones(T, B, I), state((B, H))),
    "cell without layers": (ones(T, B, I), state((1, B, H), (B, H))),
    "batched states, unbatched input": (ones(T, I), state((1, 1, H))),
    "states of another batch": (ones(T, B, I), state((1, B + 1, H))),
    "cell of another batch": (ones(T, B, I), state((1, B, H), (1, B + 1, H))),
    "states of two layers": (ones(T, B, I), state((2, B, H))),
    "states of another size": (ones(T, B, I), state((1, B, H + 1))),
    "cell of another size": (ones(T, B, I), state((1, B, H), (1, B, H + 1))),
    "unbatched states of another size": (ones(T, I), state((1, H + 1))),
    "states on another device": (ones(T, B, I), (ones(1, B, H, device="meta"),) * 2),
}


@pytest.mark.parametrize(
    "arguments", NETWORK_IN_PYTORCHS_WORDS.values(), ids=NETWORK_IN_PYTORCHS_WORDS
)
def test_the_network_refuses_in_pytorchs_words(arguments):
    assert message(lnlib.LayerNormLSTM(I, H), *arguments) == message(nn.LSTM(I, H), *arguments)


CELL_IN_PYTORCHS_WORDS = {
    "input of no dimension": (ones(),),
    "input of 3 dimensions": (ones(T, B, I),),
    "input too narrow": (ones(B, I - 1),),
    "unbatched input too wide": (ones(I + 1),),
    "states of 3 dimensions": (ones(B, I), state((1, B, H))),
    "cell of 3 dimensions": (ones(B, I), state((B, H), (1, B, H))),
    "states of another batch": (ones(B, I), state((B + 1, H))),
    "cell of another batch": (ones(B, I), state((B, H), (B + 1, H))),
    "states of another size": (ones(B, I), state((B, H + 1))),
    "cell of another size": (ones(B, I), state((B, H), (B, H + 1))),
    "unbatched states of another size": (ones(I), state((H + 1,))),
    "unbatched states, batched input": (ones(B, I), state((H,))),
    "batched states of 1, unbatched input": (ones(I), state((1, H))),
    "batched states of 2, unbatched input": (ones(I), state((2, H))),
    "batched cell, unbatched input": (ones(I), state((H,), (1, H))),
}


@pytest.mark.parametrize("arguments", CELL_IN_PYTORCHS_WORDS.values(), ids=CELL_IN_PYTORCHS_WORDS)
def test_the_cell_refuses_in_pytorchs_words(arguments):
    ours, theirs = lnlib.LayerNormLSTMCell(I, H), nn.LSTMCell(I, H)
    assert message(ours, *arguments) == message(theirs, *arguments)


# PyTorch does not check these either, and fails on the way: in a product of matrices, a missing
# attribute, an index. The type is PyTorch's where that type says what is wrong; the words are ours,
# or those that PyTorch has for the same fault without packing.
PACKED_SIZE = "input.size(-1) must be equal to input_size. Expected 5, got 6"
PACKED_STATE = "Expected hidden[0] size (1, 3, 7), got [1, 4, 7]"
PAIR = "hx must be a pair of Tensors"
WITHOUT_WORDS_IN_PYTORCH = {
    "packed input too wide": (RuntimeError, PACKED_SIZE, (packed(I + 1),)),
    "packed states of another batch": (
        RuntimeError,
        PACKED_STATE,
        (packed(), state((1, B + 1, H))),
    ),
    "packed rows of 3 dimensions": (
        RuntimeError,
        "input must have 2 dimensions, got 3",
        (PackedSequence(ones(3, 2, I), torch.tensor([2, 1])),),
    ),
    "states of another dtype": (
        RuntimeError,
        "hidden[0] must have the dtype of input",
        (ones(T, B, I), tuple(s.double() for s in state((1, B, H)))),
    ),
    "cell of another dtype": (
        RuntimeError,
        "hidden[1] must have the dtype of input",
        (ones(T, B, I), (ones(1, B, H), ones(1, B, H, dtype=torch.float64))),
    ),
}
WRONG_TYPES = {  # PyTorch: AttributeError, IndexError or TypeError, whichever comes first
    "a list": ([[1.0]],),
    "None": (None,),
    "a pair that is one": (ones(T, B, I), (ones(1, B, H),)),
    "one tensor for the pair": (ones(T, B, I), ones(1, B, H)),
    "one tensor of two": (ones(T, B, I), ones(2, 1, B, H)),
    "a pair of None": (ones(T, B, I), (None, None)),
}


@pytest.mark.parametrize(
    ("kind", "words", "arguments"), WITHOUT_WORDS_IN_PYTORCH.values(), ids=WITHOUT_WORDS_IN_PYTORCH
)
def test_where_pytorch_fails_without_a_check_the_type_is_still_its(kind, words, arguments):
    their_kind, _ = message(nn.LSTM(I, H), *arguments)
    found_kind, found = message(lnlib.LayerNormLSTM(I, H), *arguments)
    assert found_kind is their_kind is kind
    assert words in found


def test_packed_input_of_another_dtype_is_refused_in_the_words_for_a_batch():
    """PyTorch checks the dtype of a batch alone, and fails in a matrix product."""
    rows = packed().to(torch.float64)
    assert message(nn.LSTM(I, H), rows)[0] is RuntimeError
    _, words = message(nn.LSTM(I, H), ones(T, B, I, dtype=torch.float64))
    assert message(lnlib.LayerNormLSTM(I, H), rows) == (RuntimeError, words)


@pytest.mark.parametrize("arguments", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_what_is_no_tensor_is_a_type_error(arguments):
    ours, words = lnlib.LayerNormLSTM(I, H), PAIR if len(arguments) > 1 else "input must be"
    kind, found = message(ours, *arguments)
    assert kind is TypeError
    assert words in found
    with pytest.raises((AttributeError, IndexError, TypeError)):
        nn.LSTM(I, H)(*arguments)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((ones(B, I, dtype=torch.float64),), RuntimeError, "does not match weight dtype"),
        ((ones(B, I, device="meta"),), RuntimeError, "not at the same device"),
        ((ones(B, I), (ones(B, H, dtype=torch.float64),) * 2), RuntimeError, "the dtype of input"),
        ((ones(B, I), (ones(B, H, device="meta"),) * 2), RuntimeError, "not at the same device"),
    ],
)
def test_the_cell_says_itself_what_pytorchs_product_would(arguments, kind, words):
    """PyTorch's cell leaves these to the matrix product: the type is the same, the words ours."""
    assert message(nn.LSTMCell(I, H), *arguments)[0] is kind
    found_kind, found = message(lnlib.LayerNormLSTMCell(I, H), *arguments)
    assert found_kind is kind
    assert words in found


@pytest.mark.parametrize(
    "arguments", [([1.0],), (ones(B, I), (ones(B, H),)), (ones(B, I), ones(B, H))]
)
def test_the_cell_takes_tensors_alone(arguments):
    with pytest.raises(TypeError, match=r"input must be a Tensor|hx must be a pair of Tensors"):
        lnlib.LayerNormLSTMCell(I, H)(*arguments)


ROWS_AND_SIZES = {
    "a row too few": (5, [3, 3]),
    "rows too many": (9, [3, 3]),
    "sizes that rise": (5, [2, 3]),
    "sizes below 0": (2, [3, -1]),
    "no step": (0, []),
}


@pytest.mark.parametrize(("rows", "sizes"), ROWS_AND_SIZES.values(), ids=ROWS_AND_SIZES)
def test_a_packed_sequence_made_by_hand_must_fit_together(rows, sizes):
    """PyTorch refuses these too, in several words; unchecked they would leave the memory given."""
    packed = PackedSequence(ones(rows, I), torch.tensor(sizes, dtype=torch.int64))
    for network in (lnlib.LayerNormLSTM(I, H), nn.LSTM(I, H)):
        with pytest.raises(RuntimeError if sizes else (RuntimeError, IndexError)):
            network(packed)


@pytest.mark.parametrize("name", ["weight_hh", "bias", "norm_hh_weight", "norm_c_weight"])
@pytest.mark.parametrize("change", [torch.Tensor.double, lambda weight: weight[:1]])
def test_weights_that_were_tampered_with_are_refused(name, change):
    """The C++ has no more than addresses: it would read on behind a short weight."""
    single, network = lnlib.LayerNormLSTMCell(I, H), lnlib.LayerNormLSTM(I, H)
    for module, suffix, x in ((single, "", ones(B, I)), (network, "_l0", ones(T, B, I))):
        changed = nn.Parameter(change(getattr(module, name + suffix).detach()))
        setattr(module, name + suffix, changed)
        with pytest.raises(RuntimeError, match=f"{name} must"):
            module(x)


# While building


BUILT_WRONGLY = {
    "no input": (0, H),
    "no features": (I, 0),
    "fewer than none": (I, -1),
    "half a feature": (I, 7.5),
    "half an input": (5.5, H),
    "a word": ("5", H),
    "no layer": (I, H, 0),
    "bias is a word": (I, H, 1, "yes"),
    "batch_first is a number": (I, H, 1, True, 1.5),
    "too much dropout": (I, H, 2, True, False, 1.5),
    "dropout is True": (I, H, 2, True, False, True),
    "projection below 0": (I, H, 1, True, False, 0.0, False, -1),
    "projection as large": (I, H, 1, True, False, 0.0, False, H),
}


@pytest.mark.parametrize("arguments", BUILT_WRONGLY.values(), ids=BUILT_WRONGLY)
def test_a_network_is_refused_in_pytorchs_words(arguments):
    assert message(lnlib.LayerNormLSTM, *arguments) == message(nn.LSTM, *arguments)


def test_dropout_behind_the_only_layer_warns_as_pytorch_does():
    warned = []
    for network in (lnlib.LayerNormLSTM, nn.LSTM):
        with pytest.warns(UserWarning, match="dropout") as record:
            network(I, H, dropout=0.5)
        warned.append([str(warning.message) for warning in record])
    assert warned[0] == warned[1]


@pytest.mark.parametrize("arguments", [(0, H), (I, 0), (-1, H), (I, 7.5), ("5", H)])
def test_a_cell_of_impossible_size_is_refused_in_the_networks_words(arguments):
    """LSTMCell builds one of size 0, and leaves others to torch.empty."""
    assert message(lnlib.LayerNormLSTMCell, *arguments) == message(nn.LSTM, *arguments)


def test_a_projection_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"proj_size must be 0, got 3: the paper's cell has no"):
        lnlib.LayerNormLSTM(I, H, proj_size=3)


@pytest.mark.parametrize("module", [lnlib.LayerNormLSTM, lnlib.LayerNormLSTMCell])
@pytest.mark.parametrize("name", ["carry", "backend"])
def test_an_unknown_option_is_refused_with_those_there_are(module, name):
    with pytest.raises(ValueError, match="'cooked'") as caught:
        module(I, H, **{name: "cooked"})
    known = {"carry": ("raw", "normalized"), "backend": ("auto", "reference", "cpp", "triton")}
    assert all(f'"{option}"' in str(caught.value) for option in known[name])
    with pytest.raises(TypeError, match="unexpected keyword argument 'variant'"):
        module(I, H, variant="raw")


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        (lnlib.LayerNormLSTM, (ones(T, B, I, dtype=torch.float64),)),
        (lnlib.LayerNormLSTMCell, (ones(B, I, dtype=torch.float64),)),
    ],
)
def test_the_cpp_backend_is_refused_where_it_cannot_be(made, arguments, monkeypatch):
    module = made(I, H, dtype=torch.float64, backend="cpp")
    with pytest.raises(
        RuntimeError, match=r"not take torch\.float64 on cpu: the C.. of the LSTM is for float32"
    ):
        module(*arguments)
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    with pytest.raises(RuntimeError, match=r"there is no compiler"):
        module.float()(*(argument.float() for argument in arguments))


# Before any work


@pytest.fixture
def runs(monkeypatch):
    """What is run; a list that stays empty where a call is refused in time."""
    seen = []
    monkeypatch.setattr(run, "run", lambda *arguments: seen.append(arguments))
    return seen


@pytest.mark.parametrize(
    "arguments",
    [
        *NETWORK_IN_PYTORCHS_WORDS.values(),
        *WRONG_TYPES.values(),
        *(arguments for _, _, arguments in WITHOUT_WORDS_IN_PYTORCH.values()),
    ],
)
def test_the_network_refuses_before_it_runs(runs, arguments):
    module = lnlib.LayerNormLSTM(I, H)
    kept, generator = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    message(module, *arguments)
    assert runs == []
    assert all(torch.equal(kept[name], now) for name, now in module.state_dict().items())
    assert torch.equal(generator, torch.get_rng_state())


@pytest.mark.parametrize("arguments", CELL_IN_PYTORCHS_WORDS.values(), ids=CELL_IN_PYTORCHS_WORDS)
def test_the_cell_refuses_before_it_runs(runs, arguments):
    message(lnlib.LayerNormLSTMCell(I, H), *arguments)
    assert runs == []
