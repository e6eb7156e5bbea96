"""Places: how many requests a worker reads, holds and computes at once, and in how many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hbconv.serve.failures import RefusedError

__all__ = ["Places", "TakenPlace"]

_COME_AGAIN = ((b"retry-after", b"1"),)


class Places:
    """A bounded number of requests at once, and of the bytes that they hold.

    Parameters
    ----------
    most : int
    most_bytes : int

    Attributes
    ----------
    taken, held : int
        Requests and bytes.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.taken = 0
        self.held = 0
        self._most = most
        self._most_bytes = most_bytes

    def take(self) -> TakenPlace:
        """Take a place.

        Raises
        ------
        RefusedError
            There is none.
        """
        # The loop's thread alone takes and frees places, so that a plain count is enough.
        if self.taken >= self._most:
            raise RefusedError(
                503, "Busy", f"{self.taken} requests are waiting already.", _COME_AGAIN
            )
        self.taken += 1
        return TakenPlace(self)

    @contextmanager
    def one(self) -> Iterator[TakenPlace]:
        """Take a place for a while."""
        place = self.take()
        try:
            yield place
        finally:
            place.free()

    def require(self, more: int) -> None:
        """Refuse to hold more bytes, if the server holds too many then.

        Raises
        ------
        RefusedError
            It would.
        """
        if self.held + more > self._most_bytes:
            message = f"Requests hold {self.held:,} bytes already, and this one {more:,} more."
            raise RefusedError(503, "Busy", message, _COME_AGAIN)


class TakenPlace:
    """A place that is taken, and the bytes held there."""

    __slots__ = ("_held", "_places")

    def __init__(self, places: Places) -> None:
        self._places = places
        self._held = 0

    def hold(self, count: int) -> None:
        """Hold so many bytes from now on.

        Raises
        ------
        RefusedError
            All requests together would hold too many.
        """
        # Fewer bytes than before are never refused.
        if count > self._held:
            self._places.require(count - self._held)
        self.keep(count)

    def keep(self, count: int) -> None:
        """Hold so many bytes, which are there already."""
        self._places.held += count - self._held
        self._held = count

    def free(self) -> None:
        """Give the place back."""
        self.keep(0)
        self._places.taken -= 1
