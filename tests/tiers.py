"""When a test runs: in `make test`, or later.

A test marked ``tier("all")`` is left out of `make test`, and one marked ``tier("weekly")`` runs in
`make test-weekly` alone; the marker is read in the conftest at the top. `few` thins parameters.
Without make, pytest runs what `make test-all` does, unless `--tier` names another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

TIERS = ("test", "all", "weekly")


def few(
    names: str,
    values: Sequence[Any],
    now: int | Sequence[Any] = 3,
    rest: str = "all",
    **options: Any,
) -> pytest.MarkDecorator:
    """Return `pytest.mark.parametrize` that has a few values in `make test`, and the rest later.

    Args:
        names: of the parameters, as `pytest.mark.parametrize` takes them.
        values: all of them.
        now: those that run in `make test`, or how many do, from the first to the last.
        rest: the tier of the others.
        options: of `pytest.mark.parametrize`.

    >>> for each in few("n", range(5), 3, "weekly").args[1]:
    ...     print(*each.values, *(mark.args for mark in each.marks))
    0
    1 ('weekly',)
    2
    3 ('weekly',)
    4
    """
    if isinstance(now, int):
        last, count = len(values) - 1, min(now, len(values))
        kept = {round(n * last / max(count - 1, 1)) for n in range(count)}
    else:
        kept = {n for n, value in enumerate(values) if value in now}
        assert len(kept) == len(now), "each of them has to be a value"
    made = [
        v if hasattr(v, "marks") else pytest.param(*(v if "," in names else (v,))) for v in values
    ]
    later = pytest.mark.tier(rest)
    every = [p if n in kept else p._replace(marks=[*p.marks, later]) for n, p in enumerate(made)]
    return pytest.mark.parametrize(names, every, **options)


def belongs(item: pytest.Item, tier: str) -> bool:
    """Tell whether a test runs in a tier: the weekly one has its own alone."""
    latest = max((TIERS.index(mark.args[0]) for mark in item.iter_markers("tier")), default=0)
    return TIERS[latest] == "weekly" if tier == "weekly" else latest <= TIERS.index(tier)
