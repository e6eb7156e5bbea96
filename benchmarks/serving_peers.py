"""Servers that are compared: ``hbconv serve``, and peers in virtual environments of their own.

All of them call the same compiled program, so what differs is the server. A folder of environments
is made by::

    python -m venv ENVS/triton && ENVS/triton/bin/pip install nvidia-pytriton==0.7.0 safetensors
    python -m venv ENVS/mlserver && ENVS/mlserver/bin/pip install mlserver==1.7.1 safetensors
    python -m venv ENVS/kserve && ENVS/kserve/bin/pip install kserve==0.21.0 safetensors
    python -m venv ENVS/bentoml && ENVS/bentoml/bin/pip install bentoml==1.4.39 safetensors
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

HERE = Path(__file__).parent
SERVERS = HERE / "servers"
SECONDS_TO_START = 120
NAME = "m"
"""Of the model, for every server."""
INFER = f"/v2/models/{NAME}/infer"
TRITON_CONFIG = """backend: "python"
max_batch_size: 65536
input [{ name: "X" data_type: TYPE_FP64 dims: [WIDTH] }]
output [{ name: "predict" data_type: TYPE_INT64 dims: [1] }]
dynamic_batching { }
instance_group [{ count: 1 kind: KIND_CPU }]
"""


@dataclass(frozen=True)
class Command:
    """How a server is started, and where it answers."""

    words: tuple[str | Path, ...]
    path: str = INFER
    variables: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Job:
    """What a server is started for.

    Parameters
    ----------
    model : Path
    width : int
        Columns of its rows.
    home : Path
        The virtual environment.
    folder : Path
        Empty, for this server alone.
    port : int
    """

    model: Path
    width: int
    home: Path
    folder: Path
    port: int


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    name: str
    process: subprocess.Popen[bytes]
    url: str

    def body(self, rows: np.ndarray) -> bytes:
        """Return a request for the labels of rows."""
        if self.name == "bentoml":
            return json.dumps({"rows": rows.tolist()}).encode()
        data = rows.ravel().tolist()
        tensor = {"name": "X", "datatype": "FP64", "shape": list(rows.shape), "data": data}
        return json.dumps({"inputs": [tensor], "outputs": [{"name": "predict"}]}).encode()

    def labels(self, rows: np.ndarray) -> list[int]:
        """Ask for the labels of rows."""
        headers = {"Content-Type": "application/json"}
        found = httpx.post(self.url, content=self.body(rows), headers=headers, timeout=60)
        told = found.raise_for_status().json()
        return list(np.ravel(told if self.name == "bentoml" else told["outputs"][0]["data"]))

    def stop(self) -> None:
        """End it, and all processes that it started."""
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)


def hbconv_server(job: Job) -> Command:
    """``hbconv serve``, of this tree and this environment."""
    options = ("--port", str(job.port), "--name", NAME, "--trusted")
    return Command((sys.executable, "-m", "hbconv", "serve", job.model, *options))


def triton_server(job: Job) -> Command:
    """Triton with its python backend, of the nvidia-pytriton wheel."""
    model = job.folder / "repository" / NAME
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(TRITON_CONFIG.replace("WIDTH", str(job.width)))
    shutil.copy(SERVERS / "triton_model.py", model / "1/model.py")
    shutil.copy(job.model, model / "1/model.hbc")
    (job.folder / "hbconv").symlink_to(HERE.parent / "hbconv")  # it imports what lies where it runs
    site = next(job.home.glob("lib/python*/site-packages"))
    server = site / "pytriton/tritonserver"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copytree(server / "backends", job.folder / "backends")
    stub = server / "python_backend_stubs" / version / "triton_python_backend_stub"
    shutil.copy(stub, job.folder / "backends/python")
    words = (
        server / "bin/tritonserver",
        f"--model-repository={model.parent}",
        f"--backend-directory={job.folder / 'backends'}",
        f"--http-port={job.port}",
        "--allow-grpc=false",
        "--allow-metrics=false",
    )
    libraries = f"{site / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}"
    return Command(words, variables={"LD_LIBRARY_PATH": libraries})


def mlserver_server(job: Job) -> Command:
    """MLServer, which computes in the process that answers."""
    settings = {"http_port": job.port, "parallel_workers": 0, "debug": False}
    settings |= {"grpc_port": free_port(), "metrics_port": free_port()}
    model = {"name": NAME, "implementation": "mlserver_model.SavedModel"}
    model["parameters"] = {"uri": str(job.model)}
    (job.folder / "settings.json").write_text(json.dumps(settings))
    (job.folder / "model-settings.json").write_text(json.dumps(model))
    return Command((job.home / "bin/mlserver", "start", job.folder))


def kserve_server(job: Job) -> Command:
    """KServe's own server."""
    program = SERVERS / "kserve_model.py"
    return Command((job.home / "bin/python", program, job.model, NAME, str(job.port)))


def bentoml_server(job: Job) -> Command:
    """BentoML, whose requests are rows."""
    words = (job.home / "bin/bentoml", "serve", "bentoml_model:SavedModel", "--port", str(job.port))
    variables = {"MODEL": str(job.model), "BENTOML_DO_NOT_TRACK": "True"}
    return Command((*words, "--working-dir", SERVERS), "/predict", variables)


SERVERS_BY_NAME: Mapping[str, Callable[[Job], Command]] = {
    "hbconv": hbconv_server,
    "triton": triton_server,
    "mlserver": mlserver_server,
    "kserve": kserve_server,
    "bentoml": bentoml_server,
}


def start(
    name: str, model: Path, width: int, environments: Path, folder: Path, core: str | None
) -> Running:
    """Start a server on one core, and wait until it answers."""
    own = folder / name
    own.mkdir()
    job = Job(model.resolve(), width, environments.resolve() / name, own, free_port())
    command = SERVERS_BY_NAME[name](job)
    pinned = ["taskset", "-c", core] if core else []
    path = f"{job.home / 'bin'}:{os.environ['PATH']}"
    paths = {"PYTHONPATH": f"{HERE.parent}:{SERVERS}", "PATH": path}
    with (own / "log").open("w") as log:
        process = subprocess.Popen(
            [*pinned, *map(str, command.words)],
            env=os.environ | paths | dict(command.variables or {}),
            cwd=own,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    running = Running(name, process, f"http://127.0.0.1:{job.port}{command.path}")
    _wait(running, width, own / "log")
    return running


def _wait(running: Running, width: int, log: Path) -> None:
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and running.process.poll() is None:
        try:
            running.labels(np.zeros((1, width)))
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    running.process.kill()
    sys.exit(f"{running.name} did not start:\n{log.read_text()[-3000:]}")


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
