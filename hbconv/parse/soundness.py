"""Check that what was parsed holds together, and is what the library left when fitting.

Each node must compute the width and dtype that it declares.
Fitted attributes must not contradict each other: the source model may read one of them, and a
parser the other.
Methods, and arrays of another kind, that were put on an estimator by hand are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    ArgMax,
    Cast,
    Choose,
    Compare,
    Concat,
    ConstantRows,
    Distances,
    Graph,
    Node,
    Output,
    Recode,
    SquaredDistances,
    topological,
    verify_graph,
)
from hbconv.containers.graph import MOST_ROW_VALUES, count_row_values
from hbconv.errors import ConversionError, HbconvError, UnsupportedError
from hbconv.names import METHODS
from hbconv.parse.class_names import FOREIGN, foreign_method, is_harmless, package
from hbconv.parse.damage import REPORT, damaged
from hbconv.parse.registry import libraries, own_libraries
from hbconv.tensor import Builder, verify_program

__all__ = [
    "MOST_NUMBERS",
    "refuse_handmade",
    "require_agreement",
    "require_labels",
    "require_order",
    "require_sound",
    "require_unlike",
    "without_wide",
]

_WAY_OUT = f"Fit or save it again, or undo what was changed by hand. {REPORT}"


def require_sound(graph: Graph) -> Graph:
    """Return the graph if each node, lowered alone, has the width and dtype that it declares.

    This finds constants of a wrong length, or that are not numbers, in a model changed by hand.
    It runs before rules narrow the constants, and also finds missing class labels.
    Methods on demand that are too wide are left out.

    Raises
    ------
    ConversionError
        Names the step.
    """
    graph = without_wide(graph)
    _require_narrow(graph)
    for node in topological(graph.roots):
        misfit = node.check()
        if misfit:
            raise _unfit(node, misfit)
        # Texts have no values in a program.
        if node.inputs and all(x.type.dtype != "string" for x in node.inputs):
            _require_typed(node)
    try:
        verify_graph(graph)
    except HbconvError as error:
        raise ConversionError(f"{error}. {_WAY_OUT}") from error
    for output in graph.outputs.values():
        require_labels(output)
    return graph


def _require_narrow(graph: Graph) -> None:
    """Refuse a graph that makes more numbers of a row than memory holds for a few rows."""
    nodes = topological(graph.roots)
    if count_row_values(nodes) <= MOST_ROW_VALUES:
        return
    widest = max(nodes, key=lambda node: node.type.width)
    raise ConversionError(
        f"{graph.traits.estimator or 'The model'} is too wide: {widest.name} makes "
        f"{widest.type.width:,} numbers of each row, and hbconv takes up to {MOST_ROW_VALUES:,} "
        f"in all. Fit it on fewer columns."
    )


def _require_typed(node: Node) -> None:
    b = Builder()
    inputs = (b.input(f"x{i}", x.type.dtype, x.type.width) for i, x in enumerate(node.inputs))
    try:
        result = node.lower(b, *inputs)
        verify_program(b.program({"made": result}))
    except UnsupportedError:
        raise
    # A constant that does not fit can fail anywhere in numpy.
    except Exception as error:
        raise _unfit(node, " ".join(str(error).split())[:200]) from error
    if isinstance(node, SquaredDistances | Distances) and not _has_squares(node.points.data):
        raise _misfit(
            node,
            "measures distances to points that are not finite, or too far for a number to hold",
        )
    if (result.dtype, result.shape) != (node.type.dtype, (node.type.width,)):
        raise _misfit(node, f"makes {result.type} where {node.type} is needed ({node.name})")


def _unfit(node: Node, why: str) -> ConversionError:
    reads = " and ".join(str(x.type.width) for x in node.inputs)
    return _misfit(
        node, f"does not fit the {reads or 'given'} columns that it reads ({node.name}: {why})"
    )


def _has_squares(points: npt.NDArray[Any]) -> bool:
    """Tell whether the squared length of each point is finite: it is a term of the distances."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.square(points, dtype=np.float64).sum(axis=-1)).all())


