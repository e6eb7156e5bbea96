"""Regular expressions on texts: those that Python and Arrow read alike, and texts that match them.

pandas stores texts as objects or in Arrow, and the engines of both differ. What is followed here is
the same in both: characters, sets, groups, repetitions, alternatives and anchors.
"""

from __future__ import annotations

import re
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import numpy as np

from hbconv.parse.tracing.trace import refuse

__all__ = ["draw_matches", "require_pattern"]

_PLAIN = (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.AT)
_ANCHORS = (ops.AT_BEGINNING, ops.AT_END, ops.AT_BOUNDARY, ops.AT_NON_BOUNDARY)
_WAY = "Use characters, sets, groups, | and repetitions; or edit plain texts."
_CHARACTERS = "aA1 .,-_z9Z$b"
_MOST_REPEATED = 3


def require_pattern(pattern: Any, *, consumes: bool = False) -> re.Pattern[str]:
    """Return a pattern that Python and Arrow read alike, or refuse it.

    With ``consumes`` it may not match an empty text, of which the engines find other numbers.
    """
    # Arrow reads these as text, and as classes of characters.
    if not isinstance(pattern, str) or "{," in pattern or "[:" in pattern:
        refuse("uses such a pattern", _WAY)
    try:
        compiled = re.compile(pattern)
        tree = parser.parse(pattern)
    except re.error as error:
        refuse(f"uses a pattern that is none ({error})", _WAY)
    if compiled.flags & ~re.UNICODE or not _is_known(tree):
        refuse(f"uses the pattern {pattern!r}, of which engines differ", _WAY)
    if consumes and not tree.getwidth()[0]:
        refuse(f"replaces or counts by {pattern!r}, which matches no characters", _WAY)
    return compiled


def _is_known(tree: Any) -> bool:
    return all(_is_known_op(op, value) for op, value in tree)


def _is_known_op(op: Any, value: Any) -> bool:
    if op is ops.AT:
        return value in _ANCHORS
    if op in _PLAIN or op is ops.IN:
        return True
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        least, most, body = value
        bounded = most is ops.MAXREPEAT or most <= 1000
        return bounded and least <= 1000 and body.getwidth()[0] > 0 and _is_known(body)
    if op is ops.SUBPATTERN:
        _, add_flags, del_flags, body = value
        return not add_flags and not del_flags and _is_known(body)
    return op is ops.BRANCH and all(map(_is_known, value[1]))


def draw_matches(pattern: str, seed: int = 0, count: int = 8) -> list[str]:
    """Draw texts that match a pattern, or nearly so.

    Examples
    --------
    >>> any(re.fullmatch("a[0-9]+", text) for text in draw_matches("a[0-9]+"))
    True
    """
    rng = np.random.default_rng(seed)
    tree = parser.parse(pattern)
    return [_drawn(tree, rng) for _ in range(count)]


def _drawn(tree: Any, rng: np.random.Generator) -> str:
    return "".join(_drawn_op(op, value, rng) for op, value in tree)


def _drawn_op(op: Any, value: Any, rng: np.random.Generator) -> str:
    if op is ops.LITERAL:
        return chr(value)
    if op in (ops.NOT_LITERAL, ops.ANY):
        return str(rng.choice(list(_CHARACTERS)))
    if op is ops.IN:
        kind, what = value[rng.integers(len(value))]
        if kind is ops.RANGE:
            return chr(int(rng.integers(what[0], what[1] + 1)))
        return chr(what) if kind is ops.LITERAL else str(rng.choice(list(_CHARACTERS)))
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        least, most, body = value
        times = rng.integers(least, min(int(most), least + _MOST_REPEATED) + 1)
        return "".join(_drawn(body, rng) for _ in range(times))
    if op is ops.SUBPATTERN:
        return _drawn(value[-1], rng)
    if op is ops.BRANCH:
        return _drawn(value[1][rng.integers(len(value[1]))], rng)
    return ""
