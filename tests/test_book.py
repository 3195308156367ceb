"""What every notebook of the book must have before it is worth running."""

from __future__ import annotations

import math
import re
from pathlib import Path

import bench_gamma_beta
import nbformat
import numpy as np
import pytest
import runs
import torch
import yaml

from lnlib import formula
from lnlib.book.data import TRAIN
from lnlib.book.experiments import mlp
from lnlib.book.home import ROOT
from lnlib.book.records import lstms, norms

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem[0].isdigit()]  # the others are looked up
MAX_LINES = 20
TAGS = {"hide-input", "nbval-ignore-output"}  # remove-* would hide a check, raises-* an error
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
def test_tags_and_comments_switch_nothing_off(path: Path) -> None:
    for cell in code_cells(path):
        tags = set(cell.metadata.get("tags", []))
        assert tags <= TAGS, cell.source
        assert not re.search(r"NBVAL_|PYTEST_VALIDATE", cell.source, re.IGNORECASE), cell.source
        if "nbval-ignore-output" in tags:  # nbval has no front end to catch what interact prints
            assert "interact(" in cell.source


@notebook
def test_what_is_stored_is_what_every_clean_run_stores(path: Path) -> None:
    stored = path.read_text(encoding="utf8")
    again = nbformat.writes(runs.stable(nbformat.read(path, as_version=4)))
    assert stored.rstrip() == again.rstrip(), "run `make notebooks`"


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
def test_it_opens_with_a_question_and_closes_with_what_the_reader_can_do(path: Path) -> None:
    prose = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown"]
    assert "question" in prose[0].lower()
    assert "?" in prose[0]
    text = "\n".join(prose)
    assert text.index("## Takeaways") < text.index("You can now")


@chapter
def test_it_says_at_its_top_what_it_needs_and_that_comes_before(path: Path) -> None:
    text = prose_of(path)
    (needs,) = re.findall(r"^\*\*You need\*\* .+", text.partition("\n## ")[0], re.MULTILINE)
    earlier = [other for other in CHAPTERS if other.stem < path.stem]
    links = re.findall(r"\{(\w+)\}`(?:[^`<]+ <)?([^`>]+)>?`", needs)
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
    solved = re.findall(r"\{solution-start\} (\S+)\n:class: dropdown", text)
    assert 2 <= len(asked) <= 5
    assert text.index("## Takeaways") < text.index("## Exercises")
    assert asked == solved
    inside, verdicts = False, []
    for cell in cells:
        if cell.cell_type == "markdown":
            inside = "solution-start" in cell.source or (
                inside and "solution-end" not in cell.source
            )
        elif inside:
            verdicts += [text_of(output).splitlines()[0] for output in cell.outputs]
    verdicts = [line for line in verdicts if not line.startswith(("✓ ", "<Figure size"))]
    assert verdicts == ["right"] * len(asked)


@notebook
def test_a_reference_that_jupyterlab_cannot_follow_has_words(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    here = set(re.findall(r":label: (\S+)|^\(([\w-]+)\)=", text, re.MULTILINE))
    known = {label for pair in here for label in pair}
    for role, body in re.findall(r"\{(eq|ref|numref)\}`([^`]+)`", text):
        known_there = role != "numref" and body in known  # it knows no figures
        assert known_there or re.fullmatch(r"[^<]+ <[\w-]+>", body), f"{role} {body}"


def test_check_lines_quoted_in_pages_are_printed_by_a_chapter() -> None:
    printed = {
        line
        for path in NOTEBOOKS
        for c in code_cells(path)
        for o in c.outputs
        for line in text_of(o).splitlines()
    }
    for page in [*(ROOT / "book").glob("*.md"), ROOT / "README.md"]:
        quoted = re.findall(r"^> (✓ .*)$", page.read_text(encoding="utf8"), re.MULTILINE)
        assert set(quoted) <= printed, page.name


def test_links_to_files_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "book").glob("*.md"), ROOT / "notebooks/data/README.md"]
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def output_variance(eps: float) -> float:
    row = torch.tensor([0.001, 0.001, 0.0011, 0.0009, 0.001], dtype=torch.float64)
    return formula.layer_norm(row, eps=eps).var(correction=0).item()


def accuracy(experiment: str, model: str, lr: float, epoch: int = -1) -> float:
    return float(lstms.means(experiment, model=model, lr=lr).mean[epoch])


def bits(experiment: str, **where: object) -> float:
    return float(norms.novel(experiment, **where).mean[-1])


def wrong(norm: str, column: str = "test_error") -> float:
    """Return how many percent a network gets wrong that was trained in batches of four."""
    return float(norms.digits(norm, "small-batch", column).mean[-1])


DECAY = bench_gamma_beta.SETTINGS["decay on W, γ, β"].decay

