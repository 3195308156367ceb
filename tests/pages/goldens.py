"""What the explorers' JavaScript has to compute: for 60 states each, by lnlib.formula or autograd.

A function has the name of an explorer, takes a state of it, and returns numbers and lists of them,
which tests/js/NAME.test.mjs compares with its own.
"""

from __future__ import annotations

import cmath
import functools
import json
import math
import random
import subprocess
from typing import Any

import numpy as np
import stills
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, relu

from lnlib import formula
from lnlib.book.explorers.base import HERE, Choice, Explorer, Number, Numbers, Whole
from lnlib.lstm import formula as lstm
from lnlib.lstm.formula import Weights


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
        drawn = 1 if rare else size
        return size // drawn * tuple(some(trait.each, draw) for _ in range(drawn))
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
        case = globals()[kind._files]
        made[kind._files] = [plain({"state": s, **case(**s)}) for s in states(kind)]
    return made


DIMS = {"batch": (-4, -1), "layer_sample": (-3, -2, -1), "layer_position": (-3, -2)}
DIMS |= {"instance": (-1,), "group": (-2, -1), "rms": (-3, -2)}  # channels as two groups of two


def axes(norm: str, changed: int, change: float, **cell: int) -> dict[str, object]:
    """The block, its outputs by means over dimensions that share them, and which of them move."""
    fixed, dims = data("axes", "{ values: it.values, pattern: it.pattern }"), DIMS[norm]
    x = fixed["values"].view(3, 2, 2, 5).repeat(2, 1, 1, 1, 1)  # before the change, and now
    x[1, changed - 1] += change * fixed["pattern"].view(2, 2, 5)
    mean = x.mean(dims, keepdim=True) * (norm != "rms")
    std = (x - mean).square().mean(dims, keepdim=True).sqrt()
    group = torch.arange(60.0).view_as(x[0]).mean(dims, keepdim=True)  # no two have the same
    group, x_hat = group.expand_as(x[0]).flatten(), (x - mean) / (std**2 + 1e-5).sqrt()
    x, x_hat, mean, std = (v.expand_as(x).flatten(1) for v in (x, x_hat, mean, std))
    at = 20 * cell["sample"] + 5 * cell["channel"] + cell["position"] - 26
    before, now = zip(x, x_hat, mean[:, at], std[:, at], strict=True)
    found = {"before": before, "now": now, "marks": (x_hat[1] - x_hat[0]).abs() > 1e-9}
    return found | {"places": (group == group[at]).nonzero()[:, 0], "pairs": len(group.unique())}


def backward(x: Any, weight: Any, dy: Any, eps: float, forget: str, **_: Any) -> dict[str, Any]:
    """The gradients of layer norm's small steps by autograd; a forgotten arrow carries nothing."""
    given = torch.tensor([x, weight, [0] * 4, dy], dtype=torch.float64)
    x, weight, bias = (row.clone().requires_grad_() for row in given[:3])
    carried: dict[str, torch.Tensor] = {}

    def used(arrow: str, value: torch.Tensor) -> torch.Tensor:
        sent = value.expand(1 if arrow == "s-var" else 4)
        sent.register_hook(lambda g: carried.setdefault(arrow, g * (arrow != forget)))
        return sent

    mean = used("mean-x", x).mean(0, keepdim=True)
    centered = used("centered-x", x) - used("centered-mean", mean)
    variance = used("var-centered", centered).square().mean(0, keepdim=True)
    s = (used("s-var", variance) + eps).sqrt()
    x_hat = used("y-centered", centered) / used("y-s", s)
    y = x_hat * used("y-weight", weight) + used("y-bias", bias)
    y.backward(given[3])
    values = {"mean": mean[0], "centered": centered, "variance": variance[0], "s": s[0]}
    values |= {"xHat": x_hat, "y": y}
    return {"values": values, "carried": carried, "dx": x.grad}


def cell(scale: float, norm: str, row: int, eps: float, blank: int, bias: str) -> dict[str, object]:
    """The steps of the digit's rows by lnlib.lstm.formula, and their gradients by autograd."""
    fixed = data("cell", "{ ...it.weights, digits: [0, 1, 2, 3, 4, 5].map(it.digit) }")
    ih, hh, one = scale * fixed["ih"], scale * fixed["hh"], torch.ones(64).double()
    weights = Weights(ih, hh, fixed["bias"] * (bias == "random"), one, one, one[:16], None)
    norm_of = lstm.not_normalizing if norm == "none" else lstm.normalizing(eps)
    x = fixed["digits"][blank]
    inputs = lstm.gate_inputs(x, weights, norm_of).requires_grad_()
    h, carried, steps = one.new_zeros(16), one.new_zeros(16), []
    for from_x, sums in zip(x @ ih.mT, inputs, strict=True):
        from_h = h @ hh.mT
        i, f, new, o = (sums + norm_of(from_h, one, None)).chunk(4)
        h, c = lstm.step(sums, h, carried, weights, norm_of, "raw")
        carried = norm_of(c, one[:16], None) if norm == "normalized" else c
        divisors = [(wire.var(correction=0) + eps).sqrt() for wire in (from_h, from_x, c)]
        steps.append({"fromH": from_h, "fromX": from_x, "c": c, "h": h, "carried": carried})
        steps[-1]["divisors"] = 3 * [1] if norm == "none" else divisors
        steps[-1]["gates"] = [i.sigmoid(), f.sigmoid(), new.tanh(), o.sigmoid()]
    gradients = torch.autograd.grad(h, inputs, fixed["back"])[0].norm(dim=1)
    sizes = torch.stack([wires["carried"] for wires in steps]).square().mean(1).sqrt()
    return {"steps": steps, "gradients": gradients / gradients[-1], "sizes": sizes}


