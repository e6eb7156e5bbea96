"""Damaged requests, as bytes in pieces of any size: no error, and no place that stays taken."""

from __future__ import annotations

import asyncio
import random

import pytest
from raw_http import get, post
from served import Doubling, served_by

from hbconv.serve.http.server import HttpConnection


class Wire(asyncio.Transport):
    """A transport that keeps nothing, and refuses to write after its end."""

    def __init__(self):
        super().__init__()
        self.is_closed = self.is_ended = False

    def write(self, data):
        assert not self.is_ended

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.is_ended = True

    def pause_reading(self):
        pass

    resume_reading = pause_reading


HEADERS = (
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Content-Length: 5\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
)
SENT = (
    post(b"[[1.0]]", b"/v1/models/m:predict"),
    post(b"[[1.0]]", b"/v1/models/m:predict", b"Expect: 100-continue"),
    get(b"/v2"),
    get(b"/").replace(b"GET", b"HEAD"),
    b"POST /v2/repository/index HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
)


def damaged(rng, data):
    """Change, cut and add bytes here and there."""
    for _ in range(rng.randint(0, 4)):
        place = rng.randrange(len(data) + 1)
        cut = rng.choice((0, 1, rng.randint(1, 40)))
        added = rng.choice((b"", rng.randbytes(rng.randint(1, 5)), rng.choice(HEADERS)))
        data = data[:place] + added + data[place + cut :]
    return data


@pytest.mark.parametrize("seed", range(4))
def test_damaged_requests_in_any_pieces_leave_nothing_behind(seed):
    rng = random.Random(seed)
    failures = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failures.append(told))
        with served_by(Doubling(), quick_rows=9, body_bytes=2000, queued=4) as server:
            for _ in range(300):
                await speak(server)
            for _ in range(100):
                await asyncio.sleep(0)
            return server.service.places.taken, len(server.connections)

    async def speak(server):
        connection, wire = HttpConnection(server), Wire()
        connection.connection_made(wire)
        sent = b"".join(damaged(rng, rng.choice(SENT)) for _ in range(rng.randint(1, 4)))
        while sent and not wire.is_closed:
            size = rng.choice((1, 7, 100, 5000))
            connection.data_received(sent[:size])
            sent = sent[size:]
            if rng.random() < 0.1:
                connection.pause_writing()
            if rng.random() < 0.2:
                connection.resume_writing()
            if rng.random() < 0.3:
                await asyncio.sleep(0)
        if rng.random() < 0.5:
            connection.eof_received()
        for _ in range(rng.randint(0, 20)):
            await asyncio.sleep(0)
        connection.connection_lost(None)

    assert asyncio.run(run()) == (0, 0)
    assert failures == []
