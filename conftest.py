"""What is collected, and how nbval compares; read whichever folder the tests are asked from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from likeness import PNG, Picture
from make_book import NEEDS_TRITON

from lnlib.triton_kernel.runtime import why_not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let nbval compare pictures, and skip the chapter on kernels where Triton has no wheel."""
    cells: list[Any] = [item for item in items if hasattr(item.parent, "skip_compare")]
    for cell in cells:
        cell.parent.skip_compare = tuple(k for k in cell.parent.skip_compare if k != "image/png")
        cell.sanitize = with_pictures(cell.sanitize)
    mine = [item for item in items if item.path.stem == NEEDS_TRITON]
    reason = why_not() if mine else None
    if reason is not None:
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=f"its stored outputs stand: {reason}"))


def with_pictures(sanitize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what nbval calls before it compares two outputs, for pictures too."""

    def sanitized(output: Any) -> Any:
        is_picture = isinstance(output, str) and output.startswith(PNG)
        return Picture(output) if is_picture else sanitize(output)

    return sanitized
