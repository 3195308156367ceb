"""Make a few rows of each recorded table, as quickly as can be, and watch what runs.

``python tests/record_runs.py FILE`` writes what `reaching.Watch` finds of each table, as JSON; it
needs ``benchmarks`` on its path.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import accuracy_providers
import bench_accuracy
import bench_compiled
import bench_explorers
import bench_gamma_beta
import bench_growth
import bench_layer_norm
import bench_lstm
import bench_memory
import bench_models
import bench_pieces
import bench_speed
import bench_tricks
import layer_norm_providers
import lstm_providers
import sweep_lstm
import sweep_norms
from reaching import Watch

from lnlib.book.data import novel
from lnlib.book.experiments import characters, mlp
from lnlib.book.experiments.recurrent import MODELS, Config


def on_digits() -> None:
    for norm in mlp.NORMS:
        config = mlp.Config(norm=norm, batch=4, epochs=1, rows=32, hidden=8)
        sweep_norms.rows_of("toy", config, sweep_norms.on_digits(config)["records"])


def on_the_novel() -> None:
    short = {"layers": 1, "width": 8, "heads": 2, "context": 8, "steps": 2}
    text = novel()[:9000]  # all of it takes long to turn into numbers under a watch
    with (
        mock.patch.object(characters, "novel", return_value=text),
        mock.patch.object(sweep_norms, "WRITTEN", 5),
    ):
        for placement in characters.PLACEMENTS:
            for norm in characters.NORMS:
                config = characters.Config(placement=placement, norm=norm, **short)
                sweep_norms.rows_of("toy", config, sweep_norms.on_the_novel(config)["records"])


def lstms(probed: bool) -> None:
    digits = sweep_lstm.data_of("rows", "standardized")
    few = replace(digits, test=digits.test[:20], test_labels=digits.test_labels[:20])
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(sweep_lstm, "data_of", return_value=few),
    ):
        for model in MODELS:
            config = Config(model=model, lr=sweep_lstm.PROBED_RATE, hidden=6, rows=64, epochs=1)
            _, records = sweep_lstm.finish((config, sweep_lstm.path_of(config, Path(folder))))
            if probed:
                sweep_lstm.memory_rows("curves", config, Path(folder))
                sweep_lstm.memory_rows("lengths", config, Path(folder))
                if model in ("lstm", "ln-lstm"):
                    sweep_lstm.memory_rows("first look", config, Path(folder))
            else:
                sweep_lstm.training_rows("toy", config, records)


def accuracy(constant: bool) -> None:
    mine = {name: load for name, load in accuracy_providers.LOADERS.items() if "lnlib" in name}
    mine |= {name: accuracy_providers.LOADERS[name] for name in ("PyTorch", "composed", "one pass")}
    providers, _ = accuracy_providers.load(mine)
    few = {"MEANS": (0.0,), "SHAPES": ((3, 7),), "CONSTANT_SHAPES": ((2, 7),), "MOST_DRAWS": 1}
    with mock.patch.multiple(bench_accuracy, **few):
        if constant:
            list(bench_accuracy.constant_table(providers, {}, {}))
        else:
            list(bench_accuracy.table(providers, {}))


def growth() -> None:
    layer_norms, _, lstms, *_ = bench_growth.sweeps(powers=4)
    small = [each._replace(sizes=each.sizes[:3]) for each in (layer_norms, lstms)]
    with (
        mock.patch.object(bench_growth, "sweeps", return_value=small),
        mock.patch.object(bench_growth, "peak_bytes", return_value=1),  # it is run for `memory`
    ):
        list(bench_growth.table(is_quick=True))


def lstm() -> None:
    names = [lstm_providers.LSTM, lstm_providers.OURS, lstm_providers.NAIVE]
    shape = {lstm_providers.Case(3, 2, 5, 2): 2}
    with (
        mock.patch.object(lstm_providers, "names_for", return_value=names),
        mock.patch.object(bench_lstm, "QUICK", shape),
    ):
        list(bench_lstm.table(is_quick=True))


class Page:
    """Stands in for a page of a browser, with one control that takes no time."""

    goto = wait_for_selector = close = send = lambda self, *_: None

    @property
    def context(self) -> Page:
        return self

    def new_cdp_session(self, _: Page) -> Page:
        return self

    def evaluate(self, script: str, given: object = None) -> Any:
        return ["slider"] if given is None else [0.1, 0.2, 0.3]


class Browser:
    """Stands in for a browser."""

    def new_page(self, **_: object) -> Page:
        return Page()


def explorers() -> None:
    with tempfile.TemporaryDirectory() as folder:
        list(bench_explorers.table(Browser(), bench_explorers.KINDS, Path(folder)))


def gamma_beta() -> None:
    some = dict([*bench_gamma_beta.SETTINGS.items()][-2:])
    with mock.patch.multiple(bench_gamma_beta, SETTINGS=some, SEEDS=2, STEPS=(0, 1)):
        list(bench_gamma_beta.table())


def memory() -> None:
    with mock.patch.object(bench_memory, "SHAPES", ((5, 7),)):
        list(bench_memory.table())


def pieces() -> None:
    with mock.patch.multiple(bench_pieces, ROWS=16, FEATURES=(8,), ROUNDS=2):
        list(bench_pieces.table())


def layer_norm() -> None:
    case = layer_norm_providers.Case(3, 5, "float32", "cache")
    for name in ("lnlib", "PyTorch", "Triton tutorial"):
        worker = bench_layer_norm.Worker(name, bench_layer_norm.Cpu)
        worker.check(case)
        worker._passes(case)
    bench_layer_norm.copies(case, worker.machine.device)


RUNS: dict[str, Callable[[], object]] = {
    "accuracy": lambda: accuracy(constant=False),
    "accuracy_constant_rows": lambda: accuracy(constant=True),
    "characters": on_the_novel,
    "compiled": lambda: list(bench_compiled.table(bench_compiled.cases()[:1])),
    "explorers": explorers,
    "gamma_beta": gamma_beta,
    "growth": growth,
    "layer_norm": layer_norm,
    "lstm": lstm,
    "lstm_memory": lambda: lstms(probed=True),
    "lstm_training": lambda: lstms(probed=False),
    "memory": memory,
    "mlp_training": on_digits,
    "pieces": pieces,
    "speed": lambda: list(bench_speed.table(is_quick=True)),
    "models": lambda: list(bench_models.table(is_quick=True)),
    "speed_pinned": lambda: list(bench_speed.table(is_quick=True)),
    "tricks": lambda: list(bench_tricks.table(is_quick=True)),
}


def main() -> None:
    found = {}
    for table, run in RUNS.items():
        with Watch() as watch:
            run()
        found[table] = watch.found()
    Path(sys.argv[1]).write_text(json.dumps(found), encoding="utf8")


if __name__ == "__main__":
    main()
