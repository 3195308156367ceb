"""The pages that ``_toc.yml`` lists."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

__all__ = ["ContentsError", "pages"]

TOC = "_toc.yml"
KINDS = (".ipynb", ".md")


class ContentsError(ValueError):
    """The contents cannot be read, or name what is not there; the message says in which line."""


def pages(root: Path) -> list[Path]:
    """Return the file of each page, in the order of the contents.

    Raises: ContentsError.
    """
    found, missing = [], []
    try:
        contents = yaml.compose((root / TOC).read_text(encoding="utf8"))
    except yaml.YAMLError as error:
        raise ContentsError(f"{TOC}: {error}") from error
    for node in named(contents):
        paths = [root / f"{node.value}{kind}" for kind in KINDS]
        there = [path for path in paths if path.is_file()]
        found += there[:1]
        if not there:
            said = " nor ".join(path.relative_to(root).as_posix() for path in paths)
            missing.append(f"{TOC}, line {node.start_mark.line + 1}: there is no {said}")
    if missing:
        raise ContentsError("\n".join(missing))
    return found


def named(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield what stands after ``root:`` and ``file:``, wherever that is."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value in ("root", "file"):
                yield value
            else:
                yield from named(value)
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from named(each)
