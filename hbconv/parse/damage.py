"""Reading models that others wrote: every error says what to do.

The values of files are checked where they are read: structs, JSON, counts and numbers.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.errors import ConversionError, HbconvError, MissingPackageError
from hbconv.parse.class_names import package
from hbconv.parse.common.versions import version_fitted_by
from hbconv.system.files import read_json

__all__ = [
    "REFIT",
    "REPORT",
    "StructReader",
    "damaged",
    "decode_json",
    "finite_numbers",
    "fitted_attributes",
    "read_count",
    "reading",
    "reading_estimator",
]

REPORT = "If it is as its library left it, please report this as a defect of hbconv."
"""What to do where no damage is found: it cannot be distinguished from a defect of hbconv."""

REFIT = "Load it with the versions that wrote it, and fit it again with those installed here."
"""What to do with a pickled model that the installed libraries do not load."""

MOST_COUNTED = 1 << 20
"""Columns or outputs that a small file may count: a column takes 700 bytes and 20 microseconds."""

_SHOWN = 8
"""Largest number of attributes that a message lists."""


@contextmanager
def reading(what: str, way_out: str) -> Iterator[None]:
    """Turn any exception raised inside into a ConversionError; errors of hbconv pass.

    Parsers trust files and objects that others wrote, so each line can fail in its own way.

    Examples
    --------
    >>> with reading("m.txt", "Save the model again."):
    ...     {}["learner"]
    Traceback (most recent call last):
    hbconv.errors.ConversionError: m.txt cannot be read: KeyError: 'learner'. It may be damaged.
    Save the model again. If it is as its library left it, please report this as a defect of hbconv.
    """
    try:
        yield
    except HbconvError:
        raise
    # Whatever it is: files and objects come from others, so each line can fail in its own way.
    except Exception as error:
        raise _reading_error(what, error, f"It may be damaged. {way_out}") from error


@contextmanager
def reading_estimator(estimator: object, where: str) -> Iterator[None]:
    """Do the same for an estimator in memory; the message lists its fitted attributes."""
    what = f"{type(estimator).__name__} (step {where!r})"
    try:
        yield
    except HbconvError:
        raise
    except AttributeError as error:
        # An attribute of another library's object says nothing of the version that fitted it.
        if package(type(error.obj)) != package(type(estimator)):
            raise _reading_error(what, error, _describe_attributes(estimator)) from error
        missing = f"its {type(error.obj).__name__} has no attribute {error.name!r}"
        raise ConversionError(
            _of_another_version(estimator, what, missing)
            or f"{what} was fitted by another version of {_installed(estimator)}, or changed by "
            f"hand: {missing}. Fit it again. {REPORT}"
        ) from error
    # Whatever it is, as for files.
    except Exception as error:
        said = _of_another_version(estimator, what, _describe_error(error))
        if said:
            raise ConversionError(said) from error
        raise _reading_error(what, error, _describe_attributes(estimator)) from error


def _of_another_version(estimator: object, what: str, found: str) -> str:
    """Name both versions of scikit-learn where another one fitted an estimator; else empty."""
    fitted_by = version_fitted_by(estimator)
    if not fitted_by:
        return ""
    installed = sys.modules["sklearn"].__version__
    return (
        f"{what} was fitted by scikit-learn {fitted_by}, and {installed} is installed: {found}. "
        f"Fit it again with {installed}, or install scikit-learn=={fitted_by} and convert it there."
    )


def _reading_error(what: str, error: Exception, way_out: str) -> HbconvError:
    """Return the error for a model that could not be read; damage is only one of the causes."""
    if isinstance(error, ModuleNotFoundError) and _is_missing(error.name):
        return MissingPackageError(
            f"{what} needs the package {error.name!r}. Install the libraries that it was fitted "
            "with."
        )
    if isinstance(error, MemoryError):
        return ConversionError(
            f"{what} needs more memory than there is ({_describe_error(error)}). Fit it on fewer "
            "columns or rows, or convert it on a larger machine."
        )
    return ConversionError(f"{what} cannot be read: {_describe_error(error)}. {way_out} {REPORT}")


def _is_missing(module: str | None) -> bool:
    """Tell whether the whole package of a module is missing, and not a part that it once had."""
    return bool(module) and importlib.util.find_spec(str(module).partition(".")[0]) is None


def _installed(estimator: object) -> str:
    """Return the library of an estimator with the version that is installed."""
    library = package(type(estimator))
    version = getattr(sys.modules.get(library), "__version__", "")
    return f"{library} than the installed {version}" if version else library


def _describe_attributes(estimator: object) -> str:
    held = fitted_attributes(estimator) or "no fitted attributes"
    return f"It holds {held}. Fit it again, or undo what was changed by hand."


def damaged(estimator: object, where: str, what: str) -> ConversionError:
    """Return the error that refuses fitted attributes that contradict each other.

    Parameters
    ----------
    estimator : object
        The estimator that holds them.
    where : str
        Its place, such as ``"step 'prep/StandardScaler'"``.
    what : str
        The contradiction, with its values.
    """
    name = f"{type(estimator).__name__} ({where})"
    return ConversionError(
        _of_another_version(estimator, name, what)
        or f"{name} is damaged: {what}. Fit it again, or undo what was changed by hand."
    )


def decode_json(data: bytes, constant: Callable[[str], Any] = float) -> Any:
    """Decode a JSON text.

    A key that is twice in one object raises ConversionError: readers differ in which they take.
    ``constant`` makes a value of ``NaN`` and ``Infinity``, which JSON does not have.
    """
    return read_json(data, object_pairs_hook=_require_single_keys, parse_constant=constant)


def read_count(name: str, value: Any, n_bytes: int) -> int:
    """Return how many columns or outputs a file declares, without a name or number for each.

    Raises
    ------
    ConversionError
        There are more than a file of that size may declare.

    Examples
    --------
    >>> read_count("num_feature", "30", 1000)
    30
    >>> read_count("num_feature", 2**31, 1000)
    Traceback (most recent call last):
    hbconv.errors.ConversionError: The file is damaged: num_feature=2147483648, and a file of
    1,000 bytes may declare up to 1,048,576.
    """
    count, most = int(value), max(MOST_COUNTED, n_bytes)
    if 0 <= count <= most:
        return count
    raise ConversionError(
        f"The file is damaged: {name}={count}, and a file of {n_bytes:,} bytes may declare up to "
        f"{most:,}."
    )


def finite_numbers(values: Collection[Any]) -> npt.NDArray[np.float64]:
    """Return numbers of a JSON text as float64; all must be finite.

    Readers differ in what they make of NaN, null, true and texts. Whole numbers that float64 may
    round must be written with a point or an exponent: CatBoost reads others as 0.

    Examples
    --------
    >>> finite_numbers([1, None])
    Traceback (most recent call last):
    hbconv.errors.ConversionError: The file is damaged: a number is null, true, a text or NaN.
    """
    # Types are compared exactly, since isinstance takes true for the int 1.
    numbers = np.asarray(values if {*map(type, values)} <= {int, float} else [np.nan], np.float64)
    if not np.isfinite(numbers).all():
        raise ConversionError("The file is damaged: a number is null, true, a text or NaN.")
    if any(type(value) is int and abs(value) > MOST_EXACT_INT for value in values):
        raise ConversionError("The file is damaged: an integer is beyond 2**53.")
    return numbers


def _require_single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ConversionError(
            f"The file is damaged: one object has a key twice, among {', '.join(members)[:100]}."
        )
    return members


def _describe_error(error: Exception) -> str:
    said = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def fitted_attributes(estimator: object) -> str:
    """List the fitted attributes of an estimator with their shapes, which show a wrong one.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> model = SimpleNamespace(alpha=1, coef_=np.zeros((1, 3)), mean_=None, estimators_=[])
    >>> fitted_attributes(model)
    'coef_ float64[1, 3], mean_=None, estimators_ a list of 0'
    """
    held = getattr(estimator, "__dict__", {})
    names = [name for name in held if name.endswith("_") and not name.startswith("_")]
    shown = [f"{name}{_describe_value(held[name])}" for name in names[:_SHOWN]]
    return ", ".join(shown + ["..."] * (len(names) > _SHOWN))


def _describe_value(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f" {getattr(value, 'dtype', '')}{list(shape)}"
    if isinstance(value, list | tuple | dict):
        return f" a {type(value).__name__} of {len(value)}"
    plain = value is None or isinstance(value, bool | int | float | str) or shape == ()
    return f"={str(value)[:20]}" if plain else f" a {type(value).__name__}"


class StructReader:
    """The bytes and a position in them.

    Parameters
    ----------
    data : bytes
    name : str
        What messages call the file.

    Examples
    --------
    >>> reader = StructReader(bytes([7, 0, 2, 0, 0, 0, 0, 0, 0, 0, 104, 105]), "The file")
    >>> reader.number("<i2"), reader.text()
    (7, 'hi')
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.at = 0

    def numbers(self, kind: str | np.dtype[Any], count: int) -> npt.NDArray[Any]:
        """Read so many values of one dtype, records of fields too."""
        size = np.dtype(kind).itemsize * count
        # Checked before reading, so that a damaged count never reserves memory.
        if count < 0 or self.at + size > len(self.data):
            raise ConversionError(f"{self.name} is damaged: it ends before its last value.")
        self.at += size
        return np.frombuffer(self.data, kind, count, self.at - size)

    def record(self, kind: np.dtype[Any]) -> Any:
        """Read a record of fields."""
        return self.numbers(kind, 1)[0]

    def number(self, kind: str) -> Any:
        """Read a number, as Python's."""
        return self.numbers(kind, 1)[0].item()

    def array(self, kind: str | np.dtype[Any]) -> npt.NDArray[Any]:
        """Read a number of values, then these."""
        return self.numbers(kind, self.number("<u8"))

    def text(self) -> str:
        """Read a number of bytes, then these, as a text."""
        return self.array("u1").tobytes().decode()
