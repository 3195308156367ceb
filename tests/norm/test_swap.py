"""`lnlib.swap` puts lnlib's norm into a model, and changes nothing else about it."""

import copy
import pickle
import sys
import types
import warnings

import pytest
import torch
import torch.nn.functional as F
from norms import rand, randomized
from torch import fx, nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

import lnlib
from lnlib import modules
from lnlib.triton_kernel import runtime

swapping = sys.modules["lnlib.swap"]  # the function of that name hides the module

# Largest error against the model in float64 with PyTorch's norms, as a part of the largest value:
# rows 100 from zero cost two digits, and float32 rounds some forty times, one after the other.
TOLERANCE = {torch.float64: 1e-11, torch.float32: 4e-6}
FEATURES, NORMS = 14, 5  # so that two heads fit; in each model


def blocks():
    """In training mode, with norms that have options of all kinds."""
    kinds = {}, {"eps": 0.1}, {"bias": False}, {"elementwise_affine": False}
    parts = [
        nn.Sequential(nn.LayerNorm(FEATURES, **options), nn.Linear(FEATURES, FEATURES), nn.GELU())
        for options in kinds
    ]
    return nn.Sequential(*parts, nn.Dropout(0.25), nn.LayerNorm(FEATURES))


def encoder(norms=None, change=lambda layer: None, kind=nn.TransformerEncoderLayer, **options):
    """PyTorch's own: two norms in each of two layers, and a last one."""
    options = {"nhead": 2, "dim_feedforward": 22, "batch_first": True, **options}
    last = nn.LayerNorm(FEATURES)
    model = nn.TransformerEncoder(kind(FEATURES, **options), 2, last, enable_nested_tensor=False)
    for layer in model.layers:
        if norms:
            layer.norm1, layer.norm2 = (norm() for norm in norms)
        change(layer)
    return model


def inputs(dtype=torch.float32):
    """Three sequences: near zero, far from it, and with constant rows, whose variance is zero."""
    x = rand(3, 5, FEATURES, seed=1, dtype=dtype)
    x[1] += 100 if dtype == torch.float64 else 3
    x[2, ::2] = 0.7
    return x


@pytest.fixture
def calls(monkeypatch):
    """Who computes the norms, in order.

    A forward hook would count too, but PyTorch takes the fast path only where there is none.
    """
    seen = []
    for owner, place in (("lnlib", modules), ("torch", F)):

        def spy(*given, run=place.layer_norm, owner=owner, **options):
            y = run(*given, **options)
            seen.append(owner)
            return y

        monkeypatch.setattr(place, "layer_norm", spy)
    return seen


def both_passes(model, x, dy):
    """Return y, dx and the gradients of all parameters; what is random is the same every time."""
    torch.manual_seed(7)
    leaf = x.clone().requires_grad_()
    model.zero_grad()
    y = model(leaf)
    y.backward(dy.to(y.dtype))
    return [y.detach(), leaf.grad, *(p.grad.clone() for p in model.parameters())]


def assert_close(found, truth, tolerance=TOLERANCE[torch.float32]):
    for one, true in zip(found, truth, strict=True):
        assert (one.double() - true).abs().max() < tolerance * true.abs().max()


def classes_of(model):
    return [type(m) for m in model.modules() if isinstance(m, nn.LayerNorm)]


