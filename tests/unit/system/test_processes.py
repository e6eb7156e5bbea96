"""Systems that do not fork, or share no ports, are named."""

from __future__ import annotations

import os
import socket

import pytest

from hbconv.errors import OptionError
from hbconv.system.processes import require_fork, share_port


def test_a_system_that_does_not_fork_is_told_the_way_out(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: 0, raising=False)
    require_fork("hbconv serve")
    monkeypatch.delattr(os, "fork")
    with pytest.raises(OptionError, match=r"hbconv serve forks .* container"):
        require_fork("hbconv serve")


def test_two_sockets_share_a_port_where_the_system_lets_them(monkeypatch):
    with socket.socket() as first, socket.socket() as second:
        if hasattr(socket, "SO_REUSEPORT"):
            for held in (first, second):
                share_port(held)
            first.bind(("127.0.0.1", 0))
            second.bind(first.getsockname())
        monkeypatch.delattr(socket, "SO_REUSEPORT", raising=False)
        with pytest.raises(OptionError, match="gRPC"):
            share_port(first)
