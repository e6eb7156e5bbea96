"""XGBoost's old binary, written here as its versions before 3.1 did, against the JSON of one model.

Treelite reads it too, and judges the layout.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import treelite
import xgboost

import hbconv
from hbconv.errors import ConversionError

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(200, 4)).astype(np.float32)
ROWS[RNG.random(ROWS.shape) < 0.1] = np.nan
SCORE = np.nan_to_num(ROWS[:, 0]) + np.nan_to_num(ROWS[:, 1]) ** 2
CLASSES = np.digitize(SCORE, [0, 1])
THREE = {"num_class": 3, "base_score": 0.5}
KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "squared error": ({}, SCORE),
    "logistic": ({"objective": "binary:logistic", "base_score": 0.3}, SCORE > 1),
    "classes": ({"objective": "multi:softprob", "num_parallel_tree": 2, **THREE}, CLASSES),
    "dart": ({"booster": "dart", "rate_drop": 0.5, "objective": "count:poisson"}, abs(SCORE)),
    "pruned": ({"gamma": 5.0, "tree_method": "exact"}, SCORE),
    "linear": ({"booster": "gblinear", "objective": "multi:softmax", **THREE}, CLASSES),
}


def _trained(kind: str) -> xgboost.Booster:
    params, target = KINDS[kind]
    quiet = {"nthread": 1, "verbosity": 0, "max_depth": 3}
    return xgboost.train({**quiet, **params}, xgboost.DMatrix(ROWS, target), 4)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _floats(values: Any) -> bytes:
    return struct.pack("<Q", len(values)) + np.asarray(values, "<f4").tobytes()


def old_binary(booster: xgboost.Booster, version: int = 2) -> bytes:
    """Write a model as version 2 or 0 of XGBoost wrote it.

    Version 0 kept the base score behind its link, and no version.
    """
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    param, own = learner["learner_model_param"], learner["gradient_booster"]
    objective = learner["objective"]["name"]
    base = float(param["base_score"].strip("[]").split(",")[0])
    links = {"binary:logistic": lambda p: np.log(p / (1 - p)), "count:poisson": np.log}
    base = base if version else float(links.get(objective, float)(base))
    sizes = (int(param["num_feature"]), int(param["num_class"]), 0, 0, version, 0)
    head = struct.pack("<f6I", base, *sizes).ljust(136, b"\0")
    head = b"binf" * (version > 0) + head + _text(objective) + _text(own["name"])
    if own["name"] == "gblinear":
        return head + bytes(136) + _floats(own["model"]["weights"])
    model = own.get("gbtree", own)["model"]
    count = len(model["trees"])
    trees = struct.pack("<ii", count, 1).ljust(160, b"\0")
    trees += b"".join(_tree(tree, version) for tree in model["trees"])
    trees += np.array(model["tree_info"], "<i4").tobytes()
    return head + trees + (_floats(own["weight_drop"]) if own["name"] == "dart" else b"")


def _tree(tree: dict[str, Any], version: int) -> bytes:
    count = len(tree["left_children"])
    size_leaf_vector = 1 if version else 0
    deleted = int(tree["tree_param"]["num_deleted"])
    head = struct.pack("<6i", 1, count, deleted, 0, 4, size_leaf_vector).ljust(148, b"\0")
    splits = np.array(tree["split_indices"], "<u4") | np.array(tree["default_left"], "<u4") << 31
    columns = (tree["parents"], tree["left_children"], tree["right_children"])
    nodes = np.column_stack([
        *(np.array(column, "<i4").view("<u4") for column in columns),
        splits,
        np.array(tree["split_conditions"], "<f4").view("<u4"),
    ])  # fmt: skip
    statistics = np.zeros((count, 4), "<f4")
    statistics[:, 1] = tree["sum_hessian"]
    return head + nodes.astype("<u4").tobytes() + statistics.tobytes()


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_it_answers_as_the_json_of_the_model(kind: str, version: int) -> None:
    """Every method, on missing values too."""
    booster = _trained(kind)
    found = hbconv.convert(old_binary(booster, version), "reference")
    want = hbconv.convert(booster.save_raw("json"), "reference")
    rows = np.nan_to_num(ROWS) if kind == "linear" else ROWS
    assert found.methods == want.methods
    np.testing.assert_array_equal(
        want.raw_scores(rows),
        booster.predict(xgboost.DMatrix(rows), output_margin=True),
    )
    written = {} if version else {"rtol": 3e-7, "atol": 1e-7}  # of numpy's logarithm, not of C's
    for method in want.methods:
        answers = getattr(found, method)(rows), getattr(want, method)(rows)
        np.testing.assert_allclose(*answers, **{"rtol": 0, "atol": 0, **written})


@pytest.mark.parametrize("kind", ["logistic", "classes", "dart"])
def test_treelite_reads_the_same_layout(tmp_path: Path, kind: str) -> None:
    """So the writer of these tests is right, and so is its reader."""
    path = tmp_path / "model.bin"
    path.write_bytes(old_binary(_trained(kind)))
    own = treelite.frontend.load_xgboost_model_legacy_binary(path)
    want = treelite.gtil.predict(own, ROWS, pred_margin=True)
    found = hbconv.convert(path, "reference").raw_scores(ROWS)
    np.testing.assert_allclose(found.reshape(len(ROWS), -1), want[:, 0], rtol=2e-7, atol=1e-7)


def test_what_is_cut_off_is_damaged() -> None:
    """Wherever it ends, and whatever number of trees it promises."""
    data = old_binary(_trained("squared error"))
    for end in (20, 150, 200, 500, len(data) - 3):
        with pytest.raises(ConversionError, match="damaged"):
            hbconv.convert(data[:end], "reference")
    place = data.index(b"gbtree") + len(b"gbtree")
    for count in (-1, 1 << 30):
        promised = data[:place] + struct.pack("<i", count) + data[place + 4 :]
        with pytest.raises(ConversionError, match="damaged"):
            hbconv.convert(promised, "reference")
