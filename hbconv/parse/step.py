"""Step: what a parser is given: one estimator, the node it reads, and its place."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hbconv.containers import (
    ByForm,
    Check,
    Columns,
    IsNonFinite,
    Node,
    Output,
    at_step,
)
from hbconv.containers.moved_columns import concat, select
from hbconv.errors import ConversionError, HbconvError, NotFittedError, UnsupportedError
from hbconv.names import ARGUMENT_METHODS, METHODS
from hbconv.parse.common.versions import has_tags, takes_sparse, version_fitted_by
from hbconv.parse.damage import damaged, reading_estimator
from hbconv.parse.registry import Entry, find_entry, find_parser
from hbconv.parse.soundness import require_agreement

__all__ = ["Conditions", "Step", "concat", "is_fitted", "parse_step", "require_fitted", "select"]


@dataclass
class Conditions:
    """Collect the conditions on the rows that all steps of one conversion find.

    Parameters
    ----------
    checks : list of Check
        Rows that the source model refuses.
    warnings : list of Check
        Rows of which the source model warns.
    why_dense : str
        First reason to refuse a sparse matrix; empty where one is taken.
    refused : dict of str to str
        Methods of the outermost estimator that are refused while others are predicted, and why.
    without_na : dict of int to str
        Columns of the input in which the source model raises at ``pandas.NA``, and why.
    """

    checks: list[Check] = field(default_factory=list)
    warnings: list[Check] = field(default_factory=list)
    why_dense: str = ""
    refused: dict[str, str] = field(default_factory=dict)
    without_na: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One estimator under parsing.

    Parameters
    ----------
    estimator : object
        The fitted estimator.
    x : Node
        What it reads, of shape (n_rows, n_features).
    path : str
        Path of the steps around it, such as ``"prep/num"``.
    x_sparse : bool or None
        Whether the source model passes x to this estimator as a sparse matrix.
        None: it does where the user's rows are one.
    iterations : tuple of int, or None
        First and last (not included) boosting stage that the user asks for.
        Never set for inner estimators.
    conditions : Conditions
        Conditions on the rows, shared by all steps of one conversion.
    categories : frozenset of int
        Columns of the schema that rows given by the user hold as categories.
    kinds : mapping of str to str
        What each column of these rows holds, by its name: see ``column_kinds``.
    """

    estimator: Any
    x: Node
    path: str = ""
    x_sparse: bool | None = False
    iterations: tuple[int, int] | None = None
    conditions: Conditions = field(default_factory=Conditions)
    categories: frozenset[int] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def known_categories(self) -> tuple[int, ...]:
        """Positions in x of the columns that rows given by the user hold as categories."""
        columns = self.x.columns if isinstance(self.x, Columns) else ()
        return tuple(i for i, column in enumerate(columns) if column in self.categories)

    @property
    def name(self) -> str:
        """Return the class name of the estimator."""
        return type(self.estimator).__name__

    @property
    def where(self) -> str:
        """Return the path with the class name at its end: the step of the nodes made here."""
        return f"{self.path}/{self.name}" if self.path else self.name

    @property
    def place(self) -> str:
        """Return the step as messages name it."""
        return f"step {self.where!r}"

    def refuse(self, parameter: str | None, value: object, hint: str) -> UnsupportedError:
        """Return the error that refuses a parameter; the caller raises it."""
        return UnsupportedError(self.name, self.where, parameter, value, hint)

    def refuse_method(self, method: str, parameter: str, value: object, hint: str) -> None:
        """Refuse a parameter where one method is asked; the others are answered."""
        self.conditions.refused[method] = str(self.refuse(parameter, value, hint))

    def damaged(self, what: str) -> ConversionError:
        """Return the error that refuses contradicting fitted attributes; the caller raises it."""
        return damaged(self.estimator, self.place, what)

    def require(self, parameter: str, *allowed: object) -> Any:
        """Return the estimator's parameter if it is one of the allowed values, else refuse it."""
        value = getattr(self.estimator, parameter)
        # Types must agree: 1 == True, and an array compares entry by entry.
        if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
            raise self.refuse(parameter, value, f"hbconv handles {', '.join(map(repr, allowed))}.")
        return value

    def check(self, node: Node, message: str) -> None:
        """Refuse rows where the bool node is True."""
        self.conditions.checks.append(Check(node, message, self.where))

    def check_every(self, node: Node, message: str) -> None:
        """Refuse rows if the bool node is True in all of them."""
        self.conditions.checks.append(Check(node, message, self.where, every=True))

    def check_sparse(self, node: Node, message: str) -> None:
        """Refuse rows where the bool node is True, if x is a sparse matrix."""
        if self.x_sparse is not False:
            self.conditions.checks.append(
                Check(node, message, self.where, sparse_only=self.x_sparse is None)
            )

    def refuse_sparse(self, why: str = "takes no sparse matrix") -> None:
        """Refuse a sparse matrix as input where x would be one, and x that always is one."""
        if self.x_sparse:
            way_out = "Make the step before it return an array."
            raise self.refuse(None, None, f"It is given a sparse matrix, and {why}. {way_out}")
        if self.x_sparse is None:
            self.require_dense(why)

    def require_dense(self, why: str, way_out: str = "Give X.toarray().") -> None:
        """Refuse a sparse matrix as input; the first reason is the one reported."""
        reason = f"{self.name} (step {self.where!r}) {why}. {way_out}"
        self.conditions.why_dense = self.conditions.why_dense or reason

    def by_form(self, dense: Node, sparse: Node) -> Node:
        """Return what the source model computes of a dense x, or of a sparse x."""
        if self.x_sparse is None and dense != sparse:
            return ByForm(dense, sparse)
        return sparse if self.x_sparse else dense

    def warn(self, node: Node, message: str) -> None:
        """Warn of rows where a column of the bool node is True.

        ``{columns}`` in the message is replaced by the positions of these columns.
        """
        self.conditions.warnings.append(Check(node, message, self.where))

    def require_finite(self, x: Node | None = None, *, allow_nan: bool = False) -> Node:
        """Refuse infinite values and, unless allowed, NaN, as scikit-learn does; return x."""
        node = self.x if x is None else x
        if node.type.dtype == "string":
            return node
        what = (
            "infinity or a value too large" if allow_nan else "NaN, infinity or a value too large"
        )
        self.check(
            IsNonFinite(node, allow_nan),
            f"Input X contains {what} for {self.name} (step {self.where!r}), which refuses it.",
        )
        return node

    def child(
        self, estimator: object, x: Node, name: str, *, x_sparse: bool | None = False
    ) -> dict[str, Output]:
        """Parse an inner estimator that reads x; ``name`` is its part of the path.

        What computes another x refuses no rows, before the inner estimator reads them.
        """
        path = "/".join(p for p in (self.path, name) if p)
        inner = replace(
            self, estimator=estimator, x=x, path=path, x_sparse=x_sparse, iterations=None
        )
        outputs = parse_step(inner)
        if x is self.x:
            return outputs
        return {method: replace(output, of_no_rows=None) for method, output in outputs.items()}

    def over(self, estimator: object, x: Node) -> Step:
        """Return the step of an estimator in the same place that reads x, which is no matrix."""
        return replace(self, estimator=estimator, x=x, x_sparse=False, iterations=None)

    def like(self, name: str) -> dict[str, Output]:
        """Parse the estimator as the class of another public dotted name.

        The estimator must have the methods and fitted attributes of that class.
        """
        return _run_parser(find_entry(name), self)

    def transform(self, estimator: object, x: Node, name: str) -> Node:
        """Parse an inner transformer and return the node of its ``transform``."""
        return self.transform_output(estimator, x, name).node

    def transform_output(
        self, estimator: object, x: Node, name: str, *, x_sparse: bool | None = False
    ) -> Output:
        """Parse an inner transformer and return the Output of its ``transform``."""
        outputs = self.child(estimator, x, name, x_sparse=x_sparse)
        if "transform" not in outputs:
            refused = self.conditions.refused.get("transform")
            raise UnsupportedError(
                type(estimator).__name__,
                f"{self.path}/{name}",
                hint=refused or "A step before the last needs a transform method.",
            )
        return outputs["transform"]


