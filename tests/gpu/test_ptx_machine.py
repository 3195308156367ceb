"""The program a GPU would run, run here: the PTX of the kernels, on `ptx_machine`.

Triton's interpreter never sees what its compiler decides: which thread has what, how wide a load
is, what goes through shared memory and after which barrier, what is copied ahead, how a number is
rounded. All of that is in the PTX, so it is executed: the numbers have to be right, and nothing may
be left to chance.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch
from tiers import few
from torch import Tensor

if sys.platform == "linux":
    import gpu_code
    import ptx_machine
    import test_lstm_triton as steps
    from ptx_instructions import PtxError
    from ptx_machine import executing, parse
    from test_triton_kernel import NAMES, assert_right, rand
else:
    pytest.skip("Triton exists for Linux alone", allow_module_level=True)

from lnlib.triton_kernel import PASSES, tiles

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


@pytest.fixture(autouse=True)
def memory_that_nobody_wrote_is_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


# What the kernels give

# Rows, H, dtype of x, of weight and bias, layout of x and dy. Rows are as few as take every turn: a
# tile that is not full, and for a backward program more tiles than it reads ahead.
CASES = [
    (37, 7, BF16, BF16, "contiguous"),
    (70, 13, F32, F32, "contiguous"),
    (70, 64, F32, F16, "contiguous"),
    (17, 1000, BF16, F32, "contiguous"),
    (5, 1023, F32, F32, "contiguous"),
    (5, 2046, F16, F32, "strided"),
    (5, 1000, BF16, BF16, "misaligned"),
    (5, 768, F32, F32, "expanded"),
    (9, 31, F64, F64, "contiguous"),
    (5, 520, F64, BF16, "contiguous"),
    (2, 8200, F32, F32, "misaligned"),
    (2, 12289, F32, BF16, "contiguous"),
    (2, 16388, F32, F32, "contiguous"),
    (7, 4097, F32, F32, "contiguous"),
]
FEW = [(3, 100, BF16, BF16), (3, 128, F32, F32), (3, 255, F64, F64), (3, 256, F64, F64)]
PIPELINED = CASES[3]
HERE = [CASES[2], PIPELINED, CASES[10], CASES[12]]  # run each kernel once; all, each week


def name(case: Any) -> str:
    B, H, dtype, of_parameters, layout = case
    return f"{B}-{H}-{dtype}-{of_parameters}-{layout}".replace("torch.", "")


def laid_out(rows: Tensor, layout: str) -> Tensor:
    """Return these rows where `gpu_code.rows` has those of a layout; nothing between them."""
    B, H = rows.shape
    late, apart = layout == "misaligned", H + (layout == "strided")
    at = torch.full((late + B * apart,), torch.nan, dtype=rows.dtype)[late:].view(B, apart)[:, :H]
    at.copy_(rows)
    return at


@cache
def operands(case: Any) -> tuple[Tensor, ...]:
    """Return x, weight, bias, dy. The first row of x is far from 0, the last one is constant."""
    B, H, dtype, of_parameters, layout = case
    x = 3.0 + rand(B, H, dtype=F64)
    x[0] += 1000.0
    x[-1] = x[-1, 0]
    dy = rand(B, H, seed=3).to(dtype)
    dy = dy[:1, :1].expand(B, H) if layout == "expanded" else laid_out(dy, layout)
    weight, bias = (rand(H, seed=seed).to(of_parameters) for seed in (1, 2))
    return laid_out(x.to(dtype), layout), weight, bias, dy


def both_passes(
    case: Any, first: int = 0, target: str = "cuda:90"
) -> tuple[dict[str, Tensor], set[str]]:
    """Return what both passes give, executed from the ``first`` row on, and the kernels' names."""
    x, weight, bias, dy = operands(case)
    x, dy = x[first:], dy[first:]
    before = [tensor.clone() for tensor in operands(case)]
    with executing(target) as runs:
        y, statistics = PASSES.forward(x, weight, bias, 1e-5)
        needs = x.dtype, weight.dtype, bias.dtype
        grads = PASSES.backward(dy, x, weight, statistics, needs)
    assert all(map(torch.equal, operands(case), before))
    return dict(zip(NAMES, (y, *grads), strict=True)), {run.name for run in runs}


executed = cache(both_passes)


@few("case", CASES, HERE, "weekly", ids=name)
def test_both_passes_give_the_truth_and_leave_nothing_to_chance(case):
    results, _ = executed(case)
    assert_right(results, *operands(case), truncates=False)


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("case", [CASES[2], PIPELINED, CASES[5]], ids=name)
def test_an_older_gpu_gets_the_truth_too(case):
    results, _ = both_passes(case, target="cuda:80")
    assert_right(results, *operands(case), truncates=False)


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("case", [CASES[2], PIPELINED], ids=name)
def test_a_row_has_the_same_bits_in_any_batch(case):
    together, _ = executed(case)
    apart, _ = both_passes(case, first=3)
    for name in ("y", "dx"):
        assert torch.equal(apart[name], together[name][3:]), name


def test_the_cases_run_every_kernel_there_is():
    names = set().union(*(executed(case)[1] for case in HERE))
    kernels = {name for name in vars(gpu_code.KERNELS) if name.endswith("_kernel")}
    assert names == {name.removesuffix("_kernel") for name in kernels}


