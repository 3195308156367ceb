"""What the chapter on kernels uses, and its exercise whose answer is a kernel."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from bench_layer_norm import chapter_source

from lnlib import formula
from lnlib.book.exercises.chapter_07 import rms_norm
from lnlib.book.experiments import kernels
from lnlib.book.home import ROOT
from lnlib.triton_kernel import runtime

if runtime.why_not():
    pytest.skip(f"its kernels need Triton: {runtime.why_not()}", allow_module_level=True)

triton, tl = kernels.interpreted()


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


# The exercise: RMS norm. Triton reads the source of a kernel, so each stands in a file.

RIGHT = """
@triton.jit
def kernel(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_H)
    mask = cols < H
    x = tl.load(x_ptr + row * H + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    tl.store(y_ptr + row * H + cols, weight * (x * scale), mask=mask)
"""
EMPTY = "@triton.jit\ndef kernel(x_ptr, weight_ptr, y_ptr, H, eps, BLOCK_H: tl.constexpr): ...\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Any:
    """Make a kernel of its source."""

    def make(source: str) -> Any:
        path = tmp_path / f"of_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(source, "utf8")
        own = {"triton": triton, "tl": tl}
        exec(compile(source, path, "exec"), own)
        return own["kernel"]

    return make


def test_a_right_kernel_is_right_and_another_kind_of_answer_is_told_what_to_do(kernel: Any) -> None:
    assert rms_norm.verdict(kernel(RIGHT)).message == "right"
    assert "write the body" in rms_norm.verdict(kernel(EMPTY)).message
    assert "write the body" in rms_norm.verdict(None).message
    no_kernel = rms_norm.verdict(lambda x, weight, eps: formula.layer_norm(x, weight, eps=eps))
    assert "@triton.jit" in no_kernel.message


@pytest.mark.parametrize(("right", "wrong", "hint"), [
    ("axis=0) / H", "axis=0) / BLOCK_H", "not by BLOCK_H"),
    ("row * H + cols, mask=mask, other=0.0)", "row * H + cols)", "reads on into the next one"),
    ("(x * scale), mask=mask)", "(x * scale))", "mask the store"),
    ("row * H + ", "", "NaN in row 2 of 3, column 1 of 5"),
    ("tl.store", "tl.stor", "stor"),
])  # fmt: skip
def test_a_kernel_that_is_near_gets_a_hint_that_fits(
    right: str, wrong: str, hint: str, kernel: Any
) -> None:
    verdict = rms_norm.verdict(kernel(RIGHT.replace(right, wrong)))
    assert not verdict.right
    assert hint in verdict.message


# The chapter's own kernels


def test_the_kernels_of_the_chapter_compile_for_a_gpu_as_they_stand(tmp_path: Path) -> None:
    import triton as compiler
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    path = tmp_path / "chapter.py"
    path.write_text(chapter_source(), "utf8")
    cells = nbformat.read(ROOT / "notebooks" / "07_triton_kernel.ipynb", as_version=4).cells
    launched = re.findall(r"(\w+)\[\(\w+,\)\]\(", "\n".join(cell.source for cell in cells))
    spec = importlib.util.spec_from_file_location("chapter", path)
    chapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chapter)
    assert {"copy", "forward", "normalize_rows", "backward", "long_mean"} <= set(launched)
    for name in {*launched, "rms_norm_solved"}:
        kernel = getattr(chapter, name)
        types = {
            each: "*fp32" if each.endswith("_ptr") else "fp32" if each == "eps" else "i32"
            for each in kernel.arg_names
        }
        sizes = {name: 16 for name in types if name.startswith("BLOCK_")}
        types |= dict.fromkeys(sizes, "constexpr")
        built = compiler.compile(ASTSource(kernel, types, sizes), target=GPUTarget("cuda", 90, 32))
        assert built.asm["cubin"], name


# What a reader copies


@pytest.mark.tier("all")
def test_the_glue_runs_as_printed_in_an_empty_folder(tmp_path: Path) -> None:
    """The printed imports and the cells that the page names, and torch and Triton alone."""
    cells = nbformat.read(ROOT / "notebooks" / "07_triton_kernel.ipynb", as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    imports, tuning = re.findall(r"```python\n(.+?)```", prose, re.DOTALL)
    named = "load", "forward", "gradient", "backward", "LayerNorm", "differentiate"
    starts = tuple(f"@triton.jit\ndef {name}(" for name in named[:4])
    starts += "class LayerNorm(", "def differentiate("
    copied = [c.source for c in cells if c.cell_type == "code" and c.source.startswith(starts)]
    assert len(copied) == len(named)
    (tmp_path / "glue.py").write_text("\n\n\n".join([imports, *copied, tuning]), "utf8")
    (tmp_path / "use.py").write_text(USE, "utf8")
    ran = subprocess.run(
        [sys.executable, "use.py"],
        cwd=tmp_path,
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "right\n", ran.stdout + ran.stderr


USE = """
import sys

import torch
import torch.nn.functional as F
from glue import LayerNorm, configs, tuned

torch.manual_seed(0)
given = [3 + torch.randn(2, 5, 13), torch.randn(13), torch.randn(13)]
x, weight, bias = (tensor.requires_grad_() for tensor in given)
y = LayerNorm.apply(x.flatten(0, -2), weight, bias, 1e-5).view_as(x)
dy = torch.randn_like(y)
grads = torch.autograd.grad(y, given, dy)
exact = [tensor.detach().double().requires_grad_() for tensor in given]
truth = F.layer_norm(exact[0], (13,), exact[1], exact[2], 1e-5)
right = torch.autograd.grad(truth, exact, dy.double())
for found, true in zip((y, *grads), (truth, *right)):
    torch.testing.assert_close(found.double(), true, atol=2e-5, rtol=0)

assert "lnlib" not in sys.modules
tried = []


def times(call, **_):
    call()
    tried.append(len(tried))
    return 3 * [1 + (len(tried) != 2)]  # the second is the fastest


tuned._do_bench = times
memory = torch.empty(4, 5, 13)
mean, rstd = torch.empty(2, 5)
rows = x.detach()[0].contiguous()
tuned[(5,)](rows, weight, bias, memory[0], mean, rstd, 13, 1e-5, BLOCK_H=16)
assert len(tried) == len(configs) and tuned.best_config.num_warps == 2
torch.testing.assert_close(memory[0], y[0].detach())
print("right")
"""
