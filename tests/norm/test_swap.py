"""`lnlib.swap` puts lnlib's norm into a model, and changes nothing else about it."""

import copy
import functools
import pickle
import re
import sys
import types
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

import lnlib
from lnlib import modules
from lnlib.triton_kernel import runtime

swapping = sys.modules["lnlib.swap"]  # the function of that name hides the module

# Largest error against the model in float64 with PyTorch's norms, relative to the largest value.
TOLERANCE = {
    # PyTorch sums a row in an order of its own; rows 100 from zero cost two digits, and a softmax
    # of large scores some more.
    torch.float64: 1e-11,
    # Some forty roundings of 6e-8, one after the other.
    torch.float32: 4e-6,
    # bfloat16 keeps 8 bits, and each linear layer rounds to them.
    torch.bfloat16: 4e-2,
}
PYTORCHS = 10  # times as much for its own norm, which enlarges what it rounds in constant rows
FEATURES, HIDDEN = 14, 22  # 14 so that two heads fit


class Block(nn.Module):
    """A pre-norm Transformer block of one head, which calls its two norms at every pass."""

    def __init__(self, dropout, **norm):
        super().__init__()
        self.norm1 = nn.LayerNorm(FEATURES, **norm)
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES)
        self.norm2 = nn.LayerNorm(FEATURES, **norm)
        self.mlp = nn.Sequential(
            nn.Linear(FEATURES, HIDDEN), nn.GELU(), nn.Dropout(dropout), nn.Linear(HIDDEN, FEATURES)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + F.scaled_dot_product_attention(q, k, v)
        return x + self.mlp(self.norm2(x))


def blocks(dropout=0.25):
    """Two blocks, and a last norm after a linear layer, which under autocast gives bfloat16."""
    return nn.Sequential(
        Block(dropout),
        Block(dropout, eps=0.1, bias=False),
        nn.Linear(FEATURES, FEATURES),
        nn.LayerNorm(FEATURES, elementwise_affine=False),
    )


def encoder(dropout=0.25, **options):
    """PyTorch's own: two norms in each of two layers, and a last one."""
    options = {"batch_first": True, **options}
    layer = nn.TransformerEncoderLayer(FEATURES, 2, HIDDEN, dropout, **options)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(FEATURES), enable_nested_tensor=False)


MODELS = {
    "blocks": blocks,
    "post-norm encoder": encoder,
    "pre-norm encoder": functools.partial(encoder, norm_first=True),
}
NORMS = 5  # in each of them


