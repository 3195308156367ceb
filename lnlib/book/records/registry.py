"""Which code makes each table of results, and whether it has changed since: in a checkout alone.

A row carries in its column ``code`` the digest of the code that made it, as
`lnlib.book.records.closure` has it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from lnlib.book.home import ROOT
from lnlib.book.records.closure import Closure, Code

__all__ = ["KEPT", "RECORDS", "TABLES", "Record", "checkout", "closure", "code"]

# Nobody launches a kernel for a GPU in what computes on a CPU and leaves the choice to lnlib.
IN_A_GRAPH = ("lnlib.triton_kernel", "lnlib.lstm.triton_steps", "lnlib.lstm.triton_kernels")
FOR_GPUS = ("lnlib.in_graph", *IN_A_GRAPH)  # nor does PyTorch's compiler record


class Record(NamedTuple):
    """How a table comes to be.

    Attributes:
        script: in ``benchmarks``, that measures it.
        made_by: the code that its numbers begin with, as `Code.of` takes it, and what that is
            called with; not what says where and when they were measured, or writes them down.
        without: modules that are reached and do not run. A test watches a run for them.
    """

    script: str
    made_by: tuple[str, ...]
    without: tuple[str, ...] = ()


_PEERS = "accuracy_providers:load", "accuracy_providers:LOADERS"
_NOVEL = "sweep_norms:on_the_novel", "lnlib.book.experiments.characters:Config"
_LSTMS = "sweep_lstm:finish", "sweep_lstm:path_of", "lnlib.book.experiments.recurrent:Config"
RECORDS = {
    "accuracy": Record("bench_accuracy", ("bench_accuracy:table", *_PEERS)),
    "accuracy_constant_rows": Record("bench_accuracy", ("bench_accuracy:constant_table", *_PEERS)),
    "characters": Record("sweep_norms", ("sweep_norms:rows_of", *_NOVEL), FOR_GPUS),
    "characters_written": Record("sweep_norms", _NOVEL, FOR_GPUS),
    "compiled": Record("bench_compiled", ("bench_compiled:table", "bench_compiled:cases")),
    "explorers": Record("bench_explorers", ("bench_explorers:table",)),
    "gamma_beta": Record("bench_gamma_beta", ("bench_gamma_beta:table",)),
    "growth": Record("bench_growth", ("bench_growth:table",), FOR_GPUS),
    "layer_norm": Record(
        "bench_layer_norm",
        (*("bench_layer_norm:start_all", "bench_layer_norm:measure"), "layer_norm_providers:Case"),
    ),
    "lstm": Record("bench_lstm", ("bench_lstm:table",)),
    "lstm_memory": Record("sweep_lstm", ("sweep_lstm:memory_rows", *_LSTMS)),
    "lstm_training": Record("sweep_lstm", ("sweep_lstm:training_rows", *_LSTMS)),
    "memory": Record("bench_memory", ("bench_memory:table",), FOR_GPUS),
    "mlp_training": Record(
        "sweep_norms",
        ("sweep_norms:rows_of", "sweep_norms:on_digits", "lnlib.book.experiments.mlp:Config"),
        FOR_GPUS,
    ),
    "pieces": Record("bench_pieces", ("bench_pieces:table",)),
    "models": Record("bench_models", ("bench_models:table",), FOR_GPUS),
    "speed": Record("bench_speed", ("bench_speed:table",), IN_A_GRAPH),
    "speed_pinned": Record("bench_speed", ("bench_speed:table",), IN_A_GRAPH),
    "tricks": Record("bench_tricks", ("bench_tricks:table",)),
}
# The last one measures the built pages, of all of the checkout as it was on that day.
TABLES = (*RECORDS, "pages")
# No code here makes these: "compiled" as it was before the launches were mended, and what others
# have published.
KEPT = ("compiled_before", "published")


@functools.cache
def checkout() -> Code:
    """Return the code of this checkout, as it is when it is first asked for."""
    return Code(ROOT)


def closure(table: str) -> Closure:
    """Return the code that makes a table, as it is now.

    Raises:
        ValueError: there is no such code: in a wheel are the tables alone.
    """
    _, made_by, without = RECORDS[table]
    return checkout().of(*made_by, without=without)


@functools.cache
def code(table: str) -> str:
    """Return the digest that rows of a table carry if the present code made them.

    Raises:
        ValueError: as `closure` does.
    """
    return closure(table).digest
