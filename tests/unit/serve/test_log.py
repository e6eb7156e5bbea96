"""The log: lines for people and machines, one for each request, and few of each warning."""

from __future__ import annotations

import json
import logging
import re

import httpx

from hbconv.serve import log
from hbconv.serve.log import MOST_LINES, LogRate


def record(line, *args):
    return logging.LogRecord("hbconv", logging.ERROR, "a.py", line, "it fails: %s", args, None)


def test_lines_of_a_kind_are_few(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    rate = LogRate()
    assert [rate.filter(record(1, i)) for i in range(MOST_LINES + 5)].count(True) == MOST_LINES
    assert rate.filter(record(2, "another"))
    now[0] += log.PERIOD_SECONDS
    first, second = record(1, "again"), record(1, "again")
    assert rate.filter(first)
    assert rate.filter(second)
    assert first.getMessage() == "it fails: again (5 more like it are left out)"
    assert second.getMessage() == "it fails: again"


def lines(served, logger):
    """Return the lines of a logger that a server wrote, each as its text behind the level."""
    found = re.findall(rf"^(\S+Z) (\w+) {logger}: (.*)$", served.log.read_text(), re.MULTILINE)
    return [(level, text) for _, level, text in found]


def test_a_server_logs_its_life_and_each_request(starting, folder):
    served = starting(folder / "numbers.hbc")
    name = "numbers"
    rows = {"instances": [[0.5, 1.0, 2.0, 3.0]] * 3}
    answered = httpx.post(
        f"{served.url}/v1/models/{name}:predict", json=rows, headers={"X-Request-Id": "a-1"}
    )
    assert answered.headers["x-request-id"] == "a-1"
    wrong = httpx.post(f"{served.url}/v1/models/{name}:predict", json={"instances": [["x y"] * 4]})
    assert wrong.status_code == 400
    httpx.get(f"{served.url}/v2/models/no%0Ane")
    assert served.stop() == 0
    good, bad, unknown = lines(served, "hbconv.access")
    path = f"POST /v1/models/{name}:predict"
    pattern = rf"{path} 200 rows=3 ms=[\d.]+ model={name} version=1 id=a-1"
    assert good[0] == "INFO"
    assert re.fullmatch(pattern, good[1])
    assert re.fullmatch(
        rf"{path} 400 ms=[\d.]+ model={name} version=1 error=\"InputError: .*\"", bad[1]
    )
    # The path is the client's: its line ends stay inside the line.
    assert unknown[1].startswith("GET /v2/models/no%0Ane 404 ")
    begun, *_, leaving, ended = [text for _, text in lines(served, "hbconv.serve")]
    assert re.fullmatch(rf"Serving {name}/1 on http://127.0.0.1:\d+ workers=1 hbconv=.*", begun)
    assert (leaving, ended) == ("Takes no more requests, and answers those that came", "Ended")


def test_lines_of_json_are_objects(starting, folder):
    served = starting(folder / "numbers.hbc", "--log-format", "json", "--grpc-port", "0")
    httpx.get(f"{served.url}/v2/health/live")
    assert served.stop() == 0
    records = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert {"time", "level", "logger", "message", "process"} <= set(records[0])
    (begun,) = [record for record in records if record["message"].startswith("Serving ")]
    assert begun["workers"] == 1
    (access,) = [record for record in records if record["logger"] == "hbconv.access"]
    assert access["message"] == "GET /v2/health/live 200"
    assert access["ms"] >= 0


def test_lines_of_requests_can_be_left_out(starting, folder):
    served = starting(folder / "numbers.hbc", "--no-access-log")
    httpx.get(f"{served.url}/v2/health/live")
    assert served.stop() == 0
    assert lines(served, "hbconv.access") == []
