"""Every exception hbconv raises, and how messages quote what came from elsewhere.

This module imports nothing of hbconv.
"""

import reprlib

__all__ = [
    "ArgumentError",
    "BackendError",
    "ConversionError",
    "HbconvError",
    "InputError",
    "MissingPackageError",
    "NotFittedError",
    "OptionError",
    "StoreError",
    "UnsupportedError",
    "VerificationError",
    "shown",
]

MOST_SHOWN = 100
"""Characters of a foreign value that a message quotes."""
_quotes = reprlib.Repr()
_quotes.maxstring = _quotes.maxother = _quotes.maxlong = MOST_SHOWN


def shown(value: object) -> str:
    """Quote a name or a value that came from elsewhere; only the ends of a long one.

    Examples
    --------
    >>> shown("age"), len(shown("n" * 1_000_000))
    ("'age'", 100)
    """
    return _quotes.repr(value)


class HbconvError(Exception):
    """Base of all errors of hbconv."""


class ConversionError(HbconvError, ValueError):
    """The object cannot be converted at all (not an estimator, a damaged model file)."""


class NotFittedError(ConversionError):
    """The estimator was not fitted before conversion."""


class UnsupportedError(ConversionError):
    """hbconv has no exact form for this estimator or parameter, so it refuses it by name.

    Parameters
    ----------
    estimator : str
        Class name of the estimator.
    step : str
        Where it stands in the pipeline, such as ``"prep/num/StandardScaler"``.
    parameter : str or None
        The parameter or fitted attribute that is not handled; None: the estimator as a whole.
    value : object
        Its value.
    hint : str
        What the user can do.
    """

    def __init__(
        self,
        estimator: str,
        step: str,
        parameter: str | None = None,
        value: object = None,
        hint: str = "",
    ) -> None:
        self.estimator = estimator
        self.step = step
        self.parameter = parameter
        self.value = value
        self.hint = hint
        what = estimator if parameter is None else f"{estimator} with {parameter}={value!r}"
        at = f" (step {step!r})" if step and step != estimator else ""
        super().__init__(f"{what}{at} is not supported.{' ' + hint if hint else ''}")


class BackendError(HbconvError, ValueError):
    """A backend cannot express or run a program; the message says which part, and why."""


class OptionError(HbconvError, ValueError):
    """An option has a value that does not exist; the message lists the nearest ones."""


class MissingPackageError(HbconvError, ImportError):
    """An optional package is needed; the message holds the command that installs it."""


class InputError(HbconvError, ValueError):
    """The rows do not fit the model: width, names, dtypes, text, NaN or infinite values."""


class ArgumentError(HbconvError, TypeError):
    """A method has no such argument, or no such value of it; the message names what to use."""


class StoreError(HbconvError, ValueError):
    """A saved model cannot be read: damaged, truncated, or written by a newer format."""


class VerificationError(HbconvError, AssertionError):
    """An intermediate form breaks its own rules: a defect of hbconv, please report it."""