def require_labels(output: Output) -> None:
    """Refuse fewer class labels than an output has codes."""
    classes = output.classes
    if classes is None:
        return
    labels = (classes,) if isinstance(classes, Array) else classes
    for node, names in zip(_each(output.node, len(labels)), labels, strict=False):
        if not isinstance(names, Array):
            raise _misfit(output.node, f"has class labels of {type(names).__name__}, not of Array")
        if names.data.ndim != 1:
            raise _misfit(output.node, f"has class labels of shape {names.shape}")
        if _codes(node) > len(names):
            raise _misfit(
                output.node, f"distinguishes {_codes(node)} classes, but names {len(names)}"
            )


def _each(node: Node, labels: int) -> Sequence[Node]:
    """Return the nodes that give the codes of several labels, as far as is known."""
    if labels > 1 and isinstance(node, Concat):
        return node.xs
    if labels > 1 and isinstance(node, ConstantRows):
        return [replace(node, values=Array(node.values.data[[i]])) for i in range(len(node.values))]
    return (node,) * labels


def _codes(node: Node) -> int:
    """Count the codes that a node may give, as far as is known.

    Labels fewer than these would be read beyond their end. A condition gives none, and checks of
    the rows bound what is cast from floats.
    """
    if isinstance(node, Choose):
        return max(_codes(node.x), _codes(node.y))
    if isinstance(node, Cast) and node.x.type.dtype.startswith("float"):
        return 0
    if isinstance(node, Concat | Cast):
        return max(map(_codes, node.inputs))
    if isinstance(node, ArgMax):
        return node.x.type.width // node.groups
    if isinstance(node, Recode | ConstantRows):
        tables = node.tables if isinstance(node, Recode) else (node.values,)
        return max(int(table.data.max(initial=-1)) for table in tables) + 1
    return 2 if isinstance(node, Compare) else 0


def _misfit(node: Node, what: str) -> ConversionError:
    at = f" (step {node.step!r})" if node.step else ""
    return ConversionError(
        f"What {node.step.rpartition('/')[2] or 'the model'}{at} holds {what}. {_WAY_OUT}"
    )


MOST_NUMBERS = 1 << 24
"""Numbers of one row that a method on demand may return: 128 MB, 4,095 columns of interactions."""


def without_wide(graph: Graph) -> Graph:
    """Return the graph without the methods that are too wide, which it refuses with the reason.

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema
    >>> schema = Schema.matrix(3)
    >>> graph = Graph(schema, {"contributions": Output(Columns.of(schema), on_demand=True)})
    >>> without_wide(graph) is graph
    True
    """
    too_wide = {
        method: output.node.type.width
        for method, output in graph.outputs.items()
        if output.on_demand and output.node.type.width > MOST_NUMBERS
    }
    if not too_wide:
        return graph
    kept = {method: output for method, output in graph.outputs.items() if method not in too_wide}
    reasons = {
        method: f"This Model of {graph.traits.estimator} has no {method}: a row of them has "
        f"{width:,} numbers, and hbconv gives up to {MOST_NUMBERS:,}. Fit fewer columns, or ask "
        f"{' or '.join(kept)}."
        for method, width in too_wide.items()
    }
    return replace(graph, outputs=kept, refused={**graph.refused, **reasons})


Attributes = dict[str, Any]


def require_agreement(estimator: object, where: str, outputs: dict[str, Output]) -> None:
    """Refuse an estimator whose attributes count classes, outputs or columns differently.

    ``where`` is its place, as for ``damaged``; ``outputs`` are its methods as parsed.

    Raises
    ------
    ConversionError
        Names both attributes.
    """
    held = getattr(estimator, "__dict__", {})
    _refuse_first(estimator, where, chain(_output_counts(held), _class_counts(held), _shares(held)))
    require_unlike(estimator, where)
    _refuse_first(estimator, where, _encoder_labels(held))
    for output in outputs.values():
        require_labels(output)
    _refuse_first(estimator, where, chain(_column_counts(held, outputs), _member_counts(held)))


