"""SourceArguments: what methods of source models take next to the rows, by library.

An argument asks for the answer of another method here, changes no answer, or is refused by the name
of what to use instead. A model takes those of its source alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.containers import Graph
from hbconv.errors import ArgumentError
from hbconv.names import guess

__all__ = ["Argument", "find_answers", "find_arguments"]

Methods = tuple[str, ...]
# An array compares entry by entry, so only scalars are looked up.
SCALARS = (bool, int, float, str, tuple, np.generic, type(None))


@dataclass(frozen=True)
class Argument:
    """An argument of a source's method.

    Parameters
    ----------
    name : str
    answers : mapping of value to tuple of str, optional
        The methods that answer where it has a value: none for the method itself, two for a pair of
        answers. None: it changes no answer, whatever its value.
    instead : str
        What to do where it has another value.
    """

    name: str
    answers: Mapping[Any, Methods] | None = None
    instead: str = ""

    def find_methods(self, value: Any) -> Methods | None:
        """Return the methods that answer where it has this value; None if it is refused."""
        if self.answers is None:
            return ()
        if not isinstance(value, SCALARS):
            return None
        return next(
            (methods for allowed, methods in self.answers.items() if allowed == value), None
        )


def _asks(name: str, *methods: str) -> Argument:
    return Argument(name, {False: (), True: methods})


def _stays(name: str, *values: Any, instead: str) -> Argument:
    return Argument(name, dict.fromkeys(values, ()), instead)


def _iterations(name: str, *values: Any) -> Argument:
    way = "Choose iterations at conversion: hbconv.convert(estimator, iterations=(0, 50))."
    return _stays(name, *values, instead=way)


_FITTED = "Choose it at conversion: set_params on the fitted estimator, and convert it again."
_POSITIONS = "Give X.to_numpy() for columns that are to be read as they stand."
_NAMES = "Compare list(X) with model.feature_names_in_ before."
_EXACT = "Leave it out: answers are exact, and of the shape that they have by default."
_MARGIN = "Rows start from the margin of training here. Ask the source model for others."
_ROW_BY_ROW = (
    "A model answers each row alone, and covariances are between rows. Give return_std=True, or "
    "ask the source model."
)

_RAW_SCORE = _asks("raw_score", "raw_scores")
_FROM_TO = (_iterations("start_iteration", 0), _iterations("num_iteration", None))
_EXPLAINED = (_asks("pred_leaf", "apply"), _asks("pred_contrib", "contributions"))
_THREADS = (
    _stays("validate_features", False, instead=_NAMES),
    Argument("n_jobs"),
    Argument("num_threads"),
)
_LIGHTGBM = (_RAW_SCORE, *_FROM_TO, *_EXPLAINED, *_THREADS)
_XGBOOST = (
    _stays("validate_features", True, instead=_POSITIONS),
    _stays("base_margin", None, instead=_MARGIN),
    _iterations("iteration_range", None, (0, 0)),
)
_TREES = (
    _iterations("ntree_start", 0),
    _iterations("ntree_end", 0),
    Argument("thread_count"),
    Argument("verbose"),
    _stays("task_type", "CPU", instead="Choose device='cuda' of hbconv.convert."),
)


def _prediction_type(*defaults: Any) -> tuple[Argument, ...]:
    """Return the arguments of CatBoost's ``predict``, and the types that it gives by default."""
    answers = {
        "RawFormulaVal": ("raw_scores",),
        "Probability": ("predict_proba",),
        "LogProbability": ("predict_log_proba",),
    }
    types = ", ".join(map(repr, answers))
    instead = f"A model has the types {types}, as far as it has their methods."
    return Argument("prediction_type", answers | dict.fromkeys(defaults, ()), instead), *_TREES


_CATBOOST = dict.fromkeys(("predict_proba", "predict_log_proba", "apply"), _TREES)
_DEVIATION = _asks("return_std", "predict", "predict_std")
_CHECKED = (Argument("check_input"),)
_DISTANCES = _stays("return_distance", True, instead="Take the second part of the answer.")

