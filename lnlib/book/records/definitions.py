"""What a module says, statement by statement: the names that each binds, and those it mentions.

What is said has no comment, docstring, layout or import, for they change no result. A name stands
in it as a `Mention`, which the module `closure` looks up; from where it was imported, and as what,
is all one. Type hints are left out too, but for those that are read while code runs: of functions
with a decorator, such as Triton's, and of the fields of a class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Mention", "Module", "Statement"]

DECLARATION = "LOADS"  # what a module loads by name, not by an import: modules, files beside it
READS_SOURCE = ("getsource", "getdoc", "getcomments")

IMPORTS = ast.Import | ast.ImportFrom
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While | ast.Match
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Mention(NamedTuple):
    """A name with its attributes, and the module to look it up in; without names, the module."""

    module: str
    names: tuple[str, ...] = ()


Scope = dict[str, list[Mention]]  # what an import makes a name stand for; of other names nothing


class Statement:
    """A statement of the top level of a module.

    Args:
        module: that it is of.
        node: of the module's syntax tree.
    """

    def __init__(self, module: Module, node: ast.stmt) -> None:
        self.module, self.node = module, node
        self.decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        self.first = min(each.lineno for each in (node, *self.decorators))  # of its lines
        self.last = node.end_lineno or node.lineno

    @cached_property
    def said(self) -> list[str | Mention]:
        """What the statement says: text, and among it what it mentions."""
        return _Speech(self.module).of(self.node)

    @cached_property
    def strings(self) -> set[str]:
        """The strings in the statement."""
        constants = (node.value for node in ast.walk(self.node) if isinstance(node, ast.Constant))
        return {value for value in constants if isinstance(value, str)}

    @cached_property
    def reads_source(self) -> bool:
        """Whether it may read the text of what it mentions, where comments count."""
        return any(word in f"{each}" for each in self.said for word in READS_SOURCE)

    @property
    def text(self) -> str:
        """The statement as it stands in its file."""
        return "\n".join(self.module.text.splitlines()[self.first - 1 : self.last])


class Module:
    """A module, as its text has it.

    Args:
        name: with its dots.
        text: of its file.
        path: of its file, if it has one.

    Attributes:
        statements: of the top level, but for imports and what runs in a script alone.
        named: name -> the statements that bind it, or change a part of it.
        effects: statements that may change something else, when the module is imported.
        decorated: statements with what decorates them, which is imported and may take note of them.
        imports: name -> what the imports of the top level make it stand for.
        imported: the dotted name of all that is imported anywhere in it.
        loads: what it declares to load by name.
    """

    def __init__(self, name: str, text: str, path: Path | None = None) -> None:
        self.name, self.text, self.path = name, text, path
        is_package = path is not None and path.name == "__init__.py"
        self.package = name if is_package else name.rpartition(".")[0]
        tree = ast.parse(text)
        self.imported = {dotted for n in ast.walk(tree) for _, _, dotted in _imports(n, self)}
        nodes = [node for node in _undocumented(tree.body) if not _is_for_scripts(node)]
        self.imports = {bound: found for bound, found in _scope(nodes, self).items() if found}
        self.statements = [Statement(self, node) for node in nodes if not _only_imports(node)]
        self.named: dict[str, list[Statement]] = {}
        for each in self.statements:
            for bound in _scope([each.node], self):
                self.named.setdefault(bound, []).append(each)
        self.effects: list[Statement] = []
        self.decorated: list[tuple[Statement, Mention]] = []
        for each in self.statements:
            self._note_effects(each)
        nodes = [each.node for each in self.named.get(DECLARATION, ())]
        declared: list[Any] = [getattr(node, "value", None) for node in nodes]
        self.loads: list[str] = [load for node in declared for load in ast.literal_eval(node)]

    def _note_effects(self, statement: Statement) -> None:
        """Note whom a statement changes: a name of this module, or perhaps others too."""
        for changed in _changed(statement.node):
            owner = self.named.get(_root(changed))
            if owner is None or isinstance(changed, ast.Name):
                self.effects.append(statement)
            elif statement not in owner:
                owner.append(statement)
        for decorator in statement.decorators:  # which may take note of what it decorates
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            owner = self.named.get(_root(called))
            if owner is None:
                imported = self.imports.get(_root(called), ())
                self.decorated += [(statement, each) for each in imported]
            elif isinstance(called, ast.Name):
                self.effects.append(statement)
            elif statement not in owner:
                owner.append(statement)


def _imports(node: ast.AST, module: Module) -> Iterator[tuple[str, Mention, str]]:
    """Yield the names that an import binds, what they stand for, and what is imported."""
    if isinstance(node, ast.Import):
        for each in node.names:
            top = each.name.split(".")[0]
            yield each.asname or top, Mention(each.name if each.asname else top), each.name
    elif isinstance(node, ast.ImportFrom):
        parents = module.package.split(".")
        base = parents[: len(parents) - node.level + 1] if node.level else []
        source = ".".join([*base, *([node.module] if node.module else [])])
        for each in node.names:
            if each.name == "*":
                raise ValueError(f"{module.name} imports * from {source}: name what it takes")
            yield each.asname or each.name, Mention(source, (each.name,)), f"{source}.{each.name}"


def _undocumented(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements without a docstring."""
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    is_docstring = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return body[1:] if is_docstring else body


