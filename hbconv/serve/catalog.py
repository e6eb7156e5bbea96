"""The catalog: models that a worker serves, by name and version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hbconv.errors import shown
from hbconv.serve.batching import Batcher
from hbconv.serve.refusal import RefusedError

__all__ = ["Catalog", "order_versions"]


def order_versions(versions: Iterable[str]) -> list[str]:
    """Sort versions by their numbers; the last one answers where a request names none.

    Examples
    --------
    >>> order_versions(["10", "9"])
    ['9', '10']
    """
    return sorted(versions, key=lambda version: (len(version.lstrip("0")), version.lstrip("0")))


class Catalog:
    """Models by name and version.

    Parameters
    ----------
    batchers : iterable of Batcher
        One for each version of each model.
    """

    def __init__(self, batchers: Iterator[Batcher]) -> None:
        self.models: dict[str, dict[str, Batcher]] = {}
        for batcher in batchers:
            served = batcher.served
            self.models.setdefault(served.name, {})[served.version] = batcher
        self._newest = {
            name: found[order_versions(found)[-1]] for name, found in self.models.items()
        }

    def find(self, name: str, version: str | None = None) -> Batcher:
        """Return a version of a model; the newest one where none is named.

        Raises
        ------
        RefusedError
            There is none.
        """
        if version is None and name in self._newest:
            return self._newest[name]
        if name not in self.models:
            known = ", ".join(sorted(self.models)) or "none"
            raise RefusedError(
                404, "NotFound", f"There is no model {shown(name)}. Served: {known:.500}."
            )
        if version not in self.models[name]:
            known = ", ".join(self.models[name])
            raise RefusedError(
                404,
                "NotFound",
                f"Model {shown(name)} has no version {shown(version)}. It has: {known:.500}.",
            )
        return self.models[name][str(version)]
