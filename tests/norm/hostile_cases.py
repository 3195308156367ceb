"""lnlib in hostile but ordinary circumstances: each function runs in a process of its own.

One that returns has found the right values, or the type of exception that PyTorch raises.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import random_calls
import random_programs
import torch
import torch.nn.functional as F
from odd_tensors import ODD, Plain
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


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def subject(name: str) -> Subject:
    """Return a layer norm by one of the backends, or an LSTM."""
    if name.startswith("LSTM"):
        return _lstm(name)

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return lnlib.layer_norm(x, (13,), weight, bias, backend=name)

    def true(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return formula.layer_norm(x, weight, bias)

    inputs = [rand(5, 13), 1 + rand(13, seed=1), rand(13, seed=2)]
    return Subject(run, true, inputs, rand(5, 13, seed=3))


def known(name: str) -> Subject:
    """Return a subject that has been called: from then on calls may take the shortest way."""
    given = subject(name)
    of(given.run, given.inputs, given.dy)
    return given


def _lstm(name: str) -> Subject:
    torch.manual_seed(0)
    if name == "LSTM":
        network: Any = lnlib.LayerNormLSTM(5, 7)
        x, dy = rand(4, 3, 5), rand(4, 3, 7, seed=3)
    else:
        network = lnlib.LayerNormLSTMCell(5, 7)
        x, dy = rand(3, 5), rand(3, 7, seed=3)
    names = [name for name, _ in network.named_parameters()]
    by_torch = type(network)(5, 7, backend="reference")

    def run(x: Tensor, *weights: Tensor, network: Any = network) -> Tensor:
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(network, given, (x,))[0]

    def true(x: Tensor, *weights: Tensor) -> Tensor:
        return run(x, *weights, network=by_torch)

    return Subject(run, true, [x, *(p.detach() for p in network.parameters())], dy)


def of(run: Run, inputs: list[Tensor], dy: Tensor) -> list[Tensor]:
    """Return what ``run`` gives and its gradients along ``dy``."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    y = run(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def truth(given: Subject) -> list[Tensor]:
    return of(given.true, [t.double() for t in given.inputs], given.dy.double())


def assert_right(found: list[Tensor], expected: list[Tensor], tolerance: float = 1e-4) -> None:
    assert len(found) == len(expected)
    for each, true in zip(found, expected, strict=True):
        torch.testing.assert_close(each.double(), true, rtol=tolerance, atol=tolerance)


def outcome(run: Callable[[], object]) -> type[BaseException] | None:
    """Return the type of exception that a call raises, None if it returns."""
    try:
        run()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return type(error)
    return None


# What surrounds a call


def in_peace(name: str) -> None:
    given = subject(name)
    assert_right(of(given.run, given.inputs, given.dy), truth(given))


def default_device(name: str) -> None:
    given = known(name)
    expected = truth(given)
    with torch.device("meta"):
        assert_right(of(given.run, given.inputs, given.dy), expected)
    torch.set_default_device("meta")
    assert_right(of(given.run, given.inputs, given.dy), expected)


def default_dtype(name: str) -> None:
    given = known(name)
    expected = truth(given)
    torch.set_default_dtype(torch.float64)
    found = of(given.run, given.inputs, given.dy)
    assert {each.dtype for each in found} == {torch.float32}
    assert_right(found, expected)


def watched(name: str) -> None:
    given = known(name)
    expected = truth(given)
    for around in ("both", "forward", "backward"):
        watch = Watch()

        def run(*inputs: Tensor, watch=watch, around=around) -> Tensor:
            with watch if around != "backward" else nullcontext():
                return given.run(*inputs)

        leaves = [t.detach().requires_grad_() for t in given.inputs]
        y = run(*leaves)
        with watch if around != "forward" else nullcontext():
            grads = torch.autograd.grad(y, leaves, given.dy)
        assert_right([y.detach(), *grads], expected)
        assert any("mul" in each or "norm" in each for each in watch.seen)


