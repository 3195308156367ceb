"""Where the book's own files are: its notebooks, their data, and what was measured."""

from __future__ import annotations

from pathlib import Path

__all__ = ["HOME", "ROOT"]

ROOT = Path(__file__).resolve().parents[2]  # of a checkout; a wheel has none
_SHIPPED = Path(__file__).with_name("shipped")  # in a wheel alone: see pyproject.toml
# Laid out as the checkout is: notebooks, notebooks/data, benchmarks/results.
HOME = _SHIPPED if _SHIPPED.is_dir() else ROOT
