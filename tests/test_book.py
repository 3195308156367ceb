"""What every notebook of the book must have before it is worth running."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import yaml

from lnlib.book.build import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_LINES = 20
# What a notebook may compare strictly must be the same on every machine and every day.
UNSTABLE = {
    "an address": r"\bat 0x[0-9a-f]{6,}",
    "a path": r"(?:/home/|/tmp/|/Users/|[A-Z]:\\)",
    "a time": r"\b\d+(?:\.\d+)? ?(?:ms|µs|s/it|it/s)\b",
    "a date": r"\b20\d\d-\d\d-\d\d\b",
    "a progress bar": r"\d+%\|",
    "measured digits": r"\d\.\d{7,}",
}


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    cells = nbformat.read(path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


def text_of(output: nbformat.NotebookNode) -> str:
    return output.get("text", "") + output.get("data", {}).get("text/plain", "")


notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_every_notebook_is_in_the_table_of_contents() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    listed = {chapter["file"] for part in toc["parts"] for chapter in part["chapters"]}
    assert NOTEBOOKS
    assert {f"notebooks/{path.stem}" for path in NOTEBOOKS} <= listed


@notebook
def test_it_is_valid_and_uses_the_common_kernel(path: Path) -> None:
    content = nbformat.read(path, as_version=4)
    nbformat.validate(content)
    assert content.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in content.cells]
    assert len(set(ids)) == len(ids)


@notebook
def test_outputs_are_stored_from_one_clean_run(path: Path) -> None:
    cells = code_cells(path)
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "run `make notebooks`"
    assert sum(bool(cell.outputs) for cell in cells) > len(cells) / 2


@notebook
def test_no_output_is_an_error_or_a_warning(path: Path) -> None:
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source


@notebook
def test_outputs_read_the_same_on_every_machine(path: Path) -> None:
    for cell in code_cells(path):
        for output in cell.outputs:
            for what, pattern in UNSTABLE.items():
                found = re.search(pattern, text_of(output))
                assert not found, f"{what} in the output of:\n{cell.source}"


@notebook
def test_no_cell_is_skipped_or_left_unchecked(path: Path) -> None:
    for cell in code_cells(path):
        tags = set(cell.metadata.get("tags", []))
        assert "nbval-skip" not in tags
        if "nbval-ignore-output" in tags:  # nbval has no front end to catch what interact prints
            assert "interact(" in cell.source


@notebook
def test_every_figure_has_alt_text_that_says_what_it_shows(path: Path) -> None:
    for cell in code_cells(path):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(alt.split()) >= 10, f"alt text {alt!r} for:\n{cell.source}"


@notebook
def test_every_drawn_figure_has_a_caption_and_a_name(path: Path) -> None:
    for cell in code_cells(path):
        if "plt.show()" in cell.source:
            figure = cell.metadata.get("mystnb", {}).get("figure", {})
            assert figure.get("name", "").startswith("fig-"), cell.source
            assert "otice" in figure.get("caption", ""), "the caption says what to notice"


@notebook
def test_cells_are_short_enough_to_read(path: Path) -> None:
    for cell in code_cells(path):
        lines = cell.source.splitlines()
        assert len(lines) <= MAX_LINES, f"{len(lines)} lines:\n{cell.source}"


@notebook
def test_it_opens_with_a_question_and_closes_with_exercises(path: Path) -> None:
    prose = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown"]
    assert "question" in prose[0].lower()
    assert "?" in prose[0]
    text = "\n".join(prose)
    assert "## Takeaways" in text
    assert text.index("## Takeaways") < text.index("## Exercises")
    assert "You can now" in text


@notebook
def test_every_exercise_has_a_hidden_solution_that_is_right(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    asked = re.findall(r"\{exercise\}\n:label: (\S+)", text)
    solved = re.findall(r"\{solution-start\} (\S+)\n:class: dropdown", text)
    assert 2 <= len(asked) <= 5
    assert asked == solved
    inside, verdicts = False, []
    for cell in cells:
        if cell.cell_type == "markdown":
            inside = "solution-start" in cell.source or (
                inside and "solution-end" not in cell.source
            )
        elif inside:
            verdicts += [text_of(output).splitlines()[0] for output in cell.outputs]
    assert verdicts == ["right"] * len(asked)
