"""What does layer normalization do for an LSTM? The runs that chapter 13 draws, several seeds each.

Run ``python benchmarks/sweep_lstm.py``; it takes about half an hour on two cores. Stop it with
Ctrl-C and start it again: what is finished is kept in ``--work``, and a run that was cut short
goes on from its last epoch, until the code that makes the numbers changes. ``--only curves`` does
one experiment (say it again for another), and leaves the others' rows as they are; ``--quick``
tries all of it with tiny networks, and writes its tables into ``--work``.

Two tables: ``lstm_training.csv`` has a row for each epoch of each run, and ``lstm_memory.csv`` what
trained networks know of the rows that they saw long ago. All runs have one thread each.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import results_table
import sweeping
import torch
from sweeping import Rows, start_worker, until_stopped
from tqdm import tqdm

from lnlib.book.experiments import probes, recurrent
from lnlib.book.experiments.recurrent import Config, Record
from lnlib.book.experiments.sequential_mnist import Sequences, blank_rows, sequential_mnist

WORK = Path(__file__).parents[1] / "build" / "sweep_lstm"
SEEDS = range(5)
TUNED = 1e-2  # the best rate of both after three epochs
PROBED = 500  # sequences whose gradients are averaged, and whose gates are looked at
EDGE, BINS = 4, 32  # of the distributions of what enters the gates
TOPS = (0, 4, 8, 11, 14, 17, 20, 24, 28)  # how many rows from the top are another digit's
PROBED_RATE = 1e-3  # of `curves`, the one at which all three networks are trained well

Runs = dict[str, list[Config]]
Probed = tuple[str, float, float]  # the name of a probe, where it looked, what it found


def experiments() -> Runs:
    """Return the runs of each experiment; a run that two of them name is done once."""
    lstm, ours, normalized = "lstm", "ln-lstm", "ln-lstm-normalized"
    pair = (lstm, ours)
    short = Config(epochs=3)
    plans: Runs = {
        "curves": [
            *(Config(model=m, lr=lr) for lr in (1e-3, 3e-3, TUNED) for m in pair),
            *(Config(model=normalized, lr=lr) for lr in (1e-3, TUNED)),
        ],
        "scales": [
            replace(short, model=m, scaling=scaling, lr=lr)
            for scaling in ("standardized", "raw", "bytes")
            for lr in (1e-3, 3e-3)
            for m in pair
        ],
        "gammas": [
            *(replace(short, model=ours, gamma=gamma) for gamma in (None, 0.1)),
            *(replace(short, model="bn-lstm", scaling="raw", gamma=gamma) for gamma in (None, 1.0)),
        ],
        "blank": [
            replace(short, model=ours, scaling="raw"),
            *(
                replace(short, model=m, scaling="raw", zero_bias=True, clip=clip)
                for m in pair
                for clip in (1.0, float("inf"))
            ),
            replace(short, model=ours, zero_bias=True),
        ],
        "lengths": [
            replace(short, model=m, scaling="raw") for m in (lstm, ours, normalized, "bn-lstm")
        ],
    }
    small = Config(scaling="raw", rows=2000, epochs=4)  # 8,000 rows seen, whatever the batch
    batches = [
        replace(small, model=m, batch=batch, lr=lr)
        for batch, lr in ((64, 1e-3), (64, 3e-3), (16, 1e-3), (16, 3e-3), (4, 1e-3), (1, 1e-3))
        for m in (lstm, ours, "bn-lstm")
        if batch > 1 or m != "bn-lstm"  # one row has no variance: PyTorch refuses it
    ]
    first = [replace(short, model=m, lr=3e-3, rows=1500) for m in pair]  # what the chapter trains
    pixels = [Config(model=m, layout="coarse", lr=3e-3, epochs=3) for m in pair]
    return {
        **{name: _seeded(plan, SEEDS) for name, plan in plans.items()},
        "batches": _seeded(batches, range(3)),
        "first look": _seeded(first, range(3)),
        "pixels": _seeded(pixels, range(3)),
    }


def _seeded(configs: Sequence[Config], seeds: Sequence[int]) -> list[Config]:
    return [replace(config, seed=seed) for config in configs for seed in seeds]


def tiny(config: Config) -> Config:
    """Return a run of a second, for ``--quick``."""
    return replace(config, hidden=8, rows=96, epochs=1)


def path_of(config: Config, folder: Path) -> Path:
    """Return where a run is kept."""
    return folder / f"{hashlib.sha256(repr(config).encode()).hexdigest()[:16]}.pt"


@functools.cache
def data_of(layout: str, scaling: str) -> Sequences:
    return sequential_mnist(layout, scaling)


def finish(job: tuple[Config, Path]) -> tuple[Config, list[Record]]:
    """Do a run, or what is left of it."""
    config, path = job
    return config, list(recurrent.run(config, path, data_of(config.layout, config.scaling)))


def train(configs: Sequence[Config], folder: Path, jobs: int) -> dict[Config, list[Record]]:
    """Do all runs, ``jobs`` of them at a time, and return what each of them recorded."""
    todo = [(config, path_of(config, folder)) for config in dict.fromkeys(configs)]
    with (
        multiprocessing.get_context("spawn").Pool(jobs, start_worker) as pool,
        tqdm(total=sum(config.epochs for config, _ in todo), unit="epoch") as bar,
    ):
        records = {}
        for config, found in pool.imap_unordered(finish, todo):
            records[config] = found
            bar.update(config.epochs)
    return records


def about(experiment: str, config: Config) -> dict[str, Any]:
    """Return what the rows of a run say of it."""
    gamma = "default" if config.gamma is None else config.gamma
    return {"experiment": experiment, **dataclasses.asdict(config), "gamma": gamma}


def training_rows(experiment: str, config: Config, records: Sequence[Record]) -> Rows:
    return [
        {
            **about(experiment, config),
            "epoch": record.epoch,
            "seconds": f"{record.seconds:.4g}",
            "cpu_seconds": f"{record.cpu_seconds:.4g}",
            "rows_seen": record.rows_seen,
            "train_loss": f"{record.train_loss:.4f}",
            "test_accuracy": f"{record.test_accuracy:.4f}",
        }
        for record in records
    ]


def probe_of(experiment: str, config: Config) -> Callable[..., Iterator[Probed]] | None:
    """Return what looks at the trained network of a run, if anything does."""
    if experiment == "curves" and config.lr != PROBED_RATE:
        return None
    return {"curves": remembering, "lengths": longer, "first look": inside}.get(experiment)


def memory_rows(experiment: str, config: Config, folder: Path) -> Rows:
    """Return what the trained network of a run shows, if ``experiment`` is one that looks at it."""
    probe = probe_of(experiment, config)
    if probe is None:
        return []
    about = {"model": config.model, "lr": config.lr, "scaling": config.scaling, "seed": config.seed}
    return [
        {"experiment": experiment, "probe": name, **about, "at": at, "value": f"{value:.6g}"}
        for name, at, value in probe(config, path_of(config, folder))
    ]


def remembering(config: Config, path: Path) -> Iterator[Probed]:
    """Yield how much depends on rows that were seen long ago; a row's number begins at 1."""
    data, model = data_of(config.layout, config.scaling), recurrent.trained(config, path)
    after = probes.accuracy_after_each_step(model, data.test, data.test_labels)
    yield from (("accuracy after row", row, each) for row, each in enumerate(after.tolist(), 1))
    top = probes.strangers(data.test_labels)
    for rows in TOPS:
        right, stranger = probes.answers(model, data.test, data.test_labels, top, rows)
        yield "own label, rows from another digit", rows, right
        yield "other's label, rows from another digit", rows, stranger
    for when, each in (("before", recurrent.build(config)), ("after", model)):
        norms = probes.gradient_norms(each, data.test[:PROBED], data.test_labels[:PROBED])
        yield from (
            (f"gradient at row, {when} training", row, norm)
            for row, norm in enumerate(norms.tolist(), 1)
        )


