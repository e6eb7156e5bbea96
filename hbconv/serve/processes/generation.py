"""A generation: a process that loads models, forks workers that share them, and replaces dead ones.

A worker never changes. Other models are another generation, which the supervisor starts beside this
one. So a swap compiles apart from requests, and a model that cannot be loaded harms none.

Run as ``python -m hbconv.serve.processes.generation LISTENING STATUS``, two file descriptors.
Standard input has the assignment, and ends when the supervisor does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hbconv.errors import HbconvError, OptionError
from hbconv.model import Model
from hbconv.serve.log import begin_log
from hbconv.serve.model_files import Assignment, ModelFile
from hbconv.serve.processes.worker import answer_requests, read_model, run_loop
from hbconv.serve.served_model import ServedModel, warm

__all__ = ["main", "work"]

_log = logging.getLogger("hbconv.serve")
SHORT_LIFE_SECONDS = 5.0
"""A worker that lives shorter is replaced only after a second."""
STDIN = 0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


def work(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: socket.socket,
    alive: int,
    status: int,
) -> None:
    """Answer requests until SIGTERM, and then those that are there.

    Parameters
    ----------
    models : sequence of ServedModel
    assignment : Assignment
    listening : socket
        Bound, and shared with other processes.
    alive : int
        A pipe that ends when the generation does. Then the worker leaves too.
    status : int
        A pipe, where the worker writes a byte once requests are answered. It is closed when the
        worker takes no more.
    """
    run_loop(_work(models, assignment, listening, alive, status))


async def _work(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: socket.socket,
    alive: int,
    status: int,
) -> None:
    await answer_requests(
        models,
        assignment,
        listening,
        _end_of(alive),
        lambda: os.write(status, b"1"),
        lambda: os.close(status),
    )


def _end_of(alive: int) -> Awaitable[Any]:
    """Return what ends by SIGTERM, or when a pipe does."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        loop.remove_reader(alive)
        if not ended.done():
            ended.set_result(None)

    loop.add_signal_handler(signal.SIGTERM, end)
    loop.add_reader(alive, end)
    return ended


@dataclass
class Generation:
    """The workers of an assignment.

    Parameters
    ----------
    assignment : Assignment
    models : list
        Ready to be asked; or loaded alone, where processes cannot share what was compiled.
    listening : socket
    born : dict
        When each worker began, by its process id.
    taking : dict
        A pipe of each worker, which is closed when the worker takes no more requests.
    leaving : bool
    """

    assignment: Assignment
    models: Sequence[tuple[ModelFile, Model | ServedModel]]
    listening: socket.socket
    born: dict[int, float] = field(default_factory=dict)
    taking: dict[int, int] = field(default_factory=dict)
    leaving: bool = False

    def run(self, status: int) -> None:
        """Start workers, report so, and keep their number until a signal to leave."""
        alive, lifeline = os.pipe()
        wake = _wake_on_signals()
        for _ in range(self.assignment.settings.workers):
            if not self._fork(alive, lifeline, wait=True):
                os.write(status, b'{"error": "A worker failed; the log says why."}\n')
                self._leave(status)
        os.write(status, b"{}\n")
        while self.born or not self.leaving:
            watched = [wake.fileno()] if self.leaving else [wake.fileno(), STDIN]
            ready, _, _ = select.select(watched, [], [])
            numbers = set(wake.recv(4096)) if wake.fileno() in ready else set()
            # Standard input is readable at its end alone: then the supervisor has ended.
            must_leave = STDIN in ready or numbers & {signal.SIGTERM, signal.SIGINT}
            if must_leave and not self.leaving:
                self._leave(status)
            for _ in range(self._bury()):
                self._fork(alive, lifeline, wait=False)

    def _leave(self, status: int) -> None:
        """Let the workers take no more requests, and report when they do not."""
        self.leaving = True
        # While this process has the socket open, the kernel takes connections that nobody accepts.
        self.listening.close()
        for worker in self.born:
            os.kill(worker, signal.SIGTERM)
        # A read ends when the worker closes its side, whether it leaves or dies.
        for pipe in self.taking.values():
            while os.read(pipe, 16):
                pass
        # The supervisor may have been killed.
        with suppress(BrokenPipeError):
            os.write(status, b"{}\n")

    def _bury(self) -> int:
        """Reap the workers that ended, and return how many are to be replaced."""
        ended = 0
        while self.born:
            worker, code = os.waitpid(-1, os.WNOHANG)
            if worker == 0:
                break
            lived = time.monotonic() - self.born.pop(worker)
            os.close(self.taking.pop(worker))
            if self.leaving:
                continue
            _log.error("Worker %d ended (status %d) and is replaced", worker, code)
            # A worker that dies at once would otherwise be forked again as fast as the machine can.
            if lived < SHORT_LIFE_SECONDS:
                time.sleep(1)
            ended += 1
        return ended

    def _fork(self, alive: int, lifeline: int, *, wait: bool) -> bool:
        """Fork a worker; where ``wait`` says so, return whether it came to serve."""
        taking, status = os.pipe()
        # The collector writes into the head of each object, which would copy pages that are shared.
        gc.collect()
        gc.freeze()
        # Until the worker has set its own handlers; those of this process would take its signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        worker = os.fork()
        if worker == 0:
            os.close(lifeline)
            _read_nothing()
            _become_worker(self, alive, status)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(status)
        self.born[worker] = time.monotonic()
        self.taking[worker] = taking
        return not wait or os.read(taking, 1) == b"1"


