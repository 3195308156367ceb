# mypy: ignore-errors
# ruff: noqa: D103 - comments beside its operands document a kernel
"""The kernels of a time step: all of it but the product with W_h, one program to a row.

Device code alone, in Triton, called by `lnlib.lstm.triton_steps`. A row has H features, or for the
gates four times as many, which are kept as four tiles: i, f, candidate, o. The equations are those
of `lnlib.lstm.formula` and, backward, of `lnlib.lstm.function`, where the buffers are explained
too.

The arithmetic is float32, float64 for float64, whatever the buffers hold: what a step computes is
rounded when it is stored, and not before.
"""

# From there, so that a copy of this module that is interpreted can get all of them interpreted.
from lnlib.triton_kernel.kernels import divide, normalized, reciprocal_sqrt, tl, triton


@triton.jit
def _load(ptr, cols, in_cols, dtype: tl.constexpr):
    return tl.load(ptr + cols, mask=in_cols, other=0.0).to(dtype)


@triton.jit
def _store(ptr, cols, in_cols, value):
    tl.store(ptr + cols, value.to(ptr.dtype.element_ty), mask=in_cols)


@triton.jit
def _load_gates(ptr, cols, in_cols, H: tl.constexpr, dtype: tl.constexpr):
    i = _load(ptr, cols, in_cols, dtype)
    f = _load(ptr + H, cols, in_cols, dtype)
    candidate = _load(ptr + 2 * H, cols, in_cols, dtype)
    o = _load(ptr + 3 * H, cols, in_cols, dtype)
    return i, f, candidate, o


@triton.jit
def _store_gates(ptr, cols, in_cols, H: tl.constexpr, i, f, candidate, o):
    _store(ptr, cols, in_cols, i)
    _store(ptr + H, cols, in_cols, f)
    _store(ptr + 2 * H, cols, in_cols, candidate)
    _store(ptr + 3 * H, cols, in_cols, o)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))  # exp may be infinite: its reciprocal is 0


@triton.jit
def _tanh(x):
    # Near 0 the difference below would lose digits, so there seven terms of Lambert's continued
    # fraction. 2 / infinity is 0: nothing overflows, as a quotient of two exponentials would.
    z = x * x
    above = x * (((z + 378.0) * z + 17325.0) * z + 135135.0)
    below = ((28.0 * z + 3150.0) * z + 62370.0) * z + 135135.0
    size = 1.0 - 2.0 / (tl.exp(2.0 * tl.abs(x)) + 1.0)
    return tl.where(z < 0.25, above / below, tl.where(x < 0.0, -size, size))


@triton.jit
def _rstd(squares, rest, eps, eps_rest, N: tl.constexpr):
    return reciprocal_sqrt(divide(squares, N) - rest * rest, eps, eps_rest)


# Both norms measure from the mean, and then take off what rounding left of it, ``rest``: a large
# mean costs no digits, and of a constant row nothing is left.


@triton.jit
def _normalize_gates(i, f, candidate, o, in_cols, eps, eps_rest, H: tl.constexpr):
    N: tl.constexpr = 4 * H
    mean = divide(tl.sum((i + f) + (candidate + o), axis=0), N)
    i = tl.where(in_cols, i - mean, 0.0)  # masked lanes hold -mean, not 0; likewise below
    f = tl.where(in_cols, f - mean, 0.0)
    candidate = tl.where(in_cols, candidate - mean, 0.0)
    o = tl.where(in_cols, o - mean, 0.0)
    rest = divide(tl.sum((i + f) + (candidate + o), axis=0), N)
    squares = (i * i + f * f) + (candidate * candidate + o * o)
    rstd = _rstd(tl.sum(squares, axis=0), rest, eps, eps_rest, N)
    i = normalized(i, rest, rstd)
    f = normalized(f, rest, rstd)
    candidate = normalized(candidate, rest, rstd)
    o = normalized(o, rest, rstd)
    return i, f, candidate, o, rstd


