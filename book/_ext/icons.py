"""The icons that pages show: a style sheet of 6 kB in place of the theme's script of 1.5 MB."""

from __future__ import annotations

import re
from importlib import resources
from urllib.parse import quote

__all__ = ["ICONS", "SCRIPT", "css"]

ICONS = (
    "angle-left",
    "angle-right",
    "arrow-up",
    "bars",
    "circle-half-stroke",
    "download",
    "file",
    "file-pdf",
    "list",
    "magnifying-glass",
    "moon",
    "sun",
    "xmark",
)
SCRIPT = resources.files("pydata_sphinx_theme").joinpath(
    "theme/pydata_sphinx_theme/static/scripts/fontawesome.js"
)
RULE = """:is(.fa-solid, .fas) {
  display: inline-block; width: 1em; height: 1em; vertical-align: -0.125em;
  background: currentColor; mask: var(--ln-icon) center / contain no-repeat;
}
.fa-lg { font-size: 1.25em; }
"""


def css(script: str) -> str:
    """Return the rules that draw the icons, with their outlines from the script of Font Awesome."""
    rules = [RULE]
    for name in ICONS:
        key = rf'[{{,]"?{name}"?:'
        found = re.findall(key + r'\[(\d+),(\d+),\[[^\]]*\],"[^"]*","([^"]+)"\]', script)
        if not found:
            raise ValueError(f"the theme's script has no icon {name!r}")
        width, height, path = found[-1]  # the outlined one comes before the solid one
        svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'>"
        image = quote(f"{svg}<path d='{path}'/></svg>", safe=" ='/:")
        rules.append(f'.fa-{name} {{ --ln-icon: url("data:image/svg+xml,{image}"); }}\n')
    return "".join(rules)
