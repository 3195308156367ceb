"""What does not fit is refused before any work, as PyTorch's LSTM and LSTMCell refuse it."""

import pytest
import torch
from lstm_cases import F64, by_backend, case
from torch import nn
from torch.nn.utils.rnn import PackedSequence

import lnlib
from lnlib.cpp_kernel import library
from lnlib.lstm import cpp, run

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
KINDS = {lnlib.LayerNormLSTM: nn.LSTM, lnlib.LayerNormLSTMCell: nn.LSTMCell}
every_kind = pytest.mark.parametrize("ours", KINDS)


def ones(*shape, **options):
    return torch.ones(shape, **options)


def both(*shape, **options):
    return ones(*shape, **options), ones(*shape, **options)


def packed(features=I, sizes=(3, 3, 1, 1), rows=8, **options):
    return PackedSequence(ones(rows, features), torch.tensor(sizes, **options))


def message(call, *arguments):
    with pytest.raises(Exception) as caught:  # noqa: PT011  (its type is what is compared)
        call(*arguments)
    return type(caught.value), str(caught.value)


X, CELL_X, META = ones(T, B, I), ones(B, I), {"device": "meta"}
# Refused in the very words of PyTorch.
NETWORK = {
    "input of no dimension": (ones(),),
    "input of 1 dimension": (ones(I),),
    "input of 4 dimensions": (ones(2, 2, 2, I),),
    "input too wide": (ones(T, B, I + 1),),
    "unbatched input too narrow": (ones(T, I - 1),),
    "input of another dtype": (X.double(),),
    "input of integers, states without layers": (X.long(), both(B, H)),
    "input on another device": (X.to("meta"),),
    "no step": (ones(0, B, I),),
    "no step, unbatched": (ones(0, I),),
    "states without layers": (X, both(B, H)),
    "cell without layers": (X, (ones(1, B, H), ones(B, H))),
    "batched states, unbatched input": (ones(T, I), both(1, 1, H)),
    "states of another batch": (X, both(1, B + 1, H)),
    "cell of another batch": (X, (ones(1, B, H), ones(1, B + 1, H))),
    "states of two layers": (X, both(2, B, H)),
    "states of another size": (X, both(1, B, H + 1)),
    "unbatched states of another size": (ones(T, I), both(1, H + 1)),
    "states on another device": (X, both(1, B, H, **META)),
    "no tensor": (None,),
    "a pair of None": (X, (None, None)),
    "one state": (X, (ones(1, B, H),)),
    "three states": (X, (ones(1, B, H),) * 3),
    "a number for states": (X, 5),
    "numbers for states": (X, (1, 2)),
    "one tensor for the pair": (X, ones(1, B, H)),
}
CELL = {
    "input of no dimension": (ones(),),
    "input of 3 dimensions": (X,),
    "input too narrow": (ones(B, I - 1),),
    "unbatched input too wide": (ones(I + 1),),
    "states of 3 dimensions": (CELL_X, both(1, B, H)),
    "cell of 3 dimensions": (CELL_X, (ones(B, H), ones(1, B, H))),
    "states of another batch": (CELL_X, both(B + 1, H)),
    "cell of another batch": (CELL_X, (ones(B, H), ones(B + 1, H))),
    "states of another size": (CELL_X, both(B, H + 1)),
    "unbatched states, batched input": (CELL_X, both(H)),
    "batched states of 1, unbatched input": (ones(I), both(1, H)),
    "batched cell, unbatched input": (ones(I), (ones(H), ones(1, H))),
    "no tensor": (None,),
    "a pair of None": (CELL_X, (None, None)),
    "one state": (CELL_X, (ones(B, H),)),
    "three states": (CELL_X, (ones(B, H),) * 3),
    "one tensor for the pair": (CELL_X, ones(B, H)),
}
# PyTorch finds these in a product of matrices or an index: the type is its own, the words are not.
OF_STATES = "must have the dtype of input, torch.float32, got torch.float64"
OF_INPUT = "RNN input dtype (torch.float64) does not match weight dtype (torch.float32)"
OF_DEVICE = "tensors are not at the same device, found input tensor at "
OF_SIZES = "batch_sizes must be int64, add up to the "
NETWORK_IN_OTHER_WORDS = {
    "states of another dtype": (f"hidden[0] {OF_STATES}", X, both(1, B, H, dtype=F64)),
    "cell of another dtype": (f"hidden[1] {OF_STATES}", X, (ones(1, B, H), ones(1, B, H).double())),
    "a list": ("object has no attribute 'dim'", [[1.0]]),
    "packed, too wide": ("Expected 5, got 6", packed(I + 1)),
    "packed, states of another batch": ("size (1, 3, 7), got [1, 4, 7]", packed(), both(1, 4, H)),
    "packed, of 3 dimensions": (
        "input must have 2 dimensions, got 3",
        PackedSequence(ones(3, 2, I), torch.tensor([2, 1])),
    ),
    "packed, of another dtype": (OF_INPUT, packed().to(F64)),
    "packed, states on another device": (OF_DEVICE, packed(), both(1, B, H, **META)),
    "packed, a row too few": (OF_SIZES, packed(sizes=[3, 3], rows=5)),
    "packed, rows too many": (OF_SIZES, packed(sizes=[3, 3], rows=9)),
    "packed, sizes that rise": (OF_SIZES, packed(sizes=[2, 3], rows=5)),
    "packed, sizes below 0": (OF_SIZES, packed(sizes=[3, -1], rows=2)),
    "packed, sizes of 32 bits": (OF_SIZES, packed(dtype=torch.int32)),
}
CELL_IN_OTHER_WORDS = {
    "input of another dtype": (OF_INPUT, CELL_X.double()),
    "input on another device": (OF_DEVICE, CELL_X.to("meta")),
    "states of another dtype": (f"hidden[0] {OF_STATES}", CELL_X, both(B, H, dtype=F64)),
    "states on another device": (OF_DEVICE, CELL_X, both(B, H, **META)),
}
TABLES = {
    lnlib.LayerNormLSTM: (NETWORK, NETWORK_IN_OTHER_WORDS),
    lnlib.LayerNormLSTMCell: (CELL, CELL_IN_OTHER_WORDS),
}
REFUSED = [
    pytest.param(ours, words, arguments, id=f"{KINDS[ours].__name__}: {name}")
    for ours, (same, other) in TABLES.items()
    for table in (same, other)
    for name, given in table.items()
    for words, arguments in [(None, given) if table is same else (given[0], given[1:])]
]