@triton.jit
def _normalize_cell(c, in_cols, eps, eps_rest, H: tl.constexpr):
    mean = divide(tl.sum(c, axis=0), H)  # c is 0 in masked lanes
    centered = tl.where(in_cols, c - mean, 0.0)
    rest = divide(tl.sum(centered, axis=0), H)
    rstd = _rstd(tl.sum(centered * centered, axis=0), rest, eps, eps_rest, H)
    return normalized(centered, rest, rstd), rstd


@triton.jit(do_not_specialize=["start", "before", "after"])
def lstm_fwd_kernel(
    weight_h_ptr,  # (4H,)
    weight_c_ptr,  # (H,)
    bias_c_ptr,  # (H,)
    outputs_ptr,  # (n, H)
    carry_ptr,  # (b + n, H): the cell before is read, the cell after is written
    gates_ptr,  # (n, 4H): what the input adds is read, the values are written
    a_hat_ptr,  # (n, 4H): W_h h is read, and written normalized
    c_hat_ptr,  # (n, H)
    tanh_n_ptr,  # (n, H)
    rstd_a_ptr,  # (n, 1)
    rstd_c_ptr,  # (n, 1)
    start,
    before,
    after,
    eps,
    eps_rest,
    H: tl.constexpr,
    CARRIES_NORMALIZED: tl.constexpr,
    BLOCK_H: tl.constexpr,  # at least H
):
    dtype: tl.constexpr = rstd_a_ptr.dtype.element_ty
    row_of_block = tl.program_id(0).to(tl.int64)
    row = start + row_of_block
    cols = tl.arange(0, BLOCK_H)
    in_cols = cols < H
    a_row, gates_row = a_hat_ptr + row * (4 * H), gates_ptr + row * (4 * H)

    i, f, candidate, o = _load_gates(a_row, cols, in_cols, H, dtype)
    i, f, candidate, o, rstd_a = _normalize_gates(i, f, candidate, o, in_cols, eps, eps_rest, H)
    _store_gates(a_row, cols, in_cols, H, i, f, candidate, o)
    tl.store(rstd_a_ptr + row, rstd_a)

    w_i, w_f, w_candidate, w_o = _load_gates(weight_h_ptr, cols, in_cols, H, dtype)
    x_i, x_f, x_candidate, x_o = _load_gates(gates_row, cols, in_cols, H, dtype)
    i = _sigmoid(tl.fma(i, w_i, x_i))
    f = _sigmoid(tl.fma(f, w_f, x_f))
    candidate = _tanh(tl.fma(candidate, w_candidate, x_candidate))
    o = _sigmoid(tl.fma(o, w_o, x_o))
    _store_gates(gates_row, cols, in_cols, H, i, f, candidate, o)

    c_before = _load(carry_ptr + (before + row_of_block) * H, cols, in_cols, dtype)
    c = tl.fma(f, c_before, i * candidate)
    c_hat, rstd_c = _normalize_cell(c, in_cols, eps, eps_rest, H)
    weight_c = _load(weight_c_ptr, cols, in_cols, dtype)
    n = tl.fma(c_hat, weight_c, _load(bias_c_ptr, cols, in_cols, dtype))
    tanh_n = _tanh(n)
    _store(c_hat_ptr + row * H, cols, in_cols, c_hat)
    _store(tanh_n_ptr + row * H, cols, in_cols, tanh_n)
    _store(outputs_ptr + row * H, cols, in_cols, o * tanh_n)
    sent_on = n if CARRIES_NORMALIZED else c
    _store(carry_ptr + (after + row_of_block) * H, cols, in_cols, sent_on)
    tl.store(rstd_c_ptr + row, rstd_c)


