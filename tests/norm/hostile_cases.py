"""lnlib in hostile but ordinary circumstances: each function runs in a process of its own.

One that returns has found the right values, or the type of exception that PyTorch raises.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import resource
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import random_calls
import random_programs
import torch
import torch.nn.functional as F
from odd_tensors import ODD, Plain
from random_calls import outcome
from random_programs import Watch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor

import lnlib
from lnlib import formula, in_graph
from lnlib.cpp_kernel import library
from lnlib.triton_kernel import runtime

Run = Callable[..., Tensor]
Listener = Callable[[], None] | None

# What takes seconds, and leaves no thread behind: once, for all cases.
make_fx(lambda x: x + 1)(torch.ones(1))
runtime.kernels(torch.device("cpu"))


def begin() -> None:
    """Make a forked process as good as a new one: the one it comes from had no threads."""
    library.threads = torch.get_num_threads
    warnings.simplefilter("error")


class Subject(NamedTuple):
    """Something that lnlib computes: ``run(*inputs)`` is compared with ``true(*inputs)``."""

    run: Run
    true: Run
    inputs: list[Tensor]
    dy: Tensor

    def leaves(self) -> list[Tensor]:
        return [t.detach().requires_grad_() for t in self.inputs]

    def found(self, run: Run | None = None) -> list[Tensor]:
        """Return what ``run`` gives, and its gradients along ``dy``."""
        leaves = self.leaves()
        y = (run or self.run)(*leaves)
        return [y.detach(), *torch.autograd.grad(y, leaves, self.dy)]

    def truth(self) -> list[Tensor]:
        wide = self._replace(inputs=[t.double() for t in self.inputs], dy=self.dy.double())
        return wide.found(self.true)

    def elsewhere(self) -> Subject:
        """Return the same of other numbers."""
        return self._replace(inputs=[t + 0.5 * rand(*t.shape, seed=9) for t in self.inputs])


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def subject(name: str, rows: int = 5) -> Subject:
    """Return a layer norm by one of the backends, or an LSTM."""
    if name.startswith("LSTM"):
        return _lstm(name, rows)

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return lnlib.layer_norm(x, (13,), weight, bias, backend=name)

    inputs = [rand(rows, 13), 1 + rand(13, seed=1), rand(13, seed=2)]
    return Subject(run, formula.layer_norm, inputs, rand(rows, 13, seed=3))


def _lstm(name: str, rows: int) -> Subject:
    torch.manual_seed(0)
    kind: Any = lnlib.LayerNormLSTM if name == "LSTM" else lnlib.LayerNormLSTMCell
    shape = (4, rows) if name == "LSTM" else (rows,)
    network, by_torch = kind(5, 7), kind(5, 7, backend="reference")
    names = [name for name, _ in network.named_parameters()]

    def run(x: Tensor, *weights: Tensor, network: Any = network) -> Tensor:
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(network, given, (x,))[0]

    def true(x: Tensor, *weights: Tensor) -> Tensor:
        return run(x, *weights, network=by_torch)

    inputs = [rand(*shape, 5), *(p.detach() for p in network.parameters())]
    return Subject(run, true, inputs, rand(*shape, 7, seed=3))


def known(name: str) -> Subject:
    """Return a subject that has been called: from then on calls may take the shortest way."""
    given = subject(name)
    given.found()
    return given


def assert_right(found: list[Tensor], expected: list[Tensor], tolerance: float = 1e-4) -> None:
    for each, true in zip(found, expected, strict=True):
        torch.testing.assert_close(each.double(), true, rtol=tolerance, atol=tolerance)


# What surrounds a call


def in_peace(name: str) -> None:
    given = subject(name)
    assert_right(given.found(), given.truth())


def other_defaults(name: str) -> None:
    given = known(name)
    expected = given.truth()
    for change in (
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_device("meta"),
    ):
        change()
        found = given.found()
        assert {each.dtype for each in found} == {torch.float32}
        assert_right(found, expected)


def watched(name: str) -> None:
    given = known(name)
    for passes in ((True, True), (True, False), (False, True)):
        watch, leaves = Watch(), given.leaves()
        forward, backward = (watch if each else contextlib.nullcontext() for each in passes)
        with forward:
            y = given.run(*leaves)
        with backward:
            grads = torch.autograd.grad(y, leaves, given.dy)
        assert_right([y.detach(), *grads], given.truth())
        assert any("mul" in each or "norm" in each for each in watch.seen)


def recorded(name: str) -> None:
    given = known(name)
    other = given.elsewhere()
    # Before dispatching, the way there alone: of `torch.nn.LSTM`, too, there is another way back.
    for pre_dispatch in (False, True):
        graph = make_fx(given.run, pre_dispatch=pre_dispatch)(*given.inputs)
        assert_right([graph(*other.inputs)], other.truth()[:1])

    def both(dy: Tensor, *inputs: Tensor) -> list[Tensor]:
        return given._replace(inputs=inputs, dy=dy).found()

    graph = make_fx(both)(given.dy, *given.inputs)
    assert_right(graph(given.dy, *other.inputs), other.truth())
    leaves = given.leaves()
    y = given.run(*leaves)  # a constant of the graph: recorded is the way back alone
    back = make_fx(lambda dy: torch.autograd.grad(y, leaves, dy))(rand(*y.shape, seed=8))
    assert_right(list(back(given.dy)), given.truth()[1:])


def faked(name: str) -> None:
    warnings.simplefilter("ignore", UserWarning)  # PyTorch asks for .grad of what has none
    given = known(name)
    leaves = given.leaves()
    real = given.run(*leaves)
    with FakeTensorMode(allow_non_fake_inputs=True):
        y = given.run(*leaves)
        fakes = [y, *torch.autograd.grad(y, leaves, given.dy)]
        fakes += torch.autograd.grad(real, leaves, given.dy)
    shapes = [t.shape for t in leaves]
    assert [t.shape for t in fakes] == [real.shape, *shapes, *shapes]
    assert {type(t) for t in fakes} == {FakeTensor}


WITHOUT_MEMORY = "freed", "cut off", "cut off after an offset"
REFUSED = *WITHOUT_MEMORY, "quantized", "sparse", "meta"
KINDS = "of a subclass", "of a wrapper", "functional", "zeros that are nowhere", "lazily cloned"
KINDS += "with the other sign", "every other", *REFUSED


def plain(tensor: Tensor) -> Tensor:
    """Return the numbers of a tensor of any kind."""
    if isinstance(tensor, TwoTensor):
        return tensor.a
    if torch._is_functional_tensor(tensor):
        torch._sync(tensor)
        return torch._from_functional_tensor(tensor)
    return tensor.as_subclass(Tensor)


def odd_tensors(name: str, kind: str) -> None:
    """Let each argument, and then dy, be of an odd kind: it works, or fails as PyTorch does."""
    warnings.simplefilter("ignore", UserWarning)  # that of quantization
    given = known(name)
    for position in range(len(given.inputs) + 1):
        arguments = [t.detach() for t in (*given.inputs, given.dy)]
        odd = ODD[kind](arguments[position])
        if kind == "zeros that are nowhere":
            arguments[position] = torch.zeros_like(arguments[position])
        right = given._replace(inputs=arguments[:-1], dy=arguments[-1])
        *inputs, dy = (odd if n == position else t for n, t in enumerate(arguments))
        call = given._replace(inputs=inputs, dy=dy)
        if kind not in REFUSED:
            assert_right([plain(each) for each in call.found()], right.truth())
            continue
        ours = outcome(call.found)
        if kind in WITHOUT_MEMORY:  # beyond which PyTorch may read
            assert ours is RuntimeError
        elif name != "LSTM":  # of a sparse bias, PyTorch's type is narrower: an accident
            assert issubclass(outcome(call.found, by_pytorch), ours)
        else:  # its matrices may be sparse
            assert isinstance(ours, list) or issubclass(ours, RuntimeError)


def by_pytorch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (13,), weight, bias)


# What autograd keeps between the passes


UNPACK: dict[str, Callable[[Tensor], Tensor]] = {
    "the same": lambda t: t,
    "a copy": Tensor.clone,
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "another sign": lambda t: torch._neg_view(-t),
    "a subclass": lambda t: t.as_subclass(Plain),
    "wanting a gradient": lambda t: t.detach().clone().requires_grad_(),
    "lossy": lambda t: t.bfloat16().float(),
    "double": Tensor.double,
    "half": Tensor.half,
    "meta": lambda t: t.to("meta"),
    "flat": lambda t: t.reshape(-1),
    "short": lambda t: t[:1],
    "long": lambda t: torch.cat([t, t]),
    "sparse": lambda t: t.detach().to_sparse(),
    "complex": lambda t: t + 1j,
    "freed": lambda t: ODD["freed"](t) if t.numel() else t,
}
RIGHT = [*UNPACK][:7]


def hooks(name: str, unpack: str) -> None:
    """Let a hook give back something else than was saved."""
    given = known(name)

    def hooked(run: Run) -> Run:
        def hooked(*inputs: Tensor) -> Tensor:
            with saved_tensors_hooks(lambda tensor: tensor, UNPACK[unpack]):
                return run(*inputs)

        return hooked

    if unpack in RIGHT:
        tolerance = 0.1 if unpack == "lossy" else 1e-4
        assert_right(given.found(hooked(given.run)), given.truth(), tolerance)
        return
    ours = outcome(given.found, hooked(given.run))
    if "LSTM" in name:
        assert issubclass(ours, RuntimeError)
    else:
        assert ours is outcome(given.found, hooked(by_pytorch))


# Right calls and wrong ones


DRAWN = {
    "layer norms": (random_calls.calls(), random_calls.difference),
    "programs": (random_programs.cases(), random_programs.program_difference),
    "LSTMs": (random_calls.lstm_calls(), random_calls.lstm_difference),
}


def random(what: str, number: int, is_fixed: bool) -> None:
    warnings.simplefilter("ignore")
    known("auto")
    random_calls.run(*DRAWN[what], number, is_fixed)


# Processes and threads


def large(name: str) -> Subject:
    """Return a subject that is worth several threads in lnlib's C++."""
    return subject(name, 4000 if name == "LSTM" else 6000)