def swapped_with_warnings(model, **options):
    """Swap, and return what is warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert lnlib.swap(model, **options) is model
    return caught


# What it computes


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", [blocks, encoder, lambda: encoder(norm_first=True)])
def test_outputs_and_gradients_stay_and_lnlib_computes_every_norm(make, training, calls):
    model = randomized(make()).train(training)
    for dtype, tolerance in TOLERANCE.items():
        x, dy = inputs(dtype), rand(3, 5, FEATURES, seed=2, dtype=dtype)
        truth = both_passes(copy.deepcopy(model).double(), x.double(), dy.double())
        swapped = copy.deepcopy(model).to(dtype)
        swapped_with_warnings(swapped)
        calls.clear()
        found = both_passes(swapped, x, dy)
        assert calls == ["lnlib"] * NORMS
        assert_close(found, truth, tolerance)


def test_a_model_that_is_compiled_already_is_compiled_again(calls):
    torch._dynamo.reset()
    model, x = randomized(blocks()).eval(), inputs()
    run = torch.compile(model, backend="aot_eager", fullgraph=True)
    expected = both_passes(copy.deepcopy(model).double(), x.double(), x)
    run(x)
    assert {*calls} == {"torch"}
    assert lnlib.swap(run) is run
    calls.clear()
    assert_close(both_passes(run, x, x), expected)
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


class OwnLayer(nn.TransformerEncoderLayer):
    def forward(self, src, *_, **__):
        return self.norm2(self.norm1(src))


NORM, OTHER = (lambda: nn.LayerNorm(FEATURES)), (lambda: nn.GroupNorm(1, FEATURES))
ENCODERS = {
    "as it is": {},
    "one layer norm, first": {"norms": (NORM, OTHER)},
    "one layer norm, second": {"norms": (OTHER, NORM)},
    "no layer norm": {"norms": (OTHER, OTHER)},
    "with a hook": {"change": lambda e: e.linear1.register_forward_hook(lambda *_: None)},
    "two eps": {"change": lambda layer: setattr(layer.norm1, "eps", 1e-3)},
    "one head": {"nhead": 1},
    "no bias": {"bias": False},
    "another activation": {"activation": F.silu},
    "batch second": {"batch_first": False},
    "a forward of its own": {"kind": OwnLayer},
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_it_warns_of_pytorchs_fast_path_exactly_where_that_calls_no_norm(kind, calls):
    model = randomized(encoder(**ENCODERS[kind])).eval()
    warned = [str(each.message) for each in swapped_with_warnings(model)]
    with torch.no_grad():
        fast = model(inputs())
    assert len(warned) == (len(calls) < len(classes_of(model))), warned
    assert all("TransformerEncoderLayer does not call its norms; " in each for each in warned)
    assert {*calls} == {"lnlib"}
    if kind == "as it is":
        assert_close([fast], [model(inputs()).double()])  # with gradients, all are called


# What stays


def test_every_object_name_and_setting_stays_wherever_a_norm_is():
    shared, tied = nn.LayerNorm(7), nn.LayerNorm(7)
    tied.weight = shared.weight
    shared.eval().weight.requires_grad_(False)
    many = nn.ModuleList([nn.LayerNorm(3), nn.RMSNorm(3), nn.GroupNorm(1, 3)])
    model = nn.ModuleDict({"a": nn.Sequential(shared, nn.Linear(7, 7), shared, tied), "many": many})
    model["without"] = encoder((NORM, nn.Identity))

    def state():
        named = model.named_modules(remove_duplicate=False)
        parameters = model.named_parameters(remove_duplicate=False)
        return [(name, id(m), m.training) for name, m in named], [
            (name, id(p), p.requires_grad) for name, p in parameters
        ]

    before = state(), list(model.state_dict())
    assert lnlib.swap(model) is model
    assert (state(), list(model.state_dict())) == before
    assert {*classes_of(model)} == {lnlib.LayerNorm}
    assert [type(m) for m in many] == [lnlib.LayerNorm, nn.RMSNorm, nn.GroupNorm]


def test_hooks_go_on_being_called():
    norm, seen = nn.LayerNorm(7), []
    norm.register_forward_pre_hook(lambda *_: seen.append("before"))
    norm.register_forward_hook(lambda *_: seen.append("after"))
    norm.register_full_backward_hook(lambda *_: seen.append("backward"))
    norm.weight.register_hook(lambda _: seen.append("gradient"))
    handle = norm.register_forward_hook(lambda *_: seen.append("removed"))
    lnlib.swap(norm)
    handle.remove()
    norm(rand(3, 7).float().requires_grad_()).sum().backward()
    assert sorted(seen) == ["after", "backward", "before", "gradient"]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_swapped_models(duplicate):
    model = randomized(blocks()).eval()
    before = duplicate(model)
    lnlib.swap(model, backend="reference")
    twin, x = duplicate(model), inputs()
    assert [type(each[-1]) for each in (before, twin)] == [nn.LayerNorm, lnlib.LayerNorm]
    assert torch.equal(twin(x), model(x))
    assert twin[-1].backend == "reference"


def test_the_backend_is_handed_to_every_norm_and_one_of_lnlibs_keeps_its_own():
    model = nn.Sequential(*(nn.LayerNorm(7) for _ in range(3)), lnlib.LayerNorm(7, backend="cpp"))
    for options, expected in (({"backend": "torch"}, "torch"), ({}, "torch")):  # as if once
        assert {norm.backend for norm in lnlib.swap(model, **options)[:3]} == {expected}
        assert model[3].backend == "cpp"
    assert lnlib.swap(nn.LayerNorm(7)).backend == "auto"
    with pytest.raises(TypeError):
        lnlib.swap(nn.LayerNorm(7), "reference")  # by keyword alone


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
    norm, x = randomized(make()), rand(3, 7).float()
    model = nn.Sequential(norm, nn.LayerNorm(7))
    before, kept = norm(x), type(norm)
    (warning,) = swapped_with_warnings(model, classes=[Renamed])
    expected = f"lnlib.swap: left 1 of 2 norms as they are, of class {name} ('0'): a subclass of "
    assert str(warning.message).startswith(expected)
    assert [type(each) for each in model] == [kept, lnlib.LayerNorm]
    assert torch.equal(norm(x), before)


def test_the_warning_names_each_class_once_with_its_norms_and_points_at_the_caller():
    model = nn.Sequential(Doubled(7), nn.LayerNorm(7), parametrized(), *map(Doubled, [7] * 5))
    (warning,) = swapped_with_warnings(model)
    of_doubled = f"{HERE}.Doubled ('0', '3', '4', '5', and 2 more)"
    expected = f"lnlib.swap: left 7 of 8 norms as they are, of class {of_doubled}; {MADE} ('2'): "
    assert str(warning.message).startswith(expected)
    assert warning.filename == __file__
    (warning,) = swapped_with_warnings(Doubled(7))
    assert "Doubled ('the model itself'): " in str(warning.message)


@pytest.mark.parametrize("model", [nn.Linear(7, 4), nn.RMSNorm(7)])
def test_a_model_without_a_layer_norm_is_returned_with_a_warning(model):
    (warning,) = swapped_with_warnings(model)
    expected = "lnlib.swap: found no torch.nn.LayerNorm in this model; a norm of "
    assert str(warning.message).startswith(expected)


@pytest.mark.parametrize("classes", [[Renamed], (Doubled, Renamed), iter([Renamed])])
def test_a_subclass_that_is_named_is_taken(classes):
    norm, x = randomized(Renamed(7)), rand(3, 7).float()
    expected = norm(x).double()
    lnlib.swap(norm, classes=classes)
    assert (type(norm), norm.note, norm.backend) == (lnlib.LayerNorm, "mine", "auto")
    assert_close([norm(x)], [expected])


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
    swapped = lnlib.swap(nn.LayerNorm(7))
    parametrize.register_parametrization(swapped, "weight", nn.Softplus())
    model = nn.Sequential(swapped, type("Mine", (lnlib.LayerNorm,), {})(7))
    kept = classes_of(model)
    assert classes_of(lnlib.swap(model)) == kept


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
    model = nn.Sequential(nn.LayerNorm(7), nn.LayerNorm(7), last, nn.LayerNorm(7))
    model[0].backend = "my own"
    before = classes_of(model), [{**vars(norm)} for norm in model]
    with pytest.raises(error, match=words):
        lnlib.swap(model, **options)
    assert (classes_of(model), [{**vars(norm)} for norm in model]) == before


@pytest.mark.parametrize("model", [nn.LayerNorm, None, [nn.LayerNorm(7)]])
def test_what_is_no_module_is_refused(model):
    expected = f"model must be a Module, got .* of type {type(model).__name__}; "
    with pytest.raises(TypeError, match=expected):
        lnlib.swap(model)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is:DeprecationWarning")
def test_torchscript_is_refused_in_so_many_words():
    expected = r"lnlib.LayerNorm cannot be scripted: .*export the model"
    with pytest.raises(RuntimeError, match=expected):
        torch.jit.script(lnlib.swap(blocks()))
