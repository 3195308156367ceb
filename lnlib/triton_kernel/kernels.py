# ruff: noqa: D103 - comments beside its operands document a kernel
"""The kernels: what each GPU program reads, computes and writes. Device code alone, in Triton.

A row is H features that share one mean and one variance. A program owns a tile of rows, whole ones
while they fit in its registers (`layer_norm_fwd_kernel`, `layer_norm_bwd_kernel`), or walks along
a longer row tile by tile (`layer_norm_fwd_long_kernel`). Backward, such a walk takes two means of
the row (`layer_norm_bwd_rows_kernel`), with which `layer_norm_bwd_kernel` needs no whole rows.
The shapes of tiles are chosen in `lnlib.triton_kernel.tiles`, and the kernels are called by
`lnlib.triton_kernel.launch`.

Statistics are float32, float64 for float64 input: three numbers for each row, in ``statistics``
(3, B). They are a value near the mean, what is missing from it to the mean, and rstd. With these,
x_hat = ((x − mean) − rest)·rstd keeps its digits however far the row is from zero.

``None`` in place of a pointer leaves that operand out at compile time.
"""

import triton
import triton.language as tl


@triton.jit
def _stride(stride, UNIT: tl.constexpr, H: tl.constexpr):
    if UNIT == 0:
        return tl.full((), H, tl.int64)
    else:
        # A multiple of UNIT anyway. So written, no pass of a compiler loses sight of it.
        return tl.cast(stride, tl.int64) // UNIT * UNIT


@triton.jit
def divide(a, b: tl.constexpr):
    # To a GPU "/" is an approximation, and exact division a subroutine. This is as exact: what the
    # product with 1/b misses by, fma finds without rounding (Markstein 1990).
    inverse = tl.full(a.shape, 1.0 / b, a.dtype)
    near = a * inverse
    return tl.fma(tl.fma(-near, tl.full(a.shape, b, a.dtype), a), inverse, near)  # of inf, NaN


