"""A digest of code: a recorded result carries it, and is stale once the code is another."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["digest"]


def digest(paths: Iterable[Path]) -> str:
    """Return a digest of files of Python or C++, twelve digits long.

    Comments, docstrings and layout do not count: they change no result.
    """
    total = hashlib.sha256()
    for path in paths:
        text = path.read_text(encoding="utf8")
        code = _python(text) if path.suffix == ".py" else re.sub(r"//.*", "", text).split()
        total.update(f"{path.name}: {code}\n".encode())
    return total.hexdigest()[:12]


def _python(text: str) -> object:
    """Return what a source says, without its docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            del node.body[0]
    return _plain(tree)


def _plain(node: object) -> object:
    """Return what is said in a syntax tree, and not which version of Python read it."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        (name, _plain(value)) for name, value in ast.iter_fields(node) if value not in (None, [])
    ]
    return type(node).__name__, fields
