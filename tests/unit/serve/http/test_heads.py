"""Heads of requests: those that come again, hosts, and what answers say in theirs."""

from __future__ import annotations

import asyncio
import json

import pytest
from raw_http import BODY, PATH, get, post, talking
from served import Doubling, application

from hbconv.serve.http import server as http_server
from hbconv.serve.http.messages import MOST_HEADS, HttpParser, KnownHeads


class Reader:
    """Notes what the parser tells."""

    def __init__(self):
        self.requests = []

    def on_message_begin(self):
        pass

    def on_head(self, request, *, is_last):
        self.requests.append(request)
        self.is_last = is_last

    def on_body(self, body):
        self.requests[-1].receive(body)

    def on_message_complete(self):
        pass


def read(*sent):
    """Return the requests that a connection reads, and the heads that are known after."""
    reader, known = Reader(), KnownHeads()
    parser = HttpParser(reader, known, 1 << 20)
    for data in sent:
        parser.feed(data)
    return reader.requests, known


def test_a_head_that_comes_again_is_not_parsed_again():
    other = BODY.replace(b"1.0", b"7.5")
    requests, _ = read(post(), post(other), post())
    assert [request.body() for request in requests] == [BODY, other, BODY]
    assert len({id(request.head) for request in requests}) == 1


def test_a_known_head_whose_body_comes_later_is_parsed():
    requests, _ = read(post(), post()[:-3], post()[-3:], post() + post())
    assert [request.body() for request in requests] == [BODY] * 4


@pytest.mark.parametrize(
    "sent",
    [
        post() + get(b"/v2"),
        post().replace(b"Content-Length", b"Connection: close\r\nContent-Length"),
        get(b"/v2", b"1.0"),
        b"POST /v2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\r\n\r\n" + get(b"/v2"),
        post(BODY, PATH, b"X: " + b"x" * 2000),
        post()[:-1],
    ],
)
def test_only_heads_of_whole_requests_are_known(sent):
    requests, known = read(sent)
    assert requests
    assert not known._heads


def test_few_heads_are_known():
    _, known = read(*(get(b"/%d" % number) for number in range(MOST_HEADS + 10)))
    assert len(known._heads) == 10


def test_a_head_that_is_refused_is_refused_again(server):
    wrong = post().replace(b"Host: localhost", b"Host: evil.example")
    with talking(server.address) as talk:
        for _ in range(3):
            talk.send(wrong)
            assert talk.answer()[0] == 421
        talk.send(post())
        assert talk.answer()[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"Host: localhost:9\r\n", 200),
        (b"Host: 127.0.0.1\r\n", 200),
        (b"Host: LOCALHOST\r\n", 200),
        (b"Host: [::1]:8000\r\n", 200),
        (b"Host: evil.example\r\n", 421),
        (b"Host: localhost.evil.example:8000\r\n", 421),
        (b"Host: \r\n", 421),
        (b"", 400),
        (b"Host: localhost\r\nHost: localhost\r\n", 400),
    ],
)
def test_the_host_of_a_request(server, host, status):
    with talking(server.address) as talk:
        talk.send(b"GET /v2 HTTP/1.1\r\n" + host + b"\r\n")
        assert talk.answer()[0] == status


def test_the_health_of_the_server_alone_is_told_by_any_name(server):
    for path, status in ((b"/v2/health/ready", 200), (b"/v2/models/numbers/ready", 421)):
        with talking(server.address) as talk:
            talk.send(get(path).replace(b"localhost", b"10.1.2.3"))
            assert talk.answer()[0] == status


def test_names_that_are_allowed(starting, folder):
    served = starting(folder / "numbers.hbc", "--allowed-host", "Models.test")
    with talking(served.address) as talk:
        talk.send(get(b"/v2").replace(b"localhost", b"models.test:80"))
        assert talk.answer()[0] == 200


@pytest.mark.parametrize(
    ("sent", "allowed"),
    [(get(PATH), "post"), (post(b"", b"/v2"), "get, head"), (post(b"", b"/metrics"), "get, head")],
)
def test_another_method_is_told_which_are_allowed(server, sent, allowed):
    with talking(server.address) as talk:
        talk.send(sent)
        status, headers, _ = talk.answer()
    assert (status, headers["allow"]) == (405, allowed)


