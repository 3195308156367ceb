"""`lnlib.swap` puts lnlib's norm into a model, and changes nothing else about it."""

import copy
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
}
FEATURES, HIDDEN = 14, 22  # 14 so that two heads fit
NORMS = 5  # in each model


def blocks():
    """Residual blocks in training mode, whose norms have options of all kinds."""
    kinds = {}, {"eps": 0.1}, {"bias": False}, {"elementwise_affine": False}
    parts = [
        nn.Sequential(nn.LayerNorm(FEATURES, **options), nn.Linear(FEATURES, FEATURES), nn.GELU())
        for options in kinds
    ]
    return nn.Sequential(*parts, nn.Dropout(0.25), nn.LayerNorm(FEATURES))


def encoder(norms=None, **options):
    """PyTorch's own: two norms in each of two layers, and a last one."""
    options = {"nhead": 2, "dim_feedforward": HIDDEN, "batch_first": True, **options}
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(FEATURES, **options),
        2,
        nn.LayerNorm(FEATURES),
        enable_nested_tensor=False,
    )
    for layer in model.layers if norms else ():
        layer.norm1, layer.norm2 = (norm() for norm in norms)
    return model


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
    """Who computes the norms, in order: "lnlib" or "torch".

    A forward hook would count too, and would change what is counted: PyTorch takes the fast path
    only where there is none.
    """
    seen = []

    def watch(owner, place):
        computed = place.layer_norm

        def spy(*arguments, **options):
            y = computed(*arguments, **options)
            seen.append(owner)
            return y

        monkeypatch.setattr(place, "layer_norm", spy)

    watch("lnlib", modules)
    watch("torch", F)
    return seen


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


def classes_of(model):
    return [type(m) for m in model.modules() if isinstance(m, nn.LayerNorm)]


# What it computes


@pytest.mark.usefixtures("fastpath_off")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", [blocks, encoder, lambda: encoder(norm_first=True)])
def test_outputs_and_gradients_stay_and_lnlib_computes_every_norm(make, training, calls):
    model = randomized(make()).train(training)
    for dtype in (torch.float64, torch.float32):
        x, dy = inputs(dtype), rows(3, 5, FEATURES, seed=2, dtype=dtype)
        truth = outcome(copy.deepcopy(model).double(), x.double(), dy.double())
        swapped = lnlib.swap(copy.deepcopy(model).to(dtype))
        calls.clear()
        found = outcome(swapped, x, dy)
        assert calls == ["lnlib"] * NORMS
        assert_close(found, truth, TOLERANCE[dtype])


def test_a_model_that_is_compiled_already_is_compiled_again(calls):
    torch._dynamo.reset()
    model, x = randomized(blocks()).eval(), inputs()
    run = torch.compile(model, backend="aot_eager", fullgraph=True)
    expected = outcome(copy.deepcopy(model).double(), x.double(), x)
    run(x)
    assert {*calls} == {"torch"}
    assert lnlib.swap(run) is run
    calls.clear()
    assert_close(outcome(run, x, x), expected, TOLERANCE[torch.float32])
    assert {*calls} == {"lnlib"}


def test_a_swapped_model_is_traced_with_a_call_of_lnlibs_function_for_each_norm():
    model, x = lnlib.swap(randomized(blocks())).eval(), inputs()
    traced = fx.symbolic_trace(model)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert called == [lnlib.layer_norm] * NORMS
    theirs = nn.Sequential(nn.Linear(FEATURES, 7), nn.LayerNorm(7))
    assert type(lnlib.swap(fx.symbolic_trace(theirs)).get_submodule("1")) is lnlib.LayerNorm
    for twin in (traced, pickle.loads(pickle.dumps(traced))):
        assert torch.equal(twin(x), model(x))


# PyTorch's fast path


def changed(change):
    model = encoder()
    for layer in model.layers:
        change(layer)
    return model


class OwnLayer(nn.TransformerEncoderLayer):
    def forward(self, src, *_, **__):
        return self.norm2(self.norm1(src))


