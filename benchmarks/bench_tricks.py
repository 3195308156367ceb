"""What does each trick of the C++ kernel save? Writes ``benchmarks/results/tricks.csv``.

    python benchmarks/bench_tricks.py           # four minutes
    python benchmarks/bench_tricks.py --quick   # tiny sizes; only prints

The kernel of `lnlib.cpp_kernel` is compiled as it is, and once more for each trick, without it. All
are called by their address, with memory that Python makes anew for each call, and timed in turn on
this CPU beside PyTorch's two passes and a copy: forward of x, backward the sum of x and dy, which
read and write as much. A row has the median and the quartiles of the ratios to the kernel as it is,
round by round: above 1 is slower. First every result is compared with that of the kernel as it is.
"as it is, again" is the same kernel: so far from 1 chance may bring it.

With "float32 arithmetic" the kernel of float32 rows computes in float32 throughout.

All of it runs twice: with malloc "as it is", which gives large memory back to the system, so
that whoever is timed next fetches fresh pages; and "pinned", where what is given back stays. There
the kernels alone are compared.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import timing
import torch
from bench_speed import ratio
from results_table import noted, provenance, write
from torch import Tensor

from lnlib import cpp_kernel
from lnlib.cpp_kernel import compile

PINNED = {"MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
Row = dict[str, Any]
Run = Callable[[], list[Tensor]]
AS_IT_IS, AGAIN = "as it is", "as it is, again"
# What stands in the C++, and what in its place.
TRICKS: dict[str, tuple[str, str]] = {
    AGAIN: ("", ""),  # first: who comes after PyTorch finds its memory elsewhere
    AS_IT_IS: ("", ""),
    "next rows not asked for": ("if (R > 1) __builtin_prefetch", "if (false) __builtin_prefetch"),
    "lines asked for late": ("ASKED = 16384", "ASKED = 0"),
    "no huge pages": ("if (bytes >= HUGE_PAGES", "if (false"),
    "one row at a time": ("ROWS = DOUBLE ? 1 : 4", "ROWS = 1"),
    "numbers widened twice": ("KEPT = 16384 / BYTES", "KEPT = 0"),
    "every row measured twice": ("HALF || DOUBLE ? 2 : 1", "2"),
    "no named instructions": ("#define HAS_AVX512", ""),
    "float32 arithmetic": ("HALF = sizeof(Number) == 2", "HALF = sizeof(Number) <= 4"),
}
AVX2, PYTORCH, COPY = "AVX2", "PyTorch", "copy"
PASSES = "forward", "backward"
CASES = (
    *((512, 257, torch.float32), (4096, 768, torch.float32), (2048, 4096, torch.float32)),
    *((16384, 256, torch.float32), (2048, 1024, torch.bfloat16), (2048, 1024, torch.float64)),
)
QUICK = ((5, 7, torch.float32),)
# Of the largest number: all that roundings in the type of the arithmetic can make.
MOST_APART = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float64: 1e-13}


class Given(NamedTuple):
    """What both passes are called with."""

    x: Tensor
    dy: Tensor
    weight: Tensor
    bias: Tensor


def given(rows: int, features: int, dtype: torch.dtype) -> Given:
    """Return random numbers, the parameters in the dtype that C++ takes."""
    generator = torch.Generator().manual_seed(0)
    random = partial(torch.randn, generator=generator)
    x, dy = 3 + 2 * random(rows, features), random(rows, features)
    of_parameters = torch.float64 if dtype == torch.float64 else torch.float32
    weight, bias = 1 + random(features) / 4, random(features)
    return Given(x.to(dtype), dy.to(dtype), weight.to(of_parameters), bias.to(of_parameters))


def compiled(name: str, dtype: torch.dtype, folder: Path) -> cpp_kernel.Kernel:
    """Return the kernel for ``dtype`` without a trick, or for another processor."""
    there, instead = TRICKS.get(name, TRICKS[AS_IT_IS])
    place = folder / f"{name} {dtype}".replace(" ", "-")
    place.mkdir()
    for pattern in ("kernel.cpp", "*.h"):
        for file in cpp_kernel.SOURCE.parent.glob(pattern):
            text = file.read_text(encoding="utf8").replace(there, instead)
            (place / file.name).write_text(text, encoding="utf8")
    march = f"-march={'x86-64-v3' if name == AVX2 else 'native'}"
    files = ["-fPIC", "-shared", f"{place / cpp_kernel.SOURCE.name}", "-o", f"{place}.so"]
    subprocess.run(["g++", *compile.FLAGS, cpp_kernel.flag(dtype), march, *files], check=True)
    return cpp_kernel.bound(ctypes.CDLL(f"{place}.so"), dtype)


def of_kernel(kernel: cpp_kernel.Kernel, given: Given) -> dict[str, Run]:
    """Return both passes of a kernel, each of which makes its own memory."""
    x, dy, weight, bias = given
    (B, H), threads = x.shape, torch.get_num_threads()

    def forward() -> list[Tensor]:
        y, statistics = torch.empty_like(x), torch.empty(3, B, dtype=torch.float64)
        operands = (t.data_ptr() for t in (x, weight, bias, y, statistics))
        kernel.forward(B, H, threads, 1e-5, *operands)
        return [y, statistics]

    _, kept = forward()

    def backward() -> list[Tensor]:
        dx, (dweight, dbias) = torch.empty_like(x), torch.empty(2, H, dtype=weight.dtype)
        scratch = torch.empty(kernel.scratch(B, H), dtype=torch.float64)
        made = dx, dweight, dbias, scratch
        kernel.backward(B, H, threads, *(t.data_ptr() for t in (dy, x, kept, weight, *made)))
        return [dx, dweight, dbias]

    return {"forward": lambda: forward()[:1], "backward": backward}


def of_others(given: Given) -> dict[str, dict[str, Run]]:
    """Return both passes of PyTorch, and a copy of as many bytes."""
    x, dy, weight, bias = given.x, given.dy, given.weight.to(given.x), given.bias.to(given.x)
    H = x.shape[1:]
    _, mean, rstd = torch.native_layer_norm(x, H, weight, bias, 1e-5)
    backward = partial(torch.ops.aten.native_layer_norm_backward, dy, x, H, mean, rstd)
    return {
        PYTORCH: {
            "forward": lambda: list(torch.native_layer_norm(x, H, weight, bias, 1e-5)[:1]),
            "backward": lambda: list(backward(weight, bias, [True] * 3)),
        },
        COPY: {"forward": lambda: [x.clone()], "backward": lambda: [x + dy]},
    }


def check(name: str, found: list[Tensor], right: list[Tensor], dtype: torch.dtype) -> None:
    """Raise RuntimeError if a result is not that of the kernel as it is."""
    for mine, theirs in zip(found, right, strict=True):
        apart = (mine.double() - theirs.double()).abs().max() / theirs.double().abs().max()
        if not apart <= MOST_APART[dtype]:
            raise RuntimeError(f"{name}, {dtype}: off by {apart:.2g} of the largest number")


def table(is_quick: bool) -> Iterator[Row]:
    """Yield the rows of the table, or of tiny sizes."""
    cases, seconds, at_least = (QUICK, 0.0, 3) if is_quick else (CASES, 6.0, 15)
    with tempfile.TemporaryDirectory() as folder:
        kernels: dict[torch.dtype, dict[str, cpp_kernel.Kernel]] = {}
        for rows, features, dtype in cases:
            if dtype not in kernels:
                names = [n for n in TRICKS if dtype == torch.float32 or n != "float32 arithmetic"]
                kernels[dtype] = {n: compiled(n, dtype, Path(folder)) for n in (*names, AVX2)}
            yield from measure(given(rows, features, dtype), kernels[dtype], seconds, at_least)


def measure(
    given: Given, kernels: dict[str, cpp_kernel.Kernel], seconds: float, at_least: int
) -> Iterator[Row]:
    """Yield the rows of one shape and dtype."""
    (rows, features), dtype = given.x.shape, given.x.dtype
    passes = of_others(given)
    passes |= {name: of_kernel(kernel, given) for name, kernel in kernels.items()}
    right = {which: passes[AS_IT_IS][which]() for which in PASSES}
    for name in kernels:
        for which in PASSES:
            check(name, passes[name][which](), right[which], dtype)
    runs = {(name, which): by_pass[which] for name, by_pass in passes.items() for which in PASSES}
    times = timing.in_turn(runs, seconds, at_least, 60)
    for name, which in runs:
        over, quartiles = ratio(times[name, which], times[AS_IT_IS, which])
        yield {
            "kernel": name,
            "pass": which,
            "dtype": str(dtype).removeprefix("torch."),
            "rows": rows,
            "features": features,
            "ms": f"{1e3 * statistics.median(times[name, which]):.3g}",
            "over_kernel": over,
            "quartiles": quartiles,
            "rounds": len(times[name, which]),
        }


def where() -> Row:
    """Return what every row says of the machine, and of what else it was doing."""
    return provenance() | {
        "malloc": "pinned" if os.environ.keys() >= PINNED.keys() else "as it is",
        "threads": torch.get_num_threads(),
        "load": f"{os.getloadavg()[0]:.2f}",
        "torch": torch.__version__,
    }


def pinned() -> list[Row]:
    """Return the rows of another process, in which malloc keeps its memory."""
    command = [sys.executable, sys.argv[0], "--json"]
    run = subprocess.run(command, env=os.environ | PINNED, check=True, stdout=subprocess.PIPE)
    rows: list[Row] = json.loads(run.stdout.splitlines()[-1])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--json", action="store_true", help="print all rows at the end, once more")
    options = parser.parse_args(arguments)
    rows = noted(table(options.quick), where)
    if options.json:
        print(json.dumps(rows))
    elif not options.quick:
        write("tricks", rows + pinned())
    return 0


if __name__ == "__main__":
    sys.exit(main())