def parse_step(step: Step) -> dict[str, Output]:
    """Find the parser of a step's estimator and run it.

    A parser that returns a bare node gives ``transform``.
    """
    entry = find_parser(step.estimator, step.where)
    require_fitted(step.estimator, step.where)
    with at_step(step.where):
        outputs = _run_parser(entry, step)
    if not (
        step.conditions.why_dense or entry.takes_sparse or _takes_sparse(step.estimator, entry)
    ):
        step.refuse_sparse()
    return outputs


@contextmanager
def _naming_missing_attributes(step: Step) -> Iterator[None]:
    """Name the fitted attribute that an estimator lacks though it counts as fitted."""
    try:
        yield
    except AttributeError as error:
        # Fitted attributes end in an underscore; others are defects of the parser.
        is_fitted_one = error.obj is step.estimator and str(error.name).endswith("_")
        if not is_fitted_one or version_fitted_by(step.estimator):
            raise
        hint = (
            f"It has no attribute {error.name!r}. Call fit before converting it, with the version "
            "of its library that is installed."
        )
        raise NotFittedError(
            f"{step.name} (step {step.where!r}) is not fitted as scikit-learn leaves it. {hint}"
        ) from error


@contextmanager
def _naming_third_party(entry: Entry, step: Step) -> Iterator[None]:
    """Name the parser of a third party that fails."""
    try:
        yield
    except HbconvError:
        raise
    # The code of a third party may raise anything.
    except Exception as error:
        if entry.is_own:
            raise
        parser = f"{entry.parse.__module__}.{entry.parse.__qualname__}"
        raise ConversionError(
            f"{step.name} ({step.place}) is read by {parser}, which raised "
            f"{type(error).__name__}: {error}. Fix that parser."
        ) from error


