"""What the page on benchmarks shows of the tables: each number is the one that was recorded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import drawings
import page_tables
import pytest
import torch
import torch.nn.functional as F
from accuracy_providers import LOADERS
from docutils import nodes
from docutils.parsers.rst import DirectiveError
from matplotlib import pyplot as plt

import lnlib
from lnlib.book.records import tables

PASSES = [{"pass": which} for which in ("forward", "forward and backward")]


@pytest.fixture(autouse=True)
def _own_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_a_line_has_what_the_page_needs_of_a_row_and_no_more() -> None:
    row = {"pass": "forward", "dtype": "float32", "rows": "5", "features": "7", "quartiles": "1"}
    there = [row | {"provider": p, "over_torch": p[-1]} for p in ("lnlib", "lnlib reference", "x")]
    other = there[0] | {"dtype": "float16", "over_torch": "3"}
    assert page_tables.speed_pinned([*there, other])[1:] == [["5 × 7, forward", "b (1)", "e (1)"]]
    row = {"model": "BERT", "dtype": "float32", "over_torch": "1.02", "quartiles": "1 to 2"}
    lines = page_tables.models([row | {"norms": norms} for norms in ("PyTorch", "lnlib")])
    assert lines[1:] == [["BERT, float32: lnlib", "1.02", "1 to 2"]]
    row = {"method": "m", "float16": "β", "bfloat16": "", "float32": "off by 2", "float64": "β"}
    row |= {"version": "1"}
    assert page_tables.whole([row | {"date": "2026-11-22"}]) == [[*row], [*row.values()]]


def test_a_table_needs_no_entry_here_and_a_missing_one_is_told_where_it_would_come_from() -> None:
    noted: list[str] = []
    env = SimpleNamespace(note_dependency=noted.append)
    document = SimpleNamespace(settings=SimpleNamespace(env=env))

    def asked(name: str) -> Any:
        state, machine = SimpleNamespace(document=document), SimpleNamespace(reporter=None)
        return page_tables.BenchTable("bench-table", [name], {}, [], 7, 0, "", state, machine)

    (shown,) = asked("memory").run()
    assert f"{tables.RESULTS / 'memory.csv'}" in noted  # the page is read again when it changes
    first = tables.rows_of(tables.RESULTS / "memory.csv")[0]
    head, *_ = shown.findall(nodes.row)
    assert [cell.astext() for cell in head] == [*first][:8]
    with pytest.raises(DirectiveError) as refused:
        asked("memry").run()
    assert re.search(r"no benchmarks/results/memry.csv, but .*records.py", refused.value.msg)


def test_a_table_says_when_where_and_at_which_commit_it_was_measured() -> None:
    where = {"date": "2026-01-02", "commit": "0123456789ab", "machine": "abacus", "torch": "2.13.0"}
    said = "2026-01-02, commit 0123456789ab, commit ba9876543210-dirty, abacus, PyTorch 2.13.0"
    assert page_tables.recorded([where, where, where | {"commit": "ba9876543210-dirty"}]) == said


# --- pictures ------------------------------------------------------------------------------------


Row = dict[str, str]


def shape(row: Row) -> str:
    return f"{int(row['rows']):,} × {int(row['features']):,}"


def typed(row: Row) -> str:
    return shape(row) + f"\n{row['dtype']}".removesuffix("\nfloat32")


GPU = {"device": "NVIDIA H200", "dtype": "bfloat16", "regime": "memory"}
LSTM = {"device": "cpu", "kind": "sequences", "batch": "64"}
SHAPES = [("28", "128"), ("28", "512"), ("784", "128")]
# Of each drawing: the table, what the rows of each panel say, and what of a row is its name, its
# line and where its dot is; who is left out is the yardstick.
DRAWINGS: dict[str, tuple[str, list[Row], str, Callable[[Row], tuple[str, str, float]]]] = {
    "speed": (
        *("speed", PASSES, "PyTorch"),
        lambda row: (row["provider"], typed(row), float(row["over_torch"])),
    ),
    "gpu": (
        *("layer_norm", [GPU | {"pass": each} for each in ("forward", "backward")], "copy"),
        lambda row: (row["provider"], shape(row), 1 / float(row["roof_fraction"] or "nan")),
    ),
    "memory": (
        *("memory", [{"dtype": each} for each in ("bfloat16", "float32", "float64")], ""),
        lambda row: (row["provider"], shape(row), int(row["peak_bytes"]) / int(row["bytes_of_x"])),
    ),
    "lstm": (
        *("lstm", [LSTM | {"steps": steps, "hidden_size": hidden} for steps, hidden in SHAPES]),
        *("nn.LSTM", lambda row: (row["pass"], row["provider"], float(row["over_lstm"]))),
    ),
}


def recorded(name: str, where: Row) -> list[Row]:
    """Return the rows of a table that are as is said."""
    rows = tables.rows_of(tables.RESULTS / f"{name}.csv")
    return [row for row in rows if where.items() <= row.items()]


def dots(ax: Any) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield what is drawn: the name of a dot, its line, where it is, and the ends of its bar."""
    lines = [label.get_text() for label in ax.get_yticklabels()]
    for container in ax.containers:
        points, _, bars = container
        ends = bars[0].get_segments() if bars else [[xy, xy] for xy in points.get_xydata()]
        for (x, y), (low, high) in zip(points.get_xydata(), ends, strict=True):
            yield container.get_label(), lines[round(float(y))], x, low[0], high[0]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_dot_is_a_row_and_its_bar_the_quartiles(name: str) -> None:
    table, panels, yardstick, dot_of = DRAWINGS[name]
    for ax, where in zip(drawings.DRAWINGS[name]().axes, panels, strict=True):
        due = []
        for row in recorded(table, where):
            *said, x = dot_of(row)
            low, high = row.get("quartiles", f"{x} to {x}").split(" to ")
            if row["provider"] != yardstick and not math.isnan(x):
                due.append((*said, *map(pytest.approx, (x, float(low), float(high)))))
        assert sorted(dots(ax), key=str) == sorted(due, key=str)


