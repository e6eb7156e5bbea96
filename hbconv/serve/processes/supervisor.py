"""The supervisor: it holds the address, and starts a generation for each set of models.

``serve`` is what ``hbconv serve`` calls. The supervisor loads no model itself, so none can end it.
The next generation takes connections from the same socket before the last one leaves, and that one
answers all that it took.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from hbconv import __version__
from hbconv.errors import HbconvError, OptionError, StoreError, shown
from hbconv.serve.log import begin_log
from hbconv.serve.metrics import METRICS_FOLDER
from hbconv.serve.model_files import Assignment, Fingerprint, find_models, fingerprint
from hbconv.serve.processes.worker import serve_alone
from hbconv.serve.settings import Settings
from hbconv.system.processes import can_fork, share_port, shares_ports
from hbconv.system.temporary import temporary_folder

__all__ = ["GenerationProcess", "Supervisor", "serve"]

START_SECONDS = 600.0
"""Time in which all models are loaded, compiled and warm."""

_log = logging.getLogger("hbconv.serve")
WATCH_SECONDS = 1.0
"""A file that changed is loaded once it was still for so long."""
RESTART_SECONDS = 1.0


@dataclass(frozen=True)
class GenerationProcess:
    """A process that serves an assignment, and its end of the pipe where it says so."""

    assignment: Assignment
    process: Process
    status: BinaryIO

    @staticmethod
    async def start(
        assignment: Assignment, listening: socket.socket, environment: Mapping[str, str]
    ) -> GenerationProcess:
        """Start a process, and wait until its workers answer.

        Raises
        ------
        OptionError
            A model has not what the settings ask for.
        StoreError
            A model cannot be loaded, or takes too long, or the process ended.
        """
        status, write = os.pipe()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hbconv.serve.processes.generation",
            str(listening.fileno()),
            str(write),
            stdin=asyncio.subprocess.PIPE,
            env=environment,
            pass_fds=(listening.fileno(), write),
            # ctrl-C is for the supervisor alone, and a group can be killed as a whole.
            start_new_session=True,
        )
        os.close(write)
        cast(asyncio.StreamWriter, process.stdin).write(assignment.to_line())
        generation = GenerationProcess(assignment, process, os.fdopen(status, "rb"))
        try:
            error = await asyncio.wait_for(generation._read_report(), START_SECONDS)
        except TimeoutError:
            generation.kill()
            error = StoreError(f"The models were not ready within {START_SECONDS:.0f} seconds.")
        except asyncio.CancelledError:
            generation.kill()
            raise
        if error is not None:
            await generation.leave()
            raise error
        return generation

    async def _read_report(self) -> HbconvError | None:
        """Read what the process says next: an error, or None where all is well."""
        # An end without a line is the end of the process: its side of the pipe is closed.
        line = await asyncio.to_thread(self.status.readline)
        report: dict[str, Any] = json.loads(line) if line else {"error": "The process ended."}
        if "error" not in report:
            return None
        return (OptionError if report.get("asked") else StoreError)(report["error"])

    async def close(self) -> None:
        """Let it take no more requests, and wait until it does not."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await self._read_report()

    async def leave(self) -> None:
        """Let it answer the requests that it has, and wait for its end."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), self.assignment.settings.seconds + 10)
        except TimeoutError:
            self.kill()
        self.status.close()

    def kill(self) -> None:
        """End the process and its workers at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Supervisor:
    """Keeps one generation that serves what the files hold.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.
    name : str, optional
        Of the only model.
    settings : Settings
    listening : socket
        Bound.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        name: str | None,
        settings: Settings,
        listening: socket.socket,
    ) -> None:
        self._paths = paths
        self._name = name
        self._settings = settings
        self._listening = listening
        self._control = ""
        self._environment = dict(os.environ)
        self._current: GenerationProcess | None = None
        self._swapping = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises
        ------
        StoreError
            A model cannot be loaded at the start.
        """
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        with temporary_folder("hbconv-serve-") as private:
            self._environment[METRICS_FOLDER] = str(private)
            if self._settings.control:
                self._control = f"{private}/control"
                await asyncio.start_unix_server(self._serve_control, self._control)
            starting = asyncio.ensure_future(self._start())
            ending = asyncio.ensure_future(ended.wait())
            await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await ending
            starting.cancel()
            await self._end()

    async def _start(self) -> None:
        """Start the first generation, and look after what changes from then on."""
        loaded = fingerprint(self._paths, self._name)
        await self._swap()
        self._run(self._tasks, self._watch(loaded))

    async def _end(self) -> None:
        """Stop what goes on, and let the generations answer what they have."""
        _log.info("Takes no more requests, and answers those that came")
        current, self._current = self._current, None
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        if current is not None:
            self._run(self._leaving, current.leave())
        await asyncio.gather(*self._tasks, *self._leaving, return_exceptions=True)
        _log.info("Ended")

    def _run(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _swap(self, unloaded: frozenset[str] = frozenset()) -> None:
        """Start a generation for what the files hold now, and let the one before leave.

        Raises
        ------
        HbconvError
            A model cannot be loaded. Then the generation before goes on.
        """
        async with self._swapping:
            files = find_models(self._paths, self._name)
            assignment = Assignment(
                tuple(file for file in files if file.name not in unloaded),
                tuple(file for file in files if file.name in unloaded),
                self._settings,
                self._control,
            )
            # The old one serves until the new one is warm, so that no request waits for a compiler.
            new = await GenerationProcess.start(assignment, self._listening, self._environment)
            before, self._current = self._current, new
            _tell(self._listening, assignment)
            self._run(self._tasks, self._restart(new))
            if before is not None:
                await before.close()
                self._run(self._leaving, before.leave())

    @property
    def _unloaded(self) -> frozenset[str]:
        """Names of the models that are not served, as clients asked."""
        if self._current is None:
            return frozenset()
        return frozenset(file.name for file in self._current.assignment.unloaded)

    async def _restart(self, generation: GenerationProcess) -> None:
        """Start another generation if this one ends by itself."""
        await generation.process.wait()
        while self._current is generation:
            _log.error("The process of the models ended, and is started again")
            with suppress(HbconvError):
                await self._swap(self._unloaded)
                return
            await asyncio.sleep(RESTART_SECONDS)

    async def _watch(self, loaded: Fingerprint) -> None:
        """Swap when files changed, once they are still."""
        seen = loaded
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            state = fingerprint(self._paths, self._name)
            # Only once it is still: a file that is being written would be loaded half.
            if state == seen and state != loaded:
                loaded = state
                await self._try_swap()
            seen = state

    async def _try_swap(self) -> None:
        try:
            await self._swap(self._unloaded)
        except HbconvError as error:
            _log.error("The models go on as they were: %s", error)

    async def _serve_control(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Load or unload a model, as a client of a worker asked."""
        request = json.loads(await reader.readline())
        name, is_load = request["name"], request["action"] == "load"
        reply = {}
        try:
            if name not in {file.name for file in find_models(self._paths, self._name)}:
                raise OptionError(f"There is no file of a model {shown(name)}.")
            await self._swap(self._unloaded - {name} if is_load else self._unloaded | {name})
        except HbconvError as error:
            reply["error"] = str(error)
        writer.write(json.dumps(reply).encode() + b"\n")
        writer.close()


def serve(paths: Sequence[Path], settings: Settings, name: str | None = None) -> int:
    """Serve models, and return the exit code of the process.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.
    settings : Settings
    name : str, optional
        Of the only model.

    Raises
    ------
    OptionError
        There is no model, the address cannot be had, or one process is too few for the settings.
    StoreError
        A model cannot be loaded.
    """
    files = find_models(paths, name)
    if not files:
        raise OptionError(f"There is no model in {', '.join(map(str, paths))}.")
    with ExitStack() as stack:
        listening = stack.enter_context(_listen(settings))
        if settings.grpc_port is not None:
            held = stack.enter_context(_hold(settings, settings.grpc_port))
            settings = replace(settings, grpc_port=held.getsockname()[1])
            if not shares_ports():
                held.close()  # This system lets no two sockets have one port.
        begin_log(settings)
        if not can_fork():
            serve_alone(files, settings, listening, partial(_tell, listening))
            return 0
        asyncio.run(Supervisor(paths, name, settings, listening).run())
    return 0


def _tell(listening: socket.socket, assignment: Assignment) -> None:
    """Say what is served, and where."""
    settings = assignment.settings
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    port = listening.getsockname()[1]
    names = ", ".join(f"{file.name}/{file.version}" for file in assignment.files)
    also = "" if settings.grpc_port is None else f", gRPC on {host}:{settings.grpc_port}"
    _log.info(
        "Serving %s on %s://%s:%d%s",
        names or "no model",
        scheme,
        host,
        port,
        also,
        extra={"fields": {"workers": settings.workers, "hbconv": __version__}},
    )


def _hold(settings: Settings, port: int) -> socket.socket:
    """Hold a port that workers listen on, each by a socket of its own."""
    held = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    # Workers bind gRPC's port by themselves; a bound socket here holds its number for them.
    share_port(held)
    try:
        held.bind((settings.host, port))
    except OSError as error:
        held.close()
        raise _unavailable(settings.host, port, error) from error
    return held


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise _unavailable(settings.host, settings.port, error) from error


def _unavailable(host: str, port: int, error: OSError) -> OptionError:
    # asyncio and socket add "(while attempting to bind on address ...)", which is said here.
    reason = (error.strerror or str(error)).partition(" (")[0]
    return OptionError(
        f"Cannot listen on {host}:{port}: {reason}. Choose another --port or --host."
    )
