"""LightGBM models of SynapseML: a stage whose booster is a Java object beside its metadata."""

from __future__ import annotations

from pathlib import Path

from hbconv.errors import ConversionError
from hbconv.parse.checks.damage import reading
from hbconv.parse.lightgbm.model_text import LightGBMModel, read_lightgbm_text
from hbconv.parse.spark.java_objects import JavaObject, read_java_object
from hbconv.parse.spark.saved_model import SparkModel

__all__ = ["BOOSTERS", "count_slots", "is_native_model", "native_part", "read_booster"]

BOOSTERS = ("LightGBMClassificationModel", "LightGBMRegressionModel", "LightGBMRankerModel")

_BOOSTER_CLASSES = (
    "com.microsoft.azure.synapse.ml.lightgbm.booster.LightGBMBooster",
    "com.microsoft.ml.spark.lightgbm.booster.LightGBMBooster",
    "com.microsoft.ml.spark.lightgbm.LightGBMBooster",
)
_SCALA_CLASSES = (
    "scala.None$",
    "scala.Option",
    "scala.Some",
    "scala.runtime.ModuleSerializationProxy",
)
_WAY_OUT = "Save the model anew, or call saveNativeModel of the stage and convert what it writes."


def read_booster(model: SparkModel) -> tuple[LightGBMModel, bool]:
    """Read the trees that a stage predicts by, and tell whether these are all that it has.

    Native code knows nothing of the categories that pandas had: it reads codes.
    """
    booster = _booster(model)
    text = _text_of(model, booster).partition("\npandas_categorical:")[0]
    first = max(_asked(model, booster, "startIteration"), 0)
    count = _asked(model, booster, "numIterations")
    every = read_lightgbm_text(text)
    last = first + count if count > 0 else every.iterations
    if first == 0 and last >= every.iterations:
        return every, True
    if first >= every.iterations:
        raise ConversionError(
            f"{model.folder.name} has startIteration={first}, but its booster has "
            f"{every.iterations} iterations. Set startIteration to 0."
        )
    return read_lightgbm_text(text, (first, last)), False


def count_slots(model: SparkModel) -> int:
    """Return the number of the booster's features, the slots of the vector that it reads."""
    header = _text_of(model, _booster(model)).partition("\nTree=")[0]
    return int(header.partition("\nmax_feature_idx=")[2].partition("\n")[0]) + 1


def _booster(model: SparkModel) -> JavaObject:
    path = model.folder / "complexParams" / "lightGBMBooster"
    if not path.is_file():
        raise ConversionError(
            f"{model.folder.name} has no file complexParams/lightGBMBooster. {_WAY_OUT}"
        )
    with reading(f"{model.folder.name}/complexParams/lightGBMBooster", _WAY_OUT):
        return read_java_object(path.read_bytes(), (*_BOOSTER_CLASSES, *_SCALA_CLASSES))


def _text_of(model: SparkModel, booster: JavaObject) -> str:
    """Return the model text, a field of its own in old versions and an Option in later ones."""
    found = booster.fields.get("modelStr", booster.fields.get("model"))
    if isinstance(found, JavaObject) and found.name == "scala.Some":
        (found,) = found.fields.values()
    if not isinstance(found, str):
        raise ConversionError(f"The booster of {model.folder.name} has no model text. {_WAY_OUT}")
    return found


def _asked(model: SparkModel, booster: JavaObject, name: str) -> int:
    """Return a bound of the iterations: the stage's own replaces the booster's before each call.

    A bound of 0 or below is none, so what an old booster lacks is -1.
    """
    asked = model.get(name, booster.fields.get(name, -1))
    if type(asked) is not int:
        raise ConversionError(
            f"{model.folder.name} has {name}={asked!r:.40}, which is no number of iterations."
        )
    return asked


def is_native_model(folder: Path) -> bool:
    """Tell whether Spark wrote text here, as ``saveNativeModel`` does, and no stage."""
    return not (folder / "metadata").exists() and any(folder.glob("part-*.txt"))


def native_part(folder: Path) -> Path:
    """Return the file of the model text that ``saveNativeModel`` wrote: the one that holds any."""
    parts = [part for part in sorted(folder.glob("part-*")) if part.stat().st_size]
    if len(parts) != 1 or parts[0].suffix != ".txt":
        raise ConversionError(
            f"{folder.name} holds {len(parts)} parts of text, and the order of several is not "
            "known. Save it anew by saveNativeModel, uncompressed."
        )
    return parts[0]
