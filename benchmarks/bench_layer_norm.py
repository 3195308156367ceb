"""How fast is a layer norm on this GPU, and how fast could it be?

    python benchmarks/bench_layer_norm.py           # all shapes, some minutes
    python benchmarks/bench_layer_norm.py --quick   # a few; only prints

After each shape it writes ``benchmarks/results/layer_norm.csv``; rows of other devices stay. Where
there is no GPU, tiny shapes run on the CPU, the kernels interpreted, and nothing is written.

Correctness comes first: each provider's y, dx, dweight and dbias are compared with the formula in
float64, on shapes that fill no block and again on every shape that is timed. Who is wrong is named
and not timed. Then both passes are timed apart:

* All are timed in turn, a few rounds of a few milliseconds, each round beginning with another. A
  row has the median of the rounds, and their quartiles.
* "memory" is 256 MB and more, x and y together, "cache" up to 16 MB, "between" is between. Only in
  "cache" does a call find the GPU's cache warm. These three count what the GPU does: the calls are
  replayed as a CUDA graph. "latency" is the clock on the wall over a hundred calls from Python.
* Forward is training's: statistics are kept. Backward gives dx, dweight and dbias.
* The roof is PyTorch's `copy_` of as many bytes, timed in the same rounds. A pass has to move x and
  y forward, x, dy and dx backward: 4 and 6 bytes an element in bfloat16.
* The error is the RMS error over that of PyTorch in eager mode; backward, the largest of three.
* The peak is what a pass allocates beyond what was there, its results included.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.util
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import timing
import torch
import torch.nn.functional as F
from accuracy_providers import Draw
from bench_memory import CPU, peak_bytes
from results_table import RESULTS, Row, provenance, save
from torch import Tensor

import lnlib
from lnlib.book.home import ROOT
from lnlib.book.records.kernels import COLUMNS, read_results
from lnlib.triton_kernel import runtime

EPS = 1e-5
PASSES = ("forward", "backward")
OF = {"forward": ("y",), "backward": ("dx", "dweight", "dbias")}
# The most that a result may be off, its RMS error over the RMS of the truth. A half type rounds by
# up to 0.4 %, and one that keeps its sums in it is off by about 1 %; a term that is left out of
# these inputs, a tenth at least. Float32 rounds by 6e-8, which sums of many rows multiply.
MOST_WRONG = {torch.bfloat16: 2.0**-5, torch.float16: 2.0**-5, torch.float32: 1e-4}
LONGEST = 2**15  # features of a row that a program of chapter 7 is given
CHUNK = 2**22  # elements of which the truth is computed at a time: about 1 GB in float64
MEMORY, CACHE = 256e6, 16e6  # bytes of x and y

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
QUICK = ((65536, 1024), (16384, 4097), (8192, 4096), (2048, 32768), (4096, 1024), (1151, 768))
CHECKED = ((129, 64, "bfloat16"), (37, 1000, "float32"), (9, 4096, "bfloat16"))
TINY = ((9, 64, "float32"), (5, 769, "bfloat16"))


class Case(NamedTuple):
    """One shape; a type is given by its name, as in the table."""

    rows: int
    features: int
    dtype: str
    regime: str = ""

    @property
    def torch_dtype(self) -> torch.dtype:
        """Return the dtype that PyTorch has under this name."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def bytes(self, which: str) -> int:
        """Return what a pass must move: x and y forward; x, dy and dx backward.

        Parameters, statistics and partial sums are not counted: they are small, and a provider that
        makes more of them should not look faster for it.
        """
        tensors = 2 if which == "forward" else 3
        return tensors * self.torch_dtype.itemsize * self.rows * self.features


def sized(rows: int, features: int, dtype: str) -> Case:
    """Return a case whose regime says where its tensors can be."""
    case = Case(rows, features, dtype)
    size = case.bytes("forward")
    regime = "memory" if size >= MEMORY else "cache" if size <= CACHE else "between"
    return case._replace(regime=regime)


def cases(is_quick: bool) -> list[Case]:
    """Return all that is timed, in an order that leaves a mixture wherever time runs out."""
    chosen = [sized(*shape, "bfloat16") for shape in (QUICK if is_quick else SHAPES)]
    few = FEW_ROWS[:2] if is_quick else FEW_ROWS
    chosen += [Case(*shape, "bfloat16", "latency") for shape in few]
    chosen += [sized(*shape, "float32") for shape in IN_FLOAT32 if not is_quick]
    random.Random(0).shuffle(chosen)
    return chosen


