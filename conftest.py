"""What is collected, and how nbval compares; read whichever folder the tests are asked from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from digests import CACHE, NEEDS_TRITON
from likeness import PNG, Picture

from lnlib.triton_kernel.runtime import why_not


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let nbval take what notebooks say from the build, which has run them."""
    parser.addoption("--built", action="store_true", help="nbval: compare what `make book` ran")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let nbval compare pictures, and skip the chapter on kernels where Triton has no wheel."""
    cells: list[Any] = [item for item in items if hasattr(item.parent, "skip_compare")]
    for cell in cells:
        cell.parent.skip_compare = tuple(k for k in cell.parent.skip_compare if k != "image/png")
        cell.sanitize = with_pictures(cell.sanitize)
    if config.getoption("built"):
        for notebook in {cell.parent for cell in cells}:
            notebook.setup = lambda: None  # no kernel
        for cell in cells:
            cell.runtest = lambda cell=cell: compare_with_the_build(cell)
    mine = [item for item in items if item.path.stem == NEEDS_TRITON]
    reason = why_not() if mine else None
    if reason is not None:
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=f"its stored outputs stand: {reason}"))


def compare_with_the_build(cell: Any) -> None:
    """Do as nbval does, but with the outputs that `make book` has got from a cell."""
    from jupyter_cache import get_cache
    from nbval.plugin import coalesce_streams
    from runs import stored_run

    notebook = cell.parent
    if not hasattr(notebook, "built"):
        cache = get_cache(cell.config.rootpath / "_build" / CACHE)
        notebook.built = stored_run(cache, notebook.path)
    if notebook.built is None:
        pytest.fail(f"the build has no run of {notebook.path.name}; run `make book` first")
    code = [each for each in notebook.built.cells if each.cell_type == "code"]
    cell.test_outputs = coalesce_streams(code[cell.cell_num].outputs)
    if not cell.compare_outputs(cell.test_outputs, coalesce_streams(cell.cell.outputs)):
        cell.raise_cell_error("Cell outputs differ", "\n".join(cell.comparison_traceback))


def with_pictures(sanitize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what nbval calls before it compares two outputs, for pictures too."""

    def sanitized(output: Any) -> Any:
        is_picture = isinstance(output, str) and output.startswith(PNG)
        return Picture(output) if is_picture else sanitize(output)

    return sanitized
