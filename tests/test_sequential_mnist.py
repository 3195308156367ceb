"""A digit becomes a sequence without losing a pixel, and both parts hold the same share of each."""

import pytest
import torch

from lnlib.book import data
from lnlib.book.experiments.sequential_mnist import (
    SCALINGS,
    blank_rows,
    scaled,
    sequences,
    sequential_mnist,
    stratified,
)

PIXELS = torch.arange(2 * 28 * 28).reshape(2, 28, 28) / 2000  # no two alike


@pytest.fixture(scope="module")
def digits():
    return data.mnist()


def test_each_digit_has_a_fifth_of_its_images_to_test_on(digits):
    split = stratified(digits)
    tests, trains = split.test_labels.bincount(), split.train_labels.bincount()
    assert (tests.sum(), trains.sum()) == (2000, 8000)
    assert ((tests - (tests + trains) / 5).abs() < 1).all()


def test_no_image_is_lost_or_in_both_parts(digits):
    before, after = fingerprints(digits), fingerprints(stratified(digits))
    assert before.unique().numel() == 10_000
    assert torch.equal(before, after)


def fingerprints(digits):
    """Return a number for each image with its label, smallest first; no two have the same."""
    images = torch.cat([digits.train_images, digits.test_images]).flatten(1).double()
    labels = torch.cat([digits.train_labels, digits.test_labels])
    weights = torch.rand(784, generator=torch.Generator().manual_seed(0)).double()
    # Rounded, as the order of a sum of products may depend on where in the batch the row is.
    return (images @ weights + 1000 * labels).mul(1e6).round().sort().values


def test_the_split_is_the_same_every_time():
    first, second = sequential_mnist(), sequential_mnist()
    assert torch.equal(first.test, second.test)
    assert torch.equal(first.train_labels, second.train_labels)


def test_rows_are_read_from_the_top():
    assert torch.equal(sequences(PIXELS, "rows"), PIXELS)


def test_pixels_are_read_along_each_row():
    steps = sequences(PIXELS, "pixels")
    assert steps.shape == (2, 784, 1)
    assert steps[1, 28 * 3 + 5, 0] == PIXELS[1, 3, 5]


def test_a_coarse_pixel_is_the_mean_of_four():
    steps = sequences(PIXELS, "coarse")
    assert steps.shape == (2, 196, 1)
    torch.testing.assert_close(steps[1, 14 * 3 + 5, 0], PIXELS[1, 6:8, 10:12].mean())


def test_standardized_digits_have_mean_0_and_deviation_1():
    sequence = sequential_mnist()
    assert sequence.train.shape == (8000, 28, 28)
    # 0.01: the constants are those of all 60,000 digits of MNIST, not of these 8,000.
    assert abs(sequence.train.mean().item()) < 0.01
    assert abs(sequence.train.std().item() - 1) < 0.01


@pytest.mark.parametrize(("scaling", "largest"), [("raw", 1.0), ("bytes", 255.0)])
def test_other_scalings_begin_at_0(scaling, largest):
    images = scaled(torch.tensor([0.0, 0.25, 1.0]), scaling)
    assert images.tolist() == [0.0, largest / 4, largest]


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_blank_row_is_what_paper_is_in_these_units(scaling, digits):
    above = scaled(digits.train_images, scaling)[0, :1]  # every image begins with a blank row
    assert torch.equal(blank_rows(1, 3, scaling), above.expand(1, 3, 28))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "columns"}, "layout is 'columns', expected one of rows, coarse, pixels"),
        ({"scaling": "zscore"}, "scaling is 'zscore', expected one of standardized, raw, bytes"),
    ],
)
def test_an_unknown_name_is_refused_before_any_file_is_read(options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        sequential_mnist(**options, root=tmp_path)