@triton.jit
def means(a, b, N: tl.constexpr):
    # The means of each row of both, in one sum: the warps wait for each other half as often.
    B: tl.constexpr = a.shape[0]
    H: tl.constexpr = a.shape[1]
    PAIR: tl.constexpr = 1 if H == 1 else 2
    # In pairs, so that NumPy has to put each row in one piece, of which it adds with less rounding.
    both = tl.permute(tl.reshape(tl.join(a, b), (B, H // PAIR, PAIR, 2)), (3, 0, 2, 1))
    sums = tl.sum(tl.reshape(both, (2 * B, H)), axis=1)
    sum_a, sum_b = tl.split(tl.permute(tl.reshape(sums, (2, B)), (1, 0)))
    return divide(sum_a, N), divide(sum_b, N)


@triton.jit
def reciprocal_sqrt(var, eps, eps_rest):
    # eps comes as two float32, their sum good to 48 bits: no float64 enters a float32 kernel.
    denominator = (var + eps_rest) + eps
    if var.dtype == tl.float64:
        return 1.0 / tl.sqrt(denominator)
    else:
        return tl.div_rn(tl.full(var.shape, 1.0, tl.float32), tl.sqrt_rn(denominator))


@triton.jit
def normalized(x_centered, rest, rstd):
    # (x_centered − rest)·rstd, in the one rounding of a fused multiply-add.
    return tl.fma(x_centered, rstd, -(rest * rstd))


@triton.jit
def _scale_and_shift(x_hat, weight_ptr, bias_ptr, cols, in_cols):
    y = x_hat
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=in_cols, other=0.0).to(y.dtype)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + cols, mask=in_cols, other=0.0).to(y.dtype)
        y = y + bias if weight_ptr is None else tl.fma(y, weight, bias)
    elif weight_ptr is not None:
        y = y * weight
    return y


@triton.jit(do_not_specialize=["B", "x_stride"])
def layer_norm_fwd_kernel(
    x_ptr,  # (B, H), rows x_stride apart; a row's features X_STEP apart: 1, or 0 if expanded
    weight_ptr,  # (H,) or None
    bias_ptr,  # (H,) or None
    y_ptr,  # (B, H)
    statistics_ptr,  # (3, B): mean, rest, rstd
    B,
    x_stride,
    eps,
    eps_rest,
    H: tl.constexpr,
    X_STEP: tl.constexpr,
    X_UNIT: tl.constexpr,  # x_stride is a multiple of it: what lets a thread load 16 bytes at once
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,  # at least H
):
    dtype = statistics_ptr.dtype.element_ty
    rows = tl.program_id(0).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
    cols = tl.arange(0, BLOCK_H)
    in_rows, in_cols = rows < B, cols < H
    mask = in_cols[None, :] if BLOCK_B == 1 else in_rows[:, None] & in_cols[None, :]

    # The one read of x. Every row is whole in the registers from here on.
    x_rows = x_ptr + rows * _stride(x_stride, X_UNIT, H)
    x = tl.load(x_rows[:, None] + cols[None, :] * X_STEP, mask=mask, other=0.0).to(dtype)
    first = tl.load(x_rows, mask=in_rows, other=0.0).to(dtype)

    # Two passes, and what rounding left of the mean (Chan, Golub, LeVeque 1983, eq. 1.7).
    # Measured from the first value, a constant row is all zeros, which no rounding can touch.
    deviations = tl.where(mask, x - first[:, None], 0.0)  # masked lanes hold -first, not 0
    mean = first + divide(tl.sum(deviations, axis=1), H)
    x_centered = tl.where(mask, x - mean[:, None], 0.0)  # masked lanes hold -mean, not 0
    rest, square = means(x_centered, x_centered * x_centered, H)
    # Squares that overflow give NaN, by way of `divide`: of an infinite variance y would be β.
    rstd = reciprocal_sqrt(square - rest * rest, eps, eps_rest)

    x_hat = normalized(x_centered, rest[:, None], rstd[:, None])
    y = _scale_and_shift(x_hat, weight_ptr, bias_ptr, cols[None, :], in_cols[None, :])
    tl.store(y_ptr + rows[:, None] * H + cols[None, :], y.to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(statistics_ptr + rows, mean, mask=in_rows)
    tl.store(statistics_ptr + B + rows, rest, mask=in_rows)
    tl.store(statistics_ptr + B + B + rows, rstd, mask=in_rows)


@triton.jit(do_not_specialize=["B", "x_stride"])
def layer_norm_fwd_long_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    statistics_ptr,
    B,
    x_stride,
    eps,
    eps_rest,
    H: tl.constexpr,
    X_STEP: tl.constexpr,
    X_UNIT: tl.constexpr,
    BLOCK_H: tl.constexpr,  # at most H
):
    dtype = statistics_ptr.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_H)
    x_row = x_ptr + row * _stride(x_stride, X_UNIT, H)
    y_row = y_ptr + row * H

    # Measure from the mean of a sample, pieces of the row at equal distances. As near to the row's
    # mean as that is, one more sweep gives the variance. (The row's beginning may be padding.)
    PIECE: tl.constexpr = BLOCK_H if BLOCK_H < 128 else 128
    apart = H // (BLOCK_H // PIECE) // 16 * 16  # a multiple, to read 16 bytes at once
    at = cols // PIECE * apart + cols % PIECE
    x = tl.load(x_row + at * X_STEP).to(dtype)
    first = tl.load(x_row).to(dtype)
    mean = first + divide(tl.sum(x - first, axis=0), BLOCK_H)
    total = tl.zeros((BLOCK_H,), dtype)
    squares = tl.zeros((BLOCK_H,), dtype)
    for start in range(0, H, BLOCK_H):
        mask = cols < H - start
        x = tl.load(x_row + start * X_STEP + cols * X_STEP, mask=mask, other=0.0).to(dtype)
        x_centered = tl.where(mask, x - mean, 0.0)
        total += x_centered
        squares += x_centered * x_centered
    rest = divide(tl.sum(total, axis=0), H)
    square = divide(tl.sum(squares, axis=0), H)
    rstd = reciprocal_sqrt(square - rest * rest, eps, eps_rest)

    # Backwards: the tiles that were read last are the ones still in the cache.
    for behind in range(0, H, BLOCK_H):
        start = (H - 1) // BLOCK_H * BLOCK_H - behind
        mask = cols < H - start
        x_hat = _load_x_hat(x_row + start * X_STEP, cols * X_STEP, mask, mean, rest, rstd)
        y = _scale_and_shift(x_hat, weight_ptr, bias_ptr, start + cols, mask)
        tl.store(y_row + start + cols, y.to(y_ptr.dtype.element_ty), mask=mask)
    tl.store(statistics_ptr + row, mean)
    tl.store(statistics_ptr + B + row, rest)
    tl.store(statistics_ptr + B + B + row, rstd)