Z = torch.linspace(0, 40, 400_001, dtype=torch.float64)  # what it lets pass
MEAN = torch.trapezoid(Z * (-Z * Z / 2).exp(), Z).item() / (2 * torch.pi) ** 0.5
# The weights of 50 layers, then an input and a gradient.
NETWORK = "{ all: Array.from({ length: (50 * 128 + 2) * 128 }, (_, i) => it.draw(i, %d)) }"


def depth(order: str, scale: float, depth: int, network: int = 1) -> dict[str, torch.Tensor]:
    """Sizes in the network by autograd, and their law: a ReLU passes half of a bell curve."""
    drawn = data("depth", NETWORK % network)["all"].view(-1, 128)
    x, dy = (v / v.square().mean().sqrt() for v in drawn[-2:])
    h, sizes, gradients = [x.requires_grad_()], [1.0], [1.0]
    for w in drawn[: 128 * depth].split(128):
        a, rms = h[-1] @ w * scale / 8, scale * 2**0.5 * sizes[-1]  # √(2/128) is 1/8
        n = layer_norm(a if order == "norm_first" else relu(a), (128,), eps=0)
        h.append({"none": relu(a), "norm_first": relu(n), "relu_first": n}[order])
        sizes.append({"none": rms / 2**0.5, "norm_first": 0.5**0.5, "relu_first": 1}[order])
        divisor = {"none": 1, "norm_first": rms, "relu_first": rms * (0.5 - MEAN**2) ** 0.5}[order]
        gradients = [*(v * scale / divisor for v in gradients), 1.0]  # by √2 scale, then √½ of them
    both = torch.stack([*h, *torch.autograd.grad(h[-1], h, dy)]).view(2, depth + 1, 128)
    return {"law": x.new_tensor([sizes, gradients]), "measured": both.square().mean(-1).sqrt()}


PATTERN = torch.tensor([-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2], dtype=torch.float64)


def epsilon(eps: float, spread: float) -> dict[str, Any]:
    """The row normalized three ways, its variance, and the norm of the Jacobian."""
    x, made = spread * PATTERN, {}
    # NumPy rounds float64 to float16 once, as the page does; PyTorch goes through float32.
    half, half_eps = torch.from_numpy(x.numpy().astype(np.float16)), float(np.float16(eps))
    ways = {way: formula.terms(x, eps=eps, eps_at=way) for way in ("variance", "std")}
    ways["half"] = formula.terms(half, eps=half_eps, dtype=torch.float16)
    for way, found in ways.items():
        x_hat, size = found.x_hat.double(), found.rstd[0]
        if way != "half" and spread > 0:  # at 0 the norm is this limit
            jacobian = torch.func.jacrev(lambda v, at=way: formula.terms(v, eps=eps, eps_at=at)[5])
            size = torch.linalg.matrix_norm(jacobian(x), ord=2)
        variance = x_hat.var(correction=0)
        made[way] = {"xHat": x_hat, "outputVariance": variance, "gradientSize": size}
    return made


def gamma_beta(x: Any, weight: Any, bias: Any, eps: float) -> dict[str, Any]:
    """The four lanes, and the mean and the standard deviation of each."""
    row, gamma, beta = (torch.tensor(v, dtype=torch.float64) for v in (x, weight, bias))
    found = formula.terms(row, gamma, beta, eps=eps)
    lanes = {"x": row, "xHat": found.x_hat, "weight": gamma, "y": found.y}
    sizes = [{"mean": v.mean(), "std": v.std(correction=0)} for v in lanes.values()]
    return {"lanes": lanes, "statistics": sizes}


