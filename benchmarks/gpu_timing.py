"""To time on a GPU, fairly: providers in processes of their own, cold caches, no launch counted.

`Gpu` times one function in this process. `Remote` is the way to a worker in another process: an
object whose methods take and return what can be pickled, and whose answers say their ``status``.
"""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import torch

FLUSH = 2**28  # bytes read between two runs, several times the cache of any GPU so far
CALLS = 50  # in a graph that is timed with a warm cache: together far longer than its launch
HOST_CALLS = 100
ANSWER = 90  # seconds after which a provider counts as hung; to compile takes a few
# What errors say after which a process is of no use: its context on the GPU is lost.
LOST = ("CUDA error", "HIP error", "Error [CUDA]", "Error [HIP]")


class Machine(Protocol):
    """What is timed on: a GPU, or what stands for one in a test."""

    device: torch.device

    def timer(self, run: Callable[[], object], regime: str) -> tuple[Callable[[float], float], str]:
        """Return what times ``run`` for some seconds, as a median in µs, and a status."""

    def peak_bytes(self, run: Callable[[], object]) -> int:
        """Return what ``run`` allocates at most."""

    def free(self) -> None:
        """Give back memory that nobody uses."""


class Gpu:
    """The current CUDA device, NVIDIA's or AMD's."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        # One stream, that can be captured: a backward pass runs on the stream of its forward pass.
        torch.cuda.set_stream(torch.cuda.Stream())
        self.other = torch.zeros(FLUSH // 4, dtype=torch.float32, device=self.device)

    def timer(self, run: Callable[[], object], regime: str) -> tuple[Callable[[float], float], str]:
        """Return what times ``run`` for some seconds, as a median in µs, and a status."""
        if regime == "latency":
            run()
            return lambda seconds: self._on_the_wall(run, seconds), "ok"
        count = CALLS if regime == "cache" else 1
        repeat, status = self._repeat(run, count)
        before = repeat if regime == "cache" else self.other.sum
        return lambda seconds: self._by_events(repeat, before, count, seconds), status

    def _repeat(self, run: Callable[[], object], count: int) -> tuple[Callable[[], object], str]:
        """Return ``count`` calls of ``run``, as a graph if they can be captured."""

        def calls() -> None:
            for _ in range(count):
                run()

        for _ in range(3):  # loads kernels, and fills the allocator's pool
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                calls()
        except RuntimeError as error:
            torch.cuda.synchronize()
            return calls, f"timed without a CUDA graph: {first_line(error)}"
        return graph.replay, "ok"

    def _by_events(
        self, repeat: Callable[[], object], before: Callable[[], object], count: int, seconds: float
    ) -> float:
        """Return the median time of one call. ``before`` keeps the GPU busy while we enqueue."""
        times: list[float] = []
        until = time.perf_counter() + seconds
        while not times or time.perf_counter() < until:
            pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(10)]
            for start, end in pairs:
                before()
                start.record()
                repeat()
                end.record()
            torch.cuda.synchronize()
            times += [1e3 * start.elapsed_time(end) / count for start, end in pairs]
        return statistics.median(times)

    def _on_the_wall(self, run: Callable[[], object], seconds: float) -> float:
        times: list[float] = []
        until = time.perf_counter() + seconds
        while not times or time.perf_counter() < until:
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(HOST_CALLS):
                run()
            torch.cuda.synchronize()
            times.append(1e6 * (time.perf_counter() - start) / HOST_CALLS)
        return statistics.median(times)

    def peak_bytes(self, run: Callable[[], object]) -> int:
        """Return what ``run`` allocates at most, beyond what is allocated already."""
        run()  # what is made once, such as a library's workspace, is no part of it
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = run()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        del result
        return peak

    def free(self) -> None:
        """Give back memory that nobody uses, for the other processes."""
        gc.collect()
        torch.cuda.empty_cache()


def first_line(error: BaseException) -> str:
    """Return the type of an error and the first line of what it says, cut to fit in a table."""
    lines = f"{error}".strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:120]


def is_lost(reply: dict[str, Any]) -> bool:
    """Tell whether the process that gave this answer cannot go on."""
    return any(sign in reply["status"] for sign in LOST)


def serve(connection: Any, make: Callable[[], Any]) -> None:
    """Run in the process of a worker: make it, and answer until the other end is closed."""
    try:
        worker = make()
    except Exception as error:  # whatever keeps another project's package from loading
        connection.send({"status": f"absent: {first_line(error)}"})
        return
    connection.send({"status": "ok", "version": worker.version})
    with suppress(EOFError):
        while True:
            method, *arguments = connection.recv()
            try:
                reply = getattr(worker, method)(*arguments)
            except Exception as error:
                reply = {"status": f"failed: {first_line(error)}"}
                with suppress(Exception):  # what is broken already need not say so twice
                    worker.release()
            connection.send(reply)
            if is_lost(reply):
                return


class Remote:
    """A worker in a process of its own, and the connection to it.

    Args:
        name: of the worker.
        make: makes it, there; it is pickled. The worker needs ``version`` and ``release()``.
        answer: seconds after which it counts as hung.
    """

    def __init__(self, name: str, make: Callable[[], Any], answer: float = ANSWER):
        self.name, self.make, self.answer = name, make, answer
        self.is_hung = False
        self.start()

    def start(self) -> None:
        """Start the process; `receive` then tells whether the worker is there."""
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self.make))
        self.process.start()
        theirs.close()  # so that a process that dies ends what we wait for

    def send(self, method: str, *arguments: object) -> None:
        """Ask for something, of a new process if the last one is gone."""
        if not self.process.is_alive():
            self.start()
            self.receive()
        with suppress(BrokenPipeError):  # then `receive` says so
            self.connection.send((method, *arguments))

    def receive(self) -> dict[str, Any]:
        """Return the answer; a process that has none in time is ended."""
        try:
            if self.connection.poll(self.answer):
                reply: dict[str, Any] = self.connection.recv()
                if is_lost(reply):
                    self.stop()  # the next request gets a new process
                return reply
            self.is_hung = True
            self.stop()
            return {"status": f"failed: no answer in {self.answer:g} s"}
        except (EOFError, ConnectionResetError):
            self.stop()
            return {"status": "failed: its process ended"}

    def ask(self, method: str, *arguments: object) -> dict[str, Any]:
        """Send and receive."""
        self.send(method, *arguments)
        return self.receive()

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()


def ask_all(remotes: Sequence[Remote], method: str, *arguments: object) -> list[dict[str, Any]]:
    """Ask all at once, since compiling takes most of the time; return the answers in order."""
    for remote in remotes:
        remote.send(method, *arguments)
    return [remote.receive() for remote in remotes]
