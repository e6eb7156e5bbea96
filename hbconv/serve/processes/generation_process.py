"""A generation as the supervisor sees it: a process that is started, becomes ready, and leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, cast

from hbconv.errors import StoreError
from hbconv.serve.assignment import Assignment

__all__ = ["GenerationProcess"]

START_SECONDS = 600.0
"""Time in which all models are loaded, compiled and warm."""


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
            start_new_session=True,  # ctrl-C is for the supervisor alone
        )
        os.close(write)
        cast(asyncio.StreamWriter, process.stdin).write(assignment.to_line())
        found = GenerationProcess(assignment, process, os.fdopen(status, "rb"))
        try:
            error = await asyncio.wait_for(found._told(), START_SECONDS)
        except TimeoutError:
            found.kill()
            error = f"The models were not ready within {START_SECONDS:.0f} seconds."
        except asyncio.CancelledError:
            found.kill()
            raise
        if error is not None:
            await found.leave()
            raise StoreError(error)
        return found

    async def _told(self) -> str | None:
        """Read what the process says next: an error, or None where all is well."""
        line = await asyncio.to_thread(self.status.readline)
        told: dict[str, str] = json.loads(line) if line else {"error": "The process ended."}
        return told.get("error")

    async def close(self) -> None:
        """Let it take no more requests, and wait until it does not."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        await self._told()

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
