"""What the compiler makes of kernels for GPUs that are not here: registers, accesses, barriers.

Triton compiles for any GPU on any machine. Here `lnlib.triton_kernel.launch` makes its launches as
ever, for tensors without memory; a stand-in takes each launch down, and Triton's own launcher
compiles it for a named GPU and stops before it would run. So the kernels, tiles and alignments read
here are those that a GPU would get, and change when the launches do.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from lnlib.triton_kernel import launch

TARGETS = {
    "cuda:80": GPUTarget("cuda", 80, 32),
    "cuda:90": GPUTarget("cuda", 90, 32),
    "hip:gfx942": GPUTarget("hip", "gfx942", 64),
}
KERNELS = import_module("lnlib.triton_kernel.kernels")
SOURCE = Path(KERNELS.__file__)
TOOLS = Path(nvidia.__file__).parent / "bin"
ROWS = 3


class Launch(NamedTuple):
    """One launch as `lnlib.triton_kernel.launch` makes it: what, with which operands and warps."""

    kernel: Any  # triton.JITFunction
    operands: tuple[Any, ...]
    options: dict[str, Any]
    grid: tuple[int, ...] = (1,)

    @property
    def name(self) -> str:
        """Return the kernel's name, without what all names share."""
        return str(self.kernel.fn.__name__.removesuffix("_kernel"))

    @property
    def by_name(self) -> dict[str, Any]:
        """Return the operands under the names of the kernel's parameters."""
        return dict(zip(self.kernel.arg_names, self.operands, strict=True))

    def key(self, target: str) -> str:
        """Return what Triton tells launches apart by: one key is one compilation."""
        with _machine(target):
            binder = self.kernel.device_caches[target][-1]
            _, specialization, _ = binder(*self.operands, **self.options)
        return f"{self.name} {self.options} {specialization}"

    def compile(self, target: str) -> Any:
        """Return the kernel as compiled for ``target``."""
        options = self.options
        if target.startswith("hip"):  # where lnlib would set no limit
            options = {name: value for name, value in options.items() if name != "maxnreg"}
        with _machine(target):
            return self.kernel.warmup(*self.operands, grid=(1,), **options)


class Report(NamedTuple):
    """What a kernel takes of each thread, and how it gets at the memory."""

    registers: int
    stack: int  # bytes of each thread: more than 0 if registers did not suffice
    spills: int  # instructions that go to the stack
    shared: int  # bytes of each program
    accesses: dict[str, set[int]]  # how many bytes at once of each operand; of an AMD GPU, nothing
    ahead: frozenset[str]  # operands that are copied to shared memory while the program goes on
    barriers: int  # instructions

    def widths(self, operand: str) -> set[int]:
        """Return how many bytes of ``operand`` instructions move; 0 if none does."""
        return self.accesses.get(operand, {0})


def rows(H: int, dtype: torch.dtype, layout: str = "contiguous") -> Tensor:
    """Return rows of ``H`` numbers, which take no memory and are not there: a pointer is a number.

    ``layout`` is "contiguous", "misaligned" (they start one number late), "strided" (they are one
    number further apart than they are long) or "expanded" (all of them are one number).
    """
    if layout == "expanded":
        return torch.empty((), dtype=dtype, device="meta").expand(ROWS, H)
    late, apart = layout == "misaligned", H + (layout == "strided")
    storage = torch.empty(late + ROWS * apart, dtype=dtype, device="meta")
    return storage[late:].view(ROWS, apart)[:, :H]


def parameter(H: int, dtype: torch.dtype) -> Tensor:
    """Return a weight or a bias, likewise."""
    return torch.empty(H, dtype=dtype, device="meta")


@contextmanager
def taking(take: Callable[[Launch], Any]) -> Iterator[None]:
    """Give each launch that lnlib makes to ``take``; none is run."""

    class Kernel:
        def __init__(self, kernel: Any) -> None:
            self.kernel = kernel

        def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
            def launched(*operands: Any, **options: Any) -> None:
                rest = [options.pop(name) for name in self.kernel.arg_names[len(operands) :]]
                take(Launch(self.kernel, (*operands, *rest), options, grid))

            return launched

    class Kernels:
        def __init__(self, name: str) -> None:
            self.module = import_module(name)

        def __getattr__(self, name: str) -> Kernel:
            return Kernel(getattr(self.module, name))

    load = patch.object(launch.runtime, "load", lambda name, device: Kernels(name))
    check = patch.object(launch.runtime, "check", lambda device: None)
    with load, check, patch.object(launch, "on", lambda device: nullcontext()):
        yield


def passes(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    dy: Tensor | None = None,
    needs: Sequence[bool] = (True, True, True),
    eps: float = 1e-5,
) -> list[Launch]:
    """Return the launches of both passes for these operands; ``dy`` is as x by default."""
    dtypes = [x.dtype if p is None else p.dtype for p in (x, weight, bias)]
    wanted = [dtype if need else None for dtype, need in zip(dtypes, needs, strict=True)]
    taken: list[Launch] = []
    with taking(taken.append):
        _, statistics = launch.forward(x, weight, bias, eps)
        launch.backward(x if dy is None else dy, x, weight, statistics, wanted)
    return taken


