"""Who takes part in ``bench_accuracy.py``: lnlib, PyTorch, formulas that people write, and peers.

A provider computes y, dx, dγ and dβ of one `Draw`, all in the type of its x. What a library does
not have is None. The peers come with ``pip install ".[peers]"``; none is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import lnlib
from lnlib.dispatch import BACKENDS

# ONNX stores ε as a float32, so everybody gets one that float32 holds.
EPS = torch.tensor(1e-5).item()
INTERPRETED = 6_152  # elements: an interpreted kernel is too slow for more
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Draw(NamedTuple):
    """Inputs of one shape (B, H): x and the upstream gradient dy; weight and bias are (H,)."""

    x: Tensor
    weight: Tensor
    bias: Tensor
    dy: Tensor


Results = list[Tensor | None]  # y, dx, dweight, dbias


class Provider(NamedTuple):
    """A layer norm to compare."""

    run: Callable[[Draw], Results]
    version: str
    largest: float = float("inf")  # the most elements of x that it can do in useful time
    dtypes: tuple[torch.dtype, ...] = DTYPES


LayerNorm = Callable[[Tensor, Tensor, Tensor], Tensor]


def composed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute the formula as people write it, in the type of the input."""
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True, correction=0)
    return (x - mean) / torch.sqrt(var + EPS) * weight + bias


