"""What does not fit is refused before any work, as PyTorch's LSTM and LSTMCell refuse it."""

import random

import pytest
import torch
from lstm_cases import F32, F64, by_backend, case
from torch import nn
from torch.nn.utils.rnn import PackedSequence

import lnlib
from lnlib.cpp_kernel import library
from lnlib.lstm import cpp, function

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
KINDS = {lnlib.LayerNormLSTM: nn.LSTM, lnlib.LayerNormLSTMCell: nn.LSTMCell}
every_kind = pytest.mark.parametrize("ours", KINDS)


class ReachedError(Exception):
    """A call was not refused."""


def refusal(call, *arguments):
    """Return the type and the words of what a call raises; None if it is not refused."""
    try:
        call(*arguments)
    except ReachedError:
        return None
    except Exception as error:
        return type(error), str(error)
    return None


def drawn(chance, is_cell):
    """Return an input and states, of which about half have something wrong."""

    def tensor(shape):
        for at in range(len(shape)):
            if chance.random() < 0.05:
                shape[at] = max(0, shape[at] + chance.choice([-1, 1]))
        if chance.random() < 0.1:
            shape = chance.choice([shape[1:], [1, *shape]])
        dtype = chance.choices([F32, F64, torch.int64], [24, 1, 1])[0]
        return torch.ones(shape, dtype=dtype, device="meta" if chance.random() < 0.03 else "cpu")

    batch = [B] if chance.random() < 0.7 else []
    steps, layers = ([], []) if is_cell else ([chance.choice([T, T, T, 0])], [1])
    x = tensor([*steps, *batch, I])
    number = chance.choices([1, 2, 3 if batch else 2], [1, 20, 1])[0]  # its cell reads two of three
    states = [tensor([*layers, *batch, H]) for _ in range(number)]
    odd = [5, None, (1, 2), (None, None), states[0], states]
    hx = chance.choice(odd) if chance.random() < 0.3 else tuple(states)
    return x if chance.random() < 0.97 else None, hx


@every_kind
def test_a_call_is_refused_as_pytorch_refuses_it_before_anything_runs(ours, monkeypatch):
    """In its own words, unless it finds a dtype or a device only in its kernels."""

    def reached(*given):
        raise ReachedError

    monkeypatch.setattr(function, "lstm", reached)
    module, theirs, chance = ours(I, H), KINDS[ours](I, H), random.Random(0)
    generator, refused = torch.get_rng_state(), 0
    for _ in range(400):
        x, hx = drawn(chance, theirs.__class__ is nn.LSTMCell)
        found, expected = refusal(module, x, hx), refusal(theirs, x, hx)
        refused += found is not None
        states = hx if isinstance(hx, (tuple, list)) else [hx]
        tensors = [each for each in (x, *states) if torch.is_tensor(each)]
        if not all(t.dtype == F32 and t.is_cpu for t in tensors):
            assert found is not None, (x, hx)  # PyTorch lets some pass
            assert expected is None or found[0] is expected[0], (found, expected)
        else:
            assert found == expected, (x, hx)
    assert 150 < refused < 350
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_third_state_is_refused_where_pytorchs_cell_forgets_it():
    with pytest.raises(RuntimeError, match="hx must be a pair of states, h and c, got 3"):
        lnlib.LayerNormLSTMCell(I, H)(torch.ones(I), (torch.ones(H),) * 3)


def packed(features=I, sizes=(3, 3, 1, 1), rows=8, dtype=torch.int64):
    return PackedSequence(torch.ones(rows, features), torch.tensor(sizes, dtype=dtype))


