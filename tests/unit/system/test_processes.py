"""What processes share, on systems that let them and on others."""

from __future__ import annotations

import os
import socket

import pytest

from hbconv.system.processes import can_fork, share_port, shares_ports


def test_a_system_that_does_not_fork_is_known(monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: 0, raising=False)
    assert can_fork()
    monkeypatch.delattr(os, "fork")
    assert not can_fork()


def test_two_sockets_share_a_port_where_the_system_lets_them(monkeypatch):
    with socket.socket() as first, socket.socket() as second:
        for held in (first, second):
            share_port(held)
        first.bind(("127.0.0.1", 0))
        if shares_ports():
            second.bind(first.getsockname())
    monkeypatch.delattr(socket, "SO_REUSEPORT", raising=False)
    with socket.socket() as first, socket.socket() as second:
        for held in (first, second):
            share_port(held)
        first.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="in use"):
            second.bind(first.getsockname())