def _takes_sparse(estimator: Any, entry: Entry) -> bool:
    """Tell whether scikit-learn's tags say that an estimator takes a sparse matrix."""
    return not entry.name.startswith("sklearn.") or takes_sparse(estimator)


def _run_parser(entry: Entry, step: Step) -> dict[str, Output]:
    """Run a parser and check what it returns, since a wrong value would fail far from here."""
    with (
        reading_estimator(step.estimator, step.where),
        _naming_third_party(entry, step),
        _naming_missing_attributes(step),
    ):
        parsed: object = entry.parse(step)
    outputs = {"transform": Output(parsed)} if isinstance(parsed, Node) else parsed
    if not isinstance(outputs, dict) or not outputs:
        raise ConversionError(
            f"The parser of {entry.name} returned {parsed!r}; it must return a Node, or a "
            "dict of Outputs by method."
        )
    for method, output in outputs.items():
        if method not in (*METHODS, *ARGUMENT_METHODS):
            raise ConversionError(
                f"The parser of {entry.name} returned a method {method!r}; hbconv knows "
                f"{', '.join(METHODS)}."
            )
        if not isinstance(output, Output):
            raise ConversionError(
                f"The parser of {entry.name} returned {type(output).__name__} for {method}; "
                "it must be an Output, such as Output(node)."
            )
    require_agreement(step.estimator, step.place, outputs)
    return outputs


def require_fitted(estimator: object, path: str) -> None:
    """Raise NotFittedError for an estimator that must be fitted and is not."""
    judge = find_parser(estimator, path).is_fitted
    if not (is_fitted(estimator) or (judge is not None and judge(estimator))):
        raise NotFittedError(
            f"{type(estimator).__name__} (step {path!r}) is not fitted. Call fit before "
            "converting it."
        )


def is_fitted(estimator: Any) -> bool:
    """Tell whether an estimator is fitted, by its own ``is_fitted`` or by scikit-learn's check."""
    if callable(getattr(estimator, "is_fitted", None)):
        return bool(estimator.is_fitted())
    # An estimator of scikit-learn has loaded it; hbconv imports no library here.
    validation = sys.modules.get("sklearn.utils.validation")
    if validation is None or not (has_tags(estimator) and hasattr(estimator, "fit")):
        return True
    try:
        validation.check_is_fitted(estimator)
    except sys.modules["sklearn.exceptions"].NotFittedError:
        return False
    return True
