"""The typefaces of the pages, inside a style sheet.

Firefox loads no font file for a page that is opened from a folder.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

__all__ = ["FACES", "css"]

FACES = {
    "text-400": "font-family: 'LN Text'",
    "text-400-italic": "font-family: 'LN Text'; font-style: italic",
    "text-700": "font-family: 'LN Text'; font-weight: 700",
    "sans-400": "font-family: 'LN Sans'",
    "sans-600": "font-family: 'LN Sans'; font-weight: 600 700",
}
FOLDER = Path(__file__).parents[1] / "assets" / "fonts"


def css() -> str:
    """Return a rule for each face, with the font in it."""
    rules = []
    for name, says in FACES.items():
        font = b64encode((FOLDER / f"{name}.woff2").read_bytes()).decode()
        source = f'url("data:font/woff2;base64,{font}") format("woff2")'
        rules.append(f"@font-face {{ {says}; font-display: swap; src: {source}; }}\n")
    return "".join(rules)
