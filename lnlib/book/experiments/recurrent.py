r"""Train a recurrent network on sequential MNIST, on one process or on several; stop and resume.

Run ``python -m lnlib.book.experiments.recurrent --help``. On two processes, restarted once if one
of them dies::

    torchrun --standalone --nproc-per-node 2 --max-restarts 1 \
        -m lnlib.book.experiments.recurrent --checkpoint run.pt

Each process takes its part of every batch, so all of them together do what one would do: the batch
that is asked for is the batch of all. After every epoch the first process writes the checkpoint,
which has to lie where all of them can read it. Whoever starts with a checkpoint goes on from it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import lnlib
from lnlib.book.experiments.rivals import BatchNormLSTM
from lnlib.book.experiments.sequential_mnist import LAYOUTS, SCALINGS, Sequences, sequential_mnist

__all__ = [
    "MODELS",
    "Classifier",
    "Config",
    "Place",
    "Record",
    "accumulate",
    "build",
    "main",
    "place",
    "run",
    "shared",
    "trained",
]

MODELS = ("lstm", "ln-lstm", "ln-lstm-normalized", "bn-lstm")
CLASSES = 10
TEST_BATCH = 250  # of 784 steps, more would not fit a small machine
NOISE = 0.1  # on bn-lstm's first h; Cooijmans et al. 2016 found that it needs some on these digits
STEPS = {"rows": 28, "coarse": 196, "pixels": 784}


def _option(default: Any, help: str, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(frozen=True)
class Config:
    """One run: all that its result depends on. Each field is an option of the command line.

    Raises:
        ValueError: if a name is not known, or a number is not positive.
    """

    model: str = _option("ln-lstm", "what is trained", MODELS)
    layout: str = _option("rows", "what a step of the sequence is", LAYOUTS)
    scaling: str = _option("standardized", "units of the pixels", SCALINGS)
    hidden: int = _option(128, "size of the hidden state")
    gamma: float | None = _option(None, "of all norms at first; else 1, and 0.1 for bn-lstm")
    zero_bias: bool = _option(False, "start from biases of 0")
    lr: float = _option(1e-3, "learning rate of Adam")
    batch: int = _option(64, "rows in a batch, over all processes")
    clip: float = _option(1.0, "largest norm of the gradient; inf leaves it as it is")
    rows: int = _option(8000, "how many of the digits to train on")
    epochs: int = _option(10, "how often each of them is seen")
    seed: int = _option(0, "of the first weights, and of the order of the digits")

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            given, choices = getattr(self, each.name), each.metadata["choices"]
            if choices and given not in choices:
                raise ValueError(f"{each.name} is {given!r}, expected one of {', '.join(choices)}")
        for name in ("hidden", "lr", "batch", "clip", "rows", "epochs"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        if self.model == "lstm" and self.gamma is not None:
            raise ValueError("the plain lstm has no norm, so no gamma")


class Record(NamedTuple):
    """What is known after an epoch. Seconds are those of training alone, since its beginning."""

    epoch: int
    seconds: float
    cpu_seconds: float  # of this process; they depend less on what else the machine does
    rows_seen: int
    train_loss: float  # nats a row, mean over the epoch
    test_accuracy: float  # from 0 to 1


class Place(NamedTuple):
    """Which process this is, and of how many."""

    rank: int
    world: int
    device: torch.device


class Classifier(nn.Module):
    """Tell the digit from the last output of a recurrent layer: (T, B, F) to logits (B, 10)."""

    def __init__(self, recurrent: nn.Module, hidden: int) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.label = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (B, 10) of sequences (T, B, F)."""
        return self.after_each_step(x)[-1]

    def after_each_step(self, x: Tensor) -> Tensor:
        """Return the logits (T, B, 10) that the digit would get if the sequence ended there."""
        outputs, _ = self.recurrent(x)
        logits: Tensor = self.label(outputs)
        return logits


def build(config: Config) -> Classifier:
    """Return the network as it is before training; the seed of ``config`` decides its weights."""
    features = 28 if config.layout == "rows" else 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = Classifier(_recurrent(config, features), config.hidden)
    if config.zero_bias:
        with torch.no_grad():
            for name, parameter in model.recurrent.named_parameters():
                if "bias" in name:
                    parameter.zero_()
    return model