@pytest.mark.parametrize(("ours", "words", "arguments"), REFUSED)
def test_a_call_is_refused_as_pytorch_refuses_it_before_anything_runs(
    ours, words, arguments, monkeypatch
):
    monkeypatch.setattr(run, "run", None)
    module, theirs = ours(I, H), KINDS[ours](I, H)
    generator = torch.get_rng_state()
    found, expected = message(module, *arguments), message(theirs, *arguments)
    assert found[0] is expected[0]
    assert found == expected if words is None else words in found[1]
    assert torch.equal(torch.get_rng_state(), generator)


def test_no_packed_step_is_a_runtime_error():
    """PyTorch leaves it to an index."""
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
        lnlib.LayerNormLSTM(I, H)(packed(sizes=[], rows=0, dtype=torch.int64))


@pytest.mark.parametrize("name", ["weight_hh", "bias", "norm_hh_weight", "norm_c_weight"])
@pytest.mark.parametrize("change", [torch.Tensor.double, lambda weight: weight[:1]])
def test_weights_that_were_tampered_with_are_refused(name, change):
    """The C++ has no more than addresses: it would read past the end of a short weight."""
    for module, suffix, x in (
        (lnlib.LayerNormLSTMCell(I, H), "", CELL_X),
        (lnlib.LayerNormLSTM(I, H), "_l0", X),
    ):
        changed = nn.Parameter(change(getattr(module, name + suffix).detach()))
        setattr(module, name + suffix, changed)
        with pytest.raises(RuntimeError, match=f"{name} must"):
            module(x)


@pytest.mark.parametrize("batch_sizes", [(3, 3), (4,), (1, 3), (3, 4, -3)])
def test_steps_that_do_not_make_the_rows_never_reach_cpp(batch_sizes, monkeypatch):
    monkeypatch.setattr(cpp, "_library", None)
    given = case((3, 1), dtype=torch.float32)._replace(batch_sizes=batch_sizes)
    with pytest.raises(RuntimeError, match=r"of \(.*\) rows do not make 4 rows of 3 sequences"):
        by_backend("raw", "cpp")(given)


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
def test_a_module_is_refused_in_the_words_of_pytorchs_network(arguments):
    """LSTMCell builds one of size 0, and leaves others to torch.empty."""
    kinds = list(KINDS) if len(arguments) == 2 else [lnlib.LayerNormLSTM]
    for ours in kinds:
        assert message(ours, *arguments) == message(nn.LSTM, *arguments)


def test_dropout_after_the_only_layer_warns_as_pytorch_does():
    warned = []
    for network in (lnlib.LayerNormLSTM, nn.LSTM):
        with pytest.warns(UserWarning, match="dropout") as record:
            network(I, H, dropout=0.5)
        warned.append([str(warning.message) for warning in record])
    assert warned[0] == warned[1]


def test_a_projection_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"proj_size must be 0, got 3: the paper's cell has no"):
        lnlib.LayerNormLSTM(I, H, proj_size=3)


@every_kind
def test_an_unknown_option_is_refused_with_those_there_are(ours):
    known = {"carry": ("raw", "normalized"), "backend": ("auto", "reference", "cpp", "triton")}
    for name, options in known.items():
        with pytest.raises(ValueError, match="'cooked'") as caught:
            ours(I, H, **{name: "cooked"})
        assert all(f'"{option}"' in str(caught.value) for option in options)
    with pytest.raises(ValueError, match="forget_bias is 1"):
        ours(I, H, bias=False, forget_bias=1.0)


@every_kind
def test_the_cpp_backend_is_refused_where_it_cannot_be(ours, monkeypatch):
    module, x = ours(I, H, dtype=F64, backend="cpp"), CELL_X if "Cell" in ours.__name__ else X
    with pytest.raises(RuntimeError, match=r"not take torch\.float64 on cpu: .* is for float32"):
        module(x.double())
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    with pytest.raises(RuntimeError, match=r"there is no compiler; use \"auto\""):
        module.float()(x)
