"""What is collected where: this file is read whichever folder the tests are asked from."""

from __future__ import annotations

import pytest

from lnlib.book.build import NEEDS_TRITON
from lnlib.triton_kernel.runtime import why_not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the chapter on kernels, whose stored outputs stand, where Triton has no wheel."""
    mine = [item for item in items if item.path.stem == NEEDS_TRITON]
    reason = why_not() if mine else None
    if reason is not None:
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=f"its stored outputs stand: {reason}"))