def test_requests_in_one_packet_are_answered_while_the_server_leaves():
    model = Doubling()

    async def ask():
        async with application(model) as client:
            url = client.base_url
            reader, writer = await asyncio.open_connection(url.host, url.port)
            model.held.clear()
            writer.write(post(b"[[1.0]]", b"/v1/models/m:predict") * 3)
            await asyncio.sleep(0.2)
            client.server.service.is_leaving = True
            model.held.set()
            told = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            await writer.wait_closed()
            return told

    told = asyncio.run(ask())
    answers = [json.loads(part[: part.index(b"}]}") + 3]) for part in told.split(b"\r\n\r\n")[1:]]
    assert answers == [{"predictions": [{"predict": 2.0}]}] * 3
    assert told.count(b"connection: close") == 1


def test_a_client_that_sends_on_is_left():
    """What came is answered, and the last answer says that it is the last."""
    sent = 20_000

    async def ask():
        async with application(Doubling()) as client:
            url = client.base_url
            reader, writer = await asyncio.open_connection(url.host, url.port)
            client.server.service.is_leaving = True
            writer.write(get(b"/v2/health/live") * sent)
            told = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
            return told

    told = asyncio.run(ask())
    assert 1 <= told.count(b"HTTP/1.1 200") < sent
    last = told.rpartition(b"HTTP/1.1 200")[2]
    assert b"connection: close" in last
    assert last.endswith(b'{"live":true}')


def test_a_request_that_is_there_in_part_is_the_last_while_the_server_leaves():
    async def ask():
        async with application(Doubling()) as client:
            url = client.base_url
            reader, writer = await asyncio.open_connection(url.host, url.port)
            client.server.service.is_leaving = True
            asked = post(b"[[1.0]]", b"/v1/models/m:predict")
            writer.write(asked + asked[:-3])
            first = await asyncio.wait_for(reader.readuntil(b"}]}"), 20)
            writer.write(asked[-3:] + asked)
            rest = await asyncio.wait_for(reader.read(), 20)
            writer.close()
            await writer.wait_closed()
            return first, rest

    first, rest = asyncio.run(ask())
    assert b"connection: close" not in first
    assert rest.count(b"HTTP/1.1 200") == rest.count(b"connection: close") == 1


@pytest.mark.parametrize("read", [1, 40, 80])
def test_a_head_that_is_there_in_part_is_waited_for_while_the_server_leaves(read, monkeypatch):
    """A connection without a request is closed meanwhile."""
    monkeypatch.setattr(http_server, "LEAVE_SECONDS", 0.0)

    async def ask():
        async with application(Doubling()) as client:
            url = client.base_url
            reader, writer = await asyncio.open_connection(url.host, url.port)
            idle, unused = await asyncio.open_connection(url.host, url.port)
            asked = post(b"[[1.0]]", b"/v1/models/m:predict")
            writer.write(asked[:read])
            await asyncio.sleep(0.2)
            client.server.service.is_leaving = True
            ending = asyncio.create_task(client.server.end())
            assert await asyncio.wait_for(idle.read(), 20) == b""
            writer.write(asked[read:])
            told = await asyncio.wait_for(reader.read(), 20)
            for each in (writer, unused):
                each.close()
                await each.wait_closed()
            await asyncio.wait_for(ending, 20)
            return told

    told = asyncio.run(ask())
    assert told.startswith(b"HTTP/1.1 200")
    assert told.endswith(b'{"predictions":[{"predict":2.0}]}')


def test_a_request_that_takes_too_long_is_one_warning(caplog):
    model = Doubling()

    async def ask():
        async with application(model, seconds=0.2) as client:
            model.held.clear()
            found = await client.post("/v1/models/m:predict", json=[[1.0]])
            model.held.set()
            return found.status_code

    assert asyncio.run(ask()) == 504
    assert [(one.levelname, one.exc_info) for one in caplog.records] == [("WARNING", None)]