def require_unlike(estimator: object, where: str) -> None:
    """Refuse an estimator, or a member of one, whose classes are not distinct labels."""
    labels = getattr(estimator, "__dict__", {}).get("classes_")
    if not isinstance(labels, np.ndarray):
        return
    if labels.ndim != 1:
        raise damaged(estimator, where, f"classes_ has shape {labels.shape}")
    if len(set(labels.tolist())) != labels.size:
        raise damaged(estimator, where, f"classes_ holds a label twice: {labels[:9]}")


def require_order(estimator: object, where: str, classes: Any) -> None:
    """Refuse classes that do not ascend, where the source model does a binary search.

    NaN and None may be anywhere.
    """
    ordered = [label for label in classes.tolist() if label is not None and label == label]
    if ordered != sorted(ordered):
        raise damaged(
            estimator,
            where,
            "classes_ does not ascend, and the source model does a binary search in it",
        )


def _refuse_first(estimator: object, where: str, contradictions: Iterable[str]) -> None:
    for what in contradictions:
        raise damaged(estimator, where, what)


def _output_counts(held: Attributes) -> Iterator[str]:
    count = held.get("n_outputs_")
    if count is not None and not (isinstance(count, int | np.integer) and count > 0):
        yield f"n_outputs_={count!r:.30}, which is not a count"


def _class_counts(held: Attributes) -> Iterator[str]:
    yield from _unequal(held, "n_classes_", "classes_", _length(held.get("classes_")))


def _shares(held: Attributes) -> Iterator[str]:
    """Find numbers that are not probabilities; their sum may be any, since users give priors."""
    for name in ("priors_", "class_prior_"):
        shares = held.get(name)
        if isinstance(shares, np.ndarray) and not bool(np.all((shares >= 0) & np.isfinite(shares))):
            yield f"{name} holds numbers that are not probabilities: {shares[:9]}"


def _encoder_labels(held: Attributes) -> Iterator[str]:
    for name in ("_label_encoder", "le_"):
        labels = getattr(held.get(name), "classes_", None)
        if isinstance(labels, np.ndarray) and not np.array_equal(
            labels, held.get("classes_", labels)
        ):
            yield f"classes_ are not those of {name}"


def _column_counts(held: Attributes, outputs: dict[str, Output]) -> Iterator[str]:
    if "transform" in outputs and not outputs["transform"].widths:
        width = outputs["transform"].node.type.width
        # A discriminant counts the components that it may have, of which its rank leaves fewer.
        counts = () if "scalings_" in held else ("_n_features_out",)
        for name in (*counts, "n_output_features_", "n_features_out_"):
            yield from _unequal(held, name, "columns of transform", width)
    fitted = held.get("n_features_in_")
    yield from _unequal(held, "_n_features", "columns, by n_features_in_", fitted)


def _member_counts(held: Attributes) -> Iterator[str]:
    yield from _unequal(held, "n_samples_fit_", "entries of _y", _length(held.get("_y")))
    layers = _length(held.get("coefs_"))
    if layers is not None:
        yield from _unequal(held, "n_layers_", "layers of coefs_, with the input", layers + 1)
    members = _length(held.get("estimators_"))
    for name in ("estimator_weights_", "estimators_features_", "estimators_samples_"):
        count = _length(held.get(name))
        if members is not None and count is not None and count < members:
            yield f"{name} has {count} entries, for {members} estimators_"


def _unequal(held: Attributes, name: str, other: str, actual: int | None) -> Iterator[str]:
    """Compare a count with the number of other things found, where both are known."""
    count = held.get(name)
    if actual is None or count is None or np.ndim(count) > 0 or isinstance(count, list):
        return
    if not isinstance(count, int | np.integer) or int(count) != actual:
        yield f"{name}={count!r:.30}, but it has {actual} {other}"