def _recurrent(config: Config, features: int) -> nn.Module:
    if config.model == "lstm":
        return nn.LSTM(features, config.hidden)
    if config.model == "bn-lstm":
        gamma = 0.1 if config.gamma is None else config.gamma
        return BatchNormLSTM(features, config.hidden, STEPS[config.layout], gamma, noise=NOISE)
    carry = "normalized" if config.model == "ln-lstm-normalized" else "raw"
    layer = lnlib.LayerNormLSTM(features, config.hidden, carry=carry)
    if config.gamma is not None:
        for name in ("ih", "hh", "c"):
            nn.init.constant_(layer.get_parameter(f"norm_{name}_weight_l0"), config.gamma)
    return layer


def place() -> Place:
    """Return the place of this process; alone it is the first of one."""
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    if dist.is_available() and dist.is_initialized():
        return Place(dist.get_rank(), dist.get_world_size(), device)
    return Place(0, 1, device)


def shared(model: nn.Module, here: Place) -> nn.Module:
    """Return ``model`` with gradients that are averaged over the processes, if there are several.

    Batch norm would need `torch.nn.SyncBatchNorm` besides, to share its statistics as well.
    """
    if here.world == 1:
        return model
    devices = None if here.device.type == "cpu" else [here.device]
    return DistributedDataParallel(model, device_ids=devices)


def accumulate(model: nn.Module, x: Tensor, labels: Tensor, here: Place) -> Tensor:
    """Add to the gradients those of the mean loss of a batch; each process does its own part.

    Args:
        model: what `shared` returned.
        x: the whole batch, (B, T, F), the same on all processes.
        labels: of the whole batch, (B,).
        here: of this process, which takes every world-th row, beginning at its rank.

    Returns:
        The sum of the losses of the own part, without a gradient.
    """
    mine = slice(here.rank, None, here.world)
    logits = model(x[mine].transpose(0, 1))
    loss = F.cross_entropy(logits, labels[mine], reduction="sum")
    # The mean over ranks that follows is that over rows even where the parts are unequal.
    (loss * (here.world / len(labels))).backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def run(
    config: Config,
    checkpoint: str | os.PathLike[str] | None = None,
    data: Sequences | None = None,
) -> Iterator[Record]:
    """Train, and yield one record an epoch, those of earlier epochs too where a run is resumed.

    A run that was interrupted and resumed ends with the same bits as one that was not, on a CPU
    and with the same number of threads and processes. All processes have to iterate to the end.

    Args:
        config: what to do.
        checkpoint: written after every epoch, and where the run goes on from if it is there.
        data: by default those that ``config`` names; see `sequential_mnist`, which may raise.

    Raises:
        ValueError: if ``checkpoint`` is of another run, or no checkpoint, and stays as it is; if
            a batch has fewer rows than there are processes, or there are fewer rows than asked for.
    """
    path = None if checkpoint is None else Path(checkpoint)
    state = None if path is None or not path.exists() else _read(path, config)
    here = place()
    smallest = min(config.rows, config.batch, config.rows % config.batch or config.batch)
    if smallest < here.world:
        raise ValueError(f"a batch of {smallest} rows is too small for {here.world} processes")
    data = data or sequential_mnist(config.layout, config.scaling)
    if len(data.train) < config.rows:
        raise ValueError(f"rows is {config.rows}, and there are {len(data.train)} to train on")
    return _epochs(config, path, state, data, here)


def trained(config: Config, checkpoint: str | os.PathLike[str]) -> Classifier:
    """Return the network of a checkpoint, in evaluation mode.

    Raises:
        FileNotFoundError: if there is no such checkpoint.
        ValueError: if it is of another run.
    """
    model = build(config)
    model.load_state_dict(_read(Path(checkpoint), config)["model"])
    return model.eval()


