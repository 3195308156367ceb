"""What a result is made by: all code that can run on the way to it, statement by statement.

From the code that a result begins with, names are followed to the statements of our modules that
bind them, and on from there. Besides names,

* a module that is handed on as a value, as in ``getattr(module, name)``, stands for all in it;
* what a module declares in ``LOADS`` comes with it: modules that it imports by name, and files;
* statements that may change more than their own module count for all who import it.

The digest is of what these statements say, as a set, so whoever moves one of them, or renames its
file, changes no digest.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lnlib.book.records.definitions import DECLARATION, Mention, Module, Statement

__all__ = ["Closure", "Code"]

# How many steps a statement looks ahead to tell apart what it mentions, in case two functions that
# are reached anyway change places. What is not seen there is seen as a change of another statement.
LOOKS = 3
SCRIPTS = ("benchmarks", "book/_ext")  # folders of modules that are in no package
CPP_LITERAL = r""""(?:\\.|[^"\\])*"|(?<!\w)'(?:\\.|[^'\\])*'"""
CPP_COMMENT = re.compile(rf"({CPP_LITERAL})|//[^\n]*|/\*.*?\*/", re.DOTALL)
CPP_TOKEN = re.compile(  # a directive, which ends with its line; a literal, name, number, operator
    rf"^[ ]*\#(?:\\\n|[^\n])*|{CPP_LITERAL}|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*"
    r"|<<=|>>=|->|\+\+|--|<<|>>|&&|\|\||::|[-+*/%&|^=!<>]=|\S",
    re.MULTILINE,
)


class Target(NamedTuple):
    """What a name stands for: what binds it in one of our modules; without a name, all of it."""

    module: str
    name: str = ""


@dataclass(frozen=True)
class Closure:
    """What makes a result.

    Attributes:
        statements: that are reached.
        loaded: files that are no Python, of modules that are reached.
        digest: of both, twelve digits long.
        executed: the modules that are imported, reached or not.
    """

    statements: frozenset[Statement]
    loaded: frozenset[Path]
    digest: str
    executed: frozenset[str]

    @functools.cached_property
    def files(self) -> frozenset[Path]:
        """The files in which it stands."""
        paths = (statement.module.path for statement in self.statements)
        return self.loaded.union(path for path in paths if path is not None)

    @functools.cached_property
    def strings(self) -> frozenset[str]:
        """The strings in the code."""
        return frozenset[str]().union(*(statement.strings for statement in self.statements))


