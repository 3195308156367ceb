"""What would a GPU take for lnlib's kernels? Nothing is run: the compiler's work is read.

    python benchmarks/bench_compiled.py

Triton compiles each launch of the shapes that `bench_layer_norm` would time by the GPU's own clock,
for NVIDIA's A100 and H200 and for AMD's MI300X. A row of
``benchmarks/results/compiled.csv`` is one launch on one of them:

* "programs", and how often these fill the chip: "waves", with "slots" programs on a multiprocessor.
  Slots follow from registers, threads and shared memory.
* "barriers" of a program, outside loops and in each turn; "late" names the operands whose loads
  start only after a barrier, outside loops.
* "bytes" an element between memory and chip. A number that is read twice counts twice, unless the
  rows at work fit the cache meanwhile. "width" is the fewest bytes that a thread moves at once.
* "us" is what `gpu_time` predicts. "share" belongs to a pass and stands in each of its launches:
  the predicted time of a copy of the least bytes over that of the pass. "ceiling" is the share that
  its bytes allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import bench_layer_norm
import torch
from gpu_code import Launch, Report, parameter, passes, read
from gpu_time import CHIPS, LAUNCH, Chip, Work, seconds, slots, waves
from layer_norm_providers import Case
from results_table import Row, noted, provenance, write

from lnlib.triton_kernel import runtime

ON = ("H200", "A100", "MI300X")
AGAIN = {"layer_norm_fwd_long": {"x"}}  # walked along twice
OF_ROWS = ("x", "y", "dy", "dx")
REPORTS: dict[tuple[str, str], Report] = {}  # of what has been compiled for a target


def cases() -> list[Case]:
    """Return all shapes that are timed for the GPU's own time."""
    return sorted(case for case in bench_layer_norm.cases(quick=False) if case.regime != "latency")


def launched(case: Case, chip: Chip) -> list[Launch]:
    """Return the launches of both passes, as they are on a chip."""
    x = torch.empty(case.rows, case.features, dtype=case.torch_dtype, device="meta")
    p = parameter(case.features, case.torch_dtype)
    with patch.object(runtime, "multiprocessors", lambda device: chip.multiprocessors):
        return passes(x, p, p, x)


def report(launch: Launch, target: str) -> Report:
    """Return what the compiler makes of it."""
    key = target, launch.key(target)
    if key not in REPORTS:
        REPORTS[key] = read(launch.compile(target))
    return REPORTS[key]


def work(launch: Launch, found: Report, chip: Chip) -> Work:
    """Return what the model asks about a launch."""
    by_name, ahead = launch.by_name, launch.by_name.get("STAGES", 1) - 1
    made = Work(
        programs=math.prod(launch.grid),
        turns=turns(launch),
        once=found.once,
        each=found.each,
        ahead=ahead if found.ahead or chip.target.startswith("hip") else 0,
        warps=launch.options["num_warps"],
        registers=found.registers,
        shared=found.shared,
        bytes=0,
    )
    tensors = {name: t for name, t in by_name.items() if isinstance(t, torch.Tensor)}
    sizes = {name.removesuffix("_ptr"): t.numel() * t.itemsize for name, t in tensors.items()}
    at_work = (
        slots(made, chip)
        * chip.multiprocessors
        * sum(sizes[name] / tensors["x_ptr"].shape[0] for name in AGAIN.get(launch.name, ()))
    )
    again = AGAIN.get(launch.name, ()) if at_work > chip.cache else ()
    return made._replace(bytes=sum(sizes.values()) + sum(sizes[name] for name in again))


def turns(launch: Launch) -> float:
    """Return how often a program goes round its loops."""
    o, programs = launch.by_name, launch.grid[0]
    if launch.name in ("layer_norm_fwd_long", "layer_norm_bwd_rows"):
        return math.ceil(o["H"] / o["BLOCK_H"])
    if launch.name == "sum_partials":
        return math.ceil(o["programs"] / o["BLOCK_B"])
    if launch.name == "layer_norm_bwd":  # some of them have other features of the same rows
        programs //= math.ceil(o["H"] / o["BLOCK_H"])
    return math.ceil(math.ceil(o["B"] / o.get("BLOCK_B", 1)) / programs)


def rows_of(case: Case, chip: Chip) -> Iterator[Row]:
    """Return a row for each launch of both passes."""
    both = {"forward": [], "backward": []}
    for launch in launched(case, chip):
        both["forward" if "fwd" in launch.name else "backward"].append(launch)
    for which, launches in both.items():
        reports = [report(launch, chip.target) for launch in launches]
        found = [work(*pair, chip) for pair in zip(launches, reports, strict=True)]
        least = case.bytes(which)
        copied = LAUNCH + least / chip.roof
        moved = sum(each.bytes for each in found)
        taken = sum(LAUNCH + seconds(each, chip) for each in found)
        for launch, said, each in zip(launches, reports, found, strict=True):
            yield {
                "chip": chip.name,
                "pass": which,
                "dtype": case.dtype,
                "rows": case.rows,
                "features": case.features,
                "regime": case.regime,
                "kernel": launch.name,
                "programs": each.programs,
                "warps": each.warps,
                "registers": each.registers,
                "spills": said.spills,
                "shared": each.shared,
                "slots": slots(each, chip),
                "waves": f"{waves(each, chip):.3g}",
                "barriers": f"{each.once.barriers}+{each.each.barriers}",
                "late": " ".join(sorted(said.late)),
                "width": min(
                    (said.width(name) for name in OF_ROWS if name in said.accesses), default=0
                ),
                "bytes": f"{each.bytes / (case.rows * case.features):.3g}",
                "us": f"{1e6 * seconds(each, chip):.3g}",
                "ceiling": f"{least / moved:.3g}",
                "share": f"{copied / taken:.3g}",
            }


def table(chosen: list[Case]) -> Iterator[Row]:
    """Return a row for each launch of the chosen cases, on each chip."""
    for case in chosen:
        for name in ON:
            yield from rows_of(case, CHIPS[name])


def main() -> None:
    where: dict[str, Any] = provenance()
    write("compiled", noted(table(cases()), lambda: where))


if __name__ == "__main__":
    main()
