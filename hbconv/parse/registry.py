"""Registry: find the parser of an estimator's class by its public dotted name.

Nothing is imported: a class names the library that defines it.
An object without a parser is refused with what to convert in its place.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hbconv.errors import ConversionError, UnsupportedError
from hbconv.names import METHODS
from hbconv.parse.class_names import (
    find_added,
    find_changed,
    find_overridden,
    foreign_way_out,
    is_named,
    package,
)

__all__ = ["UNPREDICTIVE", "say_instead"]

if TYPE_CHECKING:
    from hbconv.containers import FrameFormat, Node, Output, Schema

    Features = Callable[[Any], Sequence[str] | int | Schema | None]

__all__ = [
    "Entry",
    "Parser",
    "base_entry",
    "declared_columns",
    "find_entry",
    "find_parser",
    "is_other",
    "libraries",
    "own_libraries",
    "parser_names",
    "parses",
    "parses_others",
    "say_misnamed",
]


class Parser(Protocol):
    """A function that reads one Step of an estimator into nodes."""

    __module__: str
    __qualname__: str

    def __call__(self, step: Any, /) -> Node | dict[str, Output]:
        """Return a Node for ``transform``, or an Output for each method."""


@dataclass(frozen=True)
class Entry:
    """A registered parser, with the options that ``parses`` takes."""

    name: str
    parse: Parser
    features: Features | None = None
    truncates: bool = False
    takes_sparse: bool = False
    is_fitted: Callable[[Any], bool] | None = None
    frames: Callable[[Any], str | FrameFormat] | None = None

    def is_of(self, cls: type) -> bool:
        """Tell whether a class is the one that the parser is registered for.

        Third parties may register a name under which they only export a class.
        """
        return is_named(cls, self.name) or (not self.is_own and _exported(self.name) is cls)

    @property
    def is_own(self) -> bool:
        """Whether the parser is hbconv's own, and not a third party's."""
        return self.parse.__module__.partition(".")[0] == "hbconv"


_ENTRIES: dict[str, Entry] = {}
_OTHERS: list[tuple[Callable[[type], bool], Entry]] = []
"""What parses classes without a parser of their own, and which of them."""
_FOUND: dict[type, Entry] = {}


def parses(
    *names: str,
    features: Features | None = None,
    truncates: bool = False,
    takes_sparse: bool = False,
    is_fitted: Callable[[Any], bool] | None = None,
    frames: Callable[[Any], str | FrameFormat] | None = None,
) -> Callable[[Parser], Parser]:
    """Register the decorated function as the parser of the estimators with these names.

    Parameters
    ----------
    *names : str
        Public dotted names, such as ``"sklearn.preprocessing.StandardScaler"``.
        A name registered twice raises ValueError.
    features : callable, optional
        Reads the input columns of an estimator that has no ``n_features_in_``.
        Returns their names, number or Schema; None where scikit-learn's attributes hold.
    truncates : bool
        The parser reads ``step.iterations``, the boosting stages that the user asks for.
    takes_sparse : bool
        The source model takes a sparse matrix, though its scikit-learn tags deny it.
    is_fitted : callable, optional
        Tells whether an estimator can predict that scikit-learn's check calls not fitted.
    frames : callable, optional
        Returns the library whose frames ``transform`` returns by default:
        ``"pandas"``, or ``""`` where scikit-learn's configuration decides. Estimators without
        ``get_feature_names_out`` return a FrameFormat, which has the names too.
    """

    def register(parser: Parser) -> Parser:
        for name in names:
            if name in _ENTRIES and _origin(_ENTRIES[name].parse) != _origin(parser):
                raise ValueError(f"{name} already has a parser")
            _ENTRIES[name] = Entry(
                name, parser, features, truncates, takes_sparse, is_fitted, frames
            )
        # A class looked up before may have a nearer parser now.
        _FOUND.clear()
        return parser

    return register


def parses_others(takes: Callable[[type], bool]) -> Callable[[Parser], Parser]:
    """Register the decorated function for classes without a parser of which ``takes`` holds."""

    def register(parser: Parser) -> Parser:
        _OTHERS.append((takes, Entry(parser.__qualname__, parser, is_fitted=lambda _: True)))
        return parser

    return register


def is_other(estimator: object) -> bool:
    """Tell whether the class of an estimator has no parser of its own."""
    return any(find_parser(estimator) is entry for _, entry in _OTHERS)


def _origin(parser: Parser) -> tuple[str, str]:
    """Return where a parser was written: a module loaded twice registers its own again."""
    return parser.__module__, parser.__qualname__


def parser_names() -> tuple[str, ...]:
    """Return the dotted names of all estimators that have a parser."""
    return tuple(sorted(_ENTRIES))


def libraries() -> frozenset[str]:
    """Return the top packages of all estimators that have a parser."""
    return frozenset(name.partition(".")[0] for name in _ENTRIES)


def own_libraries() -> frozenset[str]:
    """Return the top packages that hbconv's own parsers read."""
    return frozenset(name.partition(".")[0] for name, entry in _ENTRIES.items() if entry.is_own)