def recorded(name: str) -> None:
    given = known(name)
    other = [t + 0.5 * rand(*t.shape, seed=9) for t in given.inputs]
    expected = truth(given._replace(inputs=other))
    graph = make_fx(given.run)(*given.inputs)
    assert_right([graph(*other)], expected[:1])

    def both(dy: Tensor, *inputs: Tensor) -> list[Tensor]:
        return of(given.run, list(inputs), dy)

    assert_right(make_fx(both)(given.dy, *given.inputs)(given.dy, *other), expected)
    leaves = [t.detach().requires_grad_() for t in given.inputs]
    y = given.run(*leaves)  # a constant of the graph: recorded is the way back alone
    back = make_fx(lambda dy: torch.autograd.grad(y, leaves, dy))(rand(*y.shape, seed=8))
    assert_right(list(back(given.dy)), truth(given)[1:])


def recorded_before_dispatching(name: str) -> None:
    """The way there alone: of `torch.nn.LSTM`, too, such a graph has another way back."""
    given = known(name)
    other = [t + 0.5 * rand(*t.shape, seed=9) for t in given.inputs]
    graph = make_fx(given.run, pre_dispatch=True)(*given.inputs)
    assert_right([graph(*other)], truth(given._replace(inputs=other))[:1])


def faked(name: str) -> None:
    warnings.simplefilter("ignore", UserWarning)  # PyTorch asks for .grad of what has none
    given = known(name)
    leaves = [t.detach().requires_grad_() for t in given.inputs]
    real = given.run(*leaves)
    with FakeTensorMode(allow_non_fake_inputs=True):
        y = given.run(*leaves)
        fakes = [y, *torch.autograd.grad(y, leaves, given.dy)]
        fakes += torch.autograd.grad(real, leaves, given.dy)
    shapes = [tuple(t.shape) for t in leaves]
    assert [tuple(t.shape) for t in fakes] == [tuple(real.shape), *shapes, *shapes]
    assert {type(t) for t in fakes} == {FakeTensor}


KINDS = [
    *("of a subclass", "of a wrapper", "functional", "zeros that are nowhere", "lazily cloned"),
    *("with the other sign", "every other", "freed", "cut off", "quantized", "sparse", "meta"),
]
REFUSED = ("freed", "cut off", "quantized", "sparse", "meta")


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
        expected = truth(given._replace(inputs=arguments[:-1], dy=arguments[-1]))
        *inputs, dy = (odd if n == position else t for n, t in enumerate(arguments))
        if kind not in REFUSED:
            assert_right([plain(each) for each in of(given.run, inputs, dy)], expected)
            continue
        ours = outcome(partial(of, given.run, inputs, dy))
        if kind in ("freed", "cut off"):  # beyond which PyTorch may read
            assert ours is RuntimeError
        elif name != "LSTM":  # of a sparse bias, PyTorch's type is narrower: an accident
            assert issubclass(outcome(partial(of, by_pytorch, inputs, dy)), ours)
        else:  # its matrices may be sparse
            assert ours is None or issubclass(ours, RuntimeError)


def by_pytorch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (13,), weight, bias)


# What autograd keeps between the passes


def resized(tensor: Tensor) -> Tensor:
    return ODD["freed"](tensor) if tensor.numel() else tensor


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

    def grads(run: Run) -> list[Tensor]:
        leaves = [t.detach().requires_grad_() for t in given.inputs]
        with saved_tensors_hooks(lambda tensor: tensor, UNPACK[unpack]):
            y = run(*leaves)
        return list(torch.autograd.grad(y, leaves, given.dy))

    if unpack in RIGHT:
        assert_right(grads(given.run), truth(given)[1:], 0.1 if unpack == "lossy" else 1e-4)
        return
    ours = outcome(lambda: grads(given.run))
    if "LSTM" in name:
        assert issubclass(ours, RuntimeError)
    else:
        assert ours is outcome(lambda: grads(by_pytorch))


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


