"""The launches: which kernel runs on which tiles, for tensors that are rows of features already."""

import ctypes
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from lnlib.closed_form import Gradients, Needs
from lnlib.triton_kernel import runtime, tiles
from lnlib.triton_kernel.tiles import Tile


def statistics_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return float64 for float64, else float32: most GPUs have little float64 to spare."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, y: Tensor) -> Tensor:
    """Write ``y`` and return the statistics ``(3, B)``: near the mean, the rest of it, rstd.

    Args:
        x: ``(B, H)``; rows any distance apart, features next to each other or expanded.
        weight: ``(H,)``, contiguous, of any float dtype; None means 1.
        bias: ``(H,)``, contiguous, of any float dtype; None means 0.
        eps: added to the variance.
        y: ``(B, H)``, contiguous, of any float dtype.
    """
    B, H = x.shape
    statistics = x.new_empty((3, B), dtype=statistics_dtype(x.dtype))
    if x.numel() == 0:
        return statistics
    kernels = runtime.kernels(x.device)
    operands = x, weight, bias, y, statistics, B, _apart(x), *split(eps), H, *_steps(x)
    tile = tiles.forward(H, statistics.itemsize)
    with on(x.device):
        if tile is not None:
            fwd, programs = kernels.layer_norm_fwd_kernel, -(-B // tile.rows)
            limit = tiles.registers(tile, statistics.itemsize)
            _run(fwd, (programs,), tile, *operands, tile.rows, tile.features, registers=limit)
        else:
            tile = tiles.long(statistics.itemsize, _is_aligned(x))
            _run(kernels.layer_norm_fwd_long_kernel, (B,), tile, *operands, tile.features)
    return statistics


def backward(
    dy: Tensor, x: Tensor, weight: Tensor | None, statistics: Tensor, needs: Needs
) -> Gradients:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, None where not needed.

    Args:
        dy: ``(B, H)``; rows any distance apart, features next to each other or expanded.
        x: ``(B, H)``, likewise.
        weight: ``(H,)``, contiguous, of any float dtype; None means 1.
        statistics: what `forward` returned for ``x``.
        needs: the dtypes of dx, dweight and dbias, None for those that are not asked for.
    """
    B, H = x.shape
    dx = x.new_empty((B, H), dtype=needs[0]) if needs[0] else None
    # Nobody would write the sum over no rows, which is 0.
    new = x.new_empty if x.numel() else x.new_zeros
    dweight, dbias = (new((H,), dtype=need) if need else None for need in needs[1:])
    if x.numel() == 0:
        return dx, dweight, dbias

    kernels, itemsize = runtime.kernels(x.device), statistics.itemsize
    read = dy, x, weight if needs[0] else None, statistics
    layout = B, _apart(dy), _apart(x), H, *_steps(dy), *_steps(x)
    with_sums, is_aligned = bool(needs[1] or needs[2]), _is_aligned(dy) and _is_aligned(x)
    held = tiles.backward(H, itemsize)
    tile = held or tiles.columns(itemsize, is_aligned)
    columns = -(-H // tile.features)
    programs = tiles.programs(B, tile, runtime.multiprocessors(x.device), columns)
    stages = ahead = _stages(x, dy) if is_aligned else 1  # 4 bytes are not worth a copy ahead
    if not with_sums:  # then a program has one tile
        programs, stages = -(-B // tile.rows), 1
    partials = [statistics.new_empty((programs, H)) if need else None for need in needs[1:]]
    means = statistics.new_empty((2, B)) if needs[0] and not held else None
    with on(x.device):
        if means is not None:
            long = tiles.long(itemsize, is_aligned)
            walk = *read, means, *layout, long.features, ahead
            _run(kernels.layer_norm_bwd_rows_kernel, (B,), long, *walk)
        operands = *read, means, dx, *partials, *layout, tile.rows, tile.features, stages
        _run(kernels.layer_norm_bwd_kernel, (programs * columns,), tile, *operands)
        if with_sums:
            last = tiles.partials(itemsize, columns)
            grid = -(-H // last.features), bool(needs[1]) + bool(needs[2])
            sums = *partials, dweight, dbias, programs, H, last.rows, last.features
            _run(kernels.sum_partials_kernel, grid, last, *sums)
    return dx, dweight, dbias


def readable(rows: Tensor) -> Tensor:
    """Return ``(B, H)`` as rows that a kernel can read, where they are if it can.

    A copy is made only if the features of a row are neither next to each other nor one expanded
    number, or if ``rows`` is a view that means minus what its memory holds.
    """
    if rows.is_neg():
        rows = rows.resolve_neg()
    return rows if rows.shape[1] == 1 or rows.stride(1) in (0, 1) else rows.contiguous()


def split(eps: float) -> tuple[float, float]:
    """Return ``eps`` as the sum of two numbers that float32 can hold, which is good to 48 bits."""
    near = ctypes.c_float(eps).value
    return near, ctypes.c_float(eps - near).value if math.isfinite(near) else 0.0


def _steps(rows: Tensor) -> tuple[int, int]:
    """Return how far apart features are, and what a compiler may know of how far rows are."""
    step = 1 if rows.shape[1] == 1 else rows.stride(1)
    unit = tiles.unit(_apart(rows), rows.itemsize)
    if unit * rows.itemsize < 16 and _apart(rows) == rows.shape[1]:
        unit = 0  # which is then known altogether
    return step, unit


def _apart(rows: Tensor) -> int:
    """Return how far rows are apart. The stride of a single row says nothing, and may be odd."""
    return rows.stride(0) if len(rows) > 1 else rows.shape[1]


def _stages(*rows: Tensor) -> int:
    """Return how many tiles are read ahead, and one: of narrow types, twice as many fit."""
    return 3 if all(each.itemsize == 2 for each in rows) else 2


def _is_aligned(rows: Tensor) -> bool:
    """Tell whether every row, and each of its 16 bytes, starts at a multiple of 16 bytes."""
    at_once = 16 // rows.itemsize
    fits = rows.shape[1] % at_once == 0 and _apart(rows) % at_once == 0
    return fits and rows.data_ptr() % 16 == 0


def _run(
    kernel: Any,
    grid: tuple[int, ...],
    tile: Tile,
    *operands: Tensor | float | None,
    registers: int | None = None,
) -> None:
    # AMD's compiler has no such limit, and needs none.
    limited = {} if registers is None or torch.version.hip else {"maxnreg": registers}
    fuses = tile.features > tiles.LONE
    kernel[grid](*operands, num_warps=tile.warps, enable_fp_fusion=fuses, **limited)


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Make ``device`` the current one, which is where Triton launches."""
    if device.type == "cpu":
        return runtime.interpreting()
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)
