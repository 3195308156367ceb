"""lnlib in models that others wrote: `make test-models`.

Not a part of `make test`, whose environment has none of these packages.
"""

from __future__ import annotations

import copy
import importlib
import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves
from zoo import MODELS, SMALL, Inputs, build, ids, normal, norms_of, text

import lnlib
from lnlib.swap import PLAIN

every_model = pytest.mark.parametrize("name", MODELS)


def swapped(model: nn.Module) -> nn.Module:
    """Swap a copy; what `swap` says has a test of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lnlib.swap(copy.deepcopy(model))


def to(dtype: torch.dtype, inputs: Inputs) -> Inputs:
    return {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}


def outputs(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    return [y for y in tree_leaves(model(**inputs)) if torch.is_floating_point(y)]


def outputs_and_gradients(model: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """Return all of them, the gradients for random ones from above."""
    model.zero_grad()
    ys = outputs(model, inputs)
    dys = [normal(*y.shape, seed=7 + i).to(y.dtype) for i, y in enumerate(ys)]
    torch.autograd.backward(ys, dys)
    found = {f"output {i}": y.detach() for i, y in enumerate(ys)}
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    return found | gradients


# Which norms


@every_model
def test_the_norms_that_are_known_to_be_plain_are_swapped(name: str) -> None:
    model, norms = build(name)[0], MODELS[name].norms
    before = list(model.parameters())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lnlib.swap(model)
    kinds = [type(norm) for norm in norms_of(model)]
    assert (len(kinds), kinds.count(lnlib.LayerNorm)) == (norms, MODELS[name].swapped)
    assert all(one is same for one, same in zip(model.parameters(), before, strict=True))
    left = norms - MODELS[name].swapped
    said = "lnlib.swap: "
    said += f"left {left} of {norms} norms" if left else "found no torch.nn.LayerNorm"
    assert [str(w.message)[: len(said)] for w in caught] == ([said] if left or not norms else [])


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("autocast", [False, True])
def test_a_plain_norm_computes_what_pytorchs_does(
    name: str, dtype: torch.dtype, autocast: bool
) -> None:
    module, _, kind = name.rpartition(".")
    norm = getattr(importlib.import_module(module), kind)(14).to(dtype)
    x = normal(2, 3, 5, 14).to(dtype)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        norm.weight.copy_(normal(14))
        found, true = norm(x), F.layer_norm(x, (14,), norm.weight, norm.bias, norm.eps)
    assert found.dtype == true.dtype
    assert torch.equal(found, true)
    assert type(lnlib.swap(norm)) is lnlib.LayerNorm


@pytest.mark.parametrize("name", [name for name in PLAIN if PLAIN[name] is not None])
def test_where_it_does_not_it_is_left(name: str) -> None:
    module, _, kind = name.rpartition(".")
    norm = getattr(importlib.import_module(module), kind)(14)
    if "timm" in name:
        norm._fast_norm = True  # rounds to bfloat16 under autocast
    else:
        norm.data_format = "channels_first"
    with pytest.warns(UserWarning, match=f"left 1 of 1 norms as they are, of class {name}"):
        assert type(lnlib.swap(norm)).__name__ == kind


# What it computes


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_are_as_near_to_float64_as_before(
    name: str, dtype: torch.dtype
) -> None:
    model, inputs = build(name)
    model, inputs = model.to(dtype), to(dtype, inputs)
    double = copy.deepcopy(model).double(), to(torch.float64, inputs)
    truth = outputs_and_gradients(*double)
    theirs = outputs_and_gradients(model, inputs)
    ours = outputs_and_gradients(swapped(model), inputs)
    assert ours.keys() == theirs.keys() == truth.keys()
    # Half as much again as PyTorch's error, and some thirty roundings, one after the other, of the
    # tensor's largest value; for what nearly cancels, as in CLIP's logits and the gradients of a
    # key's bias, also of a hundredth of the largest of all.
    largest = max(true.abs().max() for true in truth.values())
    for key, true in truth.items():
        error, allowed = ((each[key].double() - true).abs().max() for each in (ours, theirs))
        rounding = torch.finfo(dtype).eps / 2 * (true.abs().max() + largest / 100)
        assert error <= 1.5 * allowed + 32 * rounding, key


# Programs


@every_model
def test_an_exported_program_has_the_operators_of_pytorchs(name: str) -> None:
    model, inputs = build(name)
    programs = [torch.export.export(m, (), inputs) for m in (swapped(model), model)]
    ours, theirs = (Counter(str(node.target) for node in p.graph.nodes) for p in programs)
    assert ours == theirs
    assert ours["aten.layer_norm.default"] == MODELS[name].norms
    values = [tree_leaves(node.meta.get("val")) for node in programs[0].graph.nodes]
    dtypes = {v.dtype for leaves in values for v in leaves if isinstance(v, Tensor)}
    assert torch.float64 not in dtypes


def in_onnx(model: nn.Module, inputs: Inputs) -> Any:
    return torch.onnx.export(model, (), kwargs=inputs, dynamo=True, verbose=False)


def session(program: Any) -> Callable[[Inputs], list[Any]]:
    runs = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    return lambda inputs: runs.run(None, {k: v.numpy() for k, v in inputs.items()})


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "timm's ViT", "timm's ConvNeXt"])
def test_onnx_has_one_node_a_norm_and_its_runtime_the_same_values(name: str) -> None:
    model, inputs = build(name)
    ours, theirs = (in_onnx(m, inputs) for m in (swapped(model), model))
    kinds, before = (Counter(node.op_type for node in each.model.graph) for each in (ours, theirs))
    assert kinds == before  # so it is as fast
    assert kinds["LayerNormalization"] == MODELS[name].norms
    assert ours.model.opset_imports[""] >= 17
    assert "DOUBLE" not in {str(v.dtype) for node in ours.model.graph for v in node.outputs}
    with torch.no_grad():
        for found, y in zip(session(ours)(inputs), outputs(swapped(model), inputs), strict=True):
            # Some forty roundings of 6e-8, as in test_swap.py; ONNX Runtime rounds otherwise.
            torch.testing.assert_close(torch.from_numpy(found), y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["timm's ViT", "timm's DeiT", "timm's ConvNeXt"])
def test_fx_traces_a_swapped_model(name: str) -> None:
    model, inputs = build(name)
    ours = swapped(model)
    traced = fx.symbolic_trace(ours)
    called = Counter(node.target for node in traced.graph.nodes)
    assert called[lnlib.layer_norm] == MODELS[name].swapped
    assert torch.equal(traced(inputs["x"]), ours(inputs["x"]))


# The recipe of chapter 9


def recipe() -> dict[str, Any]:
    """Return what the two blocks to paste define."""
    page = Path(__file__).parents[2] / "notebooks" / "09_which_norm.ipynb"
    cells = ["".join(c["source"]) for c in json.loads(page.read_text("utf8"))["cells"]]
    blocks = [c for c in cells if "def center(" in c or c.startswith("def to_rms(")]
    names: dict[str, Any] = {}
    exec("\n\n".join(blocks), names)
    return names


def test_pythias_layer_norms_become_rms_norms_by_the_recipe_of_chapter_9() -> None:
    config = hf.GPTNeoXConfig(**text(SMALL))
    model = hf.GPTNeoXForCausalLM(config).double().eval()
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.3, 0.7)
    given = ids(SMALL)
    right = model(given).logits
    stack, *blocks = model.gpt_neox, *model.gpt_neox.layers
    writers = [stack.embed_in]
    readers = {"gpt_neox.final_layer_norm": [model.get_output_embeddings()]}
    for i, block in enumerate(blocks):
        writers += [block.attention.dense, block.mlp.dense_4h_to_h]
        at = f"gpt_neox.layers.{i}"
        readers[f"{at}.input_layernorm"] = [block.attention.query_key_value]
        readers[f"{at}.post_attention_layernorm"] = [block.mlp.dense_h_to_4h]
    recipe()["to_rms"](model, writers, readers)
    torch.testing.assert_close(model(given).logits, right, rtol=0, atol=1e-9)
    kinds = Counter(type(module) for module in model.modules())
    assert (kinds[nn.LayerNorm], kinds[nn.RMSNorm]) == (0, 2 * SMALL.layers + 1)


def test_the_recipe_refuses_gpt_2_whose_head_is_tied() -> None:
    model = hf.GPT2LMHeadModel(hf.GPT2Config(**text(SMALL)))
    with pytest.raises(ValueError, match="tied"):
        recipe()["to_rms"](model, [model.transformer.wte], {})
