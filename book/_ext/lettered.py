"""Numbers of figures on pages without a number: "Fig. A.1", for chapters have "Fig. 1.1"."""

from __future__ import annotations

from string import ascii_uppercase

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

__all__ = ["letter_pages"]


def letter_pages(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Put a letter before the numbers of each page that has none, in the order of the book."""
    order = list(env.toctree_includes.get(str(env.config.root_doc), []))
    first = {docname: numbers.get("") for docname, numbers in env.toc_secnumbers.items()}
    lettered: list[str] = []
    for docname in order:
        kinds = env.toc_fignumbers.get(docname, {})
        if first.get(docname) or not any(kinds.values()):
            continue
        letter = ascii_uppercase[len(lettered)]
        for numbers in kinds.values():
            for nth, name in enumerate(numbers, start=1):
                numbers[name] = (letter, nth)  # type: ignore[assignment]
        lettered.append(docname)
    return lettered
