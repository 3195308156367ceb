"""The gradient of layer norm in closed form, with formulas that can be differentiated again.

For a row of H features, with x_hat = (x − mean)·rstd and g = weight·dy, the chain rule through mean
and rstd comes to ::

    dx      = rstd · (g − mean(g) − x_hat · mean(g · x_hat)),
    dweight = Σ dy · x_hat,    dbias = Σ dy,    both over all rows.

So a backward pass needs x, mean, rstd and weight, and may take the rows one after the other.

Source: Ba, Kiros, Hinton 2016, eq. 3 to 5; chapters 04 and 05 of the book derive the gradient.
"""

from typing import TypeAlias

import torch
from torch import Tensor

from lnlib import composed
from lnlib.composed import widened
from lnlib.modes import ORDINARY, mode_of

# Of dx, dweight and dbias: the dtype in which it is wanted, or None where it is not.
Needs: TypeAlias = tuple[torch.dtype | None, torch.dtype | None, torch.dtype | None]
Gradients: TypeAlias = tuple[Tensor | None, Tensor | None, Tensor | None]


def gradients(
    dy: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, needs: Needs
) -> Gradients:
    """Return dx ``(B, H)``, dweight ``(H,)`` and dbias ``(H,)``, None where not needed.

    This is plain PyTorch, so it can be differentiated. Even then ``mean`` may be a constant,
    because the rows are centered once more; ``rstd`` may not.
    """
    needs_dx, needs_dweight, needs_dbias = needs
    dy = widened(dy)
    x_hat = widened(x) - mean
    # Subtract what rounding left of the mean and multiply by rstd, fused where it can be.
    x_hat = torch.addcmul(composed.mean_of(x_hat, (-1,)) * -rstd, x_hat, rstd)
    dx = dweight = dbias = None
    if needs_dbias:
        dbias = sum_rows(dy, x.dtype)
    if needs_dweight:
        dweight = sum_products(dy, x_hat, x.dtype)
    if needs_dx:
        g = dy if weight is None else dy * weight.to(dy.dtype)
        mean_g, mean_gx_hat = (composed.mean_of(each, (-1,)) for each in (g, g * x_hat))
        dx = (g - (mean_g + x_hat * mean_gx_hat)) * rstd
    return dx, dweight, dbias


def gradients_to_any_order(
    dy: Tensor, x: Tensor, weight: Tensor | None, eps: float, needs: Needs
) -> Gradients:
    """Return what `gradients` returns, computed from ``x`` alone, to be differentiated again.

    A saved rstd would be a constant to autograd, so the next order would silently lack its part.
    """
    statistics = composed.normalize(widened(x), (-1,), eps)
    return gradients(dy, x, weight, statistics.mean, 1 / statistics.denominator, needs)


def sum_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum over the rows of ``(B, H)``, to be rounded to ``dtype``."""
    mode = mode_of(rows)
    if rows.shape[1] == 1 and mode == "eager":  # PyTorch divides a single sum among threads
        return sum_rows(rows.expand(-1, 2), dtype)[:1]
    if rows.dtype != dtype or len(rows) < 2 or mode not in ORDINARY:
        return rows.sum(0)
    # There is no wider type. So add up the leading bits of all values, few enough that no sum is
    # rounded, and then the rest (Rump, Ogita, Oishi 2008, ExtractVector).
    scale = 4 * len(rows) * rows.detach().abs().amax(0)
    leading = (rows + scale) - scale
    total = leading.sum(0) + (rows - leading).sum(0)
    return torch.where(total.isfinite(), total, rows.sum(0))


def sum_products(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum over the rows of ``a * b``, to be rounded to ``dtype``."""
    products = a * b
    total = sum_rows(products, dtype)
    if b.dtype != dtype or mode_of(a) not in ORDINARY:
        return total
    # What rounding lost of each product if the processor fuses, and 0 if it does not.
    lost = torch.addcmul(-products, a, b).sum(0)
    return torch.where(lost.isfinite(), total + lost, total)