def fork_before_and_after_the_first_call(name: str) -> None:
    """A child has threads of its own; one that waits for those of its parent hangs."""
    given = large(name)
    assert torch.get_num_threads() > 1
    for _ in range(2):
        assert _in_a_child(given) == 0
        assert_right(given.found(), given.truth())


def fork_where_threads_cannot_be_ended(name: str) -> None:
    """A child has one thread then: it would wait forever for others, which are in its parent."""
    given = large(name)
    given.found()
    ctypes.CDLL = refusing("there is no OpenMP")
    assert _in_a_child(given, threads=1) == 0


def _in_a_child(given: Subject, threads: int | None = None) -> int:
    """Return the status of a forked process that computes it."""
    expected = given.truth()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert library.threads() == (threads or torch.get_num_threads())
            found = given.found()
            torch.set_num_threads(1)  # PyTorch may have lost those that it compares with
            assert_right(found, expected)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def eight_threads_at_one_moment(name: str) -> None:
    given, barrier = subject(name), threading.Barrier(8)

    def found(_: int) -> list[Tensor]:
        barrier.wait()
        return given.found()

    with ThreadPoolExecutor(8) as pool:
        for each in pool.map(found, range(8)):
            assert_right(each, given.truth())


def more_threads_than_can_be(name: str) -> None:
    given = large(name)
    expected = given.truth()
    torch.set_num_threads(10_000)
    limit_memory(2**30)  # for the stacks of a hundred
    found = given.found()
    torch.set_num_threads(1)  # PyTorch would start all of them to compare
    assert_right(found, expected)