def randomized(model, seed=0):
    """Draw the parameters anew; those of norms too, which at 1 and 0 could be lost unseen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            center = 1.0 if parameter.ndim == 1 and "weight" in name else 0.0
            parameter.normal_(center, 0.25, generator=generator)
    return model


def rows(*shape, seed=1, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(dtype=torch.float32):
    """Three sequences: near zero, far from it, and with constant rows, whose variance is zero."""
    x = rows(3, 5, FEATURES, dtype=dtype)
    x[1] += 100 if dtype == torch.float64 else 3
    x[2, ::2] = 0.7
    return x


@pytest.fixture
def fastpath_off():
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.fixture
def calls(monkeypatch):
    """The norms that are computed, in order: by "lnlib" or by "torch", and the dtypes in and out.

    A forward hook would count too, and would change what is counted: PyTorch takes the fast path
    only where there is none.
    """
    seen = []

    def watch(owner, place, name):
        computed = getattr(place, name)

        def spy(input, *arguments, **options):
            y = computed(input, *arguments, **options)
            seen.append((owner, input.dtype, y.dtype))
            return y

        monkeypatch.setattr(place, name, spy)

    watch("lnlib", modules, "layer_norm")
    watch("torch", F, "layer_norm")
    return seen


def owners(calls):
    found = [owner for owner, _, _ in calls]
    calls.clear()
    return found


def outcome(model, x, dy):
    """Return y, dx and the gradients of all parameters; what is random is the same every time."""
    torch.manual_seed(7)
    leaf = x.clone().requires_grad_()
    model.zero_grad()
    y = model(leaf)
    y.backward(dy.to(y.dtype))
    return [y.detach(), leaf.grad, *(p.grad.clone() for p in model.parameters())]


def assert_close(found, truth, tolerance):
    for one, true in zip(found, truth, strict=True):
        error = (one.double() - true).abs().max() / true.abs().max()
        assert error < tolerance, error.item()


# What it computes


@pytest.mark.usefixtures("fastpath_off")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_stay_and_lnlib_computes_every_norm(name, training, calls):
    model = randomized(MODELS[name]()).train(training)
    for dtype in (torch.float64, torch.float32):
        x, dy = inputs(dtype), rows(3, 5, FEATURES, seed=2, dtype=dtype)
        original = copy.deepcopy(model).to(dtype)
        swapped = lnlib.swap(copy.deepcopy(original))
        truth = outcome(copy.deepcopy(model).double(), x.double(), dy.double())
        calls.clear()
        theirs, counted = outcome(original, x, dy), owners(calls)
        ours, counted_after = outcome(swapped, x, dy), owners(calls)
        assert (counted, counted_after) == (["torch"] * NORMS, ["lnlib"] * NORMS)
        assert_close(theirs, truth, PYTORCHS * TOLERANCE[dtype])
        assert_close(ours, truth, TOLERANCE[dtype])
        with torch.no_grad():
            torch.manual_seed(7)
            assert torch.equal(swapped(x), ours[0])


@pytest.mark.usefixtures("fastpath_off")
@pytest.mark.parametrize("name", ["blocks", "post-norm encoder"])
def test_under_autocast_each_norm_takes_and_gives_the_dtypes_that_pytorchs_does(name, calls):
    model = randomized(MODELS[name](dropout=0.0))  # bfloat16 draws other masks
    x, dy = inputs(), rows(3, 5, FEATURES, seed=2)
    truth = outcome(copy.deepcopy(model).double(), x.double(), dy.double())
    found, dtypes = [], []
    for each in (copy.deepcopy(model), lnlib.swap(model)):
        calls.clear()
        with torch.autocast("cpu", torch.bfloat16):
            found.append(outcome(each, x, dy))
        dtypes.append([kinds for _, *kinds in calls])
        assert_close(found[-1], truth, TOLERANCE[torch.bfloat16])
    assert owners(calls) == ["lnlib"] * NORMS
    assert dtypes[0] == dtypes[1]
    assert [t.dtype for t in found[0]] == [t.dtype for t in found[1]]


@pytest.fixture
def compiled():
    torch._dynamo.reset()
    yield lambda model: torch.compile(model, backend="aot_eager", fullgraph=True)
    torch._dynamo.reset()


@pytest.mark.usefixtures("fastpath_off")
@pytest.mark.parametrize(("name", "autocast"), [("blocks", True), ("post-norm encoder", False)])
def test_a_compiled_model_stays_the_same_too(name, autocast, compiled, calls):
    model = randomized(MODELS[name](dropout=0.0))  # a graph draws other masks
    x, dy = inputs(), rows(3, 5, FEATURES, seed=2)
    truth = outcome(copy.deepcopy(model).double(), x.double(), dy.double())
    run = compiled(lnlib.swap(model))
    calls.clear()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = outcome(run, x, dy)
    assert owners(calls) == ["lnlib"] * NORMS
    assert_close(found, truth, TOLERANCE[torch.bfloat16 if autocast else torch.float32])


def test_a_model_that_is_compiled_already_is_compiled_again(compiled, calls):
    model = randomized(blocks()).eval()
    run, x = compiled(model), inputs()
    run(x)
    assert owners(calls) == ["torch"] * NORMS
    assert lnlib.swap(run) is run
    run(x)
    assert owners(calls) == ["lnlib"] * NORMS


# FX


def test_a_swapped_model_is_traced_with_a_call_of_lnlibs_function_for_each_norm():
    model, x = lnlib.swap(randomized(blocks())).eval(), inputs()
    traced = fx.symbolic_trace(model)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert called.count(lnlib.layer_norm) == NORMS
    theirs = randomized(nn.Sequential(nn.Linear(FEATURES, 7), nn.LayerNorm(7)))
    assert type(lnlib.swap(fx.symbolic_trace(theirs)).get_submodule("1")) is lnlib.LayerNorm
    for twin in (traced, pickle.loads(pickle.dumps(traced))):
        assert torch.equal(twin(x), model(x))


# PyTorch's fast path


def test_an_encoder_in_evaluation_without_gradients_calls_no_norm_of_its_layers(calls):
    """Neither PyTorch's nor ours: why the tests above switch the fast path off."""
    model = randomized(encoder()).eval()
    x = inputs()
    with torch.no_grad():
        model(x)
    assert owners(calls) == ["torch"]  # the last one, which stands after the layers
    with pytest.warns(UserWarning, match=r"TransformerEncoderLayer does not call its norms; .*Fal"):
        lnlib.swap(model)
    with torch.no_grad():
        fast = model(x)
        assert owners(calls) == ["lnlib"]
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            slow = model(x)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert owners(calls) == ["lnlib"] * NORMS
    assert_close([fast], [slow.double()], TOLERANCE[torch.float32])


