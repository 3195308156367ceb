"""The two passes by the kernels: which runs on which tiles, for rows of features.

Rows are read where they are if their features are next to each other or expanded, any distance
apart; otherwise they are copied first. Parameters may each be of any float dtype. Results have the
same bits at every run, and for a row whatever batch it is in, as long as rows start at the same
alignment.
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from lnlib.closed_form import Gradients, Needs
from lnlib.cpp_kernel import dense
from lnlib.triton_kernel import runtime, tiles
from lnlib.triton_kernel.tiles import Tile

AS_IT_IS = nullcontext()
DENSE = torch.contiguous_format


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float64 for float64, else float32: most GPUs have little float64 to spare."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)``; see `lnlib.autograd.Passes`.

    Args:
        x: ``(B, H)``.
        weight: ``(H,)``, of any float dtype; None means 1.
        bias: ``(H,)``, of any float dtype; None means 0.
        eps: added to the variance.

    Raises:
        ImportError: if Triton is missing, or older than 3.6.
        NotImplementedError: if ``x`` is neither on a GPU nor on a CPU.
    """
    runtime.check(x.device)
    x, (weight, bias) = readable(x), (p if p is None else dense(p) for p in (weight, bias))
    return forward_of_simple(x, weight, bias, eps, x.shape[1])


