"""Icons: those that pages show, and no script of a megabyte."""

from __future__ import annotations

import re
from pathlib import Path

import icons
import pytest

NOT_DRAWN = {"fa-solid", "fa-lg"}


def test_every_icon_of_the_pages_is_drawn(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf8") for path in site.glob("[!_]*/*.html"))
    named = set(re.findall(r"\bfa-[a-z-]+", pages)) - NOT_DRAWN
    drawn = set(
        re.findall(r"^\.(fa-[a-z-]+) \{ --", icons.css(icons.SCRIPT.read_text()), re.MULTILINE)
    )
    assert len(named) > 5
    assert named <= drawn
    assert "fontawesome.js" not in pages


def test_an_icon_that_the_theme_lacks_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icons, "ICONS", ("list", "no-such-icon"))
    with pytest.raises(ValueError, match="no icon 'no-such-icon'"):
        icons.css(icons.SCRIPT.read_text())
