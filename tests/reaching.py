"""Watch which code of ours runs, and hold it against what the closure of a result says can run.

``python tests/reaching.py`` does so for every notebook, in some minutes; it names what runs and is
not reached. Name notebooks to do so for these alone.
"""

from __future__ import annotations

import ast
import dis
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import coverage

from lnlib.book.records.closure import Closure, Code
from lnlib.book.records.definitions import DECLARATION, Module

ROOT = Path(__file__).resolve().parents[1]
READ = tuple(f"{ROOT / folder}/" for folder in ("lnlib", "benchmarks", "notebooks", "book"))


class Watch:
    """Takes down what runs of ours while it is entered. Import before that what is to be run.

    Attributes:
        opened: files of ours that were opened, but for those of Python.
    """

    def __init__(self) -> None:
        ours = [f"{ROOT / folder}/*" for folder in ("lnlib", "benchmarks")]
        self.lines = coverage.Coverage(data_file=None, config_file=False, include=ours)
        self.opened: set[str] = set()
        self.is_on = False
        sys.addaudithook(self.audit)

    def __enter__(self) -> Watch:
        self.is_on = True
        self.lines.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.stop()
        self.is_on = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an opened file down."""
        path = f"{arguments[0]}" if self.is_on and event == "open" else ""
        if path.startswith(READ) and not path.endswith((".py", ".pyc")):
            self.opened.add(os.path.normpath(path))

    def found(self) -> dict[str, Any]:
        """Return the lines that ran, by their files, and the files that were opened."""
        data = self.lines.get_data()
        lines = {path: sorted(data.lines(path) or ()) for path in data.measured_files()}
        return {"lines": lines, "opened": sorted(self.opened)}


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module, of its functions, and of theirs."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def names_read(path: str, lines: set[int]) -> set[str]:
    """Return the names of a file's top level that were read by functions of which a line ran."""
    module = compile(Path(path).read_text(encoding="utf8"), path, "exec")
    functions = [code for code in codes_in(module) if code is not module]
    ran = [code for code in functions if lines & {line for *_, line in code.co_lines() if line}]
    return {
        instruction.argval
        for code in ran
        for instruction in dis.get_instructions(code)
        if instruction.opname == "LOAD_GLOBAL"
    }


def unreached(found: dict[str, Any], closure: Closure, may_open: set[Path]) -> list[str]:
    """Return what ran, was read or was opened, and is not in a closure."""
    wrong = []
    for path, lines in found["lines"].items():
        module = Module("", Path(path).read_text(encoding="utf8"))
        reached = {each.first for each in closure.statements if f"{each.module.path}" == path}
        for each in module.statements:
            if each.first not in reached:
                ran = [line for line in lines if each.first <= line <= each.last]
                wrong += [f"line {line} of {path} runs" for line in ran]
        for name in sorted(names_read(path, set(lines))):
            bound = module.named.get(name, []) if name != DECLARATION else []
            wrong += [f"{name} of {path} is read" for each in bound if each.first not in reached]
    opened = {Path(path) for path in found["opened"]} - closure.loaded - may_open
    return wrong + [f"{path} is opened" for path in sorted(opened)]


def watch_notebook(path: Path) -> dict[str, Any]:
    """Run a notebook as JupyterLab does, and return what `Watch` found."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    imports = [n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Import | ast.ImportFrom)]
    with tempfile.TemporaryDirectory() as folder:
        result = f"{folder}/found.json"
        start = [
            *map(ast.unparse, imports),
            f"import sys; sys.path.append({str(ROOT / 'tests')!r})",
        ]
        start += ["from reaching import Watch as _Watch", "_watch = _Watch().__enter__()"]
        end = ["_watch.__exit__()", "import json as _json"]
        end += [f"open({result!r}, 'w').write(_json.dumps(_watch.found())) and None"]
        notebook.cells.insert(0, nbformat.v4.new_code_cell("\n".join(start)))
        notebook.cells.append(nbformat.v4.new_code_cell("\n".join(end)))
        resources = {"metadata": {"path": f"{path.parent}"}}
        nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute()
        found: dict[str, Any] = json.loads(Path(result).read_text(encoding="utf8"))
    return found


def notebook_unreached(path: Path) -> list[str]:
    """Return what a notebook runs and its digest does not hold."""
    import digests  # here: what is watched need not import it

    closure = Code(ROOT).of_text(digests.code_of(path))
    return unreached(watch_notebook(path), closure, {path, *digests.read_by(closure, ROOT)})


def main() -> int:
    import digests

    wrong = 0
    for path in [Path(name).resolve() for name in sys.argv[1:]] or digests.notebooks(ROOT):
        missing = notebook_unreached(path)
        wrong += len(missing)
        print(f"{path.stem}:", "; ".join(missing) or "all that runs is reached", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
