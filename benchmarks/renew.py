"""Say of a table that a change altered no number in it, once that has been shown.

    python benchmarks/renew.py mlp_training HEAD~1   # some minutes

The commit is one whose code made the rows, such as the one before the change. What the table holds
is made again on this machine twice, by that code and by the present one: of trainings one run of
each kind, the shortest, and which of several by chance. If all numbers agree to the last digit, the
rows get the digest of the present code; otherwise they stay as they are. Times cannot be shown to
be those of other code: such a table is of older code until it is measured again.
"""

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import bench_accuracy
import bench_memory
import sweep_lstm
import sweep_norms
from accuracy_providers import LOADERS, load
from results_table import RESULTS, save

from lnlib.book.home import ROOT
from lnlib.book.records import registry
from lnlib.book.records.closure import Code
from lnlib.book.records.tables import rows_of

TIMES = ("seconds", "cpu_seconds")  # never the same twice
LENGTH = ("rows", "epochs", "steps")  # of a run
KINDS = {  # what runs of one kind have in common
    "characters": ("placement", "norm"),
    "characters_written": ("placement", "norm"),
    "lstm_memory": ("model", "scaling", "rows"),
    "lstm_training": ("model", "layout", "scaling", "batch"),
    "mlp_training": ("norm", "batch"),
}
WHOLE = {  # tables that are made again from end to end
    "accuracy": lambda: bench_accuracy.table(load(LOADERS)[0], {}),
    "accuracy_constant_rows": lambda: bench_accuracy.constant_table(load(LOADERS)[0], {}, {}),
    "memory": bench_memory.table,
}


def plan_of(table):
    """Return the runs that a table tells of, each with its experiment."""
    plans = sweep_norms.RUNS if table in sweep_norms.TABLES else sweep_lstm.RUNS
    runs = [(name, config) for name, plan in plans.items() for config in plan]
    if table == "lstm_training":
        return runs
    if table == "lstm_memory":
        return [run for run in runs if sweep_lstm.probe_of(*run) is not None]
    if table == "characters_written":
        return [(n, c) for n, c in runs if n == "two-minutes"]
    return [(n, c) for n, c in runs if sweep_norms.table_of(c) == table]


def chosen(table, seed):
    """Yield a run of each kind with its experiment: the shortest, or by chance one of these."""
    kinds = {}
    for name, config in plan_of(table):
        kind = tuple(getattr(config, field) for field in KINDS[table])
        length = [getattr(config, field, 0) for field in LENGTH]
        kinds.setdefault(kind, []).append((length, name, config))
    chance = random.Random(seed)
    for runs in kinds.values():
        least = min(length for length, *_ in runs)
        yield chance.choice([run for length, *run in runs if length == least])


def trained(table, seed):
    """Yield the rows of a run of each kind."""
    for name, config in chosen(table, seed):
        if table in sweep_norms.TABLES:
            made = sweep_norms.do(config)
            is_text = table == "characters_written"
            records = [{"written": made["written"]}] if is_text else made["records"]
            yield from sweep_norms.rows_of(name, config, records)
            continue
        with tempfile.TemporaryDirectory() as folder:
            _, found = sweep_lstm.finish((config, sweep_lstm.path_of(config, Path(folder))))
            if table == "lstm_memory":
                yield from sweep_lstm.memory_rows(name, config, Path(folder))
            else:
                yield from sweep_lstm.training_rows(name, config, found)


def made_by(folder, table, seed):
    """Return the rows that the code of a checkout makes, without times."""
    script = f"{folder / 'benchmarks' / 'renew.py'}"
    command = [sys.executable, script, table, "--print", "--seed", f"{seed}"]
    environment = os.environ | {"PYTHONPATH": f"{folder}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def check_out(commit, folder):
    """Write what a commit holds into a folder."""
    command = ["git", "-C", f"{ROOT}", "archive", commit]
    content = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(folder, filter="data")


def renew(table, commit, seed, path):
    """Give the rows that the code of a commit made the present digest; return why not, or ""."""
    record, rows = registry.RECORDS[table], rows_of(path)
    if table not in {*KINDS, *WHOLE}:
        return f"measure {table} again: python benchmarks/{record.script}.py"
    with tempfile.TemporaryDirectory() as name:
        check_out(commit, name)
        try:
            old = Code(Path(name)).of(*record.made_by, without=record.without).digest
        except ValueError as error:
            return f"{commit} is too old to be compared with: {error}"
        if old not in {row["code"] for row in rows}:
            return f"no row of {table} is of the code of {commit}, which is {old}"
        before, after = (made_by(folder, table, seed) for folder in (Path(name), ROOT))
    if before != after or not after:
        pairs = ((a, b) for a, b in zip(before, after, strict=False) if a != b)
        return f"{table} stays older; the first row that differs: {next(pairs, 'another count')}"
    new = {old: registry.code(table)}
    save(path, [row | {"code": new.get(row["code"], row["code"])} for row in rows])
    print(f"{len(after)} rows are the same by {old} and {new[old]}: {table} is renewed")
    return ""


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=registry.RECORDS)
    parser.add_argument("commit", nargs="?", default="HEAD", help="whose code made the rows")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of runs")
    parser.add_argument("--print", action="store_true", help="only make the rows, and print them")
    options = parser.parse_args(arguments)
    if options.print:
        again = WHOLE.get(options.table) or (lambda: trained(options.table, options.seed))
        print(*map(json.dumps, again()), sep="\n")
        return
    path = RESULTS / f"{options.table}.csv"
    sys.exit(renew(options.table, options.commit, options.seed, path) or 0)


if __name__ == "__main__":
    main()
