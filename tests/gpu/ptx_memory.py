"""Memory that knows who was where: what is out of bounds, unwritten, on its way, or a race."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from ptx_instructions import Array, PtxError
from torch import Tensor

UNIT = 2  # bytes, the least that an instruction reads or writes here
START = 1 << 40  # of the addresses: more than 32 bits, so that one that is cut to them is noticed
GUARD = 1 << 16  # bytes between tensors that belong to none
NOBODY, SEVERAL = -1, -2


class Who(NamedTuple):
    """Who touches memory: their numbers, their programs, and the barriers these have passed."""

    actors: Array
    programs: Array
    barriers: Array


class Touches:
    """Who touched each place last, and after how many barriers: one actor, or several."""

    def __init__(self, size: int) -> None:
        self.actor, self.program = (np.full(size, NOBODY, np.int32) for _ in range(2))
        self.barriers = np.zeros(size, np.int32)

    def unordered(self, at: Array, who: Who) -> tuple[Array, Array]:
        """Tell where nothing is between the last touch and ``who``: of its program, of another."""
        program = self.program[at]
        is_near = (program == who.programs) & (self.barriers[at] == who.barriers)
        is_far = (program != who.programs) & (program != NOBODY)
        return is_near & (self.actor[at] != who.actors), is_far

    def add(self, at: Array, who: Who) -> None:
        """Let ``who`` touch places, beside those that are there unordered."""
        near, far = self.unordered(at, who)
        self.barriers[at] = who.barriers
        # Of several at once the last one stays, and the others do not find themselves.
        for kept, new, are_others in (
            (self.actor, who.actors, near | far),
            (self.program, who.programs, far),
        ):
            kept[at] = new
            kept[at[are_others | (kept[at] != new)]] = SEVERAL


class Memory:
    """Places of `UNIT` bytes. Each belongs to somebody, or to nobody, 0.

    ``actor`` is what counts as one when it comes to races: "thread", or "warp".
    """

    def __init__(self, belongs: Array, actor: str, is_written: bool) -> None:
        self.belongs, self.actor = belongs, actor
        self.data = np.zeros(belongs.size, np.uint16)
        self.is_written = np.full(belongs.size, is_written)
        self.is_on_its_way = np.zeros(belongs.size, bool)
        self.reads, self.writes = Touches(belongs.size), Touches(belongs.size)

    def read(self, at: Array, who: Who) -> Array:
        """Return what is at places."""
        self._check_arrived(at)
        if not self.is_written[at].all():
            raise PtxError("reads what nobody has written")
        self._check_order(at, who, self.writes, "wrote")
        self.reads.add(at, who)
        return self.data[at]

    def write(self, at: Array, who: Who, data: Array) -> None:
        """Write to places. That several actors of a program write the same there is no race."""
        self._check_arrived(at)
        self._check_order(at, who, self.reads, "read")
        self._check_order(at, who, self.writes, "wrote", self.data[at] != data)
        self.writes.add(at, who)
        self.data[at] = data
        if (self.data[at] != data).any():
            raise PtxError("a race: several threads write to one place at once, and not the same")
        if (self.writes.program[at] == SEVERAL).any():
            raise PtxError("a race: several programs write to one place")
        self.is_written[at] = True

    def send(self, at: Array, who: Who, data: Array) -> None:
        """Begin to write, as an actor does that goes on meanwhile."""
        self.write(at, who, data)
        self.is_on_its_way[at] = True

    def arrive(self, at: Array, who: Who, data: Array) -> None:
        """End what was begun."""
        self.is_on_its_way[at] = False
        self.write(at, who, data)

    def _check_arrived(self, at: Array) -> None:
        if self.is_on_its_way[at].any():
            raise PtxError("touches what cp.async is still to write: nobody has waited for it")

    def _check_order(
        self, at: Array, who: Who, touches: Touches, what: str, matters: Array | bool = True
    ) -> None:
        near, far = touches.unordered(at, who)
        wrong = near & matters | far
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0])
            other = touches.actor[at[first]]
            them = f"several {self.actor}s" if other == SEVERAL else f"{self.actor} {other}"
            between = "of another program" if far[first] else "and no barrier is between"
            me = f"{self.actor} {who.actors[first[0], 0]}"
            raise PtxError(f"a race: {me} is where {them} {what}, {between}")


class Tensors:
    """The memory of a launch: each tensor's storage in a range of its own, nothing between them.

    Only a tensor's elements are there, and not what lies between its rows. A warp's threads count
    as one: a kernel that writes in place has some of them load what others will write.
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.storages: dict[int, tuple[int, torch.UntypedStorage]] = {}
        end = GUARD
        for tensor in tensors.values():
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self.storages:
                start = end + storage.data_ptr() % 256  # as aligned as it really is
                self.storages[storage.data_ptr()] = start, storage
                end = -(-(start + len(storage)) // 256) * 256 + GUARD
        self.memory = Memory(np.zeros(end // UNIT, np.int32), "warp", is_written=True)
        for tensor in tensors.values():
            start, storage = self._range(tensor)
            self.memory.belongs[self._places(tensor)] = start
            self._bytes(start, storage)[:] = _bytes_of(tensor)

    def address(self, tensor: Tensor) -> int:
        """Return where a tensor begins."""
        start, storage = self._range(tensor)
        return START + start + tensor.data_ptr() - storage.data_ptr()

    def give_back(self) -> None:
        """Write to the tensors what is in their memory now."""
        for tensor in self.tensors.values():
            _bytes_of(tensor)[:] = self._bytes(*self._range(tensor))

    def near(self, address: int) -> str:
        """Return which tensor begins last before an address, and how far before it."""
        starts = {self.address(tensor): name for name, tensor in self.tensors.items()}
        last = max((start for start in starts if start <= address), default=None)
        return "before all" if last is None else f"{starts[last]} + {address - last} bytes"

    def _range(self, tensor: Tensor) -> tuple[int, torch.UntypedStorage]:
        return self.storages[tensor.untyped_storage().data_ptr()]

    def _bytes(self, start: int, storage: torch.UntypedStorage) -> Array:
        return self.memory.data.view(np.uint8)[start : start + len(storage)]

    def _places(self, tensor: Tensor) -> Array:
        numbers = torch.arange(len(tensor.untyped_storage()) // tensor.itemsize)
        elements = numbers.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        units = tensor.itemsize // UNIT
        first = self._range(tensor)[0] // UNIT
        return first + elements.numpy()[..., None] * units + np.arange(units)


def _bytes_of(tensor: Tensor) -> Array:
    """Return all bytes of the storage that a tensor is in."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()
