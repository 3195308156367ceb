"""The digits and the novel are real, offline and whole: a damaged or foreign file is refused."""

import numpy as np
import pytest
import torch

from lnlib.book import data

README = (data.FOLDER / "README.md").read_text(encoding="utf8")


def test_the_first_8000_digits_of_the_file_train_and_the_other_2000_test(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / data.FILE).write_bytes(b"what lies beside a notebook is not taken for it")
    digits = data.mnist()
    assert repr(digits) == "Digits(8000 to train on, 2000 to test on)"
    with np.load(data.FOLDER / data.FILE, allow_pickle=False) as file:
        for part, rows in (("train", slice(0, 8000)), ("test", slice(8000, None))):
            images, labels = (getattr(digits, f"{part}_{name}") for name in ("images", "labels"))
            assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
            assert ((255 * images).round().numpy() == file["images"][rows]).all()
            assert (images.min(), images.max()) == (0, 1)
            assert labels.tolist() == file["labels"][rows].tolist()
    with pytest.raises(AttributeError):
        digits.train_labels = digits.test_labels


def test_the_readme_beside_the_files_states_their_facts():
    digits = data.mnist()
    images = torch.cat([digits.train_images, digits.test_images])
    counts = torch.cat([digits.train_labels, digits.test_labels]).bincount().tolist()
    (row,) = [line for line in README.splitlines() if line.startswith("| images |")]
    assert [int(cell) for cell in row.split("|")[2:-1]] == counts
    assert f"mean pixel is {images.mean().item():.4f}" in README
    assert len(np.unique(images.flatten(1).numpy(), axis=0)) == len(images)
    novel = data.novel()
    assert novel.startswith("Persuasion\n")
    assert f"{len(novel):,} characters of ASCII, {len(set(novel))} different ones" in README
    for fact in (data.SHA256, data.NOVEL_SHA256, "CC BY-SA 3.0"):
        assert fact in README


READERS = {data.FILE: (data.mnist, data.SHA256), data.NOVEL: (data.novel, data.NOVEL_SHA256)}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_missing_or_another_is_refused_and_what_to_do_is_said(name, tmp_path):
    read, checksum = READERS[name]
    with pytest.raises(FileNotFoundError, match=r"git checkout.*install lnlib again") as error:
        read(tmp_path)
    assert f"no {name} in {tmp_path}" in str(error.value)
    content = (data.FOLDER / name).read_bytes()
    flipped = content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]
    for damaged in (content[:-1], b"", content + b"\0", flipped, content.replace(b"\n", b"\r\n")):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged.*expected.*git checkout") as error:
            read(tmp_path)
        assert checksum in str(error.value)
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path)