# Numbers that stand in the text alone: the chapter, what stands around the number, the number.
FACTS = [
    ("01_formula", r"about \$10\^\{(\d+)\}\$: each ReLU", np.log10(2.0**50)),
    ("01_formula", r"by \$\\sqrt\{7/8\}\$, which is (\d+) %", 100 * (1 - (7 / 8) ** 0.5)),
    ("01_formula", r"With \$H = 768\$ it is ([\d.]+) %", 100 * (1 - (767 / 768) ** 0.5)),
    ("01_formula", r"1-1/\\pi\} \\approx ([\d.]+)\$", (1 - 1 / np.pi) ** -0.5),
    ("01_formula", r"So divide by \$\\sqrt(\d)\$", 5.0),
    ("02_epsilon", r"variance of the row is \$(\d)\\cdot10\^\{-9\}\$", 4.0),
    ("02_epsilon", r"\n(\S+) with \$10\^\{-8\}\$", output_variance(1e-8)),
    ("02_epsilon", r"and (\S+) with \$10\^\{-5\}\$", output_variance(1e-5)),
    ("02_epsilon", r"the knee is at \$\\sigma \\approx ([\d.]+)\$", 1e-5**0.5),
    ("02_epsilon", r"which is (\d+) for \$\\epsilon = 10\^\{-5\}\$", 1e-5**-0.5),
    ("02_epsilon", r"at \$\\epsilon=10\^\{-5\}\$ \| (\d+) \|", 1e-5**-0.5),
    ("02_epsilon", r"gradient at \$1/\\sqrt\\epsilon\$: (\d+) for", 1e-5**-0.5),
    ("02_epsilon", r"up to (65 504)", torch.finfo(torch.float16).max),
    ("02_epsilon", r"numbers down to \$(\d+)\\cdot10\^\{-8\}", 2**-24 * 1e8),
    ("02_epsilon", r"2\^\{-24\} \\approx (\d+)\\cdot10\^\{-8\}", 2**-24 * 1e8),
    ("02_epsilon", r"a deviation of (\d+) or more", 65504**0.5),
    ("02_epsilon", r"a variance that is (\d+) times", 4 / torch.finfo(torch.bfloat16).eps),
    ("02_epsilon", r"`torch.nn.LayerNorm`[^|]*\| \$10\^\{(\S+)\}\$ \|", -5.0),
    ("02_epsilon", r"The knee of Keras is at \$\\sigma = ([\d.]+)\$", 1e-3**0.5),
    ("03_gamma_beta", r"never go below \$-\\sqrt(\d)\$", 7.0),
    ("03_gamma_beta", r"learns the book's ([\d,]+) digits", TRAIN),
    ("03_gamma_beta", r"records (\w+) seeds for each", bench_gamma_beta.SEEDS),
    ("03_gamma_beta", r"with a decay of ([\d.]+) on", DECAY),
    (
        "04_scalar_jacobian",
        r"\\sqrt\[3\]\{3u\}\\approx (\d+)\\cdot10\^\{-6\}",
        (3 * 2.0**-53) ** (1 / 3) * 1e6,
    ),
    ("04_scalar_jacobian", r"u=2\^\{-53\}\\approx ([\d.]+)\\cdot10", 2.0**-53 * 1e16),
    ("04_scalar_jacobian", r"That is at most \$([\d.]+)\\cdot10\^\{-15\}", 11 * 2.0**-53 * 1e15),
    ("04_scalar_jacobian", r"by a factor of up to (\d+) under the root", 1e-5**-0.5),
    ("04_scalar_jacobian", r"and of up to ([\d,]+) beside σ", 1e5),
    ("05_index_notation", r"They take ([\d.]+) GB", 4 * (128 * 256) ** 2 / 1e9),
    ("05_index_notation", r"differ from zero, one in (\d+)\.", 128.0),
    ("05_index_notation", r"tensor of order 4 has (\d+) entries", (3.0 * 5) ** 2),
    ("05_index_notation", r"in float32 costs at most \$(\d+)\\cdot10\^\{-8\}", 2**-24 * 1e8),
    ("06_autograd_function", r"float32 numbers are \$([\d.]+)\\cdot10\^\{-7\}", 2**-22 * 1e7),
    ("06_autograd_function", r"/10\^\{-6\}\$ is ([\d.]+):", 2**-23 * 1e6),
    ("which_layer_norm", r"of normal values (\d+) % lie outside", 100 * math.erfc(0.5**0.5)),
    ("which_layer_norm", r"and (\d+) % lie outside", 100 * math.erfc(0.5)),
    ("which_layer_norm", r"1/\\sqrt\\epsilon = (\d+)\$", 1e-5**-0.5),
    ("07_triton_kernel", r"Ten operations on (\d+) million", 8192 * 4096 / 1e6),
    ("07_triton_kernel", r"million numbers take (\d+) µs", 10 * 8192 * 4096 / 67e12 * 1e6),
    ("07_triton_kernel", r"lie in memory, (\d+) MB", 2 * 8192 * 4096 / 1e6),
    ("07_triton_kernel", r"those (\d+) MB take", 4 * 8192 * 4096 / 1e6),
    ("07_triton_kernel", r"MB take (\d+) µs", 4 * 8192 * 4096 / 4.8e12 * 1e6),
    ("07_triton_kernel", r"says it: (\d+) operations", 67 / 4.8),
    ("07_triton_kernel", r"That makes (\d+) bytes an element, six", (7 + 5) * 2.0),
    ("07_triton_kernel", r"at best (\d+) % of the", 100 * 6 / 10),
    ("08_ln_lstm", r"multiplied by up to ([\d,]+) at each", 1 / (4 * 1e-5)),
    ("08_ln_lstm", r"up to \$10\^\{(\d+)\}\$ in all", np.log10(25000.0**5)),
    ("08_ln_lstm", r"of normal values, (\d+) % lie outside", 100 * math.erfc(0.5**0.5)),
    ("08_ln_lstm", r"and (\d+) % lie outside", 100 * math.erfc(0.5)),
    ("08_ln_lstm", r"ink 0 is −([\d.]+)\.", 0.1307 / 0.3081),
    ("08_ln_lstm", r"divides by \$\\sqrt\\epsilon\$, ([\d.]+)\.", 1e-5**0.5),
    ("08_ln_lstm", r"it is, per epoch, at first: (\d+) %", accuracy("curves", "ln-lstm", 0.001, 0)),
    ("08_ln_lstm", r"after one epoch, against (\d+) %", accuracy("curves", "lstm", 0.001, 0)),
    ("08_ln_lstm", r"best rate layer norm has ([\d.]+) %", accuracy("rates", "ln-lstm", 0.03)),
    ("08_ln_lstm", r"right, the plain LSTM ([\d.]+) %", accuracy("rates", "lstm", 0.03)),
    ("09_batch_or_layer", r"\\sigma=\\sqrt\\epsilon\$, (\d+) % of the", 100 * (1 - 0.5**0.5)),
    ("09_batch_or_layer", r"the book's ([\d,]+) digits, of which", TRAIN),
    ("09_batch_or_layer", r"of which ([\d,]+) choose", TRAIN / mlp.VALID_EVERY),
    ("09_batch_or_layer", r"and ([\d,]+) train, and", TRAIN - TRAIN / mlp.VALID_EVERY),
    ("09_batch_or_layer", r"after the third (\d+) % against", wrong("batch")),
    ("09_batch_or_layer", r"% against (\d+) %\. Layer norm", wrong("layer")),
    ("09_batch_or_layer", r"a disaster: (\d+) % of the", wrong("batch", "test_error_batch")),
    ("09_batch_or_layer", r"are wrong instead of (\d+) %", wrong("batch")),
    ("09_batch_or_layer", r"it is \$8\\cdot 3/5 = ([\d.]+)\$", 8 * 3 / 5),
    ("09_batch_or_layer", r"changed by \$9/25 = ([\d.]+)\$", 9 / 25),
    (
        "10_in_context",
        r"ends at ([\d.]+) bits without one",
        bits("placements", placement="post", lr=0.003, warmup=0),
    ),
    (
        "10_in_context",
        r"with one, at ([\d.]+), less than a tenth",
        bits("placements", placement="post", lr=0.003, warmup=100),
    ),
    (
        "10_in_context",
        r"best result, ([\d.]+) bits at 0.01",
        bits("placements", placement="pre", lr=0.01, warmup=100),
    ),
    (
        "10_in_context",
        r"([\d.]+) bits for post-norm",
        bits("two-minutes", placement="post", norm="layer"),
    ),
    (
        "10_in_context",
        r"bits for post-norm, ([\d.]+) for pre-norm",
        bits("two-minutes", placement="pre", norm="layer"),
    ),
    (
        "10_in_context",
        r"The network without a norm is at ([\d.]+)\.",
        bits("two-minutes", placement="none", norm="layer"),
    ),
]


