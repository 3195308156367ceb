"""Random programs around a layer norm, unusual ones: what each finds by lnlib's and by PyTorch's.

A program takes x, weight and bias to y. It is made of one norm, and of one to three things that
people put around one: a checkpoint, a transform, a mode, hooks, a compiler, a change in place.
Then it is differentiated in one of several ways, most of them by a loss that is not linear.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from random_calls import LAYOUTS, agree, one_of, outcome, said, true
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from torch.utils.flop_counter import FlopCounterMode

import lnlib
from lnlib.cpp_kernel import library

EPS = 0.1
Norm = Callable[..., Tensor]
Program = Callable[[Tensor, Tensor, Tensor], Tensor]


class Watch(TorchDispatchMode):
    """Sees every operation, as those modes do that count, log or replace them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Hears(TorchFunctionMode):
    """Hears of every call."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def inferring_with_gradients() -> Iterator[None]:
    with torch.inference_mode(), torch.enable_grad():
        yield


CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no gradient": torch.no_grad,
    "inference": inferring_with_gradients,
    "a mode": Watch,
    "a mode that counts": lambda: FlopCounterMode(display=False),
    "a mode of functions": Hears,
    "kept on the CPU": save_on_cpu,
    "kept as copies": lambda: saved_tensors_hooks(Tensor.clone, lambda t: t),
    "kept in other strides": lambda: saved_tensors_hooks(
        lambda t: t.mT.contiguous() if t.ndim > 1 else t, lambda t: t.mT if t.ndim > 1 else t
    ),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a profiler": lambda: profile(activities=[ProfilerActivity.CPU]),
    "anomalies": torch.autograd.detect_anomaly,
    "a level of forward mode": forward_ad.dual_level,
}


def within(context: Callable[[], contextlib.AbstractContextManager[Any]]) -> Any:
    def around(program: Program) -> Program:
        def run(*given: Tensor) -> Tensor:
            with context():
                return program(*given)

        return run

    return around


def checkpointed(**options: Any) -> Any:
    return lambda program: lambda *given: checkpoint(program, *given, **options)


def selecting(policy: CheckpointPolicy) -> Any:
    contexts = lambda: create_selective_checkpoint_contexts(lambda *_, **__: policy)  # noqa: E731
    return checkpointed(use_reentrant=False, context_fn=contexts)


def seen_once(first: bool) -> Any:
    """Checkpoint with a mode in one of the two passes alone."""

    def around(program: Program) -> Program:
        def run(*given: Tensor) -> Tensor:
            passes = itertools.chain([first], itertools.repeat(not first))

            def once(*given: Tensor) -> Tensor:
                with Watch() if next(passes) else contextlib.nullcontext():
                    return program(*given)

            return checkpoint(once, *given, use_reentrant=False)

        return run

    return around


class Module(nn.Module):
    """A program as a module."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, *given: Tensor) -> Tensor:
        return self.program(*given)


def recorded_by(recorder: Callable[..., Any]) -> Any:
    """Record the program for its arguments, and run the record."""
    return lambda program: (
        lambda *given: recorder(program, tuple(t.detach() for t in given))(*given)
    )


def compiled(backend: str) -> Any:
    def around(program: Program) -> Program:
        torch._dynamo.reset()
        return torch.compile(program, backend=backend)

    return around


def tangent(program: Program) -> Program:
    return lambda *given: torch.func.jvp(program, given, tuple(t.detach().cos() for t in given))[1]


def cotangent(program: Program) -> Program:
    def run(*given: Tensor) -> Tensor:
        y, back = torch.func.vjp(program, *given)
        dx, dw, db = back(y.square())
        return dx + dw + db

    return run


def of_each_parameter(program: Program) -> Program:
    return lambda x, w, b: torch.vmap(program, (None, 0, 0))(x, w.expand(2, -1), b.expand(2, -1))[1]


def input_changed(program: Program) -> Program:
    """Change what the program read, after it: the way back must refuse, or not need it."""

    def run(*given: Tensor) -> Tensor:
        x, w, b = (t * 1 for t in given)
        y = program(x, w, b)
        b.add_(1)
        return y

    return run


def hooked(program: Program) -> Program:
    def run(*given: Tensor) -> Tensor:
        y = program(*given)
        if y.requires_grad:
            y.register_hook(lambda dy: 2 * dy)
            y.retain_grad()
        return y

    return run


