"""Data, offline: 10,000 handwritten digits and a novel that come with the book, or idx files."""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lnlib.book.home import HOME

__all__ = ["Digits", "mnist", "novel", "read_idx"]

FOLDER = HOME / "notebooks" / "data"
FILE = "mnist10k.npz"
SHA256 = "97222dda8337ce08d545efd693654209fe171f492111323742fa2d0c127bfa0d"
NOVEL = "persuasion.txt"
NOVEL_SHA256 = "8061549557aebd2fd6e353d18d9197cb707029112bd52d4d8b174583a925848a"
TRAIN = 8_000  # the first 8,000 in file order; the other 2,000 are for testing

_IDX_UINT8 = 0x08


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
        images, labels = _images(arrays["images"]), _labels(arrays["labels"])
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


def read_idx(folder: str | PathLike[str]) -> Digits:
    """Read full MNIST, or Fashion-MNIST, from the four idx files that it is published as.

    Args:
        folder: holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``,
            ``t10k-images-idx3-ubyte`` and ``t10k-labels-idx1-ubyte``, each as it is or as ``.gz``.

    Raises:
        FileNotFoundError: one of the four is missing.
        ValueError: a file is damaged, not 28 x 28, or does not fit the others.
    """
    paths = []
    for part in ("train", "t10k"):
        for name in (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"):
            choices = [Path(folder) / name, Path(folder) / f"{name}.gz"]
            paths.append(next((path for path in choices if path.is_file()), choices[0]))
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} lacks {', '.join(missing)} (each may also be .gz)")
    tensors = []
    for images_path, labels_path in (paths[:2], paths[2:]):
        images, labels = _parse_idx(images_path, ndim=3), _parse_idx(labels_path, ndim=1)
        if images.shape[1:] != (28, 28) or not len(images):
            raise ValueError(
                f"{images_path} holds images of shape {images.shape}, expected (N, 28, 28)"
            )
        if len(images) != len(labels):
            raise ValueError(
                f"{images_path} has {len(images)} images, {labels_path} {len(labels)} labels: "
                "they are not from one data set"
            )
        if labels.max() > 9:
            raise ValueError(f"{labels_path} holds the label {labels.max()}, expected 0 to 9")
        tensors += [_images(images), _labels(labels)]
    return Digits(*tensors)


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


def _parse_idx(path: Path, ndim: int) -> npt.NDArray[Any]:
    """Read one idx file: 0, 0, type, ndim; ndim sizes as big-endian uint32; the bytes."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} does not unpack ({error}): get it again") from error
    magic = bytes([0, 0, _IDX_UINT8, ndim])
    if content[:4] != magic:
        raise ValueError(
            f"{path} begins with {content[:4].hex(' ') or 'nothing'}, expected {magic.hex(' ')}: "
            f"it is no idx file of bytes with {ndim} dimension{'s' * (ndim > 1)}"
        )
    start = 4 + 4 * ndim
    if len(content) < start:
        raise ValueError(f"{path} ends inside its header, after {len(content)} bytes: get it again")
    shape = [int(n) for n in np.frombuffer(content, ">u4", count=ndim, offset=4)]
    expected, found = math.prod(shape), len(content) - start
    if found != expected:
        raise ValueError(
            f"{path} has {found} bytes of data, its header {shape} promises {expected}: "
            "get it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _images(pixels: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(pixels.astype(np.float32)) / 255


def _labels(labels: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(labels.astype(np.int64))