def forward_of_simple(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, H: int
) -> tuple[Tensor, Tensor]:
    """Do as `forward`, for dense tensors of whatever dimensions, or rows that are `readable`."""
    y = torch.empty_like(x, memory_format=DENSE)
    B = x.numel() // H if H else len(x)
    statistics = x.new_empty((3, B), dtype=statistics_dtype(x.dtype))
    if not B or not H:
        return y, statistics
    apart, step, unit, is_aligned = _layout(x, H)
    launch = _forward(H, statistics.itemsize, step, unit, is_aligned)
    device, grid = x.device, (-(-B // launch.tile.rows), 1, 1)
    with on(device):
        launch(device, grid, x, weight, bias, y, statistics, B, apart, *split(eps))
    return y, statistics


@cache
def _forward(H: int, itemsize: int, step: int, unit: int, is_aligned: bool) -> "Launcher":
    tile = tiles.forward(H, itemsize)
    if tile is None:
        tile = tiles.long(itemsize, is_aligned)
        return Launcher("layer_norm_fwd_long_kernel", tile, H, step, unit, tile.features)
    operands = H, step, unit, tile.rows, tile.features
    registers = tiles.registers(tile, itemsize)
    return Launcher("layer_norm_fwd_kernel", tile, *operands, registers=registers)


def backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, None where not needed.

    Args:
        dy: ``(B, H)``.
        x: ``(B, H)``.
        weight: ``(H,)``, of any float dtype; None means 1.
        statistics: what `forward` returned for ``x``.
        needs: the dtypes of dx, dweight and dbias, None for those that are not asked for. Each is
            rounded once, to its dtype.
    """
    weight = None if weight is None else dense(weight)
    return backward_of_simple(readable(dy), readable(x), weight, dense(statistics), needs)


def backward_of_simple(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Do as `backward`, for dense tensors of whatever dimensions, or rows that are `readable`."""
    B = statistics.shape[1]
    H = x.numel() // B if B else x.shape[-1]
    # With another memory format, dx would have the strides of x.
    dx = torch.empty_like(x, dtype=needs[0], memory_format=DENSE) if needs[0] else None
    # Nobody would write the sum over no rows, which is 0.
    new = x.new_empty if B and H else x.new_zeros
    dweight, dbias = (new((H,), dtype=need) if need else None for need in needs[1:])
    if not B or not H:
        return dx, dweight, dbias

    weight = weight if needs[0] else None
    (dy_apart, *dy_steps, dy_fits), (x_apart, *x_steps, x_fits) = _layout(dy, H), _layout(x, H)
    walks, sweeps, sums = _backward(
        H,
        statistics.itemsize,
        (*dy_steps, *x_steps),
        dy_fits and x_fits,
        is_narrow=dy.itemsize == x.itemsize == 2,
        with_dx=bool(needs[0]),
        with_sums=bool(needs[1] or needs[2]),
    )
    columns = -(-H // sweeps.tile.features)
    programs = -(-B // sweeps.tile.rows)
    if sums is not None:  # else a program has one tile
        programs = tiles.programs(B, sweeps.tile, runtime.multiprocessors(x.device), columns)
    partials = [statistics.new_empty((programs, H)) if need else None for need in needs[1:]]
    means = None if walks is None else statistics.new_empty((2, B))
    read, layout = (dy, x, weight, statistics, means), (B, dy_apart, x_apart)
    device = x.device
    with on(device):
        if walks is not None:
            walks(device, (B, 1, 1), *read, *layout)
        sweeps(device, (programs * columns, 1, 1), *read, dx, *partials, *layout)
        if sums is not None:
            grid = -(-H // sums.tile.features), bool(needs[1]) + bool(needs[2]), 1
            sums(device, grid, *partials, dweight, dbias, programs)
    return dx, dweight, dbias


@cache
def _backward(
    H: int,
    itemsize: int,
    steps: tuple[int, ...],
    is_aligned: bool,
    is_narrow: bool,
    with_dx: bool,
    with_sums: bool,
) -> tuple["Launcher | None", "Launcher", "Launcher | None"]:
    """Return what takes the means of long rows, what makes dx and sums, and what adds the sums."""
    held = tiles.backward(H, itemsize)
    tile = held or tiles.columns(itemsize, is_aligned)
    # How many tiles are read ahead, and one: 4 bytes are not worth it, of narrow types more fit.
    ahead = (3 if is_narrow else 2) if is_aligned else 1
    walks = sums = None
    if with_dx and not held:
        long = tiles.long(itemsize, is_aligned)
        walks = Launcher("layer_norm_bwd_rows_kernel", long, H, *steps, long.features, ahead)
    # Of four short rows at once, the next need not be on their way: 8 to 12 % less time on an H200.
    stages = ahead if with_sums and not (held and is_narrow and tile.rows == 4) else 1
    operands = H, *steps, tile.rows, tile.features, stages
    sweeps = Launcher("layer_norm_bwd_kernel", tile, *operands)
    if with_sums:
        last = tiles.partials(itemsize, -(-H // tile.features))
        sums = Launcher("sum_partials_kernel", last, H, last.rows, last.features)
    return walks, sweeps, sums


class Launcher:
    """Launches one kernel on tiles of one shape.

    Triton looks at each operand at each launch, which takes longer than a small norm itself. So it
    is called once for each kind of operands, and after that the compiled kernel is.
    """

    def __init__(
        self,
        name: str,
        tile: Tile,
        *constants: int,
        registers: int | None = None,
        module: str = runtime.KERNELS,
    ) -> None:
        self.name, self.tile, self.constants, self.module = name, tile, constants, module
        self.options = {"num_warps": tile.warps, "enable_fp_fusion": tile.features > tiles.LONE}
        if registers is not None and not torch.version.hip:
            self.options["maxnreg"] = registers  # AMD's compiler has no such limit, and needs none
        self._launches: dict[tuple[object, ...], Callable[..., None]] = {}

    def __call__(
        self, device: torch.device, grid: tuple[int, int, int], *operands: Tensor | float | None
    ) -> None:
        """Launch so many programs for these operands on ``device``, which is the current one."""
        values, kinds = _read(operands)
        launch = self._launches.get((device.index, *kinds))
        if launch is not None:
            launch(grid, device.index, *values, *self.constants)
            return
        kernel = getattr(runtime.load(self.module, device), self.name)
        compiled = kernel[grid](*operands, *self.constants, **self.options)
        if compiled is not None:  # the interpreter compiles nothing
            self._launches[device.index, *kinds] = runtime.launch_of(compiled)


def _read(operands: Sequence[Tensor | float | None]) -> tuple[list[float | None], list[object]]:
    """Return numbers and the addresses of tensors, and what Triton compiles for: their kinds.

    The kind of a tensor is its dtype and alignment, that of a number whether it needs 64 bits.
    """
    values: list[float | None] = []
    kinds: list[object] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            address = operand.data_ptr()
            values.append(address)
            kinds += operand.dtype, address % 16 == 0
        else:
            values.append(operand)
            kinds.append(operand is None or (type(operand) is int and operand >= 2**31))
    return values, kinds


def readable(rows: Tensor) -> Tensor:
    """Return ``(B, H)`` as rows that a kernel can read, where they are if it can.

    A copy is made only if the features of a row are neither next to each other nor one expanded
    number, or if ``rows`` is a view that means minus what its memory holds.
    """
    if rows.is_neg():
        rows = rows.resolve_neg()
    return rows if rows.shape[1] == 1 or rows.stride(1) in (0, 1) else rows.contiguous()


@lru_cache
def split(eps: float) -> tuple[float, float]:
    """Return ``eps`` as the sum of two numbers that float32 can hold, which is good to 48 bits."""
    near = ctypes.c_float(eps).value
    return near, ctypes.c_float(eps - near).value if math.isfinite(near) else 0.0


def _layout(rows: Tensor, H: int) -> tuple[int, int, int, bool]:
    """Return how far rows and features are apart, and what a compiler may know of it.

    The unit is a divisor of the first; 0 if rows lie next to each other, at multiples of H. At the
    end stands whether every row, and each of its 16 bytes, starts at a multiple of 16 bytes.
    """
    apart, step = H, 1
    if not rows.is_contiguous():  # as a single row is, whose stride says nothing
        apart, step = rows.stride(0) if len(rows) > 1 else H, 1 if H == 1 else rows.stride(1)
    unit, fits = _unit(apart, H, rows.itemsize)
    return apart, step, unit, fits and rows.data_ptr() % 16 == 0


@lru_cache
def _unit(apart: int, H: int, itemsize: int) -> tuple[int, bool]:
    unit, at_once = tiles.unit(apart, itemsize), 16 // itemsize
    if unit < at_once and apart == H:
        unit = 0
    return unit, H % at_once == 0 and apart % at_once == 0


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Make ``device`` the current one, which is where Triton launches."""
    if device.type == "cpu":
        return runtime.interpreting()
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return AS_IT_IS
    return torch.cuda.device(device)