def inputs_of(case: Case, device: torch.device) -> Draw:
    """Return random inputs, the same for everybody.

    Rows are far from zero, ``weight`` near 1, and ``dy`` has a mean and a part along x: a padded
    lane that is counted, or a term of dx that is left out, makes a large error.
    """
    generator = torch.Generator(device).manual_seed(31 * case.rows + case.features)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    z = normal(case.rows, case.features)
    dy = normal(case.rows, case.features).add_(z, alpha=0.25).add_(0.125)
    x = z.mul_(0.5).sub_(2.3)
    weight, bias = 1 + 0.25 * normal(case.features), 0.25 * normal(case.features)
    return Draw(*(tensor.to(case.torch_dtype) for tensor in (x, weight, bias, dy)))


class Provider(NamedTuple):
    """A layer norm to compare: a function of x, weight and bias that autograd can differentiate."""

    run: Callable[[Tensor, Tensor, Tensor], Tensor]
    version: str = torch.__version__
    parameters: torch.dtype | None = None  # if it takes weight and bias in that dtype alone

    def leaves(self, inputs: Draw) -> list[Tensor]:
        """Return x, weight and bias, of which it can be asked for gradients."""
        dtypes = inputs.x.dtype, *[self.parameters or inputs.x.dtype] * 2
        pairs = zip(inputs[:3], dtypes, strict=True)
        return [tensor.detach().to(dtype).requires_grad_() for tensor, dtype in pairs]


def passes_of(provider: Provider, inputs: Draw) -> dict[str, timing.Run]:
    """Return what is timed."""
    leaves = provider.leaves(inputs)
    y = provider.run(*leaves)
    return {
        "forward": lambda: provider.run(*leaves),
        "backward": lambda: torch.autograd.grad(y, leaves, inputs.dy, retain_graph=True),
    }


