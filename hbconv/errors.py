"""What users are told: every exception of hbconv, and the lines of its logger.

The logger ``hbconv`` reports how a conversion goes on, what compiles, and which rows are converted.
This module imports nothing of hbconv.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hbconv.target import Target

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
    "log_compiled",
    "log_converted",
    "log_export",
    "log_no_graph",
    "log_optimized",
    "log_parsed",
    "log_search",
    "log_slower",
    "log_text_kernel",
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
        Where it is in the pipeline, such as ``"prep/num/StandardScaler"``.
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


def log_compiled(
    methods: tuple[str, ...], dtypes: tuple[str, ...], backend: str, seconds: float
) -> None:
    """Log at level INFO what was compiled, for which columns, and how long it took.

    Examples
    --------
    >>> import logging, sys
    >>> logger = logging.getLogger("hbconv")
    >>> handler = logging.StreamHandler(sys.stdout)
    >>> logger.addHandler(handler)
    >>> logger.setLevel(logging.INFO)
    >>> log_compiled(("predict",), ("float64", "float64", "string"), "tvm", 1.5)
    compiled predict for 3 columns (2 float64, 1 string) on tvm in 1.50 s
    >>> logger.removeHandler(handler)
    >>> logger.setLevel(logging.NOTSET)
    """
    import logging  # takes longer to import than a stored program to load

    counts = ", ".join(f"{count} {dtype}" for dtype, count in Counter(dtypes).items())
    logging.getLogger("hbconv").info(
        "compiled %s for %d columns (%s) on %s in %.2f s",
        ", ".join(methods),
        len(dtypes),
        counts,
        backend,
        seconds,
    )


def log_parsed(estimator: str, nodes: int, seconds: float) -> None:
    """Log at level INFO that an estimator was read, and how long it took."""
    import logging

    logging.getLogger("hbconv").info("read %s as %d nodes in %.2f s", estimator, nodes, seconds)


def log_optimized(before: int, after: int, seconds: float) -> None:
    """Log at level INFO how many nodes the optimizer left, and how long it took."""
    import logging

    logging.getLogger("hbconv").info("optimized %d nodes to %d in %.2f s", before, after, seconds)


def log_converted(owner: str, given: str, wider: str) -> None:
    """Warn that rows are converted which the source model may answer otherwise."""
    import logging

    logging.getLogger("hbconv").warning(
        "%s: rows of %s are converted to %s. The source model may answer them otherwise, within "
        "the rounding of float32.",
        owner,
        given,
        wider,
    )


def log_slower(estimator: str, target: Target, slowdown: float) -> None:
    """Warn that a model is predicted slower than its source."""
    import logging

    way_out = "Use backend='tvm'" if target.backend != "tvm" else "Use precision='fast'"
    logging.getLogger("hbconv").warning(
        "%d rows are predicted to take %.1f times as long on %s as by %s itself. "
        "%s, or the source.",
        target.rows,
        slowdown,
        target.backend,
        estimator or "the source model",
        way_out,
    )


def log_export(inputs: str) -> None:
    """Log at level INFO which dtypes an export takes."""
    import logging

    logging.getLogger("hbconv").info(
        "the inputs of the export are %s; compile(sample) chooses others", inputs
    )


def log_no_graph(rows: int, reason: str) -> None:
    """Log at level INFO that calls of so many rows are captured in no CUDA graph."""
    import logging

    logging.getLogger("hbconv").info(
        "calls of up to %d rows run without a CUDA graph: %s", rows, reason
    )


def log_text_kernel(error: Exception) -> None:
    """Warn that texts are read by numpy, as TVM fails to compile what reads them."""
    import logging

    logging.getLogger("hbconv").warning(
        "numpy reads the texts, which is slower: TVM cannot compile their kernel: %s", error
    )


def log_search(error: Exception) -> None:
    """Warn that tied rows are searched by numpy, as TVM fails to compile their search."""
    import logging

    logging.getLogger("hbconv").warning(
        "numpy searches the neighbours of tied rows, which is slower: TVM cannot compile it: %s",
        error,
    )