class Code:
    """The code of a checkout: `lnlib`, and the scripts in ``benchmarks`` and ``book/_ext``.

    Args:
        root: the folder of all three.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}
        self._parts: dict[Statement, list[str | Target]] = {}
        self._hashes: dict[tuple[Statement, tuple[str, ...], int], str] = {}

    def of(self, *entries: str, without: tuple[str, ...] = ()) -> Closure:
        """Return what is reached from names.

        Args:
            entries: such as "lnlib.book.experiments.mlp:run", or "bench_speed:measure".
            without: modules that are known not to run, and left out with what they alone reach.

        Raises:
            ValueError: there is no such name.
        """
        targets = [Target(*entry.split(":")) for entry in entries]
        for target in targets:
            module = self.module(target.module)
            if module is None or target.name not in module.named:
                raise ValueError(f"no code is called {target.module}:{target.name}")
        found = [each for target in targets for each in self._statements(target)]
        return self._closure(found, without)

    def of_text(self, text: str) -> Closure:
        """Return what is reached from the text of a program, such as the cells of a notebook."""
        self._modules[""] = program = _program(text)
        return self._closure(program.statements, ())

    def changed(self, name: str, text: str) -> Code:
        """Return this code with another text of one of its modules."""
        other, old = Code(self.root), self.module(name)
        if old is None:
            raise ValueError(f"there is no module {name}")
        new = Module(name, text, old.path)
        other._modules = {**self._modules, name: new}
        if (new.named.keys(), new.imports) == (old.named.keys(), old.imports):
            other._parts = dict(self._parts)  # names still stand for what they stood for
        return other

    def module(self, name: str) -> Module | None:
        """Return one of our modules, or None if it is none."""
        if name not in self._modules:
            path = self._path(name)
            text = "" if path is None else path.read_text(encoding="utf8")
            self._modules[name] = None if path is None else Module(name, text, path)
        return self._modules[name]

    def _path(self, name: str) -> Path | None:
        top, *inner = name.split(".")
        for folder in ("",) if top == "lnlib" else SCRIPTS:
            base = self.root.joinpath(folder, top, *inner)
            path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
            if path.is_file():
                return path
        return None

    def _closure(self, start: Iterable[Statement], without: tuple[str, ...]) -> Closure:
        reached: set[Statement] = set()
        executed: set[str] = set()
        loaded: set[Path] = set()
        texts: set[str] = set()
        todo = list(start)
        while todo:
            statement = todo.pop()
            module = statement.module
            if statement in reached or self._is_in(module.name, without):
                continue
            reached.add(statement)
            todo += self._effects(module, executed)
            for load in module.loads:
                if self.module(load) is None:
                    loaded |= self._files(module, load)
                else:
                    todo += self._statements(Target(load))
            for part in self._said(statement):
                if isinstance(part, Target):
                    found = self._statements(part)
                    todo += found
                    texts |= {each.text for each in found if statement.reads_source}
        said = {self._hash(statement, without, LOOKS) for statement in reached}
        total = hashlib.sha256()
        for each in sorted(said | texts | {_words(path) for path in loaded}):
            total.update(each.encode() + b"\0")
        digest = total.hexdigest()[:12]
        return Closure(frozenset(reached), frozenset(loaded), digest, frozenset(executed))

    def _effects(self, module: Module, executed: set[str]) -> Iterator[Statement]:
        """Yield what importing a module may change, of all that it imports as well."""
        todo = [module]
        while todo:
            module = todo.pop()
            if module.name in executed:
                continue
            executed.add(module.name)
            yield from module.effects
            for statement, decorator in module.decorated:
                if any(isinstance(found, Target) for found, _ in self._look_up(decorator)):
                    yield statement
            for dotted in module.imported:
                parts = dotted.split(".")
                around = (self.module(".".join(parts[: n + 1])) for n in range(len(parts)))
                todo += [each for each in around if each is not None]

    def _files(self, module: Module, load: str) -> set[Path]:
        folder = module.path.parent if module.path else self.root
        found = {path.resolve() for path in folder.glob(load)}
        if not found:
            raise ValueError(f"{module.name} loads {load}, and there is no such module or file")
        return found

    def _statements(self, target: Target) -> list[Statement]:
        """Return the statements that a target stands for."""
        module = self.module(target.module)
        assert module is not None
        if target.name:
            return module.named[target.name]
        own = [each for name, some in module.named.items() if name != "__all__" for each in some]
        if module.package != module.name:
            return own
        handed_on = (mention for mentions in module.imports.values() for mention in mentions)
        found = (each for mention in handed_on for each, _ in self._look_up(mention))
        return own + [s for t in found if isinstance(t, Target) for s in self._statements(t)]

    def _said(self, statement: Statement) -> list[str | Target]:
        """Return what a statement says, with its mentions looked up."""
        if statement not in self._parts:
            parts: list[str | Target] = []
            for each in statement.said:
                if isinstance(each, str):
                    parts.append(each)
                else:
                    for found in self._look_up(each, statement.module):
                        parts += found
            self._parts[statement] = parts
        return self._parts[statement]

    def _look_up(
        self, mention: Mention, home: Module | None = None
    ) -> Iterator[tuple[str | Target, str]]:
        """Yield what a name stands for, in words if it is none of ours, and what is left of it."""
        name, *left = mention.names or ("",)
        rest = "".join(f".{each}" for each in left)
        module = self.module(mention.module)
        inner = f"{mention.module}.{name}"
        if module is None:
            yield ".".join((mention.module, *mention.names)), ""
        elif not name:
            yield Target(mention.module), ""
        elif name.startswith("__") or name == DECLARATION:  # what a module says of itself
            yield name, rest
        elif name in module.named or name in module.imports:
            if name in module.named:
                yield Target(mention.module, name), rest
            for other in module.imports.get(name, ()):
                itself = Mention(inner) if other == (mention.module, (name,)) else other
                yield from self._look_up(Mention(itself.module, (*itself.names, *left)))
        elif self.module(inner) is not None:
            yield from self._look_up(Mention(inner, tuple(left)))
        elif module is home:  # it is one of Python's own
            yield name, rest
        else:
            yield Target(mention.module), f".{name}{rest}"

    def _hash(self, statement: Statement, without: tuple[str, ...], looks: int) -> str:
        """Return a digest of what a statement says, in which its mentions are digests as well."""
        key = statement, without, looks
        if key not in self._hashes:
            total = hashlib.sha256()
            for part in self._said(statement):
                if isinstance(part, Target):
                    known = looks and not self._is_in(part.module, without)
                    found = self._statements(part) if known else ()
                    part = f"<{sorted({self._hash(s, without, looks - 1) for s in found})}>"
                total.update(part.encode())
            self._hashes[key] = total.hexdigest()
        return self._hashes[key]

    @staticmethod
    def _is_in(module: str, without: tuple[str, ...]) -> bool:
        return any(f"{module}.".startswith(f"{prefix}.") for prefix in without)


@functools.lru_cache
def _program(text: str) -> Module:
    return Module("", text)


def _words(path: Path) -> str:
    """Return what a file says: without comments and layout if it is C++, else as it is."""
    text = path.read_text(encoding="utf8", errors="backslashreplace")  # a font is no text
    if path.suffix != ".cpp":
        return text
    code = CPP_COMMENT.sub(lambda found: found[1] or " ", text)
    tokens: list[str] = CPP_TOKEN.findall(code)
    return "\n".join(" ".join(t.split()) if t.lstrip()[0] == "#" else t for t in tokens)
