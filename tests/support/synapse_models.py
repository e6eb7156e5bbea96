"""Folders as SynapseML saves them, of any LightGBM model text: no Spark, and no Java."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[1] / "unit/parse/spark/boosters"
with zipfile.ZipFile(_FOLDER / "boosters.zip") as _archive:
    STORED = {name: _archive.read(name) for name in _archive.namelist()}
"""What a JVM wrote (see the folder's README), by name."""

_NAMESPACE = "com.microsoft.azure.synapse.ml.lightgbm."


def serialized(text: str, stored: str = "scala_2_12") -> bytes:
    """Return a stored booster with another model text in it."""
    data = text.encode()
    short = b"t" + struct.pack(">H", 5) + b"MODEL"
    assert STORED[stored].count(short) == 1
    return STORED[stored].replace(short, b"|" + struct.pack(">q", len(data)) + data)


def write_stage(folder: Path, kind: str, parameters: dict[str, Any], booster: bytes) -> Path:
    """Write a stage with its booster."""
    _write_metadata(folder, _NAMESPACE + kind, {"featuresCol": "features"} | parameters)
    (folder / "complexParams").mkdir()
    (folder / "complexParams/lightGBMBooster").write_bytes(booster)
    return folder


def write_pipeline(
    folder: Path, kind: str, parameters: dict[str, Any], booster: bytes, names: Sequence[str]
) -> Path:
    """Write a pipeline of an assembler, which keeps NaN, and a stage with its booster."""
    _write_metadata(
        folder, "org.apache.spark.ml.PipelineModel", {"stageUids": ["VectorAssembler_a", "LGBM_b"]}
    )
    _write_metadata(
        folder / "stages/0_VectorAssembler_a",
        "org.apache.spark.ml.feature.VectorAssembler",
        {"inputCols": list(names), "outputCol": "features", "handleInvalid": "keep"},
    )
    write_stage(folder / "stages/1_LGBM_b", kind, parameters, booster)
    return folder


def _write_metadata(folder: Path, name: str, parameters: dict[str, Any]) -> None:
    (folder / "metadata").mkdir(parents=True)
    stored = {"class": name, "uid": folder.name, "paramMap": parameters, "defaultParamMap": {}}
    (folder / "metadata/part-00000").write_text(json.dumps(stored))
