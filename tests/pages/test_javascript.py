"""The JavaScript of the explorers and of the pages, without a page: `node --test`, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from goldens import golden

from lnlib.book.home import ROOT


def half_pairs() -> np.ndarray:
    """Float64 numbers, then what NumPy rounds them to: all float16, all ties, their neighbors."""
    positive = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (positive[:-1] + positive[1:]) / 2
    far = [65519.99, 65520.0, 65536.0, 1e300, 5e-324, 2.0**-25, np.inf]
    x = np.concatenate([positive, ties, np.nextafter(ties, np.inf), np.nextafter(ties, 0), far])
    x = np.concatenate([x, -x, [np.nan]])
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([x, x.astype(np.float16).astype(np.float64)])


def test_javascript(run_js: Callable[..., None], tmp_path: Path) -> None:
    halves = tmp_path / "halves.f64"
    halves.write_bytes(half_pairs().astype("<f8").tobytes())
    files = (path.name for path in (ROOT / "tests" / "js").glob("*.test.mjs"))
    names = sorted({name.partition(".")[0] for name in files} - {"exercises"})  # test_answers.py
    run_js(*names, golden=golden(), at_least=45, LN_HALVES=str(halves))