def _epochs(
    config: Config, path: Path | None, state: dict[str, Any] | None, data: Sequences, here: Place
) -> Iterator[Record]:
    model = build(config).to(here.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
    generator = torch.Generator().manual_seed(config.seed)
    records: list[Record] = []
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        records = [Record(*values) for values in state["records"]]
    yield from records
    data = Sequences(*(getattr(data, f.name).to(here.device) for f in dataclasses.fields(data)))
    together = shared(model, here)
    while len(records) < config.epochs:
        before = records[-1] if records else Record(0, 0.0, 0.0, 0, 0.0, 0.0)
        seconds, cpu_seconds, loss = _train(config, together, optimizer, data, generator, here)
        records.append(
            Record(
                epoch=before.epoch + 1,
                seconds=before.seconds + seconds,
                cpu_seconds=before.cpu_seconds + cpu_seconds,
                rows_seen=before.rows_seen + config.rows,
                train_loss=loss / config.rows,
                test_accuracy=_correct(together, data, here) / len(data.test),
            )
        )
        if path is not None and here.rank == 0:
            _write(path, config, model, optimizer, generator, records)
        yield records[-1]


def _train(
    config: Config,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Sequences,
    generator: torch.Generator,
    here: Place,
) -> tuple[float, float, float]:
    """See every row once; return the seconds it took, those of the CPU, the sum of the losses."""
    model.train()
    start, cpu_start = time.perf_counter(), time.process_time()
    order = torch.randperm(config.rows, generator=generator).to(here.device)
    seed = int(torch.randint(2**62, (), generator=generator))
    total = torch.zeros((), dtype=torch.float64, device=here.device)
    with torch.random.fork_rng():
        torch.manual_seed(seed + here.rank)  # what a layer draws is the same after a restart
        for rows in torch.split(order, config.batch):
            optimizer.zero_grad()
            total += accumulate(model, data.train[rows], data.train_labels[rows], here)
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
    loss = _over_all(total, here)
    return time.perf_counter() - start, time.process_time() - cpu_start, loss


@torch.no_grad()
def _correct(model: nn.Module, data: Sequences, here: Place) -> float:
    """Return how many of the digits to test on get their label."""
    model.eval()
    total = torch.zeros((), dtype=torch.float64, device=here.device)
    parts = (torch.split(each, TEST_BATCH) for each in (data.test, data.test_labels))
    for x, labels in zip(*parts, strict=True):
        mine = slice(here.rank, None, here.world)
        total += (model(x[mine].transpose(0, 1)).argmax(1) == labels[mine]).sum()
    return _over_all(total, here)


def _over_all(total: Tensor, here: Place) -> float:
    if here.world > 1:
        dist.all_reduce(total)
    return total.item()


def _read(path: Path, config: Config) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is damaged, or no checkpoint: name another file") from error
    if not isinstance(state, dict) or "config" not in state:
        raise ValueError(f"{path} is no checkpoint of this script: name another file")
    wanted, found = dataclasses.asdict(config), state["config"]
    differing = [
        f"{name} {found.get(name)} there, {wanted.get(name)} here"
        for name in wanted | found
        if found.get(name) != wanted.get(name)
    ]
    if differing:
        raise ValueError(f"{path} is of another run: {'; '.join(differing)}. Name another file")
    return state


def _write(
    path: Path,
    config: Config,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    records: Sequence[Record],
) -> None:
    state = {
        "config": dataclasses.asdict(config),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": generator.get_state(),
        "records": [list(record) for record in records],
    }
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # else a crash may leave the new name without the content
    os.replace(unfinished, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lnlib.book.experiments.recurrent",
        description="Train a recurrent network on sequential MNIST.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for each in dataclasses.fields(Config):
        name = f"--{each.name.replace('_', '-')}"
        about = {"help": each.metadata["help"], "default": each.default}
        if each.type == "bool":
            parser.add_argument(name, action="store_true", **about)
        else:
            kind = {"str": str, "int": int}.get(str(each.type), float)
            parser.add_argument(name, type=kind, choices=each.metadata["choices"], **about)
    parser.add_argument(
        "--checkpoint", help="file to go on from if it is there; written after every epoch"
    )
    return parser


@contextlib.contextmanager
def _processes() -> Iterator[None]:
    """Join the other processes, if torchrun started this one."""
    if "RANK" not in os.environ:
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    store, rank, world = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    # After a restart torchrun's store still holds the addresses of processes that are gone.
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"start {start}", store)  # type: ignore[attr-defined]
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for, and print a line an epoch."""
    parser = _parser()
    options = vars(parser.parse_args(arguments))
    checkpoint = options.pop("checkpoint")
    try:
        config = Config(**options)
    except ValueError as error:
        parser.error(str(error))
    with _processes():
        for record in run(config, checkpoint):
            if place().rank == 0:
                print(
                    f"epoch {record.epoch}: loss {record.train_loss:.4f}, "
                    f"accuracy {record.test_accuracy:.2%}, {record.seconds:.1f} s of training",
                    flush=True,
                )


if __name__ == "__main__":
    main()
