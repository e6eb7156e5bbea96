"""Clients that mean harm, or go away: no memory without bound, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import socket
import struct
import threading
import tracemalloc

import pytest
from raw_http import BODY, PATH, get, post, talking
from served import Doubling, served_by

from hbconv.serve.http import server as http_server
from hbconv.serve.http.messages import Head, Request
from hbconv.serve.settings import Settings

LIVE = get(b"/v2/health/live")
CHUNKED = b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % PATH


@pytest.fixture
def talk(server):
    with talking(server.address) as found:
        yield found


def serve(model, ask, **settings):
    """Run a coroutine beside a server in this process."""

    async def run():
        with served_by(model, **settings) as server:
            here = socket.create_server(("127.0.0.1", 0))
            await server.start(here)
            try:
                return await ask(server, here.getsockname()[1])
            finally:
                server.close()

    return asyncio.run(run())


async def until(condition):
    """Wait for what must come; it is an error where it does not."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_client_that_never_reads_is_given_up(monkeypatch):
    for limit in ("KEEP_ALIVE_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(http_server, limit, 0.2)

    async def ask(server, port):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setblocking(False)
            for _ in range(2000):
                with contextlib.suppress(BlockingIOError):
                    client.send(get(b"/openapi.json") * 100)
                await asyncio.sleep(0)
            await until(lambda: not server.connections)

    serve(Doubling(), ask)


class SlowWire(asyncio.Transport):
    """A transport whose client reads, or does not."""

    def __init__(self, unsent):
        super().__init__()
        self.unsent = unsent
        self.did = []

    def get_write_buffer_size(self):
        return self.unsent

    def can_write_eof(self):
        return False

    def is_closing(self):
        return False

    def close(self):
        self.did.append("close")

    def abort(self):
        self.did.append("abort")


def test_a_client_that_reads_slowly_is_waited_for():
    async def ask(server, port):
        connection, wire = http_server.HttpConnection(server), SlowWire(900)
        connection.connection_made(wire)
        for wire.unsent in (900, 500, 100):
            connection.expire()
        assert wire.did == []
        connection.expire()
        assert wire.did == ["abort"]
        wire.unsent = 0
        connection.expire()
        assert wire.did == ["abort", "close"]
        connection.connection_lost(None)

    serve(Doubling(), ask)


def test_over_tls_no_client_ends_one_way_alone():
    async def ask(server, port):
        connection, wire = http_server.HttpConnection(server), SlowWire(0)
        connection.connection_made(wire)
        connection.data_received(LIVE)
        assert connection.eof_received() is False
        connection.connection_lost(None)

    serve(Doubling(), ask)


def test_a_failure_does_not_end_the_looks_at_the_time(monkeypatch):
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)

    async def ask(server, port):
        failed = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: failed.append(told))
        publish = server.service.publish
        server.service.publish = lambda: publish() if failed else 1 / 0
        await until(lambda: failed)
        with socket.create_connection(("127.0.0.1", port)):
            await until(lambda: server.connections)
            await until(lambda: not server.connections)
        assert len(failed) == 1

    serve(Doubling(), ask)


@pytest.mark.parametrize("split", [0, 1])
def test_a_body_after_a_head_that_asks_for_an_upgrade(talk, split):
    upgrade = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAA")
    sent = post(BODY, PATH, *upgrade)
    size = (len(sent) - len(BODY)) * split
    talk.send(sent[:size])
    talk.send(sent[size:] + sent + LIVE)
    for _ in range(2):
        status, _, body = talk.answer()
        assert (status, "predictions" in json.loads(body)) == (200, True)
    assert talk.answer()[2] == b'{"live":true}'


def test_trailers_without_end_are_refused(talk):
    talk.send(CHUNKED + b"%x\r\n%b\r\n0\r\nX: " % (len(BODY), BODY))
    talk.send(b"x" * (2 << 20))
    status, headers, body = talk.answer()
    assert (status, headers["connection"]) == (400, "close")
    assert b"headers are too long" in body


@pytest.mark.parametrize("path", [b"/v2/health/live", b"/nowhere"])
def test_nothing_is_answered_after_the_last_request(talk, path):
    first = get(path, b"1.0").replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n")
    talk.send(first + LIVE)
    assert talk.answer()[1]["connection"] == "close"
    assert talk.is_closed()


