"""Texts and tables as HTML holds them; they load nothing and run nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["cut_name", "html_table", "shown", "shown_lines"]

LEFT = "text-align:left"
RIGHT = "text-align:right"


def html_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], remark: str = ""
) -> str:
    """Return a table with a title above and a remark below; wide ones scroll.

    Examples
    --------
    >>> html_table("a <b>", ["name", "ms"], [["gemm", "2.0"]]).count("<td")
    2
    """
    heads = "".join(
        f'<th style="{LEFT if i == 0 else RIGHT}">{shown(h)}</th>' for i, h in enumerate(head)
    )
    lines = "".join(f"<tr>{''.join(map(_data, range(len(row)), row))}</tr>" for row in rows)
    below = f"<p>{shown(remark)}</p>" if remark else ""
    return (
        f'<div style="overflow-x:auto;max-width:100%"><p><b>{shown(title)}</b></p>'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{below}</div>"
    )


def _data(place: int, text: str) -> str:
    return f'<td style="{LEFT if place == 0 else RIGHT}">{shown(text)}</td>'


MOST_LETTERS = 2000
"""Letters of one name or sentence on a page; a file may hold one of a gigabyte."""


def cut_name(text: str, most: int = MOST_LETTERS) -> str:
    r"""Return the beginning of a text, without control characters.

    Examples
    --------
    >>> cut_name("age\x1b[2J" + "!" * 9, 8)
    'age[2J!…'
    """
    # Controls could reorder the text of a page, or end it for some readers.
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
