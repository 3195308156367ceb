"""Do the kernels fit into the registers of GPUs, and do they move 16 bytes at a time?

Run ``python benchmarks/bench_triton_compiled.py``. It needs no GPU, takes about ten minutes, and
writes ``benchmarks/results/triton_compiled.csv``.

Every launch that `lnlib.triton_kernel.launch` makes for the operands listed in `cases` is compiled
for each GPU of `triton_report.TARGETS`, and the machine code is read. A row of the table is one
kernel as compiled: "features" is H, "parameters" the dtype of weight and bias, "gradients" which of
dx, dweight and dbias are asked for. "registers" are those of a thread; "stack" the bytes it keeps
outside of them, and "spills" the instructions that go there, both 0 unless registers ran out;
"shared" the bytes of a program. "x", "y", "dy" and "dx" are the fewest bytes that an instruction
moves of that operand, and "ahead" names those that are copied while the program computes.
"programs" is how many a multiprocessor has room for.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from typing import Any

import torch
import triton
from results_table import provenance, write
from triton_report import (
    NEEDS,
    SHARED,
    TARGETS,
    Launch,
    parameter,
    passes,
    programs_at_once,
    read,
    rows,
)

from lnlib.triton_kernel.launch import Needs

BF16 = torch.bfloat16
DX = (True, False, False)
POWERS = [2**k for k in range(18)]
ODD = [n - 1 for n in POWERS[2:]]
BETWEEN = [1000, 5000, 5120, *(3 * 2**k for k in range(2, 16))]
OPERANDS = ("x", "y", "dy", "dx")
GRADIENTS = ("dx", "dweight", "dbias")
NUMBERS = ("registers", "stack", "spills", "shared", "barriers")


def cases() -> Iterator[tuple[dict[str, Any], list[Launch]]]:
    """Yield what is asked for, and the launches for it."""
    for H in sorted(POWERS + ODD + BETWEEN):
        yield case(H, BF16)
        yield case(H, BF16, parameters=torch.float32)
        yield case(H, BF16, parameters=None, needs=DX)
        yield case(H, torch.float32)
        yield case(H, torch.float32, needs=DX)
        yield case(H, torch.float64)
    for H in POWERS:
        yield case(H, torch.float16)
        for dtype, layout in product((BF16, torch.float32), ("misaligned", "strided", "expanded")):
            yield case(H, dtype, layout=layout)
    for H, needs in product(POWERS, product((True, False), repeat=3)):
        if any(needs):
            yield case(H, BF16, needs=needs)


def case(
    H: int,
    dtype: torch.dtype,
    parameters: torch.dtype | str | None = "same",
    needs: Needs = NEEDS,
    layout: str = "contiguous",
) -> tuple[dict[str, Any], list[Launch]]:
    kind = dtype if parameters == "same" else parameters
    given = None if kind is None else parameter(H, kind)
    dy = rows(H, dtype, layout)
    x = rows(H, dtype) if layout == "expanded" else dy  # as from y.sum().backward()
    what = {"dtype": name(dtype), "parameters": name(kind), "layout": layout}
    what["gradients"] = " ".join(g for g, need in zip(GRADIENTS, needs, strict=True) if need)
    return what, passes(x, given, given, dy, needs)


def name(dtype: torch.dtype | None) -> str:
    return str(dtype).removeprefix("torch.").lower()


def sweep(target: str) -> list[dict[str, Any]]:
    """Compile each launch for ``target``, those that Triton takes for the same one once."""
    seen, table = set(), []
    for what, launched in cases():
        for each in launched:
            key = each.key(target)
            if key not in seen:
                seen.add(key)
                table.append(row(what, each, target))
    return table


def row(what: dict[str, Any], launched: Launch, target: str) -> dict[str, Any]:
    report = read(launched.compile(target))
    given, warps = launched.by_name, launched.options["num_warps"]
    row = {"kernel": launched.name, "target": target, "features": given["H"]} | what
    row |= {"rows_per_tile": given.get("BLOCK_B", 1), "features_per_tile": given["BLOCK_H"]}
    row |= {"warps": warps} | {field: getattr(report, field) for field in NUMBERS}
    row |= {operand: report.width(operand) for operand in OPERANDS}
    row["ahead"] = " ".join(sorted(report.ahead & set(OPERANDS)))
    row["programs"] = programs_at_once(report, warps, target) if target in SHARED else ""
    return row


def main() -> None:
    versions = {"triton": triton.__version__, "torch": torch.__version__}
    said = provenance("triton_compiled")  # the machine that compiles has no say in it
    where = {"date": said["date"]} | versions | {"code": said["code"]}
    with ProcessPoolExecutor() as pool:
        table = list(chain.from_iterable(pool.map(sweep, TARGETS)))
    write("triton_compiled", [row | where for row in table])
    spilled = [row for row in table if row["stack"] or row["spills"]]
    print(f"{len(table)} kernels compiled, {len(spilled)} do not fit into the registers")
    for row in spilled:
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main()
