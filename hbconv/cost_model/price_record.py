"""Prices of units of work, the factors of this machine, and their record on disk.

A price is in seconds for a unit of work, and grows where what is read exceeds the caches. A factor
is how much dearer a unit is on this machine than on the one of the prices. The record of factors is
kept with compiled code and the times of ``tune=``, under the same rules of trust. A record of
another machine or of other versions does not count, and neither does a damaged one.
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from functools import cache
from typing import Any

from hbconv.cost_model.work import Work
from hbconv.system.cache import Cache
from hbconv.system.processor import Caches, find_caches, find_processor
from hbconv.target import Target

__all__ = [
    "GROUPS",
    "PACKAGES",
    "SHIPPED",
    "Factors",
    "PriceRecord",
    "Prices",
    "describe_host",
    "describe_versions",
    "find_record",
    "forget_record",
    "is_factor",
    "keep_record",
    "settled",
    "unit_price",
]

PACKAGES = ("hbconv", "numpy", "torch", "apache-tvm", "onnxruntime")
SUFFIX = ".dist-info"


def describe_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute.

    They are read from the names of folders. ``importlib.metadata`` opens files, and takes twenty
    times as long.
    """
    # ``importlib.metadata`` takes 18 ms in a fresh process, names of folders 0.5 ms.
    versions = {"python": platform.python_version()}
    names = {_plain(package): package for package in PACKAGES}
    for name, version in _list_installed():
        if name in names:
            versions.setdefault(names[name], version)
    return versions


