"""The recurrent layers that bench_lstm.py compares, and what keeps a wrong one out.

A provider takes x ``(T, B, I)`` and starts from zero states. Each comes with its own function in
float64: that of `lnlib.lstm.formula`, with the provider's parameters put where they belong.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from accuracy_providers import composed
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence

import lnlib
from lnlib.book.experiments.rivals import NaiveLayerNormLSTM
from lnlib.lstm import formula
from lnlib.lstm.formula import Weights

EPS = 1e-5
# As a part of the truth's size. Who is right in float32 stays below 1e-5 on the shapes that are
# timed; a term that is left out is a hundredth and more.
MOST_WRONG = 1e-4
LONG = 28  # steps; for many more torch.compile, which unrolls the loop, takes minutes
CHECKED_ROWS = 2**12  # at most so many steps of sequences are compared with the truth

SEQUENCES, CELL, PACKED = "sequences", "a cell", "packed, 2 layers, both directions"

Outputs = tuple[Tensor, ...]


class Case(NamedTuple):
    """One shape: B sequences of T steps, of I numbers each, and a state of H numbers.

    Its kind is SEQUENCES, or one of two that PyTorch's LSTM and ours have alone: a CELL, which
    takes one step, and PACKED sequences of unequal lengths, in two layers and both directions.
    """

    steps: int
    input_size: int
    hidden_size: int
    batch: int = 64
    kind: str = "sequences"

    @property
    def checked(self) -> Case:
        """Return the case with no more sequences than the truth has memory for."""
        return self._replace(batch=min(self.batch, max(1, CHECKED_ROWS // self.steps)))


class Provider(NamedTuple):
    """A layer to compare.

    Attributes:
        run: takes x, and returns all that gradients arrive at.
        leaves: what is differentiated besides x.
        truth: the same function in float64, of x and of leaves.
    """

    run: Callable[[Tensor], Outputs]
    leaves: list[Tensor]
    truth: Callable[[Tensor, Sequence[Tensor]], Outputs]


def load(name: str, case: Case, device: torch.device) -> Provider:
    """Return the provider ``name`` for ``case``."""
    torch.manual_seed(0)
    return LOADERS[name](case, device)


def names_for(case: Case) -> list[str]:
    """Return who can be timed on ``case``."""
    if case.kind != SEQUENCES:
        return [LSTM, OURS]
    return [name for name in LOADERS if name != COMPILED or case.steps <= LONG]


def input_of(case: Case, device: torch.device) -> Tensor:
    """Return the same random x for everybody."""
    generator = torch.Generator(device).manual_seed(1)
    size = (case.steps, case.batch, case.input_size)
    return torch.randn(size, generator=generator, device=device).requires_grad_()


def upstream_of(outputs: Outputs) -> Outputs:
    """Return random gradients with a mean that is not 0, for ``outputs``."""
    generator = torch.Generator(outputs[0].device).manual_seed(2)
    return tuple(
        torch.randn(y.shape, generator=generator, device=y.device).add_(0.125) for y in outputs
    )


def errors(provider: Provider, x: Tensor) -> dict[str, float]:
    """Return how far the outputs, dx and the other gradients are off, as parts of their RMS.

    Of several outputs or gradients it is the largest.
    """
    outputs = provider.run(x)
    upstream = upstream_of(outputs)
    found = torch.autograd.grad(outputs, (x, *provider.leaves), upstream)
    x64, *leaves64 = (t.detach().double().requires_grad_() for t in (x, *provider.leaves))
    true = provider.truth(x64, leaves64)
    true_found = torch.autograd.grad(true, (x64, *leaves64), [dy.double() for dy in upstream])
    kinds = {
        "outputs": zip(outputs, true, strict=True),
        "dx": zip(found[:1], true_found[:1], strict=True),
        "gradients": zip(found[1:], true_found[1:], strict=True),
    }
    return {kind: max(_off(*pair) for pair in pairs) for kind, pairs in kinds.items()}


def _off(computed: Tensor, truth: Tensor) -> float:
    error = (computed.detach().double() - truth.detach()).norm() / truth.detach().norm()
    return error.item() if error == error else float("inf")  # no comparison sees a NaN


def complaint(found: dict[str, float]) -> str | None:
    """Return what is wrong with a provider that has these `errors`, or None."""
    for kind, off in found.items():
        if off > MOST_WRONG:
            return f"wrong: {kind} off by {off:.3g} of their size"
    return None


def _of_module(
    module: nn.Module,
    weights: Callable[..., Weights],
    normalize: formula.Normalize | None = None,
    carry: str = "raw",
    run: nn.Module | None = None,
) -> Provider:
    """Return a provider of a module; ``weights`` makes the formula's out of its parameters.

    ``run`` is what is called, if it is not the module itself.
    """
    leaves = _varied(module)

    def truth(x: Tensor, leaves: Sequence[Tensor]) -> Outputs:
        return (_formula(x, weights(*leaves), normalize or formula.normalizing(EPS), carry),)

    called = module if run is None else run
    return Provider(lambda x: (called(x)[0],), leaves, truth)


def _varied(module: nn.Module) -> list[Tensor]:
    """Return a module's parameters, moved away from their first values.

    A γ of 1 and a β of 0 would hide that a term is missing. And with γ near 1 these states can be
    chaotic: in 784 steps a rounding error grows to the size of the state.
    """
    leaves: list[Tensor] = list(module.parameters())
    with torch.no_grad():
        for leaf in leaves:
            noise = torch.randn_like(leaf), torch.randn_like(leaf)
            leaf.mul_(0.4 + 0.1 * noise[0]).add_(0.05 * noise[1])
    return leaves


def _formula(x: Tensor, weights: Weights, normalize: formula.Normalize, carry: str) -> Tensor:
    steps, batch, _ = x.shape
    zeros = x.new_zeros(batch, weights.hh.shape[-1])
    rows = x.flatten(0, 1)
    y, _, _ = formula.lstm(rows, zeros, zeros, weights, [batch] * steps, normalize, carry)
    return y.unflatten(0, (steps, batch))


def _of_lstm(ih: Tensor, hh: Tensor, bias_ih: Tensor, bias_hh: Tensor) -> Weights:
    unused = bias_ih  # gammas, of what is not normalized
    return Weights(ih, hh, bias_ih + bias_hh, unused, unused, unused, None)


def _of_loop(ih: Tensor, hh: Tensor, *norms: Tensor) -> Weights:
    norm_ih, bias_ih, norm_hh, bias_hh, norm_c, bias_c = norms
    return Weights(ih, hh, bias_ih + bias_hh, norm_ih, norm_hh, norm_c, bias_c)


def _as_in_float64(module: nn.Module, case: Case) -> Provider:
    """Return a provider of a module of another kind; the truth is the module itself in float64."""
    names, leaves = [name for name, _ in module.named_parameters()], _varied(module)
    double = copy.deepcopy(module).double()
    lengths = torch.linspace(case.steps / 4, case.steps, case.batch).long().flip(0)
    state = torch.linspace(-1, 1, case.hidden_size).expand(case.batch, -1).contiguous()

    def run(called: Callable[..., Any], x: Tensor) -> Outputs:
        if case.kind == CELL:
            h = state.to(x)
            return called((x[0], (h, h)))
        rows, _ = called((pack_padded_sequence(x, lengths),))
        return (rows.data,)

    def truth(x: Tensor, leaves: Sequence[Tensor]) -> Outputs:
        own = dict(zip(names, leaves, strict=True))
        return run(lambda given: functional_call(double, own, given), x)

    return Provider(partial(run, lambda given: module(*given)), leaves, truth)


def _of_kind(case: Case, device: torch.device, cell: Any, network: Any, **options: Any) -> Provider:
    sizes = case.input_size, case.hidden_size
    if case.kind == PACKED:
        options |= {"num_layers": 2, "bidirectional": True}
    made = (cell if case.kind == CELL else network)(*sizes, device=device, **options)
    return _as_in_float64(made, case)


def _lstm(case: Case, device: torch.device) -> Provider:
    if case.kind != SEQUENCES:
        return _of_kind(case, device, nn.LSTMCell, nn.LSTM)
    module = nn.LSTM(case.input_size, case.hidden_size, device=device)
    return _of_module(module, _of_lstm, formula.not_normalizing)


def _ours(backend: str, case: Case, device: torch.device) -> Provider:
    if case.kind != SEQUENCES:
        modules = lnlib.LayerNormLSTMCell, lnlib.LayerNormLSTM
        return _of_kind(case, device, *modules, eps=EPS, backend=backend)
    module = lnlib.LayerNormLSTM(
        case.input_size, case.hidden_size, device=device, eps=EPS, backend=backend
    )
    return _of_module(module, Weights)


class ComposedLayerNorm(nn.Module):
    """Layer norm as walkthroughs write it: mean, variance, quotient, gamma and bias.

    Args:
        size: of the last dimension.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last dimension of ``x``."""
        return composed(x, self.weight, self.bias)


def _naive_module(case: Case, device: torch.device) -> nn.Module:
    module = NaiveLayerNormLSTM(case.input_size, case.hidden_size, EPS)
    module.norm_x = ComposedLayerNorm(4 * case.hidden_size)
    module.norm_h = ComposedLayerNorm(4 * case.hidden_size)
    module.norm_c = ComposedLayerNorm(case.hidden_size)
    return module.to(device)


def _naive(case: Case, device: torch.device) -> Provider:
    return _of_module(_naive_module(case, device), _of_loop)


def _compiled(case: Case, device: torch.device) -> Provider:
    module = _naive_module(case, device)
    return _of_module(module, _of_loop, run=torch.compile(module, fullgraph=True, dynamic=False))


class ScriptedLayer(nn.Module):
    """The function of PyTorch's ``benchmarks/fastrnns/custom_lstms.py``, for `torch.jit.script`.

    There the normalized cell goes on to the next step, and each norm has a bias.

    Args:
        input_size: I.
        hidden_size: H.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden_size, hidden_size))
        self.norm_x = nn.LayerNorm(4 * hidden_size, EPS)
        self.norm_h = nn.LayerNorm(4 * hidden_size, EPS)
        self.norm_c = nn.LayerNorm(hidden_size, EPS)

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Run over (T, B, I); return the outputs (T, B, H) and the last cell (B, H)."""
        h = torch.zeros(input.size(1), self.hidden_size, dtype=input.dtype, device=input.device)
        c = torch.zeros_like(h)
        outputs: list[Tensor] = []
        for x in input.unbind(0):
            from_input = self.norm_x(torch.mm(x, self.weight_ih.t()))
            from_state = self.norm_h(torch.mm(h, self.weight_hh.t()))
            i, f, g, o = (from_input + from_state).chunk(4, 1)
            c = self.norm_c(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs), c


def _scripted(case: Case, device: torch.device) -> Provider:
    module = ScriptedLayer(case.input_size, case.hidden_size).to(device)
    with warnings.catch_warnings():
        # Deprecated, and still the fastest form in which PyTorch itself has published this layer.
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(module)
    return _of_module(module, _of_loop, carry="normalized", run=scripted)


def _bound(case: Case, device: torch.device) -> Provider:
    """Return PyTorch's LSTM, and beside it three layer norms a step of numbers of their own."""
    lstm = _lstm(case, device)
    sizes = (4 * case.hidden_size, 4 * case.hidden_size, case.hidden_size)
    norms = [nn.LayerNorm(size, EPS, device=device) for size in sizes]
    count = len(lstm.leaves)
    affine = [parameter for norm in norms for parameter in norm.parameters()]
    # One tensor for each norm: slices of a larger one would cost time to put together again.
    inputs = [
        torch.randn(case.batch, size, device=device).requires_grad_()
        for _ in range(case.steps)
        for size in sizes
    ]

    def run(x: Tensor) -> Outputs:
        return *lstm.run(x), *(norms[n % 3](each) for n, each in enumerate(inputs))

    def truth(x: Tensor, leaves: Sequence[Tensor]) -> Outputs:
        affine, inputs = leaves[count : count + 6], leaves[count + 6 :]
        gammas, biases = affine[::2], affine[1::2]
        normalized = (
            lnlib.formula.layer_norm(each, gammas[n % 3], biases[n % 3], eps=EPS)
            for n, each in enumerate(inputs)
        )
        return *lstm.truth(x, leaves[:count]), *normalized

    return Provider(run, [*lstm.leaves, *affine, *inputs], truth)


LSTM, OURS, NAIVE = "nn.LSTM", "lnlib", "naive loop"
COMPILED = f"{NAIVE}, torch.compile"
LOADERS: dict[str, Callable[[Case, torch.device], Provider]] = {
    LSTM: _lstm,
    OURS: partial(_ours, "auto"),
    "lnlib, backend reference": partial(_ours, "reference"),
    NAIVE: _naive,
    COMPILED: _compiled,
    "TorchScript": _scripted,
    "nn.LSTM + 3T layer norms": _bound,
}
