"""XGBoost's model files, of JSON, UBJSON and the old binary, read without xgboost.

XGBoost's old binary files, which versions before 3.1 wrote, in the form of its JSON.

They are structs of C++ one after another: parameters, the names of objective and booster, trees.

UBJSON (universal binary JSON), the format of XGBoost's ``.ubj`` files.

Numbers are big-endian; typed arrays become numpy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import current_step
from hbconv.errors import ConversionError, UnsupportedError
from hbconv.files import is_old_xgboost
from hbconv.parse.checks.damage import counted, decode_json
from hbconv.parse.common.struct_reader import StructReader
from hbconv.parse.xgboost.trees import LINKS, XGBoostTrees, base_scores, margins, read_trees

__all__ = ["XGBoostLinear", "XGBoostModel", "decode_ubjson", "read_xgboost_bytes"]

Floats = npt.NDArray[np.float32]
Categories = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True)
class XGBoostLinear:
    """The booster gblinear: weights (n_features, n_outputs) and bias (n_outputs,)."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class XGBoostModel:
    """The content of a model file.

    Parameters
    ----------
    booster : XGBoostTrees or XGBoostLinear
    margin : array of float32, shape (n_outputs,)
        What the sums start from.
    objective : str
        Such as ``"binary:logistic"``.
    names : tuple of str
        Feature names, empty where the training data had none.
    n_features : int
        Width of the input.
    categories : tuple
        For each feature the values that the codes 0, 1... stand for; empty where unknown.
        The whole tuple is empty where no feature's are known.
    best_iteration : int or None
        The last boosting iteration that wrappers predict by; None: the last that there is.
    """

    booster: XGBoostTrees | XGBoostLinear
    margin: Floats
    objective: str
    names: tuple[str, ...]
    n_features: int
    categories: tuple[Categories, ...]
    best_iteration: int | None = None


def read_xgboost_bytes(data: bytes) -> XGBoostModel:
    """Read what ``Booster.save_model`` writes, as JSON or UBJSON, or wrote before 3.1.

    What pickles hold of a Booster has the model beside its configuration.

    Raises
    ------
    ConversionError
        Not an XGBoost model, or a damaged one.
    UnsupportedError
        A file format, booster or objective that hbconv has no exact form for.
    """
    if is_old_xgboost(data):
        return _model(read_old_binary(data), len(data))
    document = _decode(data)
    return _model(document.get("Model", document)["learner"], len(data))


def _decode(data: bytes) -> Any:
    """Decode JSON or UBJSON.

    After the first brace JSON has a quote or white space, UBJSON the length of a key.
    """
    return (
        decode_json(data) if data[1:2] in (b'"', b" ", b"\n", b"\r", b"\t") else decode_ubjson(data)
    )


def _model(learner: Mapping[str, Any], n_bytes: int) -> XGBoostModel:
    booster = learner["gradient_booster"]
    param = learner["learner_model_param"]
    objective = learner["objective"]["name"]
    if objective not in LINKS:
        raise _refusal("objective", objective, f"hbconv handles {', '.join(LINKS)}.")
    if booster["name"] not in _BOOSTERS:
        raise _refusal("booster", booster["name"], f"hbconv handles {', '.join(_BOOSTERS)}.")
    n_features = counted("num_feature", param["num_feature"], n_bytes)
    n_classes = counted("num_class", param["num_class"], n_bytes)
    n_outputs = max(n_classes, counted("num_target", param.get("num_target", 1), n_bytes), 1)
    scores = base_scores(param["base_score"])
    margin = np.broadcast_to(
        margins(scores, objective) if _linked(booster, param) else scores, (n_outputs,)
    )
    cats = booster.get("gbtree", booster)["model"].get("cats", {})
    names = tuple(learner.get("feature_names", ()))
    categories = tuple(map(_categories, cats.get("enc", ())))
    if len(names) not in (0, n_features) or len(categories) not in (0, n_features):
        raise ConversionError(
            f"The XGBoost model is damaged: {len(names)} names and {len(categories)} lists of "
            f"categories for {n_features} features."
        )
    return XGBoostModel(
        _BOOSTERS[booster["name"]](booster, n_features, n_outputs),
        margin,
        objective,
        names,
        n_features,
        categories,
        _best_iteration(learner),
    )


def _best_iteration(learner: Mapping[str, Any]) -> int | None:
    best = learner.get("attributes", {}).get("best_iteration")
    return None if best is None else int(best)


def _refusal(parameter: str, value: object, hint: str) -> UnsupportedError:
    return UnsupportedError("XGBoost", current_step(), parameter, value, hint)


