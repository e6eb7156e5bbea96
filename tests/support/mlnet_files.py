"""Graphs in the form that ML.NET's SaveAsOnnx writes, built by hand: an input for each column.

Every column of the last table is an output, also those that no step changed. Keys are uint32
from 1 on, with 0 for a value that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_trees as trees
from onnx import ModelProto, TensorProto, helper, numpy_helper

__all__ = ["MODELS", "feeds"]

ML = "ai.onnx.ml"
COLOURS = ("red", "green", "blue")
COLUMNS: dict[str, tuple[int, int]] = {
    "Age": (TensorProto.FLOAT, 1), "Colour": (TensorProto.STRING, 1), "Member": (TensorProto.BOOL, 1),
    "Visits": (TensorProto.INT64, 1), "Rooms": (TensorProto.UINT8, 1), "Sizes": (TensorProto.FLOAT, 3),
    "Label": (TensorProto.STRING, 1),
}  # fmt: skip
"""Element type and width of each column; the label is no use to the model, and asked for."""


def feeds(n_rows: int = 40) -> dict[str, Any]:
    """Return a row of each column under its name, as onnxruntime takes them."""
    rng = np.random.default_rng(5)
    age = rng.normal(40, 12, (n_rows, 1)).astype(np.float32)
    age[::6] = np.nan
    return {
        "Age": age,
        "Colour": rng.choice([*COLOURS, "violet", ""], (n_rows, 1)).astype(object),
        "Member": rng.random((n_rows, 1)) < 0.5,
        "Visits": rng.integers(-3, 9, (n_rows, 1)),
        "Rooms": rng.integers(0, 256, (n_rows, 1)).astype(np.uint8),
        "Sizes": rng.choice(trees.THRESHOLDS, (n_rows, 3)).astype(np.float32),
        "Label": rng.choice(["yes", "no"], (n_rows, 1)).astype(object),
    }


class Pipeline:
    """The steps so far; each method appends the operators of a transformer of ML.NET."""

    def __init__(self, columns: Sequence[str] = tuple(COLUMNS)) -> None:
        self.columns = list(columns)
        self.now = {name: name for name in columns}
        self.nodes: list[Any] = []
        self.stored: list[Any] = []

    def add(self, kind: str, inputs: Sequence[str], domain: str = "", **attributes: Any) -> str:
        """Append an operator, and return the name of its output."""
        return self.several(kind, inputs, 1, domain, **attributes)[0]

    def several(
        self, kind: str, inputs: Sequence[str], outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Append an operator of several outputs."""
        made = [f"{kind}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, made, domain=domain, **attributes))
        return made

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Store a constant."""
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def cast(self, source: str, to: int) -> str:
        """ConvertType."""
        return self.add("Cast", [source], to=to)

    def impute(self, column: str, value: float) -> None:
        """ReplaceMissingValues."""
        attributes = {"imputed_value_floats": [value], "replaced_value_float": float("nan")}
        self.now[column] = self.add("Imputer", [self.now[column]], ML, **attributes)

    def keys(self, column: str, known: Sequence[str]) -> None:
        """MapValueToKey."""
        found = self.add(
            "LabelEncoder", [self.now[column]], ML, keys_strings=list(known),
            values_int64s=list(range(1, len(known) + 1)), default_int64=0,
        )  # fmt: skip
        self.now[column] = self.cast(found, TensorProto.UINT32)

    def one_hot(self, column: str, known: Sequence[str]) -> None:
        """OneHotEncoding: keys become vectors."""
        self.keys(column, known)
        key = self.cast(self.now[column], TensorProto.INT64)
        hot = self.add(
            "OneHotEncoder", [key], ML, cats_int64s=list(range(1, len(known) + 1)), zeros=1
        )
        axes = self.constant([1], np.int64)
        self.now[column] = self.add("ReduceSum", [hot, axes], keepdims=0)

    def concatenate(self) -> str:
        """Concatenate all but the label into Features."""
        floats = [
            self.cast(self.now[name], TensorProto.FLOAT) for name in self.columns if name != "Label"
        ]
        self.now["Features"] = self.add("Concat", floats, axis=1)
        return self.now["Features"]

    def trees(self, seed: int, features: str) -> str:
        """FastTree: regression trees over the features."""
        grown = trees.nodes(seed, 5, ("BRANCH_LEQ",))
        values = trees.weights(grown, "target", lambda _: [0], seed)
        return self.add(
            "TreeEnsembleRegressor", [features], ML, n_targets=1, post_transform="NONE",
            **grown, **values,
        )  # fmt: skip

    def platt(self, score: str) -> str:
        """PlattCalibrator."""
        scaled = self.add("Mul", [score, self.constant([-1.5])])
        shifted = self.add("Add", [scaled, self.constant([0.25])])
        return self.add("Sigmoid", [self.add("Neg", [shifted])])

    def model(self, **types: int) -> ModelProto:
        """Return the file: each column is passed on under its name with ``.output``."""
        given = [
            helper.make_tensor_value_info(name, COLUMNS[name][0], [None, COLUMNS[name][1]])
            for name in self.columns
        ]
        for name, source in self.now.items():
            self.nodes.append(helper.make_node("Identity", [source], [f"{name}.output"]))
        made = [
            helper.make_tensor_value_info(f"{name}.output", types.get(name, 1), None)
            if name in types or name not in COLUMNS
            else helper.make_tensor_value_info(f"{name}.output", COLUMNS[name][0], None)
            for name in self.now
        ]
        graph = helper.make_graph(self.nodes, "model", given, made, self.stored)
        opsets = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 2)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="ML.NET")


def _featurized() -> Pipeline:
    steps = Pipeline()
    steps.impute("Age", 41.5)
    steps.one_hot("Colour", COLOURS)
    features = steps.concatenate()
    n_features = len(COLUMNS) - 2 + 2 + len(COLOURS)
    scale = (np.arange(n_features) % 5 + 1) / 4
    steps.now["Features"] = steps.add(
        "Scaler", [features], ML, offset=np.linspace(-1, 1, n_features), scale=scale
    )
    return steps


def binary() -> ModelProto:
    """FastTree with Platt's calibration."""
    steps = _featurized()
    score = steps.trees(2, steps.now["Features"])
    above = steps.add("Binarizer", [score], ML, threshold=0.0)
    steps.now["PredictedLabel"] = steps.cast(above, TensorProto.BOOL)
    steps.now["Score"] = score
    steps.now["Probability"] = steps.platt(score)
    return steps.model(PredictedLabel=TensorProto.BOOL, Colour=TensorProto.FLOAT)


def regression() -> ModelProto:
    """FastForest: the scores of trees, averaged."""
    steps = _featurized()
    scores = [steps.trees(seed, steps.now["Features"]) for seed in (3, 4)]
    total = steps.add("Sum", scores)
    steps.now["Score"] = steps.add("Div", [total, steps.constant(2.0)])
    return steps.model(Colour=TensorProto.FLOAT)


def classes() -> ModelProto:
    """SdcaMaximumEntropy; the label is a key that becomes the text again."""
    steps = _featurized()
    steps.keys("Label", ("no", "yes", "perhaps"))
    n_features = len(COLUMNS) - 2 + 2 + len(COLOURS)
    weights = np.random.default_rng(0).normal(0, 0.1, (3, n_features))
    _, score = steps.several(
        "LinearClassifier", [steps.now["Features"]], 2, ML, classlabels_ints=[0, 1, 2],
        coefficients=weights.ravel(), intercepts=[0.1, 0.0, -0.1], multi_class=1,
        post_transform="SOFTMAX",
    )  # fmt: skip
    steps.now["Score"] = score
    place = steps.add("ArgMax", [score], axis=1, keepdims=1)
    key = steps.cast(steps.add("Add", [place, steps.constant(1, np.int64)]), TensorProto.UINT32)
    steps.now["PredictedLabel"] = steps.add(
        "LabelEncoder", [steps.cast(key, TensorProto.INT64)], ML, keys_int64s=[1, 2, 3],
        values_strings=["no", "yes", "perhaps"],
    )  # fmt: skip
    types = {"Label": TensorProto.UINT32, "PredictedLabel": TensorProto.STRING}
    return steps.model(Colour=TensorProto.FLOAT, **types)


def one_versus_all() -> ModelProto:
    """OneVersusAll over trees: calibrated scores of each class, divided by their sum."""
    steps = _featurized()
    parts = [steps.platt(steps.trees(seed, steps.now["Features"])) for seed in (5, 6, 7)]
    joined = steps.add("Concat", parts, axis=1)
    total = steps.add("ReduceSum", [joined, steps.constant([1], np.int64)], keepdims=1)
    steps.now["Score"] = steps.add("Div", [joined, total])
    place = steps.add("ArgMax", [steps.now["Score"]], axis=1, keepdims=1)
    one = steps.constant([1], np.int64)
    steps.now["PredictedLabel"] = steps.cast(steps.add("Add", [place, one]), TensorProto.UINT32)
    return steps.model(Colour=TensorProto.FLOAT, PredictedLabel=TensorProto.UINT32)


def clusters() -> ModelProto:
    """KMeans over normalized sizes: squared distances, and the key of the least."""
    steps = Pipeline(["Sizes"])
    x = steps.add("LpNormalization", ["Sizes"], p=2, axis=1)
    centres = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    product = steps.add("Gemm", [x, steps.constant(centres.T)], alpha=-2.0)
    lengths = steps.add("ReduceSumSquare", [x], axes=[1], keepdims=1)
    own = steps.constant((centres**2).sum(axis=1))
    steps.now["Score"] = steps.add("Add", [steps.add("Add", [product, lengths]), own])
    place = steps.add("ArgMin", [steps.now["Score"]], axis=1, keepdims=1)
    key = steps.add("Add", [place, steps.constant([1], np.int64)])
    steps.now["PredictedLabel"] = steps.cast(key, TensorProto.UINT32)
    return steps.model(PredictedLabel=TensorProto.UINT32)


def components() -> ModelProto:
    """Missing values told apart, one slot dropped, then a projection to principal components."""
    steps = Pipeline(["Age", "Sizes"])
    missing = steps.cast(steps.add("IsNaN", ["Age"]), TensorProto.FLOAT)
    steps.impute("Age", 0.0)
    kept = steps.add("ArrayFeatureExtractor", ["Sizes", steps.constant([0, 2], np.int64)], ML)
    joined = steps.add(
        "FeatureVectorizer", [steps.now["Age"], missing, kept], ML, inputdimensions=[1, 1, 2]
    )
    axes = np.random.default_rng(2).normal(size=(4, 2)).astype(np.float32)
    projected = steps.add("MatMul", [joined, steps.constant(axes)])
    steps.now["Components"] = steps.add("Sub", [projected, steps.constant([0.5, -0.5])])
    return steps.model()


MODELS = {
    each.__name__: each
    for each in (binary, regression, classes, one_versus_all, clusters, components)
}
