r"""Train a recurrent network on the rows of digits, on one process or on several; stop and resume.

Run ``python -m lnlib.book.experiments.recurrent --help``. On two processes::

    torchrun --standalone --nproc-per-node 2 \
        -m lnlib.book.experiments.recurrent --checkpoint run.pt

Each process takes its part of every batch, so all of them together do what one would do: the batch
that is asked for is the batch of all. After every epoch the first process writes the checkpoint,
which has to lie where all of them can read it. Whoever starts with a checkpoint goes on from it.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lnlib.book.experiments.trainers import RECURRENT, Fold, Reader, fold, measured

__all__ = ["Config", "Place", "Record", "accumulate", "build", "main", "place", "run", "shared"]


@dataclass(frozen=True)
class Config:
    """One run: all that its result depends on. Each field is an option of the command line.

    Raises:
        ValueError: if there is no such kind, or a number is not positive.
    """

    kind: str = "layer norm, forget bias"
    hidden: int = 128  # size of the hidden state
    rate: float = 3e-3  # of Adam
    batch: int = 64  # digits, over all processes
    epochs: int = 3
    seed: int = 0  # of the first weights, and of the order of the digits

    def __post_init__(self) -> None:
        if self.kind not in RECURRENT:
            raise ValueError(f"kind is {self.kind!r}, expected one of {'; '.join(RECURRENT)}")
        for name in ("hidden", "rate", "batch", "epochs"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")


class Record(NamedTuple):
    """What is known after an epoch: the mean loss in it (nats), the share of wrong answers."""

    epoch: int
    train_loss: float
    test_error: float


class Place(NamedTuple):
    """Which process this is, and of how many."""

    rank: int
    world: int


def place() -> Place:
    """Return the place of this process; alone it is the first of one."""
    if dist.is_available() and dist.is_initialized():
        return Place(dist.get_rank(), dist.get_world_size())
    return Place(0, 1)


def build(config: Config) -> Reader:
    """Return the network as it is before training; the seed of ``config`` decides its weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return Reader(config.kind, hidden=config.hidden)


def shared(model: nn.Module, here: Place) -> nn.Module:
    """Return ``model`` with gradients that are averaged over the processes, if there are several.

    Batch norm would need `torch.nn.SyncBatchNorm` besides, to share its statistics as well.
    """
    return model if here.world == 1 else DistributedDataParallel(model)


def accumulate(model: nn.Module, x: Tensor, labels: Tensor, here: Place) -> Tensor:
    """Add to the gradients those of the mean loss of a batch; each process does its own part.

    Args:
        model: what `shared` returned.
        x: the images of the whole batch, (B, 28, 28), the same on all processes.
        labels: of the whole batch, (B,).
        here: of this process, which takes every world-th digit, beginning at its rank.

    Returns:
        The sum of the losses of the own part, without a gradient.
    """
    mine = slice(here.rank, None, here.world)
    loss = F.cross_entropy(model(x[mine]), labels[mine], reduction="sum")
    # The mean over ranks that follows is that over digits even where the parts are unequal.
    (loss * (here.world / len(labels))).backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def run(
    config: Config, checkpoint: str | os.PathLike[str] | None = None, data: Fold | None = None
) -> Iterator[Record]:
    """Train, and yield one record an epoch, those of earlier epochs too where a run is resumed.

    A run that was interrupted and resumed ends with the same bits as one that was not, on a CPU
    and with the same number of threads and processes. All processes have to iterate to the end.

    Args:
        config: what to do.
        checkpoint: written after every epoch, and where the run goes on from if it is there.
        data: by default the first of `lnlib.book.experiments.trainers.fold`, which may raise.

    Raises:
        ValueError: if ``checkpoint`` is of another run, or no checkpoint, and stays as it is; if
            a batch has fewer digits than there are processes.
    """
    path = None if checkpoint is None else Path(checkpoint)
    state = None if path is None or not path.exists() else _read(path, config)
    here, data = place(), data or fold(0)
    smallest = min(config.batch, len(data.train[1]) % config.batch or config.batch)
    if smallest < here.world:
        raise ValueError(f"a batch of {smallest} digits is too small for {here.world} processes")
    return _epochs(config, path, state, data, here)


def _epochs(
    config: Config, path: Path | None, state: dict[str, Any] | None, data: Fold, here: Place
) -> Iterator[Record]:
    model = build(config)
    adam = torch.optim.Adam(model.parameters(), lr=config.rate)
    generator = torch.Generator().manual_seed(config.seed)
    records: list[Record] = []
    if state is not None:
        model.load_state_dict(state["model"])
        adam.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        records = [Record(*values) for values in state["records"]]
    yield from records
    together, (images, labels) = shared(model, here), data.train
    while len(records) < config.epochs:
        total = torch.zeros(())
        order = torch.randperm(len(labels), generator=generator)
        for chosen in torch.split(order, config.batch):
            adam.zero_grad()
            total += accumulate(together, images[chosen], labels[chosen], here)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
        if here.world > 1:
            dist.all_reduce(total)
        error = measured(model, data, ("test",))["test_error"]
        records.append(Record(len(records) + 1, total.item() / len(labels), error))
        if path is not None and here.rank == 0:
            state = {"config": dataclasses.asdict(config), "model": model.state_dict()}
            state |= {"optimizer": adam.state_dict(), "generator": generator.get_state()}
            _write(path, state | {"records": [list(record) for record in records]})
        yield records[-1]


def _read(path: Path, config: Config) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is damaged, or no checkpoint: name another file") from error
    if not isinstance(state, dict) or state.get("config") != dataclasses.asdict(config):
        raise ValueError(f"{path} is of another run: name another file")
    return state


def _write(path: Path, state: dict[str, Any]) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")  # so that a whole one always exists
    torch.save(state, unfinished)
    unfinished.replace(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for, and print a line an epoch."""
    parser = argparse.ArgumentParser(
        prog="python -m lnlib.book.experiments.recurrent",
        description="Train a recurrent network on the rows of digits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for each in dataclasses.fields(Config):
        kind: Any = {"str": str, "int": int, "float": float}[str(each.type)]
        parser.add_argument(f"--{each.name}", type=kind, default=each.default, help=" ")
    parser.add_argument("--checkpoint", help="written after every epoch, and gone on from")
    options = vars(parser.parse_args(arguments))
    checkpoint = options.pop("checkpoint")
    try:
        config = Config(**options)
    except ValueError as error:
        parser.error(str(error))
    if "RANK" in os.environ:  # torchrun started this process
        dist.init_process_group("gloo")
    for record in run(config, checkpoint):
        if place().rank == 0:
            print("epoch {}: loss {:.4f}, wrong {:.2%}".format(*record), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
