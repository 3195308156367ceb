"""What the chapter on kernels uses, and its exercise whose answer is a kernel."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest
import torch

from lnlib import formula
from lnlib.book import pictures
from lnlib.book.exercises.chapter_07 import rms_norm
from lnlib.book.experiments import kernels
from lnlib.book.home import ROOT
from lnlib.book.records import kernels as results
from lnlib.book.records.kernels import COLUMNS
from lnlib.triton_kernel import runtime

if runtime.why_not():
    pytest.skip(f"its kernels need Triton: {runtime.why_not()}", allow_module_level=True)

triton, tl = kernels.interpreted()
H200 = {"bandwidth": 4.8e12, "rate": 67e12}


# Triton on a CPU


@triton.jit
def twice(x, mask):
    return tl.where(mask, x + x, 0.0)


@triton.jit(do_not_specialize=["H"])
def sum_of_twice(x_ptr, out_ptr, H, BLOCK_H: tl.constexpr):
    cols = tl.arange(0, BLOCK_H)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * H + cols, mask=cols < H, other=0.0)
    tl.store(out_ptr + row, tl.sum(twice(x, cols < H), axis=0))


def test_a_kernel_defined_by_a_reader_runs_on_cpu_tensors() -> None:
    torch.manual_seed(0)
    x, out = torch.randn(3, 5), torch.empty(3)
    sum_of_twice[(3,)](x, out, 5, BLOCK_H=8)
    torch.testing.assert_close(out, 2 * x.sum(1))


def test_whoever_else_uses_triton_keeps_the_compiler() -> None:
    variable = os.environ.get("TRITON_INTERPRET")
    kernels.interpreted()
    import triton as public

    assert public is not triton
    assert os.environ.get("TRITON_INTERPRET") == variable
    assert sys.modules["triton"] is public
    if not variable:
        assert type(public.jit(twice.fn)).__name__ == "JITFunction"


def test_without_triton_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "why_not", lambda: "pip install it")
    with pytest.raises(ImportError, match="pip install it"):
        kernels.interpreted()


# Drawings


@pytest.fixture
def ax() -> Any:
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_marks_stand_on_the_roof_on_both_sides_of_its_bend(ax: Any) -> None:
    pictures.roofline(ax, **H200, work={"slow": (2.5, "left"), "dense": (40.0, "right")})
    roof, *marks = ax.get_lines()[:3]
    assert roof.get_ydata().tolist() == pytest.approx([0.2 * 4.8, 67, 67])
    heights = [float(mark.get_ydata()[0]) for mark in marks]
    assert heights == pytest.approx([2.5 * 4.8, 67])
    assert {text.get_text() for text in ax.texts} >= {"slow", "dense"}


def test_the_bound_is_the_bytes_over_the_bandwidth(ax: Any) -> None:
    pictures.bounds(ax, H200["bandwidth"], {"4 bytes": 4, "6 bytes": 6})
    for line, byte_count in zip(ax.get_lines(), (4, 6), strict=True):
        for elements, microseconds in line.get_xydata():
            assert microseconds == pytest.approx(byte_count * elements / 4.8e6)


def test_each_direction_has_the_marks_of_its_providers(ax: Any) -> None:
    speeds = [
        results.Speed("lnlib", "forward", 1 << 21, 3.0),
        results.Speed("PyTorch", "forward", 1 << 21, 4.0),
        results.Speed("lnlib", "forward", 1 << 25, 30.0),
        results.Speed("lnlib", "backward", 1 << 25, 60.0),
    ]
    results.times(ax, speeds, "forward")
    drawn = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    assert drawn == {"PyTorch": [[1 << 21, 4.0]], "lnlib": [[1 << 21, 3.0], [1 << 25, 30.0]]}


def test_nothing_recorded_draws_nothing(ax: Any) -> None:
    results.times(ax, [], "backward")
    assert not ax.get_lines()


# What was timed


def result(**changes: str) -> dict[str, str]:
    row = dict.fromkeys(COLUMNS, "")
    row |= {"provider": "lnlib", "pass": "forward", "dtype": "bfloat16", "device": "NVIDIA H200"}
    row |= {"rows": "8192", "features": "4096", "median_us": "31.5"}
    return row | {"date": "2026-02-02", "code": "new"} | changes


LEFT_OUT = {
    "another type": {"dtype": "float32"},
    "another GPU": {"device": "NVIDIA A100"},
    "not timed": {"median_us": ""},
}


def test_a_recorded_time_is_drawn_at_rows_times_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "read_results", lambda: [result()])
    assert results.recorded_speeds() == [results.Speed("lnlib", "forward", 8192 * 4096, 31.5)]


@pytest.mark.parametrize("changes", LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_does_not_belong_beside_the_bounds_is_left_out(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    monkeypatch.setattr(results, "read_results", lambda: [result(**changes)])
    assert results.recorded_speeds() == []


def test_of_several_kernels_those_that_were_timed_last_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = result(code="old", date="2026-01-31", median_us="12")
    monkeypatch.setattr(results, "read_results", lambda: [old, result()])
    assert [speed.microseconds for speed in results.recorded_speeds()] == [31.5]


def test_both_passes_are_timed_with_all_three_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timed by a stand-in, on the CPU: whether the GPU is asked the right thing."""
    ran = []

    def do_bench(run: Callable[[], Any], return_mode: str) -> float:
        ran.append(run())
        return 0.25  # milliseconds

    randn = torch.randn
    monkeypatch.setattr(torch, "randn", lambda *size, device, dtype: randn(*size).to(dtype=dtype))
    monkeypatch.setitem(sys.modules, "triton.testing", SimpleNamespace(do_bench=do_bench))
    speeds = kernels.timed("mine", torch.nn.functional.layer_norm, rows=[3, 6], features=5)
    assert [(s.direction, s.elements) for s in speeds] == [
        *(("forward", 15), ("backward", 15)),
        *(("forward", 30), ("backward", 30)),
    ]
    assert {(s.provider, s.microseconds) for s in speeds} == {("mine", 250.0)}
    assert ran[0].shape == (3, 5)
    assert [grad.shape for grad in ran[1]] == [(3, 5), (5,), (5,)]
    assert ran[0].dtype == ran[1][0].dtype == torch.bfloat16