@pytest.mark.parametrize(("chapter", "around", "value"), FACTS, ids=lambda x: str(x)[:40])
def test_a_number_in_the_text_is_the_number_that_is_computed(
    chapter: str, around: str, value: float
) -> None:
    content = nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in content.cells if cell.cell_type == "markdown")
    found = re.search(around, text)
    assert found, f"the text around the number has changed: {around}"
    written = re.sub("[ ,]", "", {"ten": "10"}.get(found[1], found[1]))
    _, _, decimals = written.partition(".")
    assert float(written) == pytest.approx(value, abs=0.5001 * 10.0 ** -len(decimals))


# How the table of conventions writes an option, where the cells write it otherwise.
IN_CODE = {
    "eps=0": "eps=0.0",
    "normalized_shape=(C, Y, X)": "normalized_shape=(6, 4, 5)",
    "x.flatten(1)": "images.flatten(1)",
    "x.movedim(1, -1)": "images.movedim(1, -1)",
    "x * terms(x).rstd": "scale * torch.tensor(x)",
    "weight, bias": 'agrees("biased", y)',
}


def test_each_convention_has_a_source_and_a_cell_that_reproduces_it() -> None:
    path = ROOT / "notebooks" / "which_layer_norm.ipynb"
    prose = [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown"]
    (page,) = [text for text in prose if "## The conventions" in text]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")][2:]
    code = "\n".join(cell.source for cell in code_cells(path))
    assert len(rows) > 18
    for _, who, option in rows:
        assert "{cite" in who or who in ("nearly everyone", "most"), who
        for written in re.findall(r"`([^`]+)`", option):
            assert IN_CODE.get(written, written) in code, written