@pytest.mark.parametrize("carry", ["raw", "normalized"])
@few("H, dtype", [(7, F32), (129, F64), (129, F16), (129, BF16)], 1, "weekly")
def test_a_step_of_the_lstm_is_that_of_the_equations(H, dtype, carry):
    with executing() as runs:
        steps.test_a_step_is_that_of_the_equations_both_ways(H, dtype, carry, "cpu")
    assert [run.name for run in runs] == ["lstm_fwd", "lstm_bwd"]


# What threads that share a row have to agree about


def fused_with_others(ptx: str) -> set[str]:
    """Return which lines of the source add a product of one's own to what another thread sends."""
    sent: set[str] = set()
    places = set()
    for instruction in parse(ptx).instructions:
        kind, (to, *sources) = instruction.name, instruction.operands or ("",)
        if kind.startswith("shfl."):
            sent.add(to)
        elif kind.startswith(("mov.", "cvt.u64.", "shl.", "or.")) and sent.intersection(sources):
            sent.add(to)  # of float64 each half is sent alone
        elif kind.startswith("fma.") and sources[-1] in sent:
            places.add(instruction.place)
    return places


@pytest.mark.parametrize("case", [*CASES, *((*each, "contiguous") for each in FEW)], ids=name)
def test_no_product_is_added_unrounded_to_those_of_other_threads(case):
    _, H, dtype, of_parameters, layout = case
    x, p = gpu_code.rows(H, dtype, layout), gpu_code.parameter(H, of_parameters)
    for each in gpu_code.passes(x, p, p):
        places = fused_with_others(each.compile("cuda:90").asm["ptx"])
        assert not places, f"{each.name}: {places}"


@few("H", [7, 31, 129], 1, "weekly")
def test_nor_is_one_in_the_lstm(H):
    with executing() as runs:
        steps.test_a_step_is_that_of_the_equations_both_ways(H, F32, "raw", "cpu")
    for each in runs:
        places = fused_with_others(each.ptx)
        assert not places, f"{each.name}: {places}"


# What is left to chance: the compiled programs, each with one thing broken


def test_a_false_promise_that_rows_begin_at_16_bytes_is_noticed(monkeypatch):
    """What lies between the rows of a tensor is out of its bounds."""
    monkeypatch.setattr(tiles, "unit", lambda stride, itemsize: 16 // itemsize)
    with pytest.raises(PtxError, match=r"out of the bounds of every tensor: x_ptr \+ \d+ bytes"):
        both_passes(CASES[5])


BARRIER, SHUFFLE = r"bar\.sync\s+0;", r"(?=shfl\.sync\.bfly)"
THIRD = rf"((?:{BARRIER}[\s\S]*?){{2}}){BARRIER}"
THREAD = r"(mov\.u32\s+(%r\d+), %tid\.x;)([\s\S]*)(?=\n\s*ret;)"
SOME = r"\1\nsetp.lt.u32 %p99, \2, {};\n"  # of the 64 threads

# What the machine says, what it says that of, and what is put there.
BROKEN = [
    ("a race: .* wrote, and no barrier is between", BARRIER, ""),
    (
        "a race: .* read, and no barrier is between",
        rf"((?:{BARRIER}[\s\S]*?){{2}}){BARRIER}",
        r"\1",
    ),
    ("a race: .* wrote, and", rf"(wait_group[^;]*;[^;]*?){BARRIER}", r"\1"),
    ("several threads write to one place", r"(st\.shared\.b32 \[) %r\d+", r"\1 0"),
    ("several programs write to one place", r"%ctaid\.x", "0"),
    ("misaligned for its 16 bytes: x_ptr", r"(ld\.global\.v4.*?\+) 0", r"\1 4"),
    ("out of the bounds of every tensor", r"(ld\.global\.v4.*?\+) 0", r"\1 65536"),
    ("of the program's shared memory: address", r"(ld\.shared\.b32 .*?\+) 0", r"\1 65536"),
    ("reads what nobody has written", r"@%p\d+ st\.shared\.b32.*;", ""),
    ("nobody has waited for it", r"cp\.async\.wait_group\s+\d+;", ""),
    ("wait for others that never come", THREAD, SOME.format(40) + r"@%p99 bra $end;\3\n$end:"),
    ("wait for others that never come", THREAD, SOME.format(32) + r"@%p99 bra $end;\3\n$end:"),
    ("a part of a warp does what all", THREAD, (SOME.format(40) + r"\3", SHUFFLE, "@%p99 ")),
    ("a barrier of some threads is not modelled", BARRIER, "bar.sync 1, 32;"),
    ("not known here: add.ftz.f32", r"add\.f32", "add.ftz.f32"),
]


@pytest.mark.parametrize(("message", "pattern", "by"), BROKEN)
def test_what_is_left_to_chance_is_refused(message, pattern, by, monkeypatch):
    by, *more = (by,) if isinstance(by, str) else by

    def broken(ptx: str) -> Any:
        changed = re.sub(pattern, by, ptx, count=message.count("read,"))
        return parse(re.sub(*more, changed) if more else changed)

    monkeypatch.setattr(ptx_machine, "parse", broken)
    with pytest.raises(PtxError, match=message):
        both_passes(PIPELINED)