def one_pass(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Take the variance in one pass, E[x²] − E[x]², in the type of the input."""
    mean = x.mean(-1, keepdim=True)
    var = x.square().mean(-1, keepdim=True) - mean.square()
    return (x - mean) * (var + EPS).rsqrt() * weight + bias


def differentiated(layer_norm: LayerNorm, draw: Draw) -> Results:
    """Return the results of a function of PyTorch tensors, its gradients by autograd."""
    leaves = [tensor.detach().requires_grad_() for tensor in draw[:3]]
    y = layer_norm(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, draw.dy)]


def in_pytorch(layer_norm: LayerNorm, of: str = torch.__version__) -> Provider:
    """Return a provider of a function of PyTorch tensors."""
    return Provider(lambda draw: differentiated(layer_norm, draw), of)


def ours(backend: str) -> Provider:
    """Return a backend of lnlib."""

    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return lnlib.layer_norm(x, weight.shape, weight, bias, EPS, backend=backend)

    found = in_pytorch(layer_norm, lnlib.__version__)
    if backend != "triton":
        return found
    # The interpreter keeps bfloat16 in NumPy, where it is truncated; a GPU rounds it.
    interpreted = tuple(dtype for dtype in DTYPES if dtype != torch.bfloat16)
    return found._replace(largest=INTERPRETED, dtypes=interpreted)


def flax(**options: Any) -> Provider:
    """Return Flax's layer norm, compiled by XLA."""
    from flax import linen

    norm = linen.LayerNorm(epsilon=EPS, **options)

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return norm.apply({"params": {"scale": weight, "bias": bias}}, x)

    return in_jax(layer_norm, f"Flax {version('flax')}, JAX {version('jax')}")


def keras() -> Provider:
    """Return Keras's own arithmetic; on PyTorch it would call PyTorch's layer norm."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
        return keras.ops.layer_normalization(x, weight, bias, axis=-1, epsilon=EPS)

    return in_jax(layer_norm, f"Keras {version('keras')}, JAX {version('jax')}")


def in_jax(layer_norm: Callable[[Any, Any, Any], Any], of: str) -> Provider:
    """Return a provider of a function of JAX arrays, its gradients by JAX."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)  # else JAX would make float32 of float64

    @jax.jit
    def results(x: Any, weight: Any, bias: Any, dy: Any) -> tuple[Any, ...]:
        y, pull_back = jax.vjp(layer_norm, x, weight, bias)
        return (y, *pull_back(dy))

    def run(draw: Draw) -> Results:
        found = results(*(jax.numpy.from_dlpack(tensor) for tensor in draw))
        return [torch.from_dlpack(array) for array in found]

    return Provider(run, of)


def onnx_runtime() -> Provider:
    """Return ONNX Runtime's operator LayerNormalization, which has no gradient."""
    import onnxruntime

    cpu = ["CPUExecutionProvider"]
    sessions = {
        dtype: onnxruntime.InferenceSession(onnx_model(dtype), providers=cpu) for dtype in DTYPES
    }

    def run(draw: Draw) -> Results:
        dtype = draw.x.dtype
        given = {name: getattr(draw, name) for name in ONNX_INPUTS}
        arrays = {name: tensor.to(carrier(dtype)).numpy() for name, tensor in given.items()}
        (y,) = sessions[dtype].run(None, arrays)
        return [torch.from_numpy(y).to(dtype), None, None, None]

    return Provider(run, f"ONNX Runtime {version('onnxruntime')}")


ONNX_INPUTS = {"x": ["B", "H"], "weight": ["H"], "bias": ["H"]}  # by name, the dimensions


def onnx_model(dtype: torch.dtype) -> bytes:
    """Return a model of one layer norm in ``dtype``; `carrier` types go in and come out."""
    from onnx import TensorProto, helper

    names = {torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16"}
    names |= {torch.float32: "FLOAT", torch.float64: "DOUBLE"}
    outside, inside = (TensorProto.DataType.Value(names[each]) for each in (carrier(dtype), dtype))
    cast = [f"{name} inside" for name in ONNX_INPUTS]
    nodes = [
        helper.make_node("Cast", [name], [to], to=inside)
        for name, to in zip(ONNX_INPUTS, cast, strict=True)
    ]
    nodes += [
        helper.make_node("LayerNormalization", cast, ["y inside"], axis=-1, epsilon=EPS),
        helper.make_node("Cast", ["y inside"], ["y"], to=outside),
    ]
    inputs = [
        helper.make_tensor_value_info(name, outside, dimensions)
        for name, dimensions in ONNX_INPUTS.items()
    ]
    outputs = [helper.make_tensor_value_info("y", outside, ONNX_INPUTS["x"])]
    graph = helper.make_graph(nodes, "layer norm", inputs, outputs)
    opset = helper.make_opsetid("", 17)  # the first that has the operator
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return bytes(model.SerializeToString())


def carrier(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which values cross NumPy, which has no bfloat16; float32 holds them."""
    return torch.float32 if dtype == torch.bfloat16 else dtype


THEIRS = "PyTorch"
LOADERS: dict[str, Callable[[], Provider]] = {
    THEIRS: lambda: in_pytorch(lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS)),
    **{
        f"lnlib {backend}": lambda backend=backend: ours(backend)
        for backend in BACKENDS
        if backend != "torch"
    },
    "composed": lambda: in_pytorch(composed),
    "one pass": lambda: in_pytorch(one_pass),
    "Flax": flax,
    "Flax two-pass": lambda: flax(use_fast_variance=False),
    "Keras on JAX": keras,
    "ONNX Runtime": onnx_runtime,
}


def load(loaders: dict[str, Callable[[], Provider]]) -> tuple[dict[str, Provider], dict[str, str]]:
    """Return the providers there are and, of those that are not installed, what is missing."""
    found, absent = {}, {}
    for name, loader in loaders.items():
        try:
            found[name] = loader()
        except ImportError as error:
            absent[name] = f"{error}"
    return found, absent


def takes(provider: Provider, dtype: torch.dtype) -> bool:
    """Tell whether a provider can compute in this type, on this machine."""
    if dtype not in provider.dtypes:
        return False
    x, row = torch.arange(6.0).reshape(2, 3).to(dtype), torch.ones(3, dtype=dtype)
    try:
        provider.run(Draw(x, row, row, x))
    except (ImportError, RuntimeError):
        return False
    return True
