"""Which changes of a picture count when stored outputs are compared."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from digests import CACHE, digests_of
from jupyter_cache import get_cache
from likeness import Picture, keep_pictures
from matplotlib.figure import Figure
from PIL import Image

from lnlib.book.home import ROOT

NBVAL = ["--nbval", "--nbval-current-env", "-p", "conftest", "-p", "no:cacheprovider", "-rA"]
X = np.linspace(0, 6, 200)
SLOPES = {"first": 1.0, "second": 2.0}


def drawn(
    moved: float = 0, curves: tuple[str, ...] = ("first", "second"), width: float = 7
) -> Picture:
    """Draw two curves, the second of them moved up by a part of the height."""
    figure = Figure(figsize=(width, 4), dpi=100)
    ax = figure.subplots()
    ax.set(ylim=(0, 4))
    for name in curves:
        ax.plot(X, 2 + np.sin(SLOPES[name] * X) + 4 * moved * (name == "second"), label=name)
    ax.legend(loc="upper right")
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return Picture(base64.b64encode(file.getvalue()).decode())


@pytest.mark.parametrize("pixels", [0, 1, 5])
def test_a_curve_that_is_some_pixels_further_shows_the_same(pixels: int) -> None:
    assert drawn(pixels / 400) == drawn()


@pytest.mark.parametrize("moved", [0.03, -0.03])
def test_a_curve_that_has_moved_shows(moved: float) -> None:
    assert drawn(moved) != drawn()


def test_another_color_of_the_same_brightness_shows() -> None:
    ends = []
    for color in [(200, 0, 0), (0, 102, 0)]:
        picture, file = Image.new("RGB", (700, 400), "white"), io.BytesIO()
        picture.paste(color, (0, 200, 700, 204))
        picture.save(file, "png")
        ends.append(Picture(base64.b64encode(file.getvalue()).decode()))
    assert ends[0] != ends[1]


def test_a_curve_too_few_or_another_color_shows() -> None:
    assert drawn(curves=("first",)) != drawn()
    assert drawn(curves=("second", "first")) != drawn()
    assert drawn() != "no picture"
    assert drawn(width=8) != drawn()


def cell(source: str, picture: Picture) -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("display_data", {"image/png": str(picture)})
    return nbformat.v4.new_code_cell(source, outputs=[output], id="a-cell")


@pytest.mark.parametrize(
    ("source", "moved", "stays"),
    [
        ("same", 1 / 4000, True),
        ("same", 0.0168, False),
        ("same", 0.03, False),
        ("other", 1 / 4000, False),
    ],
)
def test_a_stored_picture_stays_where_only_the_processor_can_have_moved_it(
    source: str, moved: float, stays: bool
) -> None:
    old, new = drawn(), drawn(moved)
    cells = cell("same", old), cell(source, new)
    stored, fresh = (nbformat.v4.new_notebook(cells=[each]) for each in cells)
    keep_pictures(stored, fresh)
    assert str(old) != str(new)
    assert str(fresh.cells[0].outputs[0].data["image/png"]) == str(old if stays else new)


CELL = """import base64
from IPython.display import Image
Image(base64.b64decode("{}"))"""


def two_pictures(path: Path, stored: list[Picture]) -> None:
    """Write a notebook that draws one picture twice, and what is stored of it."""
    cells = [nbformat.v4.new_code_cell(CELL.format(drawn())) for _ in stored]
    for cell, picture in zip(cells, stored, strict=True):
        cell.execution_count = 1
        data = {"image/png": str(picture), "text/plain": "<IPython.core.display.Image object>"}
        cell.outputs = [nbformat.v4.new_output("execute_result", data, execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


@pytest.mark.tier("all")
def test_nbval_compares_the_pictures_that_the_build_has_drawn(tmp_path: Path) -> None:
    two_pictures(tmp_path / "two.ipynb", [drawn(), drawn()])
    two_pictures(tmp_path / "new.ipynb", [drawn()])
    get_cache(tmp_path / "_build" / CACHE).cache_notebook_file(
        tmp_path / "two.ipynb", data={"read": digests_of(tmp_path, [])}, check_validity=False
    )
    two_pictures(tmp_path / "two.ipynb", [drawn(1 / 400), drawn(0.3)])
    options = ["--built", "--rootdir", tmp_path]
    command = [sys.executable, "-m", "pytest", *NBVAL, *options, tmp_path]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(ROOT / "book" / "_ext")])
    environment = {**os.environ, "PYTHONPATH": paths}
    environment.pop("PYTEST_ADDOPTS", None)  # which is for the tests, not for those of these tests
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert "the build has no run of new.ipynb" in done.stdout
    assert "PASSED two.ipynb::Cell 0" in done.stdout
    assert "FAILED two.ipynb::Cell 1" in done.stdout
