"""Where lines break: code hangs, a comma stays with its formula, equations use their room."""

from __future__ import annotations

import re

__all__ = ["hang_lines", "keep_punctuation", "soften_breaks"]

BLOCK = re.compile(r'(<div class="highlight"><pre>)(.*?)(</pre></div>)', re.DOTALL)
# A formula is a box of its own, behind which a line could break. So is a number to be dragged.
BOX = re.compile(
    r'(<span class="math notranslate nohighlight">\\\((?:(?!</span>).)*\\\)</span>'
    r'|<a [^>]*href="#explorer-[a-z-]*\?(?:drag|shows)=[^>]*>[^<]*</a>)([.,;:!?)’”]+)',
    re.DOTALL,
)
# In a source, a line that goes on with the one before begins with a little space.
GOES_ON = re.compile(r"\\\\\s*&amp;\s*\\(?:;|quad\b)")
TAG = re.compile(r"<(/?)span[^>]*>")


def hang_lines(body: str) -> str:
    """Put each line of the code of a page into an element with its indent."""
    return BLOCK.sub(lambda block: block[1] + _lines(block[2]) + block[3], body)


def keep_punctuation(body: str) -> str:
    r"""Tie a comma or a period to the formula, or the number to be dragged, that it follows.

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


def _lines(code: str) -> str:
    r"""Return lines of highlighted code as elements; spans over several lines begin anew in each.

    >>> _lines('<span>if</span> a:\n    <span>"b\nc"</span>\n').splitlines()[-2]
    '</span><span class="ln-line" style="--n:0"><span>c"</span>'
    """
    made, still_open = [], ""
    for line in code.removesuffix("\n").split("\n"):
        text = still_open + line
        stack: list[str] = []
        for tag in TAG.finditer(text):
            if tag[1]:
                stack.pop()
            else:
                stack.append(tag[0])
        still_open = "".join(stack)
        bare = TAG.sub("", text)
        indent = len(bare) - len(bare.lstrip(" "))
        closed = text + "</span>" * len(stack)
        made.append(f'<span class="ln-line" style="--n:{indent}">{closed}\n</span>')
    return "".join(made)