def _list_installed() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each package, those found first by imports first."""
    # In the order of imports, so of two versions the one that is imported counts.
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(SUFFIX):
                name, _, version = entry.removesuffix(SUFFIX).partition("-")
                yield _plain(name), version


def _plain(name: str) -> str:
    """Return a name as folders write it.

    Examples
    --------
    >>> _plain("apache-tvm"), _plain("Apache.TVM")
    ('apache_tvm', 'apache_tvm')
    """
    return re.sub(r"[-_.]+", "_", name).lower()


logger = logging.getLogger(__name__)

FORMAT = 1
ENTRY = "prices"
MEMBER = "prices.json"
VARIABLE = "HBCONV_MACHINE"
"""It limits the instructions that kernels may use."""


@dataclass(frozen=True)
class PriceRecord:
    """Factors measured on a machine.

    Parameters
    ----------
    machine, versions : mapping
        Where they hold.
    factors : mapping of str to Factors
        By backend.
    day : str
        When they were measured, as 2026-01-31.
    """

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    factors: Mapping[str, Factors]
    day: str


@cache
def find_record() -> PriceRecord | None:
    """Return the record that holds here; the file is read once in a process."""
    return read_record(Cache.chosen())


def read_record(cache: Cache) -> PriceRecord | None:
    """Read the record of a cache, and say in the log why one is not used."""
    files = cache.read(ENTRY)
    if files is None:
        return None
    record = _parse(files.get(MEMBER, b""))
    reason = _refusal(record)
    if reason:
        logger.info("The prices in %s do not count: %s.", cache.folder, reason)
        return None
    return record


def keep_record(record: PriceRecord, cache: Cache) -> bool:
    """Write a record, and return whether it is found again: a folder may not be writable."""
    data = json.dumps({"format": FORMAT, **asdict(record)})
    cache.write(ENTRY, {MEMBER: data.encode()})
    find_record.cache_clear()
    return read_record(cache) == record


def forget_record(cache: Cache) -> bool:
    """Delete the record; False if there is none."""
    find_record.cache_clear()
    return cache.remove(ENTRY)


def describe_host() -> dict[str, Any]:
    """Return what is known of this machine, as JSON holds it."""
    limit = os.environ.get(VARIABLE, "")
    caches = asdict(find_caches())
    return {"processor": find_processor(), "cores": os.cpu_count() or 1, "limit": limit, **caches}


def _refusal(record: PriceRecord | None) -> str:
    """Say why a record does not count; nothing if it does."""
    if record is None:
        return "they are damaged"
    # Factors of another machine would be worse than the shipped prices.
    if record.machine != describe_host():
        return "they are of another machine"
    if record.versions != describe_versions():
        return "they are of other versions"
    return ""


def _parse(data: bytes) -> PriceRecord | None:
    """Read a record of any file; None if it holds what no measurement writes."""
    try:
        fields = json.loads(data)
        if fields.pop("format") != FORMAT or not _is_day(fields["day"]):
            return None
        fields["factors"] = {name: _factors(factors) for name, factors in fields["factors"].items()}
        return PriceRecord(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _factors(values: Mapping[str, Any]) -> Factors:
    """Return factors, each of them sound.

    Raises
    ------
    ValueError
        One is missing, too many, or no factor.
    """
    # The file may be anyone's: names, order and values must be those that a measurement writes.
    if tuple(values) != GROUPS or not all(map(is_factor, values.values())):
        raise ValueError(values)
    return Factors(**values)


def _is_day(text: str) -> bool:
    return date.fromisoformat(text).isoformat() == text


MOST = 8.0
"""A factor above it, or below its inverse, is taken for a disturbed measurement."""
NOISE = 1.1
"""A factor within it counts as one."""


@dataclass(frozen=True)
class Factors:
    """Factors of one backend, one for each group of units.

    Parameters
    ----------
    operators : float
        Of the overhead of an operator.
    elementwise : float
        Of words computed by arithmetic, or copied.
    functions : float
        Of words computed by functions, for example ``exp``.
    reads : float
        Of entries read at fixed or computed positions.
    products : float
        Of multiply-adds.
    trees : float
        Of all that a tree strategy does, operators excepted.
    """

    operators: float = 1.0
    elementwise: float = 1.0
    functions: float = 1.0
    reads: float = 1.0
    products: float = 1.0
    trees: float = 1.0

    def of_primitives(self, prices: Prices) -> Prices:
        """Return the prices of primitives on this machine.

        Examples
        --------
        >>> found = Factors(reads=2.0).of_primitives(Prices(operator=1.0, read=(3.0, 0.5)))
        >>> found.operator, found.read
        (1.0, (6.0, 1.0))
        """
        functions = {name: price * self.functions for name, price in prices.functions.items()}
        return replace(
            prices,
            operator=prices.operator * self.operators,
            elementwise=_scale(prices.elementwise, self.elementwise),
            take=_scale(prices.take, self.reads),
            read=_scale(prices.read, self.reads),
            multiplication=prices.multiplication * self.products,
            padding=prices.padding * self.products,
            span=prices.span * self.elementwise,
            functions=functions,
        )

    def of_trees(self, prices: Prices) -> Prices:
        """Return the prices of a tree strategy on this machine.

        One factor is common to all strategies of a backend, so it does not decide between them.
        """
        return replace(
            prices,
            operator=prices.operator * self.operators,
            elementwise=_scale(prices.elementwise, self.trees),
            take=_scale(prices.take, self.trees),
            read=_scale(prices.read, self.trees),
            multiplication=prices.multiplication * self.trees,
            padding=prices.padding * self.trees,
            visit=_scale(prices.visit, self.trees),
            span=prices.span * self.trees,
            column=prices.column * self.trees,
            sum=_scale(prices.sum, self.trees),
        )


GROUPS = tuple(field.name for field in fields(Factors))
"""Names of the groups of units, in the order in which they are measured."""
SHIPPED = Factors()


def settled(ratio: float) -> float:
    """Return the factor for a measured ratio: one where it is near, and never far from it.

    Examples
    --------
    >>> [settled(ratio) for ratio in (1.05, 0.92, 2.5, 100.0, 0.0, float("nan"))]
    [1.0, 1.0, 2.5, 8.0, 0.125, 1.0]
    """
    # A price of 0 divided by 0 is no measurement.
    if math.isnan(ratio) or 1 / NOISE <= ratio <= NOISE:
        return 1.0
    return min(max(ratio, 1 / MOST), MOST)


def is_factor(value: object) -> bool:
    """Whether a value of a file is a factor that ``settled`` could return."""
    # Bools and ints pass for floats elsewhere, but no measurement writes them.
    return type(value) is float and 1 / MOST <= value <= MOST


def _scale(price: Price, factor: float) -> Price:
    if isinstance(price, tuple):
        return tuple(step * factor for step in price)
    return price * factor


Price = float | tuple[float, ...]
"""Seconds for one unit: in the nearest cache, then what a miss of each level adds."""


def unit_price(price: Price, size: float, caches: Caches) -> float:
    """Return the seconds for one unit of work that reads a table of ``size`` bytes.

    Examples
    --------
    >>> caches = Caches(level1=1000, level2=4000)
    >>> unit_price(1.0, 8000, caches), unit_price((1.0, 0.0, 4.0), 8000, caches)
    (1.0, 3.0)
    """
    if not isinstance(price, tuple):
        return price
    # A price may name fewer steps than there are levels of cache.
    nearest, *steps = price
    return nearest + sum(
        step * missed for step, missed in zip(steps, caches.beyond(size), strict=False)
    )


@dataclass(frozen=True)
class Prices:
    """Seconds for each unit of work on one backend and device; a price left out is zero.

    A price is a number, or a tuple: in the nearest cache, then what a miss of the first, the second
    and the third level adds. Reads and visits miss where the tables exceed a cache. Elementwise
    words and takes miss where the temporaries of the rows at once do.

    Parameters
    ----------
    operator, elementwise, take, read, multiplication, padding, visit, column, sum, span : Price
        Seconds for one unit of the count of ``Work`` with that name.
    tile : int
        Least number of rows that the backend computes, wanted or not.
    functions : mapping of str to float
        Seconds for a word of each primitive that has a price of its own. One that has none costs
        what ``exp`` does.
    """

    operator: float = 0.0
    elementwise: Price = 0.0
    take: Price = 0.0
    read: Price = 0.0
    multiplication: float = 0.0
    padding: float = 0.0
    visit: Price = 0.0
    tile: int = 1
    column: float = 0.0
    sum: Price = 0.0
    span: float = 0.0
    functions: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, work: Work, target: Target, caches: Caches | None = None) -> float:
        """Return the price of the work for ``target.rows`` rows, on this machine if none is named.

        Examples
        --------
        >>> Prices(operator=0.5, take=0.125).seconds(Work(operators=2, takes=3), Target(rows=4))
        2.5
        """
        # Operators are paid once a run, rows one by one.
        runs = math.ceil(target.rows / work.rows_at_once(target))
        row = self._row_seconds(work, target, caches or find_caches())
        return runs * work.operators * self.operator + max(target.rows, self.tile, work.tile) * row

    def _row_seconds(self, work: Work, target: Target, caches: Caches) -> float:
        # Streams miss a cache by what all rows at once hold, tables by their own size.
        held = work.temporaries * work.rows_at_once(target)
        elementwise = unit_price(self.elementwise, held, caches)
        products = work.multiplications * self.multiplication + work.padding * self.padding
        plain = products + work.columns * self.column + work.spans * self.span
        functions = sum(
            # A function without a price is taken for an exponential, the commonest.
            count * self.functions.get(name, self.functions.get("exp", elementwise))
            for name, count in work.functions
        )
        streams = work.elementwise * elementwise + work.takes * unit_price(self.take, held, caches)
        scattered = (
            work.reads * unit_price(self.read, work.tables, caches)
            + work.visits * unit_price(self.visit, work.tables, caches)
            + work.sums * unit_price(self.sum, work.tables, caches)
        )
        return plain + functions + streams + scattered
