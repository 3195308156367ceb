"""A page that shows one explorer, as Jupyter Book leaves it, with the book's mount script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lnlib.book.explorers import Explorer

LOADS = ("../book/assets/explorers.js",)
MOUNT = Path(__file__).resolve().parent.parent / "book" / "assets" / "explorers.js"


def page_of(widget: Explorer) -> str:
    """Write a page with ``widget`` as Jupyter Book leaves it, with the mount script."""
    models = {"version_major": 2, "state": {widget.model_id: {"state": widget.page_state()}}}

    def script(kind: str, content: Any) -> str:
        text = json.dumps(content).replace("</", "<\\/")
        return f'<script type="application/vnd.jupyter.widget-{kind}+json">{text}</script>'

    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Explorer</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<main><h1>Explorer</h1><div class="ln-explorer-output">'
        f"{script('view', {'model_id': widget.model_id})}"
        f'<div class="ln-fallback"><p>{widget.sentence()}</p></div></div></main>'
        "<style>body{margin:25px} .ln-live .ln-fallback{display:none}</style>"
        f'{script("state", models)}<script defer src="{MOUNT.as_uri()}"></script></html>'
    )
