"""What the kernels become for GPUs that are not here. Nothing is run; `gpu_code` says how.

What is compiled is the largest row of each kind of tile, where registers are scarcest, and what
makes loads hard: an odd number of features, parameters of another dtype than x, a misaligned
pointer.
"""

import ast
import math
import sys
from functools import cache

import pytest
import torch
from tiers import few

if sys.platform == "linux":
    import gpu_code
    from gpu_code import TARGETS, Launch, parameter, passes, read, rows
else:
    pytest.skip("Triton exists for Linux alone", allow_module_level=True)

from lnlib.triton_kernel import tiles

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
DX, SUMS = (True, False, False), (False, True, True)
WIDEST = "cuda:80", 8191, "layer_norm_bwd"
# What Triton compiles for, and the shared memory of a multiprocessor.
CHIPS = {"A100": ("cuda:80", 164 * 1024), "H200": ("cuda:90", 228 * 1024)}
SHARED = {"cuda": 99 * 1024, "hip": 64 * 1024}  # of a program, at most: GeForce cards have least
# H, dtype of x, of weight and bias, layout of x and dy.
CASES = [
    (7, BF16, BF16, "contiguous"),
    (64, F32, F32, "contiguous"),
    (1000, BF16, F32, "contiguous"),
    (1023, F32, F32, "contiguous"),
    (2047, F16, F32, "contiguous"),
    (4096, BF16, BF16, "strided"),
    (8191, F32, F32, "contiguous"),
    (8192, BF16, F32, "contiguous"),
    (8192, F32, F32, "misaligned"),
    (31, F64, F64, "contiguous"),
    (2048, F64, F64, "contiguous"),
    (16384, BF16, F32, "contiguous"),
    (16383, F32, F32, "contiguous"),
    (40000, F32, F32, "contiguous"),
]


@cache
def launched(case: int) -> list[Launch]:
    H, dtype, of_parameters, layout = CASES[case]
    x, p = rows(H, dtype, layout), parameter(H, of_parameters)
    return passes(x, p, p, x)


@cache
def reports(case: int, target: str) -> list[tuple[Launch, gpu_code.Report]]:
    return [(each, read(each.compile(target))) for each in launched(case)]


def name(case: int) -> str:
    H, dtype, of_parameters, layout = CASES[case]
    return f"{H}-{dtype}-{of_parameters}-{layout}".replace("torch.", "")


every_case = few("case", range(len(CASES)), [1, 7, 10], "weekly", ids=name)
every_target = few("target", [*TARGETS], ["cuda:90"], "weekly")


@every_target
@every_case
def test_a_program_fits_into_the_registers_and_the_shared_memory(case, target):
    for each, report in reports(case, target):
        # To share a multiprocessor, the widest forward passes of half types give a few numbers up.
        is_limited = "maxnreg" in each.options and CASES[case][1] != F32
        # Of short float64 rows, for which nothing is fused, one number goes, of 40 registers.
        most = 80 if is_limited and target != "hip:gfx942" else 8 * (CASES[case][:2] == (31, F64))
        # Of the widest rows that start anywhere, four; to hold them was the faster on an H200.
        most = 16 if (target, CASES[case][0], each.name) == WIDEST else most
        assert report.stack <= most, f"{each.name}: {report}"
        assert most or report.spills == 0, f"{each.name}: {report}"
        assert report.shared <= SHARED[target.split(":")[0]], f"{each.name}: {report}"


@every_target
@every_case
def test_a_thread_moves_all_that_it_owns_of_a_row_at_once_up_to_16_bytes(case, target):
    for each, report in reports(case, target):
        for operand in ("x", "y", "dy", "dx"):
            owned = gpu_code.owned(each, operand, TARGETS[target].warp_size)
            assert report.width(operand) >= owned, f"{each.name}, {operand}: {report.accesses}"


