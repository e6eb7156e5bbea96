"""A probe of a server, in a process of its own: ``python attack_probe.py PORT WORKER``.

It asks for health again and again, over a connection of its own each time, and prints the seconds
of each stall of the worker: how long the probe waited, less what both waited for a processor, and
no more than the worker computed meanwhile. So a busy machine is no stall.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PROBE_SECONDS = 0.01


def computed(process: int) -> float:
    """Return the seconds of the processor that all threads of a process took."""
    return sum(_times(thread)[0] for thread in Path(f"/proc/{process}/task").glob("*"))


def delayed(process: int, thread: int) -> float:
    """Return the seconds that a thread was ready, and waited for a processor."""
    return _times(Path(f"/proc/{process}/task/{thread}"))[1]


def _times(thread: Path) -> tuple[float, float]:
    try:
        ran, waited, _ = (thread / "schedstat").read_text().split()
    except OSError:
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def stall(port: int, worker: int) -> float:
    """Ask once, and return the stall. The loop of a worker is its first thread."""
    threads = (("self", threading.get_native_id()), (worker, worker))
    before, ran = sum(delayed(*one) for one in threads), computed(worker)
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/v2/health/live")
    connection.getresponse().read()
    connection.close()
    waited = time.monotonic() - began
    return min(waited - sum(delayed(*one) for one in threads) + before, computed(worker) - ran)


def main(port: int, worker: int) -> None:
    """Probe a worker until it ends."""
    while Path(f"/proc/{worker}").exists():
        time.sleep(PROBE_SECONDS)
        with suppress(OSError, http.client.HTTPException):
            print(f"{stall(port, worker):.4f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