def limit_memory(more: int) -> None:
    """Let this process have so many bytes more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (resource.getpagesize() * pages + more,) * 2)


def memory_ends_in_the_backward_pass() -> None:
    x, weight = (torch.ones(*shape, requires_grad=True) for shape in ((4096, 16384), (16384,)))
    dy = torch.ones_like(x)
    lnlib.layer_norm(x, (16384,), weight).backward(dy)
    x.grad = weight.grad = None
    y = lnlib.layer_norm(x, (16384,), weight)
    limit_memory(x.nbytes + 2**22)  # dx, but no sums
    said = "nothing"
    try:
        y.backward(dy)
    except RuntimeError as error:
        said = str(error)
    assert said.startswith("not enough memory for the sums"), said


# The library


def refusing(words: str) -> Any:
    """Return a `ctypes.CDLL` that loads nothing."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(words)

    return refuse


def expects(backend: str, reason: str = "", line: str = "", told: Listener = None) -> None:
    """Run all that could be C++; see which backend takes it, and what is said of it.

    ``reason`` is what `lnlib.backends` says, ``line`` what the one line of the log does; either is
    empty if there is none. ``told`` is called when the log is.
    """
    lines: list[str] = []

    class Listens(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            if told is not None:
                told()

    logging.getLogger("lnlib").addHandler(Listens())
    for name in ("auto", "LSTM"):
        in_peace(name)
    (choice,) = (each for each in lnlib.backends() if each[:2] == ("cpu", torch.float32))
    assert choice.layer_norm == backend, choice
    assert (choice.lstm == "cpp") is (backend == "cpp"), choice
    assert reason in choice.why, choice
    assert bool(reason) is bool(choice.why), choice
    assert reason in repr(lnlib.backends())
    assert len(lines) == bool(line), lines
    assert all(line in each and "\n" not in each for each in lines), lines


def time_of_first_calls() -> None:
    """Print how many seconds the longest first call of a dtype takes, beyond that of PyTorch."""
    beyond = []
    for dtype in random_calls.FLOATS:
        x, times = torch.ones(2, 8, dtype=dtype), [time.perf_counter()]
        for kind in (torch.nn.LayerNorm, lnlib.LayerNorm):
            kind(8, dtype=dtype)(x)
            times.append(time.perf_counter())
        begin, middle, end = times
        beyond.append((end - middle) - (middle - begin))
    print(max(beyond))


def expects_where_none_was_installed(backend: str, reason: str) -> None:
    """Run as an lnlib that was installed where there was no compiler; what hears of it calls it."""
    library.name = lambda: "_none"
    expects(backend, reason, reason, told=lambda: in_peace("auto"))


def expects_where_nothing_can_be_loaded(backend: str, reason: str) -> None:
    """Run where memory may not be executed, as it is with a disk that is mounted noexec."""
    ctypes.CDLL = refusing(f"lnlib.so: {reason} from shared object")
    expects(backend, reason, reason)


def expects_in_a_graph(is_operator: bool) -> None:
    """Compile, as the first that a process does with lnlib, and see what the graph holds."""
    given, graphs = subject("auto", in_graph.WORTH_AN_OPERATOR // 13 + 1), []

    def keep(graph: torch.fx.GraphModule, _: object) -> Run:
        graphs.append("lnlib.layer_norm" in graph.code)
        return graph.forward

    warnings.simplefilter("default")  # PyTorch's compiler has some of its own
    compiled = torch.compile(given.run, backend=keep, fullgraph=True)
    assert_right(given.found(compiled), given.truth())
    assert graphs == [is_operator]
