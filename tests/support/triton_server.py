"""A real Triton server for tests, from the nvidia-pytriton wheel in an environment of its own.

Its python backend reads arrays of numpy 1 alone, so the wheel is not among the packages of the
tests. Set ``HBCONV_TRITON`` to a virtual environment that has it, and what hbconv needs to run::

    python -m venv /tmp/triton && /tmp/triton/bin/pip install nvidia-pytriton safetensors
    HBCONV_TRITON=/tmp/triton python -m pytest tests/system/test_triton_server.py

It has the python backend alone.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["WHY_NOT", "running_server"]

ROOT = Path(__file__).parents[2]
SECONDS_TO_START = 120


def _site() -> Path | None:
    """Return the packages of the environment, if it has a server for this version of Python."""
    home = Path(os.environ.get("HBCONV_TRITON", "/nowhere"))
    found = [p for p in home.glob("lib/python*/site-packages") if _stub(p).is_file()]
    return found[0] if found else None


def _stub(site: Path) -> Path:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stubs = site / "pytriton/tritonserver/python_backend_stubs"
    return stubs / version / "triton_python_backend_stub"


WHY_NOT = "" if _site() else "HBCONV_TRITON names no environment with the nvidia-pytriton wheel"
"""Why there is no server here, or nothing."""


@contextmanager
def running_server(repository: Path, folder: Path) -> Iterator[str]:
    """Serve a repository, and give the address of its HTTP port."""
    site = _site()
    assert site is not None
    backends = folder / "backends"
    shutil.copytree(site / "pytriton/tritonserver/backends", backends)
    shutil.copy(_stub(site), backends / "python")
    for package in (ROOT / "hbconv", ROOT / "strategies/hbconv_strategies"):
        (folder / package.name).symlink_to(package)  # the backend finds packages where it runs
    port = _free_port()
    command = [
        str(site / "pytriton/tritonserver/bin/tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        f"--http-port={port}",
        "--http-address=127.0.0.1",
        "--allow-grpc=false",
        "--allow-metrics=false",
        "--exit-timeout-secs=5",
    ]
    libraries = [str(site / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR"))]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PATH": f"{site.parents[2] / 'bin'}:{os.environ['PATH']}",
    }
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_until_ready(f"127.0.0.1:{port}", server, folder / "server.log")
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    from tritonclient.http import InferenceServerClient

    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and server.poll() is None:
        try:
            if InferenceServerClient(address).is_server_ready():
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"The server is not ready:\n{log.read_text()[-4000:]}")
