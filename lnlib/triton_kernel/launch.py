"""The two passes by the kernels: which runs on which tiles, for rows of features.

Rows are read where they are if their features are next to each other or expanded, any distance
apart; otherwise they are copied first. Parameters may each be of any float dtype. Results have the
same bits at every run, and for a row whatever batch it is in, as long as rows start at the same
alignment.
"""

import ctypes
import math
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


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float64 for float64, else float32: most GPUs have little float64 to spare."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """Return y ``(B, H)`` and the statistics ``(3, B)``: near the mean, the rest of it, rstd.

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
    y, (B, H) = torch.empty_like(x, memory_format=torch.contiguous_format), x.shape
    statistics = x.new_empty((3, B), dtype=statistics_dtype(x.dtype))
    if not B or not H:
        return y, statistics
    x, weight, bias = readable(x), _dense(weight), _dense(bias)
    apart, step, unit, is_aligned = _layout(x)
    launch, rows = _forward(H, statistics.itemsize, step, unit, is_aligned)
    with on(x.device):
        launch(
            x.device, (-(-B // rows), 1, 1), x, weight, bias, y, statistics, B, apart, *split(eps)
        )
    return y, statistics


@cache
def _forward(
    H: int, itemsize: int, step: int, unit: int, is_aligned: bool
) -> tuple["Launcher", int]:
    """Return what launches a forward pass, and how many rows a program has."""
    tile = tiles.forward(H, itemsize)
    if tile is None:
        tile = tiles.long(itemsize, is_aligned)
        long = Launcher("layer_norm_fwd_long_kernel", tile, H, step, unit, tile.features)
        return long, 1
    operands = H, step, unit, tile.rows, tile.features
    registers = tiles.registers(tile, itemsize)
    return Launcher("layer_norm_fwd_kernel", tile, *operands, registers=registers), tile.rows


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
    B, H = x.shape
    dx = x.new_empty((B, H), dtype=needs[0]) if needs[0] else None
    # Nobody would write the sum over no rows, which is 0.
    new = x.new_empty if B and H else x.new_zeros
    dweight, dbias = (new((H,), dtype=need) if need else None for need in needs[1:])
    if not B or not H:
        return dx, dweight, dbias

    dy, x, statistics = readable(dy), readable(x), dense(statistics)
    weight = _dense(weight) if needs[0] else None
    (dy_apart, *dy_steps, dy_fits), (x_apart, *x_steps, x_fits) = _layout(dy), _layout(x)
    walks, sweeps, sums = _backward(
        H,
        statistics.itemsize,
        (*dy_steps, *x_steps),
        dy_fits and x_fits,
        is_narrow=dy.itemsize == x.itemsize == 2,
        with_sums=bool(needs[1] or needs[2]),
    )
    columns = -(-H // sweeps.tile.features)
    programs = -(-B // sweeps.tile.rows)
    if sums is not None:  # else a program has one tile
        programs = tiles.programs(B, sweeps.tile, runtime.multiprocessors(x.device), columns)
    partials = [statistics.new_empty((programs, H)) if need else None for need in needs[1:]]
    means = None
    if walks is not None and needs[0]:
        means = statistics.new_empty((2, B))
    read, layout = (dy, x, weight, statistics, means), (B, dy_apart, x_apart)
    with on(x.device):
        if walks is not None and needs[0]:
            walks(x.device, (B, 1, 1), *read, *layout)
        sweeps(x.device, (programs * columns, 1, 1), *read, dx, *partials, *layout)
        if sums is not None:
            grid = -(-H // sums.tile.features), bool(needs[1]) + bool(needs[2]), 1
            sums(x.device, grid, *partials, dweight, dbias, programs)
    return dx, dweight, dbias


@cache
def _backward(
    H: int,
    itemsize: int,
    steps: tuple[int, ...],
    is_aligned: bool,
    is_narrow: bool,
    with_sums: bool,
) -> tuple["Launcher | None", "Launcher", "Launcher | None"]:
    """Return what takes the means of long rows, what makes dx and sums, and what adds the sums."""
    held = tiles.backward(H, itemsize)
    tile = held or tiles.columns(itemsize, is_aligned)
    # How many tiles are read ahead, and one: 4 bytes are not worth it, of narrow types more fit.
    ahead = (3 if is_narrow else 2) if is_aligned else 1
    walks = sums = None
    if not held:
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

    Triton looks at each operand at each launch, to see what to compile, which takes longer than a
    small norm itself. What it would find is asked for here in short, so it is called once for each
    kind of operands; after that, the compiled kernel is.
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
        self._compiled: dict[tuple[object, ...], Any] = {}

    def __call__(
        self, device: torch.device, grid: tuple[int, int, int], *operands: Tensor | float | None
    ) -> None:
        """Launch so many programs for these operands on ``device``, which is the current one."""
        kinds = device, *map(_kind, operands)
        compiled = self._compiled.get(kinds)
        if compiled is not None:
            compiled[grid](*operands, *self.constants)
            return
        kernel = getattr(runtime.load(self.module, device), self.name)
        compiled = kernel[grid](*operands, *self.constants, **self.options)
        if compiled is not None:  # the interpreter compiles nothing
            self._compiled[kinds] = compiled


def _kind(operand: Tensor | float | None) -> object:
    """Return what Triton compiles for: dtype and alignment, or the width of a number."""
    if isinstance(operand, Tensor):
        return operand.dtype, operand.data_ptr() % 16 == 0
    return operand if operand is None else isinstance(operand, int) and operand >= 2**31


def readable(rows: Tensor) -> Tensor:
    """Return ``(B, H)`` as rows that a kernel can read, where they are if it can.

    A copy is made only if the features of a row are neither next to each other nor one expanded
    number, or if ``rows`` is a view that means minus what its memory holds.
    """
    if rows.is_neg():
        rows = rows.resolve_neg()
    return rows if rows.shape[1] == 1 or rows.stride(1) in (0, 1) else rows.contiguous()


def _dense(parameter: Tensor | None) -> Tensor | None:
    return parameter if parameter is None else dense(parameter)


@lru_cache
def split(eps: float) -> tuple[float, float]:
    """Return ``eps`` as the sum of two numbers that float32 can hold, which is good to 48 bits."""
    near = ctypes.c_float(eps).value
    return near, ctypes.c_float(eps - near).value if math.isfinite(near) else 0.0


def _layout(rows: Tensor) -> tuple[int, int, int, bool]:
    """Return how far rows and features are apart, and what a compiler may know of it.

    The unit is a divisor of the first; 0 if rows lie next to each other, at multiples of H. At the
    end stands whether every row, and each of its 16 bytes, starts at a multiple of 16 bytes.
    """
    (B, H), at_once = rows.shape, 16 // rows.itemsize
    apart = rows.stride(0) if B > 1 else H  # the stride of a single row says nothing
    step = 1 if H == 1 else rows.stride(1)
    unit = tiles.unit(apart, rows.itemsize)
    if unit < at_once and apart == H:
        unit = 0
    fits = H % at_once == 0 and apart % at_once == 0 and rows.data_ptr() % 16 == 0
    return apart, step, unit, fits


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Make ``device`` the current one, which is where Triton launches."""
    if device.type == "cpu":
        return runtime.interpreting()
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return AS_IT_IS
    return torch.cuda.device(device)
