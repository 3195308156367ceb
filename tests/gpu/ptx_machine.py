"""A machine that runs PTX: what Triton's compiler made for a GPU is executed here, in NumPy.

Within `executing`, whatever `lnlib.triton_kernel.launch` and `lnlib.lstm.triton_steps` launch for
tensors on the CPU is compiled for a GPU, as `gpu_code` does, and its PTX is run on the memory
of the tensors. The threads of all programs step together, a register being an array with a number
for each of them. What PTX leaves open is not what this one order happens to do, but a `PtxError`:

* an access that is misaligned for its width, or of bytes that are no element of any tensor;
* a read of shared memory that nobody wrote, or whose copy (cp.async) nobody has waited for;
* a race: two threads at one place of shared memory, or two warps at one place of a tensor, at least
  one of them writing, without a barrier between them; or two programs, at any time;
* threads that wait for others that never come, and an instruction that is not known here.

Threads of a warp may branch apart. They meet again where one of them has to wait for all: at a
shuffle, a load or store of a matrix, or a barrier.

Not modelled: what ptxas makes of the PTX (it may yet fuse a ``mul`` with an ``add``), caches,
clusters, atomics, barriers or shuffles of a part of the threads, and time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gpu_code import Launch, taking
from ptx_instructions import DTYPES, OPERATIONS, Array, PtxError
from ptx_memory import NOBODY, START, UNIT, Memory, Tensors, Who
from torch import Tensor

WARP = 32


# The program, as text


class Instruction(NamedTuple):
    """One line of PTX, taken apart."""

    name: str
    operands: tuple[Any, ...]  # each a str; or several in braces, a tuple
    guard: str | None  # the predicate that tells which threads do it
    guard_is: bool
    text: str
    place: str  # in the source


class Program(NamedTuple):
    """A kernel: the types of its parameters and registers, and what it does."""

    parameters: dict[str, str]
    registers: dict[str, str]  # by how their names begin
    threads: int
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


@cache
def parse(ptx: str) -> Program:
    """Return the one kernel of ``ptx``."""
    head = re.search(r"\.entry\s+\w+\(([^)]*)\)[^{]*\.reqntid\s+(\d+)[^{]*\{", ptx)
    if head is None:
        raise PtxError("there is no kernel, or nobody knows how many threads it has")
    parameters = re.findall(r"\.param\s+\.(\w+).*?(\w+)\s*(?:,|$)", head[1])
    instructions: list[Instruction] = []
    registers, labels, place = {}, {}, ""
    for line in ptx[head.end() :].splitlines():
        statement, _, comment = (part.strip() for part in line.partition("//"))
        if statement == "}":
            break
        if statement.startswith(".loc"):
            place = re.findall(r"[\w.]+:\d+", comment)[-1]  # before it, what is called there
        elif label := re.fullmatch(r"([$\w]+):", statement):
            labels[label[1]] = len(instructions)
        elif register := re.fullmatch(r"\.reg\s+\.(\w+)\s+(%[a-z]+)<\d+>;", statement):
            registers[register[2]] = register[1]
        elif statement and not statement.startswith(".pragma"):
            instructions.append(_instruction(statement, place))
    types = {name: kind for kind, name in parameters}
    return Program(types, registers, int(head[2]), tuple(instructions), labels)


def _instruction(statement: str, place: str) -> Instruction:
    # "{ .reg .b32 tmp; mov.b64 {%r2, tmp}, %rd1; }" has a register that nobody reads.
    scope = re.fullmatch(r"\{\s*\.reg\s+\.\w+\s+(\w+);\s*(.*;)\s*\}", statement)
    alone = re.sub(rf"\b{scope[1]}\b", "_", scope[2]) if scope else statement
    parts = re.fullmatch(r"(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*);", alone)
    if parts is None:
        raise PtxError(f"this is no instruction: {statement}")
    negated, guard, name, rest = parts.groups()
    operands = tuple(
        tuple(re.split(r"\s*,\s*", braces.strip())) if braces else bare.strip()
        for braces, bare in re.findall(r"\{([^}]*)\}|((?:\[[^\]]*\]|[^,{}\s][^,{}]*))", rest)
    )
    return Instruction(name, operands, guard, not negated, " ".join(statement.split()), place)


# The machine


class Group(NamedTuple):
    """Threads that stand at one instruction."""

    at: int
    threads: Array  # which ones, as booleans


class Copy(NamedTuple):
    """What cp.async has begun: of which threads, to where, and after how many commits of each."""

    threads: Array
    places: Array
    data: Array
    commits: Array


class Machine:
    """All programs of one launch, and their memory."""

    def __init__(
        self,
        program: Program,
        grid: tuple[int, ...],
        arguments: Sequence[int | float],
        tensors: Tensors,
        shared: int,
    ) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        self.program, self.tensors, self.size_of_shared = program, tensors, shared
        self.arguments = dict(zip(program.parameters, arguments, strict=True))
        self.programs, self.n = x * y * z, x * y * z * program.threads
        self.number = np.arange(self.n)  # of each thread, among all of them
        self.program_of = self.number // program.threads
        self.lane = self.number % WARP
        belongs = 1 + np.repeat(np.arange(self.programs), shared // UNIT)
        self.shared = Memory(np.append(belongs, 0), "thread", is_written=False)
        self.waiting = np.full(self.n, NOBODY)  # at which instruction each thread does
        self.is_barrier = np.array([each.name == "bar.sync" for each in program.instructions])
        self.barriers = np.zeros(self.programs, np.int32)  # that each program has passed
        self.commits = np.zeros(self.n, np.int32)
        self.copies: list[Copy] = []
        self.registers = {"%tid.x": (self.number % program.threads).astype(np.uint32)}
        sizes = z, y, x
        index = np.unravel_index(self.program_of, sizes)
        for axis, at, size in zip("zyx", index, sizes, strict=True):
            self.registers[f"%ctaid.{axis}"] = at.astype(np.uint32)
            self.registers[f"%nctaid.{axis}"] = np.full(self.n, size, np.uint32)

    # Which instruction is next

    def run(self) -> None:
        """Run all programs to their ends."""
        groups = [Group(0, np.ones(self.n, bool))]
        with np.errstate(all="ignore"):
            while groups:
                groups += self._run(groups.pop())
                groups = groups or self._released()

    def _run(self, group: Group) -> list[Group]:
        """Run threads till they wait, part or end; return where they stand if they part."""
        at, threads = group
        while True:
            instruction = self.program.instructions[at]
            try:
                active = self._active(instruction, threads)
                if instruction.name == "ret":
                    return []
                if instruction.name in ("bra", "bra.uni"):
                    target = self.program.labels[instruction.operands[0]]
                    if active.any() and (active != threads).any():
                        return [Group(at + 1, threads & ~active), Group(target, active)]
                    at = target if active.any() else at + 1
                elif self._waits(instruction, threads):
                    self.waiting[threads] = at
                    return []
                else:
                    self._execute(instruction, active)
                    at += 1
            except PtxError as error:
                raise PtxError(f"{error}\n  {instruction.place}: {instruction.text}") from None

    def _active(self, instruction: Instruction, threads: Array) -> Array:
        if instruction.guard is None:
            return threads
        if instruction.name in ("ret", "bar.sync"):
            raise PtxError("an end or a barrier of some threads is not modelled")
        is_active = self._register(instruction.guard) == instruction.guard_is
        return np.asarray(threads & is_active)

    def _waits(self, instruction: Instruction, threads: Array) -> bool:
        """Tell whether ``threads`` have to wait for others before they can do this."""
        if instruction.name == "bar.sync":
            if instruction.operands != ("0",):
                raise PtxError("a barrier of some threads is not modelled")
            return True
        return ".sync" in instruction.name and not _are_whole_warps(threads)

    def _released(self) -> list[Group]:
        """Let threads go on that have waited for each other: those of a warp, or of a program."""
        is_waiting = self.waiting != NOBODY
        at_barrier = is_waiting & self.is_barrier[self.waiting]
        by_warp = self.waiting.reshape(-1, WARP)
        met = np.repeat((by_warp == by_warp[:, :1]).all(1), WARP) & is_waiting & ~at_barrier
        if not met.any():
            every = at_barrier.reshape(self.programs, -1).all(1)
            self.barriers[every] += 1
            met = every[self.program_of]
        if not met.any() and is_waiting.any():
            raise PtxError("threads wait for others that never come")
        places = np.unique(self.waiting[met])
        groups = [Group(int(at), met & (self.waiting == at)) for at in places]
        self.waiting[met] = NOBODY
        return [group._replace(at=group.at + self.is_barrier[group.at]) for group in groups]

    # What it does

    def _execute(self, instruction: Instruction, active: Array) -> None:
        name, operands = instruction.name, instruction.operands
        if name in OPERATIONS and not any(isinstance(o, tuple) for o in operands):
            sources, compute = OPERATIONS[name]
            given = (self._value(o, t) for o, t in zip(operands[1:], sources, strict=True))
            self._set(operands[0], compute(*given), active)
            return
        for pattern, does in self._OTHERS.items():
            if match := re.fullmatch(pattern, name):
                does(self, active, operands, *match.groups())
                return
        raise PtxError(f"an instruction that is not known here: {name}")

    def _mov(self, active: Array, operands: Any, bits: str) -> None:
        """Take a register apart, or put one together; the first part is the lowest."""
        to, source = operands
        if isinstance(to, tuple):
            kind = f"b{int(bits) // len(to)}"
            values = self._full(self._value(source, f"b{bits}")).view(DTYPES[kind])
            for k, part in enumerate(to):
                self._set(part, values[k :: len(to)], active)
        else:
            joined = self._joined(source, f"b{int(bits) // len(source)}")
            self._set(to, joined.view(DTYPES[f"b{bits}"])[:, 0], active)

    def _load_parameter(self, active: Array, operands: Any, kind: str) -> None:
        name = operands[1].strip("[] ")
        value = np.full(self.n, self.arguments[name], DTYPES[self.program.parameters[name]])
        self._set(operands[0], value.view(DTYPES[kind]), active)

    def _load(self, active: Array, operands: Any, space: str, many: str, kind: str) -> None:
        parts = _parts(operands[0], many)
        width = len(parts) * DTYPES[kind].itemsize
        loaded = self._read(space, self._address(operands[1], space), width, active)
        for part, value in zip(parts, loaded.view(DTYPES[kind]).T, strict=True):
            self._set(part, self._spread(value, active), active)

    def _store(self, active: Array, operands: Any, space: str, many: str, kind: str) -> None:
        values = self._joined(_parts(operands[1], many), kind)
        self._write(space, self._address(operands[0], space), values, active)

    def _load_matrices(self, active: Array, operands: Any, many: str) -> None:
        """Load matrices of 8 × 8 numbers of 16 bits: a thread gets two numbers of a row."""
        for k, part in enumerate(_parts(operands[0], many)):
            row = self._rows(operands[1], k, self.lane // 4, active)
            loaded = self._read("shared", row + self.lane % 4 * 4, 4, active)
            self._set(part, self._spread(loaded.view(np.uint32)[:, 0], active), active)

    def _store_matrices(self, active: Array, operands: Any, many: str) -> None:
        """Store them likewise."""
        for k, part in enumerate(_parts(operands[1], many)):
            row = self._rows(operands[0], k, self.lane // 4, active)
            values = self._joined((part,), "b32")
            self._write("shared", row + self.lane % 4 * 4, values, active)

    def _rows(self, operand: str, matrix: int, row: Array, active: Array) -> Array:
        """Return where rows of a matrix begin: 8 threads of each warp know that."""
        self._check_whole(active)
        begins = self._address(operand, "shared")[self.number - self.lane + 8 * matrix + row]
        self._check_aligned(begins, 16, active)
        return np.asarray(begins)

    def _shuffle(self, active: Array, operands: Any, how: str) -> None:
        """Get a register of another thread of the warp."""
        to, source, other, limits, members = operands
        if (limits, members) != ("31", "-1"):
            raise PtxError("a shuffle within a part of a warp is not modelled")
        self._check_whole(active)
        other = self._value(other, "u32").astype(np.int64)
        other = self.lane ^ other if how == "bfly" else other
        value = self._full(self._value(source, "b32"))
        self._set(to, value[self.number - self.lane + other % WARP], active)

    def _copy(self, active: Array, operands: Any) -> None:
        """Begin to copy to shared memory, or to fill it with 0 if the source has no size."""
        to, source, size, *given = operands
        width = int(size, 0)
        places = self._places("shared", self._address(to, "shared"), width, active)
        given = self._full(self._value(given[0] if given else size, "u32"))
        if not np.isin(given[active], (0, width)).all():
            raise PtxError("a copy of a part of the bytes is not modelled")
        is_read = active & (given > 0)
        data = np.zeros((self.n, width // UNIT), np.uint16)
        data[is_read] = self._read("global", self._address(source, "global"), width, is_read)
        self.shared.send(places, self._who("shared", active), data[active])
        self.copies.append(Copy(self.number[active], places, data[active], self.commits[active]))

    def _commit(self, active: Array, operands: Any) -> None:
        self.commits[active] += 1

    def _wait(self, active: Array, operands: Any) -> None:
        """Wait until no more than the last few commits are unfinished."""
        pending = []
        for copy in self.copies:
            finished = self.commits[copy.threads] - int(operands[0])
            is_done = active[copy.threads] & (copy.commits < finished)
            threads, places, data, _ = (part[is_done] for part in copy)
            self.shared.arrive(places, self._who("shared", threads), data)
            if not is_done.all():
                pending.append(Copy(*(part[~is_done] for part in copy)))
        self.copies = pending

    _OTHERS: ClassVar[dict[str, Callable[..., None]]] = {
        r"mov\.b(\d+)": _mov,
        r"ld\.param\.(\w+)": _load_parameter,
        r"ld\.(global|shared)(?:\.v(\d))?\.(b\d+)": _load,
        r"st\.(global|shared)(?:\.v(\d))?\.(b\d+)": _store,
        r"ldmatrix\.sync\.aligned\.m8n8\.x(\d)\.shared\.b16": _load_matrices,
        r"stmatrix\.sync\.aligned\.m8n8\.x(\d)\.shared\.b16": _store_matrices,
        r"shfl\.sync\.(bfly|idx)\.b32": _shuffle,
        r"cp\.async\.c[ag]\.shared\.global": _copy,
        r"cp\.async\.commit_group": _commit,
        r"cp\.async\.wait_group": _wait,
    }

    # Registers

    def _value(self, operand: str, kind: str) -> Array:
        """Return an operand as numbers of a type: one for each thread, or one for all of them."""
        dtype = DTYPES[kind]
        if operand.startswith("%"):
            bits = self._register(operand)
        else:
            number = 0 if operand == "global_smem" else _number(operand)
            bits = np.array(number & (1 << 64) - 1, np.uint64)
        if kind == "pred":
            return np.asarray(bits != 0)
        return bits.astype(f"u{dtype.itemsize}", copy=False).view(dtype)

    def _set(self, register: str, value: Array, active: Array) -> None:
        if register == "_":
            return
        before = self._register(register)
        if value.dtype.itemsize > before.dtype.itemsize:
            raise PtxError(f"{register} is too short for {value.dtype}")
        if value.dtype.itemsize == before.dtype.itemsize:
            value = value.view(before.dtype)
        self.registers[register] = np.where(active, value.astype(before.dtype, copy=False), before)

    def _register(self, name: str) -> Array:
        if name not in self.registers:
            declared = self.program.registers.get(name.rstrip("0123456789"))
            if declared is None:
                raise PtxError(f"a register that is not known here: {name}")
            bits = "?" if declared == "pred" else f"u{DTYPES[declared].itemsize}"
            self.registers[name] = ~np.zeros(self.n, bits)  # NaN, to be seen where it is used
        return self.registers[name]

    def _full(self, value: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(value, self.n))

    def _joined(self, parts: Sequence[str], kind: str) -> Array:
        """Return the values of several registers, for each thread next to each other."""
        return np.stack([self._full(self._value(part, kind)) for part in parts], axis=-1)

    def _spread(self, values: Array, active: Array) -> Array:
        """Return what active threads got at their places among all of them."""
        spread = np.zeros(self.n, values.dtype)
        spread[active] = values
        return spread

    # Memory

    def _read(self, space: str, address: Array, width: int, active: Array) -> Array:
        places = self._places(space, address, width, active)
        return self._memory(space).read(places, self._who(space, active))

    def _write(self, space: str, address: Array, values: Array, active: Array) -> None:
        data = values.view(np.uint16)[active]
        places = self._places(space, address, UNIT * data.shape[1], active)
        self._memory(space).write(places, self._who(space, active), data)

    def _memory(self, space: str) -> Memory:
        return self.shared if space == "shared" else self.tensors.memory

    def _who(self, space: str, which: Array) -> Who:
        threads = self.number[which][:, None]
        programs = self.program_of[threads]
        actors = threads if self._memory(space).actor == "thread" else threads // WARP
        return Who(actors, programs, self.barriers[programs])

    def _check_whole(self, active: Array) -> None:
        if not _are_whole_warps(active):
            raise PtxError("a part of a warp does what all of it has to")

    def _address(self, operand: str, space: str) -> Array:
        base, _, offset = operand.strip("[] ").partition("+")
        value = self._value(base.strip(), "u64" if space == "global" else "u32")
        return self._full(value).astype(np.int64) + int(offset or 0)

    def _places(self, space: str, address: Array, width: int, active: Array) -> Array:
        """Return the places that active threads access, which must be there, and aligned."""
        self._check_aligned(address, width, active)
        belongs, program = self._memory(space).belongs, self.program_of
        is_global = space == "global"
        begins = address - START if is_global else address + program * self.size_of_shared
        begins = begins[active]
        is_there = (begins >= 0) & (begins < UNIT * belongs.size)
        places = np.where(is_there, begins, 0)[:, None] // UNIT + np.arange(width // UNIT)
        theirs = belongs[np.minimum(places, belongs.size - 1)]
        mine = theirs[:, :1] if is_global else 1 + program[active, None]
        is_there &= ((theirs == mine) & (theirs != 0)).all(1)
        whole = "every tensor" if is_global else "the program's shared memory"
        self._refuse(~is_there, address, active, f"out of the bounds of {whole}")
        return places

    def _check_aligned(self, address: Array, width: int, active: Array) -> None:
        wrong = address[active] % width != 0
        self._refuse(wrong, address, active, f"misaligned for its {width} bytes")

    def _refuse(self, wrong: Array, address: Array, active: Array, why: str) -> None:
        if wrong.any():
            thread = int(self.number[active][wrong.argmax()])
            at = int(address[thread])
            where = self.tensors.near(at) if at >= START else f"address {at}"
            raise PtxError(f"{why}: {where}, of thread {thread}")


def _are_whole_warps(threads: Array) -> bool:
    by_warp = threads.reshape(-1, WARP)
    return bool((by_warp.any(1) == by_warp.all(1)).all())


def _parts(operand: Any, many: str | None) -> tuple[str, ...]:
    parts = operand if isinstance(operand, tuple) else (operand,)
    if len(parts) != int(many or 1):
        raise PtxError(f"{len(parts)} registers in the place of {many or 1}")
    return parts


def _number(text: str) -> int:
    if re.fullmatch(r"0[fFdD][0-9A-Fa-f]+", text):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0)


# Launches


class Run(NamedTuple):
    """A launch that was executed."""

    name: str
    ptx: str


@contextmanager
def executing(target: str = "cuda:90") -> Iterator[list[Run]]:
    """Execute the launches of lnlib on CPU tensors, as compiled for ``target``; yield them.

    ``target`` is one of `gpu_code.TARGETS`, of NVIDIA.
    """
    runs: list[Run] = []

    def execute(made: Launch) -> None:
        compiled = made.compile(target)
        ptx, kinds = compiled.asm["ptx"], compiled.src.signature.items()
        passed = {name: made.by_name[name] for name, kind in kinds if kind != "constexpr"}
        tensors = Tensors({name: p for name, p in passed.items() if isinstance(p, Tensor)})
        arguments = [tensors.address(p) if isinstance(p, Tensor) else p for p in passed.values()]
        program, shared = parse(ptx), compiled.metadata.shared
        scratch = [0] * (len(program.parameters) - len(passed))  # pointers of Triton's own
        Machine(program, made.grid, [*arguments, *scratch], tensors, shared).run()
        tensors.give_back()
        runs.append(Run(made.name, ptx))

    with taking(execute):
        yield runs
