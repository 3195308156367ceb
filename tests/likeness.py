"""Do two pictures show the same?

Last digits differ between processors, and with them a few points of a picture.
What it shows does not.
"""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

__all__ = ["APART", "PNG", "Picture", "apart"]

PNG = "iVBORw0KGgo"  # how every picture begins, in base64
APART = 12  # of 255


class Picture(str):
    """A PNG in base64 that equals another if both show the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and apart(self, other) < APART

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def apart(one: str, other: str) -> float:
    """Return how far two pictures in base64 are apart, of 255.

    They are compared in gray, at a tenth of their size, and each point with those around it in the
    other: a dot that is a hair further does not show, a curve that has moved does.
    """
    a, b = seen(one), seen(other)
    return float(max(beyond(a, b).max(), beyond(b, a).max()))


def seen(png: str) -> npt.NDArray[np.float64]:
    """Return a tenth of the picture, in gray."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as picture:
        small = picture.convert("L").resize((70, 40), Image.Resampling.BOX)
    return np.asarray(small, float)


def beyond(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return by how much each point of ``a`` lies beyond those of ``b`` around it."""
    around = sliding_window_view(np.pad(b, 1, mode="edge"), (3, 3)).reshape(*b.shape, 9)
    return np.maximum(np.maximum(around.min(-1) - a, a - around.max(-1)), 0)
