"""The role ``{number}``: a number that a page has from a recorded table or from the code.

``{number}`speed over_torch; provider = lnlib; rows >= 2048; most` `` is what the table and the
column of these names hold in such rows: the smallest and the largest, or one of the two, to two
decimals. ``{number}`lnlib.in_graph.WORTH_AN_OPERATOR` `` is a value of the code.
"""

from __future__ import annotations

import math
import operator
import pkgutil
import re
import sys

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxRole

from lnlib.book.records import tables

__all__ = ["NumberRole", "number"]

COMPARED = {">=": operator.ge, "<=": operator.le}
ABSENT = "(not measured here)"  # on a machine that lacks a compiler, say
ENDS = {"least": min, "most": max}


class NumberRole(SphinxRole):
    """Writes what `number` returns; the page is read again when its table changes."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number as text."""
        said = number(self.text)
        first = self.text.split()[0]
        module = sys.modules.get(first.rpartition(".")[0])
        self.env.note_dependency(getattr(module, "__file__", f"{tables.RESULTS / first}.csv"))
        return [nodes.Text(said)], []


def number(asked: str) -> str:
    """Return what a page writes for ``asked``.

    >>> number("lnlib.triton_kernel.tiles.FORWARD")
    '16,384'

    Where no row is like that, the page says so.

    Raises: ExtensionError if there is no such value, table or column.
    """
    first, *conditions = asked.split("; ")
    if " " not in first:
        try:
            return written(float(pkgutil.resolve_name(first)))
        except (ImportError, AttributeError, TypeError) as error:
            raise ExtensionError(f"{{number}}`{asked}`: {error}") from error
    table, _, column = first.partition(" ")
    rows = tables.rows_of(tables.RESULTS / f"{table}.csv")
    if not rows:
        raise ExtensionError(f"{{number}}`{asked}`: there is no {table}.csv")
    ends = [ENDS[each] for each in conditions if each in ENDS]
    try:
        for condition in (each for each in conditions if each not in ENDS):
            rows = [row for row in rows if holds(condition, row)]
        values = [float(row[column]) for row in rows if row[column]]
    except (KeyError, ValueError) as error:
        raise ExtensionError(f"{{number}}`{asked}`: {error!r}") from error
    if not values:
        return ABSENT
    said = [written(end(values)) for end in ends or (min, max)]
    return " to ".join(dict.fromkeys(said))


def holds(condition: str, row: dict[str, str]) -> bool:
    """Tell whether a row is as a condition says: ``dtype = float16 or float64``, ``rows >= 5``."""
    column, sign, said = re.split(r" (=|>=|<=) ", condition, maxsplit=1)
    if sign == "=":
        return row[column] in said.split(" or ")
    return bool(COMPARED[sign](float(row[column]), float(said)))


def written(value: float) -> str:
    """Return a number to two decimals or two digits, and without decimals from ten on.

    >>> written(0.0131), written(0.996), written(2.457), written(25.94), written(131072)
    ('0.013', '1.00', '2.46', '26', '131,072')
    """
    decimals = max(2, 1 - math.floor(math.log10(abs(value)))) if 0 < abs(value) < 10 else 0
    return f"{value:,.{decimals}f}"
