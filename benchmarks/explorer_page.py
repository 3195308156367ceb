"""A page that shows one explorer, as Jupyter Book leaves it, with the book's mount script."""

from __future__ import annotations

from pathlib import Path

from lnlib.book.explorers import Explorer

MOUNT = Path(__file__).resolve().parent.parent / "book" / "assets" / "explorers.js"


def page_of(widget: Explorer) -> str:
    """Write a page with ``widget`` as Jupyter Book leaves it, with the mount script."""
    view, state = widget.page_scripts(widget.model_id)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Explorer</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<main><h1>Explorer</h1><div class="ln-explorer-output">'
        f'{view}<div class="ln-fallback"><p>{widget.sentence()}</p></div></div></main>'
        "<style>body{margin:25px} .ln-live .ln-fallback{display:none}</style>"
        f'{state}<script defer src="{MOUNT.as_uri()}"></script></html>'
    )
