"""What can the norms of two trained models bear?

    python benchmarks/norms_changed.py                  # an hour and a half on two cores
    python benchmarks/norms_changed.py --only epsilon   # one table

The models, the texts and the rules are those of trained.py; here the norms compute something else.
A sweep over norms or blocks takes three passages of 256 tokens, everything else eight of 512.
What norms usually see is taken from other passages and sentences. Training takes half of the time.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from results_table import Row
from torch import Tensor, nn
from trained import FRONTS, Mini, Smol, eps_of, four, main, told, watched, x_hat

import lnlib
from lnlib.book.data import novel

Change = Callable[[nn.Module, Tensor], Tensor]  # what a norm does instead
GIANTS = [17, 247, 507]  # each is the largest feature of most rows in some blocks of SmolLM2
EPS = [0, 1e-12, 1e-6, 1e-4, 1e-3, 0.01, 0.03, 0.1, 1]
CHAPTERS = 21, 22  # the novel's chapters to choose a rate by, and those held out, start here
RATES = {"γ": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2], "last block": [3e-5, 1e-4, 3e-4, 1e-3, 3e-3]}
RATES |= {what: [1e-5, 3e-5, 1e-4] for what in ("all but γ", "all")}  # four times as slow
STEPS, LENGTH = 60, 256


def normed(norm: nn.Module, x: Tensor, **other: Any) -> Tensor:
    """Do what a norm does, but with another ``eps``, ``weight``, ``bias``, ``size`` or center."""
    is_layer = isinstance(norm, nn.LayerNorm)
    x = x - x.mean(-1, keepdim=True) if other.get("centers", is_layer) else x
    if (size := other.get("size")) is None:
        size = (x.square().mean(-1, keepdim=True) + other.get("eps", eps_of(norm))).sqrt()
    y = x / size * other.get("weight", norm.weight).to(x.dtype)
    return y + other.get("bias", norm.bias).to(x.dtype) if is_layer else y


@contextlib.contextmanager
def replaced(norms: Iterable[nn.Module], change: Change) -> Iterator[None]:
    """Let norms compute ``change(norm, x)``."""
    with contextlib.ExitStack() as stack:
        for norm in norms:
            norm.forward = functools.partial(change, norm)
            stack.callback(delattr, norm, "forward")
        yield


def effects(
    model: Smol | Mini,
    changes: Mapping[str, Change],
    places: Iterable[str],
    is_sweep: bool = False,
) -> Iterator[Row]:
    """Yield what changes do to one norm, to those before it or from it on, of a kind, or to all."""
    names, norms = [*model.norms], [*model.norms.values()]
    named = {"all": norms} | {name: [norm] for name, norm in model.norms.items()}
    for i, name in enumerate(names):
        named |= {f"from {name}": norms[i:], f"before {name}": norms[:i]}
        kind = name.split()[-1]
        named[kind] = [norm for other, norm in model.norms.items() if other.endswith(kind)]
    if isinstance(model, Smol):
        passages = model.passages()[:3, :LENGTH] if is_sweep else model.passages()
    measured = model.embeddings if isinstance(model, Mini) else lambda: model.losses(passages)
    usual = measured()
    for place, (what, change) in itertools.product(places, changes.items()):
        with replaced(named[place], change):
            found = model.compare(usual, measured())
        yield {"model": model.name, "norms": place, "change": what} | found


def typical(model: Smol | Mini) -> dict[nn.Module, tuple[float, float]]:
    """Return what each norm sees in other texts: the median size of a row, the mean of μ ÷ size."""
    with watched(model.norms) as seen, torch.inference_mode():
        if isinstance(model, Smol):
            ids = model.passages(starts=(10000, 54000))
            model.model(ids, use_cache=False)
            kept = ids >= 0
        else:
            model.embeddings(model.others)
            kept = model.others.attention_mask.bool()
    rows = {norm: seen[name][0][kept].double() for name, norm in model.norms.items()}
    sizes = {norm: x_hat(norm, x)[1] for norm, x in rows.items()}
    return {
        n: (sizes[n].median().item(), (x.mean(-1) / sizes[n]).mean().item())
        for n, x in rows.items()
    }


def sparing(what: str, change: Change) -> dict[str, Change]:
    """Return a change of all rows, of all but a text's first, and of all but corners.

    A corner is a first row, or one of which one number has nine tenths of the length.
    """

    def spared(norm: nn.Module, x: Tensor, share: float) -> Tensor:
        is_first = (torch.arange(x.shape[1]) == 0) & (share < 2)
        apart = is_first | (x.abs().amax(-1) > share * x.norm(dim=-1))
        return torch.where(apart[..., None], normed(norm, x), change(norm, x))

    shares = {"": 2, ", not in first rows": 1, ", not in corners": 0.9}
    return {what + but: functools.partial(spared, share=share) for but, share in shares.items()}


def one_divisor(model: Smol | Mini) -> dict[str, Change]:
    """Return what divides all rows by one constant, the median of other rows' own sizes."""
    usual = typical(model)
    return sparing("one divisor", lambda norm, x: normed(norm, x, size=usual[norm][0]))


