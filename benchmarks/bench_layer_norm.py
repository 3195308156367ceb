"""How fast is lnlib's layer norm in Triton on a GPU, and how fast could it be?

    python benchmarks/bench_layer_norm.py           # all shapes, up to 8 minutes
    python benchmarks/bench_layer_norm.py --quick   # a few, up to 2 minutes; only prints

Correctness comes first: each provider's y, dx, dweight and dbias are compared with the formula in
float64, on shapes that fill no block and again on every shape that is timed. Who fails is reported
and not timed. Then both passes are timed apart:

* Each provider lives in a process of its own. They are timed in turn, a few rounds of a few
  milliseconds, each round starting with another one. A row has the median of the rounds' medians,
  and their quartiles.
* "memory" is 256 MB and more, x and y together, "cache" up to 16 MB, "between" is between. Before
  each run "memory" and "between" read 256 MB of something else, so that nothing of x is in the
  GPU's cache. These three count what the GPU does: the calls are replayed as a CUDA graph.
  "latency" is the clock on the wall over a hundred calls from Python, as an eager program makes.
* Forward is training's: statistics are kept. Backward gives dx, dweight and dbias.
* The roof is PyTorch's `copy_` of as many bytes, timed in the same rounds on the same GPU. A pass
  has to move x and y forward, x, dy and dx backward: 4 and 6 bytes an element in bfloat16.
* The error is the RMS error over that of PyTorch in eager mode; backward, the largest of three.
* The peak is what a pass allocates beyond what was there, its results included.

The rows go to ``benchmarks/results/layer_norm.csv`` after each shape; those of other devices stay.
Without a GPU there is nothing to time: the correctness stage runs, and nothing is written.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_timing import Gpu, Machine, Remote, ask_all, first_line
from layer_norm_providers import (
    CHAPTER,
    COPY,
    EAGER,
    LOADERS,
    OF,
    OURS,
    PASSES,
    Case,
    complaint,
    errors,
    inputs_of,
    leaves_of,
    load,
)
from results_table import RESULTS, provenance
from torch import Tensor

from lnlib.book.records.kernels import COLUMNS, read_results, summary

# Rows and features. The first group is Helion's idea: 4096 rows, features in steps of 512.
SHAPES = (
    *((4096, 512 * i) for i in (1, 2, 3, 5, 8, 10, 16, 20, 24, 31)),
    *((65536, H) for H in (64, 128, 256, 512, 768, 1000, 1024, 2048, 4096)),
    *((16384, H) for H in (1600, 4096, 4097, 5000, 6144, 8192)),
    *((8192, H) for H in (1024, 4096, 8192, 12288)),
    *((4096, H) for H in (257, 1000, 16385, 32768)),
    (2048, 32768),
    (1024, 65536),
    (512, 131072),
    *((1151, H) for H in (768, 2000)),
    *((128, H) for H in (5120, 12288)),
    *((32, H) for H in (1024, 65536)),
    *((1, H) for H in (64, 769, 4096, 131072)),
)
IN_FLOAT32 = ((65536, 1024), (16384, 4097), (4096, 16384), (4096, 1000), (1151, 768))
FEW_ROWS = ((1, 64), (1, 4096), (8, 768), (32, 1024), (128, 5120), (512, 768), (1024, 4096))
QUICK = ((65536, 1024), (16384, 4097), (8192, 8192), (2048, 32768), (4096, 1024), (1151, 768))
CHECKED = tuple(
    Case(B, H, dtype, "checked")
    for B, H, dtype in (
        (129, 64, "bfloat16"),
        (33, 769, "bfloat16"),
        (37, 1000, "float32"),
        (9, 4096, "bfloat16"),
        (3, 16385, "bfloat16"),
    )
)
ON_CPU = ((9, 64), (5, 769), (6, 1000), (2, 4097))

MEMORY, CACHE = 256e6, 16e6  # bytes of x and y


def regime_of(rows: int, features: int, itemsize: int) -> str:
    """Return where the tensors of a pass can be: "memory", "between" or "cache"."""
    size = 2 * itemsize * rows * features
    return "memory" if size >= MEMORY else "cache" if size <= CACHE else "between"


def cases(quick: bool) -> list[Case]:
    """Return all that is timed, in an order that leaves a mixture wherever time runs out."""
    half = [Case(B, H, "bfloat16", regime_of(B, H, 2)) for B, H in (QUICK if quick else SHAPES)]
    few = [Case(B, H, "bfloat16", "latency") for B, H in (FEW_ROWS[:2] if quick else FEW_ROWS)]
    full = [Case(B, H, "float32", regime_of(B, H, 4)) for B, H in IN_FLOAT32]
    chosen = half + few + ([] if quick else full)
    random.Random(0).shuffle(chosen)
    return chosen


class Worker:
    """One provider, in its own process: prepares a case, then times it whenever it is asked to."""

    def __init__(self, name: str, machine_type: Callable[[], Machine]) -> None:
        self.machine = machine_type()
        self.provider = None if name == COPY else load(name, self.machine.device)
        self.timers: dict[str, Callable[[float], float]] = {}
        self.passes: dict[str, Callable[[], object]] = {}

    @property
    def version(self) -> str:
        """Return the provider's version."""
        return torch.__version__ if self.provider is None else self.provider.version

    def check(self, case: Case) -> dict[str, Any]:
        """Return ``status``, and the RMS error of each result by its name."""
        if self.provider is None:
            return {"status": "ok"}
        found = errors(self.provider, inputs_of(case, self.machine.device))
        status = complaint(found, case.torch_dtype) or "ok"
        return {"status": status, "errors": {name: rms for name, (rms, _) in found.items()}}

    def prepare(self, case: Case) -> dict[str, Any]:
        """Do as `check`, and, if all is right, make ready to time both passes."""
        self.release()
        reply = self.check(case)
        if reply["status"] != "ok":
            return reply
        passes = copies(case, self.machine.device) if self.provider is None else self._passes(case)
        self.passes = passes  # a recorded graph does not keep the tensors that it reads
        reply["peak_bytes"] = {which: self.machine.peak_bytes(run) for which, run in passes.items()}
        reply["notes"] = {}
        for which, run in passes.items():
            self.timers[which], reply["notes"][which] = self.machine.timer(run, case.regime)
        return reply

    def _passes(self, case: Case) -> dict[str, Callable[[], object]]:
        provider = self.provider
        assert provider is not None
        inputs = inputs_of(case, self.machine.device)
        leaves = leaves_of(provider, inputs)
        y = provider.run(*leaves)

        def backward() -> object:
            return torch.autograd.grad(y, leaves, inputs.dy, retain_graph=True)

        return {"forward": lambda: provider.run(*leaves), "backward": backward}

    def time(self, which: str, seconds: float) -> dict[str, Any]:
        """Return the median time of a pass, in µs, over about ``seconds``."""
        return {"status": "ok", "us": self.timers[which](seconds)}

    def release(self) -> dict[str, Any]:
        """Forget the case."""
        self.timers.clear()
        self.passes = {}
        self.machine.free()
        return {"status": "ok"}