def read(compiled: Any) -> Report:
    """Read the machine code."""
    return _read_cuda(compiled) if "cubin" in compiled.asm else _read_hip(compiled)


def at_once(launched: Launch, operand: str, warp: int) -> tuple[int, int]:
    """Return the fewest and the most bytes of ``operand`` that an instruction is to move.

    The most is 16, but no more than divide a row and where rows begin: more would be misaligned, or
    go beyond a row's end. The fewest is what a thread has to have of the tile of that. Both are 0
    if the launch has no such operand, or a row of it is one number expanded.
    """
    by_name = launched.by_name
    tensor = by_name.get(f"{operand}_ptr")
    if tensor is None or by_name.get(f"{operand.upper()}_STEP") == 0:
        return 0, 0
    most = min(16 // tensor.itemsize, *map(_power_of_2_in, (by_name["H"], tensor.stride(0))))
    if tensor.data_ptr() % 16:
        most = 1  # Triton knows of 16 bytes or of nothing
    tile = by_name.get("BLOCK_B", 1) * by_name["BLOCK_H"]
    owned = min(most, tile // (warp * launched.options["num_warps"]), by_name["BLOCK_H"])
    return max(1, owned) * tensor.itemsize, most * tensor.itemsize


STATEMENT = r"\s*(?:\{ *\.reg[^;]*; *)?(?:@!?%p\d+ +)?([a-z][\w.]*)(.*);"


class Instruction(NamedTuple):
    """A line of PTX."""

    name: str
    operands: list[str]
    place: str  # in the source: of what is called there, where it is called


def instructions(compiled: Any) -> list[Instruction]:
    """Return the program as PTX; of what has a register of its own, "{ .reg …; … }", the inside."""
    place, found = "", []
    for line in compiled.asm["ptx"].splitlines():
        statement, _, comment = line.partition("//")
        if ".loc" in statement:
            place = re.findall(r"[\w.]+:\d+", comment)[-1]
        elif text := re.match(STATEMENT, statement):
            found.append(Instruction(text[1], re.findall(r"%\w+", text[2]), place))
    return found


@cache
def _operands() -> dict[int, str]:
    """Return which operand a line of the kernels reads or writes, line by line.

    What is read through a bare name is one number of a row, and left out.
    """
    found = {}
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf8"))):
        is_access = isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.load", "tl.store")
        if not is_access:
            continue
        address = ast.unparse(node.args[0])
        if address not in ("x_row", "x_rows"):
            operand = re.search(r"[a-z]+(?:_partials)?", address).group().removesuffix("_at")
            for line in range(node.lineno, node.end_lineno + 1):
                found[line] = operand
    return found


class _Machine:
    """As much of a GPU's driver as Triton asks for before it runs something."""

    def __init__(self, target: str) -> None:
        self.target = target

    def get_current_device(self) -> str:
        return self.target  # Triton keeps what it has compiled under this name

    def get_current_stream(self, device: str) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return TARGETS[self.target]


def _machine(target: str) -> Any:
    return patch.object(driver, "_active", _Machine(target))


INSTRUCTION = r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(.+?) ;"


def _read_cuda(compiled: Any) -> Report:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = _run("cuobjdump", "-res-usage", file.name)
        code = _run("nvdisasm", "-ndf", "-g", file.name)
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", usage).groups()
    size = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
    accesses, ahead = {}, set()
    for operand, text in _instructions(code):
        name, *kinds = text.split()[0].split(".")
        if name in ("LDG", "STG", "LDGSTS"):
            width = next((size[kind] for kind in kinds if kind in size), 4)
            accesses.setdefault(operand, set()).add(width)
            if name == "LDGSTS":
                ahead.add(operand)
    return Report(
        registers=int(registers),
        stack=int(stack),
        spills=len(re.findall(r"\b(?:LDL|STL)\b", code)),
        shared=compiled.metadata.shared,
        accesses=accesses,
        ahead=frozenset(ahead),
        barriers=len(re.findall(r"\bBAR\.", code)),
    )


def _read_hip(compiled: Any) -> Report:
    code = compiled.asm["amdgcn"]

    def count_of(name: str) -> int:
        return int(re.search(rf"\.{name}:\s+(\d+)", code).group(1))

    return Report(
        registers=count_of("vgpr_count"),
        stack=count_of("private_segment_fixed_size"),
        spills=len(re.findall(r"\bscratch_", code)) + count_of("vgpr_spill_count"),
        shared=compiled.metadata.shared,
        accesses={},
        ahead=frozenset(),
        barriers=len(re.findall(r"\bs_barrier", code)),
    )


def _instructions(code: str) -> list[tuple[str, str]]:
    """Return the instructions about an operand of the kernel, each with that operand."""
    operand, found = None, []
    for line in code.splitlines():
        if at := re.search(r'//## File "(.+)", line (\d+)', line):
            is_kernel = Path(at[1]).name == SOURCE.name
            operand = _operands().get(int(at[2])) if is_kernel else None
        elif operand and (text := re.search(INSTRUCTION, line)):
            found.append((operand, text[1]))
    return found


def _power_of_2_in(n: int) -> int:
    return n & -n if n else 16


def _run(tool: str, *arguments: str) -> str:
    done = subprocess.run(
        [TOOLS / tool, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout
