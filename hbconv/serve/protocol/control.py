"""Control: which models there are, and how a worker asks the supervisor for others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hbconv.errors import shown
from hbconv.serve.assignment import Assignment
from hbconv.serve.refusal import RefusedError

__all__ = ["Control"]


class Control:
    """The repository of models, as a worker tells and changes it.

    Parameters
    ----------
    assignment : Assignment
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def index(self, *, only_ready: bool) -> list[dict[str, Any]]:
        """List each version of each model, and whether it is served."""
        served = [
            {"name": one.name, "version": one.version, "state": "READY", "reason": ""}
            for one in self._assignment.files
        ]
        if only_ready:
            return served
        return served + [
            {"name": one.name, "version": one.version, "state": "UNAVAILABLE", "reason": "unloaded"}
            for one in self._assignment.unloaded
        ]

    def require_no_parameters(self, parameters: object) -> None:
        """Refuse to load a model otherwise than from its files.

        Raises
        ------
        RefusedError
            There are parameters.
        """
        if parameters:
            raise RefusedError(
                400, "InputError", "A model is loaded from its files alone: send no parameters."
            )

    async def ask(self, action: str, name: str) -> None:
        """Ask for a model to be loaded or unloaded, and wait until it is.

        Raises
        ------
        RefusedError
            Clients may not, there is no such model, or it cannot be loaded.
        """
        if not self._assignment.control:
            raise RefusedError(
                403,
                "Forbidden",
                "This server does not load or unload models. Start it with --control.",
            )
        known = {one.name for one in (*self._assignment.files, *self._assignment.unloaded)}
        if action == "unload" and name not in known:
            raise RefusedError(404, "NotFound", f"There is no model {shown(name)}.")
        reader, writer = await asyncio.open_unix_connection(self._assignment.control)
        try:
            writer.write(json.dumps({"action": action, "name": name}).encode() + b"\n")
            told = json.loads(await reader.readline() or b'{"error": "The server ends."}')
        finally:
            writer.close()
        if "error" in told:
            raise RefusedError(400, "StoreError", told["error"])
