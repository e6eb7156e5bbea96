"""Known heads: what clients send again and again before their bodies, parsed once.

A client of a model sends the same head each time, but for the length of its body. To parse and to
judge it takes longer than to look its bytes up.
"""

from __future__ import annotations

from hbconv.serve.http.messages import Head

__all__ = ["KnownHeads"]

MOST_HEADS = 512
MOST_BYTES = 1024
"""Of a head; longer ones are parsed each time."""
_END = b"\r\n\r\n"


class KnownHeads:
    """Heads by their bytes; all connections of a worker share them."""

    def __init__(self) -> None:
        self._heads: dict[bytes, tuple[Head, int]] = {}

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body, if the data are a whole request whose head is known."""
        end = data.find(_END, 0, MOST_BYTES) + len(_END)
        known = self._heads.get(data[:end])
        if known is None or len(data) - end != known[1]:
            return None
        return known[0], data[end:]

    def remember(self, data: bytes, head: Head) -> None:
        """Remember the head of data that were parsed as one whole request.

        What lies before the first empty line is the head only if the length that it tells is that
        of the rest: a body in chunks has other bytes, and so has what follows lines without CR.
        """
        end = data.find(_END, 0, MOST_BYTES) + len(_END)
        told = head.headers.get(b"content-length", b"0")
        if end < len(_END) or told != b"%d" % (len(data) - end):
            return
        if len(self._heads) == MOST_HEADS:
            self._heads.clear()
        self._heads[data[:end]] = (head, len(data) - end)