OF_SIZES = "batch_sizes must be int64, add up to the "
PACKED = {  # PyTorch finds most of these in its kernels, where some crash it
    "too wide": ("Expected 5, got 6", packed(I + 1)),
    "states of another batch": ("got [1, 4, 7]", packed(), (torch.ones(1, 4, H),) * 2),
    "of 3 dimensions": (
        "input must have 2 dimensions, got 3",
        PackedSequence(torch.ones(3, 2, I), torch.tensor([2, 1])),
    ),
    "of another dtype": (
        "input must be torch.float32 on cpu as weight_ih is, got torch.float64",
        packed().to(F64),
    ),
    "states on meta": (
        "h must be torch.float32 on cpu as weight_ih is, got torch.float32 on meta",
        packed(),
        (torch.ones(1, B, H, device="meta"),) * 2,
    ),
    "a row too few": (OF_SIZES, packed(sizes=[3, 3], rows=5)),
    "rows too many": (OF_SIZES, packed(sizes=[3, 3], rows=9)),
    "sizes that rise": (OF_SIZES, packed(sizes=[2, 3], rows=5)),
    "sizes below 0": (OF_SIZES, packed(sizes=[3, -1], rows=2)),
    "sizes of 32 bits": (OF_SIZES, packed(dtype=torch.int32)),
    "no step": ("Expected sequence length to be larger than 0", packed(sizes=[], rows=0)),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_sequence_is_refused_before_anything_runs(name, monkeypatch):
    monkeypatch.setattr(function, "lstm", None)
    words, *arguments = PACKED[name]
    found = refusal(lnlib.LayerNormLSTM(I, H), *arguments)
    assert words in found[1]
    theirs = IndexError if name == "no step" else refusal(nn.LSTM(I, H), *arguments)[0]
    assert found[0] is (RuntimeError if theirs is IndexError else theirs)


@pytest.mark.parametrize("name", ["weight_hh", "bias", "norm_hh_weight", "norm_c_weight"])
@pytest.mark.parametrize("change", [torch.Tensor.double, lambda weight: weight[:1]])
@every_kind
def test_weights_that_were_tampered_with_are_refused(ours, name, change):
    """The C++ has no more than addresses: it would read past the end of a short weight."""
    module = ours(I, H)
    own = next(own for own, _ in module.named_parameters() if own.startswith(name))
    setattr(module, own, nn.Parameter(change(getattr(module, own).detach())))
    with pytest.raises(RuntimeError, match=f"{name} must"):
        module(torch.ones(B, I))


@pytest.mark.parametrize("batch_sizes", [(3, 3), (4,), (1, 3), (3, 4, -3)])
def test_steps_that_do_not_make_the_rows_never_reach_cpp(batch_sizes, monkeypatch):
    monkeypatch.setattr(cpp, "_library", None)
    given = case((3, 1), dtype=F32)._replace(batch_sizes=batch_sizes)
    with pytest.raises(RuntimeError, match=r"of \(.*\) rows do not make 4 rows of 3 sequences"):
        by_backend("raw", "cpp")(given)


# While building


@every_kind
def test_a_module_is_refused_in_the_words_of_pytorchs_network(ours):
    """LSTMCell builds one of size 0, and leaves others to torch.empty."""
    right, wrong = (I, H, 2, True, False, 0.5, False, 0), (0, -1, 7.5, "5", True, 1.5)
    for at in range(2 if ours is lnlib.LayerNormLSTMCell else len(right)):
        for value in wrong:
            arguments = [*right[:at], value, *right[at + 1 :]][: max(at + 1, 2)]
            expected = refusal(nn.LSTM, *arguments)
            if expected is not None:
                assert refusal(ours, *arguments) == expected, arguments
    with pytest.raises(ValueError, match=r"proj_size must be 0, got 3: the paper's cell has no"):
        lnlib.LayerNormLSTM(I, H, proj_size=3)


def test_dropout_after_the_only_layer_warns_as_pytorch_does():
    warned = []
    for network in (lnlib.LayerNormLSTM, nn.LSTM):
        with pytest.warns(UserWarning, match="dropout") as record:
            network(I, H, dropout=0.5)
        warned.append([str(warning.message) for warning in record])
    assert warned[0] == warned[1]


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
    module, x = ours(I, H, dtype=F64, backend="cpp"), torch.ones(B, I)
    with pytest.raises(RuntimeError, match=r"not take torch\.float64 on cpu: .* is for float32"):
        module(x.double())
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    with pytest.raises(RuntimeError, match=r"there is no compiler; use \"auto\""):
        module.float()(x)