@triton.jit(do_not_specialize=["start", "before"])
def lstm_bwd_kernel(
    weight_h_ptr,  # (4H,)
    weight_c_ptr,  # (H,)
    carry_ptr,  # (b + n, H)
    gates_ptr,  # (n, 4H)
    a_hat_ptr,  # (n, 4H)
    c_hat_ptr,  # (n, H)
    tanh_n_ptr,  # (n, H)
    rstd_a_ptr,  # (n, 1)
    rstd_c_ptr,  # (n, 1)
    dy_ptr,  # (n, H)
    dh_ptr,  # (B, H)
    dcarry_ptr,  # (B, H): of the cell after is read, of the cell before is written
    dv_ptr,  # (n, 4H)
    da_ptr,  # (n, 4H)
    dn_ptr,  # (n, H)
    start,
    before,
    H: tl.constexpr,
    CARRIES_NORMALIZED: tl.constexpr,
    BLOCK_H: tl.constexpr,  # at least H
):
    dtype: tl.constexpr = rstd_a_ptr.dtype.element_ty
    row_of_block = tl.program_id(0).to(tl.int64)
    row = start + row_of_block
    cols = tl.arange(0, BLOCK_H)
    in_cols = cols < H

    # Masked lanes hold 0 in all that is loaded, and so in every product and sum below.
    dh = _load(dy_ptr + row * H, cols, in_cols, dtype)
    dh += _load(dh_ptr + row_of_block * H, cols, in_cols, dtype)
    tanh_n = _load(tanh_n_ptr + row * H, cols, in_cols, dtype)
    dcarry = _load(dcarry_ptr + row_of_block * H, cols, in_cols, dtype)
    i, f, candidate, o = _load_gates(gates_ptr + row * (4 * H), cols, in_cols, H, dtype)
    do = dh * tanh_n * o * (1.0 - o)
    dn = dh * o * (1.0 - tanh_n * tanh_n)
    if CARRIES_NORMALIZED:
        dn += dcarry
    _store(dn_ptr + row * H, cols, in_cols, dn)

    g = dn * _load(weight_c_ptr, cols, in_cols, dtype)
    c_hat = _load(c_hat_ptr + row * H, cols, in_cols, dtype)
    mean_g = divide(tl.sum(g, axis=0), H)
    mean_gx_hat = divide(tl.sum(g * c_hat, axis=0), H)
    dc = (g - mean_g - c_hat * mean_gx_hat) * tl.load(rstd_c_ptr + row)
    if not CARRIES_NORMALIZED:
        dc += dcarry

    c_before = _load(carry_ptr + (before + row_of_block) * H, cols, in_cols, dtype)
    di = dc * candidate * i * (1.0 - i)
    df = dc * c_before * f * (1.0 - f)
    dcandidate = dc * i * (1.0 - candidate * candidate)
    _store_gates(dv_ptr + row * (4 * H), cols, in_cols, H, di, df, dcandidate, do)
    _store(dcarry_ptr + row_of_block * H, cols, in_cols, dc * f)

    w_i, w_f, w_candidate, w_o = _load_gates(weight_h_ptr, cols, in_cols, H, dtype)
    a_i, a_f, a_candidate, a_o = _load_gates(a_hat_ptr + row * (4 * H), cols, in_cols, H, dtype)
    g_i, g_f, g_candidate, g_o = di * w_i, df * w_f, dcandidate * w_candidate, do * w_o
    mean_g = divide(tl.sum((g_i + g_f) + (g_candidate + g_o), axis=0), 4 * H)
    gx_hat = (g_i * a_i + g_f * a_f) + (g_candidate * a_candidate + g_o * a_o)
    mean_gx_hat = divide(tl.sum(gx_hat, axis=0), 4 * H)
    rstd_a = tl.load(rstd_a_ptr + row)
    da_i = (g_i - mean_g - a_i * mean_gx_hat) * rstd_a
    da_f = (g_f - mean_g - a_f * mean_gx_hat) * rstd_a
    da_candidate = (g_candidate - mean_g - a_candidate * mean_gx_hat) * rstd_a
    da_o = (g_o - mean_g - a_o * mean_gx_hat) * rstd_a
    _store_gates(da_ptr + row * (4 * H), cols, in_cols, H, da_i, da_f, da_candidate, da_o)