AROUND: dict[str, Callable[[Program], Program]] = {
    **{name: within(context) for name, context in CONTEXTS.items()},
    "checkpoint": checkpointed(use_reentrant=False),
    "old checkpoint": checkpointed(use_reentrant=True),
    "checkpoint that saves": selecting(CheckpointPolicy.MUST_SAVE),
    "checkpoint that recomputes": selecting(CheckpointPolicy.MUST_RECOMPUTE),
    "checkpoint, its first pass seen": seen_once(True),
    "checkpoint, its second pass seen": seen_once(False),
    "make_fx": recorded_by(lambda program, given: make_fx(program)(*given)),
    "jit.trace": recorded_by(lambda p, given: torch.jit.trace(p, given, check_trace=False)),
    "export": recorded_by(lambda p, given: torch.export.export(Module(p), given).module()),
    "compile": compiled("eager"),
    "compile, aot": compiled("aot_eager"),
    "jvp": tangent,
    "vjp": cotangent,
    "grad": lambda program: torch.func.grad(lambda *given: program(*given).pow(3).sum()),
    "vmap": lambda p: lambda x, w, b: torch.vmap(p, (0, None, None))(x[None], w, b)[0],
    "vmap of parameters": of_each_parameter,
    "functionalize": torch.func.functionalize,
    "changed in place": lambda program: lambda *given: program(*given).mul_(2).tanh_(),
    "its input changed": input_changed,
    "hooks": hooked,
    "residual": lambda program: lambda x, w, b: x + program(x.sin(), w, b),
    "twice": lambda program: lambda x, w, b: program(program(x, w, b), b, w),
}
RARE = {"export", "jit.trace", "compile", "compile, aot", "make_fx"}  # these take long
TRANSFORMS = {"jvp", "vjp", "grad", "vmap", "vmap of parameters", "functionalize"}
CHANGES_VALUES = {"jvp", "vjp", "grad", "changed in place", "hooks", "residual", "twice"}


# How a program is differentiated


grads = functools.partial(torch.autograd.grad, allow_unused=True, materialize_grads=True)


def first_order(loss: Callable[[Tensor], Tensor]) -> Any:
    def found(program: Program, given: list[Tensor]) -> list[Tensor]:
        y = program(*given)
        return [y, *grads(loss(y), given)]

    return found


def penalty(program: Program, given: list[Tensor]) -> list[Tensor]:
    """Return the gradients of the norm of a gradient."""
    (dx,) = torch.autograd.grad(program(*given).pow(3).sum(), given[0], create_graph=True)
    return list(grads(dx.norm(), given))


def curvature(program: Program, given: list[Tensor]) -> list[Tensor]:
    """Return a product of the Hessian, of all three arguments."""
    first = torch.autograd.grad(program(*given).pow(3).sum(), given, create_graph=True)
    along = sum((g * t.detach().cos()).sum() for g, t in zip(first, given, strict=True))
    return list(grads(along, given))


def third_order(program: Program, given: list[Tensor]) -> list[Tensor]:
    value = program(*given).pow(3).sum()
    for _ in range(2):
        value = sum(g.square().sum() for g in grads(value, given, create_graph=True))
    return list(grads(value, given))


def batched(program: Program, given: list[Tensor]) -> list[Tensor]:
    y = program(*given)
    dys = torch.stack((y.detach().cos(), y.detach().sin()))
    return list(torch.autograd.grad(y, given, dys, is_grads_batched=True))


WAYS: dict[str, Callable[[Program, list[Tensor]], list[Tensor]]] = {
    "sum": first_order(Tensor.sum),
    "mean": first_order(Tensor.mean),
    "cubes": first_order(lambda y: y.pow(3).sum()),
    "penalty": penalty,
    "curvature": curvature,
    "third order": third_order,
    "batched": batched,
    "forward alone": lambda program, given: [program(*given)],
}
SHAPES = ((3, 5), (1, 7), (2, 3, 4), (17, 2), (1, 1), (0, 3), (4, 33))
DTYPES = (torch.float64, torch.float64, torch.float64, torch.float32)
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-3}  # up to third order


