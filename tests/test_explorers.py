"""What every explorer of the family keeps, whichever it is."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import subprocess
import tomllib
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
import traitlets
from explorer_page import MOUNT
from PIL import Image

from lnlib.book import explorers
from lnlib.book.explorers import Explorer, TraitValueError, base
from lnlib.book.explorers.base import Choice, Number, Numbers, join_modules, number
from lnlib.book.home import ROOT

FOLDER = ROOT / "lnlib" / "book" / "explorers"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
KINDS: list[type[Explorer]] = [
    getattr(explorers, name)
    for name in explorers.__all__
    if name.endswith("Explorer") and name != "Explorer"
]
family = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def own_traits(kind: type[Explorer]) -> dict[str, Any]:
    own = kind.class_own_traits()
    return {name: trait for name, trait in own.items() if not name.startswith("_")}


# --- what stands in for the widget ---------------------------------------------------------------


@family
def test_mimebundle_has_the_widget_a_small_white_png_and_the_sentence(kind: Any) -> None:
    explorer = kind()
    data, _ = explorer._repr_mimebundle_()
    assert set(data) == {WIDGET_MIME, "image/png", "text/plain"}
    assert data[WIDGET_MIME]["model_id"] == explorer.model_id
    assert data["text/plain"] == explorer.sentence()
    assert "0x" not in explorer.sentence()
    png = base64.b64decode(data["image/png"], validate=True)
    assert len(png) < 20_000
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width == 640
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


@family
def test_picture_does_not_follow_rcparams(kind: Any) -> None:
    first = kind().png()
    with matplotlib.rc_context(
        {"figure.facecolor": "black", "font.size": 30, "lines.linewidth": 9}
    ):
        assert first == kind().png()


@family
def test_a_trait_that_is_set_is_observed_and_is_in_the_state_sent_to_the_page(kind: Any) -> None:
    explorer = kind()
    assert own_traits(kind)
    for name in own_traits(kind):
        seen: list[Any] = []
        explorer.observe(seen.append, name)
        before = getattr(explorer, name)
        after = another(own_traits(kind)[name])
        setattr(explorer, name, after)
        assert [(change.old, change.new) for change in seen] == [(before, after)]
        assert explorer.get_state()[name] == after


def another(trait: Any) -> Any:
    """A value that is not the default."""
    if isinstance(trait, Choice):
        return trait.options[-1]
    if isinstance(trait, Numbers):
        first, *rest = trait.default_value
        return (trait.each.high if first != trait.each.high else trait.each.low, *rest)
    return trait.high if trait.default_value != trait.high else trait.low


@family
@pytest.mark.parametrize("value", [None, "1e-5", True, math.nan, math.inf, 1j, [], {"a": 1}])
def test_a_refused_value_changes_nothing_and_says_what_to_do(kind: Any, value: object) -> None:
    explorer = kind()
    before = {name: getattr(explorer, name) for name in own_traits(kind)}
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
    assert {name: getattr(explorer, name) for name in before} == before
    assert heard == []


# --- traits --------------------------------------------------------------------------------------


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
        ("row", (1, 2), "3 numbers from −9 to 9 (units of x)"),
        ("row", (1, 2, 3, 4), "3 numbers from −9 to 9 (units of x)"),
        ("row", (1, 2, 9.5), "3 numbers from −9 to 9 (units of x)"),
        ("row", (1, 2, math.nan), "3 numbers from −9 to 9 (units of x)"),
        ("row", (1, 2, True), "3 numbers from −9 to 9 (units of x)"),
        ("row", torch.zeros(1, 3), "3 numbers from −9 to 9 (units of x)"),
        ("axis", "row", "one of ('batch', 'layer')"),
        ("which", 1.0, "one of (0, 1)"),
        ("which", True, "one of (0, 1)"),
    ],
)
def test_a_value_out_of_range_is_refused(trait: str, given: Any, expected: str) -> None:
    with pytest.raises(TraitValueError, match=re.escape(f"{trait} must be {expected}, got ")):
        Example(**{trait: given})


@pytest.mark.parametrize(
    ("x", "words"),
    [
        *[(0.0, "0"), (-0.0, "0"), (1.0, "1"), (1e-5, "1e-5"), (1e4, "10000"), (1e12, "1e12")],
        *[(0.0909091, "0.0909"), (316.2278, "316"), (1.125, "1.13"), (-0.25, "−0.25")],
        *[(9.9999e-4, "0.001"), (9.994e-4, "9.99e-4"), (99999.0, "1e5"), (-3e-9, "−3e-9")],
        *[(math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "NaN")],
    ],
)
def test_number_writes_three_digits(x: float, words: str) -> None:
    assert number(x) == words


# --- files ---------------------------------------------------------------------------------------


@family
def test_joined_module_has_no_import_and_no_export_named_render(kind: Any) -> None:
    esm = str(kind._esm)
    assert not re.search(r"^\s*import\b", esm, re.MULTILINE)
    assert not re.search(r"export\s+(async\s+)?(function|const|let|class)\s+render\b", esm)
    assert esm.count("export default") == 1
    assert "</script" not in esm
    assert esm.count("export function linePath") == 1
    assert esm.count("export function frame") == 1


@family
def test_joined_module_loads_and_exports_its_arithmetic(
    kind: Any, node: str, tmp_path: Any
) -> None:
    path = tmp_path / "explorer.mjs"
    path.write_text(str(kind._esm), encoding="utf8")
    program = (
        f"import * as m from {json.dumps(path.as_uri())};"
        "console.log(JSON.stringify([typeof m.default.render, ...Object.keys(m)]));"
    )
    result = subprocess.run(
        [node, "--input-type=module", "-e", program],
        capture_output=True,
        text=True,
        encoding="utf8",
        timeout=60,
        check=True,
    )
    render, *names = json.loads(result.stdout)
    assert render == "function"
    assert "render" not in names
    assert {"defaults", "sentence", "formatNumber"} <= set(names)
    assert base.HERE == FOLDER


@family
def test_sheets_are_joined_common_first(kind: Any) -> None:
    css = str(kind._css)
    own = ".ln-" + kind.__module__.rpartition(".")[2].replace("_", "-") + " "
    assert css.index(".ln-explorer {") < css.index(own)
    assert kind().get_state()["_css"] == css


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
    for path in FOLDER.iterdir():
        if path.is_file() and path.suffix != ".py":
            assert any(path.match(pattern) for pattern in patterns), path.name


@family
def test_an_explorer_weighs_less_than_70_kb(kind: Any) -> None:
    state = json.dumps(kind().page_state(), ensure_ascii=False)
    assert len(state.encode()) + MOUNT.stat().st_size < 70_000


def test_explorer_asks_for_picture_and_sentence() -> None:
    class Empty(Explorer):
        _esm = "export default {}"

    for method in ("picture", "sentence"):
        with pytest.raises(NotImplementedError):
            getattr(Empty(), method)()


def luminance(color: str) -> float:
    if len(color) == 4:
        color = "#" + "".join(2 * c for c in color[1:])
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colors_have_contrast(theme: str) -> None:
    sheet = (FOLDER / "common.css").read_text(encoding="utf8")
    blocks = re.findall(r"\{([^}]*--ln-bg[^}]*)\}", sheet)
    light, dark = (dict(re.findall(r"--ln-([a-z-]+): (#[0-9a-f]+)", block)) for block in blocks[:2])
    colors = light if theme == "light" else {**light, **dark}
    for name in ("fg", "muted", "blue-text", "vermillion-text", "green-text", "moved"):
        assert contrast(colors[name], colors["bg"]) >= 4.5, name  # text
    assert contrast(colors["fg"], colors["control"]) >= 4.5
    assert contrast(colors["on-moved"], colors["moved"]) >= 4.5
    for name in ("axis", "blue", "vermillion", "green"):
        assert contrast(colors[name], colors["bg"]) >= 3, name  # graphics


@family
def test_colors_come_from_the_family(kind: Any) -> None:
    """A color of one explorer alone would miss the dark theme and the contrast test."""
    own = str(kind._css).replace((FOLDER / "common.css").read_text(encoding="utf8"), "")
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(", own), own


# --- the page's arithmetic -----------------------------------------------------------------------


def test_the_mount_script(run_js: Any) -> None:
    run_js("mount")


def test_the_state_in_an_address(run_js: Any) -> None:
    run_js("state")
