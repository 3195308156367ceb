"""The program a GPU would run, run here: the PTX of the kernels, on `ptx_machine`.

Triton's interpreter never sees what its compiler decides: which thread has what, how wide a load
is, what goes through shared memory and after which barrier, what is copied ahead, how a number is
rounded. All of that is in the PTX, so it is executed: the numbers have to be right, and nothing may
be left to chance.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tiers import few
from torch import Tensor

if sys.platform == "linux":
    import gpu_code
    import ptx_machine
    import test_lstm_triton as steps
    from ptx_instructions import PtxError, fma32, fma64, from_bf16, to_bf16, to_f16
    from ptx_machine import Machine, executing, parse
    from ptx_memory import Tensors
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


# The machine


def run(body: str, x: Tensor, *grid: int) -> Tensor:
    """Run a kernel of 64 threads on ``x``: %r2 is where a thread's word of shared memory is, %rd2
    where its word of ``x`` is."""
    ptx = f"""
        .visible .entry k(
            .param .u64 .ptr .global .align 1 k_param_0
        )
        .reqntid 64
        {{
            .reg .pred %p<9>;
            .reg .b16 %rs<9>;
            .reg .b32 %r<9>;
            .reg .b64 %rd<9>;
            ld.param.b64 %rd1, [k_param_0];
            mov.u32 %r1, %tid.x;
            shl.b32 %r2, %r1, 2;
            mad.wide.u32 %rd2, %r1, 4, %rd1;
            {body}
            ret;
        }}
    """
    tensors = Tensors({"x": x})
    Machine(parse(ptx), grid or (1,), [tensors.address(x)], tensors, shared=256).run()
    tensors.give_back()
    return x


def numbers() -> Tensor:
    return torch.arange(64, dtype=torch.int32)


LOAD = "ld.global.b32 %r3, [ %rd2 + 0 ];"
STORE = "st.global.b32 [ %rd2 + 0 ], { %r5 };"
FROM_THE_END = "xor.b32 %r4, %r2, 252; ld.shared.b32 %r5, [%r4];".replace("; ", ";\n")
REVERSE = f"""
    {LOAD}
    st.shared.b32 [ %r2 + 0 ], %r3;
    bar.sync 0;
    {FROM_THE_END}
    {STORE}
"""
COPY_AHEAD = f"""
    cp.async.ca.shared.global [ %r2 + 0 ], [ %rd2 + 0 ], 0x4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    {FROM_THE_END}
    {STORE}
