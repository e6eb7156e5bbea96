"""Connections byte by byte: the order of answers, bodies in parts, time, and when they close."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from raw_http import BODY, PATH, get, post, talking
from served import Doubling, application

from hbconv.serve.http import server


@pytest.fixture
def talk(server):
    with talking(server.address) as found:
        yield found


def test_a_connection_is_kept(talk):
    for _ in range(3):
        talk.send(post())
        status, headers, body = talk.answer()
        assert (status, headers.get("connection")) == (200, None)
        assert "predictions" in json.loads(body)
    talk.send(get(b"/v2/health/live"))
    assert talk.answer()[2] == b'{"live":true}'


def test_answers_come_in_the_order_of_requests(talk):
    talk.send(post() + get(b"/v2/health/live") + get(b"/nowhere") + post() + get(b"/v2"))
    found = [talk.answer() for _ in range(5)]
    assert [status for status, _, _ in found] == [200, 200, 404, 200, 200]
    assert [body[:8] for _, _, body in found] == [
        b'{"predic', b'{"live":', b'{"error"', b'{"predic', b'{"name":',
    ]  # fmt: skip


def test_many_requests_in_one_packet(talk):
    talk.send(get(b"/nowhere") * 2000)
    assert {talk.answer()[0] for _ in range(2000)} == {404}


def test_requests_byte_by_byte(talk):
    for byte in post() + post():
        talk.send(bytes([byte]))
    assert [talk.answer()[0] for _ in range(2)] == [200, 200]


def test_chunked_bodies_and_their_trailers(talk):
    head = b"POST " + PATH + b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:]))
    talk.send(head + chunks + b"0\r\nAuthorization: x\r\n\r\n")
    assert talk.answer()[0] == 200
    talk.send(post())
    assert talk.answer()[0] == 200


def test_a_client_that_asks_before_it_sends_its_body(talk):
    head, _, body = post(BODY, PATH, b"Expect: 100-continue").partition(b"\r\n\r\n")
    talk.send(head + b"\r\n\r\n")
    assert talk.receive(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    talk.send(body)
    assert talk.answer()[0] == 200


@pytest.mark.parametrize(
    ("path", "size", "status"), [(b"/nowhere", 10, 404), (PATH, 1 << 30, 413), (b"/v2", 10, 405)]
)
def test_a_client_is_told_before_it_sends_a_body_in_vain(talk, path, size, status):
    expect = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
    )
    talk.send(expect % (path, size))
    found, headers, _ = talk.answer()
    assert (found, headers["connection"]) == (status, "close")
    assert talk.is_closed()


def test_a_refused_client_may_go_on_sending_until_it_reads_why(talk):
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (PATH, 3 << 20)
    talk.send(head)
    talk.send(b" " * (3 << 20))
    status, headers, _ = talk.answer()
    assert (status, headers["connection"]) == (413, "close")


def test_head_has_no_body(talk):
    talk.send(get(b"/v2").replace(b"GET", b"HEAD") + get(b"/v2/health/live"))
    status, headers, body = talk.answer(head_only=True)
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 0
    assert talk.answer()[2] == b'{"live":true}'


@pytest.mark.parametrize(
    "last",
    [
        get(b"/v2/health/live", b"1.0"),
        get(b"/v2/health/live").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    ],
)
def test_the_last_request_of_a_connection(talk, last):
    talk.send(post() + last)
    assert talk.answer()[0] == 200
    status, headers, _ = talk.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert talk.is_closed()


def test_broken_bytes_are_refused_after_the_requests_before_them(talk):
    talk.send(post() + b"\0\0\0\r\n\r\n")
    assert talk.answer()[0] == 200
    status, headers, body = talk.answer()
    assert (status, headers["connection"]) == (400, "close")
    assert b"no request of HTTP/1.1" in body


def test_a_client_that_sends_no_more_gets_its_answers(talk):
    talk.send(post() + post() + post()[:-3])
    talk.connection.shutdown(socket.SHUT_WR)
    assert [talk.answer()[0] for _ in range(2)] == [200, 200]
    assert talk.is_closed()


def test_addresses_are_decoded(talk):
    talk.send(get(b"/v2/models/%6eumbers?x=%2f"))
    assert json.loads(talk.answer()[2])["name"] == "numbers"


@pytest.mark.parametrize(
    ("limit", "sent"),
    [
        ("HEAD_SECONDS", b""),
        ("HEAD_SECONDS", b"POST / HTT"),
        ("KEEP_ALIVE_SECONDS", get(b"/nowhere")),
    ],
)
def test_connections_that_wait_too_long_are_closed(monkeypatch, limit, sent):
    monkeypatch.setattr(server, limit, 0.2)

    async def run():
        async with application(Doubling()) as client:
            address = str(client.base_url).removeprefix("http://")
            return await asyncio.to_thread(ask, address)

    def ask(address):
        with talking(address) as talk:
            talk.send(sent)
            if sent.endswith(b"\r\n\r\n"):
                assert talk.answer()[0] == 404
            return talk.is_closed()

    assert asyncio.run(run())


def test_a_body_that_comes_too_slowly_is_given_up():
    async def run():
        async with application(Doubling(), seconds=0.2) as client:
            address = str(client.base_url).removeprefix("http://")
            return await asyncio.to_thread(ask, address)

    def ask(address):
        with talking(address) as talk:
            talk.send(post(BODY, b"/v1/models/m:predict")[:-1])
            status, headers, _ = talk.answer()
            return status, headers["connection"], talk.is_closed()

    assert asyncio.run(run()) == (504, "close", True)


def test_a_body_that_is_being_sent_holds_a_place_until_the_client_is_gone():
    async def run():
        async with application(Doubling(), queued=1) as client:
            address = str(client.base_url).removeprefix("http://")
            await asyncio.to_thread(ask, address)
            found = 503
            while found == 503:
                found = (await client.post("/v1/models/m:predict", json=[[1.0]])).status_code
            return found

    def ask(address):
        with talking(address) as talk, talking(address) as other:
            talk.send(post(BODY, b"/v1/models/m:predict")[:-1])
            time.sleep(0.1)
            other.send(post(b"[[1.0]]", b"/v1/models/m:predict"))
            status, headers, _ = other.answer()
            assert (status, headers["retry-after"]) == (503, "1")

    assert asyncio.run(run()) == 200


def test_a_client_that_does_not_read_stops_being_read():
    """Its requests wait in the kernel, and the server holds a bounded part of them."""

    async def run():
        async with application(Doubling()) as client:
            address = str(client.base_url).removeprefix("http://")
            return await asyncio.to_thread(ask, address)

    def ask(address):
        with talking(address) as talk:
            talk.connection.settimeout(1.0)
            sent = 0
            try:
                while sent < 1 << 28:
                    sent += talk.connection.send(get(b"/openapi.json") * 1000)
            except TimeoutError:
                return sent
            return sent

    assert asyncio.run(run()) < 1 << 28
