"""What every notebook of the book must have before it is worth running."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import marks
import nbformat
import pytest
import runs
import yaml

from lnlib.book.home import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem[0].isdigit()]  # the others are looked up
MAX_LINES = defaultdict(lambda: 20, {"paste-function": 45, "paste-gauges": 30})  # in one piece
TAGS = {
    "hide-input",
    "paste",
    "nbval-ignore-output",
    "remove-output",
}  # remove-cell and remove-input would hide a check, raises-* an error
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


def prose_of(path: Path) -> str:
    """Return the text of a notebook, with the names and captions of its figures."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(c.source if c.cell_type == "markdown" else str(c.metadata) for c in cells)


notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def test_every_notebook_is_in_the_table_of_contents() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))
    listed = {chapter["file"] for part in toc["parts"] for chapter in part["chapters"]}
    assert NOTEBOOKS
    assert {f"notebooks/{path.stem}" for path in NOTEBOOKS} <= listed


@notebook
def test_it_is_valid_and_stored_as_every_clean_run_stores_it(path: Path) -> None:
    content = nbformat.read(path, as_version=4)
    nbformat.validate(content)
    assert content.metadata.kernelspec.name == "python3"
    ids = [cell.id for cell in content.cells]
    assert len(set(ids)) == len(ids)
    cells = code_cells(path)
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "run `make notebooks`"
    with_output = sum(bool(cell.outputs) for cell in cells)
    assert with_output > len(cells) / 2, "let more cells print, draw or end in a value"
    again = nbformat.writes(runs.stable(content))
    assert path.read_text(encoding="utf8").rstrip() == again.rstrip(), "run `make notebooks`"


@notebook
def test_no_output_is_an_error_or_differs_between_machines(path: Path) -> None:
    for cell in code_cells(path):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source
            for what, pattern in UNSTABLE.items():
                found = re.search(pattern, text_of(output))
                assert not found, f"{what} in the output of:\n{cell.source}"


@notebook
def test_tags_and_comments_switch_nothing_off(path: Path) -> None:
    for cell in code_cells(path):
        tags = set(cell.metadata.get("tags", []))
        assert tags <= TAGS, cell.source
        assert not re.search(r"NBVAL_|PYTEST_VALIDATE", cell.source, re.IGNORECASE), cell.source
        if "nbval-ignore-output" in tags:  # nbval has no front end to catch what interact prints
            assert "interact(" in cell.source
        if "remove-output" in tags:  # a widget of Python, which is dead in a page
            assert re.search(r"interact\(|link\(", cell.source)


@notebook
def test_every_figure_has_alt_text_a_caption_and_a_name(path: Path) -> None:
    for cell in code_cells(path):
        shown = cell.metadata.get("mystnb", {})
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            alt = shown.get("image", {}).get("alt", "")
            assert len(alt.split()) >= 10, f"alt text {alt!r} for:\n{cell.source}"
        if "plt.show()" in cell.source:
            figure = shown.get("figure", {})
            assert figure.get("name", "").startswith("fig-"), cell.source
            assert len(figure.get("caption", "").split()) > 4, "the caption says what is drawn"


@notebook
def test_cells_are_short_enough_to_read(path: Path) -> None:
    for cell in code_cells(path):
        lines = cell.source.splitlines()
        assert len(lines) <= MAX_LINES[cell.id], f"{len(lines)} lines:\n{cell.source}"


@chapter
def test_it_says_at_its_top_what_it_needs_and_that_comes_before(path: Path) -> None:
    text = prose_of(path)
    (needs,) = re.findall(r"^\*\*You need\*\* .+", text.partition("\n## ")[0], re.MULTILINE)
    earlier = [other for other in CHAPTERS if other.stem < path.stem]
    links = re.findall(r"\{(\w+)\}`(?:[^`<]+ <)?([^`>]+)>?`", needs)
    linked = re.findall(r"\]\((\w*)(?:\.ipynb)?#?([\w-]*)\)", needs)
    links += [("ref", label) if label else ("doc", page) for page, label in linked]
    assert links or not earlier
    for kind, target in links:
        if kind == "doc":
            assert target in [other.stem for other in earlier]
        else:
            defined = (f":label: {target}\n", f"({target})=\n", f"'name': '{target}'")
            assert any(mark in prose_of(other) for other in earlier for mark in defined), target


@chapter
def test_every_exercise_has_a_hidden_solution_that_is_right(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    asked = re.findall(r"\{exercise\}\n:label: (\S+)", text)
    solved = re.findall(r"\{solution\} (\S+)\n:class: dropdown", text)
    assert 2 <= len(asked) <= 5
    assert text.index("## Takeaways") < text.index("## Exercises")
    assert asked == solved
    solving = [cell for cell, is_solution in marks.solutions(cells) if is_solution]
    said = [text_of(output).splitlines()[0] for cell in solving for output in cell.outputs]
    verdicts = [line for line in said if not line.startswith(("✓ ", "<Figure size"))]
    assert verdicts == ["right"] * len(asked)
    # JupyterLab shows the first line of what it hides.
    firsts = [cell.source for cell in solving if cell.source.startswith("# Solution\n")]
    assert len(firsts) == len(asked)


@notebook
def test_a_reference_that_jupyterlab_cannot_follow_has_words(path: Path) -> None:
    text = prose_of(path)
    here = set(re.findall(r":label: (\S+)|^\(([\w-]+)\)=", text, re.MULTILINE))
    known = {label for pair in here for label in pair}
    for role, body in re.findall(r"\{(eq|ref|numref)\}`([^`]+)`", text):
        known_there = role != "numref" and body in known  # it knows no figures
        assert known_there or re.fullmatch(r"[^<]+ <[\w-]+>", body), f"{role} {body}"


def test_a_reference_in_the_words_of_a_title_has_those_of_today() -> None:
    prose = {path: prose_of(path) for path in NOTEBOOKS}
    titles = re.compile(r"^\(([\w-]+)\)=\n+(?:\([\w-]+\)=\n)*#+ (.*)", re.MULTILINE)
    title = dict(pair for text in prose.values() for pair in titles.findall(text))
    for path, text in prose.items():
        roles = re.findall(r"\{ref\}`([^`<]+?)\s*<([\w-]+)>`", text)
        for words, label in roles + re.findall(r"\[([^\]\n]+)\]\([\w./]*#([\w-]+)\)", text):
            if label in title and words[0].isupper() and not words.startswith("Chapter "):
                assert words.lower() in title[label].lower(), (path.stem, words, title[label])


def test_check_lines_quoted_in_pages_are_printed_by_a_chapter() -> None:
    outputs = [output for path in NOTEBOOKS for cell in code_cells(path) for output in cell.outputs]
    printed = {line for output in outputs for line in text_of(output).splitlines()}
    for page in [*(ROOT / "book").glob("*.md"), ROOT / "README.md"]:
        quoted = re.findall(r"^> (✓ .*)$", page.read_text(encoding="utf8"), re.MULTILINE)
        assert set(quoted) <= printed, page.name


def test_links_to_files_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "book").glob("*.md"), ROOT / "notebooks/data/README.md"]
    for page in pages:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"