def fork_before_and_after_the_first_call(name: str) -> None:
    """A child has threads of its own; one that waits for those of its parent hangs."""
    given = _large(name)
    assert torch.get_num_threads() > 1
    for _ in range(2):
        assert _in_a_child(given) == 0
        assert_right(of(given.run, given.inputs, given.dy), truth(given))


def fork_where_threads_cannot_be_ended(name: str) -> None:
    """A child has one thread then: it would wait forever for others, which are in its parent."""
    given = _large(name)
    of(given.run, given.inputs, given.dy)

    def refuse(*_: object, **__: object) -> None:
        raise OSError

    ctypes.CDLL = refuse  # so that no OpenMP is found
    assert _in_a_child(given, threads=1) == 0


def _in_a_child(given: Subject, threads: int | None = None) -> int:
    """Return the status of a forked process that computes it."""
    expected = truth(given)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert library.threads() == (threads or torch.get_num_threads())
            found = of(given.run, given.inputs, given.dy)
            torch.set_num_threads(1)  # PyTorch may have lost those that it compares with
            assert_right(found, expected)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _large(name: str) -> Subject:
    """Return a subject that is worth several threads in lnlib's C++."""
    given = subject(name)
    if name == "LSTM":
        inputs = [rand(4, 4000, 5), *given.inputs[1:]]
        return given._replace(inputs=inputs, dy=rand(4, 4000, 7, seed=3))
    return given._replace(inputs=[rand(6000, 13), *given.inputs[1:]], dy=rand(6000, 13, seed=3))


def eight_threads_at_one_moment(name: str) -> None:
    given = subject(name)
    expected = truth(given)
    barrier, found = threading.Barrier(8), []

    def work() -> None:
        barrier.wait()
        found.append(of(given.run, given.inputs, given.dy))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for each in found:
        assert_right(each, expected)


def more_threads_than_can_be(name: str) -> None:
    given = _large(name)
    expected = truth(given)
    torch.set_num_threads(10_000)
    room = 2**30 + os.sysconf("SC_PAGE_SIZE") * int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (room, room))  # for the stacks of a hundred
    found = of(given.run, given.inputs, given.dy)
    torch.set_num_threads(1)  # PyTorch would start all of them to compare
    assert_right(found, expected)


# The library


def expects(backend: str, reason: str = "", line: str = "", told: Listener = None) -> None:
    """Run all that could be C++; see which backend took it, what is said of it, and in the log.

    Args:
        backend: the one that takes it.
        reason: what `lnlib.backends` says of it.
        line: what the one line of the log says; empty if there is none.
        told: called when the log is.
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


def expects_where_none_was_installed(backend: str, reason: str) -> None:
    """Run as an lnlib that was installed where there was no compiler; what hears of it calls it."""
    library.find_spec = lambda name: None
    expects(backend, reason, reason, told=lambda: in_peace("auto"))


def expects_where_nothing_can_be_loaded(backend: str, reason: str) -> None:
    """Run where memory may not be executed, as it is with a disk that is mounted noexec."""

    def refuse(path: str) -> ctypes.CDLL:
        raise OSError(f"{path}: failed to map segment from shared object")

    ctypes.CDLL = refuse  # type: ignore[misc, assignment]
    expects(backend, reason, reason)


def expects_in_a_graph(is_operator: bool) -> None:
    """Compile, as the first that a process does with lnlib, and see what the graph holds."""
    given, graphs = subject("auto"), []
    rows = in_graph.WORTH_AN_OPERATOR // 13 + 1
    given = given._replace(inputs=[rand(rows, 13), *given.inputs[1:]], dy=rand(rows, 13, seed=3))

    def keep(graph: torch.fx.GraphModule, _: object) -> Run:
        graphs.append(str(graph.code))
        return graph.forward

    warnings.simplefilter("default")  # PyTorch's compiler has some of its own
    compiled = torch.compile(given.run, backend=keep, fullgraph=True)
    assert_right(of(compiled, given.inputs, given.dy), truth(given))
    assert [("lnlib.layer_norm" in code) for code in graphs] == [is_operator]
