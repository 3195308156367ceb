"""What `make notebooks` keeps in order in a source: folds, widths and numbers that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
import tidy
from digests import notebooks

from lnlib.book.home import ROOT

NUMBERS = tidy.numbers(ROOT)


@pytest.mark.parametrize("path", notebooks(ROOT), ids=lambda path: path.stem)
def test_a_source_is_as_make_notebooks_leaves_it(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    tidy.tidy(notebook, NUMBERS)
    assert notebook == nbformat.read(path, as_version=4)


def tidied(*cells: tuple[str, str]) -> list[Any]:
    make = {"text": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    notebook = nbformat.v4.new_notebook(cells=[make[kind](source) for kind, source in cells])
    tidy.tidy(notebook, {"eq-a": "(1.2)", "fig-a": "Fig. 1.3"})
    return list(notebook.cells)


def test_jupyterlab_hides_the_code_of_a_check_and_all_of_a_solution() -> None:
    solution = "```{solution} ex-a\n:class: dropdown\n\nSo.\n```"
    cells = tidied(
        ("text", "It is ✓"),
        ("code", 'check("it is", 1, equals=1)'),
        ("code", "x = 1"),
        ("text", "## Exercises\n\n```{exercise}\n:label: ex-a\n```"),
        ("code", "answer = ..."),
        ("text", solution),
        ("code", "# Solution\nanswer = 1"),
        ("text", "You can now go."),
        ("code", "y = 1"),
    )
    hidden = [dict(c.metadata) for c in cells if c.cell_type == "code"]
    check, solution = {"source_hidden": True}, {"source_hidden": True, "outputs_hidden": True}
    told = {"jupyter": solution, "collapsed": True}
    assert hidden == [{"jupyter": check}, {}, {}, told, {}]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{doc}`01_a` and {eq}`(9) <eq-a>`", "{doc}`01_a` and {eq}`(1.2) <eq-a>`"),
        ("{eq}`eq-b`, {eq}`(9) <eq-a>`", "{eq}`eq-b`, {eq}`(1.2) <eq-a>`"),
        ("By {eq}`(9) <eq-a>`.", "By {eq}`(1.2) <eq-a>`."),
        ("[(9)](01_a.ipynb#eq-a)", "[(1.2)](01_a.ipynb#eq-a)"),
        ("[words](01_a.ipynb#a) `[(9)](a.b#eq-a)`", "[words](01_a.ipynb#a) `[(9)](a.b#eq-a)`"),
        ("{numref}`the figure <fig-a>`", "{numref}`Fig. 1.3 <fig-a>`"),
        ("{numref}`Fig. 2 <fig-elsewhere>`", "{numref}`Fig. 2 <fig-elsewhere>`"),
        ("ε = [1](#explorer-epsilon?drag=eps)", "ε = [1e-8](#explorer-epsilon?drag=eps)"),
        ("[2](#explorer-gamma-beta?drag=weight)", "[1.25](#explorer-gamma-beta?drag=weight)"),
        ("[ε](#explorer-epsilon?drag=eps)", "[ε](#explorer-epsilon?drag=eps)"),
        ("```\n{eq}`(9) <eq-a>`\n```", "```\n{eq}`(9) <eq-a>`\n```"),
        (
            "```{math}\nx\n```\n{eq}`(9) <eq-a>`\n```{math}\nx\n```",
            "```{math}\nx\n```\n{eq}`(1.2) <eq-a>`\n```{math}\nx\n```",
        ),
        ("[1](#explorer-epsilon?shows=variance)", "[1](#explorer-epsilon?shows=variance)"),
    ],
)
def test_the_prose_says_the_numbers_that_are_known(written: str, said: str) -> None:
    (cell,) = tidied(("text", written))
    assert cell.source == said