def with_norms(norm1, norm2):
    """An encoder whose layers have these, and whose last norm is PyTorch's."""
    model = encoder()
    for layer in model.layers:
        layer.norm1, layer.norm2 = norm1(), norm2()
    return model


@pytest.mark.parametrize("swapped_first", [True, False])
def test_one_layer_norm_in_a_layer_is_enough_to_go_uncalled(swapped_first, calls):
    norms = [lambda: nn.LayerNorm(FEATURES), lambda: nn.GroupNorm(1, FEATURES)]
    model = with_norms(*(norms if swapped_first else norms[::-1])).eval()
    with pytest.warns(UserWarning, match="TransformerEncoderLayer does not call its norms"):
        lnlib.swap(model)
    with torch.no_grad():
        model(inputs())
    assert owners(calls) == ["lnlib"]  # the last one


def changed(change):
    model = encoder()
    for layer in model.layers:
        change(layer)
    return model


def with_layer(**options):
    options = {"nhead": 2, "dim_feedforward": HIDDEN, "batch_first": True, **options}
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(FEATURES, **options), 1, enable_nested_tensor=False
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: changed(lambda layer: layer.linear1.register_forward_hook(lambda *_: None)),
        lambda: changed(lambda layer: setattr(layer.norm1, "eps", 1e-3)),
        lambda: with_layer(nhead=1),
        lambda: with_layer(bias=False),
        lambda: with_layer(activation=F.silu),
    ],
)
def test_where_pytorch_calls_the_norms_for_a_reason_of_its_own_there_is_no_warning(make, calls):
    model = lnlib.swap(make()).eval()
    with torch.no_grad():
        model(inputs())
    found = owners(calls)
    assert found.count("lnlib") == len(found) >= 2


class OwnLayer(nn.TransformerEncoderLayer):
    def forward(self, src, *_, **__):
        return self.norm1(src)


@pytest.mark.parametrize(
    "model",
    [
        encoder(batch_first=False),
        OwnLayer(FEATURES, 2, HIDDEN, batch_first=True),
        nn.TransformerDecoderLayer(FEATURES, 2, HIDDEN, batch_first=True),
        with_norms(lambda: nn.GroupNorm(1, FEATURES), nn.Identity),
    ],
)
def test_a_layer_without_a_fast_path_or_a_layer_norm_gets_no_warning(model):
    lnlib.swap(model)


# What stays


