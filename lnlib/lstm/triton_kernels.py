# mypy: ignore-errors
# ruff: noqa: D103 - comments beside its operands document a kernel
"""The kernel of a time step: all of it but the product with W_h, one program to a row.

Device code alone, in Triton, called by `lnlib.lstm.triton_steps`. The equations are those of
`lnlib.lstm.formula` and, backward, of `lnlib.lstm.function`. The arithmetic is float32, float64 for
float64, and rounded when it is stored. A row of gates is a tile of four: i, f, candidate, o.
"""

# From there, so that a copy of this module that is interpreted can get all of them interpreted.
from lnlib.triton_kernel.kernels import divide, normalized, reciprocal_sqrt, tl, triton


@triton.jit
def _load(ptr, at, mask, dtype: tl.constexpr):
    return tl.load(ptr + at, mask=mask, other=0.0).to(dtype)


@triton.jit
def _store(ptr, at, mask, value):
    tl.store(ptr + at, value.to(ptr.dtype.element_ty), mask=mask)


@triton.jit
def _sum(x):
    return tl.sum(tl.sum(x, axis=0), axis=0)


@triton.jit
def _pick(gates, gate, which: tl.constexpr):
    return tl.sum(tl.where(gate == which, gates, 0.0), axis=0, keep_dims=True)


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
def _normalize(x, mask, eps, eps_rest, N: tl.constexpr):
    # Measured from the mean, and then without what rounding left of it, ``rest``: a large mean
    # costs no digits, and of a constant row nothing is left. Masked lanes hold 0, before and after.
    x = tl.where(mask, x - divide(_sum(x), N), 0.0)
    rest = divide(_sum(x), N)
    rstd = reciprocal_sqrt(divide(_sum(x * x), N) - rest * rest, eps, eps_rest)
    return tl.where(mask, normalized(x, rest, rstd), 0.0), rstd


@triton.jit
def _through_norm(g, x_hat, rstd, N: tl.constexpr):
    return (g - divide(_sum(g), N) - x_hat * divide(_sum(g * x_hat), N)) * rstd


@triton.jit(do_not_specialize=["start", "before", "after"])
def lstm_step_kernel(
    inputs_ptr,  # (N, 4H): what the input adds to the gates
    a_ptr,  # (N, 4H): W_h h
    weight_h_ptr,  # (4H,)
    weight_c_ptr,  # (H,)
    bias_c_ptr,  # (H,)
    cells_ptr,  # (B + N, H): the cell before is read; forward, the cell that goes on is written
    outputs_ptr,  # (N, H): h is written, forward; or None, backward
    dy_ptr,  # (N, H); forward, this and the seven that follow are None
    dh_ptr,  # (B, H)
    dcarry_ptr,  # (B, H): of the cell after is read, of the cell before is written
    dv_ptr,  # (N, 4H): for what enters the gates
    da_ptr,  # (N, 4H): for W_h h
    dweight_h_ptr,  # (N, 4H): each row's part of it
    dweight_c_ptr,  # (N, H): likewise
    dn_ptr,  # (N, H): for the cell, normalized, scaled and shifted
    start,
    before,
    after,
    eps,
    eps_rest,
    H: tl.constexpr,
    CARRIES_NORMALIZED: tl.constexpr,
    BLOCK_H: tl.constexpr,  # at least H
):
    dtype: tl.constexpr = tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32
    row = tl.program_id(0).to(tl.int64)
    gate, col = tl.arange(0, 4)[:, None], tl.arange(0, BLOCK_H)[None, :]
    in_cols, cols = col < H, gate * H + col
    in_gates = in_cols & (gate < 4)
    at, at_c, of_row = (start + row) * (4 * H) + cols, (start + row) * H + col, row * H + col
    a_hat, rstd_a = _normalize(_load(a_ptr, at, in_gates, dtype), in_gates, eps, eps_rest, 4 * H)
    weight_h = _load(weight_h_ptr, cols, in_gates, dtype)
    v = tl.fma(a_hat, weight_h, _load(inputs_ptr, at, in_gates, dtype))
    c_before = _load(cells_ptr, (before + row) * H + col, in_cols, dtype)
    weight_c = _load(weight_c_ptr, col, in_cols, dtype)
    bias_c = _load(bias_c_ptr, col, in_cols, dtype)
    gates = tl.where(gate == 2, _tanh(v), _sigmoid(v))
    i, f, candidate = _pick(gates, gate, 0), _pick(gates, gate, 1), _pick(gates, gate, 2)
    c = tl.where(in_cols, tl.fma(f, c_before, i * candidate), 0.0)
    c_hat, rstd_c = _normalize(c, in_cols, eps, eps_rest, H)
    n = tl.fma(c_hat, weight_c, bias_c)
    o, tanh_n = _pick(gates, gate, 3), _tanh(n)
    if outputs_ptr is not None:
        _store(outputs_ptr, at_c, in_cols, o * tanh_n)
        _store(cells_ptr, (after + row) * H + col, in_cols, n if CARRIES_NORMALIZED else c)
    else:
        # Masked lanes hold 0 in all that is loaded, and so in every product and sum below.
        dh = _load(dy_ptr, at_c, in_cols, dtype) + _load(dh_ptr, of_row, in_cols, dtype)
        dcarry = _load(dcarry_ptr, of_row, in_cols, dtype)
        dn = dh * o * (1.0 - tanh_n * tanh_n)
        if CARRIES_NORMALIZED:
            dn += dcarry
        dc = _through_norm(dn * weight_c, c_hat, rstd_c, H)
        if not CARRIES_NORMALIZED:
            dc += dcarry
        di, df = dc * candidate * i * (1.0 - i), dc * c_before * f * (1.0 - f)
        dcandidate, do = dc * i * (1.0 - candidate * candidate), dh * tanh_n * o * (1.0 - o)
        dv = tl.where(gate < 2, tl.where(gate == 0, di, df), tl.where(gate == 2, dcandidate, do))
        _store(dcarry_ptr, of_row, in_cols, dc * f)
        _store(dn_ptr, at_c, in_cols, dn)
        _store(dweight_c_ptr, at_c, in_cols, dn * c_hat)
        _store(dv_ptr, at, in_gates, dv)
        _store(dweight_h_ptr, at, in_gates, dv * a_hat)
        _store(da_ptr, at, in_gates, _through_norm(dv * weight_h, a_hat, rstd_a, 4 * H))