def jacobian(x: Any, weight: Any, eps: float, step: int, **_: Any) -> dict[str, Any]:
    """The row's statistics, and its Jacobian as autograd finds it: as a whole, and path by path."""
    row, gamma = (torch.tensor(v, dtype=torch.float64) for v in (x, weight))
    mean, _var, std, denominator, _rstd, x_hat, _y = formula.terms(row, eps=eps)

    def y(direct: Tensor, of_mean: Tensor, of_std: Tensor) -> Tensor:
        """Return y as three rows make it: the one that is normalized, that of μ and that of σ."""
        centered = direct - formula.terms(of_mean).mean
        return gamma * centered / formula.terms(of_std, eps=eps).denominator

    held = (row,) * (2 - step)  # what does not count yet stays as it is
    return {
        "row": {"mean": mean[0], "std": std[0], "denominator": denominator[0], "xHat": x_hat},
        "paths": torch.func.jacrev(y, argnums=(0, 1, 2))(row, row, row),
        "matrix": torch.func.jacrev(lambda x: y(*(x,) * (step + 1), *held))(row),
    }


def row(x: Any, eps: float, weight: float, bias: float) -> dict[str, Any]:
    """Every term of the row as it is, and of one ten million times smaller, where ε counts."""
    rows = []
    for row in torch.tensor([x, x], dtype=torch.float64) / torch.tensor([[1], [1e7]]):
        # A row has the x̂ of one moved by its first number, and that of a constant row is exactly 0.
        moved, gamma, beta = row - row[0], row.new_full((8,), weight), row.new_full((8,), bias)
        mean, _, std, s, _, x_hat, y = formula.terms(moved, gamma, beta, eps=eps)
        of_x = {"mean": mean[0] + row[0], "centered": moved - mean}
        rows.append({"x": row, "ofX": of_x | {"std": std[0], "denominator": s[0]}})
        rows[-1]["free"] = {"xHat": x_hat, "y": y, "spread": (std / s)[0]}
    return {"rows": rows}


BASIS = normalize(torch.tensor([[0.0, 1, -1], [2, -1, -1], [1, 1, 1]]).double())


def sphere(x: Any, weight: Any, bias: Any, eps: float, turn: float) -> dict[str, Any]:
    """The terms of x and of a row a thousand times smaller, their Jacobians, and what is seen."""
    (row, gamma, beta), rows = torch.tensor([x, weight, bias], dtype=torch.float64), []
    for x in (row, row / 1000):
        mean, _, std, s, _, x_hat, y = formula.terms(x, gamma, beta, eps=eps)
        of_x = {"mean": mean[0], "std": std[0], "s": s[0], "centered": x - mean}
        jacobian, affine = torch.func.jacrev(lambda v: formula.terms(v, gamma, eps=eps)[-2:])(x)
        more = {"jacobian": jacobian, "affine": affine, "seen": camera(turn) @ x}
        rows.append({"x": x, "ofX": of_x, "xHat": x_hat, "y": y, **more})
    return {"rows": rows}


def camera(turn: float) -> torch.Tensor:
    """Return the directions that it sees as to the right, up and near."""
    plane = torch.complex(*BASIS[:2]) * cmath.rect(1, turn * cmath.pi / 180)
    height = torch.complex(BASIS[2], plane.imag) * cmath.rect(1, cmath.pi / 7)  # it looks down
    return torch.stack([plane.real, height.real, height.imag])


PARK_MILLER = [255 * pow(16807, n, 2**31 - 1) % (2**31 - 1) >> 8 for n in range(1, 2 * 12 * 16 + 1)]
BITS = torch.tensor(PARK_MILLER).view(2, 12, 16)  # Park and Miller (1988), with the page's seed
X, DY = (BITS[0] % 17 / 2 - 2.5).double(), (BITS[1] % 9 / 4 - 1).double()


def tiles(**state: Any) -> Any:
    """Variances by the formula, sums of x̂·dy, and how often each number is read."""
    kernel, rows, features, P, tile, lanes, padding, step = state.values()
    x, dy = X[:rows, :features], DY[:rows, :features]
    mean, var, *_ = formula.terms(x)
    width = max(lanes, 1 << (features - 1).bit_length())
    counted = var + (kernel == "forward") * (width - features) / features * mean.square()
    x_hat = (x - mean) / ((counted if padding == "counted" else var) + 1e-5).sqrt()
    which = torch.arange(rows) // tile
    turn = torch.arange(features) // lanes if kernel == "long" else which[:, None] // P
    back = (kernel == "long") * (turn >= 2 * (turn[-1] + 1) - step)  # the second sweep
    made = {"x": x, "xHat": x_hat, "reads": ((turn < step) * 1 + back).expand_as(x)}
    sums = torch.zeros(P, features).double().index_add(0, which % P, x_hat * dy * made["reads"])
    off = (x - x[:, :lanes].mean(1, keepdim=True)) * (turn < step)
    made |= {"rows": torch.cat([mean, var, counted], 1), "truth": (x_hat * dy).sum(0)}
    return made | {"sums": sums[: which[-1] + 1], "along": torch.stack([off, off**2], 2).sum(1)}
