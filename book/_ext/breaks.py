"""Where lines break: a comma stays with its formula, equations use their room."""

from __future__ import annotations

import re

__all__ = ["keep_punctuation", "soften_breaks"]

MARK = r'\xa0<a class="ln-check-mark"[^>]*>[^<]*</a>'
# A formula is a box of its own, after which a line could break. So is a number to be dragged.
BOX = re.compile(
    r'(<span class="math notranslate nohighlight">\\\((?:(?!</span>).)*\\\)</span>'
    r'|<a [^>]*href="#explorer-[a-z-]*\?(?:drag|shows)=[^>]*>[^<]*</a>)([.,;:!?)’”]+|' + MARK + ")",
    re.DOTALL,
)
# In a source, a line that goes on with the one before begins with a little space.
GOES_ON = re.compile(r"\\\\\s*&amp;\s*\\(?:;|quad\b)")


def keep_punctuation(body: str) -> str:
    r"""Tie a comma, a period or a mark to the formula, or the number to be dragged, before it.

    >>> keep_punctuation(r'<span class="math notranslate nohighlight">\(x\)</span>, so')
    '<span class="ln-kept"><span class="math notranslate nohighlight">\\(x\\)</span>,</span> so'
    """
    return BOX.sub(r'<span class="ln-kept">\1\2</span>', body)


def soften_breaks(body: str) -> str:
    r"""Let a line of an equation that goes on in the next be broken on narrow screens alone.

    book.js says what the command does.

    >>> print(soften_breaks(r"y &amp;= a \\ &amp;\; + b \\ &amp;= c"))
    y &amp;= a \softbreak  + b \\ &amp;= c
    """
    return GOES_ON.sub(lambda _: r"\softbreak ", body)
