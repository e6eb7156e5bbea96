"""Fitted estimators changed by hand, attribute by attribute: refused by name, or answered as
the source answers.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from breadth.subjects import subject
from fuzz.judge import answers_alike, answers_of, call, in_child
from fuzz.mutate import mutate_array
from fuzz.runner import Subject
from matrix.estimators import case_names
from sklearn.tree._tree import Tree
from sources import compared

import hbconv

__all__ = ["ESTIMATORS", "estimators"]

ROWS = 12
LIBRARY = "sklearn"
NODES = ("children_left", "children_right", "feature", "threshold", "value")
"""Arrays of a tree, which are changed in place."""

Spot = tuple[Any, Any, Callable[[Any], None]]
"""What is there, its name, and what puts something else there."""


def names() -> list[str]:
    """Every estimator that has a parser, but for those that draw numbers anew in each call."""
    return sorted({name.estimator.rpartition(".")[2] for name in case_names()})


def write(folder: Path, chosen: Sequence[str]) -> None:
    """Fit them, and write those that fit."""
    warnings.simplefilter("ignore")
    for name in chosen:
        try:
            fitted = subject(name).fitted()
            (folder / name).write_bytes(pickle.dumps((name, fitted)))
        except Exception:
            continue


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """Change one fitted attribute of an estimator, or of something that it is made of."""
    name, estimator = pickle.loads(data)
    spots = list(_spots(estimator, set()))
    for _ in range(9 * bool(spots)):
        value, at, put = spots[rng.integers(len(spots))]
        try:
            put(_other(value, rng))
            return pickle.dumps((name, estimator, str(at)))
        except Exception:
            continue
    return pickle.dumps((name, estimator, ""))


def _spots(held: Any, seen: set[int], depth: int = 0) -> Iterator[Spot]:
    """List fitted attributes, the arrays of trees, and those of members."""
    if depth > 5 or id(held) in seen:
        return
    seen.add(id(held))
    if isinstance(held, Tree):
        yield from (
            (getattr(held, name), name, partial(_write, getattr(held, name))) for name in NODES
        )
    elif isinstance(held, list | tuple) or (isinstance(held, np.ndarray) and held.dtype.hasobject):
        for part in list(np.ravel(held) if isinstance(held, np.ndarray) else held)[:3]:
            yield from _spots(part, seen, depth + 1)
    elif type(held).__module__.startswith(LIBRARY) and hasattr(held, "__dict__"):
        for name, value in vars(held).items():
            if name.endswith("_") or name.startswith("_"):
                yield value, name, partial(vars(held).__setitem__, name)
            yield from _spots(value, seen, depth + 1)


def _write(array: Any, other: Any) -> None:
    array[...] = other


def _other(value: Any, rng: np.random.Generator) -> Any:
    """Return something else: of another kind, of another length, or of other values."""
    kind = rng.random()
    if kind < 0.15:
        return [None, "x", 0, [], -1, 2.5, np.zeros(3), {}, "", 10**9][rng.integers(10)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return (
            value.tolist()
            if kind < 0.25
            else list(value)
            if kind < 0.3 and value.ndim
            else mutate_array(value, rng)
        )
    if isinstance(value, np.ndarray):
        return [
            value[:-1],
            value[::-1],
            np.concatenate([value, value]),
            value.tolist(),
            value[None],
            value.astype(object),
        ][rng.integers(6)]
    if isinstance(value, list | tuple) and value:
        first = _other(value[0], rng)
        return [
            value[:-1],
            value[::-1],
            [*value, *value],
            [],
            [first, *value[1:]],
            [None, *value[1:]],
        ][rng.integers(6)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float | np.number):
        return [
            value + 1,
            value - 1,
            -value,
            0,
            value * 1.5,
            float("nan"),
            2**70,
            np.float32(value),
            [value],
        ][rng.integers(9)]
    return None


def attempt(path: Path, rng: np.random.Generator) -> None:
    """Convert, answer, and compare with the source where it answers too."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    try:
        name, estimator, _ = pickle.loads(path.read_bytes())
    except Exception:
        return  # the source does not survive being stored
    x = subject(name).rows(ROWS, "float64", known=True)
    model = hbconv.convert(estimator, backend="reference")
    methods = compared(model)
    ours = call(model, methods, x)
    answers_alike(in_child(lambda: answers_of(estimator, methods, x))[1], ours)


def estimators(chosen: Sequence[str]) -> Subject:
    """Damage only some."""
    return Subject("estimators", partial(write, chosen=chosen), mutate, attempt)


ESTIMATORS = estimators(names())