def longer(config: Config, path: Path) -> Iterator[Probed]:
    """Yield the accuracy on sequences that are longer than those of training; ``at`` is T."""
    data, model = data_of(config.layout, config.scaling), recurrent.trained(config, path)
    kinds = {
        f"{rows} blank rows before": torch.cat(
            [blank_rows(len(data.test), rows, config.scaling), data.test], dim=1
        )
        for rows in (0, 5, 10, 20)
    }
    after = blank_rows(len(data.test), 10, config.scaling)
    kinds["10 blank rows after"] = torch.cat([data.test, after], dim=1)
    kinds["each row twice"] = data.test.repeat_interleave(2, dim=1)
    for name, x in kinds.items():
        accuracy = probes.accuracy_after_each_step(model, x, data.test_labels)[-1].item()
        yield name, x.shape[1], accuracy


def inside(config: Config, path: Path) -> Iterator[Probed]:
    """Yield how what enters each gate is distributed; ``at`` is the middle of a bin."""
    data, model = data_of(config.layout, config.scaling), recurrent.trained(config, path)
    x = data.test[:PROBED].transpose(0, 1)
    for when, each in (("before", recurrent.build(config)), ("after", model)):
        gates = probes.gate_inputs(each.recurrent, x).chunk(4, -1)
        for gate, sums in zip(probes.GATES, gates, strict=True):
            counts = torch.histc(sums, BINS, -EDGE, EDGE).tolist()
            for number, count in enumerate(counts):
                at = EDGE * ((2 * number + 1) / BINS - 1)
                yield f"{gate} gate, {when} training", at, count / sums.numel()


RUNS = experiments()


def runs_of(table: str) -> Iterator[dict[str, Any]]:
    """Yield what the rows of each run in ``table`` say of it."""
    for name, plan in RUNS.items():
        for config in plan:
            if table == "lstm_training" or probe_of(name, config) is not None:
                yield about(name, config)


def main(arguments: Sequence[str] | None = None) -> int:
    options = sweeping.parser(__doc__, list(RUNS), WORK).parse_args(arguments)
    names = [name for name in RUNS if options.only is None or name in options.only]
    runs = {name: [tiny(c) if options.quick else c for c in RUNS[name]] for name in names}
    torch.set_num_threads(1)
    results = options.work if options.quick else results_table.RESULTS
    return until_stopped(lambda: sweep(runs, options.work, options.jobs, results))


def sweep(runs: Runs, work: Path, jobs: int, results: Path) -> None:
    """Do the runs, and write both tables into ``results``."""
    where = results_table.provenance() | {
        "device": str(recurrent.place().device),
        "threads": 1,
        "jobs": jobs,
        "torch": torch.__version__,
    }
    folder = sweeping.folder_of("sweep_lstm", work)
    trained = train([config for plan in runs.values() for config in plan], folder, jobs)
    tables: dict[str, Rows] = {"lstm_training": [], "lstm_memory": []}
    for name, plan in runs.items():
        for config in dict.fromkeys(plan):
            tables["lstm_training"] += training_rows(name, config, trained[config])
            tables["lstm_memory"] += memory_rows(name, config, folder)
    for name, rows in tables.items():
        rows = [row | where for row in rows]
        sweeping.write(results / f"{name}.csv", rows, set(runs), list(RUNS))


if __name__ == "__main__":
    raise SystemExit(main())