"""
WORKS: dict[str, tuple[str, list[int]]] = {
    "what is after a barrier": (REVERSE, [*range(63, -1, -1)]),
    "a copy that was waited for": (COPY_AHEAD, [*range(63, -1, -1)]),
    "what another thread of the warp has": (
        f"{LOAD}\nshfl.sync.bfly.b32 %r5, %r3, 5, 31, -1;\n{STORE}",
        [n ^ 5 for n in range(64)],
    ),
    "a loop takes each warp as often as it asks": (
        f"""
            shr.u32 %r3, %r1, 5;
            mov.b32 %r5, 10;
        $again:
            add.s32 %r5, %r5, 1;
            setp.ge.s32 %p1, %r3, 1;
            sub.s32 %r3, %r3, 1;
            @%p1 bra $again;
            {STORE}
        """,
        [*[11] * 32, *[12] * 32],
    ),
    "threads that part meet again where they need each other": (
        f"""
            mov.b32 %r3, 1;
            setp.lt.u32 %p1, %r1, 5;
            @%p1 bra $few;
            mov.b32 %r3, 2;
        $few:
            shfl.sync.bfly.b32 %r5, %r3, 31, 31, -1;
            {STORE}
        """,
        [*[2] * 27, *[1] * 5, *[2] * 32],
    ),
    "threads whose predicate is false keep what they have": (
        """
            setp.lt.u32 %p1, %r1, 40;
            mov.b32 %r3, -7;
            @%p1 ld.global.b32 { %r3 }, [ %rd2 + 0 ];
            @!%p1 st.global.b32 [ %rd2 + 0 ], { %r3 };
        """,
        [*range(40), *[-7] * 24],
    ),
    "words are taken apart and put together from the lowest part": (
        f"{LOAD}\nmov.b32 {{%rs1, %rs2}}, %r3;\nmov.b32 %r5, {{%rs2, %rs1}};\n{STORE}",
        [n << 16 for n in range(64)],
    ),
    "what threads of a program write alike is no race": (
        f"""
            and.b32 %r3, %r2, 7;
            st.shared.b32 [ %r3 + 0 ], %r3;
            bar.sync 0;
            ld.shared.b32 %r5, [%r3];
            {STORE}
        """,
        [n % 2 * 4 for n in range(64)],
    ),
}


@pytest.mark.parametrize("case", WORKS)
def test_what_is_not_left_to_chance_is_done(case):
    body, expected = WORKS[case]
    assert run(body, numbers()).tolist() == expected


@pytest.mark.parametrize("across", ["", ".trans"])
def test_a_matrix_is_loaded_along_its_rows_or_across_them(across):
    body = f"""
        {LOAD}
        st.shared.b32 [ %r2 + 0 ], %r3;
        bar.sync 0;
        and.b32 %r4, %r1, 7;
        shl.b32 %r4, %r4, 4;
        ldmatrix.sync.aligned.m8n8.x1{across}.shared.b16 {{%r5}}, [%r4];
        setp.lt.u32 %p1, %r1, 32;
        @%p1 {STORE}
    """
    matrix = torch.arange(128, dtype=torch.int16)
    found = run(body, matrix.clone())[:64].view(8, 8)
    assert torch.equal(found, matrix[:64].view(8, 8).mT if across else matrix[:64].view(8, 8))


def test_programs_know_their_place_on_each_axis_of_the_grid():
    body = """
        mov.u32 %r3, %ctaid.x;
        mov.u32 %r4, %ctaid.y;
        mov.u32 %r5, %ctaid.z;
        mov.u32 %r6, %nctaid.x;
        mov.u32 %r7, %nctaid.y;
        mad.lo.s32 %r8, %r5, %r7, %r4;
        mad.lo.s32 %r8, %r8, %r6, %r3;
        mad.wide.u32 %rd3, %r8, 4, %rd1;
        mad.lo.s32 %r3, %r4, 10, %r3;
        mad.lo.s32 %r3, %r5, 100, %r3;
        setp.eq.s32 %p1, %r1, 0;
        @%p1 st.global.b32 [ %rd3 + 0 ], { %r3 };
    """
    places = [100 * z + 10 * y + x for z in range(2) for y in range(4) for x in range(3)]
    assert run(body, numbers()[:24].clone(), 3, 4, 2).tolist() == places


FAULTS = {
    "a race: thread 0 is where thread 63 wrote, and no barrier": REVERSE.replace("bar.sync 0;", ""),
    "a race: thread 0 is where thread 63 read, and no barrier": REVERSE
    + "st.shared.b32 [ %r2 + 0 ], %r3;",
    "a race: several threads write to one place at once": "st.shared.b32 [ 0 + 0 ], %r1;",
    "a race: warp 0 is where warp 1 read, and no barrier": """
        xor.b32 %r4, %r1, 63;
        mad.wide.u32 %rd3, %r4, 4, %rd1;
        ld.global.b32 %r3, [ %rd3 + 0 ];
        st.global.b32 [ %rd2 + 0 ], { %r3 };
    """,
    "misaligned for its 16 bytes: x [+] 4 bytes, of thread 1": """
        ld.global.v4.b32 {%r3, %r4, %r5, %r6}, [%rd2];
    """,
    "out of the bounds of every tensor: x [+] 256 bytes, of thread 63": """
        ld.global.b32 %r3, [%rd2+4];
    """,
    "out of the bounds of the program's shared memory: address 256": "ld.shared.b32 %r3, [%r2+4];",
    "reads what nobody has written": "ld.shared.b32 %r3, [%r2];",
    "nobody has waited for it": COPY_AHEAD.replace("wait_group 0", "wait_group 1"),
    "a race: thread 0 is where thread 63 wrote": COPY_AHEAD.replace("bar.sync 0;", ""),
    "threads wait for others that never come": """
        setp.lt.u32 %p1, %r1, 40;
        @%p1 bra $there;
        shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;
    $there:
    """,
    "a part of a warp does what all of it has to": """
        setp.lt.u32 %p1, %r1, 40;
        @%p1 shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;
    """,
    "wait for others that never come": """
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra $there;
        bar.sync 0;
    $there:
    """,
    "not known here: atom.global.add.u32": "atom.global.add.u32 %r3, [%rd2], 1;",
    "a barrier of some threads is not modelled": "bar.sync 1, 32;",
    "not known here: add.ftz.f32": "add.ftz.f32 %r3, %r1, %r2;",
}


@pytest.mark.parametrize("message", FAULTS)
def test_what_is_left_to_chance_is_refused(message):
    with pytest.raises(PtxError, match=message):
        run(FAULTS[message], numbers())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("st.global.b32 [ %rd2 + 0 ], { %r1 };", "several programs write to one place"),
        (
            """
            mov.u32 %r3, %ctaid.x;
            setp.eq.b32 %p1, %r3, 0;
            @%p1 st.global.b32 [ %rd2 + 0 ], { %r1 };
            bar.sync 0;
            @!%p1 ld.global.b32 { %r4 }, [ %rd2 + 0 ];
            """,
            "is where warp 0 wrote, of another program",
        ),
    ],
    ids=["writes", "reads"],
)
def test_no_program_may_be_where_another_writes(body, message):
    run(body, numbers())
    with pytest.raises(PtxError, match=message):
        run(body, numbers(), 2)


def test_what_lies_between_the_rows_of_a_tensor_is_out_of_its_bounds():
    apart = torch.zeros(2, 64, dtype=torch.int32)[:, :63]
    with pytest.raises(PtxError, match=r"x \+ 252 bytes, of thread 63"):
        run("ld.global.b32 %r3, [%rd2];", apart)


# Its arithmetic


def nearest(exact: Fraction, dtype: Any) -> Any:
    near = dtype(float(exact))
    around = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    bits = f"u{near.itemsize}"
    return min(around, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(bits)) & 1))


@pytest.mark.parametrize(
    ("fma", "dtype", "digits"), [(fma32, np.float32, 24), (fma64, np.float64, 53)]
)
def test_a_fused_multiply_add_is_rounded_once(fma, dtype, digits):
    """Above all where the sum lies next to the middle between two numbers, or almost cancels."""
    draw = np.random.default_rng(0)
    few = 1 + draw.integers(0, 2 ** (digits // 2), 1000) / 2.0 ** (digits // 2)  # ties, as products
    many = 1 + draw.random(1000)
    a, b = (
        np.concatenate([few, many]).astype(dtype),
        np.concatenate([few[::-1], many]).astype(dtype),
    )
    small = np.ldexp(draw.choice([-1.0, 1.0], 2000), draw.integers(-3 * digits, 2, 2000))
    for c in (small.astype(dtype), -(a * b)):
        for found, *given in zip(fma(a, b, c), a, b, c, strict=True):
            x, y, z = map(Fraction, map(float, given))
            assert found == nearest(x * y + z, dtype), given


def test_narrow_numbers_are_rounded_as_pytorch_does():
    ends = np.array([0, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits = (np.arange(2**16, dtype=np.uint32)[:, None] << np.uint32(16) | ends).ravel()
    given = bits.view(np.float32)
    given = given[~np.isnan(given)]
    for convert, dtype in ((to_bf16, BF16), (to_f16, F16)):
        with np.errstate(over="ignore"):
            found = convert(given)
        expected = torch.from_numpy(given).to(dtype).view(torch.int16).numpy().view(np.uint16)
        np.testing.assert_array_equal(found, expected)
    exact = given[given.view(np.uint32) % 2**16 == 0]
    np.testing.assert_array_equal(from_bf16(to_bf16(exact)), exact)


# The kernels

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
    x[0] += 1000.0 if dtype != F64 else 0.0  # the truth itself would lose digits
    x[-1] = x[-1, 0]
    dy = rand(B, H, seed=3).to(dtype)
    dy = dy[:1, :1].expand(B, H) if layout == "expanded" else laid_out(dy, layout)
    weight, bias = (rand(H, seed=seed).to(of_parameters) for seed in (1, 2))
    return laid_out(x.to(dtype), layout), weight, bias, dy


def both_passes(case: Any, first: int = 0, **how: Any) -> tuple[dict[str, Tensor], set[str]]:
    """Return what both passes give, executed from the ``first`` row on, and the kernels' names."""
    x, weight, bias, dy = operands(case)
    x, dy = x[first:], dy[first:]
    before = [tensor.clone() for tensor in operands(case)]
    with executing(**how) as runs:
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
@pytest.mark.parametrize("case", [case for case in CASES if case[1] < 16], ids=name)
def test_threads_that_share_a_row_agree_where_no_product_is_fused_with_a_sum(case):
    results, _ = both_passes(case, enable_fp_fusion=False)
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


