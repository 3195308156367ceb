"""What is collected, what may be skipped, and how nbval compares; read for tests of any folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from digests import NEEDS_TRITON
from found import printed
from likeness import PNG, Picture
from tiers import TIERS, belongs

from lnlib.triton_kernel.runtime import why_not

NEEDS_GPU = "needs a GPU"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which tests run, and whether nbval takes from the build what notebooks say."""
    parser.addoption("--tier", choices=TIERS, default="all", help="which tests run: tests/tiers.py")
    parser.addoption("--digits", action="store_true", help="nbval: what checks find is stored too")
    parser.addoption("--built", action="store_true", help="nbval: compare what `make book` ran")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In CI, let a test that is skipped fail, except for want of a GPU."""
    report = (yield).get_result()
    if not (item.get_closest_marker("gpu") and NEEDS_GPU in str(report.longrepr)):
        refuse_to_skip(report)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """In CI, let a file of tests that is skipped fail."""
    refuse_to_skip((yield).get_result())


def refuse_to_skip(report: Any) -> None:
    """Turn a skip into a failure in CI: what a laptop may lack, CI installs."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be: {report.longrepr}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave other tiers out, skip what lacks a GPU or Triton, let nbval compare pictures."""
    tier = config.getoption("tier")
    left = [item for item in items if not belongs(item, tier)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if belongs(item, tier)]
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=NEEDS_GPU))
    cells: list[Any] = [item for item in items if hasattr(item.parent, "skip_compare")]
    for cell in cells:
        cell.parent.skip_compare = tuple(k for k in cell.parent.skip_compare if k != "image/png")
        cell.sanitize = with_pictures(cell.sanitize)
        if config.getoption("digits"):
            cell.compare_outputs = with_digits(cell.compare_outputs)
    if config.getoption("built"):
        for notebook in {cell.parent for cell in cells}:
            notebook.setup = notebook.setup_sanitize_files  # no kernel
        for cell in cells:
            cell.runtest = lambda cell=cell: compare_with_the_build(cell)
    mine = [item for item in items if item.path.stem == NEEDS_TRITON]
    reason = why_not() if mine else None
    if reason is not None:
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=f"its stored outputs stand: {reason}"))


def compare_with_the_build(cell: Any) -> None:
    """Do as nbval does, but with the outputs that `make book` has got from a cell."""
    from nbval.plugin import coalesce_streams
    from runs import stored_run

    notebook = cell.parent
    if not hasattr(notebook, "built"):
        notebook.built = stored_run(cell.config.rootpath, notebook.path)
    if notebook.built is None:
        pytest.fail(f"the build has no run of {notebook.path.name}; run `make book` first")
    code = [each for each in notebook.built.cells if each.cell_type == "code"]
    outputs = code[cell.cell_num].outputs
    for output in outputs:
        output.get("data", {}).pop("image/svg+xml", None)  # for the pages alone
    cell.test_outputs = coalesce_streams(outputs)
    if not cell.compare_outputs(cell.test_outputs, coalesce_streams(cell.cell.outputs)):
        cell.raise_cell_error("Cell outputs differ", "\n".join(cell.comparison_traceback))


def with_digits(compare: Callable[..., bool]) -> Callable[..., bool]:
    """Return what nbval compares outputs by, for the digits too that a check has found."""

    def compared(fresh: Any, stored: Any, *rest: Any) -> bool:
        pairs = zip(printed({"outputs": stored}), printed({"outputs": fresh}), strict=False)
        found = [
            f"{new}, stored {old.value}" for old, new in pairs if old.found and old.drifted(new)
        ]
        if found:
            pytest.fail("\n".join(["differs between processors: say varies=True of", *found]))
        return compare(fresh, stored, *rest)

    return compared


def with_pictures(sanitize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what nbval calls before it compares two outputs, for pictures too."""

    def sanitized(output: Any) -> Any:
        is_picture = isinstance(output, str) and output.startswith(PNG)
        return Picture(output) if is_picture else sanitize(output)

    return sanitized
