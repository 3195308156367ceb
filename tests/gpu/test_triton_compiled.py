"""What the kernels become for GPUs that are not here. Nothing is run; `gpu_code` says how.

What is compiled is the largest row of each kind of tile, where registers are scarcest, and what
makes loads hard: an odd number of features, parameters of another dtype than x, a misaligned
pointer.
"""

import itertools
import math
import sys
from functools import cache
from typing import Any

import pytest
import torch
from tiers import few

if sys.platform == "linux":
    import gpu_code
    from gpu_code import TARGETS, Launch, parameter, passes, read, rows
    from test_lstm_triton import take_both_steps
else:
    pytest.skip("Triton exists for Linux alone", allow_module_level=True)

from lnlib.triton_kernel import launch, tiles

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
ALL = True, True, True
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
    (tiles.FORWARD, BF16, F32, "contiguous"),
    (tiles.FORWARD - 1, F32, F32, "contiguous"),
    (40000, F32, F32, "contiguous"),
    (8192, BF16, F32, "dy as autocast has it"),
    (16384, BF16, F32, "dy as autocast has it"),
]


@cache
def reports(case: int, target: str) -> list[tuple[Launch, gpu_code.Report]]:
    H, dtype, of_parameters, layout = CASES[case]
    x, p = rows(H, dtype, layout), parameter(H, of_parameters)
    dy = rows(H, F32) if layout == "dy as autocast has it" else x
    return [(each, read(each.compile(target))) for each in passes(x, p, p, dy)]


def name(case: int) -> str:
    return "-".join(map(str, CASES[case])).replace("torch.", "")


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


@few("target", ["cuda:80", "cuda:90"], ["cuda:90"], "weekly")
@few("case", range(len(CASES)), [3, 4, 5, 7, 8], "weekly", ids=name)
def test_a_thread_moves_all_that_it_owns_of_a_row_at_once_and_no_more_than_is_aligned(case, target):
    for each, report in reports(case, target):
        for operand in ("x", "y", "dy", "dx"):
            fewest, most = gpu_code.at_once(each, operand, TARGETS[target].warp_size)
            widths = report.widths(operand)
            assert fewest <= min(widths), f"{each.name}, {operand}: {report.accesses}"
            assert max(widths) <= most or not most, f"{each.name}, {operand}: {report.accesses}"
            if case == 7 and f"{operand}_ptr" in each.by_name and each.name != "sum_partials":
                assert fewest == 16