def copies(case: Case, device: torch.device) -> dict[str, timing.Run]:
    """Return copies that read and write together as many bytes as each pass has to."""

    def copy(size: int) -> Callable[[], Tensor]:
        source, target = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
        return lambda: target.copy_(source)

    return {which: copy(case.bytes(which) // 2) for which in PASSES}


# Who is right.


def errors(provider: Provider, inputs: Draw) -> dict[str, tuple[float, float]]:
    """Return of y, dx, dweight and dbias the RMS error, and that over the RMS of the truth.

    The truth is `lnlib.formula` in float64 with autograd, from the same rounded inputs.
    """
    leaves = provider.leaves(inputs)
    y = provider.run(*leaves)
    y, dx, *sums = [y.detach(), *torch.autograd.grad(y, leaves, inputs.dy)]
    parameters = [p.double().requires_grad_() for p in (inputs.weight, inputs.bias)]
    true_sums = [torch.zeros_like(p) for p in parameters]
    squares = torch.zeros(4, 2, dtype=torch.float64, device=y.device)

    def add(what: int, computed: Tensor, truth: Tensor) -> None:
        squares[what, 0] += (computed.double() - truth).square().sum()
        squares[what, 1] += truth.square().sum()

    step = max(1, CHUNK // inputs.x.shape[1])
    for start in range(0, len(inputs.x), step):
        some = slice(start, start + step)
        x = inputs.x[some].double().requires_grad_()
        truth = lnlib.formula.layer_norm(x, *parameters, eps=EPS)
        true_dx, *grads = torch.autograd.grad(truth, [x, *parameters], inputs.dy[some].double())
        for total, grad in zip(true_sums, grads, strict=True):
            total += grad
        add(0, y[some], truth.detach())
        add(1, dx[some], true_dx)
    for what, (computed, true) in enumerate(zip(sums, true_sums, strict=True), start=2):
        add(what, computed, true)
    counts = (y.numel(), y.numel(), y.shape[1], y.shape[1])
    return {
        name: ((error / count) ** 0.5, (error / size) ** 0.5 if size else float(error > 0))
        for name, count, (error, size) in zip(
            (*OF["forward"], *OF["backward"]), counts, squares.tolist(), strict=True
        )
    }


def complaint(found: Mapping[str, tuple[float, float]], dtype: torch.dtype) -> str | None:
    """Return what is wrong with a provider that has these `errors`, or None."""
    for name, (_, relative) in found.items():
        if not relative <= MOST_WRONG[dtype]:  # NaN is wrong too
            return f"wrong: {name} is off by {relative:.3g} of its size"
    return None


def ratio_to_eager(mine: Mapping[str, Any], eager: Mapping[str, Any], which: str) -> str:
    """Return the RMS error over eager's: of y forward, the largest of three gradients backward."""
    pairs = [(mine[name][0], eager[name][0]) for name in OF[which]]
    return f"{max(a / b if b else float('inf') if a else 1.0 for a, b in pairs):.3g}"


# Who takes part.


def _torch_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, EPS)


def _ours(device: torch.device) -> Provider:
    runtime.check(device)
    run = partial(lnlib.layer_norm, backend="triton")
    return Provider(lambda x, w, b: run(x, w.shape, w, b, EPS), lnlib.__version__)


def _compiled(device: torch.device) -> Provider:
    import torch._dynamo.config
    import torch._functorch.config

    # Each shape is compiled for itself. At the default limits the ninth would silently run eagerly.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000
    torch._functorch.config.donated_buffer = False  # else one backward pass could not be repeated
    return Provider(torch.compile(_torch_layer_norm, fullgraph=True, dynamic=False))


def _liger(device: torch.device) -> Provider:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    run = LigerLayerNormFunction.apply
    return Provider(lambda x, w, b: run(x, w, b, EPS), version("liger-kernel"))


def _quack(device: torch.device) -> Provider:
    from quack.rmsnorm import layernorm_bwd, layernorm_fwd

    class LayerNorm(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            y, rstd, mean = layernorm_fwd(x, weight, bias, EPS, return_rstd=True, return_mean=True)
            ctx.save_for_backward(x, weight, rstd, mean)
            made: Tensor = y
            return made

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> Any:
            x, weight, rstd, mean = ctx.saved_tensors
            return layernorm_bwd(x, weight, dy, rstd, mean)

    return Provider(LayerNorm.apply, version("quack-kernels"), torch.float32)


def chapter_source() -> str:
    """Return a program with the kernels of chapter 7, and the function that launches them."""
    path = ROOT / "notebooks" / "07_triton_kernel.ipynb"
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    kept = [
        ast.unparse(node)
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and (node.decorator_list or node.name in ("LayerNorm", "differentiate"))
    ]
    return "\n\n\n".join(["import torch\nimport triton\nimport triton.language as tl", *kept, ""])


def _chapter(device: torch.device) -> Provider:
    runtime.check(device)
    triton = runtime.triton_for(device)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "chapter.py"
    path.write_text(chapter_source(), encoding="utf8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"triton": triton, "triton.language": triton.language}):
        spec.loader.exec_module(module)  # on a CPU, with the interpreter
    module.folder = folder  # type: ignore[attr-defined]  # Triton reads the source as it compiles

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if x.shape[1] > LONGEST:
            raise ValueError(f"rows of {x.shape[1]} features fit no program")
        y: Tensor = module.LayerNorm.apply(x, weight, bias, EPS)
        return y

    return Provider(run, module.triton.__version__)


OURS, EAGER, COMPILED, COPY, CHAPTER = "lnlib", "PyTorch", "torch.compile", "copy", "chapter 7"
LOADERS: dict[str, Callable[[torch.device], Provider]] = {
    OURS: _ours,
    EAGER: lambda device: Provider(_torch_layer_norm),
    COMPILED: _compiled,
    "Liger-Kernel": _liger,
    "QuACK": _quack,
    CHAPTER: _chapter,
}
ON_CPU = (OURS, EAGER, CHAPTER)


def admitted(names: Sequence[str], checked: Sequence[Case], device: torch.device) -> dict[str, Any]:
    """Return the providers that are there and right; name the others."""
    right = {}
    for name in names:
        try:
            provider = LOADERS[name](device)
        except ImportError as error:
            print(f"{name}: absent: {error}")
            continue
        said = [judged(provider, inputs_of(case, device), case)[0] for case in checked]
        wrong = [each for each in said if each != "ok"]
        print(f"{name}: {wrong[0] if wrong else 'right'}", flush=True)
        if not wrong:
            right[name] = provider
    return right


def judged(provider: Provider, inputs: Draw, case: Case) -> tuple[str, dict[str, Any]]:
    """Return "ok" or what is wrong, and the errors."""
    try:
        found = errors(provider, inputs)
    except Exception as error:  # whatever a compiler raises for a shape that it does not take
        return failure(error), {}
    return complaint(found, case.torch_dtype) or "ok", found


def failure(error: Exception) -> str:
    """Return what a table says of an error; raise it if this process can do nothing more."""
    if "CUDA error" in f"{error}":
        raise error
    return f"failed: {type(error).__name__}: {error}".splitlines()[0][:120]


# What is timed, and recorded.


def measure(
    case: Case, providers: Mapping[str, Provider], device: torch.device, rounds: int
) -> list[Row]:
    """Return two rows for each provider, one a pass, and two for a copy."""
    inputs = inputs_of(case, device)
    replies = {name: judged(each, inputs, case) for name, each in providers.items()}
    runs = {
        (name, which): run
        for name, provider in providers.items()
        if replies[name][0] == "ok"
        for which, run in passes_of(provider, inputs).items()
    }
    runs |= {(COPY, which): run for which, run in copies(case, device).items()}
    sampler = timing.one_call if device == CPU else partial(timing.on_gpu, regime=case.regime)
    samples, peaks = {}, {}
    for (name, which), run in runs.items():
        try:
            samples[name, which] = sampler(run)
            peaks[name, which] = peak_bytes(run, device)
        except Exception as error:  # such as a pass that no graph can record
            replies[name] = (failure(error), replies[name][1])
    times = timing.in_turn(samples, 0, rounds, rounds, sampler=lambda sample: sample)
    versions = {name: provider.version for name, provider in providers.items()}
    rows = []
    for name, (status, found) in (replies | {COPY: ("ok", {})}).items():
        for which in PASSES:
            row: Row = dict.fromkeys(COLUMNS, "") | {"provider": name, "pass": which}
            row |= dict(zip(("rows", "features", "dtype", "regime"), case, strict=True))
            row |= {"bytes": case.bytes(which), "status": status}
            row["version"] = versions.get(name, torch.__version__)
            if found and replies[EAGER][1]:
                row["error_ratio"] = ratio_to_eager(found, replies[EAGER][1], which)
            if status == "ok":
                row["peak_bytes"] = peaks[name, which]
                row |= in_numbers(times[name, which], times[COPY, which], case, which)
            rows.append(row)
    return rows


def in_numbers(taken: list[float], copied: list[float], case: Case, which: str) -> Row:
    """Return what the seconds of the rounds come to."""
    low, middle, high = statistics.quantiles(taken, n=4, method="inclusive")
    names = ("median_us", "q1_us", "q3_us")
    said = {n: f"{1e6 * t:.4g}" for n, t in zip(names, (middle, low, high), strict=True)}
    if case.regime != "latency":  # where no bandwidth decides
        said["gb_per_s"] = f"{case.bytes(which) / middle / 1e9:.4g}"
        said["roof_fraction"] = f"{statistics.median(copied) / middle:.3g}"
    return said


KEY = ("provider", "device", "pass", "dtype", "rows", "features", "regime")


def joined(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Return the rows of a table; a new one takes the place of an older one about the same."""
    return list({tuple(f"{row[name]}" for name in KEY): row for row in (*old, *new)}.values())


def told(row: Row) -> str:
    """Return a row as a line to print."""
    names = ("rows", "features", "dtype", "regime", "pass", "provider")
    line = " ".join(f"{row[name]:>8}" for name in names)
    if not row["median_us"]:
        return f"{line} {row['status']}"
    of_copy = f", {row['roof_fraction']} of a copy's speed" if row["roof_fraction"] else ""
    return f"{line} {row['median_us']} µs{of_copy}, error {row['error_ratio'] or 'none'}"


def where(device: torch.device) -> Row:
    """Return device, versions, date and commit, which are the same in all rows of a run."""
    name = "CPU" if device == CPU else torch.cuda.get_device_name()
    said = {"device": name, "torch": torch.__version__, "driver": driver()}
    said["triton"] = version("triton") if importlib.util.find_spec("triton") else ""
    return said | {name: value for name, value in provenance().items() if name in COLUMNS}


def driver() -> str:
    """Return the version of NVIDIA's driver; nothing where nobody tells it."""
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return said.stdout.strip() if said.returncode == 0 else ""


def table(is_quick: bool, device: torch.device, seconds: float = 420) -> Iterator[list[Row]]:
    """Yield the rows of each case; after so many seconds no other case is begun."""
    began, rounds = time.monotonic(), 3 if is_quick else 5
    names, checked, todo = list(LOADERS), [Case(*case) for case in CHECKED], cases(is_quick)
    if device == CPU:
        names, checked = list(ON_CPU), [Case(*case) for case in TINY]
        todo = [sized(*case) for case in TINY]
    else:
        timing.use_one_stream()
    said, providers = where(device), admitted(names, checked, device)
    for done, case in enumerate(todo):
        if time.monotonic() - began > seconds:
            print(f"time is up: {len(todo) - done} of {len(todo)} cases were not measured")
            return
        yield [row | said for row in measure(case, providers, device, rounds)]
        gc.collect()  # autograd's graphs, which hold the tensors of the case
        torch.cuda.empty_cache()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few shapes; writes nothing")
    is_quick = parser.parse_args(arguments).quick
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == CPU:
        print("No GPU here: the kernels are interpreted, so times say nothing; none is recorded.")
    for found in table(is_quick, device):
        print(*map(told, found), sep="\n", flush=True)
        if not is_quick and device != CPU:  # a run that is ended keeps what it had
            save(RESULTS / "layer_norm.csv", joined(read_results(), found), COLUMNS)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
