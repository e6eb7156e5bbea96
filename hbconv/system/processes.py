"""What processes of a server share, where the system lets them."""

from __future__ import annotations

import os
import socket

__all__ = ["can_fork", "share_port", "shares_ports"]


def can_fork() -> bool:
    """Whether a process of this system may fork others."""
    return hasattr(os, "fork")


def shares_ports() -> bool:
    """Whether several processes of this system may listen on one port."""
    return hasattr(socket, "SO_REUSEPORT")


def share_port(held: socket.socket) -> None:
    """Have several processes listen on the port that a socket will hold, where they can."""
    if shares_ports():
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