def test_the_model_its_norms_and_their_parameters_are_the_same_objects():
    model = blocks()
    before = dict(model.named_modules()), dict(model.named_parameters(remove_duplicate=False))
    assert lnlib.swap(model) is model
    for old, new in zip(
        before, (dict(model.named_modules()), dict(model.named_parameters())), strict=True
    ):
        assert list(old) == list(new)
        assert all(old[name] is new[name] for name in old)
    assert [type(m) for m in model.modules() if isinstance(m, nn.LayerNorm)] == (
        [lnlib.LayerNorm] * NORMS
    )


@pytest.mark.parametrize(
    "options",
    [
        {"normalized_shape": (5, 7), "eps": 0.1},
        {"normalized_shape": 7, "bias": False},
        {"normalized_shape": 7, "elementwise_affine": False},
        {"normalized_shape": 7, "device": "meta", "dtype": torch.float16},
    ],
)
def test_a_swapped_norm_is_one_that_was_built_so(options):
    swapped, built = lnlib.swap(nn.LayerNorm(**options)), lnlib.LayerNorm(**options)
    assert repr(swapped) == repr(built)
    assert vars(swapped).keys() == vars(built).keys()
    looks = (
        [(name, p.dtype, p.device, p.shape) for name, p in norm.named_parameters()]
        for norm in (swapped, built)
    )
    assert next(looks) == next(looks)


def test_norms_in_any_container_are_found_and_other_modules_left():
    many = nn.ModuleList([nn.LayerNorm(3), nn.RMSNorm(3), nn.GroupNorm(1, 3)])
    named = nn.ModuleDict({"a": nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3)), "many": many})
    lnlib.swap(named)
    assert [type(m) for m in many] == [lnlib.LayerNorm, nn.RMSNorm, nn.GroupNorm]
    assert [type(m) for m in named["a"]] == [lnlib.LayerNorm, nn.Linear]


def test_shared_tied_and_frozen_stay_so_as_does_the_mode_of_training():
    shared, tied = nn.LayerNorm(7), nn.LayerNorm(7)
    tied.weight = shared.weight
    model = nn.Sequential(shared, nn.Linear(7, 7), shared, tied)
    keys = list(model.state_dict())
    shared.eval().weight.requires_grad_(False)
    lnlib.swap(model)
    assert [m.training for m in (model, shared, tied)] == [True, False, True]
    assert [p.requires_grad for p in (shared.weight, shared.bias)] == [False, True]
    assert model[0] is model[2] is shared
    assert model[3].weight is model[0].weight
    assert list(model.state_dict()) == keys
    assert type(shared) is type(tied) is lnlib.LayerNorm