def _is_for_scripts(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def _only_imports(node: ast.stmt) -> bool:
    """Tell whether a statement does nothing but import, perhaps for type hints alone."""
    if isinstance(node, ast.If):
        return all(map(_only_imports, (*node.body, *node.orelse)))
    return isinstance(node, IMPORTS)


def _scope(nodes: Iterable[ast.AST], module: Module) -> Scope:
    """Return the names that ``nodes`` bind, but not those that are local to a part of them."""
    found: Scope = {}
    outer: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        for bound, mention, _ in _imports(node, module):
            found.setdefault(bound, []).append(mention)
        if isinstance(node, ast.Global | ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, [])
        elif isinstance(node, COMPREHENSIONS):
            todo += [each.target for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
        elif isinstance(node, FUNCTIONS | ast.ClassDef):
            found.setdefault(node.name, [])
        elif not isinstance(node, ast.Lambda | ast.alias):
            for each in (getattr(node, "name", None), getattr(node, "rest", None)):
                if isinstance(each, str):  # of an exception, or in a pattern
                    found.setdefault(each, [])
            todo += ast.iter_child_nodes(node)
    return {bound: mentions for bound, mentions in found.items() if bound not in outer}


def _changed(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield what a statement may change besides the names that it binds."""
    if isinstance(node, BLOCKS):
        yield node
    elif isinstance(node, ast.Expr):
        yield from (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    elif not isinstance(node, FUNCTIONS | ast.ClassDef):
        parts = (each for each in ast.walk(node) if isinstance(each, ast.Attribute | ast.Subscript))
        yield from (part for part in parts if not isinstance(part.ctx, ast.Load))


def _root(node: ast.AST) -> str:
    """Return the name before all attributes, indices and calls; nothing if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


class _Place(NamedTuple):
    """Where in a statement we are: the scopes around, that of a class, whether hints are read."""

    functions: tuple[Scope, ...] = ()
    of_class: Scope | None = None
    hinted: bool = False

    def find(self, name: str) -> list[Mention] | None:
        """Return what a name stands for here, or None if it is one of the module's."""
        for scope in (self.of_class or {}, *reversed(self.functions)):
            if name in scope:
                return scope[name]
        return None

    def within(self, scope: Scope, hinted: bool = False) -> _Place:
        """Return the place in a function, where the names of a class around it are not seen."""
        return _Place((*self.functions, scope), None, hinted)


class _Speech:
    """Puts a syntax tree into words, the same in every version of Python."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.said: list[str | Mention] = []

    def of(self, node: ast.stmt) -> list[str | Mention]:
        """Return what a statement says."""
        self.say(node, _Place())
        said: list[str | Mention] = []
        for each in self.said:
            last = said[-1] if said else None
            if isinstance(each, str) and isinstance(last, str):
                said[-1] = last + each
            else:
                said.append(each)
        return said

    def say(self, node: object, at: _Place) -> None:
        """Say a node, a list of nodes, or a value."""
        match node:
            case list():
                for each in node:
                    self.said.append(",")
                    self.say(each, at)
            case ast.Import() | ast.ImportFrom():
                del self.said[-1:]  # the comma before it
            case ast.Name() | ast.Attribute():
                self.say_name(node, at)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self.say_function(node, at)
            case ast.ClassDef():
                self.say_parts(node, at, ("name", "bases", "keywords", "decorator_list"))
                body = _undocumented(node.body)
                self.say(list(body), at._replace(of_class=_scope(body, self.module)))
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self.say(node.generators[0].iter, at)  # which does not see the names that follow
                scope = _scope([each.target for each in node.generators], self.module)
                self.say_parts(node, _Place((*at.functions, at.of_class or {}, scope)))
            case ast.AnnAssign() if at.of_class is None:
                if node.value is None:
                    del self.said[-1:]
                else:
                    self.say(ast.Assign([node.target], node.value), at)
            case ast.arg():
                self.say_parts(node, at, ("arg", "annotation") if at.hinted else ("arg",))
            case ast.AST():
                self.say_parts(node, at)
            case _:
                self.said.append(repr(node))

    def say_parts(self, node: ast.AST, at: _Place, names: Sequence[str] | None = None) -> None:
        """Say of which type a node is, and its parts that are there."""
        self.said.append(f"{type(node).__name__}(")
        for name in node._fields if names is None else names:
            value = getattr(node, name, None)
            if value is not None and value != [] and name != "ctx":  # its place says that
                self.said.append(f" {name}=")
                self.say(value, at)
        self.said.append(")")

    def say_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, at: _Place
    ) -> None:
        """Say a function; its defaults, decorators and hints belong to the place around it."""
        body = [node.body] if isinstance(node, ast.Lambda) else list(_undocumented(node.body))
        hinted = bool(getattr(node, "decorator_list", ()))
        parts = ("name", "decorator_list", "args", *(["returns"] if hinted else []))
        self.say_parts(node, at._replace(hinted=hinted), parts)
        given = node.args
        single = [each for each in (given.vararg, given.kwarg) if each is not None]
        names = (each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *single))
        scope: Scope = {name: [] for name in names}
        self.say(body, at.within(scope | _scope(body, self.module)))

    def say_name(self, node: ast.Name | ast.Attribute, at: _Place) -> None:
        """Say a name with its attributes: a mention, unless it is local."""
        names: list[str] = []
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            names.insert(0, root.attr)
            root = root.value
        if not isinstance(root, ast.Name):
            self.say_parts(node, at, ("value", "attr"))
            return
        is_bound_here = not isinstance(root.ctx, ast.Load) and not at.functions
        found = at.find(root.id)
        if found is None and not is_bound_here:
            self.said.append(Mention(self.module.name, (root.id, *names)))
        else:
            for each in found or ():
                self.said.append(Mention(each.module, (*each.names, *names)))
            if not found:
                self.said.append(".".join((root.id, *names)))