# What the interpreter would not notice. Each of the cases above holds as it is.


def replacing(kernel: str, pattern: str, by: str, which: int = 0) -> Callable[[str, str], str]:
    """Return an edit of what a pattern finds in one kernel."""

    def edit(name: str, ptx: str) -> str:
        if name != kernel:
            return ptx
        found = list(re.finditer(pattern, ptx))[which]
        return ptx[: found.start()] + found.expand(by) + ptx[found.end() :]

    return edit


BARRIER = r"bar\.sync\s+0;"
WAIT = r"cp\.async\.wait_group\s+\d+;"


@pytest.mark.tier("weekly")
def test_no_barrier_of_the_forward_pass_can_be_left_out():
    kept: list[str] = []
    both_passes(PIPELINED, edit=lambda name, ptx: kept.append(ptx) or ptx)
    barriers = len(re.findall(BARRIER, kept[0]))
    assert barriers > 2
    for which in range(barriers):
        edit = replacing("layer_norm_fwd", BARRIER, "", which)
        with pytest.raises(PtxError, match=r"a race: .* and no barrier is between"):
            both_passes(PIPELINED, edit=edit)


@pytest.mark.tier("weekly")
@pytest.mark.parametrize(
    ("pattern", "by", "message"),
    [
        (rf"({WAIT}\s+){BARRIER}", r"\1", "a race: .* wrote, and no barrier is between"),
        (WAIT, "cp.async.wait_group 99;", "nobody has waited for it"),
    ],
    ids=["barrier", "wait"],
)
def test_the_backward_pass_waits_for_what_it_copies_ahead(pattern, by, message):
    with pytest.raises(PtxError, match=message):
        both_passes(PIPELINED, edit=replacing("layer_norm_bwd", pattern, by))


@pytest.mark.tier("weekly")
def test_a_false_promise_that_x_begins_at_16_bytes_is_noticed(monkeypatch):
    """The kernel is compiled for x elsewhere, as if Triton had not looked at its address."""
    compiled_for = ptx_machine.compiled_for

    def promised(made: gpu_code.Launch, target: str) -> Any:
        elsewhere = [p.clone() if isinstance(p, Tensor) else p for p in made.operands]
        return compiled_for(made._replace(operands=tuple(elsewhere)), target)

    monkeypatch.setattr(ptx_machine, "compiled_for", promised)
    with pytest.raises(PtxError, match=r"misaligned for its 16 bytes: x_ptr \+ 0 bytes"):
        both_passes(CASES[6])


@pytest.mark.tier("weekly")
def test_a_false_promise_that_rows_begin_at_16_bytes_is_noticed(monkeypatch):
    monkeypatch.setattr(tiles, "unit", lambda stride, itemsize: 16 // itemsize)
    with pytest.raises(PtxError, match=r"out of the bounds of every tensor: x_ptr \+ \d+ bytes"):
        both_passes(CASES[5])
