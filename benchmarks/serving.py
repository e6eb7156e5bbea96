"""Load servers of one model by turns, compare their answers, and soak hbconv's own.

    python benchmarks/serving.py MODEL.hbc                        hbconv serve alone
    python benchmarks/serving.py MODEL.hbc --against triton=URL   beside a server that runs already
    python benchmarks/serving.py MODEL.hbc --soak 600             swaps and kills for ten minutes

Each server answers the Open Inference Protocol v2 over HTTP, for a model of the file's stem with
one input of numbers, X. The load is wrk's: whole requests as JSON, over kept connections. Servers
take turns, so that all see the same machine. Start each one on the same core: ``taskset -c 1``.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from serving_soak import soak

import hbconv

TURNS = 3
SECONDS = 3
LOADS = ((1, 1), (16, 1), (16, 100), (4, 10_000))
"""Clients, and rows of each request."""
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open("{body}")
wrk.body = file:read("*all")
"""


def start(model: Path, core: str | None, *options: str) -> tuple[subprocess.Popen[str], str]:
    """Start ``hbconv serve``, and return its process and address."""
    pinned = ["taskset", "-c", core] if core else []
    command = [*pinned, sys.executable, "-m", "hbconv.cli", "serve", str(model), "--port", "0"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    for line in process.stderr or ():
        found = re.search(r"Serving .* on (http://\S*?)(,|$)", line)
        if found:
            return process, found[1]
    sys.exit("hbconv serve did not start")


def request(rows: np.ndarray) -> dict[str, object]:
    """Return a request for the predictions of some rows."""
    data = rows.ravel().tolist()
    tensor = {"name": "X", "datatype": "FP64", "shape": list(rows.shape), "data": data}
    return {"inputs": [tensor], "outputs": [{"name": "predict"}]}


def check(name: str, url: str, model: hbconv.Model, rows: np.ndarray) -> None:
    """End if a server answers otherwise than the model does in this process."""
    found = httpx.post(url, json=request(rows), timeout=60).json()
    answers = found["outputs"][0]["data"]
    if not np.array_equal(np.array(answers), model.predict(rows)):
        sys.exit(f"{name} answers otherwise than the model: {answers[:5]}")


def load(url: str, rows: np.ndarray, clients: int, core: str | None) -> tuple[float, float, float]:
    """Return requests a second, and the median and the 99th percentile of their times in ms."""
    with tempfile.TemporaryDirectory() as folder:
        body, script = Path(folder, "body.json"), Path(folder, "post.lua")
        body.write_text(json.dumps(request(rows)))
        script.write_text(SCRIPT.format(body=body))
        pinned = ["taskset", "-c", core] if core else []
        command = [*pinned, "wrk", "-t1", f"-c{clients}", f"-d{SECONDS}", "-s", str(script)]
        told = subprocess.run(
            [*command, "--timeout", "60", "--latency", url],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    if "Non-2xx" in told:
        sys.exit(f"{url} refused requests: {told}")
    per_second = float(re.search(r"Requests/sec:\s*([\d.]+)", told)[1])
    return per_second, *(_milliseconds(told, share) for share in (50, 99))


def _milliseconds(told: str, share: int) -> float:
    value, unit = re.search(rf"{share}%\s*([\d.]+)(us|ms|s)", told).groups()
    return float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]


def compare(
    servers: dict[str, str], model: hbconv.Model, name: str, core: str | None
) -> list[object]:
    """Print and return the figures of each load; the median of some turns."""
    measured: list[object] = []
    print(
        f"{'clients':>7} {'rows':>6} {'server':12} {'requests/s':>10} {'p50 ms':>8} {'p99 ms':>8}"
    )
    random = np.random.default_rng(0)
    for clients, count in LOADS:
        rows = random.normal(size=(count, model.n_features_in_))
        urls = {key: f"{url}/v2/models/{name}/infer" for key, url in servers.items()}
        for key, url in urls.items():
            check(key, url, model, rows)
        turns = [
            (key, load(url, rows, clients, core)) for _ in range(TURNS) for key, url in urls.items()
        ]
        for key in urls:
            found = zip(*(figures for who, figures in turns if who == key), strict=True)
            per_second, half, most = (statistics.median(figure) for figure in found)
            measured.append([clients, count, key, per_second, half, most])
            print(f"{clients:7} {count:6} {key:12} {per_second:10,.0f} {half:8.2f} {most:8.2f}")
    return measured


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--against", action="append", default=[], metavar="NAME=URL")
    parser.add_argument("--server-core", help="core of hbconv's server")
    parser.add_argument("--client-core", help="core of the clients")
    parser.add_argument("--workers", default="1")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="swap and kill so long")
    options = parser.parse_args()
    model = hbconv.load(options.model, trusted=True)
    if options.soak:
        sys.exit(soak(model, options.soak, lambda folder: start(folder, None, "--workers", "2")))
    process, url = start(
        options.model, options.server_core, "--workers", options.workers, "--trusted"
    )
    try:
        servers = {"hbconv": url} | dict(one.split("=", 1) for one in options.against)
        figures = compare(servers, model, options.model.stem, options.client_core)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=2))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
