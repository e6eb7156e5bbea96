"""Names of users and of files, as a page shows them: cut, and without what would act in it."""

from __future__ import annotations

from html import escape

__all__ = ["MOST_LETTERS", "cut_name", "shown", "shown_lines"]

MOST_LETTERS = 2000
"""Letters of one name or sentence on a page; a file may hold one of a gigabyte."""


def cut_name(text: str, most: int = MOST_LETTERS) -> str:
    r"""Return the beginning of a text, without control characters.

    Examples
    --------
    >>> cut_name("age\x1b[2J" + "!" * 9, 8)
    'age[2J!…'
    """
    begin = "".join(c for c in text[:most] if c.isprintable() or c in "\n\t")
    return begin if len(text) <= most else f"{begin}…"


def shown(text: str) -> str:
    """Return the beginning of a text as HTML holds it.

    Examples
    --------
    >>> shown("<b>")
    '&lt;b&gt;'
    """
    return escape(cut_name(text))


def shown_lines(text: str) -> str:
    """Return a text as HTML holds it, of each line the beginning."""
    return "\n".join(map(shown, text.split("\n")))
