"""Where lines break: a comma stays with its formula, equations use their room."""

from __future__ import annotations

import re

__all__ = ["keep_marks", "keep_punctuation", "soften_breaks"]

MARK = r'\xa0<a class="ln-check-mark"[^>]*>[^<]*</a>'
# A formula is a box of its own, after which a line could break. So is a number to be dragged.
BOX = re.compile(
    r'(<span class="math notranslate nohighlight">\\\((?:(?!</span>).)*\\\)</span>'
    r'|<a [^>]*href="#explorer-[a-z-]*\?(?:drag|shows)=[^>]*>[^<]*</a>)([.,;:!?)’”]+|' + MARK + ")",
    re.DOTALL,
)
# In a source, a line that goes on with the one before begins with a little space.
GOES_ON = re.compile(r"\\\\\s*&amp;\s*\\(?:;|quad\b)")
# The number of a note is such a box too; the theme puts it before the note itself.
NOTE = re.compile(
    r"([^\s<>]*<label for='sidenote[^>]*>.*?</label>)(<input[^>]*><span class=\"sidenote\">)",
    re.DOTALL,
)
TAG = re.compile(r"<(/?)span[^>]*>")


def keep_punctuation(body: str) -> str:
    r"""Tie a comma, a period or a mark to the formula, or the number to be dragged, before it.

    >>> keep_punctuation(r'<span class="math notranslate nohighlight">\(x\)</span>, so')
    '<span class="ln-kept"><span class="math notranslate nohighlight">\\(x\\)</span>,</span> so'
    """
    return BOX.sub(r'<span class="ln-kept">\1\2</span>', body)


def keep_marks(body: str) -> str:
    r"""Tie the mark after a note to the number of the note, and that to the word before it.

    >>> note = "<label for='sidenote-1'>1</label>", '<input><span class="sidenote">a note</span>'
    >>> print(keep_marks('It is.%s%s\xa0<a class="ln-check-mark">✓</a> So.' % note))
    It <span class="ln-kept">is.<label for='sidenote-1'>1</label>...✓</a></span><input><span...
    """
    made, done = [], 0
    for note in NOTE.finditer(body):
        end = _end_of_span(body, note.end())
        mark = re.compile(MARK).match(body, end)
        if mark:
            kept = f'<span class="ln-kept">{note[1]}{mark[0]}</span>'
            made += [body[done : note.start()], kept, note[2], body[note.end() : end]]
            done = mark.end()
    return "".join(made) + body[done:]


def _end_of_span(body: str, at: int) -> int:
    """Return where the element ends that is open at a place of a page."""
    depth = 1
    for tag in TAG.finditer(body, at):
        depth += -1 if tag[1] else 1
        if not depth:
            return tag.end()
    raise ValueError(f"a note without an end: {body[at : at + 80]}")


def soften_breaks(body: str) -> str:
    r"""Let a line of an equation that goes on in the next be broken on narrow screens alone.

    book.js says what the command does.

    >>> print(soften_breaks(r"y &amp;= a \\ &amp;\; + b \\ &amp;= c"))
    y &amp;= a \softbreak  + b \\ &amp;= c
    """
    return GOES_ON.sub(lambda _: r"\softbreak ", body)