class Case(NamedTuple):
    """One program, and how it is called and differentiated, all by name."""

    around: tuple[str, ...]
    way: str
    backend: str
    layout: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    seed: int

    def found(self, norm: Norm) -> list[Tensor]:
        """Return what it finds with a norm."""
        generator = torch.Generator().manual_seed(self.seed)
        sizes = self.shape, self.shape[-1:], self.shape[-1:]
        x, w, b = (torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes)
        given = LAYOUTS[self.layout](x.to(self.dtype)), w.to(self.dtype), b.to(self.dtype)
        program: Program = lambda x, w, b: norm(x, x.shape[-1:], w, b, EPS)  # noqa: E731
        for name in self.around:
            program = AROUND[name](program)
        made = WAYS[self.way](program, [t.detach().requires_grad_() for t in given])
        if any(isinstance(t, FakeTensor) for t in made):  # of some exports
            raise RuntimeError("a tensor without numbers")
        return [t.detach().clone() for t in made]


@st.composite
def cases(draw: Any) -> Case:
    """Programs, some that both refuse among them."""
    usual = one_of(*(name for name in AROUND if name not in RARE))
    around = draw(st.lists(usual, min_size=1, max_size=3, unique=True))
    if draw(one_of(False, False, False, False, True)):
        around[draw(st.integers(0, len(around) - 1))] = draw(one_of(*sorted(RARE)))
    if {"export", "compile, aot"} & {*around}:  # failing in a transform, they leave a disorder
        around = [name for name in around if name not in TRANSFORMS | {"inference"}]
    # Whether there is C++ is not asked sooner: a process keeps the answer.
    backends = ["auto", "auto", "reference", "triton", *["cpp"] * (library.why_not() is None)]
    # What keeps no graph has nothing to differentiate.
    ways = ["forward alone"] if {"no gradient", "inference"} & {*around} else WAYS
    parts = (draw(one_of(*each)) for each in (ways, backends, LAYOUTS, SHAPES, DTYPES))
    return Case(tuple(around), *parts, seed=draw(st.integers(0, 99)))


def shaken(x: Tensor, *given: Any) -> Tensor:
    """Return the same of an x that is a few roundings off, which shows where all digits cancel."""
    return true(x * (1 + 4 * torch.finfo(x.dtype).eps), *given)


COMPILERS, NTH, SELECTING = (
    ("compile", "compile, aot"),
    ("first", "second"),
    ("saves", "recomputes"),
)
# What raises, and does not in PyTorch.
KNOWN = [
    # Under a mode PyTorch does not run its graph, but compiles what that calls, piece by piece.
    *({compiler, f"checkpoint, its {nth} pass seen"} for compiler in COMPILERS for nth in NTH),
    {"vmap of parameters", "jit.trace"},
    # Under these PyTorch runs no trace that adds a number to float64.
    *({"jit.trace", mode} for mode in ("a mode", "a mode that counts")),
    # Nor under a checkpoint that selects, which is a mode too.
    *({"jit.trace", f"checkpoint that {does}"} for does in SELECTING),
    # Recomputed from other strides, the compiled formula makes a copy that was not made before.
    *({"compile, aot", "kept in other strides", f"checkpoint that {does}"} for does in SELECTING),
]


def program_difference(case: Case) -> str:
    """Return how lnlib differs from PyTorch; empty if it does not, or if it alone is right."""
    norm = functools.partial(lnlib.layer_norm, backend=case.backend)
    ours, theirs = outcome(case.found, norm), outcome(case.found, F.layer_norm)
    if isinstance(ours, type):
        is_known = any(known <= {*case.around} for known in KNOWN)
        is_fine = is_known or (
            isinstance(theirs, type) and (issubclass(ours, theirs) or issubclass(theirs, ours))
        )
        return "" if is_fine else f"{said(ours)}, PyTorch {said(theirs)}"
    bare = case._replace(around=tuple(a for a in case.around if a in CHANGES_VALUES))
    for judge in (None, case, bare):  # PyTorch's third derivatives are wrong
        truth = outcome(judge.found, true) if judge else theirs
        if not isinstance(truth, type) and agree(ours, truth, ROUNDING[case.dtype]):
            return ""
    off = outcome(bare.found, shaken)
    if not isinstance(truth, type) and not isinstance(off, type):
        lost = [10 * (a - b).abs().sum().item() for a, b in zip(off, truth, strict=True)]
        if agree(ours, truth, ROUNDING[case.dtype], lost):
            return ""
    return f"{said(ours)}, PyTorch {said(theirs)}, the formula {said(truth)}"