def test_the_address_of_a_whole_site(talk):
    talk.send(b"GET http://x HTTP/1.1\r\nHost: localhost\r\n\r\n")
    status, headers, _ = talk.answer()
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    "headers", [b"".join(b"X-%d: 1\r\n" % i for i in range(300)), b"X: %b\r\n" % (b"a" * 70_000)]
)
def test_many_and_long_headers_are_refused(talk, headers):
    talk.send(LIVE.replace(b"Host:", headers + b"Host:"))
    status, found, body = talk.answer()
    assert (status, found["connection"], b"no request" in body) == (400, "close", True)


def test_answers_that_no_client_reads_are_counted():
    async def ask(server, port):
        places = server.service.places
        body = b"[" + b"[1]," * 499_999 + b"[1]]"
        sent = post(body, b"/v1/models/m:predict")
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await asyncio.get_running_loop().run_in_executor(None, client.sendall, sent)
            await until(lambda: places.held > len(body) and not places.taken)
        await until(lambda: places.held == 0)

    serve(Doubling(), ask, rows=500_000)


def test_bodies_that_take_too_much_together_are_told_to_come_again(monkeypatch):
    monkeypatch.setattr(Settings, "held_bytes", 100_000)

    async def ask(server, port):
        head = post(b"", b"/v1/models/m:predict").replace(b"Length: 0", b"Length: 70000")
        loop, answers = asyncio.get_running_loop(), []
        with (
            socket.create_connection(("127.0.0.1", port)) as first,
            socket.create_connection(("127.0.0.1", port)) as second,
        ):
            for client in (first, second):
                await loop.run_in_executor(None, client.sendall, head + b" " * 60_000)
                await until(lambda: server.service.places.held >= 60_000)
            answers = await loop.run_in_executor(None, second.recv, 4096)
        assert answers.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in answers
        await until(lambda: server.service.places.held == 0)

    serve(Doubling(), ask)


def test_a_length_with_many_zeros(talk):
    zeros = b"Content-Length: %b%d\r\n" % (b"0" * 5000, len(BODY))
    talk.send(post().replace(b"Content-Length: %d\r\n" % len(BODY), zeros))
    assert talk.answer()[0] == 200


@pytest.mark.parametrize("head", [b"GET /v2/health/live", b"POST /v2/repository/index"])
def test_what_asks_no_model_takes_little(talk, head):
    talk.send(head + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\n")
    status, headers, _ = talk.answer()
    assert (status, headers["connection"]) == (413, "close")


def test_packed_bodies_that_are_more_than_one(talk):
    packed = gzip.compress(BODY)
    talk.send(post(packed, PATH, b"Content-Encoding: GZIP"))
    assert talk.answer()[0] == 200
    talk.send(post(packed * 2, PATH, b"Content-Encoding: gzip"))
    status, _, body = talk.answer()
    assert (status, b"More follows" in body) == (400, True)


def test_small_parts_of_a_body_take_no_more_than_their_bytes():
    request = Request(Head("POST", "/", {}), 1 << 20)
    tracemalloc.start()
    for place in range(1 << 14):
        request.receive(b"%04x" % place)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1 << 18
    assert request.body()[:8] == b"00000001"


def test_clients_that_leave_before_their_turn_leave_no_body_behind():
    """Their places are given back, and the thread of long requests is busy with another one."""
    body = b"[" + b"[1.5]," * 30_000 + b"[1.5]]"
    asked = post(body, b"/v1/models/m:predict")
    bound = 5 * len(body)

    async def ask(server, port):
        handlers, busy = server.service, threading.Event()
        working = asyncio.create_task(handlers.aside(busy.wait, 20))
        tracemalloc.start()
        for _ in range(20):
            client = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))
            await asyncio.to_thread(client.sendall, asked)
            await until(lambda: handlers.places.held >= len(body))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()  # by a reset: one that only sends no more may wait for its answer
            await until(lambda: not handlers.places.taken)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        busy.set()
        assert await working
        assert await handlers.aside(len, body) == len(body)
        assert handlers.places.held == 0
        return held

    assert serve(Doubling(), ask) < bound
