"""What the explorers' JavaScript has to compute: for 60 states each, by lnlib.formula or autograd.

A module has the name of an explorer, and `case(**state)` returns numbers and lists of them, which
tests/js/NAME.test.mjs compares with its own.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import random
import subprocess
from typing import Any

import stills
import torch

from lnlib.book.explorers.base import HERE, Choice, Explorer, Number, Numbers, Whole


def states(kind: type[Explorer], count: int = 60) -> list[dict[str, Any]]:
    """Return the first state of an explorer, and others drawn from all that its traits take."""
    traits = {name: kind.class_traits()[name] for name in kind().state()}
    draw = random.Random(kind.__name__)
    first = {name: trait.default_value for name, trait in traits.items()}
    return [first, *({n: some(t, draw) for n, t in traits.items()} for _ in range(count - 1))]


def some(trait: Any, draw: random.Random) -> Any:
    """Return a value of a trait; one in eight is an end of its range, or a constant row."""
    if isinstance(trait, Choice):
        return draw.choice(trait.options)
    if isinstance(trait, Whole):
        return draw.randint(trait.low, trait.high)
    rare = draw.random() < 1 / 8
    if isinstance(trait, Numbers):
        size = len(trait.default_value)
        return (
            size * (some(trait.each, draw),)
            if rare
            else tuple(some(trait.each, draw) for _ in range(size))
        )
    assert isinstance(trait, Number)
    if rare:
        return 0.0 if trait.zero else draw.choice([trait.low, trait.high])
    if trait.low > 0:
        return math.exp(draw.uniform(math.log(trait.low), math.log(trait.high)))
    return draw.uniform(trait.low, trait.high) / draw.choice([1, 4, 100])


@functools.cache
def data(explorer: str, wanted: str) -> dict[str, torch.Tensor]:
    """Return fixed data of an explorer's module `it`: an object, as JavaScript has it."""
    script = f"import * as it from './{explorer}.mjs'; console.log(JSON.stringify({wanted}))"
    printed = subprocess.check_output(["node", "--input-type=module", "-e", script], cwd=HERE)
    return {name: torch.tensor(v, dtype=torch.float64) for name, v in json.loads(printed).items()}


def plain(value: Any) -> Any:
    """Return what JSON can hold: lists, and for NaN and ∞ what JavaScript's Number reads."""
    if isinstance(value, torch.Tensor):
        return plain(value.detach().double().tolist())
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def golden() -> dict[str, Any]:
    """Return the cases of all explorers: their states, and what these come to."""
    made = {}
    for kind in stills.KINDS:
        case = importlib.import_module(f"goldens.{kind._files}").case
        made[kind._files] = [plain({"state": s, **case(**s)}) for s in states(kind)]
    return made