def copies(case: Case, device: torch.device) -> dict[str, Callable[[], object]]:
    """Return copies that read and write together as many bytes as each pass has to."""

    def copy(size: int) -> Callable[[], Tensor]:
        source, target = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
        return lambda: target.copy_(source)

    return {which: copy(case.bytes(which) // 2) for which in PASSES}


def ratio_to_eager(mine: dict[str, float], eager: dict[str, float], which: str) -> str:
    """Return the RMS error over eager's: of y forward, the largest of three gradients backward."""
    pairs = [(mine[name], eager[name]) for name in OF[which]]
    ratios = [a / b if b else float("inf") if a else 1.0 for a, b in pairs]
    return f"{max(ratios):.3g}"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return median, first and third quartile; of one value, that value."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def measure(
    case: Case, remotes: Sequence[Remote], rounds: int, seconds: float
) -> list[dict[str, str]]:
    """Return two rows for each provider, one a pass, of all columns that depend on the case."""
    answers = ask_all(remotes, "prepare", case)
    replies = {remote.name: answer for remote, answer in zip(remotes, answers, strict=True)}
    times: dict[tuple[str, str], list[float]] = {}
    ready = [remote for remote in remotes if replies[remote.name]["status"] == "ok"]
    for turn in range(-1, rounds):  # the first round wakes the GPU up
        first = turn % len(ready) if ready else 0
        for remote, which in itertools.product(ready[first:] + ready[:first], PASSES):
            if replies[remote.name]["status"] != "ok":
                continue
            reply = remote.ask("time", which, seconds)
            if reply["status"] != "ok":
                replies[remote.name] = reply
            elif turn >= 0:
                times.setdefault((remote.name, which), []).append(reply["us"])
    ask_all([remote for remote in remotes if remote.process.is_alive()], "release")
    return [row_of(case, name, which, replies, times) for name in replies for which in PASSES]


def row_of(
    case: Case,
    name: str,
    which: str,
    replies: dict[str, dict[str, Any]],
    times: dict[tuple[str, str], list[float]],
) -> dict[str, str]:
    """Return what was found out about one pass of one provider."""
    reply = replies[name]
    row = dict.fromkeys(COLUMNS, "")
    row |= {"provider": name, "pass": which, "dtype": case.dtype, "regime": case.regime}
    row |= {"rows": f"{case.rows}", "features": f"{case.features}"}
    row |= {"bytes": f"{case.bytes(which)}", "status": reply["status"]}
    eager = replies.get(EAGER, {}).get("errors")
    if eager and "errors" in reply:
        row["error_ratio"] = ratio_to_eager(reply["errors"], eager, which)
    if reply["status"] != "ok":
        return row
    middle, *spread = quartiles(times[name, which])
    row |= {"status": reply["notes"][which], "peak_bytes": f"{reply['peak_bytes'][which]}"}
    numbers = zip(("median_us", "q1_us", "q3_us"), (middle, *spread), strict=True)
    row |= {column: f"{value:.4g}" for column, value in numbers}
    if case.regime != "latency":
        row["gb_per_s"] = f"{case.bytes(which) / middle / 1e3:.4g}"
        if replies.get(COPY, {}).get("status") == "ok":
            row["roof_fraction"] = f"{quartiles(times[COPY, which])[0] / middle:.3g}"
    return row


class Table:
    """The rows of a table by what they are about. A new row takes the place of an older one."""

    KEY = ("provider", "device", "pass", "dtype", "rows", "features", "regime")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = {self._key(row): row for row in read_results(path)}

    def _key(self, row: dict[str, str]) -> tuple[str, ...]:
        return tuple(row[name] for name in self.KEY)

    def add(self, rows: Iterable[dict[str, str]]) -> None:
        """Take rows in, and write the file at once: a run that is ended keeps what it had."""
        for row in rows:
            self.rows.pop((row["provider"], row["device"], "", "", "", "", ""), None)  # was absent
            self.rows[self._key(row)] = row
        draft = self.path.with_suffix(".part")
        with draft.open("w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows.values())
        draft.replace(self.path)


def where() -> dict[str, str]:
    """Return device, versions, date and commit, which are the same in all rows of a run."""
    try:
        from triton import __version__ as triton
    except ImportError:  # then only those without Triton are timed
        triton = ""
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton,
        "driver": driver(),
        **{name: said for name, said in provenance().items() if name in COLUMNS},
    }


def driver() -> str:
    """Return the version of NVIDIA's driver; nothing where nobody tells it."""
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.strip() if said.returncode == 0 else ""


def start_all(names: Iterable[str], machine_type: Callable[[], Machine]) -> list[Remote]:
    """Start a process for each, and one for the copy."""
    return [Remote(name, partial(Worker, name, machine_type)) for name in (*names, COPY)]


def admitted(remotes: Sequence[Remote]) -> tuple[list[Remote], dict[str, str], dict[str, str]]:
    """Return who is right on all of CHECKED that it takes, their versions, and what others lack."""
    versions: dict[str, str] = {}
    why_not: dict[str, str] = {}
    for remote in remotes:
        reply = remote.receive()
        if reply["status"] == "ok":
            versions[remote.name] = reply["version"]
        else:
            why_not[remote.name] = reply["status"]
    takes: set[str] = set()
    for case in CHECKED:
        present = [remote for remote in remotes if remote.name not in why_not]
        for remote, reply in zip(present, ask_all(present, "check", case), strict=True):
            status = reply["status"]
            about = f"{case.rows} × {case.features} {case.dtype}"
            print(f"  {about} {remote.name}: {status}", flush=True)
            if status == "ok":
                takes.add(remote.name)
            if status.startswith("wrong") or remote.is_hung:
                why_not[remote.name] = f"{status} ({about})"
            elif case == CHECKED[-1] and remote.name not in takes:
                why_not[remote.name] = status
    for remote in remotes:
        if remote.name in why_not:
            remote.stop()
    return [remote for remote in remotes if remote.name not in why_not], versions, why_not


def told(row: dict[str, str]) -> str:
    """Return a row as a line to print."""
    about = f"{row['rows']:>6} × {row['features']:<6} {row['dtype']:8} {row['regime']:7}"
    if not row["median_us"]:
        return f"{about} {row['pass']:8} {row['provider']:16} {row['status']}"
    of_roof = f"{float(row['roof_fraction']):5.0%} of copy" if row["roof_fraction"] else ""
    numbers = f"{row['median_us']:>8} µs ({row['q1_us']} to {row['q3_us']}) {of_roof:13}"
    error = f" error {row['error_ratio']}" if row["error_ratio"] else ""
    note = "" if row["status"] == "ok" else f" {row['status']}"
    return f"{about} {row['pass']:8} {row['provider']:16} {numbers}{error}{note}"


def on_a_gpu(
    names: Iterable[str],
    machine_type: Callable[[], Machine],
    todo: Sequence[Case],
    said: dict[str, str],
    table: Table | None,
    rounds: int,
    limit: float,
    seconds: float = 0.02,
) -> list[dict[str, str]]:
    """Check, measure, print and record; return the rows of this run.

    Args:
        names: of the providers.
        machine_type: what makes a machine in each process.
        todo: what to measure.
        said: what is the same in all rows; see `where`.
        table: where to write rows; None to print only.
        rounds: how often each pass is timed.
        limit: seconds after which no other case is begun.
        seconds: how long a pass is timed in a round.
    """
    began = time.monotonic()
    rows: list[dict[str, str]] = []
    remotes = start_all(names, machine_type)
    try:
        print("Correct? Each against the formula in float64:")
        remotes, versions, why_not = admitted(remotes)
        for name, why in why_not.items():
            print(f"not timed: {name}: {why}")
            rows.append(dict.fromkeys(COLUMNS, "") | said | {"provider": name, "status": why})
        if table is not None:
            table.add(rows)
        for done, case in enumerate(todo):
            if time.monotonic() - began > limit:
                print(f"time is up: {len(todo) - done} of {len(todo)} cases were not measured")
                break
            found = [
                row | said | {"version": versions[row["provider"]]}
                for row in measure(case, remotes, rounds, seconds)
            ]
            print(*map(told, found), sep="\n", flush=True)
            rows += found
            if table is not None:
                table.add(found)
            remotes = [remote for remote in remotes if not remote.is_hung]
    finally:
        for remote in remotes:
            remote.stop()
    return rows


class Cpu:
    """No GPU: results can be checked here, and not timed."""

    device = torch.device("cpu")


def on_a_cpu() -> None:
    """Check those that run here, the Triton kernels in Triton's interpreter."""
    print("No GPU here, so nothing can be timed, and no result is written. This needs PyTorch with")
    print("a CUDA or ROCm device. What can run on a CPU is checked against the formula in float64:")
    for name in (OURS, EAGER, "Triton tutorial", CHAPTER):
        try:
            worker = Worker(name, Cpu)
        except Exception as error:
            print(f"  {name}: absent: {first_line(error)}")
            continue
        for (B, H), dtype in itertools.product(ON_CPU, ("bfloat16", "float32")):
            print(f"  {B} × {H} {dtype:9} {name}: {worker.check(Case(B, H, dtype, ''))['status']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="a few shapes; writes nothing")
    parser.add_argument(
        "--out", type=Path, default=RESULTS / "layer_norm.csv", help="the table to add to"
    )
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        return on_a_cpu()
    quick = arguments.quick
    rows = on_a_gpu(
        LOADERS,
        Gpu,
        cases(quick),
        where(),
        table=None if quick else Table(arguments.out),
        rounds=3 if quick else 5,
        limit=90 if quick else 420,
    )
    print(f"\nTargets, which were set for an H200; this is {torch.cuda.get_device_name()}:")
    print(*summary(rows), sep="\n")
    return None


if __name__ == "__main__":
    main()