def find_parser(estimator: object, path: str = "") -> Entry:
    """Return the parser of an estimator's class.

    Raises
    ------
    UnsupportedError
        The class has no parser, or its estimators cannot predict new rows,
        or it is a subclass that changes what a method computes.
    ConversionError
        The object is not an estimator.
    """
    cls = type(estimator)
    if cls not in _FOUND:
        _FOUND[cls] = _search(cls, path) or _search_plugins(estimator, path)
    return _FOUND[cls]


def declared_columns(estimator: object, path: str) -> Sequence[str] | int | Schema | None:
    """Return the input columns that the parser of an estimator declares.

    None where scikit-learn's attributes declare them.
    """
    features = find_parser(estimator, f"{path}/{type(estimator).__name__}").features
    return None if features is None else features(estimator)


def find_entry(name: str) -> Entry:
    """Return the parser registered under a name."""
    if name not in _ENTRIES:
        near = difflib.get_close_matches(name, _ENTRIES, n=1)
        raise ConversionError(
            f"No parser is registered for {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}"
        )
    return _ENTRIES[name]


def base_entry(cls: type) -> Entry | None:
    """Return the parser of a class, or of the nearest class that it derives from."""
    found = (e for base in cls.__mro__ for e in _ENTRIES.values() if e.is_of(base))
    return next(found, None)


def _search(cls: type, path: str) -> Entry | None:
    entry = base_entry(cls)
    if entry is None:
        return None
    refusal = _changed_answers(cls, entry, path)
    if refusal is None:
        return entry
    if not entry.is_own or _exported(entry.name) is cls or foreign_way_out(cls):
        raise refusal
    other = next((each for takes, each in _OTHERS if takes(cls)), None)
    if other is None:
        raise refusal
    # What a user's class changes is read from its own code, and the rest from its base. It has not
    # the name of the base: parsers of ensembles read members of that name by their attributes.
    return replace(entry, name=other.name, parse=other.parse, truncates=False)


def _has_parser(cls: type) -> bool:
    return base_entry(cls) is not None