def test_hooks_go_on_being_called():
    norm, seen = nn.LayerNorm(7), []
    norm.register_forward_pre_hook(lambda *_: seen.append("before"))
    norm.register_forward_hook(lambda *_: seen.append("after"))
    norm.register_full_backward_hook(lambda *_: seen.append("backward"))
    norm.weight.register_hook(lambda _: seen.append("gradient"))
    handle = norm.register_forward_hook(lambda *_: seen.append("removed"))
    lnlib.swap(norm)
    handle.remove()
    norm(rows(3, 7).requires_grad_()).backward(rows(3, 7, seed=2))
    assert sorted(seen) == ["after", "backward", "before", "gradient"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_swapped_models(duplicate):
    model = randomized(blocks()).eval()
    before = duplicate(model)
    lnlib.swap(model, backend="reference")
    assert type(before[3]) is nn.LayerNorm
    twin, x = duplicate(model), inputs()
    assert torch.equal(twin(x), model(x))
    assert type(twin[3]) is lnlib.LayerNorm
    assert twin[3].backend == "reference"


# Backends


def test_the_backend_is_handed_to_every_norm_and_one_of_lnlibs_keeps_its_own():
    for options, backend in (({"backend": "torch"}, "torch"), ({}, "auto")):
        model = lnlib.swap(blocks(), **options)
        found = [m.backend for m in model.modules() if isinstance(m, nn.LayerNorm)]
        assert found == [backend] * NORMS
    with pytest.raises(TypeError):
        lnlib.swap(nn.LayerNorm(7), "reference")  # by keyword alone
    model = nn.Sequential(nn.LayerNorm(7), lnlib.LayerNorm(7, backend="reference"))
    for backend in ("torch", "auto"):  # to swap twice is to swap once
        lnlib.swap(model, backend=backend)
        assert [norm.backend for norm in model] == ["torch", "reference"]


# What is left, and said


class Doubled(nn.LayerNorm):
    def forward(self, input):
        return 2 * super().forward(input)


def with_own_forward():
    norm = nn.LayerNorm(7)
    norm.forward = types.MethodType(lambda self, x: 2 * x, norm)
    return norm


def parametrized():
    norm = nn.LayerNorm(7)
    parametrize.register_parametrization(norm, "weight", nn.Softplus())
    return norm


HERE = Doubled.__module__
MADE = "torch.nn.utils.parametrize.ParametrizedLayerNorm"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Doubled(7), f"{HERE}.Doubled"),
        (with_own_forward, "torch.nn.modules.normalization.LayerNorm"),
        (parametrized, MADE),
        (lambda: weight_norm(nn.LayerNorm(7), dim=None), MADE),
    ],
)
def test_a_norm_that_may_compute_something_else_is_left_with_a_warning(make, name):
    norm, x = randomized(make()), rows(3, 7)
    model = nn.Sequential(norm, nn.LayerNorm(7))
    before, kept = norm(x), type(norm)
    expected = f"left 1 of 2 norms as they are, of class {name} ('0'): a subclass of "
    with pytest.warns(UserWarning, match=re.escape(expected)):
        lnlib.swap(model)
    assert type(norm) is kept
    assert torch.equal(norm(x), before)
    assert type(model[1]) is lnlib.LayerNorm


