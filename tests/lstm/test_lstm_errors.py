"""What does not fit is refused before any work, as PyTorch's LSTM and LSTMCell refuse it."""

import random

import pytest
import torch
from lstm_cases import F32, F64, by_backend, case
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import lnlib
from lnlib.cpp_kernel import library
from lnlib.lstm import cpp, function

T, B, I, H = 4, 3, 5, 7  # noqa: E741  (I is the field's own name)
KINDS = {lnlib.LayerNormLSTM: nn.LSTM, lnlib.LayerNormLSTMCell: nn.LSTMCell}
every_kind = pytest.mark.parametrize("ours", KINDS)


def refusal(call, *arguments, **options):
    """Return the type and the words of what a call raises; None if it is not refused."""
    try:
        call(*arguments, **options)
    except AssertionError:  # it went on to work
        return None
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.fixture
def idle(monkeypatch):
    """Let nothing run."""

    def work(*given):
        raise AssertionError

    monkeypatch.setattr(function, "lstm", work)


def odd(s):
    """Return what is no pair of states."""
    return [
        5,
        "ab",
        (1, 2),
        (None, None),
        (),
        (s,),
        [s],
        (s, None),
        (s, "a"),
        ("a", s),
        (s,) * 3,
        s,
    ]


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
    number = chance.choices([1, 2, 3], [1, 20, 1])[0]
    states = [tensor([*layers, *batch, H]) for _ in range(number)]
    hx = chance.choice([*odd(states[0]), states]) if chance.random() < 0.3 else tuple(states)
    return x if chance.random() < 0.97 else None, hx


@every_kind
def test_a_call_is_refused_as_pytorch_refuses_it_before_anything_runs(ours, idle):
    """In its own words, unless it finds a dtype or a device only in its kernels."""
    module, theirs, chance = ours(I, H), KINDS[ours](I, H), random.Random(0)
    generator, refused = torch.get_rng_state(), 0
    for _ in range(400):
        x, hx = drawn(chance, KINDS[ours] is nn.LSTMCell)
        found, expected = refusal(module, x, hx), refusal(theirs, x, hx)
        refused += found is not None
        states = hx if isinstance(hx, (tuple, list)) else [hx]
        tensors = [each for each in (x, *states) if torch.is_tensor(each)]
        if len(states) > 2 or not all(t.dtype == F32 and t.is_cpu for t in tensors):
            assert found is not None, (x, hx)  # PyTorch lets some pass
            assert expected is None or found[0] is expected[0], (found, expected)
        else:
            assert found == expected, (x, hx)
    assert 150 < refused < 350
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_states_of_a_packed_sequence_are_refused_by_pytorchs_type(is_sorted, idle):
    sequences = [torch.ones(length, I) for length in ((4, 3, 1) if is_sorted else (1, 3, 4))]
    x = pack_sequence(sequences, enforce_sorted=is_sorted)
    s = torch.ones(1, B, H)
    for hx in [*odd(s), (s, s, s), (s, s[:, :2])]:
        found, expected = (refusal(kind(I, H), x, hx) for kind in (lnlib.LayerNormLSTM, nn.LSTM))
        # It takes two of three where it puts them in another order.
        assert found[0] is (RuntimeError if expected is None else expected[0]), hx
    crash = (s[None],) * 3  # of PyTorch, where it permutes them
    assert refusal(lnlib.LayerNormLSTM(I, H), x, crash)[0] is RuntimeError


def packed(features=I, sizes=(3, 3, 1, 1), rows=8, dtype=torch.int64):
    return PackedSequence(torch.ones(rows, features), torch.tensor(sizes, dtype=dtype))


OF_SIZES = "batch_sizes must be int64, add up to the "
PACKED = {  # PyTorch finds most of these in its kernels, where some crash it
    "Expected 5, got 6": [packed(I + 1)],
    "got [1, 4, 7]": [packed(), (torch.ones(1, 4, H),) * 2],
    "have 2 dimensions, got 3": [PackedSequence(torch.ones(3, 2, I), torch.tensor([2, 1]))],
    "input must be torch.float32 on cpu": [packed().to(F64)],
    "got torch.float32 on meta": [packed(), (torch.ones(1, B, H, device="meta"),) * 2],
    f"{OF_SIZES}5 rows": [packed(sizes=[3, 3], rows=5)],
    f"{OF_SIZES}9 rows": [packed(sizes=[3, 3], rows=9)],
    "not rise, got [2, 3]": [packed(sizes=[2, 3], rows=5)],
    "not rise, got [3, -1]": [packed(sizes=[3, -1], rows=2)],
    "of torch.int32": [packed(dtype=torch.int32)],
    "Expected sequence length to be larger than 0": [packed(sizes=[], rows=0)],
}


@pytest.mark.parametrize("words", PACKED)
def test_a_packed_sequence_is_refused_before_anything_runs(words, idle):
    found = refusal(lnlib.LayerNormLSTM(I, H), *PACKED[words])
    assert words in found[1]
    assert found[0] is RuntimeError


@pytest.mark.parametrize("name", ["weight_hh", "bias", "norm_hh_weight", "norm_c_weight"])
@pytest.mark.parametrize(
    "change",
    [torch.Tensor.double, lambda weight: weight[:1], lambda weight: weight.to("meta")],
    ids=["another dtype", "too short", "another device"],
)
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
    assert "proj_size must be 0, got 3" in refusal(lnlib.LayerNormLSTM, I, H, proj_size=3)[1]
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        lnlib.LayerNormLSTM(I, H, dropout=0.5)


@every_kind
def test_an_unknown_option_is_refused_with_those_there_are(ours):
    known = {"carry": ("raw", "normalized"), "backend": ("auto", "reference", "cpp", "triton")}
    for name, options in known.items():
        error, words = refusal(ours, I, H, **{name: "cooked"})
        assert error is ValueError
        assert all(repr(option).replace("'", '"') in words for option in options)
    assert "forget_bias is 1" in refusal(ours, I, H, bias=False, forget_bias=1.0)[1]


@every_kind
def test_the_cpp_backend_is_refused_where_it_cannot_be(ours, monkeypatch):
    module, x = ours(I, H, dtype=F64, backend="cpp"), torch.ones(B, I)
    with pytest.raises(RuntimeError, match=r"not take torch\.float64 on cpu: .* is for float32"):
        module(x.double())
    monkeypatch.setattr(library, "why_not", lambda: "there is no compiler")
    with pytest.raises(RuntimeError, match=r"there is no compiler; use \"auto\""):
        module.float()(x)