NORM, OTHER = (lambda: nn.LayerNorm(FEATURES)), (lambda: nn.GroupNorm(1, FEATURES))
ENCODERS = {
    "as it is": encoder,
    "one layer norm, first": lambda: encoder((NORM, OTHER)),
    "one layer norm, second": lambda: encoder((OTHER, NORM)),
    "no layer norm": lambda: encoder((OTHER, OTHER)),
    "with a hook": lambda: changed(lambda e: e.linear1.register_forward_hook(lambda *_: None)),
    "two eps": lambda: changed(lambda layer: setattr(layer.norm1, "eps", 1e-3)),
    "one head": lambda: encoder(nhead=1),
    "no bias": lambda: encoder(bias=False),
    "another activation": lambda: encoder(activation=F.silu),
    "batch second": lambda: encoder(batch_first=False),
    "a forward of its own": lambda: OwnLayer(FEATURES, 2, HIDDEN, batch_first=True),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_it_warns_of_pytorchs_fast_path_exactly_where_that_calls_no_norm(kind, calls):
    model = randomized(ENCODERS[kind]()).eval()
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        lnlib.swap(model)
        fast = model(inputs())
    warned = [str(each.message) for each in caught]
    assert len(warned) == (len(calls) < len(classes_of(model))), warned
    assert all("TransformerEncoderLayer does not call its norms; " in each for each in warned)
    assert {*calls} == {"lnlib"}
    if kind == "as it is":
        slow = model(inputs())  # with gradients, all are called
        assert_close([fast], [slow.double()], TOLERANCE[torch.float32])


# What stays


def test_the_model_its_norms_and_their_parameters_are_the_same_objects():
    model = blocks()
    before = dict(model.named_modules()), dict(model.named_parameters(remove_duplicate=False))
    assert lnlib.swap(model) is model
    after = dict(model.named_modules()), dict(model.named_parameters())
    for old, new in zip(before, after, strict=True):
        assert list(old) == list(new)
        assert all(old[name] is new[name] for name in old)
    assert classes_of(model) == [lnlib.LayerNorm] * NORMS


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
    named["without"] = encoder((NORM, nn.Identity))
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
    assert type(before[-1]) is nn.LayerNorm
    twin, x = duplicate(model), inputs()
    assert torch.equal(twin(x), model(x))
    assert type(twin[-1]) is lnlib.LayerNorm
    assert twin[-1].backend == "reference"


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


class Renamed(nn.LayerNorm):
    """Computes what its parent does, and keeps something of its own."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.note = "mine"


class Derived(Renamed):
    def forward(self, input):
        return -super().forward(input)


def with_own_forward(kind=nn.LayerNorm):
    norm = kind(7)
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
        (lambda: with_own_forward(Renamed), f"{HERE}.Renamed"),
        (lambda: Derived(7), f"{HERE}.Derived"),
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
        lnlib.swap(model, classes=[Renamed])
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
    with pytest.warns(UserWarning, match=r"left 1 of 1 .*\.Doubled \('the model itself'\): "):
        lnlib.swap(Doubled(7))


@pytest.mark.parametrize("classes", [[Renamed], (Doubled, Renamed), iter([Renamed])])
def test_a_subclass_that_is_named_is_taken(classes):
    norm, x = randomized(Renamed(7)), rows(3, 7)
    expected = norm(x)
    lnlib.swap(norm, classes=classes)
    assert (type(norm), norm.note, norm.backend) == (lnlib.LayerNorm, "mine", "auto")
    torch.testing.assert_close(norm(x), expected, rtol=0, atol=1e-6)


def test_a_class_that_is_known_by_its_whole_name_in_one_state_is_left_in_another(monkeypatch):
    monkeypatch.setitem(swapping.PLAIN, f"{HERE}.Renamed", ("note", "plain"))
    other = type("Renamed", (Renamed,), {"__module__": "other"})(7)
    model = nn.Sequential(*(Renamed(7) for _ in range(3)), other)
    model[1].note = other.note = "plain"
    del model[2].note
    expected = r"left 3 of 4 .* other\.Renamed \('3'\); .*\('0', '2'\): "
    with pytest.warns(UserWarning, match=expected):
        lnlib.swap(model)
    assert type(model[1]) is lnlib.LayerNorm


def test_what_is_derived_from_a_swapped_norm_needs_no_warning():
    class Mine(lnlib.LayerNorm):
        pass

    swapped = lnlib.swap(nn.LayerNorm(7))
    parametrize.register_parametrization(swapped, "weight", nn.Softplus())
    model = nn.Sequential(swapped, Mine(7))
    kept = classes_of(model)
    assert classes_of(lnlib.swap(model)) == kept


@pytest.mark.parametrize("make", [lambda: nn.Linear(7, 4), lambda: nn.RMSNorm(7)])
def test_a_model_without_a_layer_norm_is_returned_as_it_is_with_a_warning(make):
    model = make()
    with pytest.warns(UserWarning, match="found no torch.nn.LayerNorm in this model; a norm of "):
        assert lnlib.swap(model) is model


# What is refused, before anything has changed


class Slotted(nn.LayerNorm):
    __slots__ = ("more",)


class Occupied(nn.LayerNorm):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.backend = nn.Parameter(torch.zeros(()))


NOT_CLASSES = r"classes must be a list of subclasses of torch.nn.LayerN"
REFUSED = [
    ({"classes": Doubled}, TypeError, NOT_CLASSES),
    ({"classes": [nn.LayerNorm(7)]}, TypeError, NOT_CLASSES),
    ({"classes": [nn.RMSNorm]}, TypeError, NOT_CLASSES),
    ({"classes": 7}, TypeError, NOT_CLASSES),
    ({"classes": [Slotted]}, TypeError, "object layout differs"),
    ({"classes": [Occupied]}, TypeError, "cannot assign"),
    ({"backend": "fast"}, ValueError, 'no backend \'fast\'; choose one of "auto", "reference"'),
    ({"backend": "triton"}, ImportError, "triton.* is not available: it is on holiday"),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_what_is_refused_leaves_all_norms_as_they_were(options, error, words, monkeypatch):
    monkeypatch.setattr(runtime, "why_not", lambda: "it is on holiday; call it back")
    last = Occupied(7) if options == {"classes": [Occupied]} else Slotted(7)
    model = nn.Sequential(nn.LayerNorm(7), last, nn.LayerNorm(7))
    model[0].backend = "my own"
    before = classes_of(model), [{**vars(norm)} for norm in model]
    with pytest.raises(error, match=words):
        lnlib.swap(model, **options)
    assert (classes_of(model), [{**vars(norm)} for norm in model]) == before


@pytest.mark.parametrize("model", [nn.LayerNorm, None, [nn.LayerNorm(7)], F.layer_norm])
def test_what_is_no_module_is_refused(model):
    expected = f"model must be a Module, got .* of type {type(model).__name__}; "
    with pytest.raises(TypeError, match=expected):
        lnlib.swap(model)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")
def test_torchscript_is_refused_in_so_many_words():
    expected = r"lnlib.LayerNorm cannot be scripted: .*export the model"
    with pytest.raises(RuntimeError, match=expected):
        torch.jit.script(lnlib.swap(blocks()))