def statistics(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what one constant divisor does."""
    for model, every in ((smol, 3), (mini, 1)):
        changes = one_divisor(model)
        some = [name for name in model.norms if name.endswith("attention")][::every]
        ends = [f"{side} {name}" for name in some for side in ("from", "before")]
        yield from effects(model, changes, [*model.norms, *ends], is_sweep=True)
        yield from effects(model, changes, ["attention", "mlp", "all"])


def flat(norm: nn.Module, x: Tensor, but: list[int]) -> Tensor:
    """Norm with the mean of γ in place of each, except at some features."""
    weight = norm.weight.mean().repeat(len(norm.weight))
    weight[but] = norm.weight[but]
    return normed(norm, x, weight=weight)


def gamma(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what the mean of a norm's γ does in its place, and that of its β."""
    apart = (smol.norms["last"].weight - smol.norms["last"].weight.mean()).abs()
    others = [k for k in apart.argsort(descending=True).tolist() if k not in GIANTS][:3]
    flats = {
        "γ flat" + f" but {but}" * bool(but): functools.partial(flat, but=but)
        for but in ([], GIANTS, others, *([k] for k in GIANTS))
    }
    both = {what: flats[what] for what in [*flats][:2]}
    yield from effects(smol, both, [*smol.norms][:-1], is_sweep=True)
    yield from effects(smol, both, ["attention", "mlp", "before last", "all"])
    yield from effects(smol, flats, ["last"])
    flats = {"γ flat": flats["γ flat"], "β flat": lambda n, x: normed(n, x, bias=n.bias.mean())}
    flats["β 0"] = functools.partial(normed, bias=torch.zeros(1))
    yield from effects(mini, flats, [*mini.norms, "all"])


def epsilon(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what another ε does: where rows are smallest, everywhere else, and in all norms."""
    changes = {f"ε {e:g}": functools.partial(normed, eps=e) for e in EPS}
    yield from effects(smol, changes, ["before 1 attention", "from 1 attention", "all"])
    yield from effects(mini, changes, ["embeddings", "from 0 attention", "all"])


def mean(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what it does to take μ in RMS norm, to leave it in layer norm, and to move it to β.

    ``ratio`` is the mean of μ ÷ size as it is, ``ratio_then`` with all norms of the model changed.
    """
    usual = {**typical(smol), **typical(mini)}
    left = functools.partial(normed, centers=False)

    def moved(norm: nn.Module, x: Tensor) -> Tensor:
        return left(norm, x, bias=norm.bias - usual[norm][1] * norm.weight)

    for model, changes in (
        (smol, {"μ taken": functools.partial(normed, centers=True)}),
        (mini, {"μ left": left, "μ left, its mean moved to β": moved}),
    ):
        with replaced(model.norms.values(), next(iter(changes.values()))):
            then = typical(model)
        alone = effects(model, changes, model.norms, is_sweep=True)
        for row in itertools.chain(alone, effects(model, changes, ["all"])):
            is_one, norm = row["norms"] in model.norms, model.norms.get(row["norms"])
            ratios = {"ratio": usual, "ratio_then": then}
            yield row | {k: f"{v[norm][1]:.4g}" if is_one else "" for k, v in ratios.items()}


def digits(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what fewer digits do: to the statistic, to a whole norm, and to what leaves it."""

    def statistic(norm: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
        half = x.to(dtype)
        half = half - half.mean(-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else half
        size = (half.square().mean(-1, keepdim=True) + eps_of(norm)).sqrt()
        return normed(norm, x, size=size.float())

    def whole(norm: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
        return normed(norm, x.to(dtype)).float()

    def int8(norm: nn.Module, x: Tensor, over: Any, is_apart: bool, is_moved: bool) -> Tensor:
        plain = {"weight": torch.ones(1), "bias": torch.zeros(1)} if is_moved else {}
        y = normed(norm, x, **plain)
        step = y[:, is_apart:].abs().amax(over, keepdim=True) / 127
        y = torch.cat([y[:, :is_apart], (y[:, is_apart:] / step).round() * step], 1)
        return normed(norm, y, centers=False, size=1) if is_moved else y

    halves = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    changes: dict[str, Change] = {}
    for name, dtype in halves.items():
        changes |= sparing(f"{name} statistic", functools.partial(statistic, dtype=dtype))
        changes[f"{name} norm"] = functools.partial(whole, dtype=dtype)
    float16 = dict(itertools.islice(changes.items(), 3))
    yield from effects(smol, float16, ["before 24 attention", "from 24 attention"])
    scales, whether = {"tensor": (1, 2), "token": 2, "channel": 1}, (False, True)
    for scale, is_apart, is_moved in itertools.product(scales, whether, whether):
        what = f"int8 per {scale}" + ", γ moved" * is_moved + ", first rows apart" * is_apart
        how = {"over": scales[scale], "is_apart": is_apart, "is_moved": is_moved}
        changes[what] = functools.partial(int8, **how)
    for model in (smol, mini):
        yield from effects(model, changes, ["all"])


@torch.inference_mode()
def same(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield which share of numbers differs where none should, and by how much.

    For 8 samples and the first by itself: also how many matrices and norms give it other bits.
    """

    def row(model: Smol | Mini, what: str, usual: Tensor, now: Tensor, **alone: str) -> Row:
        found = {"differ": (usual != now).double().mean(), "by": (usual - now).abs().max()}
        found["largest"] = usual.abs().max()
        alone = {"matrices": "", "norms": ""} | alone
        return (
            {"model": model.name, "change": what} | {k: four(v) for k, v in found.items()} | alone
        )

    folded = copy.deepcopy(smol.model)
    folded.lm_head.weight = nn.Parameter(folded.lm_head.weight.clone())
    takers = [(folded.model.norm, [folded.lm_head])]
    for b in folded.model.layers:
        takers += [(b.input_layernorm, [getattr(b.self_attn, f"{k}_proj") for k in "qkv"])]
        takers += [(b.post_attention_layernorm, [b.mlp.gate_proj, b.mlp.up_proj])]
    for norm, matrices in takers:
        for matrix in matrices:
            matrix.weight *= norm.weight
        norm.weight.fill_(1)
    ids = smol.passages()
    yield row(smol, "γ folded", *(m(ids[:1], use_cache=False).logits for m in (smol.model, folded)))
    both = mini.model, lnlib.swap(copy.deepcopy(mini.model))
    yield row(mini, "lnlib.swap", *(m(**mini.inputs).last_hidden_state for m in both))
    kinds = {"matrices": [m for m in smol.model.modules() if isinstance(m, nn.Linear)]}
    kinds["norms"] = [*smol.norms.values()]
    for tokens in (1, 4, 16, 512):
        with watched({m: m for m in itertools.chain(*kinds.values())}) as seen:
            eight = smol.model(ids[:, :tokens], use_cache=False).logits[:1]
        alone = {}
        for kind, modules in kinds.items():
            others = (not torch.equal(m(seen[m][0][:1]), seen[m][1][:1]) for m in modules)
            alone[kind] = f"{sum(others)} of {len(modules)}"
        one = smol.model(ids[:1, :tokens], use_cache=False).logits
        yield row(smol, f"8 samples of {tokens}", one, eight, **alone)


def tuned(smol: Smol, _: Mini) -> Iterator[Row]:
    """Yield what sixty steps of Adam do to losses, by which parameters learn and at which rate."""

    def evenly(ids: list[int], count: int) -> Tensor:
        starts = torch.linspace(0, len(ids) - LENGTH, count).int().tolist()
        front = FRONTS["<|endoftext|>"]
        return torch.tensor([front + ids[i : i + LENGTH - len(front)] for i in starts])

    text, model = novel(), smol.model
    ends = [text.index(f"\n\n\nChapter {n}\n") for n in CHAPTERS]
    read, choose, held = (
        smol.tokenizer(text[i:j]).input_ids for i, j in itertools.pairwise([0, *ends, None])
    )
    judged = {"to choose by": evenly(choose, 3), "held out": evenly(held, 8)}
    judged["code"] = evenly(smol.texts["code"], 8)
    steps = evenly(read, STEPS)[torch.randperm(STEPS, generator=torch.Generator().manual_seed(0))]
    before = copy.deepcopy(model.state_dict())
    usual = {name: smol.losses(ids) for name, ids in judged.items()}
    model.set_attn_implementation("sdpa")
    gammas = [norm.weight for norm in smol.norms.values()]
    everything = [*model.parameters()]
    sets = {"γ": gammas, "last block": [*smol.blocks[-1].parameters()], "all": everything}
    sets["all but γ"] = [p for p in everything if all(p is not g for g in gammas)]
    for what, parameters in sets.items():
        for rate in RATES[what]:
            model.load_state_dict(before)
            model.requires_grad_(False)
            for p in parameters:
                p.requires_grad_(True)
            optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
            for ids in steps:
                logits = model(ids[None], use_cache=False).logits[0]
                F.cross_entropy(logits[:-1], ids[1:]).backward()
                optimizer.step()
                optimizer.zero_grad()
            about = {"learns": what, "numbers": sum(p.numel() for p in parameters), "rate": rate}
            for name, ids in judged.items():
                apart = smol.losses(ids) - usual[name]
                yield about | {"text": name} | told(apart) | {"usual": four(usual[name].mean())}
    model.load_state_dict(before)


if __name__ == "__main__":
    main(__doc__, statistics, gamma, epsilon, mean, digits, same, tuned)