def _length(value: Any) -> int | None:
    """Count the entries of a list, or of an array of one dimension or more."""
    has_length = isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim > 0)
    return len(value) if has_length else None


_SIGNED = frozenset(
    {
        "coef_",
        "mean_",
        "var_",
        "scale_",
        "center_",
        "components_",
        "centroids_",
        "cluster_centers_",
        "min_",
        "theta_",
        "support_vectors_",
    }
)
"""Fitted attributes that are arrays of floats wherever they are."""
_MASKS = frozenset({"_is_empty_feature", "_mask_fit_X", "_valid_mask"})
"""Fitted attributes that are arrays of bools wherever they are."""
_ARRAYS = frozenset({
    "_baseline_prediction", "bin_edges_", "bitHash_", "center_", "centroids_", "class_log_prior_",
    "class_prior_", "cluster_centers_", "code_book_", "coef_", "components_", "constant_",
    "degrees_of_freedom_", "dist_matrix_", "_distances_fit_X_", "_dual_coef_", "dual_coef_",
    "eigenvalues_", "eigenvectors_", "embedding_", "estimator_weights_",
    "exp_dirichlet_component_", "explained_variance_", "features_", "_fit_X", "idf_",
    "indexHash_", "_intercept_", "intercept_", "intercept_hidden_", "is_categorical_",
    "_is_empty_feature", "K_fit_rows_", "L_", "label_distributions_", "labels_", "lambdas_",
    "location_", "_lrd", "_mask_fit_X", "_max_value", "mean_", "mean_precision_", "means_",
    "min_", "_min_value", "n_bins_", "_n_support", "noise_variance_", "normalization_", "offset_",
    "pi_", "precision_", "precisions_cholesky_", "priors_", "_probA", "_probB", "quantiles_",
    "random_offset_", "random_weights_", "references_", "scale_", "statistics_",
    "subcluster_centers_", "subcluster_labels_", "_subcluster_norms", "support_",
    "support_vectors_", "theta_", "_valid_mask", "var_", "W_sr_", "within_class_std_dev_", "X_",
    "X_fit_", "_X_mean", "_x_mean", "x_rotations_", "_x_std", "X_thresholds_", "X_train_",
    "x_weights_", "xbar_", "_y", "y_thresholds_", "y_train_", "_y_train_mean", "_y_train_std",
})  # fmt: skip
"""Fitted attributes that are arrays wherever they are, and that parsers read.

Of a list the source model computes something else, or fails."""

_METHODS: dict[type, frozenset[str]] = {}
_PLAIN = (bool, int, float, str, bytes, complex, np.generic, type(None))


def refuse_handmade(estimator: object) -> None:
    """Refuse methods replaced on an instance or its class, and lists in place of fitted arrays.

    The estimator and everything that it holds are searched.
    Parsers read what the library wrote.

    Raises
    ------
    UnsupportedError
        Names the object, and the method.
    """
    seen: set[type] = set()
    for path, part in _parts(estimator):
        if type(part) not in seen:
            seen.add(type(part))
            _refuse_foreign_methods(type(part), path)
        _refuse_own_methods(part, path)
        require_unlike(part, path)
        _refuse_other_arrays(part, path)


def _refuse_foreign_methods(cls: type, path: str) -> None:
    """Refuse a class of a library in which something else put methods of its own."""
    foreign = foreign_method(cls, METHODS, own_libraries())
    if foreign is None:
        return
    method, writer = foreign
    way_out = FOREIGN.get(writer) or (
        f"Undo what {writer} put in the place of the library's {method}, and convert again."
    )
    hint = f"Its {method} is a method of {writer}, and hbconv reads only the library's. {way_out}"
    raise UnsupportedError(cls.__name__, path, hint=hint)