@few("chip", ["A100", "H200"], 1, "weekly")
@few("H", [16, 31, 63, 64, 100, 128, 255, 256, 512, 769, 1024, 4095, 8192, 16384], 3, "weekly")
def test_as_many_programs_fit_as_share_the_rows(H, chip):
    """`tiles.programs` counts on 16 warps to a multiprocessor; others would wait for a turn.

    It holds two of the widest forward programs, of which one computes while the other loads: with
    γ and β loaded early, as one might, one fits.
    """
    x, p = rows(H, BF16), parameter(H, F32)
    target, shared = CHIPS[chip]
    for each in passes(x, p, p, x):
        report, warps = read(each.compile(target)), each.options["num_warps"]
        granted = 8 * math.ceil(report.registers / 8) * 32 * warps
        # The system keeps 1 KB of shared memory for each.
        held = min(64 // warps, 65536 // granted, shared // (report.shared + 1024))
        if each.name == "layer_norm_bwd" and H <= tiles.BACKWARD:
            assert held >= 16 // warps
        if each.name == "layer_norm_fwd" and warps == 16:
            assert held == 2


@pytest.mark.parametrize("H", [1000, 16384])
def test_a_row_waits_five_times_forward(H):
    """A sum over the row takes two barriers, or three before another; two sums are one."""
    x, p = rows(H, BF16), parameter(H, BF16)
    assert read(passes(x, p, p)[0].compile("cuda:90")).barriers == 5


@pytest.mark.tier("weekly")
@pytest.mark.parametrize("target", ["cuda:80", "cuda:90"])
def test_the_backward_pass_fetches_the_next_rows_while_it_computes(target):
    ahead = {each.name: report.ahead for each, report in reports(7, target)}
    assert ahead["layer_norm_bwd"] >= {"x", "dy"}


@pytest.mark.parametrize("case", [7, 11], ids=name)
def test_no_number_changes_threads_on_its_way(case):
    """Not even a float32 weight beside a bfloat16 x: each load has the layout of what it meets."""
    for each, report in reports(case, "cuda:90"):
        if each.name.startswith("layer_norm_fwd"):
            assert report.shared < 1024, f"{each.name}: {report}"


# What the interpreter does not see of the arithmetic


SHORT = [(13, F32, F32), (64, F32, F16), (100, BF16, BF16), (128, F32, F32)]
SHORT += [(129, F64, F64), (255, F64, F64), (256, F64, F64), (520, F64, BF16)]
PROGRAMS = [*(each for each in CASES if "dy" not in each[-1]), *((*e, "contiguous") for e in SHORT)]


def launches_of(case: Any) -> list[Launch]:
    H, dtype, of_parameters, layout = case
    p = parameter(H, of_parameters)
    return passes(rows(H, dtype, layout), p, p)


def fused_with_others(program: list[gpu_code.Instruction]) -> set[str]:
    """Return which lines of the source add a product of one's own to what another thread sends."""
    sent, places = set[str](), set[str]()
    for name, operands, place in program:
        to, *sources = operands or [""]
        if name.startswith("shfl."):
            sent.add(to)
        elif name.startswith(("mov.", "cvt.u64.", "shl.", "or.")) and sent.intersection(sources):
            sent.add(to)  # of float64 each half is sent alone
        elif name.startswith("fma.") and sources[-1] in sent:
            places.add(place)
    return places


@few("case", PROGRAMS, 7, "weekly", ids=str)
def test_threads_that_share_a_row_agree_on_its_sums(case):
    """A product that one of them adds unrounded is rounded by the others."""
    for each in launches_of(case):
        program = gpu_code.instructions(each.compile("cuda:90"))
        assert fused_with_others(program) == set(), each.name


def test_every_kernel_is_among_these_programs():
    names = {each.name for case in PROGRAMS for each in launches_of(case)}
    kernels = {name for name in vars(gpu_code.KERNELS) if name.endswith("_kernel")}
    assert names == {name.removesuffix("_kernel") for name in kernels}


@few("H", [7, 31, 129], 1, "weekly")
def test_so_they_do_in_a_step_of_the_lstm(H):
    taken: list[Launch] = []
    with gpu_code.taking(taken.append):
        take_both_steps(H, F32)
    for each in taken:
        program = gpu_code.instructions(each.compile("cuda:90"))
        assert fused_with_others(program) == set(), each.name


@few("case", PROGRAMS, 3, "weekly", ids=str)
def test_quotients_and_roots_are_correctly_rounded(case):
    for each in launches_of(case):
        names = {one.name for one in gpu_code.instructions(each.compile("cuda:90"))}
        assert {one for one in names if ".approx" in one or ".full" in one} == set(), each.name


# Launches


@pytest.mark.parametrize(("H", "dtype"), [(13, F16), (8191, F32), (8193, F64), (2**27 + 1, BF16)])
def test_there_are_few_launches_each_of_a_grid_that_a_gpu_takes(H, dtype):
    """One forward, at most three backward; 2³¹ − 1 programs, in other directions 65,535."""
    x, p = rows(H, dtype), parameter(H, dtype)
    for needs in itertools.product((True, False), repeat=3):
        forward, *backward = launches = passes(x, p, p, x, needs)
        assert forward.name.startswith("layer_norm_fwd")
        is_long = tiles.backward(H, max(4, x.itemsize)) is None
        assert len(backward) == 1 + any(needs[1:]) + (needs[0] and is_long)
        for each in launches:
            first, *others = each.grid
            assert first < 2**31, each.name
            assert max(others, default=1) <= 65535, each.name
        if any(needs[1:]):
            assert backward[-1].name == "sum_partials"
            assert backward[-1].grid[1] == needs[1] + needs[2]


def keys(B: int, strides: tuple[int, int], needs: tuple[bool, ...] = ALL) -> set[str]:
    """Return what Triton compiles for ``B`` rows of 1000, x and dy so far apart."""
    x, dy = (
        torch.empty(1, dtype=BF16, device="meta").as_strided((B, 1000), (stride, 1))
        for stride in strides
    )
    p = parameter(1000, F32)
    return {each.key("cuda:90") for each in passes(x, p, p, dy, needs)}


@pytest.mark.parametrize("needs", [ALL, (True, False, False), (False, True, True)])
def test_other_batches_and_strides_compile_nothing_new(needs):
    """A row count of 1 or a multiple of 16 is what Triton would make another kernel for."""
    once = keys(3, (1000, 1000), needs)
    aligned = [(1000, 1000), (1008, 1000), (1024, 4096), (16000, 1016), (80000, 2**31 - 8)]
    for B in (1, 2, 16, 17, 4096, 65536):
        for strides in aligned:
            assert keys(B, strides, needs) == once
    assert keys(1, (1, 1003), needs) == once  # the stride of a single row says nothing


def test_a_launcher_tells_apart_whatever_triton_compiles_anew():
    """Else a launch would take what was compiled for other operands. No eps is compiled for."""
    found: dict[Any, set[str]] = {}
    layouts = ("contiguous", "misaligned", "strided", "expanded")
    for H, dtype, layout in itertools.product((16, 1000, 16400), (BF16, F32), layouts):
        x = rows(H, dtype, layout)
        for p, apart, eps in itertools.product((F32, BF16, None), (H, 2**31), (0.0, 1.0)):
            weight = None if p is None else parameter(H, p)
            for each in passes(x, weight, weight, x.as_strided((3, H), (apart, 1)), eps=eps):
                constants = [value for name, value in each.by_name.items() if name.isupper()]
                _, kinds = launch._read([v for n, v in each.by_name.items() if not n.isupper()])
                found.setdefault((each.name, *constants, *kinds), set()).add(each.key("cuda:90"))
    assert [len(keys) for keys in found.values()] == [1] * len(found)


def test_long_rows_that_start_anywhere_are_read_in_short_tiles_and_not_ahead():
    launches = [passes(rows(16400, F32, layout)) for layout in ("contiguous", "misaligned")]
    for aligned, anywhere in zip(*launches, strict=True):
        if aligned.name != "sum_partials":
            is_shorter = anywhere.by_name["BLOCK_H"] < aligned.by_name["BLOCK_H"]
            assert is_shorter == (aligned.name != "layer_norm_bwd")  # whose tile has fewer rows
            assert anywhere.by_name.get("STAGES", 1) == 1 < aligned.by_name.get("STAGES", 2)


def test_only_strides_of_64_bits_and_other_powers_of_two_make_another_kernel():
    assert keys(2, (2**31 - 8, 1000)) == keys(2, (1000, 1000))
    assert keys(2, (2**31, 1000)) != keys(2, (1000, 1000))
    assert keys(2, (2**31, 1000)) == keys(2, (2**40, 1000))
    found = [keys(3, (stride, stride)) for stride in range(1000, 1064)]
    assert len(set(map(frozenset, found))) == 4  # up to 16 bytes, of two each
