"""JSON of files: its texts hold whole characters, so that they can be printed and written."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["read_json", "require_whole"]

_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""What a half of a character is written as, alone or beside its other half."""


def read_json(data: bytes | str, **how: Any) -> Any:
    r"""Decode a JSON text; ``how`` goes to ``json.loads``.

    Raises
    ------
    ValueError
        It is not JSON, or a text in it holds half a character: a lone surrogate, which no encoding
        writes.

    Examples
    --------
    >>> read_json('["caf\\u00e9", "\\ud83d\\ude00"]')
    ['café', '😀']
    >>> read_json('["\\ud83d"]')
    Traceback (most recent call last):
    ValueError: a text holds half a character, the lone surrogate '\ud83d'
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data))
    found = json.loads(text, **how)
    if _HALF.search(text):
        require_whole(json.dumps(found, ensure_ascii=False, default=str))
    return found


def require_whole(text: str) -> None:
    """Refuse a text that holds half a character.

    Raises
    ------
    ValueError
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise ValueError(f"a text holds half a character, the lone surrogate {half!r}") from error
