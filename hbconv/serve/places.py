"""Places: how many requests a worker reads, holds and computes at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hbconv.serve.refusal import RefusedError

__all__ = ["Places"]

_COME_AGAIN = ((b"retry-after", b"1"),)


class Places:
    """A bounded number of requests at once.

    Parameters
    ----------
    most : int

    Attributes
    ----------
    taken : int
    """

    def __init__(self, most: int) -> None:
        self.taken = 0
        self._most = most

    def take(self) -> None:
        """Take a place.

        Raises
        ------
        RefusedError
            There is none.
        """
        if self.taken >= self._most:
            raise RefusedError(
                503, "Busy", f"{self.taken} requests are waiting already.", _COME_AGAIN
            )
        self.taken += 1

    def free(self) -> None:
        """Give a place back."""
        self.taken -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place for a while."""
        self.take()
        try:
            yield
        finally:
            self.free()
