"""What the page on benchmarks shows of the tables: each number is the one that was recorded."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import drawings
import page_tables
import pytest
import torch
import torch.nn.functional as F
from accuracy_providers import DTYPES, LOADERS
from matplotlib import pyplot as plt
from results_table import save

import lnlib
from lnlib.book.records import tables

BOTH, FORWARD = "forward and backward", "forward"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand in for the recorded tables; call it to write one."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)

    def write(name: str, *rows: dict[str, object]) -> None:
        save(tmp_path / f"{name}.csv", rows)

    yield write
    plt.close("all")


def shown(name: str) -> list[list[str]]:
    """Return the lines of a table of the page."""
    return page_tables.TABLES[name](tables.rows_of(tables.RESULTS / f"{name}.csv"))


# Tables


def speed_row(provider: str, over: object, **other: object) -> dict[str, object]:
    row = {"provider": provider, "pass": FORWARD, "dtype": "float32", "rows": 5, "features": 7}
    return row | {"over_torch": over, "quartiles": f"{over} to {over}"} | other


def test_a_line_has_a_shape_with_and_without_cpp(results: Any) -> None:
    there = [speed_row("lnlib", 2), speed_row("lnlib reference", 9), speed_row("PyTorch", 1)]
    results("speed_pinned", *there, speed_row("lnlib", 3, dtype="float16"))
    assert shown("speed_pinned")[1:] == [["5 × 7, forward", "2 (2 to 2)", "9 (9 to 9)"]]


def test_a_training_step_is_told_for_norms_that_are_there(results: Any) -> None:
    row = {"model": "BERT", "dtype": "float32", "over_torch": "1.02", "quartiles": "1 to 2"}
    results("models", *(row | {"norms": n} for n in ("PyTorch", "lnlib")))
    assert shown("models")[1:] == [["BERT, float32: lnlib", "1.02", "1 to 2"]]


def test_constant_rows_leave_out_when_and_where(results: Any) -> None:
    types = {"float16": "β", "bfloat16": "", "float32": "off by 2", "float64": "β"}
    own = {"date": "2026-11-22", "machine": "a", "commit": "b"}
    results("accuracy_constant_rows", {"method": "m", **types, "version": "1", **own})
    head, row = shown("accuracy_constant_rows")
    assert head == ["method", *types, "version"]
    assert row == ["m", *types.values(), "1"]


def test_a_table_says_when_where_and_at_which_commit_it_was_measured() -> None:
    where = {"date": "2026-01-02", "commit": "0123456789ab", "machine": "abacus", "torch": "2.13.0"}
    said = "2026-01-02, commit 0123456789ab, commit ba9876543210-dirty, abacus, PyTorch 2.13.0"
    assert page_tables.recorded([where, where, where | {"commit": "ba9876543210-dirty"}]) == said


# Pictures


def bars(ax: Any) -> dict[str, list[tuple[float, float, float, float]]]:
    """Return what is drawn, by name: median, line, and the ends of the bar."""
    found = {}
    for container in ax.containers:
        points, _, (collection,) = container if container[2] else (container[0], (), (None,))
        segments = (
            collection.get_segments() if collection else [[p, p] for p in points.get_xydata()]
        )
        found[container.get_label()] = [
            (x, round(float(y)), a[0], b[0])
            for x, y, (a, b) in zip(*points.get_data(), segments, strict=True)
        ]
    return found


def test_a_dot_is_a_median_and_its_bar_the_quartiles(results: Any) -> None:
    rows = [
        speed_row("PyTorch", 1),
        speed_row("lnlib", 2.5, quartiles="2.25 to 4"),
        speed_row("lnlib", 0.75, rows=50, quartiles="0.5 to 0.875"),
        speed_row("composed formula", 8, rows=50, quartiles="7 to 10"),
    ]
    results("speed", *rows, *({**row, "pass": BOTH} for row in rows))
    for ax in drawings.speed().axes:
        assert bars(ax) == {
            "lnlib": [(2.5, 0, 2.25, 4.0), (0.75, 1, 0.5, 0.875)],
            "composed formula": [(8.0, 1, 7.0, 10.0)],
        }
        assert [label.get_text() for label in ax.get_yticklabels()] == ["5 × 7", "50 × 7"]


def test_memory_is_told_in_units_of_x(results: Any) -> None:
    row = {"provider": "lnlib", "rows": 5, "features": 7, "bytes_of_x": 140, "peak_bytes": 350}
    results("memory", *(row | {"dtype": d} for d in ("bfloat16", "float32", "float64")))
    for ax in drawings.memory().axes:
        assert bars(ax) == {"lnlib": [(2.5, 0, 2.5, 2.5)]}


def lstm_row(provider: str, which: str, over: float, steps: int = 28) -> dict[str, object]:
    case = {"kind": "sequences", "batch": 64, "steps": steps, "hidden_size": 128, "device": "cpu"}
    found = {"over_lstm": over, "quartiles": f"{over} to {2 * over}"}
    return {"provider": provider, "pass": which, **case, **found}


def test_each_lstm_has_a_line_with_both_passes(results: Any) -> None:
    results(
        "lstm",
        *(lstm_row("nn.LSTM", which, 1) for which in (BOTH, FORWARD)),
        *(lstm_row("lnlib", which, 2) for which in (BOTH, FORWARD)),
        *(lstm_row("naive loop", which, 5, 784) for which in (BOTH, FORWARD)),
        lstm_row("naive loop", BOTH, 9) | {"device": "H200"},
        lstm_row("naive loop", BOTH, 9) | {"batch": 1},
        lstm_row("naive loop", BOTH, 9) | {"kind": "a cell"},
    )
    short, long = drawings.lstm().axes
    assert [label.get_text() for label in short.get_yticklabels()] == ["lnlib"]
    assert bars(short) == {which: [(2.0, 0, 2.0, 4.0)] for which in (BOTH, FORWARD)}
    assert bars(long) == {which: [(5.0, 0, 5.0, 10.0)] for which in (BOTH, FORWARD)}


def test_each_method_has_a_line_in_each_panel_and_a_nan_a_cross_at_its_top(results: Any) -> None:
    rows = []
    for dtype, (i, name) in itertools.product(DTYPES, enumerate(drawings.METHODS)):
        for power, mean in enumerate(("0", "1", "100")):
            value = "nan" if (name, power) == ("one pass", 2) else 30.0 ** (i * power / 3)
            row = {"dtype": f"{dtype}".removeprefix("torch."), "mean_over_std": mean}
            rows.append(row | {"method": name, "y_over_rounding": value})
    results("accuracy", *rows)
    figure = drawings.accuracy()
    assert {*drawings.METHODS} == {*LOADERS}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*drawings.METHODS]
    assert {ax.get_title() for ax in figure.axes} == {row["dtype"] for row in rows}
    for ax in figure.axes:
        lines = {line.get_label(): line for line in ax.get_lines()}
        assert list(lines["Flax"].get_ydata()) == pytest.approx([1, 30**3, 30**6])
        (cross,) = [line for line in ax.get_lines() if line.get_marker() == "X"]
        assert (*cross.get_xdata(), *cross.get_ydata()) == (2, ax.get_ylim()[1])


# What the page says in words


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
