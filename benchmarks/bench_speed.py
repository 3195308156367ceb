"""How long does a layer norm take on this CPU? Writes ``benchmarks/results/speed.csv``.

    python benchmarks/bench_speed.py           # about four minutes
    python benchmarks/bench_speed.py --quick   # tiny sizes, seconds; only prints
    python benchmarks/bench_speed.py --small   # what a call costs on small inputs; only prints

With ``MALLOC_MMAP_THRESHOLD_`` in the environment the table is ``speed_pinned.csv``: set it, and
``MALLOC_TRIM_THRESHOLD_``, to 4000000000, and glibc keeps the memory that a call gives back. As it
comes it returns much of it to the system, and whoever is timed next pays for fetching it again.

* lnlib: `lnlib.layer_norm` as it comes, with ``backend="auto"``;
* lnlib reference: ``backend="reference"``, the gradient in closed form, block by block;
* composed formula: the formula of the reference, with autograd's gradient;
* PyTorch: `torch.nn.functional.layer_norm`;
* PyTorch compiled, lnlib compiled: these two calls under `torch.compile`, for fixed shapes.

First y and all gradients of each are compared with the formula in float64. Who is wrong, or cannot
be compiled here, is named and not timed. Then all are timed in turn, each round beginning with
another, so a machine that slows down slows them all. "forward" is without gradients; "forward and
backward" gives those of x, weight and bias.

A row has the median time of a call in ms, and the median and quartiles of the ratios to PyTorch
within one round: above 1 is slower. ``first_s`` is the first call, with all compiling. ``error`` is
the largest of the four errors, as a part of the truth's RMS.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import timing
import torch
import torch.nn.functional as F
from accuracy_providers import Draw
from results_table import Row, noted, provenance, write
from torch import Tensor
from torch._inductor.utils import fresh_cache

import lnlib
from lnlib import composed

LayerNorm = Callable[..., Tensor]

OURS, REFERENCE, COMPOSED, PYTORCH = "lnlib", "lnlib reference", "composed formula", "PyTorch"
EAGER: dict[str, LayerNorm] = {
    OURS: lnlib.layer_norm,
    REFERENCE: partial(lnlib.layer_norm, backend="reference"),
    COMPOSED: composed.layer_norm,
    PYTORCH: F.layer_norm,
}
TO_COMPILE = {"lnlib compiled": lnlib.layer_norm, "PyTorch compiled": F.layer_norm}
FORWARD, BOTH, OF_SUM = "forward", "forward and backward", "both passes of y.sum()"

# As a part of the truth's size: of y and dx, and of dweight and dbias. Sums over 16,384 rows in
# float32 are off by 2e-6. PyTorch adds up the rows in bfloat16 too, and the sums over 4,096 are off
# by 8e-2; each number rounded once is off by 2e-3. A term of dx that is left out is about 1/√H of
# it, 4e-2 and more for the shapes in bfloat16; a lost sum or factor of the others is far more.
MOST_WRONG = {
    torch.float32: (1e-5, 1e-5),
    torch.bfloat16: (1e-2, 2e-1),
    torch.float16: (2e-3, 5e-2),
    torch.float64: (1e-14, 1e-14),
}
AT_LEAST, AT_MOST = 7, 50  # rounds


class Case(NamedTuple):
    """One shape and type."""

    rows: int
    features: int
    dtype: torch.dtype = torch.float32


SHAPES = ((1, 768), (512, 257), (4096, 768), (16384, 256), (2048, 4096))
CASES = [Case(*shape) for shape in SHAPES]
CASES += [Case(*shape, torch.bfloat16) for shape in ((512, 257), (4096, 768), (2048, 1024))]
CASES += [Case(2048, 1024, dtype) for dtype in (torch.float16, torch.float64)]
QUICK = [Case(5, 7), Case(5, 7, torch.bfloat16)]
SMALL = [Case(1, 768), Case(32, 768), Case(512, 257)]


def arguments_of(case: Case) -> Draw:
    """Return the same random numbers for everybody; none of the means is 0."""
    generator = torch.Generator().manual_seed(0)

    def random(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(case.dtype)

    x = 3 + 2 * random(case.rows, case.features)
    weight, bias = 1 + random(case.features) / 4, random(case.features)
    dy = random(case.rows, case.features) + 0.125
    return Draw(*(leaf.requires_grad_() for leaf in (x, weight, bias)), dy)


def forward(layer_norm: LayerNorm, given: Draw) -> Tensor:
    with torch.no_grad():
        return layer_norm(given.x, given.weight.shape, given.weight, given.bias)


def both_ways(layer_norm: LayerNorm, given: Draw) -> list[Tensor]:
    """Return y, dx, dweight and dbias."""
    y = layer_norm(given.x, given.weight.shape, given.weight, given.bias)
    return [y, *torch.autograd.grad(y, given[:3], given.dy)]


def both_ways_of_sum(layer_norm: LayerNorm, given: Draw) -> object:
    """Return the gradients where that of y is one number, expanded."""
    y = layer_norm(given.x, given.weight.shape, given.weight, given.bias)
    return torch.autograd.grad(y.sum(), given[:3])


Passes = dict[str, Callable[[LayerNorm, Draw], object]]
PASSES: Passes = {FORWARD: forward, BOTH: both_ways}


def truth_of(given: Draw) -> list[Tensor]:
    """Return y, dx, dweight and dbias by the formula, in float64."""
    wide = Draw(*(tensor.detach().double() for tensor in given))
    for leaf in wide[:3]:
        leaf.requires_grad_()
    return both_ways(lambda x, shape, *affine: lnlib.formula.layer_norm(x, *affine, eps=1e-5), wide)


def errors(layer_norm: LayerNorm, given: Draw, truth: Sequence[Tensor]) -> dict[str, float]:
    """Return how far y, dx, dweight and dbias are off, as parts of their RMS; infinite for NaN."""
    found: dict[str, float] = {}
    for name, computed, true in zip(
        ("y", "dx", "dweight", "dbias"), both_ways(layer_norm, given), truth, strict=True
    ):
        off = ((computed.detach().double() - true.detach()).norm() / true.detach().norm()).item()
        found[name] = off if off == off else float("inf")
    return found


def complaint(found: dict[str, float], dtype: torch.dtype) -> str | None:
    """Return what is wrong with a layer norm that has these `errors`, or None."""
    of_rows, of_sums = MOST_WRONG[dtype]
    for name, off in found.items():
        if off > (of_rows if name in ("y", "dx") else of_sums):
            return f"wrong: {name} off by {off:.3g} of its size"
    return None


class Entrant(NamedTuple):
    """A layer norm that is right: what is called, its largest error, seconds of its first calls."""

    layer_norm: LayerNorm
    error: float
    first_s: dict[str, float]


def compiled(layer_norm: LayerNorm) -> LayerNorm:
    """Return ``layer_norm`` under torch.compile, which must see all of it and one shape."""

    def called(x: Tensor, shape: Sequence[int], weight: Tensor, bias: Tensor) -> Tensor:
        return layer_norm(x, shape, weight, bias)

    return torch.compile(called, fullgraph=True, dynamic=False)


def admit(layer_norm: LayerNorm, given: Draw, truth: list[Tensor]) -> Entrant | str:
    """Return a layer norm that is right, or why it does not take part."""
    try:
        first_s = {
            which: timing.seconds_of(partial(run, layer_norm, given), 1)
            for which, run in PASSES.items()
        }
    except RuntimeError as error:  # such as torch.compile's where there is no compiler for C++
        return f"does not run here: {str(error).splitlines()[0]}"
    found = errors(layer_norm, given, truth)
    return complaint(found, given.x.dtype) or Entrant(layer_norm, max(found.values()), first_s)


def admitted(entrants: dict[str, LayerNorm], given: Draw, about: str = "") -> dict[str, Entrant]:
    """Return the layer norms that are right; name the others, and what ``about`` says."""
    truth = truth_of(given)
    right: dict[str, Entrant] = {}
    for name, layer_norm in entrants.items():
        entrant = admit(layer_norm, given, truth)
        if isinstance(entrant, str):
            print(f"{name}{about}: {entrant}", flush=True)
        else:
            right[name] = entrant
    return right


def table(is_quick: bool) -> Iterator[Row]:
    """Yield the rows of the table, or of tiny sizes, for which nothing is compiled."""
    cases, seconds, at_least = (QUICK, 0.0, 3) if is_quick else (CASES, 6.0, AT_LEAST)
    with fresh_cache():  # so that first_s has all of torch.compile in it
        for case in cases:
            torch.compiler.reset()  # past eight shapes it would run eagerly, and not say so
            entrants = dict(EAGER)
            if not is_quick:
                entrants |= {name: compiled(called) for name, called in TO_COMPILE.items()}
            yield from measure(case, entrants, seconds, at_least)


def small() -> Iterator[Row]:
    """Yield rows of inputs for which a call takes longer than its arithmetic."""
    for case in SMALL:
        yield from measure(case, EAGER, 6.0, AT_MOST, PASSES | {OF_SUM: both_ways_of_sum})


def measure(
    case: Case,
    entrants: dict[str, LayerNorm],
    seconds: float,
    at_least: int,
    passes: Passes = PASSES,
) -> list[Row]:
    """Return a row for each pass of each layer norm that is right; name the others."""
    given = arguments_of(case)
    right = admitted(entrants, given)
    if PYTORCH not in right:
        raise RuntimeError(f"{PYTORCH}, to which all are compared, must be right")
    runs = {
        (name, which): partial(run, entrant.layer_norm, given)
        for which, run in passes.items()
        for name, entrant in right.items()
    }
    times = timing.in_turn(runs, seconds, at_least, AT_MOST)
    return [row_of(case, key, right[key[0]], times) for key in runs]


def row_of(
    case: Case, key: tuple[str, str], entrant: Entrant, times: dict[tuple[str, str], list[float]]
) -> Row:
    """Return what the times of one pass of one layer norm come to."""
    name, which = key
    over_torch, quartiles = ratio(times[key], times[PYTORCH, which])
    return {
        "provider": name,
        "pass": which,
        "dtype": str(case.dtype).removeprefix("torch."),
        "rows": case.rows,
        "features": case.features,
        "ms": f"{1e3 * statistics.median(times[key]):.3g}",
        "over_torch": over_torch,
        "quartiles": quartiles,
        "rounds": len(times[key]),
        "first_s": f"{entrant.first_s.get(which, math.nan):.3g}",
        "error": f"{entrant.error:.2g}",
    }


def ratio(slower: list[float], faster: list[float]) -> tuple[str, str]:
    """Return the median and the quartiles of the ratios, round by round."""
    ratios = [a / b for a, b in zip(slower, faster, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3g}", f"{low:.3g} to {high:.3g}"


def where() -> Row:
    """Return what every row says of the machine, of what else it was doing, and at which commit."""
    return provenance() | {
        "threads": torch.get_num_threads(),
        "load": f"{os.getloadavg()[0]:.2f}",
        "torch": torch.__version__,
        "lnlib": lnlib.__version__,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes; nothing is compiled")
    parser.add_argument("--small", action="store_true", help="small inputs alone; prints")
    options = parser.parse_args(arguments)
    name = "speed_pinned" if "MALLOC_MMAP_THRESHOLD_" in os.environ else "speed"
    rows = noted(small() if options.small else table(options.quick), where)
    if not (options.quick or options.small):
        write(name, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
