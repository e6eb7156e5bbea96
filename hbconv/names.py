"""Names a user may misspell: unknown ones are refused with the nearest that exist."""

import difflib
import unicodedata
from collections.abc import Iterable

from hbconv.errors import MOST_SHOWN, OptionError, shown

__all__ = [
    "ARGUMENT_METHODS",
    "EXPLANATIONS",
    "INVERSE",
    "METHODS",
    "abridge",
    "guess",
    "printable",
    "unknown",
    "unknown_device",
]

METHODS = (
    "predict", "predict_class", "predict_proba", "predict_log_proba",
    "predict_joint_log_proba", "decision_function", "transform",
    "score_samples", "mahalanobis",
    "kneighbors", "kneighbors_graph", "radius_neighbors", "radius_neighbors_graph",
    "apply", "decision_path",
    "staged_predict", "staged_predict_proba", "staged_decision_function",
)  # fmt: skip
"""Methods that compute something on new rows, in the order outputs are listed."""

EXPLANATIONS = ("contributions", "interactions")
"""Methods that tell what features add, of the columns that the trees' estimator reads."""

ARGUMENT_METHODS = ("raw_scores", "predict_std", *EXPLANATIONS)
"""Methods whose answers source models give for an argument of another method."""

INVERSE = "inverse_transform"
"""The method whose rows are those that ``transform`` returns; it has a graph of its own."""


HARMLESS = "\n\t\u200c\u200d"
"""Controls that a terminal may be sent: ends of lines, tabs, and joiners of letters."""


def unknown(kind: str, name: object, known: Iterable[str]) -> OptionError:
    """Return the error for a name that does not exist.

    Examples
    --------
    >>> str(unknown("backend", "torhc", ["torch", "tvm"]))
    "Unknown backend 'torhc'. Did you mean 'torch'? Known: torch, tvm."
    """
    names = sorted(known)
    return OptionError(
        f"Unknown {kind} {shown(name)}.{guess(name, names)} Known: {', '.join(names)}."
    )


def unknown_device(device: object) -> OptionError:
    """Return the error for a device that does not exist; torch calls a GPU cuda.

    Examples
    --------
    >>> str(unknown_device("gpu:0"))
    "Unknown device 'gpu:0'. Did you mean 'cuda:0' or 'cuda'? Known: cpu, cuda, cuda:0."
    """
    known = ("cpu", "cuda", "cuda:0")
    near = guess(str(device).lower().replace("gpu", "cuda"), known)
    return OptionError(f"Unknown device {shown(device)}.{near} Known: {', '.join(known)}.")


def guess(name: object, known: Iterable[str]) -> str:
    """Return a question that names what is nearest to a misspelt name; "" where nothing is.

    Time grows with the square of a name, so a long one is near to nothing.

    Examples
    --------
    >>> guess("predict_prob", ["predict", "predict_proba", "transform"])
    " Did you mean 'predict_proba' or 'predict'?"
    """
    if len(str(name)) > MOST_SHOWN:
        return ""
    near = difflib.get_close_matches(str(name), sorted(known), n=2, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def printable(text: str) -> str:
    r"""Return text as a terminal shows it: controls of a file's names and values are escaped.

    Ends of lines and tabs stay. Other controls move the cursor, set the title of the window, or
    hide what is before. Half a surrogate pair cannot be printed at all.

    Examples
    --------
    >>> printable("a\x1b[2Jb\u202ec\udcffd\ne")
    'a\\x1b[2Jb\\u202ec\\udcffd\ne'
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(letter: str) -> str:
    is_control = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return ascii(letter)[1:-1] if is_control and letter not in HARMLESS else letter


MOST_LINES = 40
"""Of what a prompt shows of a value."""


def abridge(text: str) -> str:
    r"""Return the first lines of a text, and how many more there are: what a prompt shows.

    Examples
    --------
    >>> abridge("\n".join(map(str, range(100)))).splitlines()[-2:]
    ['38', '... 61 more lines: print it']
    """
    lines = text.splitlines()
    if len(lines) <= MOST_LINES:
        return text
    kept = lines[: MOST_LINES - 1]
    return "\n".join([*kept, f"... {len(lines) - len(kept)} more lines: print it"])