def held(each: Launch, chip: str) -> int:
    """Return how many such programs a multiprocessor holds: 2,048 threads, 65,536 registers."""
    target, shared = CHIPS[chip]
    report = read(each.compile(target))
    threads = 32 * each.options["num_warps"]
    granted = 8 * math.ceil(report.registers / 8) * threads
    limits = [32, 2048 // threads, 65536 // granted]
    if report.shared:
        limits.append(shared // (report.shared + 1024))  # the system keeps 1 KB of each
    return min(limits)


@few("chip", ["A100", "H200"], 1, "weekly")
@few("H", [16, 31, 63, 64, 100, 128, 255, 256, 512, 769, 1024, 4095, 8192], 3, "weekly")
def test_as_many_programs_fit_as_share_the_rows(H, chip):
    """`tiles.programs` counts on 16 warps to a multiprocessor; others would wait for a turn."""
    x, p = rows(H, BF16), parameter(H, F32)
    for each in passes(x, p, p, x):
        if each.name == "layer_norm_bwd":
            assert held(each, chip) >= 16 // each.options["num_warps"]


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize("H", [9000, 16384])
def test_two_of_the_widest_forward_programs_share_a_multiprocessor(H, dtype):
    """One computes while the other loads: with γ and β loaded early, as one might, one fits."""
    x, p = rows(H, dtype), parameter(H, dtype)
    forward = passes(x, p, p)[0]
    assert held(forward, "H200") == 2


@pytest.mark.parametrize("H", [1000, 4096, 16384])
def test_a_row_waits_five_times_forward_and_three_times_backward(H):
    """A sum over the row takes two barriers, or three before another; two sums are one."""
    x, p = rows(H, BF16), parameter(H, BF16)
    forward, backward, *_ = passes(x, p, p)
    report = read(forward.compile("cuda:90"))
    assert report.barriers == (5, 0)
    assert report.late == {"weight", "bias"}
    if backward.name == "layer_norm_bwd":
        assert read(backward.compile("cuda:90")).barriers[1] == 3


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("H", [8192, 16384])
def test_dy_of_a_wider_type_than_x_fits_too(H):
    """As autocast has it: y, and so dy, is float32 where x is narrow."""
    x, dy, p = rows(H, BF16), rows(H, F32), parameter(H, F32)
    for each in passes(x, p, p, dy):
        assert read(each.compile("cuda:90")).shared <= SHARED["cuda"], each.name


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("needs", [(True, True, True), (False, True, False), (True, False, True)])
def test_a_second_program_sums_only_where_two_gradients_are_asked_for(needs):
    for H in (1000, 16384):
        x, p = rows(H, BF16), parameter(H, BF16)
        *_, last = passes(x, p, p, x, needs)
        assert last.name == "sum_partials"
        assert last.grid[1] == needs[1] + needs[2]


@pytest.mark.parametrize("H", [2**27, 2**27 + 1])
def test_no_grid_is_larger_than_a_gpu_takes(H):
    """In its first direction 2³¹ − 1 programs, in the others 65,535."""
    x, p = rows(H, BF16), parameter(H, BF16)
    for needs in ((True, True, True), DX, SUMS):
        for each in passes(x, p, p, x, needs):
            first, *others = each.grid
            assert first < 2**31, each.name
            assert max(others, default=1) <= 65535, each.name


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("target", ["cuda:80", "cuda:90"])
@pytest.mark.parametrize("H", [1000, 8192])
def test_the_backward_pass_fetches_the_next_rows_while_it_computes(H, target):
    case = next(i for i, case in enumerate(CASES) if case[0] == H and case[1] == BF16)
    ahead = {each.name: report.ahead for each, report in reports(case, target)}
    assert ahead["layer_norm_bwd"] >= {"x", "dy"}


def test_the_cases_compile_every_kernel_there_is():
    kernels = {name for name in vars(gpu_code.KERNELS) if name.endswith("_kernel")}
    compiled = {each.kernel.fn.__name__ for case in range(len(CASES)) for each in launched(case)}
    assert compiled == kernels


@pytest.mark.parametrize("H", [768, 1000, 4096])
def test_16_bytes_are_owned_where_rows_start_at_multiples_of_them(H):
    x, p = rows(H, BF16), parameter(H, BF16)
    forward, backward, _ = passes(x, p, p)
    assert [gpu_code.owned(forward, o, 32) for o in ("x", "y")] == [16, 16]
    assert [gpu_code.owned(backward, o, 32) for o in ("x", "dy", "dx")] == [16, 16, 16]
    late = rows(H, BF16, "misaligned")
    assert gpu_code.owned(passes(late, p, p)[0], "x", 32) == 2


@pytest.mark.tier("weekly")
@every_target
def test_a_backward_tile_of_twice_the_size_would_not_fit(target, monkeypatch):
    """So that the limit is needed, and the report can see it broken."""
    monkeypatch.setattr(tiles, "BACKWARD", 2 * tiles.BACKWARD)
    monkeypatch.setattr(gpu_code.launch, "_backward", gpu_code.launch._backward.__wrapped__)
    H = tiles.BACKWARD
    x, p = rows(H, F32), parameter(H, F32)
    (backward,) = (each for each in passes(x, p, p) if each.name == "layer_norm_bwd")
    report = read(backward.compile(target))
    assert report.stack > 0
    assert report.spills > 0


def keys(B: int, strides: tuple[int, int], **kwargs) -> set[str]:
    """Return what Triton compiles for ``B`` rows of 1000, x and dy so far apart."""
    x, dy = (
        torch.empty(1, dtype=BF16, device="meta").as_strided((B, 1000), (stride, 1))
        for stride in strides
    )
    p = parameter(1000, F32)
    return {each.key("cuda:90") for each in passes(x, p, p, dy, **kwargs)}


ALIGNED = [(1000, 1000), (1008, 1000), (1024, 4096), (16000, 1016), (80000, 2**31 - 8)]


@pytest.mark.parametrize("needs", [(True, True, True), DX, SUMS])
def test_other_batches_and_strides_compile_nothing_new(needs):
    """A row count of 1 or a multiple of 16 is what Triton would make another kernel for."""
    once = keys(3, (1000, 1000), needs=needs)
    for B in (1, 2, 16, 17, 4096, 65536):
        for strides in ALIGNED:
            assert keys(B, strides, needs=needs) == once


def test_other_values_of_eps_compile_nothing_new():
    x = rows(1000, BF16)
    found = {
        each.key("cuda:90")
        for eps in (0.0, 1e-12, 1e-5, 0.5, 1.0, 1)
        for each in gpu_code.launches(lambda eps=eps: gpu_code.launch.forward(x, None, None, eps))
    }
    assert len(found) == 1
    assert "fp64" not in found.pop()


def test_only_what_needs_64_bits_makes_another_kernel():
    assert keys(2, (2**31 - 8, 1000)) == keys(2, (1000, 1000))
    assert keys(2, (2**31, 1000)) != keys(2, (1000, 1000))
    assert keys(2, (2**31, 1000)) == keys(2, (2**40, 1000))


def test_rows_that_start_elsewhere_make_another_kernel_for_each_power_of_two_alone():
    """Up to 16 bytes, so at most four of them for a dtype of two bytes."""
    found = [keys(3, (stride, stride)) for stride in range(1000, 1064)]
    assert len(set(map(frozenset, found))) == 4


def test_the_kernels_are_plain_triton():
    """No library or assembly of one vendor, and no order that differs from run to run."""
    tree = ast.parse(gpu_code.SOURCE.read_text(encoding="utf8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    forbidden = {"inline_asm_elementwise", "extra", "libdevice", "atomic_add", "atomic_cas"}
    assert not {name for name in used if name in forbidden or name.startswith("atomic")}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node) for node in imports} == {
        "import triton",
        "import triton.language as tl",
    }


@pytest.mark.parametrize("case", [7, 11], ids=name)
def test_no_number_changes_threads_on_its_way(case):
    """Not even a float32 weight beside a bfloat16 x: each load has the layout of what it meets."""
    for each, report in reports(case, "cuda:90"):
        if each.name.startswith("layer_norm_fwd"):
            assert report.shared < 1024, f"{each.name}: {report}"