@triton.jit
def _load_x_hat(x_ptr, offsets, mask, mean, rest, rstd):
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(mean.dtype)
    # Masked lanes hold -mean, whose product with a large rstd may be infinite, and no longer lost.
    return normalized(tl.where(mask, x - mean, 0.0), rest, rstd)


@triton.jit
def _load_statistics(statistics_ptr, B, rows, in_rows):
    mean = tl.load(statistics_ptr + rows, mask=in_rows, other=0.0)
    rest = tl.load(statistics_ptr + B + rows, mask=in_rows, other=0.0)
    rstd = tl.load(statistics_ptr + B + B + rows, mask=in_rows, other=0.0)
    return mean, rest, rstd


@triton.jit(do_not_specialize=["B", "dy_stride", "x_stride"])
def layer_norm_bwd_rows_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    statistics_ptr,
    means_ptr,  # (2, B): of g and of g·x_hat, over each row
    B,
    dy_stride,
    x_stride,
    H: tl.constexpr,
    DY_STEP: tl.constexpr,
    DY_UNIT: tl.constexpr,
    X_STEP: tl.constexpr,
    X_UNIT: tl.constexpr,
    BLOCK_H: tl.constexpr,
    STAGES: tl.constexpr,
):
    dtype = statistics_ptr.dtype.element_ty
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_H)
    dy_row = dy_ptr + row * _stride(dy_stride, DY_UNIT, H)
    x_row = x_ptr + row * _stride(x_stride, X_UNIT, H)
    mean, rest, rstd = _load_statistics(statistics_ptr, B, row, row < B)
    sum_g = tl.zeros((BLOCK_H,), dtype)
    sum_gx_hat = tl.zeros((BLOCK_H,), dtype)
    for start in tl.range(0, H, BLOCK_H, num_stages=STAGES):
        mask = cols < H - start
        g = tl.load(dy_row + start * DY_STEP + cols * DY_STEP, mask=mask, other=0.0).to(dtype)
        if weight_ptr is not None:
            g = g * tl.load(weight_ptr + start + cols, mask=mask, other=0.0).to(dtype)
        x_hat = _load_x_hat(x_row + start * X_STEP, cols * X_STEP, mask, mean, rest, rstd)
        sum_g += g
        sum_gx_hat = tl.fma(g, x_hat, sum_gx_hat)
    tl.store(means_ptr + row, divide(tl.sum(sum_g, axis=0), H))
    tl.store(means_ptr + B + row, divide(tl.sum(sum_gx_hat, axis=0), H))


