"""Outcomes of the calls: one Outcome for each, and Outcomes that counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

__all__ = ["Kind", "Outcome", "Outcomes", "as_list", "form", "parts"]

Kind = Literal["right", "refused", "wrong", "error", "answered", "skipped"]

MEANING: dict[Kind, str] = {
    "right": "the same answer, or refused by both",
    "refused": "refused by name, where the source answers",
    "wrong": "another answer than the source's",
    "error": "an error that is none of hbconv's own",
    "answered": "an answer where the source refuses",
    "skipped": "not asked",
}


@dataclass(frozen=True)
class Outcome:
    """What hbconv made of one call, on one backend.

    Parameters
    ----------
    kind : {"right", "refused", "wrong", "error", "answered", "skipped"}
    estimator, method, backend : str
        What was called; the estimator by its class name.
    reason : str
        Why it is not right; the same for what is alike, so that reasons can be counted.
    detail : str
        The whole message, or the numbers.
    test : str
        Node id of the test that called.
    """

    kind: Kind
    estimator: str
    method: str
    backend: str
    reason: str = ""
    detail: str = ""
    test: str = ""

    @property
    def fails(self) -> bool:
        """Whether it is a defect: a wrong answer or an error without a name."""
        return self.kind in ("wrong", "error")

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return {name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        where = f"{self.estimator}.{self.method} on {self.backend}"
        return f"{where}: {self.kind}: {self.detail or self.reason}"


@dataclass
class Outcomes:
    """All outcomes; print it for the counts."""

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failures(self) -> list[Outcome]:
        """Wrong answers and errors without a name."""
        return [outcome for outcome in self.outcomes if outcome.fails]

    @property
    def counts(self) -> dict[str, int]:
        """Outcomes of each kind."""
        counts = Counter(outcome.kind for outcome in self.outcomes)
        return {kind: counts[kind] for kind in MEANING}

    def reasons(self, kind: Kind = "refused") -> list[tuple[str, int]]:
        """Return the reasons of a kind with their counts, the most frequent first."""
        return Counter(o.reason for o in self.outcomes if o.kind == kind).most_common()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Add more outcomes."""
        self.outcomes.extend(outcomes)

    def lines(self, most: int = 15) -> Iterator[str]:
        """Say what was found: counts, then reasons, then each failure."""
        yield f"{len(self.outcomes):,} answers asked of hbconv"
        yield from (f"{n:8,} {kind:<9} {MEANING[kind]}" for kind, n in self._counted())
        for kind in ("refused", "answered", "skipped"):
            reasons = self.reasons(kind)
            if reasons:
                yield f"{kind}:"
                yield from (f"{n:8,} {reason}" for reason, n in reasons[:most])
            if len(reasons) > most:
                yield f"         and {len(reasons) - most:,} reasons more"
        yield from (f"{o}{f' ({o.test})' if o.test else ''}" for o in self.failures)

    def _counted(self) -> Iterator[tuple[Kind, int]]:
        counts: dict[Any, int] = self.counts
        yield from ((kind, counts[kind]) for kind in MEANING if counts[kind])

    def __str__(self) -> str:
        return "\n".join(self.lines())


def form(answer: Any, *, dtypes: bool = True) -> str:
    """Say of which class an answer is, its shape, its dtypes if wanted, the names of a frame.

    Examples
    --------
    >>> form(np.zeros((2, 3)))
    'ndarray (2, 3) float64'
    >>> form((np.zeros(2), [np.zeros(1)]))
    'tuple of (ndarray (2,) float64, list of (ndarray (1,) float64))'
    """
    if isinstance(answer, list | tuple):
        inner = ", ".join(form(part, dtypes=dtypes) for part in answer)
        return f"{type(answer).__name__} of ({inner})"
    if hasattr(answer, "columns"):
        return f"{_class(answer)} {_names(answer, dtypes=dtypes)}"
    if hasattr(answer, "dtype"):
        kind = str(answer.dtype) if dtypes else ""
        name = str(getattr(answer, "name", ""))
        return " ".join(filter(None, (_class(answer), name, str(answer.shape), kind)))
    return _class(answer)


def _class(answer: Any) -> str:
    # joblib hands large arrays to workers as memmaps, which differ in nothing else.
    return "ndarray" if isinstance(answer, np.memmap) else type(answer).__name__


def _names(frame: Any, *, dtypes: bool) -> str:
    kinds = [str(dtype) if dtypes else "" for dtype in frame.dtypes]
    index = list(getattr(frame, "index", ()))
    return f"{frame.shape} {dict(zip(map(str, frame.columns), kinds, strict=False))} {index[:3]}"


def parts(answer: Any) -> list[Any]:
    """Return the answers that a tuple holds, else the one there is."""
    return list(answer) if isinstance(answer, tuple) else [answer]


def as_list(answer: Any) -> Any:
    """Return an answer that can be read twice."""
    return list(answer) if isinstance(answer, Iterator) else answer