def _read_nothing() -> None:
    """Give up the supervisor's pipe: the end of the supervisor is for the generation alone."""
    # No other file gets its number this way: libuv would not close one of standard input's.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)


def _wake_on_signals() -> socket.socket:
    """Return a socket that is readable, with their numbers, when signals came."""
    wake, write = socket.socketpair()
    write.setblocking(False)
    signal.set_wakeup_fd(write.detach())
    for number in _SIGNALS:
        signal.signal(number, lambda *_: None)
    return wake


def _become_worker(generation: Generation, alive: int, status: int) -> None:
    """Answer requests, and end the process."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        models = [
            model
            if isinstance(model, ServedModel)
            else warm(file.name, file.version, model, generation.assignment.settings.methods)
            for file, model in generation.models
        ]
        work(models, generation.assignment, generation.listening, alive, status)
        code = 0
    except BaseException:
        _log.exception("A worker failed")
    finally:
        logging.shutdown()
        # Handlers of exit are the generation's: a worker must not run them a second time.
        os._exit(code)


def load_file(file: ModelFile, assignment: Assignment) -> Model | ServedModel:
    """Load a model, and warm it where processes can share what is compiled.

    Raises
    ------
    HbconvError
        The file is damaged, or the model does not compile.
    """
    model = read_model(file, assignment)
    if not _can_be_shared(model):
        return model
    return warm(file.name, file.version, model, assignment.settings.methods)


def _can_be_shared(model: Model) -> bool:
    """Whether a fork can use a model: no device, and no threads of a library."""
    # A fork has none of the threads of its parent, and libraries wait for theirs for ever.
    target = model.programs.target
    own_threads = target.backend in ("reference", "tvm")
    return target.device == "cpu" and (target.threads == 1 or own_threads)


def main(listening: int, status: int) -> int:
    """Serve an assignment, and return the exit code."""
    # CUDA's own check begins a context, which no fork can use; that of NVML begins none.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    assignment = Assignment.from_line(_read_line(STDIN))
    begin_log(assignment.settings)
    models: list[tuple[ModelFile, Model | ServedModel]] = []
    for file in assignment.files:
        try:
            models.append((file, load_file(file, assignment)))
        except (HbconvError, OSError) as error:
            report = {"error": f"{file.path}: {error}", "asked": isinstance(error, OptionError)}
            os.write(status, json.dumps(report).encode() + b"\n")
            return 1
    with socket.socket(fileno=listening) as shared:
        Generation(assignment, models, shared).run(status)
    return 0


def _read_line(source: int) -> bytes:
    """Read a line, and nothing beyond it."""
    line = bytearray()
    # Byte by byte, because select must see what the pipe holds behind the line.
    while not line.endswith(b"\n"):
        data = os.read(source, 1)
        if not data:
            sys.exit(1)
        line += data
    return bytes(line)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