def test_each_method_has_a_line_in_each_panel_and_a_nan_a_cross_at_its_top() -> None:
    figure, crosses = drawings.accuracy(), 0
    assert {*drawings.METHODS} == {*LOADERS}
    for ax in figure.axes:
        top = ax.get_ylim()[1]
        lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
        rows = recorded("accuracy", {"dtype": ax.get_title()})
        for method in {row["method"] for row in rows}:
            y = [float(row["y_over_rounding"]) for row in rows if row["method"] == method]
            assert [*lines[method]] == [top if v != v else v for v in y]
        marks = [y for line in ax.get_lines() if line.get_marker() == "X" for y in line.get_ydata()]
        assert {*marks} <= {top}
        assert len(marks) == sum(row["y_over_rounding"] == "nan" for row in rows)
        crosses += len(marks)
    assert crosses > 0


# --- what the page says in words -----------------------------------------------------------------


def test_pytorch_counts_4096_rows_in_bfloat16_as_256_and_lnlib_counts_them_all() -> None:
    x, dy = torch.randn(4096, 33, dtype=torch.bfloat16), torch.ones(4096, 33, dtype=torch.bfloat16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # each thread counts its own rows
    try:
        found = []
        for layer_norm in (F.layer_norm, lnlib.layer_norm):
            weight, bias = torch.zeros(2, 33, dtype=torch.bfloat16).requires_grad_().unbind()
            y = layer_norm(x, (33,), weight, bias)
            found.append(torch.autograd.grad(y, bias, dy)[0].tolist())
    finally:
        torch.set_num_threads(threads)
    assert found == [[256.0] * 33, [4096.0] * 33]
