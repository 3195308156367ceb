"""An explorer in Python: its traits, its state in words, and the still that stands in for it."""

from __future__ import annotations

import base64
import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import stills
import torch
import traitlets
from goldens import states
from likeness import APART, apart, opened
from stills import KINDS

from lnlib.book import explorers
from lnlib.book.explorers import EpsilonExplorer, TraitValueError
from lnlib.book.explorers.base import Choice, Number, Numbers

family = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind._files)


@family
def test_a_picture_and_a_sentence_of_its_page_stand_in_for_it(kind: Any, browser: Any) -> None:
    explorer, page = kind(ask=False), stills.taken(browser, kind)
    data, _ = explorer._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert data["text/plain"] == explorer.sentence() == page.sentence
    png = data["image/png"]
    assert apart(png, base64.b64encode(page.png).decode()) < APART  # other machines, other letters
    assert len(base64.b64decode(png, validate=True)) < 16_000
    with opened(png) as picture:
        assert picture.width == 640
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


@family
def test_another_state_stands_in_words_and_is_sent_to_the_page(kind: Any) -> None:
    explorer = kind()
    assert explorer.state()
    for name, before in explorer.state().items():
        seen: list[Any] = []
        explorer.observe(seen.append, name)
        after = next(state[name] for state in states(kind) if state[name] != before)
        setattr(explorer, name, after)
        assert [(change.old, change.new) for change in seen] == [(before, after)]
        assert explorer.get_state()[name] == explorer.page_state()[name] == after
    data, _ = explorer._repr_mimebundle_()
    assert "image/png" not in data
    assert data["text/plain"] == repr(explorer) == str(explorer)
    assert eval(repr(explorer), {kind.__name__: kind}).state() == explorer.state()


def test_what_the_page_said_of_another_state_is_not_said_of_this_one() -> None:
    explorer = EpsilonExplorer(eps=1e-3)
    explorer.set_trait("_told", {"state": {"eps": 1e-3, "spread": 3e-5}, "sentence": "So it is."})
    assert repr(explorer) == "EpsilonExplorer(eps=0.001, spread=3e-05)\nSo it is."
    explorer.eps = 1e-2
    assert explorer.sentence() == ""


@family
@pytest.mark.parametrize("value", [None, "1e-5", True, math.nan, math.inf, 1j, [], {"a": 1}])
def test_a_refused_value_changes_nothing_and_says_what_to_do(kind: Any, value: object) -> None:
    explorer = kind()
    before = explorer.state()
    heard: list[Any] = []
    explorer.observe(heard.append)
    for name in before:
        said = rf"^{name} must be .*, got {re.escape(repr(value))}; .* Try {name} = "
        for how in (partial(setattr, explorer, name, value), partial(kind, **{name: value})):
            with pytest.raises(TraitValueError, match=said):
                how()
    assert explorer.state() == before
    assert heard == []


def test_a_name_that_is_none_is_refused_and_says_which_was_meant() -> None:
    assert not hasattr(explorers, "SigmaExplorer")
    explorer = EpsilonExplorer()
    for name, meant in (("sigma", "spread"), ("epsilon", "eps"), ("ε", "eps"), ("epss", "eps")):
        with pytest.raises(AttributeError, match=f"no {name!r}, .* Did you mean {meant}?"):
            setattr(explorer, name, 1)
        with pytest.raises(TypeError, match=f"Did you mean {meant}?"):
            EpsilonExplorer(**{name: 1})
    with pytest.raises(AttributeError, match=r"no 'nothing', but eps, spread\.$"):
        explorer.nothing = 1


class Example(traitlets.HasTraits):
    size = Number(2.0, low=1, high=3, unit="units of x", zero=True)
    row = Numbers((1, 2, 3), low=-9, high=9, unit="units of x")
    axis = Choice("batch", "layer")
    which = Choice(0, 1)


KEPT: list[tuple[str, Any, Any]] = [
    *[("size", v, float(v)) for v in (1, 3, 0, -0.0, np.float32(1.5))],
    *[("row", v, (0.0, 9.0, -9.0)) for v in ([0, 9, -9], (-0.0, 9, -9))],
    *[("row", v, (0.5, 1.0, 2.0)) for v in (np.array([0.5, 1, 2]), torch.tensor([0.5, 1, 2]))],
    *[("axis", "layer", "layer"), ("which", 1, 1)],
]
ROWS = [(1, 2), (1, 2, 3, 4), (1, 2, 9.5), (1, 2, math.nan), (1, 2, True), torch.zeros(1, 3)]
REFUSED: list[tuple[str, Any, str]] = [
    *[("size", v, "a number from 1 to 3, or 0 (units of x)") for v in (0.5, -1)],
    *[("row", v, "3 numbers from -9 to 9 (units of x)") for v in ROWS],
    *[("axis", "row", "one of ('batch', 'layer')")],
    *[("which", v, "one of (0, 1)") for v in (1.0, True)],
]


@pytest.mark.parametrize(("trait", "given", "kept"), KEPT)
def test_a_value_is_kept_in_plain_numbers(trait: str, given: Any, kept: Any) -> None:
    value = getattr(Example(**{trait: given}), trait)
    assert repr(value) == repr(kept).replace("-0.0", "0.0")


@pytest.mark.parametrize(("trait", "given", "expected"), REFUSED)
def test_a_value_out_of_range_is_refused(trait: str, given: Any, expected: str) -> None:
    said = re.escape(f"{trait} must be {expected}, got ")
    with pytest.raises(TraitValueError, match=said) as caught:
        Example(**{trait: given})
    assert isinstance(caught.value, traitlets.TraitError)
    assert isinstance(caught.value, ValueError)