ARGUMENTS: Mapping[str, Mapping[str, tuple[Argument, ...]]] = {
    "lightgbm": {"predict": _LIGHTGBM, "predict_proba": _LIGHTGBM},
    "lightgbm.Booster": {
        "predict": (*_FROM_TO, _RAW_SCORE, *_EXPLAINED, Argument("data_has_header"), *_THREADS)
    },
    "xgboost": {
        "predict": (_asks("output_margin", "raw_scores"), *_XGBOOST),
        "predict_proba": _XGBOOST,
        "apply": _XGBOOST[2:],
    },
    "xgboost.Booster": {
        "predict": (
            _asks("output_margin", "raw_scores"),
            _asks("pred_leaf", "apply"),
            _asks("pred_contribs", "contributions"),
            _stays("approx_contribs", False, instead=_EXACT),
            _asks("pred_interactions", "interactions"),
            _XGBOOST[0],
            _stays("training", False, instead=_EXACT),
            _XGBOOST[2],
            _stays("strict_shape", False, instead=_EXACT),
        )
    },
    "catboost": _CATBOOST | {"predict": _prediction_type(None)},
    "catboost.CatBoost": _CATBOOST | {"predict": _prediction_type()},
    "catboost.CatBoostClassifier": _CATBOOST | {"predict": _prediction_type("Class")},
    "catboost.CatBoostRanker": _CATBOOST | {"predict": _TREES[:4]},
    "sklearn": {"transform": (Argument("copy"),)},
    "sklearn.gaussian_process.GaussianProcessRegressor": {
        "predict": (_DEVIATION, _stays("return_cov", False, instead=_ROW_BY_ROW))
    },
    "sklearn.dummy.DummyRegressor": {"predict": (_DEVIATION,)},
    "sklearn.linear_model.BayesianRidge": {"predict": (_DEVIATION,)},
    "sklearn.linear_model.ARDRegression": {"predict": (_DEVIATION,)},
    "sklearn.tree": dict.fromkeys(("predict", "predict_proba", "apply", "decision_path"), _CHECKED),
    "sklearn.neighbors": {
        "kneighbors": (_stays("n_neighbors", None, instead=_FITTED), _DISTANCES),
        "radius_neighbors": (
            _stays("radius", None, instead=_FITTED),
            _DISTANCES,
            _stays("sort_results", False, instead=_EXACT),
        ),
    },
    "sklearn.cross_decomposition": {"predict": (Argument("copy"),)},
}
"""Arguments of methods in their order, by the class or the package that has them."""


def find_arguments(source: str, method: str) -> tuple[Argument, ...]:
    """Return the arguments of a method of a class, by its public dotted name.

    Examples
    --------
    >>> [known.name for known in find_arguments("sklearn.tree.ExtraTreeRegressor", "apply")]
    ['check_input']
    """
    parts = source.split(".")
    # The longest name first: a class may differ from its package.
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next(
        (ARGUMENTS[name][method] for name in names if method in ARGUMENTS.get(name, ())), ()
    )


def find_answers(
    graph: Graph, method: str, positional: tuple[Any, ...], named: Mapping[str, Any]
) -> Methods:
    """Find the methods that return what the source's method does with more arguments.

    Parameters
    ----------
    graph : Graph
        Of the model that is asked.
    method : str
    positional : tuple
        Arguments without names, in the source's order.
    named : mapping of str to object

    Returns
    -------
    tuple of str
        One, or two for a pair of answers.

    Raises
    ------
    ArgumentError
        The source has no such argument, or no method here answers as it asks.
    """
    asked: dict[str, Methods] = {}
    arguments = find_arguments(graph.traits.source, method)
    for argument, value in _pair(graph, method, arguments, positional, named):
        setting = f"{argument.name}={value!r:.50}"
        methods = argument.find_methods(value)
        if methods is None:
            raise ArgumentError(
                f"{_call(graph, method)} does not take {setting}. {argument.instead}"
            )
        for name in methods:
            _require_method(graph, method, setting, name)
        if methods:
            asked[setting] = methods
    if len(asked) > 1:
        raise ArgumentError(f"{_call(graph, method)} takes one of {' and '.join(asked)} at a time.")
    return next(iter(asked.values()), (method,))


def _pair(
    graph: Graph,
    method: str,
    arguments: tuple[Argument, ...],
    positional: tuple[Any, ...],
    named: Mapping[str, Any],
) -> list[tuple[Argument, Any]]:
    """Return each argument that has a value, with its value."""
    if len(positional) > len(arguments):
        names = ", ".join(argument.name for argument in arguments) or "nothing"
        raise ArgumentError(
            f"{_call(graph, method)} takes {names} beside the rows, and {len(positional)} more "
            f"argument{'s' * (len(positional) > 1)} came."
        )
    values = {argument.name: value for argument, value in zip(arguments, positional, strict=False)}
    for name in named:
        if name in values:
            raise ArgumentError(f"{_call(graph, method)} is given {name} twice.")
        if all(name != argument.name for argument in arguments):
            raise _refuse_unknown(graph, method, name, [argument.name for argument in arguments])
    values |= named
    return [(argument, values[argument.name]) for argument in arguments if argument.name in values]


def _call(graph: Graph, method: str) -> str:
    return f"{method} of this Model of {graph.traits.estimator or 'a graph'}"


def _refuse_unknown(graph: Graph, method: str, name: str, names: list[str]) -> ArgumentError:
    takes = f"It takes {', '.join(names)}." if names else "It takes rows alone."
    hint = guess(name, names)
    return ArgumentError(f"{_call(graph, method)} has no argument {name!r}.{hint} {takes}")


def _require_method(graph: Graph, method: str, setting: str, name: str) -> None:
    if name in graph.outputs:
        return
    why = graph.refused.get(
        name,
        f"Its methods are {', '.join(graph.outputs)}. The last step of a pipeline may have more "
        "where it is converted alone.",
    )
    raise ArgumentError(
        f"{_call(graph, method)} takes {setting} where it has {name}, and it has none. {why}"
    )
