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
from likeness import Picture
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


def test_a_picture_shows_the_same_as_itself_drawn_again() -> None:
    assert drawn() == drawn()


@pytest.mark.parametrize("pixels", [0.3, 1.0, 5.0])
def test_a_curve_that_is_some_pixels_further_shows_the_same(pixels: float) -> None:
    assert drawn(pixels / 400) == drawn()


@pytest.mark.parametrize("moved", [0.03, -0.03, 0.3])
def test_a_curve_that_has_moved_shows(moved: float) -> None:
    assert drawn(moved) != drawn()


def test_another_color_of_the_same_brightness_shows() -> None:
    ends = [io.BytesIO(), io.BytesIO()]
    for color, file in zip([(200, 0, 0), (0, 102, 0)], ends, strict=True):
        picture = Image.new("RGB", (700, 400), "white")
        picture.paste(color, (0, 200, 700, 204))
        picture.save(file, "png")
    one, other = (Picture(base64.b64encode(file.getvalue()).decode()) for file in ends)
    assert one != other


def test_a_curve_too_few_or_another_color_shows() -> None:
    assert drawn(curves=("first",)) != drawn()
    assert drawn(curves=("second", "first")) != drawn()
    assert drawn() != "no picture"
    assert drawn(width=8) != drawn()


CELL = """import base64
from IPython.display import Image
Image(base64.b64decode("{}"))"""


def test_nbval_compares_the_pictures_of_a_notebook(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(CELL.format(drawn())) for _ in range(2)]
    stored = [drawn(1 / 400), drawn(0.3)]
    for cell, picture in zip(cells, stored, strict=True):
        cell.execution_count = 1
        data = {"image/png": str(picture), "text/plain": "<IPython.core.display.Image object>"}
        cell.outputs = [nbformat.v4.new_output("execute_result", data, execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "two.ipynb")
    command = [sys.executable, "-m", "pytest", *NBVAL, "--rootdir", tmp_path, "two.ipynb"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert "PASSED two.ipynb::Cell 0" in done.stdout
    assert "FAILED two.ipynb::Cell 1" in done.stdout
