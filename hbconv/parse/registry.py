"""Registry: find the parser of an estimator's class by its public dotted name.

Nothing is imported: an instance exists only when its library is already imported.
So a name is looked up in ``sys.modules`` when an object of that package first arrives.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hbconv.errors import ConversionError, UnsupportedError
from hbconv.names import METHODS
from hbconv.parse.subclasses import added, changed, overridden
from hbconv.parse.unpredictive import UNPREDICTIVE

if TYPE_CHECKING:
    from hbconv.containers import FrameFormat, Node, Output, Schema

    Features = Callable[[Any], Sequence[str] | int | Schema | None]

__all__ = [
    "Entry",
    "Parser",
    "declared_columns",
    "find_entry",
    "find_parser",
    "libraries",
    "parser_names",
    "parses",
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


_ENTRIES: dict[str, Entry] = {}
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
        Tells of which library the frames are that ``transform`` returns without being told to:
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
        _FOUND.clear()
        return parser

    return register


def _origin(parser: Parser) -> tuple[str, str]:
    """Return where a parser was written: a module loaded twice registers its own again."""
    return parser.__module__, parser.__qualname__


def parser_names() -> tuple[str, ...]:
    """Return the dotted names of all estimators that have a parser."""
    return tuple(sorted(_ENTRIES))


def libraries() -> frozenset[str]:
    """Return the top packages of all estimators that have a parser."""
    return frozenset(name.partition(".")[0] for name in _ENTRIES)


def find_parser(estimator: object, path: str = "") -> Entry:
    """Return the parser of an estimator's class.

    Raises
    ------
    UnsupportedError
        The class has no parser, or its estimators cannot answer new rows,
        or it is a subclass that changes what a method computes.
    ConversionError
        The object is not an estimator.
    """
    cls = type(estimator)
    if cls not in _FOUND:
        _FOUND[cls] = _search(cls) or _search_plugins(cls) or _refuse(estimator, path)
    return _FOUND[cls]


def declared_columns(estimator: object, path: str) -> Sequence[str] | int | Schema | None:
    """Return the input columns that the parser of an estimator declares.

    None where scikit-learn's attributes tell.
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


def _search(cls: type) -> Entry | None:
    for base in cls.__mro__:
        for entry in _ENTRIES.values():
            if _resolve(entry.name) is base:
                _require_same_answers(cls, base, entry)
                return entry
    return None


def _search_plugins(cls: type) -> Entry | None:
    """Load the entry points of third parties, whose modules call ``parses``, and search.

    Their group is ``hbconv.parsers``.
    """
    for point in importlib.metadata.entry_points(group="hbconv.parsers"):
        point.load()
    return _search(cls)


def _resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    loaded = sys.modules.get(module)
    return (
        vars(loaded).get(attribute) if loaded else None
    )  # not getattr: a module's __getattr__ may import or raise


def _require_same_answers(cls: type, base: type, entry: Entry) -> None:
    """Refuse a subclass whose class bodies may change what its base answers.

    Of a library that hbconv's own parsers know, the methods that a subclass in it shares with the
    base decide.
    """
    known = _is_known(cls, base, entry)
    names = changed(cls, base, METHODS) if known else overridden(cls, base)
    if names:
        raise _refused_subclass(cls, entry, f"It overrides {', '.join(names)} of {base.__name__}")
    names = [] if known else added(cls, base)
    if names:
        what = f"It adds {', '.join(names)} to {base.__name__}, which others may ask it for"
        raise _refused_subclass(cls, entry, what)


def _is_known(cls: type, base: type, entry: Entry) -> bool:
    library = base.__module__.partition(".")[0]
    is_own = entry.parse.__module__.partition(".")[0] == "hbconv"
    return is_own and cls.__module__.partition(".")[0] == library


def _refused_subclass(cls: type, entry: Entry, what: str) -> UnsupportedError:
    hint = (
        f"{what}. Register a parser for it with hbconv.parses (docs/adding.md); it may return "
        f"step.like({entry.name!r}) where the answers are the same."
    )
    return UnsupportedError(cls.__name__, "", hint=hint)


def _refuse(estimator: object, path: str) -> Entry:
    cls = type(estimator)
    if isinstance(estimator, type):
        raise ConversionError(f"{estimator.__name__} is a class; pass a fitted instance of it.")
    reason = next(
        (why for name, why in UNPREDICTIVE.items() if _resolve(name) in cls.__mro__), None
    )
    if reason is not None:
        raise UnsupportedError(
            cls.__name__, path, hint=f"It answers no new row on its own: {reason}."
        )
    if not any(hasattr(estimator, m) for m in METHODS):
        raise ConversionError(
            f"{cls.__name__} is not an estimator: it has none of {', '.join(METHODS)}."
        )
    same = [name for name in _ENTRIES if name.rpartition(".")[2] == cls.__name__]
    if same:
        hint = (
            f"The parser of {' and of '.join(same)} is for another class than "
            f"{cls.__module__}.{cls.__qualname__}: give hbconv.parses the name it has."
        )
        raise UnsupportedError(cls.__name__, path, hint=hint)
    known = [name.rpartition(".")[2] for name in _ENTRIES]
    near = difflib.get_close_matches(cls.__name__, known, n=2, cutoff=0.8)
    guess = f" Near it, hbconv knows {' and '.join(near)}." if near else ""
    hint = (
        f"hbconv has no parser for {cls.__module__}.{cls.__name__}.{guess} Register one with "
        "hbconv.parses (docs/adding.md)."
    )
    raise UnsupportedError(cls.__name__, path, hint=hint)
