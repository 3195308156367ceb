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

    Plain PyTorch, and so differentiable. ``mean`` may be a constant even then: it is where the
    centering starts from, and where it ends does not depend on it. ``rstd`` may not.
    """
    needs_dx, needs_dweight, needs_dbias = needs
    dy = widened(dy)
    x_hat = widened(x) - mean
    # Minus what rounding the mean left, times rstd: one rounding where the processor can fuse.
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
    """Return what `gradients` returns, as a function of ``x`` alone, to be differentiated again.

    To autograd a saved rstd would be a constant, and its part missing from the next order, with
    nothing to say so.
    """
    statistics = composed.normalize(widened(x), (-1,), eps)
    return gradients(dy, x, weight, statistics.mean, 1 / statistics.denominator, needs)


def sum_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum over the rows of ``(B, H)``, which will be rounded to ``dtype``."""
    mode = mode_of(rows)
    if rows.shape[1] == 1 and mode == "eager":  # a single sum PyTorch divides among threads
        return sum_rows(rows.expand(-1, 2), dtype)[:1]
    if rows.dtype != dtype or len(rows) < 2 or mode not in ORDINARY:
        return rows.sum(0)
    # There are no digits to spare. Of every value add the leading bits, so few that their sum needs
    # no rounding, and apart from them the rest (Rump, Ogita, Oishi 2008, ExtractVector).
    scale = 4 * len(rows) * rows.detach().abs().amax(0)
    leading = (rows + scale) - scale
    total = leading.sum(0) + (rows - leading).sum(0)
    return torch.where(total.isfinite(), total, rows.sum(0))


def sum_products(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the sum over the rows of ``a * b``, which will be rounded to ``dtype``."""
    products = a * b
    total = sum_rows(products, dtype)
    if b.dtype != dtype or mode_of(a) not in ORDINARY:
        return total
    # What rounding lost of each product, where the processor can fuse; else 0.
    lost = torch.addcmul(-products, a, b).sum(0)
    return torch.where(lost.isfinite(), total + lost, total)
