"""How long others' models take, swapped and as they were: `python tests/time_models.py [NAME ...]`.

Runs in the environment of `make test-models`, and prints a table.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from real_models import in_onnx, outputs, session, swapped, to
from torch import nn
from zoo import LARGE, MODELS, Inputs, build, norms_of

import lnlib


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> str:
    """Call both in turns for some seconds; return the median of the ratios, and the quartiles."""
    found: list[float] = []
    end = time.perf_counter() + 3
    while len(found) < 13 or time.perf_counter() < end:
        took = {}
        for call in (ours, theirs) if len(found) % 2 else (theirs, ours):
            start = time.perf_counter()
            call()
            took[call] = time.perf_counter() - start
        found.append(took[ours] / took[theirs])
    low, middle, high = statistics.quantiles(found[3:], n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def inference(model: nn.Module, inputs: Inputs) -> Callable[[], None]:
    def run() -> None:
        with torch.inference_mode():
            model(**inputs)

    return run


def training(model: nn.Module, inputs: Inputs) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)

    def step() -> None:
        optimizer.zero_grad()
        sum(y.square().mean() for y in outputs(model, inputs)).backward()
        optimizer.step()

    return step


def row(name: str) -> str:
    """Return a line of the table: T5, where nothing is swapped, shows what chance does."""
    model, inputs = build(name, LARGE)
    both, before = (swapped(model), model), norms_of(model)
    count = sum(type(norm) is lnlib.LayerNorm for norm in norms_of(both[0]))
    with torch.no_grad():
        pairs = zip(outputs(both[0], inputs), outputs(model, inputs), strict=True)
        difference = max(((a - b).abs().max() / b.abs().max()).item() for a, b in pairs)
    cells = [name, str(len(before)), str(count), f"{difference:.1e}"]
    try:
        sessions = [session(in_onnx(each, inputs)) for each in both]
        of_onnx = ratio(*(lambda run=run: run(inputs) for run in sessions))
    except torch.onnx.OnnxExporterError:
        of_onnx = "no export"
    for dtype in (torch.float32, torch.bfloat16):
        given = to(dtype, inputs)
        for measure in (inference, training):
            cells.append(ratio(*(measure(copy.deepcopy(each).to(dtype), given) for each in both)))
    return " | ".join([*cells, of_onnx])


if __name__ == "__main__":
    titles = ["model", "norms", "swapped", "outputs differ by", "inference, float32"]
    titles += ["training, float32", "inference, bfloat16", "training, bfloat16", "ONNX Runtime"]
    print(f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", sep="\n")
    for name in sys.argv[1:] or MODELS:
        print(f"| {row(name)} |", flush=True)
