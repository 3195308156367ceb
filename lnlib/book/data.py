"""Data, offline: 10,000 handwritten digits and a novel that come with the book."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lnlib.book.home import HOME

__all__ = ["Digits", "mnist", "novel"]

FOLDER = HOME / "notebooks" / "data"
FILE = "mnist10k.npz"
SHA256 = "97222dda8337ce08d545efd693654209fe171f492111323742fa2d0c127bfa0d"
NOVEL = "persuasion.txt"
NOVEL_SHA256 = "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a"
TRAIN = 8_000  # the first 8,000 in file order; the other 2,000 are for testing


@dataclass(frozen=True, eq=False, repr=False)
class Digits:
    """Images with their labels, split into a part to train on and a part to test on.

    Images are float32 (N, 28, 28) from 0 (paper) to 1 (ink); labels are int64 (N,) from 0 to 9.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    def __repr__(self) -> str:
        return f"Digits({len(self.train_labels)} to train on, {len(self.test_labels)} to test on)"


def mnist(root: str | PathLike[str] | None = None) -> Digits:
    """Read the 10,000 digits of the book: the first 8,000 train, the last 2,000 test.

    All of them are from MNIST's training images, so an accuracy on the 2,000 is not comparable
    with published results on MNIST's own test set.

    Args:
        root: the folder that holds ``mnist10k.npz``. By default the one that comes with lnlib:
            ``notebooks/data`` in a checkout, or the wheel's copy of it.

    Raises:
        FileNotFoundError: the file is not there.
        ValueError: the file is damaged or another one.
    """
    content = _verified(FILE, SHA256, root)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        images = torch.from_numpy(arrays["images"].astype(np.float32)) / 255
        labels = torch.from_numpy(arrays["labels"].astype(np.int64))
    return Digits(images[:TRAIN], labels[:TRAIN], images[TRAIN:], labels[TRAIN:])


def novel(root: str | PathLike[str] | None = None) -> str:
    """Read *Persuasion* by Jane Austen (1818): 466,854 characters, 75 different ones.

    Args:
        root: the folder that holds ``persuasion.txt``; by default as in `mnist`.

    Raises:
        FileNotFoundError: the file is not there.
        ValueError: the file is damaged or another one.
    """
    return _verified(NOVEL, NOVEL_SHA256, root).decode("ascii")


def _verified(name: str, sha256: str, root: str | PathLike[str] | None) -> bytes:
    """Return the content of a file that comes with the book."""
    path = (FOLDER if root is None else Path(root)) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"no {name} in {path.parent}. It comes with the book: in a checkout, restore it with "
            f"git checkout -- notebooks/data/{name}; elsewhere, install lnlib again"
        )
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"{path} is damaged or another file: its {len(content)} bytes have sha256 {found}, "
            f"expected {sha256}. Restore it with: git checkout -- notebooks/data/{name}"
        )
    return content
