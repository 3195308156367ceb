"""Who takes part in ``bench_layer_norm.py``, on which inputs, and how wrong they are.

A provider is a function of x (B, H), weight and bias (H,) whose result autograd can differentiate.
Each is loaded by name, in a process of its own, since one may change settings of PyTorch.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

import lnlib
from lnlib.book.home import ROOT
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


class Case(NamedTuple):
    """One shape to be timed; a half type is given by its name, as in the table."""

    rows: int
    features: int
    dtype: str
    regime: str

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


class Inputs(NamedTuple):
    """The arguments of both passes."""

    x: Tensor
    weight: Tensor
    bias: Tensor
    dy: Tensor


class Provider(NamedTuple):
    """A layer norm to compare."""

    run: Callable[[Tensor, Tensor, Tensor], Tensor]
    version: str
    parameters: torch.dtype | None = None  # the only one it takes, where it is not that of x


def inputs_of(case: Case, device: torch.device) -> Inputs:
    """Return random inputs, the same in every process.

    Rows are far from zero, ``weight`` near 1, and ``dy`` has a mean and a part along x: a padded
    lane that is counted, or a term of dx that is left out, makes a large error.
    """
    seed = 31 * case.rows + case.features
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    z = normal(case.rows, case.features)
    dy = normal(case.rows, case.features).add_(z, alpha=0.25).add_(0.125)
    x = z.mul_(0.5).sub_(2.3)
    weight, bias = 1 + 0.25 * normal(case.features), 0.25 * normal(case.features)
    return Inputs(*(tensor.to(case.torch_dtype) for tensor in (x, weight, bias, dy)))


def leaves_of(provider: Provider, inputs: Inputs) -> list[Tensor]:
    """Return x, weight and bias as ``provider`` takes them, to be differentiated."""
    dtype = provider.parameters or inputs.x.dtype
    given = (inputs.x, inputs.weight.to(dtype), inputs.bias.to(dtype))
    return [tensor.detach().requires_grad_() for tensor in given]


def errors(provider: Provider, inputs: Inputs) -> dict[str, tuple[float, float]]:
    """Return of y, dx, dweight and dbias the RMS error, and that over the RMS of the truth.

    The truth is `lnlib.formula` in float64 with autograd, from the same rounded inputs.
    """
    leaves = leaves_of(provider, inputs)
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


def complaint(found: dict[str, tuple[float, float]], dtype: torch.dtype) -> str | None:
    """Return what is wrong with a provider that has these `errors`, or None."""
    for name, (_, relative) in found.items():
        if not relative <= MOST_WRONG[dtype]:  # NaN is wrong too
            return f"wrong: {name} is off by {relative:.3g} of its size"
    return None


def load(name: str, device: torch.device) -> Provider:
    """Return the provider ``name``; raises what its import raises, if it is absent."""
    return LOADERS[name](device)


def _ours(device: torch.device) -> Provider:
    runtime.check(device)
    return Provider(
        lambda x, weight, bias: lnlib.layer_norm(
            x, weight.shape, weight, bias, EPS, backend="triton"
        ),
        lnlib.__version__,
    )


def _torch_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias, EPS)


def _eager(device: torch.device) -> Provider:
    return Provider(_torch_layer_norm, torch.__version__)


def _compiled(device: torch.device) -> Provider:
    import torch._dynamo.config
    import torch._functorch.config

    # Each shape is compiled for itself. At the default limits the ninth would silently run eagerly.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 10_000
    torch._functorch.config.donated_buffer = False  # else one backward pass could not be repeated
    run = torch.compile(_torch_layer_norm, fullgraph=True, dynamic=False)
    return Provider(run, torch.__version__)


def _liger(device: torch.device) -> Provider:
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return Provider(
        lambda x, weight, bias: LigerLayerNormFunction.apply(x, weight, bias, EPS),
        version("liger-kernel"),
    )


def _module(path: Path, device: torch.device) -> ModuleType:
    """Return a module of kernels, imported with the Triton that runs them on ``device``."""
    triton = runtime.triton_for(device)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    ours = {"triton": triton, "triton.language": triton.language}
    with mock.patch.dict(sys.modules, ours):  # on a CPU, the interpreter
        spec.loader.exec_module(module)
    return module


def _tutorial(device: torch.device) -> Provider:
    runtime.check(device)
    module = _module(Path(__file__).with_name("tutorial_layer_norm.py"), device)
    return Provider(
        lambda x, weight, bias: module.Tutorial.apply(x, weight, bias, EPS),
        module.triton.__version__,
    )


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
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "chapter.py"
    path.write_text(chapter_source(), encoding="utf8")
    module = _module(path, device)
    module.folder = folder  # type: ignore[attr-defined]  # Triton reads the source as it compiles

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if x.shape[1] > LONGEST:
            raise ValueError(f"rows of {x.shape[1]} features fit no program")
        y: Tensor = module.LayerNorm.apply(x, weight, bias, EPS)
        return y

    return Provider(run, module.triton.__version__)


def _quack(device: torch.device) -> Provider:
    from quack.rmsnorm import layernorm_bwd, layernorm_fwd

    class Quack(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            y, rstd, mean = layernorm_fwd(x, weight, bias, EPS, return_rstd=True, return_mean=True)
            ctx.save_for_backward(x, weight, rstd, mean)
            return y

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
            x, weight, rstd, mean = ctx.saved_tensors
            return layernorm_bwd(x, weight, dy, rstd, mean, has_bias=True)

    return Provider(Quack.apply, version("quack-kernels"), parameters=torch.float32)


OURS, EAGER, COMPILED, COPY = "lnlib", "PyTorch", "torch.compile", "copy"
CHAPTER = "chapter 7"
LOADERS: dict[str, Callable[[torch.device], Provider]] = {
    OURS: _ours,
    EAGER: _eager,
    COMPILED: _compiled,
    "Liger-Kernel": _liger,
    "Triton tutorial": _tutorial,
    CHAPTER: _chapter,
    "quack": _quack,
}
