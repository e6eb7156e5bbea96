"""Fold replaced codes into the tables that they are looked up in."""

from __future__ import annotations

from dataclasses import replace

from hbconv.array import Array
from hbconv.containers import LookupSum, Node, Recode

__all__ = ["fold_codes"]

MAX_GROWTH = 4
"""How many times larger the tables may become: then they leave no cache that they were in."""


def fold_codes(node: Node) -> Node | None:
    """Look up the first codes, in tables of what their replacements would have found.

    Bit-exact: the entries and their order stay. Tables that would grow much stay.

    Examples
    --------
    >>> from hbconv.containers import Codes, Schema, Vocabulary, show_rule
    >>> codes = Codes(Schema.table(["city"]), 0, Vocabulary(("x", "y", "z")))
    >>> grouped = Recode(codes, (Array.of([-1, 1, 0, 1], "int32"),))
    >>> show_rule(fold_codes, Recode(grouped, (Array([0.5, 1.5, 2.5]),)))
    recode(recode(codes(city  3 categories), tables of 4), tables of 3)
    -> recode(codes(city  3 categories), tables of 4)
    """
    if not isinstance(node, LookupSum | Recode):
        return None
    codes = node.codes
    if not isinstance(codes, Recode) or codes.type.dtype != "int32":
        return None
    pairs = list(zip(node.tables, codes.tables, strict=True))
    entry = node.tables[0].data[0].size
    before = sum(len(own) * entry + len(first) for own, first in pairs)
    if sum(len(first) for _, first in pairs) * entry > MAX_GROWTH * before:
        return None
    if any(first.data.min() < -1 or first.data.max() >= len(own) - 1 for own, first in pairs):
        return None
    tables = tuple(Array(own.data[first.data + 1]) for own, first in pairs)
    return replace(node, codes=codes.codes, tables=tables)
