"""Send requests at random times that do not wait for answers, and tell how long answers took.

    python benchmarks/open_load.py http://127.0.0.1:8000/v2/models/m/infer body.json 2000

Users come by themselves, and do not wait for one another: the gaps between their requests are drawn
from the exponential distribution. Timers of wrk, hey, vegeta, oha and h2load tick each millisecond.
What falls in one tick is sent together and queues up, which measures the driver. This one sleeps by
``select``, whose timer has microseconds, and spins for the rest.

A request waits from the time that was drawn for it, also while the driver is late or all of its
connections are busy. How late requests were sent is told too.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import select
import socket
import sys
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import numpy as np

CONNECTIONS = 64
SPIN_SECONDS = 100e-6
"""A sleep ends late by up to so much, so the driver stays awake before a request."""
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Waits:
    """What a run gave: answers a second, and milliseconds.

    Parameters
    ----------
    half, most : float
        Within so long, 50 and 99 of 100 requests were answered.
    late : float
        99 of 100 requests were sent within so long after their time.
    """

    per_second: float
    half: float
    most: float
    late: float


class Connection:
    """A kept connection, which has one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = 0
        self._received = b""

    def fileno(self) -> int:
        """Return the number that ``select`` waits for."""
        return self.socket.fileno()

    def send(self, request: int, data: bytes) -> None:
        """Send a request, which has a number."""
        self.request = request
        self._received = b""
        self.socket.sendall(data)

    def is_answered(self) -> bool:
        """Read what is there, and tell whether it is the whole answer."""
        part = self.socket.recv(1 << 16)
        self._received += part
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not part or (end and not (length and b" 200 " in head[:16])):
            sys.exit(f"The server refused a request: {self._received[:300]!r}")
        return bool(end) and len(body) >= int(length[1])


def drive(url: str, body: bytes, rate: float, seconds: float) -> Waits:
    """Send so many requests a second, and return how long they waited."""
    parts = urlsplit(url)
    head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connections = [Connection(parts.hostname, parts.port) for _ in range(CONNECTIONS)]
    times = np.random.default_rng(1).exponential(1 / rate, int(rate * seconds)).cumsum()
    sent, ended = run(connections, head.encode() + body, times.tolist())
    waits, late = (ended - times) * 1000, (sent - times) * 1000
    half, most = np.quantile(waits, (0.5, 0.99))
    per_second = len(times) / ended.max()
    return Waits(per_second, float(half), float(most), float(np.quantile(late, 0.99)))


def run(
    connections: list[Connection], data: bytes, times: list[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return when each request was sent, and when its answer was there."""
    sent, ended = np.zeros(len(times)), np.zeros(len(times))
    idle = deque(connections)
    busy: set[Connection] = set()
    following = 0
    begin = perf_counter()
    while following < len(times) or busy:
        now = perf_counter() - begin
        while following < len(times) and times[following] <= now and idle:
            connection = idle.pop()
            sent[following] = perf_counter() - begin
            connection.send(following, data)
            busy.add(connection)
            following += 1
        for connection in select.select(busy, (), (), _sleep(times, following, idle, begin))[0]:
            if connection.is_answered():
                ended[connection.request] = perf_counter() - begin
                busy.remove(connection)
                idle.append(connection)
    return sent, ended


def _sleep(times: list[float], following: int, idle: deque[Connection], begin: float) -> float:
    """Return how long to wait for an answer: until shortly before the next request."""
    if following == len(times) or not idle:
        return 60.0
    return max(times[following] - (perf_counter() - begin) - SPIN_SECONDS, 0.0)


def main() -> None:
    """Drive as the arguments say, and print the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("body", type=Path)
    parser.add_argument("rate", type=float, help="requests a second")
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    gc.disable()
    waits = drive(options.url, options.body.read_bytes(), options.rate, options.seconds)
    print(json.dumps(asdict(waits)))


if __name__ == "__main__":
    main()
