"""One process that loads models and answers, where none can fork another, as on Windows.

It reads the files once. To serve others, it is started again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence

from hbconv.errors import OptionError, StoreError
from hbconv.serve.model_files import Assignment, ModelFile
from hbconv.serve.processes.worker import answer_requests, read_model, run_loop
from hbconv.serve.served_model import ServedModel, warm
from hbconv.serve.settings import Settings

__all__ = ["serve_alone"]

_log = logging.getLogger("hbconv.serve")


def serve_alone(
    files: Sequence[ModelFile],
    settings: Settings,
    listening: socket.socket,
    tell: Callable[[Assignment], None],
) -> None:
    """Serve models by this process until a signal ends it.

    Parameters
    ----------
    files : sequence of ModelFile
    settings : Settings
    listening : socket
        Bound.
    tell : callable
        Says what is served, once it is.

    Raises
    ------
    OptionError
        There are to be several workers, or clients are to load models.
    StoreError
        A model cannot be loaded.
    """
    _require_one_process(settings)
    assignment = Assignment(tuple(files), (), settings, "")
    models = [_warmed(file, assignment) for file in files]
    run_loop(_answer(models, assignment, listening, tell))


def _require_one_process(settings: Settings) -> None:
    if settings.workers > 1:
        raise OptionError(
            f"--workers {settings.workers} needs a system that can fork processes, which this one "
            "cannot. Leave it out, and start several servers on ports of their own."
        )
    if settings.control:
        raise OptionError(
            "--control needs a system that can fork processes, which this one cannot. Leave it "
            "out, and start the server again to serve other models."
        )


def _warmed(file: ModelFile, assignment: Assignment) -> ServedModel:
    try:
        model = read_model(file, assignment)
        return warm(file.name, file.version, model, assignment.settings.methods)
    except OSError as error:
        raise StoreError(f"{file.path}: {error}") from error


async def _answer(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: socket.socket,
    tell: Callable[[Assignment], None],
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    # Not by the loop, whose handlers of signals Windows does not have.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))

    def leave() -> None:
        _log.info("Takes no more requests, and answers those that came")

    await answer_requests(
        models, assignment, listening, ended.wait(), lambda: tell(assignment), leave
    )
    _log.info("Ended")
