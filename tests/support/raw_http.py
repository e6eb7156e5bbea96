"""Requests of HTTP as bytes, and connections that send and receive them."""

from __future__ import annotations

import json
import socket
from contextlib import contextmanager

__all__ = ["BODY", "PATH", "Talk", "get", "post", "talking"]

BODY = json.dumps([[1.0, 2.0, 3.0, 4.0]]).encode()
PATH = b"/v1/models/numbers:predict"


def post(body=BODY, path=PATH, *headers):
    lines = [b"POST %b HTTP/1.1" % path, b"Host: localhost", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def get(path, version=b"1.1"):
    return b"GET %b HTTP/%b\r\nHost: localhost\r\n\r\n" % (path, version)


class Talk:
    """A connection, and answers as they come."""

    def __init__(self, connection):
        self.connection = connection
        self.held = b""

    def send(self, data):
        self.connection.sendall(data)

    def receive(self, mark):
        """Return what comes until some bytes, and those."""
        while mark not in self.held:
            data = self.connection.recv(65536)
            assert data, f"closed after {self.held}"
            self.held += data
        before, _, self.held = self.held.partition(mark)
        return before + mark

    def answer(self, *, head_only=False):
        """Return the status, the headers and the body of an answer."""
        lines = self.receive(b"\r\n\r\n").decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        size = 0 if head_only else int(headers["content-length"])
        while len(self.held) < size:
            self.held += self.connection.recv(65536)
        body, self.held = self.held[:size], self.held[size:]
        return int(lines[0].split()[1]), headers, body

    def is_closed(self):
        return self.held == b"" and self.connection.recv(1) == b""


@contextmanager
def talking(address):
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        yield Talk(connection)