def _exported(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    loaded = sys.modules.get(module)
    return (
        vars(loaded).get(attribute) if loaded else None
    )  # not getattr: a module's __getattr__ may import or raise


def _search_plugins(estimator: object, path: str) -> Entry:
    """Load the entry points of third parties, whose modules call ``parses``, and search again.

    Their group is ``hbconv.parsers``. Those that do not load are named where none has a parser.
    """
    broken = []
    for point in importlib.metadata.entry_points(group="hbconv.parsers"):
        try:
            point.load()
        # A module of a third party may raise anything.
        except Exception as error:
            broken.append(f"{point.value} ({type(error).__name__}: {error})")
    entry = _search(type(estimator), path)
    if entry is None and not broken and not foreign_way_out(type(estimator)):
        entry = next((e for takes, e in _OTHERS if takes(type(estimator))), None)
    if entry is None:
        raise _refusal(estimator, path, broken)
    return entry


def _changed_answers(cls: type, entry: Entry, path: str) -> UnsupportedError | None:
    """Return the refusal of a subclass whose class bodies may change what its base predicts.

    The base is the last class of that name, since a replacement may take the name of its base.
    In a library that hbconv's own parsers know, the methods that a subclass in it shares with the
    base decide.
    """
    bases = [base for base in cls.__mro__ if entry.is_of(base)]
    base = bases[-1]
    is_same_library = entry.is_own and package(cls) == package(base) and len(bases) == 1
    names = find_changed(cls, base, METHODS) if is_same_library else find_overridden(cls, base)
    if names:
        what = f"It overrides {', '.join(names)} of {base.__name__}"
        return _subclass_refusal(cls, entry, path, what)
    names = [] if is_same_library else find_added(cls, base)
    if names:
        what = f"It adds {', '.join(names)} to {base.__name__}, which others may ask it for"
        return _subclass_refusal(cls, entry, path, what)
    return None


def _subclass_refusal(cls: type, entry: Entry, path: str, what: str) -> UnsupportedError:
    way_out = (
        "Register a parser for it with hbconv.parses (docs/adding.md); it may return "
        f"step.like({entry.name!r}) where the answers are the same."
    )
    if entry.is_own and _exported(entry.name) is cls:
        way_out = (
            f"{package(cls)} put it in the place of {entry.name}. Undo that, and fit the "
            "library's own class."
        )
    hint = f"{what}. {foreign_way_out(cls) or way_out}"
    return UnsupportedError(cls.__name__, path, hint=hint)


def _refusal(estimator: object, path: str, broken: Sequence[str]) -> ConversionError:
    """Return the error for an object without a parser; ``broken`` names plugins."""
    cls = type(estimator)
    if isinstance(estimator, type):
        return ConversionError(f"{estimator.__name__} is a class; pass a fitted instance of it.")
    reason = next((why for name, why in UNPREDICTIVE.items() if _is_made_of(cls, name)), None)
    if reason is not None:
        return UnsupportedError(
            cls.__name__, path, hint=f"It predicts no new row on its own: {reason}."
        )
    if not any(hasattr(estimator, m) for m in METHODS):
        said = f"{cls.__name__} is not an estimator: it has no predict, transform or the like."
        return ConversionError(f"{said} {say_instead(estimator, _has_parser)}".rstrip())
    return UnsupportedError(
        cls.__name__, path, hint=foreign_way_out(cls) or _describe_broken(broken) or _nearest(cls)
    )


def _is_made_of(cls: type, name: str) -> bool:
    return any(is_named(base, name) for base in cls.__mro__)


def _describe_broken(broken: Sequence[str]) -> str:
    if not broken:
        return ""
    return (
        "No plugin has a parser for it, and these plugins of hbconv.parsers do not load: "
        f"{'; '.join(broken)}. Fix the package of the plugin, or uninstall it."
    )


def say_misnamed(cls: type) -> str:
    """Say which parser was registered for another class of the same name, if any."""
    full = f"{cls.__module__}.{cls.__qualname__}"
    registered = " and of ".join(entry.name for entry in _same(cls) if not entry.is_own)
    if not registered:
        return ""
    return (
        f"The parser of {registered} is for another class than {full}: give hbconv.parses the "
        "name it has."
    )


def _same(cls: type) -> list[Entry]:
    return [e for e in _ENTRIES.values() if e.name.rpartition(".")[2] == cls.__name__]


def _nearest(cls: type) -> str:
    """Say that a class has no parser, which are near it, and how to register one."""
    misnamed = say_misnamed(cls)
    if misnamed:
        return misnamed
    full = f"{cls.__module__}.{cls.__qualname__}"
    names = {name.rpartition(".")[2] for name in _ENTRIES}
    near = [entry.name for entry in _same(cls)] or difflib.get_close_matches(
        cls.__name__, names, n=2, cutoff=0.8
    )
    guess = f" Near it, hbconv knows {' and '.join(near)}." if near else ""
    return (
        f"hbconv has no parser for {full}.{guess} Register one with hbconv.parses (docs/adding.md)."
    )


_DEEPEST = 3
_SHOWN = 3
"""Largest number of estimators that a message lists."""

_MOST_ITEMS = 1000
"""Largest number of items looked at, of each holder and at each depth: rows are lists too."""


def say_instead(value: object, has_parser: Callable[[type], bool]) -> str:
    """Say what to give instead of a value that is not an estimator; empty where nothing fits.

    Examples
    --------
    >>> say_instead({"model": 0.5, "names": ["a"]}, lambda cls: cls is float)
    "Give what it holds at ['model'] (float)."
    """
    if hasattr(type(value), "read"):
        return "Give its bytes: what read() returns."
    places = _estimators(value, cache(has_parser))
    more = ", ..." if len(places) > _SHOWN else ""
    return f"Give what it holds at {' or '.join(places[:_SHOWN])}{more}." if places else ""


def _estimators(value: object, has_parser: Callable[[type], bool]) -> list[str]:
    """Return places and classes of the estimators that are least deep in a value."""
    level: list[tuple[str, object]] = [("", value)]
    for _ in range(_DEEPEST):
        items = (
            (f"{place}{key}", item)
            for place, holder in level
            for key, item in islice(_items(holder), _MOST_ITEMS)
        )
        # Breadth first, so that the nearest estimator is named.
        level = list(islice(items, _MOST_ITEMS))
        places = [
            f"{place} ({type(item).__name__})" for place, item in level if has_parser(type(item))
        ]
        if places:
            return places
    return []


def _items(value: Any) -> Iterator[tuple[str, object]]:
    """Yield what a mapping, a sequence or an object of attributes holds."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        yield from _items(value.tolist())
    elif not isinstance(value, type):
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())


_LABELS_FITTED = "it labels the rows it was fitted on and has no rule for others"
_PLACES_FITTED = (
    "it places the rows it was fitted on relative to each other and has no rule for others"
)
_BLOCKS_FITTED = (
    "it groups rows and columns of the one matrix it was fitted on and has no rule for other rows"
)
_TOGETHER = "it predicts rows together, so each output depends on the others"
_MANY_ROWS = "it makes many rows of one image, and a model returns one output per row"

_FITTING_ONLY = (
    "it changes the very rows it was fitted on, and passes others on; leave it out of the pipeline"
)

UNPREDICTIVE: dict[str, str] = {
    "lightgbm.CVBooster": "it holds a model of each fold; convert one of its .boosters",
    "sklego.preprocessing.OutlierRemover": _FITTING_ONLY,
    "sklego.preprocessing.RandomAdder": _FITTING_ONLY,
    "sklearn.cluster.AgglomerativeClustering": _LABELS_FITTED,
    "sklearn.cluster.DBSCAN": _LABELS_FITTED,
    "sklearn.cluster.HDBSCAN": _LABELS_FITTED,
    "sklearn.cluster.OPTICS": _LABELS_FITTED,
    "sklearn.cluster.SpectralBiclustering": _BLOCKS_FITTED,
    "sklearn.cluster.SpectralClustering": _LABELS_FITTED,
    "sklearn.cluster.SpectralCoclustering": _BLOCKS_FITTED,
    "sklearn.decomposition.MiniBatchNMF": _TOGETHER,
    "sklearn.feature_extraction.image.PatchExtractor": _MANY_ROWS,
    "sklearn.manifold.ClassicalMDS": _PLACES_FITTED,
    "sklearn.manifold.MDS": _PLACES_FITTED,
    "sklearn.manifold.SpectralEmbedding": _PLACES_FITTED,
    "sklearn.manifold.TSNE": _PLACES_FITTED,
}
"""By public dotted name: why no model can be made of it."""