def _refuse_own_methods(part: object, path: str) -> None:
    cls = type(part)
    attributes = getattr(part, "__dict__", {})
    for name in sorted(_methods(cls) & attributes.keys()):
        if not callable(attributes[name]) or getattr(attributes[name], "__func__", None) is getattr(
            cls, name
        ):
            # A result where the class computes it, or the method of the class, bound.
            continue
        hint = (
            f"It replaces {name} of the class, and hbconv reads only the class. Delete it, or "
            "write a subclass with a parser of its own (docs/adding.md)."
        )
        raise UnsupportedError(cls.__name__, path, name, attributes[name], hint)


def _refuse_other_arrays(part: object, path: str) -> None:
    """Refuse lists, and arrays of a dtype that fitting never leaves, in place of fitted arrays."""
    cls = type(part)
    attributes = getattr(part, "__dict__", {})
    for name in sorted(_ARRAYS & attributes.keys()):
        if isinstance(attributes[name], list) and not _is_of_targets(name, attributes[name]):
            hint = (
                "It is a list, and the source model needs an array. Make a numpy array of it, "
                "or fit again."
            )
            raise UnsupportedError(cls.__name__, path, name, attributes[name][:3], hint)
        if isinstance(attributes[name], np.ndarray) and (
            hint := _strange(name, attributes[name].dtype)
        ):
            raise UnsupportedError(cls.__name__, path, name, attributes[name].dtype.name, hint)


def _is_of_targets(name: str, held: list[Any]) -> bool:
    """Whether it holds an array for each target, as DummyClassifier keeps its priors."""
    return name == "class_prior_" and all(isinstance(prior, np.ndarray) for prior in held)


def _strange(name: str, dtype: np.dtype[Any]) -> str:
    """Say why an array's dtype is not one that fitting leaves; empty where it is one."""
    if name in _SIGNED and dtype.kind in "bu":
        return "It is an array of bool or unsigned int, which fitting never leaves. Fit again."
    if name in _MASKS and dtype.kind != "b":
        return (
            "It is not an array of bool, and the source model takes numbers for positions. "
            "Fit again."
        )
    return ""


def _parts(whole: object) -> Iterator[tuple[str, object]]:
    """Yield an object and every object of a registered library that it holds, with its place."""
    seen: set[int] = set()
    # Objects of hbconv's own were read from files, or converted before.
    registered = libraries() - {"hbconv"}
    waiting: list[tuple[str, Any]] = [(type(whole).__name__, whole)]
    while waiting:
        path, held = waiting.pop()
        # By id, since estimators need not be hashable, and may hold each other.
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, list | tuple | Mapping) or (
            isinstance(held, np.ndarray) and held.dtype.hasobject
        ):
            waiting += [(f"{path}[{key!r}]", value) for key, value in _items(held)]
        elif held is whole or (hasattr(held, "__dict__") and package(type(held)) in registered):
            yield path, held
            waiting += [
                (f"{path}.{name}", value)
                for name, value in getattr(held, "__dict__", {}).items()
                if not isinstance(value, _PLAIN)
            ]


def _items(held: Any) -> Iterable[tuple[Any, Any]]:
    """List what a collection holds; nothing where its first value is plain.

    Such collections hold nothing else, and may be large.
    """
    flat = held.ravel() if isinstance(held, np.ndarray) else held
    first = next(iter(flat.values() if isinstance(flat, Mapping) else flat), None)
    if isinstance(first, _PLAIN) and not isinstance(held, tuple):
        return ()
    return flat.items() if isinstance(flat, Mapping) else enumerate(flat)


def _methods(cls: type) -> frozenset[str]:
    """Return the names of a class's methods that outputs depend on."""
    if cls not in _METHODS:
        _METHODS[cls] = _read_methods(cls)
    return _METHODS[cls]


def _read_methods(cls: type) -> frozenset[str]:
    named = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
    return frozenset(
        n
        for n, v in named.items()
        if hasattr(v, "__get__") and not hasattr(v, "__set__") and not is_harmless(n)
    )