def _linked(booster: Mapping[str, Any], param: Mapping[str, Any]) -> bool:
    """Tell whether base scores go through the link of the objective.

    Scores that were to be estimated do not, where no stage was boosted.
    Neither do those of the versions before 1, which wrote them behind the link.
    """
    if param.get("major_version") == "0":
        return False
    model = booster.get("gbtree", booster)["model"]
    boosted = len(model["trees"]) if "trees" in model else int(model.get("boosted_rounds", 1))
    return boosted > 0 or param.get("boost_from_average", "0") == "0"


def _gbtree(booster: Mapping[str, Any], n_features: int, n_outputs: int) -> XGBoostTrees:
    return read_trees(booster["model"], None, n_features, n_outputs)


def _dart(booster: Mapping[str, Any], n_features: int, n_outputs: int) -> XGBoostTrees:
    return read_trees(
        booster["gbtree"]["model"],
        np.asarray(booster["weight_drop"], np.float32),
        n_features,
        n_outputs,
    )


def _gblinear(booster: Mapping[str, Any], n_features: int, n_outputs: int) -> XGBoostLinear:
    weights = np.asarray(booster["model"]["weights"], np.float32).reshape(n_features + 1, n_outputs)
    return XGBoostLinear(weights[:-1], weights[-1])


_BOOSTERS: dict[str, Callable[[Mapping[str, Any], int, int], XGBoostTrees | XGBoostLinear]] = {
    "gbtree": _gbtree,
    "dart": _dart,
    "gblinear": _gblinear,
}
"""Readers by the booster's name."""


def _categories(encoding: Mapping[str, Any]) -> Categories:
    """Read the values of one feature: whole numbers, or texts laid end to end.

    XGBoost measures texts in characters and cuts their UTF-8 at these lengths.
    So only ASCII is read back whole.
    """
    values = np.asarray(encoding["values"], np.int64)
    if "offsets" not in encoding:
        return tuple(values.tolist())
    if np.any((values < 0) | (values > 127)):
        raise _refusal(
            "enable_categorical",
            value=True,
            hint=(
                "XGBoost garbles categories of text beyond ASCII. Name them in ASCII before "
                "fitting."
            ),
        )
    text = values.astype(np.uint8).tobytes().decode()
    ends = np.asarray(encoding["offsets"], np.int64).tolist()
    return tuple(text[start:end] for start, end in pairwise(ends))


_LEARNER = np.dtype([
    ("base_score", "<f4"), ("num_feature", "<u4"), ("num_class", "<i4"), ("has_attributes", "<i4"),
    ("has_metrics", "<i4"), ("major_version", "<u4"), ("minor_version", "<u4"),
    ("num_target", "<u4"), ("boost_from_average", "<i4"), ("reserved", "<i4", 25),
])  # fmt: skip
_TREES = np.dtype([("num_trees", "<i4"), ("num_parallel_tree", "<i4"), ("reserved", "<i4", 38)])
_TREE = np.dtype([
    ("num_roots", "<i4"), ("num_nodes", "<i4"), ("reserved", "<i4", 3),
    ("size_leaf_vector", "<i4"), ("more", "<i4", 31),
])  # fmt: skip
_NODE = np.dtype([
    ("parent", "<i4"), ("left", "<i4"), ("right", "<i4"), ("split", "<u4"), ("value", "<f4"),
])  # fmt: skip
_STATISTICS = np.dtype([
    ("gain", "<f4"), ("hessian", "<f4"), ("weight", "<f4"), ("leaves", "<i4"),
])  # fmt: skip
_LINEAR_BYTES = 136
_DEFAULT_LEFT = 1 << 31
_WITH_VECTORS = 2
"""Since this version no list of leaf vectors follows a tree."""


def read_old_binary(data: bytes) -> Mapping[str, Any]:
    """Return the ``learner`` that the JSON of the same model holds, as far as predictions need it.

    Raises
    ------
    ConversionError
        The file is damaged.
    """
    reader = StructReader(data.removeprefix(b"binf"), "The XGBoost model")
    param = reader.record(_LEARNER)
    objective = reader.text()
    name = reader.text()
    return {
        "learner_model_param": {key: str(param[key]) for key in _LEARNER.names or ()},
        "objective": {"name": objective},
        "gradient_booster": {"name": name, **_booster(reader, name, int(param["major_version"]))},
    }


