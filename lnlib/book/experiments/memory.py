"""How much memory a computation needs, counted from its tensors: the same on every machine.

Both counts are of storages, so a view costs nothing and a tensor that is saved twice counts once.
Memory that an operation takes and gives back before it returns is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["live_bytes", "saved_bytes"]

_weak: Callable[[UntypedStorage], Any] = StorageWeakRef


def saved_bytes(run: Callable[[], object], held: Sequence[Tensor] = ()) -> int:
    """Return how many bytes autograd keeps for the backward passes of what ``run`` computes.

    To save an input is to keep it alive, so inputs are counted too.

    >>> x = torch.ones(10, requires_grad=True)  # 40 bytes
    >>> saved_bytes(lambda: x.square())
    40
    >>> saved_bytes(lambda: x.exp() * x)
    80
    >>> saved_bytes(lambda: x.exp() * x, held=[x])
    40

    Args:
        run: what is computed.
        held: tensors that the caller keeps in any case; their storages are not counted.
    """
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    storages = {storage._cdata: storage for storage in _storages(saved)}
    for storage in _storages(held):
        storages.pop(storage._cdata, None)
    return sum(storage.nbytes() for storage in storages.values())


def live_bytes(run: Callable[[], object]) -> list[int]:
    """Return how many bytes of its own ``run`` holds after each operation, from a first 0 on.

    What exists before is not counted. The peak is the largest of the numbers.

    >>> x = torch.ones(10)  # 40 bytes
    >>> live_bytes(lambda: (x + 1) * (x + 2))
    [0, 40, 80, 120]
    >>> live_bytes(lambda: x.view(2, 5))
    [0, 0]
    """
    counter = _Counter()
    with counter:
        run()
    return counter.history


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees each operation, those of the backward pass included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.history: list[int] = [0]
        # Storage -> its bytes, 0 if it was there before. A weak reference does not keep the memory,
        # but it keeps the address from being given to another storage.
        self.known: dict[int, tuple[Any, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for storage in _storages((args, kwargs)):
            self.known.setdefault(storage._cdata, (_weak(storage), 0))
        result = func(*args, **(kwargs or {}))
        for storage in _storages(result):
            self.known.setdefault(storage._cdata, (_weak(storage), storage.nbytes()))
        self.known = {at: kept for at, kept in self.known.items() if not kept[0].expired()}
        self.history.append(sum(size for _, size in self.known.values()))
        return result


def _storages(values: object) -> Iterator[UntypedStorage]:
    for value in tree_leaves(values):
        if isinstance(value, Tensor):
            yield value.untyped_storage()
