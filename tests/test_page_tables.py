"""What the page on benchmarks shows of the tables: each number is the one that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bench_layer_norm
import page_tables
import pytest
import torch
import torch.nn.functional as F
from docutils import nodes
from drawings import speed
from matplotlib import pyplot as plt
from results_table import save

import lnlib
from lnlib.book.home import ROOT
from lnlib.book.records import kernels, tables

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
    (part,) = page_tables.TABLES[name](tables.rows_of(tables.RESULTS / f"{name}.csv"))
    return [[entry.astext() for entry in row] for row in part.findall(nodes.row)]


def page(name: str = "benchmarks") -> str:
    """Return the text of a page."""
    return (ROOT / "book" / f"{name}.md").read_text(encoding="utf8")


# Tables


def speed_row(provider: str, over: object, **other: object) -> dict[str, object]:
    row = {"provider": provider, "pass": FORWARD, "dtype": "float32", "rows": 5, "features": 7}
    return row | {"over_torch": over, "quartiles": f"{over} to {over}"} | other


def test_speed_is_the_range_over_shapes_of_each_pass_and_type(results: Any) -> None:
    ours = [speed_row("lnlib", over, rows=rows) for rows, over in ((5, 12), (50, "1.5"), (9, 3))]
    both = [row | {"pass": BOTH, "over_torch": 2} for row in ours]
    narrow = speed_row("lnlib", 7, dtype="bfloat16")
    results("speed", speed_row("PyTorch", 1), *ours, *both, narrow, narrow | {"pass": BOTH})
    lines = shown("speed")
    assert lines == [
        ["time over PyTorch's", FORWARD, BOTH],
        ["lnlib, float32", "1.5 to 12", "2"],
        ["lnlib, bfloat16", "7", "7"],
    ]


def test_constant_rows_leave_out_when_and_where(results: Any) -> None:
    types = {"float16": "β", "bfloat16": "", "float32": "off by 2", "float64": "β"}
    own = {"date": "2026-11-22", "machine": "a", "commit": "b"}
    results("accuracy_constant_rows", {"method": "m", **types, "version": "1", **own})
    head, row = shown("accuracy_constant_rows")
    assert head == ["method", *types, "version"]
    assert row == ["m", *types.values(), "1"]


def test_a_table_says_when_where_and_at_which_commit_it_was_measured(results: Any) -> None:
    where = {"date": "2026-01-02", "commit": "0123456789ab", "machine": "abacus", "torch": "2.13.0"}
    results("speed", where, where, where | {"commit": "ba9876543210-dirty"})
    path = tables.RESULTS / "speed.csv"
    said = "2026-01-02, commit 0123456789ab, commit ba9876543210-dirty, abacus, PyTorch 2.13.0"
    assert page_tables.line(path) == ["speed", said]
    assert page_tables.line(path.with_name("layer_norm.csv")) == ["layer_norm", "not yet"]


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
    for ax in speed.speed().axes:
        assert bars(ax) == {
            "lnlib": [(2.5, 0, 2.25, 4.0), (0.75, 1, 0.5, 0.875)],
            "composed formula": [(8.0, 1, 7.0, 10.0)],
        }
        assert [label.get_text() for label in ax.get_yticklabels()] == ["5 × 7", "50 × 7"]


def test_memory_is_told_in_units_of_x(results: Any) -> None:
    row = {"provider": "lnlib", "rows": 5, "features": 7, "bytes_of_x": 140, "peak_bytes": 350}
    results("memory", *(row | {"dtype": d} for d in ("bfloat16", "float32", "float64")))
    for ax in speed.memory().axes:
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
    short, long = speed.lstm().axes
    assert [label.get_text() for label in short.get_yticklabels()] == ["lnlib"]
    assert bars(short) == {which: [(2.0, 0, 2.0, 4.0)] for which in (BOTH, FORWARD)}
    assert bars(long) == {which: [(5.0, 0, 5.0, 10.0)] for which in (BOTH, FORWARD)}


# What the page says in words


def rows_of(name: str) -> list[dict[str, str]]:
    return tables.rows_of(ROOT / "benchmarks" / "results" / f"{name}.csv")


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


def kernel_rows() -> list[kernels.Comparison]:
    """Return each pass over each shape that is timed at 256 MB and more, in bfloat16."""
    blank = dict.fromkeys(kernels.COLUMNS, "1") | {"provider": "lnlib", "dtype": "bfloat16"}
    return kernels.comparisons(
        blank | {"pass": which, "rows": f"{B}", "features": f"{H}", "regime": "memory"}
        for B, H in bench_layer_norm.SHAPES
        if bench_layer_norm.regime_of(B, H, 2) == "memory"
        for which in ("forward", "backward")
    )


@pytest.mark.parametrize(
    ("which", "features", "moved"),  # bytes an element, if no cache keeps a row
    [
        *[("forward", 16384, 4), ("forward", 16385, 6), ("forward", 8191, 4), ("forward", 8193, 4)],
        *[("backward", 8192, 6), ("backward", 12288, 10), ("backward", 4095, 6)],
        *[("backward", 4097, 6), ("backward", 5000, 6), ("backward", 8191, 6)],
    ],
)
def test_a_target_for_the_speed_is_one_that_the_bytes_allow(
    which: str, features: int, moved: int
) -> None:
    row = dict.fromkeys(kernels.COLUMNS, "1") | {"provider": "lnlib", "dtype": "bfloat16"}
    (one,) = kernels.comparisons([row | {"pass": which, "features": f"{features}"}])
    assert one.ceiling == pytest.approx({"forward": 4, "backward": 6}[which] / moved)


def test_the_page_states_the_targets_that_results_are_judged_by() -> None:
    section = page().split("The targets, on an H200", 1)[1].split("\n#", 1)[0]
    forward, backward, *_ = kernels.summary([])
    ceilings = sorted({(c.row["pass"], c.ceiling) for c in kernel_rows()}, reverse=True)
    assert [round(100 * c) for _, c in ceilings] == [100, 67, 100, 60]
    for which, ceiling in ceilings:
        target = {"forward": forward, "backward": backward}[which].target
        assert f"{round(100 * ceiling * target)} %" in section
        assert ceiling == 1 or f"{round(100 * ceiling)} %" in section
