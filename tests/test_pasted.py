"""Blocks to paste: each runs exactly as it is printed, where there is torch and nothing of ours."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lnlib.book.home import ROOT

PAGE = ROOT / "notebooks" / "when_it_goes_wrong.ipynb"
CELLS = nbformat.read(PAGE, as_version=4).cells
BLOCKS = {c.id: c for c in CELLS if "paste" in c.metadata.get("tags", [])}
TORCH_ITSELF = r"ignore:`torch.jit.script` is deprecated:DeprecationWarning"  # torch.func calls it
# What the book has installed and a reader may not have; torch brings NumPy and SymPy itself.
REFUSED = {"lnlib", "matplotlib", "PIL", "IPython", "ipywidgets", "anywidget", "nbformat", "pytest"}
FENCE = f"""
import sys
class Fence:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {REFUSED!r}:
            raise ImportError(f"a reader may not have {{name}}")
sys.meta_path.insert(0, Fence())
exec(compile(sys.stdin.read(), "<pasted>", "exec"), {{"__name__": "__main__"}})
"""
block = pytest.mark.parametrize("name", BLOCKS)


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a block in an interpreter of its own and an empty folder; warnings are errors."""
    command = [sys.executable, "-I", "-W", "error", "-W", TORCH_ITSELF, "-c", FENCE]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, input=source, cwd=folder, env=env, capture_output=True, text=True, timeout=200
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, subprocess.CompletedProcess[str]]:
    """Run all blocks, two at a time: most of the time goes into importing torch."""
    empty = tmp_path_factory.mktemp("empty")
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda cell: run(cell.source, empty), BLOCKS.values())
        return dict(zip(BLOCKS, done, strict=True))


@block
def test_a_block_runs_as_it_is_printed(name: str, runs: dict[str, Any]) -> None:
    done = runs[name]
    assert (done.returncode, done.stderr) == (0, "")


@block
def test_a_block_prints_what_is_stored_below_it(name: str, runs: dict[str, Any]) -> None:
    stored = "".join(output.text for output in BLOCKS[name].outputs)
    assert stored.strip()
    assert runs[name].stdout == stored


@block
def test_a_block_imports_torch_and_what_comes_with_python(name: str) -> None:
    nodes = list(ast.walk(ast.parse(BLOCKS[name].source)))
    plain = [a.name for node in nodes if isinstance(node, ast.Import) for a in node.names]
    froms = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    tops = {each.partition(".")[0] for each in plain + froms}
    assert "torch" in tops
    assert tops - {"torch"} <= sys.stdlib_module_names


@block
def test_a_reader_recognizes_a_block_in_the_page_and_in_jupyterlab(name: str) -> None:
    cell = BLOCKS[name]
    assert "hide-input" in cell.metadata.tags
    assert cell.metadata.mystnb.code_prompt_show.startswith("Code to paste")
    assert re.search(r"  # to paste: [^#]+\?$|  # to paste: [^#]+$", cell.source.splitlines()[0])


def test_the_page_says_how_to_recognize_a_block() -> None:
    top = CELLS[0].source
    assert "“Code to paste”" in top or '"Code to paste"' in top
    assert "`# to paste`" in top


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield each section that the table of symptoms names, and its blocks."""
    named = re.findall(r"\| \{ref\}`([\w-]+)` \|$", CELLS[0].source, re.MULTILINE)
    found: dict[str, list[str]] = {}
    now = "before the first section"
    for cell in CELLS:
        if cell.cell_type == "markdown":
            for label in re.findall(r"^\(([\w-]+)\)=$|^## (Takeaways)$", cell.source, re.MULTILINE):
                now = next((each for each in label if each in [*named, "Takeaways"]), now)
        elif cell.id in BLOCKS:
            found.setdefault(now, []).append(cell.id)
    assert set(found) <= set(named), "a block stands where no symptom is"
    yield from ((each, found.get(each, [])) for each in named)


def test_every_symptom_of_the_table_has_one_block() -> None:
    listed = dict(sections())
    assert len(listed) >= 19
    assert {section: blocks for section, blocks in listed.items() if len(blocks) != 1} == {}
    assert [name for (name,) in listed.values()] == list(BLOCKS)  # in the order of the table


def without_import(source: str) -> str:
    return source.partition("\n")[2]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import lnlib", "a reader may not have lnlib"),
        ("from matplotlib import pyplot", "a reader may not have matplotlib"),
        (without_import(BLOCKS["paste-activity"].source), "name 'torch' is not defined"),
        ("import warnings\nwarnings.warn('of its own')", "UserWarning: of its own"),
    ],
)
def test_a_block_that_needs_more_or_warns_is_found(source: str, says: str, tmp_path: Path) -> None:
    done = run(source, tmp_path)
    assert done.returncode == 1
    assert says in done.stderr


def test_dead_features_are_found_at_768_where_the_bound_finds_none() -> None:
    own: dict[str, Any] = {}
    exec(BLOCKS["paste-activity"].source, own)
    norm, bound = own["norm"], (768 - 1) ** 0.5
    assert norm.normalized_shape == (768,)
    dead = (own["active"] == 0).nonzero().flatten().tolist()
    assert [norm.bias[i].item() for i in dead] == [-6.0, -4.5]
    assert not (norm.bias < -bound * norm.weight.abs()).any()
