"""The digits are real, offline and whole: a damaged or foreign file is refused, never half read."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from lnlib.book import data

FOLDER = Path(__file__).parents[2] / "notebooks" / "data"
needs_file = pytest.mark.skipif(
    not (FOLDER / data.FILE).is_file(), reason="mnist10k.npz comes with the checkout only"
)


@pytest.fixture
def damaged(tmp_path):
    """Return a function that writes a changed copy of the file and gives its folder."""

    def write(change):
        (tmp_path / data.FILE).write_bytes(change((FOLDER / data.FILE).read_bytes()))
        return tmp_path

    return write


@needs_file
def test_the_book_has_8000_digits_to_train_on_and_2000_to_test_on():
    digits = data.mnist()
    assert digits.train_images.shape == (8000, 28, 28)
    assert digits.test_images.shape == (2000, 28, 28)
    assert digits.train_labels.shape == (8000,)
    assert digits.test_labels.shape == (2000,)
    for images in digits.train_images, digits.test_images:
        assert images.dtype == torch.float32
        assert images.min() == 0.0
        assert images.max() == 1.0
    for labels in digits.train_labels, digits.test_labels:
        assert labels.dtype == torch.int64
        assert labels.unique().tolist() == list(range(10))


@needs_file
def test_the_readme_beside_the_file_states_its_facts():
    digits = data.mnist()
    images = torch.cat([digits.train_images, digits.test_images])
    labels = torch.cat([digits.train_labels, digits.test_labels])
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    counts = [str(n) for n in torch.bincount(labels).tolist()]
    (row,) = [line for line in readme.splitlines() if line.startswith("| images |")]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == counts
    assert f"mean pixel is {images.mean().item():.4f}" in readme
    assert len(np.unique(images.numpy().reshape(len(images), -1), axis=0)) == len(images)
    assert data.SHA256 in readme
    assert "CC BY-SA 3.0" in readme


@needs_file
def test_the_split_is_the_order_of_the_file():
    digits = data.mnist()
    with np.load(FOLDER / data.FILE, allow_pickle=False) as file:
        labels, images = file["labels"], file["images"]
    assert digits.train_labels.tolist() == labels[:8000].tolist()
    assert digits.test_labels.tolist() == labels[8000:].tolist()
    assert (digits.train_images[7999] * 255).round().tolist() == images[7999].tolist()
    assert (digits.test_images[0] * 255).round().tolist() == images[8000].tolist()


@needs_file
def test_it_is_found_wherever_python_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert len(data.mnist().train_labels) == 8000


@needs_file
def test_a_file_of_that_name_beside_the_notebook_is_not_taken_for_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / data.FILE).write_bytes(b"another set of digits")
    assert len(data.mnist().train_labels) == 8000


def test_when_it_is_missing_the_error_names_the_folder_and_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"git checkout.*install lnlib again") as error:
        data.mnist()
    assert str(tmp_path) in str(error.value)


def test_a_named_folder_is_the_only_one_searched(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no mnist10k\.npz in") as error:
        data.mnist(tmp_path)
    assert str(tmp_path) in str(error.value)


@needs_file
@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content + b"\0",
        lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
        lambda content: b"version https://git-lfs.github.com/spec/v1\n",
    ],
    ids=["a byte short", "half", "empty", "a byte more", "a bit flipped", "an LFS pointer"],
)
def test_a_damaged_file_is_refused_with_both_checksums(change, damaged):
    with pytest.raises(ValueError, match=r"damaged.*expected.*git checkout") as error:
        data.mnist(damaged(change))
    assert data.SHA256 in str(error.value)


@needs_file
def test_an_undamaged_copy_is_accepted(damaged):
    assert len(data.mnist(damaged(lambda content: content)).test_labels) == 2000


@needs_file
def test_digits_cannot_be_reassigned_and_print_short():
    digits = data.mnist()
    assert repr(digits) == "Digits(8000 to train on, 2000 to test on)"
    with pytest.raises(AttributeError):
        digits.train_labels = digits.test_labels


# The four idx files of full MNIST and Fashion-MNIST.

IMAGES = np.arange(3 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
LABELS = np.array([9, 0, 4], np.uint8)


def idx(array):
    return (
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + bytes(array)
    )


@pytest.fixture
def folder(tmp_path):
    for name, content in {
        "train-images-idx3-ubyte": idx(IMAGES),
        "train-labels-idx1-ubyte": idx(LABELS),
        "t10k-images-idx3-ubyte": idx(IMAGES[:2]),
        "t10k-labels-idx1-ubyte": idx(LABELS[1:]),
    }.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def pack(folder):
    for path in list(folder.iterdir()):
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_as_they_are_or_gzipped(folder, packed):
    if packed:
        pack(folder)
    digits = data.read_idx(folder)
    assert torch.equal(digits.train_images, torch.from_numpy(IMAGES).float() / 255)
    assert digits.train_labels.tolist() == [9, 0, 4]
    assert digits.test_images.shape == (2, 28, 28)
    assert digits.test_labels.tolist() == [0, 4]
    assert digits.train_images.dtype == torch.float32
    assert digits.train_labels.dtype == torch.int64


def test_every_missing_idx_file_is_named(folder):
    (folder / "t10k-labels-idx1-ubyte").unlink()
    (folder / "train-images-idx3-ubyte").unlink()
    with pytest.raises(FileNotFoundError) as error:
        data.read_idx(folder)
    assert "t10k-labels-idx1-ubyte" in str(error.value)
    assert "train-images-idx3-ubyte" in str(error.value)
    assert "train-labels" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("train-images-idx3-ubyte", idx(IMAGES)[:-1], "2351 bytes of data.*promises 2352"),
        ("train-images-idx3-ubyte", idx(IMAGES) + b"\0", "2353 bytes of data.*promises 2352"),
        ("train-images-idx3-ubyte", idx(IMAGES)[:10], "inside its header, after 10 bytes"),
        ("train-images-idx3-ubyte", b"", "begins with nothing"),
        ("train-images-idx3-ubyte", idx(LABELS), "begins with 00 00 08 01, expected 00 00 08 03"),
        ("t10k-labels-idx1-ubyte", idx(IMAGES), "begins with 00 00 08 03, expected 00 00 08 01"),
        ("train-images-idx3-ubyte", b"\0\0\x0d\3" + idx(IMAGES)[4:], "begins with 00 00 0d 03"),
        ("train-images-idx3-ubyte", gzip.compress(idx(IMAGES)), "begins with 1f 8b"),
        ("train-images-idx3-ubyte", idx(IMAGES[:, 1:]), r"\(3, 27, 28\), expected \(N, 28, 28\)"),
        ("train-images-idx3-ubyte", idx(IMAGES[:0]), r"\(0, 28, 28\)"),
        ("train-labels-idx1-ubyte", idx(LABELS[:2]), "3 images.*2 labels"),
        ("train-labels-idx1-ubyte", idx(LABELS + 1), "label 10, expected 0 to 9"),
    ],
)
def test_a_damaged_or_foreign_idx_file_is_refused(folder, name, content, says):
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=says) as error:
        data.read_idx(folder)
    assert name in str(error.value)


def test_sizes_too_large_for_the_file_are_refused_before_anything_is_allocated(folder):
    huge = b"\0\0\x08\3" + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)
    (folder / "train-images-idx3-ubyte").write_bytes(huge)
    with pytest.raises(ValueError, match=f"promises {(2**32 - 1) ** 3}"):
        data.read_idx(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda packed: packed[:-6],
        lambda packed: b"no gzip",
        lambda packed: packed[:10] + b"\xff" + packed[11:],
    ],
    ids=["truncated", "foreign", "garbled"],
)
def test_a_damaged_gzip_is_refused(folder, change):
    pack(folder)
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match="does not unpack"):
        data.read_idx(folder)


# The novel


def test_the_novel_is_read_as_it_was_published_here():
    text = data.novel()
    assert len(text) == 466_854
    assert text.startswith("Persuasion\n")
    assert len(set(text)) == 75


def test_a_novel_with_other_line_ends_is_refused(tmp_path):
    text = data.novel()
    (tmp_path / data.NOVEL).write_bytes(text.replace("\n", "\r\n").encode())
    with pytest.raises(ValueError, match=r"git checkout -- notebooks/data/persuasion\.txt"):
        data.novel(tmp_path)


def test_without_the_novel_the_error_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no persuasion\.txt in"):
        data.novel(tmp_path)
