"""An explorer in Python: its traits, its state in words, and the still that stands in for it."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import tomllib
from typing import Any

import numpy as np
import pytest
import stills
import torch
import traitlets
from likeness import APART, apart
from PIL import Image
from stills import KINDS, MOUNT

from lnlib.book.explorers import EpsilonExplorer, TraitValueError
from lnlib.book.explorers.base import HERE, Choice, Number, Numbers, join_modules
from lnlib.book.home import ROOT

family = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind._files)


# --- what stands in for the widget ---------------------------------------------------------------


@family
def test_as_it_starts_it_has_a_small_picture_on_white_and_a_sentence(kind: Any) -> None:
    explorer = kind(ask=False)
    data, _ = explorer._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert data["text/plain"] == explorer.sentence() == explorer.still().sentence
    png = base64.b64decode(data["image/png"], validate=True)
    assert len(png) < 16_000
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width == 640
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


@family
def test_the_still_is_what_the_page_shows(kind: Any, browser: Any) -> None:
    still, now = kind().still(), stills.taken(browser, kind)
    assert now.sentence == still.sentence
    pictures = (base64.b64encode(one.png).decode() for one in (still, now))
    assert apart(*pictures) < APART  # from afar: another machine has other letters


@family
def test_another_state_stands_in_words_and_is_sent_to_the_page(kind: Any) -> None:
    explorer = kind()
    assert explorer.state()
    for name, before in explorer.state().items():
        seen: list[Any] = []
        explorer.observe(seen.append, name)
        setattr(explorer, name, another(kind.class_traits()[name]))
        after = getattr(explorer, name)
        assert [(change.old, change.new) for change in seen] == [(before, after)]
        assert explorer.get_state()[name] == explorer.page_state()[name] == after
    data, _ = explorer._repr_mimebundle_()
    assert "image/png" not in data
    assert data["text/plain"] == repr(explorer) == str(explorer)
    assert eval(repr(explorer), {kind.__name__: kind}).state() == explorer.state()


def another(trait: Any) -> Any:
    """A value that is not the default."""
    if isinstance(trait, Choice):
        return trait.options[-1]
    if isinstance(trait, Numbers):
        first, *rest = trait.default_value
        return (trait.each.high if first != trait.each.high else trait.each.low, *rest)
    return trait.high if trait.default_value != trait.high else trait.low


def test_what_the_page_said_of_another_state_is_not_said_of_this_one() -> None:
    explorer = EpsilonExplorer(eps=1e-3)
    explorer.set_trait("_told", {"state": {"eps": 1e-3, "spread": 3e-5}, "sentence": "So it is."})
    assert explorer.sentence() == "So it is."
    assert repr(explorer) == "EpsilonExplorer(eps=0.001, spread=3e-05)\nSo it is."
    explorer.eps = 1e-2
    assert explorer.sentence() == ""


# --- traits --------------------------------------------------------------------------------------


@family
@pytest.mark.parametrize("value", [None, "1e-5", True, math.nan, math.inf, 1j, [], {"a": 1}])
def test_a_refused_value_changes_nothing_and_says_what_to_do(kind: Any, value: object) -> None:
    explorer = kind()
    before = explorer.state()
    heard: list[Any] = []
    explorer.observe(heard.append)
    for name in before:
        for how in (lambda: setattr(explorer, name, value), lambda: kind(**{name: value})):  # noqa: B023
            with pytest.raises(TraitValueError, match=re.escape(f"got {value!r}")) as caught:
                how()
            assert isinstance(caught.value, traitlets.TraitError)
            assert isinstance(caught.value, ValueError)
            assert f"{name} must be " in str(caught.value)
            assert f"Try {name} = " in str(caught.value)
    assert explorer.state() == before
    assert heard == []


class Example(traitlets.HasTraits):
    size = Number(2.0, low=1, high=3, unit="units of x", zero=True)
    row = Numbers((1, 2, 3), low=-9, high=9, unit="units of x")
    axis = Choice("batch", "layer")
    which = Choice(0, 1)


@pytest.mark.parametrize(
    ("trait", "given", "kept"),
    [
        *[("size", v, float(v)) for v in (1, 3, 0, -0.0, np.float32(1.5))],
        *[("row", v, (0.0, 9.0, -9.0)) for v in ([0, 9, -9], (-0.0, 9, -9))],
        *[("row", v, (0.5, 1.0, 2.0)) for v in (np.array([0.5, 1, 2]), torch.tensor([0.5, 1, 2]))],
        *[("axis", "layer", "layer"), ("which", 1, 1)],
    ],
)
def test_a_value_is_kept_in_plain_numbers(trait: str, given: Any, kept: Any) -> None:
    example = Example(**{trait: given})
    value = getattr(example, trait)
    assert value == kept
    assert type(value) is type(kept)
    assert "-0.0" not in str(value)


@pytest.mark.parametrize(
    ("trait", "given", "expected"),
    [
        ("size", 0.5, "a number from 1 to 3, or 0 (units of x)"),
        ("size", -1, "a number from 1 to 3, or 0 (units of x)"),
        ("row", (1, 2), "3 numbers from -9 to 9 (units of x)"),
        ("row", (1, 2, 3, 4), "3 numbers from -9 to 9 (units of x)"),
        ("row", (1, 2, 9.5), "3 numbers from -9 to 9 (units of x)"),
        ("row", (1, 2, math.nan), "3 numbers from -9 to 9 (units of x)"),
        ("row", (1, 2, True), "3 numbers from -9 to 9 (units of x)"),
        ("row", torch.zeros(1, 3), "3 numbers from -9 to 9 (units of x)"),
        ("axis", "row", "one of ('batch', 'layer')"),
        ("which", 1.0, "one of (0, 1)"),
        ("which", True, "one of (0, 1)"),
    ],
)
def test_a_value_out_of_range_is_refused(trait: str, given: Any, expected: str) -> None:
    with pytest.raises(TraitValueError, match=re.escape(f"{trait} must be {expected}, got ")):
        Example(**{trait: given})


# --- files ---------------------------------------------------------------------------------------


@family
def test_its_files_are_joined_and_weigh_less_than_70_kb(kind: Any) -> None:
    esm, css = str(kind._esm), str(kind._css)
    assert not re.search(r"^\s*import\b", esm, re.MULTILINE)
    assert "</script" not in esm
    names = ("default", "function linePath", "function frame", "const defaults")
    assert [esm.count(f"export {name}") for name in names] == [1, 1, 1, 1]
    assert css.index(".ln-explorer {") < css.index(f".ln-{kind._files.replace('_', '-')} ")
    state = json.dumps(kind().page_state(), ensure_ascii=False)
    assert len(state.encode()) + MOUNT.stat().st_size < 70_000


def test_a_form_of_import_that_cannot_be_joined_is_refused(tmp_path: Any) -> None:
    (tmp_path / "a.mjs").write_text('import * as common from "./common.mjs";\n', encoding="utf8")
    with pytest.raises(ValueError, match=r"got import \* as common"):
        join_modules(tmp_path / "a.mjs")


def test_a_file_imported_twice_is_joined_once(tmp_path: Any) -> None:
    for name, text in {
        "a.mjs": 'import { b } from "./b.mjs";\nimport { c } from "./c.mjs";\nexport default b;\n',
        "b.mjs": 'import { c } from "./c.mjs";\nexport const b = c;\n',
        "c.mjs": "export const c = 1;\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf8")
    joined = join_modules(tmp_path / "a.mjs")
    assert joined == "export const c = 1;\nexport const b = c;\nexport default b;\n"


def test_comments_and_indentation_are_left_out(tmp_path: Any) -> None:
    source = """/**
 * What it is. **Bold**, a/b.
 */
// one
export const a = "/** kept */"; // as well
  // two
  /** three */
  export const url = "https://kept";
"""
    (tmp_path / "a.mjs").write_text(source, encoding="utf8")
    kept = 'export const a = "/** kept */";\nexport const url = "https://kept";\n'
    assert join_modules(tmp_path / "a.mjs") == kept


def test_every_file_an_explorer_reads_is_in_the_wheel() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))
    patterns = config["tool"]["setuptools"]["package-data"]["lnlib.book.explorers"]
    in_wheel = {path for pattern in patterns for path in HERE.glob(pattern)}
    files = (path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert {path for path in files if path.suffix != ".py"} == in_wheel


# --- colors --------------------------------------------------------------------------------------


@family
def test_colors_come_from_the_family(kind: Any) -> None:
    """A color of one explorer alone would miss the dark theme and the contrast test."""
    own = str(kind._css).replace((HERE / "common.css").read_text(encoding="utf8"), "")
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(", own), own
