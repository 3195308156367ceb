"""The code that is said to make each result: all that runs is in it, and a change is seen."""

from __future__ import annotations

import ast
import copy
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import digests
import pytest
from reaching import notebook_unreached, unreached

from lnlib.book import explorers
from lnlib.book.explorers.base import HERE, join_modules
from lnlib.book.home import ROOT
from lnlib.book.records import registry
from lnlib.book.records.closure import Code
from lnlib.book.records.definitions import DECLARATION, Module, Statement

CODE = registry.checkout()
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "lnlib").rglob("*.py"))
] + [path.stem for path in sorted((ROOT / "benchmarks").glob("*.py"))]
NOTEBOOKS = {path.stem: digests.code_of(path) for path in digests.notebooks(ROOT)}
DIGITS = set((ROOT / "notebooks" / "data").iterdir())  # the code that reads them has their checksum


def closure(name: str, code: Code = CODE) -> Any:
    """Return what makes a table, or what a notebook runs."""
    if name in NOTEBOOKS:
        return code.of_text(NOTEBOOKS[name])
    record = registry.RECORDS[name]
    return code.of(*record.made_by, without=record.without)


CLOSURES = {name: closure(name) for name in (*registry.RECORDS, *NOTEBOOKS)}


# What runs


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ran while a few rows of each table were made."""
    path = tmp_path_factory.mktemp("ran") / "found.json"
    command = [sys.executable, "-W", "ignore", f"{ROOT / 'tests' / 'record_runs.py'}", f"{path}"]
    # The profiler would announce each of its starts.
    environment = os.environ | {"KINETO_LOG_LEVEL": "99"}
    environment["PYTHONPATH"] = f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    return found


@pytest.mark.parametrize("table", [t for t in registry.RECORDS if t != "characters_written"])
def test_all_that_runs_to_make_a_row_is_said_to_make_it(table: str, ran: dict[str, Any]) -> None:
    lines = sum(map(len, ran[table]["lines"].values()))
    assert lines > 50  # it was watched
    assert unreached(ran[table], CLOSURES[table], DIGITS) == []


def test_all_that_a_notebook_runs_is_in_its_digest() -> None:
    """One that is quick; ``python tests/reaching.py`` does it for all."""
    path = ROOT / "notebooks" / "when_it_goes_wrong.ipynb"
    assert notebook_unreached(path) == []


def test_what_runs_and_is_not_reached_is_found(ran: dict[str, Any]) -> None:
    """So that the two tests above can fail."""
    wrong = unreached(ran["mlp_training"], CLOSURES["characters"], set())
    assert any("lnlib/book/experiments/mlp.py runs" in each for each in wrong)
    assert any("is read" in each for each in wrong)
    assert any("mnist10k.npz is opened" in each for each in wrong)


# What is said


class CodeAlone(ast.NodeTransformer):
    """Takes away what does not count: docstrings, and hints that nothing reads."""

    in_class = False

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        if self.in_class:
            return node
        return None if node.value is None else ast.Assign([node.target], node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.inside(node, in_class=False)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.inside(node, in_class=True)

    def inside(self, node: ast.FunctionDef | ast.ClassDef, in_class: bool) -> ast.AST:
        if ast.get_docstring(node) is not None:
            del node.body[0]
        if isinstance(node, ast.FunctionDef) and not node.decorator_list:
            node.returns = None
            for each in (n for n in ast.walk(node.args) if isinstance(n, ast.arg)):
                each.annotation = None
        around, self.in_class = self.in_class, in_class
        self.generic_visit(node)
        self.in_class = around
        return node


def code_alone(statement: Statement) -> ast.stmt:
    return ast.fix_missing_locations(CodeAlone().visit(copy.deepcopy(statement.node)))


SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
SWAPS |= {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.And: ast.Or}


def tokens(node: ast.stmt) -> list[tuple[ast.AST, str, object]]:
    """Return the places of names, constants and operators, each with something else for it."""
    found: list[tuple[ast.AST, str, object]] = []
    for each in (n for n in ast.walk(node) if not isinstance(n, ast.ImportFrom | ast.alias)):
        for name, old in ast.iter_fields(each):
            if each is node and name == "name":
                continue  # others know it by this name
            if isinstance(old, str) and name != "kind":
                found.append((each, name, f"{old}_"))
            elif isinstance(each, ast.Constant) and name == "value":
                found.append((each, name, 0.5 if old != 0.5 else 1.5))
            elif type(old) in SWAPS:
                found.append((each, name, SWAPS[type(old)]()))
    return found


def text_of(module: Module, node: ast.stmt) -> str:
    return "".join(map(str, Statement(module, node).said))


@pytest.mark.parametrize("name", MODULES)
def test_each_token_of_the_code_counts_and_nothing_else(name: str) -> None:
    module, chance = CODE.module(name), random.Random(name)
    for statement in module.statements:
        node, before = code_alone(statement), text_of(module, statement.node)
        assert text_of(module, node) == before
        places = tokens(node)
        for owner, field, new in chance.sample(places, min(5, len(places))):
            old = getattr(owner, field)
            setattr(owner, field, new)
            assert text_of(module, node) != before, ast.unparse(node)
            setattr(owner, field, old)
    again = Module(name, ast.unparse(ast.parse(module.text)), module.path)  # no comment, no layout
    pairs = zip(module.statements, again.statements, strict=True)
    assert all(text_of(module, a.node) == text_of(again, b.node) for a, b in pairs)


def with_another_token(module: Module, number: int, chance: random.Random) -> str:
    """Return the text of a module with one token changed in one of its statements."""
    statement = module.statements[number]
    tree = ast.parse(module.text)
    place = [node.lineno for node in tree.body].index(statement.node.lineno)
    owner, field, new = chance.choice(tokens(node := code_alone(statement)))
    setattr(owner, field, new)
    tree.body[place] = node
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and not each.body:
            each.body = [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize("name", MODULES)
def test_a_change_makes_stale_what_reaches_it_and_nothing_else(name: str) -> None:
    """Of each module one statement, for three results that reach it, and three that do not."""
    module, chance = CODE.module(name), random.Random(name)
    declared = module.named.get(DECLARATION, [])
    chosen = [n for n, each in enumerate(module.statements) if each not in declared]
    for number in chance.sample(chosen, min(1, len(chosen))):
        statement = module.statements[number]
        code = CODE.changed(name, with_another_token(module, number, chance))
        for is_reached in (True, False):
            some = [t for t, c in CLOSURES.items() if (statement in c.statements) is is_reached]
            for each in chance.sample(some, min(3, len(some))):
                is_stale = closure(each, code).digest != CLOSURES[each].digest
                assert is_stale is is_reached, (each, statement.text)


# What is known

TRAINED = {"mlp_training", "characters", "characters_written"}
EXPERIMENTS = "lnlib.book.experiments"
LSTMS = {"lstm", "lstm_memory", "lstm_training"}
LAYER_NORMS = {"accuracy", "accuracy_constant_rows", "growth", "memory", "models"}
LAYER_NORMS |= {"speed", "speed_pinned"}
KNOWN = {  # a change -> the tables that it makes old, and some notebooks that it runs again
    "lnlib.lstm.function:lstm": (LSTMS | {"growth"}, {"08_ln_lstm", "13_lstm_experiments"}),
    "lnlib.lstm.cell:LayerNormLSTMCell": ({"growth", "lstm"}, {"08_ln_lstm"}),
    "lnlib.lstm.triton_kernels:lstm_fwd_kernel": (LSTMS, {"08_ln_lstm"}),
    f"{EXPERIMENTS}.rivals:BatchNormLSTM": (
        {"lstm_memory", "lstm_training"},
        {"13_lstm_experiments"},
    ),
    f"{EXPERIMENTS}.sequential_mnist:TEST_EVERY": (
        {"lstm_memory", "lstm_training", "mlp_training"},
        {"08_ln_lstm", "13_lstm_experiments"},
    ),
    "lnlib.triton_kernel.kernels:layer_norm_fwd_kernel": (
        {"accuracy", "accuracy_constant_rows", "compiled", "layer_norm", *LSTMS},
        {"07_triton_kernel"},
    ),
    "lnlib.in_graph:_differentiate": (
        {"accuracy", "accuracy_constant_rows", "layer_norm", "speed", "speed_pinned", *LSTMS},
        {"07_triton_kernel"},
    ),
    "lnlib.composed:normalize": (
        LAYER_NORMS | TRAINED | LSTMS | {"layer_norm"},
        {"01_formula", "06_autograd_function"},
    ),
    "lnlib.swap:swap": ({"models"}, {"using_lnlib"}),
    f"{EXPERIMENTS}.mlp:Network": ({"mlp_training"}, {"09_batch_or_layer", "14_claims"}),
    f"{EXPERIMENTS}.characters:Block": (
        {"characters", "characters_written"},
        {"10_in_context", "using_lnlib"},
    ),
    "lnlib.book.records.seeds:over_seeds": (
        set(),
        {
            "09_batch_or_layer",
            "10_in_context",
            "13_lstm_experiments",
            "14_claims",
            "15_norms_without_the_mean",
        },
    ),
    "lnlib.book.style:label_lines": (set(), {"10_in_context"}),
    "lnlib.book.explorers.epsilon:EpsilonExplorer": ({"explorers"}, {"02_epsilon"}),
    "lnlib.book.explorers.backward:BackwardExplorer": ({"explorers"}, {"05_index_notation"}),
}
NEVER = {  # nor may it run these again
    "lnlib.lstm.function:lstm": {"01_formula", "04_scalar_jacobian", "09_batch_or_layer"},
    "lnlib.triton_kernel.kernels:layer_norm_fwd_kernel": {
        "04_scalar_jacobian",
        "which_layer_norm",
    },
    "lnlib.swap:swap": {"01_formula", "08_ln_lstm", "09_batch_or_layer"},
    "lnlib.book.explorers.backward:BackwardExplorer": {
        "04_scalar_jacobian",
        "06_autograd_function",
    },
}


@pytest.mark.parametrize("what", KNOWN)
def test_what_is_known_to_be_made_by_a_piece_of_code_is(what: str) -> None:
    tables, notebooks = KNOWN[what]
    module, name = what.split(":")
    changed = CODE.module(module).named[name]
    reach = {each for each in CLOSURES if CLOSURES[each].statements.issuperset(changed)}
    assert reach.intersection(registry.RECORDS) == tables
    assert notebooks <= reach
    assert not NEVER.get(what, set()) & reach


@pytest.mark.parametrize(
    ("file", "result", "other"),
    [
        ("lnlib/cpp_kernel/kernel.cpp", "mlp_training", "pieces"),
        ("lnlib/lstm/sequence.cpp", "lstm_training", "mlp_training"),
        ("lnlib/book/explorers/frame.mjs", "explorers", "06_autograd_function"),
        ("lnlib/book/explorers/sphere_charts.mjs", "03_gamma_beta", "02_epsilon"),
        ("book/assets/explorers.js", "explorers", "02_epsilon"),
    ],
)
def test_a_file_that_is_no_python_is_of_what_loads_it(file: str, result: str, other: str) -> None:
    assert ROOT / file in CLOSURES[result].loaded
    assert ROOT / file not in CLOSURES[other].loaded


# What is declared

LOADERS = {"import_module", "find_spec", "spec_from_file_location", "__import__", "run_module"}
FOLDERS = {  # modules that name a folder or themselves, and load no code from there
    "page_tables": "notes itself, for Sphinx",
    "digests": "the checkout",
    "make_book": "the checkout",
    "runs": "the checkout",
    "drawn": "notes itself, for Sphinx",
    "lnlib.book.home": "the checkout, or the wheel's copy of what the chapters read",
    "lnlib.book.records.registry": "the checkout",
    "sphinx_ext": "notes itself, for Sphinx",
    "results_table": "the tables",
    "sweep_lstm": "where runs are kept",
    "sweep_norms": "where runs are kept",
}


@pytest.mark.parametrize("name", MODULES)
def test_what_is_loaded_by_name_is_declared(name: str) -> None:
    module = CODE.module(name)
    loads = set()
    for node in ast.walk(ast.parse(module.text)):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = node.args[0] if node.args else None
            theirs = isinstance(given, ast.Constant) and CODE.module(f"{given.value}") is None
            if called in LOADERS and not theirs:
                loads.add(called)
        elif isinstance(node, ast.Name) and node.id == "__file__" and name not in FOLDERS:
            loads.add("__file__")
    assert bool(module.loads) or not loads


def test_an_explorer_declares_all_files_of_its_script(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [getattr(explorers, name) for name in explorers.__all__ if name.endswith("Explorer")]
    read: set[Path] = set()
    read_text = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda p, **kw: read.add(p) or read_text(p, **kw))
    for kind in (kind for kind in kinds if kind is not explorers.Explorer):
        files = kind.__module__.rpartition(".")[2]
        read.clear()
        join_modules(HERE / f"{files}.mjs")
        sheets = {HERE / "common.css", HERE / f"{files}.css"}
        assert CODE.of(f"{kind.__module__}:{kind.__name__}").loaded >= read | sheets


def test_few_modules_know_where_data_results_and_notebooks_are() -> None:
    """`build.read_by` must know each of them."""
    home = CODE.module("lnlib.book.home").named["HOME"]
    users = {
        name
        for name in MODULES
        for statement in CODE.module(name).statements
        if any(getattr(each, "names", ())[:1] == ("HOME",) for each in statement.said)
    }
    assert home
    assert users == {"lnlib.book.data", "lnlib.book.equations.printed", "lnlib.book.records.tables"}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_reads_no_equations_but_its_own(name: str) -> None:
    read = re.findall(r"Printed\((.*?)\)", NOTEBOOKS[name])
    assert set(read) <= {f'"{name}"'}


@pytest.mark.parametrize("table", registry.RECORDS)
def test_no_number_depends_on_how_it_is_written_down_or_told_old(table: str) -> None:
    modules = {statement.module.name for statement in CLOSURES[table].statements}
    beside = (
        "results_table",
        "lnlib.book.records.registry",
        "lnlib.book.records.closure",
        "lnlib.book.records.definitions",
    )
    assert not modules.intersection(beside)