def _booster(reader: StructReader, name: str, version: int) -> dict[str, Any]:
    if name == "gblinear":
        reader.numbers("u1", _LINEAR_BYTES)
        return {"model": {"weights": reader.array("<f4"), "boosted_rounds": "1"}}
    model = _trees(reader, version)
    if name == "dart":
        return {"gbtree": {"model": model}, "weight_drop": reader.array("<f4")}
    return {"model": model}


def _trees(reader: StructReader, version: int) -> dict[str, Any]:
    param = reader.record(_TREES)
    count = int(param["num_trees"])
    trees = [_tree(reader, version) for _ in range(count)]
    return {
        "trees": trees,
        "tree_info": reader.numbers("<i4", count),
        "gbtree_model_param": {"num_parallel_tree": str(max(param["num_parallel_tree"], 1))},
    }


def _tree(reader: StructReader, version: int) -> dict[str, Any]:
    param = reader.record(_TREE)
    nodes = reader.numbers(_NODE, int(param["num_nodes"]))
    statistics = reader.numbers(_STATISTICS, int(param["num_nodes"]))
    if param["size_leaf_vector"] and version < _WITH_VECTORS:
        reader.array("<f4")
    return {
        "tree_param": {"size_leaf_vector": "0"},
        "left_children": nodes["left"],
        "right_children": nodes["right"],
        "split_indices": nodes["split"] % _DEFAULT_LEFT,
        "default_left": nodes["split"] >= _DEFAULT_LEFT,
        "split_conditions": nodes["value"],
        "sum_hessian": statistics["hessian"],
    }


_NUMBERS = {
    b"i": ">i1",
    b"U": ">u1",
    b"I": ">i2",
    b"l": ">i4",
    b"L": ">i8",
    b"d": ">f4",
    b"D": ">f8",
}
_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
_DEEPEST = 64


def decode_ubjson(data: bytes) -> Any:
    r"""Decode one value: dict, list, numpy array, str, int, float, bool or None.

    Raises
    ------
    ConversionError
        The bytes are not UBJSON, or they are cut short.

    Examples
    --------
    >>> decode_ubjson(b"{U\x01x[$d#U\x01\x3f\x80\x00\x00}")
    {'x': array([1.], dtype=float32)}
    """
    try:
        return _Reader(data).value(0)
    except (IndexError, ValueError, KeyError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"The file is damaged: it is not valid UBJSON ({error}).") from error


class _Reader:
    """The bytes and a position in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise ConversionError("The file is damaged: it ends before its last value.")
        self.at += size
        return self.data[self.at - size : self.at]

    def skip(self, marker: bytes) -> bool:
        """Step over a marker if it comes next."""
        found = self.data[self.at : self.at + 1] == marker
        self.at += found
        return found

    def value(self, depth: int) -> Any:
        return self.of_type(self.take(1), depth)

    def of_type(self, marker: bytes, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ConversionError("The file is damaged: its values are nested too deeply.")
        if marker in _NUMBERS:
            return self.numbers(marker, 1)[0].item()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker in (b"S", b"H"):
            return self.text()
        if marker == b"[":
            return self.array(depth + 1)
        if marker == b"{":
            return self.object(depth + 1)
        raise ConversionError(f"The file is damaged: {marker!r} marks no UBJSON value.")

    def numbers(self, marker: bytes, count: int) -> Any:
        kind = np.dtype(_NUMBERS[marker])
        return np.frombuffer(self.take(kind.itemsize * count), kind).astype(kind.newbyteorder("="))

    def length(self) -> int:
        return int(self.numbers(self.take(1), 1)[0])

    def count(self) -> int:
        """Read how many values follow, at most as many as there are bytes.

        Constants take no bytes, and are held to that number too.
        """
        count = self.length()
        if not 0 <= count <= len(self.data) - self.at:
            raise ConversionError("The file is damaged: it ends before its last value.")
        return count

    def text(self) -> str:
        return self.take(self.length()).decode()

    def array(self, depth: int) -> Any:
        kind = self.take(1) if self.skip(b"$") else b""
        if not self.skip(b"#"):
            values = []
            while not self.skip(b"]"):
                values.append(self.value(depth))
            return values
        count = self.count()
        if kind in _NUMBERS:
            return self.numbers(kind, count)
        return [self.of_type(kind, depth) if kind else self.value(depth) for _ in range(count)]

    def object(self, depth: int) -> dict[str, Any]:
        count = self.count() if self.skip(b"#") else -1
        values: dict[str, Any] = {}
        while len(values) != count and not (count < 0 and self.skip(b"}")):
            key = self.text()
            if key in values:
                raise ConversionError(f"The file is damaged: {key!r} stands twice in one object.")
            values[key] = self.value(depth)
        return values