@triton.jit(do_not_specialize=["B", "dy_stride", "x_stride"])
def layer_norm_bwd_kernel(
    dy_ptr,  # (B, H), as x in the forward kernel
    x_ptr,  # (B, H)
    weight_ptr,  # (H,) or None
    statistics_ptr,  # (3, B)
    means_ptr,  # (2, B), of a row that no tile holds; else None
    dx_ptr,  # (B, H), or None if nobody asks
    dweight_ptr,  # (programs, H), the sum over each program's rows, or None
    dbias_ptr,  # (programs, H), likewise, or None
    B,
    dy_stride,
    x_stride,
    H: tl.constexpr,
    DY_STEP: tl.constexpr,
    DY_UNIT: tl.constexpr,
    X_STEP: tl.constexpr,
    X_UNIT: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
    STAGES: tl.constexpr,
):
    dtype = statistics_ptr.dtype.element_ty
    # Other directions of a grid end at 65,535, so the first counts both tiles of a row and rows.
    COLUMNS: tl.constexpr = (H + BLOCK_H - 1) // BLOCK_H
    program, programs = tl.program_id(0) // COLUMNS, tl.num_programs(0) // COLUMNS
    # So written, the lanes of a row differ by numbers that the compiler knows.
    start = 0 if COLUMNS == 1 else (tl.program_id(0) % COLUMNS).to(tl.int64) * BLOCK_H
    cols = tl.arange(0, BLOCK_H)
    in_cols = cols < H - start
    if dx_ptr is not None and weight_ptr is not None:
        weight_at = (weight_ptr + start) + cols[None, :]
        weight = tl.load(weight_at, mask=in_cols[None, :], other=0.0).to(dtype)
    if dweight_ptr is not None:
        dweight = tl.zeros((BLOCK_B, BLOCK_H), dtype)
    if dbias_ptr is not None:
        dbias = tl.zeros((BLOCK_B, BLOCK_H), dtype)

    # Every so many tiles of rows, one is this program's. The next ones are on their way already.
    tiles = tl.cdiv(B.to(tl.int64), BLOCK_B)
    for tile in tl.range(program, tiles, programs, num_stages=STAGES):
        rows = tl.cast(tile, tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B)
        in_rows = rows < B
        mask = in_cols[None, :] if BLOCK_B == 1 else in_rows[:, None] & in_cols[None, :]
        dy_rows = rows * _stride(dy_stride, DY_UNIT, H)
        x_rows = rows * _stride(x_stride, X_UNIT, H)
        dy_at = (dy_ptr + start * DY_STEP) + (dy_rows[:, None] + cols[None, :] * DY_STEP)
        dy = tl.load(dy_at, mask=mask, other=0.0)
        dy = dy.to(dtype)  # 0 in masked lanes, and so is every product and sum below
        if dbias_ptr is not None:
            dbias += dy
        if dx_ptr is not None or dweight_ptr is not None:
            mean, rest, rstd = _load_statistics(statistics_ptr, B, rows, in_rows)
            x_at, offsets = x_ptr + start * X_STEP, x_rows[:, None] + cols[None, :] * X_STEP
            x_hat = _load_x_hat(x_at, offsets, mask, mean[:, None], rest[:, None], rstd[:, None])
            if dweight_ptr is not None:
                dweight = tl.fma(dy, x_hat, dweight)
            if dx_ptr is not None:
                g = dy
                if weight_ptr is not None:
                    g = g * weight
                if means_ptr is None:
                    mean_g, mean_gx_hat = means(g, g * x_hat, H)
                else:
                    mean_g = tl.load(means_ptr + rows, mask=in_rows, other=0.0)
                    mean_gx_hat = tl.load(means_ptr + B + rows, mask=in_rows, other=0.0)
                dx = (g - tl.fma(x_hat, mean_gx_hat[:, None], mean_g[:, None])) * rstd[:, None]
                dx_at = (dx_ptr + start) + (rows[:, None] * H + cols[None, :])
                tl.store(dx_at, dx.to(dx_ptr.dtype.element_ty), mask=mask)

    partial = program.to(tl.int64) * H + start + cols
    if dweight_ptr is not None:
        tl.store(dweight_ptr + partial, tl.sum(dweight, axis=0), mask=in_cols)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + partial, tl.sum(dbias, axis=0), mask=in_cols)


@triton.jit
def sum_partials(
    partials_ptr, out_ptr, programs, H: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_H: tl.constexpr
):
    cols = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    total = tl.zeros((BLOCK_B, BLOCK_H), partials_ptr.dtype.element_ty)
    for start in range(0, programs, BLOCK_B):
        rows = start + tl.arange(0, BLOCK_B)
        mask = (rows < programs)[:, None] & (cols < H)[None, :]
        at = rows[:, None].to(tl.int64) * H + cols[None, :]
        total += tl.load(partials_ptr + at, mask=mask, other=0.0)
    out = tl.sum(total, axis=0)
    if out_ptr.dtype.element_ty == tl.bfloat16:
        out = out.to(tl.float32)  # the interpreter knows no other way from float64
    tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < H)


@triton.jit(do_not_specialize=["programs"])
def sum_partials_kernel(
    dweight_partials_ptr,  # (programs, H) or None
    dbias_partials_ptr,  # (programs, H) or None
    dweight_ptr,  # (H,) or None
    dbias_ptr,  # (H,) or None
    programs,
    H: tl.constexpr,
    BLOCK_B: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    # Where both are asked for, the grid has a second direction with a program for each.
    if dbias_ptr is None:
        sum_partials(dweight_partials_ptr, dweight_ptr, programs, H, BLOCK_B, BLOCK_H)
    elif dweight_ptr is None:
        sum_partials(dbias_partials_ptr, dbias_ptr, programs, H, BLOCK_B, BLOCK_H)
    elif tl.program_id(1) == 0:
        sum_partials(dweight_partials_ptr, dweight_ptr, programs, H, BLOCK_B, BLOCK_H)
    else:
        sum_partials(dbias_partials_ptr, dbias_ptr, programs, H, BLOCK_B, BLOCK_H)