# The exercise: RMS norm


@triton.jit
def right(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_H)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    tl.store(y_ptr + row * H + cols, weight * (x * scale), mask=mask)


@triton.jit
def with_mean_square(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_H)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    y = weight * x / tl.sqrt(tl.sum(x * x, axis=0) / BLOCK_H + eps)
    tl.store(y_ptr + row * H + cols, y, mask=mask)


@triton.jit
def load_without_mask(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_H)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    y = weight * x / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    tl.store(y_ptr + row * H + cols, y, mask=mask)


@triton.jit
def store_without_mask(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_H)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    y = weight * x / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    tl.store(y_ptr + row * H + cols, y)


@triton.jit
def first_row_alone(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    cols = tl.arange(0, BLOCK_H)
    mask = cols < H
    x = tl.load(x_ptr + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    y = weight * x / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    tl.store(y_ptr + cols, y, mask=mask)


@triton.jit
def nothing_yet(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr): ...


@triton.jit
def misspelled(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    tl.store(y_ptr, tl.laod(x_ptr))


def test_a_right_kernel_is_right() -> None:
    assert rms_norm.verdict(right).message == "right"


MISSED = [
    (with_mean_square, "not by BLOCK_H"),
    (load_without_mask, "reads on into the next one"),
    (store_without_mask, "mask the store"),
    (first_row_alone, "NaN in row 2 of 3, column 1 of 5"),
    (misspelled, "laod"),
    (lambda x, weight, eps: formula.layer_norm(x, weight, eps=eps, center=False), "@triton.jit"),
    (None, "write the body"),
    (nothing_yet, "write the body"),
]


@pytest.mark.parametrize(("kernel", "hint"), MISSED, ids=[hint for _, hint in MISSED])
def test_a_kernel_that_is_near_gets_a_hint_that_fits(kernel: Any, hint: str) -> None:
    verdict = rms_norm.verdict(kernel)
    assert not verdict.right
    assert hint in verdict.message


# The chapter's own kernels


def kernels_of_the_chapter() -> tuple[str, list[str]]:
    """Return the source of all functions under ``@triton.jit``, and the names that are launched."""
    cells = nbformat.read(ROOT / "notebooks" / "07_triton_kernel.ipynb", as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    jitted = [
        ast.unparse(node)
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    ]
    return "\n\n\n".join(jitted), re.findall(r"(\w+)\[\(\w+,\)\]\(", code)


def test_the_kernels_of_the_chapter_compile_for_a_gpu_as_they_stand(tmp_path: Path) -> None:
    import triton as compiler
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source, launched = kernels_of_the_chapter()
    path = tmp_path / "chapter.py"
    path.write_text(f"import triton\nimport triton.language as tl\n\n\n{source}\n", "utf8")
    spec = importlib.util.spec_from_file_location("chapter", path)
    chapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chapter)
    assert {"copy", "forward", "backward", "long_mean"} <= set(launched)
    for name in {*launched, "rms_norm_solved"}:
        kernel = getattr(chapter, name)
        types = {
            each: "*fp32" if each.endswith("_ptr") else "fp32" if each == "eps" else "i32"
            for each in kernel.arg_names
        }
        sizes = {"BLOCK_H": 16} if "BLOCK_H" in types else {}
        types |= dict.fromkeys(sizes, "constexpr")
        built = compiler.compile(ASTSource(kernel, types, sizes), target=GPUTarget("cuda", 90, 32))
        assert built.asm["cubin"], name
