"""What processes of a server share, where the system lets them."""

from __future__ import annotations

import os
import socket

from hbconv.errors import OptionError

__all__ = ["require_fork", "share_port"]


def require_fork(what: str) -> None:
    """Refuse what forks processes where the system does not.

    Raises
    ------
    OptionError
    """
    if not hasattr(os, "fork"):
        raise OptionError(
            f"{what} forks its processes, which this system does not do. "
            "On Windows, run it in WSL or in a Linux container."
        )


def share_port(held: socket.socket) -> None:
    """Have several processes listen on the port that a socket will hold.

    Raises
    ------
    OptionError
        The system shares no ports.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise OptionError(
            "Workers share the port of gRPC, which this system does not do. Leave gRPC out."
        )
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
