"""Digits as sequences: an image is read row by row, or pixel by pixel, from the top."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import torch
import torch.nn.functional as F
from torch import Tensor

from lnlib.book.data import Digits, mnist

__all__ = [
    "LAYOUTS",
    "SCALINGS",
    "Sequences",
    "blank_rows",
    "scaled",
    "sequences",
    "sequential_mnist",
    "stratified",
]

LAYOUTS = ("rows", "coarse", "pixels")
SCALINGS = ("standardized", "raw", "bytes")

MEAN, STD = 0.1307, 0.3081  # of MNIST's 60,000 training images, in units of full ink
TEST_EVERY = 5


@dataclass(frozen=True, eq=False, repr=False)
class Sequences:
    """Sequences float32 (N, T, F) with their labels int64 (N,), to train on and to test on."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


def sequential_mnist(
    layout: str = "rows",
    scaling: str = "standardized",
    root: str | PathLike[str] | None = None,
) -> Sequences:
    """Read the book's 10,000 digits as sequences: 8,000 to train on, 2,000 to test on.

    Args:
        layout: "rows", 28 steps of 28; "pixels", 784 steps of 1; "coarse", 196 steps of 1, each
            the mean of four pixels.
        scaling: "standardized", "raw" or "bytes"; see `scaled`.
        root: the folder of the digits, as in `lnlib.book.data.mnist`, which says what else is
            raised.

    Raises:
        ValueError: if there is no such layout or scaling.
    """
    _check("layout", layout, LAYOUTS)
    _check("scaling", scaling, SCALINGS)
    digits = stratified(mnist(root))
    parts = (digits.train_images, digits.test_images)
    train, test = (sequences(scaled(images, scaling), layout) for images in parts)
    return Sequences(train, digits.train_labels, test, digits.test_labels)


def stratified(digits: Digits) -> Digits:
    """Split anew: every fifth image of each digit tests, so each has the same share in both parts.

    The split is fixed, and takes the images in the order of the file.
    """
    images = torch.cat([digits.train_images, digits.test_images])
    labels = torch.cat([digits.train_labels, digits.test_labels])
    by_digit = labels.argsort(stable=True)
    tests = torch.zeros(len(labels), dtype=torch.bool)
    tests[by_digit[::TEST_EVERY]] = True
    return Digits(images[~tests], labels[~tests], images[tests], labels[tests])


def scaled(images: Tensor, scaling: str) -> Tensor:
    """Return images of ink from 0 to 1 in the units that a network is to see.

    "standardized": mean 0 and standard deviation 1 over all of MNIST, paper is -0.42; "raw": as
    they are, paper is 0; "bytes": from 0 to 255.

    Raises:
        ValueError: if there is no such scaling.
    """
    _check("scaling", scaling, SCALINGS)
    if scaling == "standardized":
        return (images - MEAN) / STD
    return images if scaling == "raw" else 255 * images


def sequences(images: Tensor, layout: str) -> Tensor:
    """Return images (N, 28, 28) as sequences (N, T, F), read from the top; see `sequential_mnist`.

    Raises:
        ValueError: if there is no such layout.
    """
    _check("layout", layout, LAYOUTS)
    if layout == "rows":
        return images
    if layout == "coarse":
        images = F.avg_pool2d(images.unsqueeze(1), 2).squeeze(1)
    return images.flatten(1).unsqueeze(2)


def blank_rows(count: int, rows: int, scaling: str) -> Tensor:
    """Return rows of bare paper, (count, rows, 28), in the units of ``scaling``.

    Raises:
        ValueError: if there is no such scaling.
    """
    return scaled(torch.zeros(count, rows, 28), scaling)


def _check(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{what} is {given!r}, expected one of {', '.join(known)}")