def test_the_warning_names_each_class_once_with_its_norms_and_points_at_the_caller():
    model = nn.Sequential(Doubled(7), nn.LayerNorm(7), parametrized(), *map(Doubled, [7] * 5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lnlib.swap(model)
    (warning,) = caught
    of_doubled = f"{HERE}.Doubled ('0', '3', '4', '5', and 2 more)"
    expected = f"left 7 of 8 norms as they are, of class {of_doubled}; {MADE} ('2'): "
    assert str(warning.message).startswith(expected)
    assert warning.filename == __file__


class Slotted(nn.LayerNorm):
    __slots__ = ("more",)


class Occupied(nn.LayerNorm):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.backend = nn.Parameter(torch.zeros(()))


@pytest.mark.parametrize("kind", [Slotted, Occupied])
def test_a_class_that_cannot_be_left_leaves_all_norms_as_they_were(kind):
    model = nn.Sequential(nn.LayerNorm(7), kind(7), nn.LayerNorm(7))
    before = [{**vars(norm)} for norm in model]
    with pytest.raises(TypeError, match=r"object layout differs|cannot assign"):
        lnlib.swap(model, classes=[kind])
    assert [type(norm) for norm in model] == [nn.LayerNorm, kind, nn.LayerNorm]
    assert [{**vars(norm)} for norm in model] == before


class Renamed(nn.LayerNorm):
    """Computes what its parent does, and keeps something of its own."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.note = "mine"


class Derived(Renamed):
    def forward(self, input):
        return -super().forward(input)


@pytest.mark.parametrize("classes", [[Renamed], (Doubled, Renamed), iter([Renamed])])
def test_a_subclass_that_is_named_is_taken_and_what_is_derived_from_it_is_not(classes):
    norm, x = randomized(Renamed(7)), rows(3, 7)
    expected = norm(x)
    model = nn.Sequential(norm, Derived(7))
    with pytest.warns(UserWarning, match=r"left 1 of 2 .*\.Derived \('1'\): "):
        lnlib.swap(model, classes=classes)
    assert [type(each) for each in model] == [lnlib.LayerNorm, Derived]
    assert (norm.note, norm.backend) == ("mine", "auto")
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-6)


def test_a_named_norm_with_a_forward_of_its_own_is_left():
    norm = Renamed(7)
    norm.forward = lambda x: 2 * x
    with pytest.warns(UserWarning, match=r"left 1 of 1 .*\.Renamed \('the model itself'\): "):
        lnlib.swap(norm, classes=[Renamed])
    assert type(norm) is Renamed


def test_a_class_that_is_known_by_its_whole_name_in_one_state_is_left_in_another(monkeypatch):
    monkeypatch.setitem(swapping.PLAIN, f"{HERE}.Renamed", ("note", "plain"))
    other = type("Renamed", (Renamed,), {"__module__": "other"})(7)
    model = nn.Sequential(*(Renamed(7) for _ in range(3)), other)
    model[1].note = other.note = "plain"
    del model[2].note
    with pytest.warns(
        UserWarning, match=r"left 3 of 4 .* other\.Renamed \('3'\); .*\('0', '2'\): "
    ):
        lnlib.swap(model)
    assert type(model[1]) is lnlib.LayerNorm


def test_what_is_derived_from_a_swapped_norm_needs_no_warning():
    class Mine(lnlib.LayerNorm):
        pass

    swapped = lnlib.swap(nn.LayerNorm(7))
    parametrize.register_parametrization(swapped, "weight", nn.Softplus())
    model = nn.Sequential(swapped, Mine(7))
    kept = [type(norm) for norm in model]
    assert [type(norm) for norm in lnlib.swap(model)] == kept


class Functional(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, (7,))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(7, 4),
        lambda: nn.RMSNorm(7),
        lambda: nn.Sequential(nn.Linear(7, 7), Functional()),
    ],
)
def test_a_model_without_a_layer_norm_is_returned_as_it_is_with_a_warning(make):
    model = randomized(make())
    x = rows(3, 7)
    before = model(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert lnlib.swap(model) is model
    (warning,) = caught
    assert warning.category is UserWarning
    assert str(warning.message) == (
        "found no torch.nn.LayerNorm in this model; a norm of another class, or a call of "
        "torch.nn.functional.layer_norm, is not changed"
    )
    assert torch.equal(model(x), before)


# What is refused


@pytest.mark.parametrize("model", [nn.LayerNorm, None, [nn.LayerNorm(7)], F.layer_norm])
def test_what_is_no_module_is_refused(model):
    expected = f"model must be a Module, got .* of type {type(model).__name__}; "
    with pytest.raises(TypeError, match=expected):
        lnlib.swap(model)


@pytest.mark.parametrize("classes", [Doubled, [nn.LayerNorm(7)], [nn.RMSNorm], ["LayerNorm"], 7])
def test_what_is_no_list_of_layer_norms_is_refused_before_anything_has_changed(classes):
    model = blocks()
    with pytest.raises(TypeError, match=r"classes must be a list of subclasses of torch.nn.LayerN"):
        lnlib.swap(model, classes=classes)
    assert not any(isinstance(m, lnlib.LayerNorm) for m in model.modules())


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")
def test_torchscript_is_refused_in_so_many_words():
    for model in (lnlib.LayerNorm(7), lnlib.swap(blocks())):
        with pytest.raises(
            RuntimeError, match=r"lnlib.LayerNorm cannot be scripted: .*export the model"
        ):
            torch.jit.script(model)


@pytest.mark.parametrize(
    ("backend", "error", "words"),
    [
        ("fast", ValueError, 'no backend \'fast\'; choose one of "auto", "reference"'),
        ("triton", ImportError, "triton.* is not available: it is on holiday; call it back"),
    ],
)
def test_a_backend_that_is_not_there_is_refused_before_anything_has_changed(
    backend, error, words, monkeypatch
):
    monkeypatch.setattr(runtime, "why_not", lambda: "it is on holiday; call it back")
    model = blocks()
    with pytest.raises(error, match=words):
        lnlib.swap(model, backend=backend)
    assert not any(isinstance(m, lnlib.LayerNorm) for m in model.modules())
    lnlib.swap(model)  # "auto" does not insist
