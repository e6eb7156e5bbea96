"""LightGBM models of SynapseML: a stage whose booster is a Java object next to its metadata.

The format of the object is chapter 6 of the "Java Object Serialization Specification". Its fields
are read as data, and no code runs. Only plain objects of numbers, texts and such objects are read,
of classes that the caller names. Arrays, enums, proxies, and what classes write by their own code
are refused. Predictions are those of the native library.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Affine, ArgMax, Cast, Concat, Impute, Map, Node, Output
from hbconv.errors import ConversionError
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.damage import reading
from hbconv.parse.lightgbm.estimators import booster_outputs
from hbconv.parse.lightgbm.model_text import LightGBMModel, read_lightgbm_text
from hbconv.parse.spark.saved_model import SparkModel, SparkStage, class_output, stage

__all__ = [
    "BOOSTERS",
    "JavaObject",
    "count_slots",
    "native_part",
    "read_booster",
    "read_java_object",
]

BOOSTERS = ("LightGBMClassificationModel", "LightGBMRegressionModel", "LightGBMRankerModel")

# The class moved twice between MMLSpark and SynapseML.
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
_WAY_OUT = "Save the model again, or call saveNativeModel of the stage and convert what it writes."


def read_booster(model: SparkModel) -> tuple[LightGBMModel, bool]:
    """Read the trees that a stage predicts by, and tell whether these are all that it has.

    Native code knows nothing of the categories that pandas had: it reads codes.
    """
    booster = _booster(model)
    text = _text_of(model, booster).partition("\npandas_categorical:")[0]
    first = max(_read_bound(model, booster, "startIteration"), 0)
    count = _read_bound(model, booster, "numIterations")
    every = read_lightgbm_text(text)
    # LightGBM takes a count of 0 or below for all iterations.
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
    text = booster.fields.get("modelStr", booster.fields.get("model"))
    if isinstance(text, JavaObject) and text.name == "scala.Some":
        (text,) = text.fields.values()
    if not isinstance(text, str):
        raise ConversionError(f"The booster of {model.folder.name} has no model text. {_WAY_OUT}")
    return text


def _read_bound(model: SparkModel, booster: JavaObject, name: str) -> int:
    """Return a bound of the iterations: the stage's own replaces the booster's before each call.

    A bound of 0 or below is none, so what an old booster lacks is -1.
    """
    asked = model.get(name, booster.fields.get(name, -1))
    # A bool is an int to isinstance, and no count.
    if type(asked) is not int:
        raise ConversionError(
            f"{model.folder.name} has {name}={asked!r:.40}, which is no number of iterations."
        )
    return asked


def native_part(folder: Path) -> Path:
    """Return the file of the model text that ``saveNativeModel`` wrote: the one that holds any."""
    parts = [part for part in sorted(folder.glob("part-*")) if part.stat().st_size]
    # Spark may split a text among parts, whose names do not tell their order in it.
    if len(parts) != 1 or parts[0].suffix != ".txt":
        raise ConversionError(
            f"{folder.name} holds {len(parts)} parts of text, and the order of several is not "
            "known. Save it again by saveNativeModel, uncompressed."
        )
    return parts[0]


_MAGIC = b"\xac\xed\x00\x05"
# baseWireHandle of the specification: handles count from here.
_FIRST_HANDLE = 0x7E0000
_END_OF_ANNOTATION = 0x78
_SERIALIZABLE = 2
"""Flags of a class whose fields are written as declared, and nothing else."""

_PRIMITIVES = {
    "B": ">b",
    "C": ">H",
    "D": ">d",
    "F": ">f",
    "I": ">i",
    "J": ">q",
    "S": ">h",
    "Z": ">?",
}
# Reading recurses; a booster has a few levels.
_MOST_NESTED = 50


@dataclass
class JavaObject:
    """One object.

    Parameters
    ----------
    name : str
        Its class, such as ``"scala.Some"``.
    fields : dict
        What its fields hold, those of its base classes too: numbers, bools, str, None, JavaObject,
        or ``JavaClass``.
    """

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class JavaClass:
    """A description of a class.

    Parameters
    ----------
    name : str
    lineage : tuple of JavaClass
        The class and its bases, the first base first; empty until all are read.
    fields : tuple of (str, str)
        Type code and name of each field that the class itself declares.
    """

    name: str
    lineage: tuple[JavaClass, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()


def read_java_object(data: bytes, classes: Collection[str]) -> JavaObject:
    """Read the one object of a stream.

    Parameters
    ----------
    data : bytes
    classes : collection of str
        Classes that the stream may hold, with their packages.

    Raises
    ------
    ConversionError
        Another class, something else than plain objects, or a damaged stream.
    """
    if not data.startswith(_MAGIC):
        raise ConversionError("The file holds no Java object: it does not begin with AC ED 00 05.")
    stream = _Stream(data, classes)
    content = stream.content()
    if not isinstance(content, JavaObject):
        raise ConversionError(f"The file holds a {type(content).__name__} in place of an object.")
    if stream.place != len(data):
        raise ConversionError("The file is damaged: more follows behind its object.")
    return content


class _Stream:
    """A place in the bytes of a stream, and what was read before, which later parts refer to."""

    def __init__(self, data: bytes, classes: Collection[str]) -> None:
        self.data = data
        self.classes = classes
        self.place = len(_MAGIC)
        self.handles: list[Any] = []
        self.depth = 0
        self.readers: dict[int, Callable[[], Any]] = {
            0x70: lambda: None,
            0x71: self._reference,
            0x72: self._class,
            0x73: self._object,
            0x74: self._string,
            0x76: self._class_as_value,
            0x7C: self._long_string,
        }

    def take(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        # Also refuses negative lengths, which a slice would take from the end.
        if not 0 <= n_bytes <= len(self.data) - self.place:
            raise ConversionError("The file is damaged: it ends before its object does.")
        self.place += n_bytes
        return self.data[self.place - n_bytes : self.place]

    def number(self, form: str) -> Any:
        """Return the next number, of a form of ``struct``."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def content(self) -> Any:
        """Return what comes next, whatever it is."""
        code = self.number(">B")
        if code not in self.readers:
            raise ConversionError(f"The file holds more than plain objects: code {code:#x}.")
        if self.depth > _MOST_NESTED:
            raise ConversionError("The file is damaged: its objects lie too deep in each other.")
        self.depth += 1
        content = self.readers[code]()
        self.depth -= 1
        return content

    def _keep(self, content: Any) -> Any:
        self.handles.append(content)
        return content

    def _reference(self) -> Any:
        number = self.number(">i") - _FIRST_HANDLE
        if not 0 <= number < len(self.handles):
            raise ConversionError("The file is damaged: it refers to an object that is not there.")
        return self.handles[number]

    def _string(self) -> str:
        return str(self._keep(_text(self.take(self.number(">H")))))

    def _long_string(self) -> str:
        return str(self._keep(_text(self.take(self.number(">q")))))

    def _class(self) -> JavaClass:
        name = _text(self.take(self.number(">H")))
        if name not in self.classes:
            raise ConversionError(
                f"The file holds an object of class {name}; "
                f"hbconv reads {', '.join(sorted(self.classes))}."
            )
        self.number(">q")  # the version of the class
        # The handle is given before the fields are read, for these may refer to the class.
        description: JavaClass = self._keep(JavaClass(name))
        flags = self.number(">B")
        # A class with a writeObject of its own has bytes that only its code can read.
        if flags != _SERIALIZABLE:
            raise ConversionError(f"Class {name} of the file writes by code of its own.")
        description.fields = tuple(self._field() for _ in range(self.number(">H")))
        if self.number(">B") != _END_OF_ANNOTATION:
            raise ConversionError(f"Class {name} of the file has annotations.")
        base = self._class_named()
        description.lineage = (*(base.lineage if base else ()), description)
        if len(description.lineage) > _MOST_NESTED:
            raise ConversionError(f"The file is damaged: class {name} has too many bases.")
        return description

    def _field(self) -> tuple[str, str]:
        code = chr(self.number(">B"))
        name = _text(self.take(self.number(">H")))
        if code == "L":
            self.content()  # the name of the class that the field may hold
        elif code not in _PRIMITIVES:
            raise ConversionError(f"Field {name!r} of the file has type {code!r}.")
        return code, name

    def _class_named(self) -> JavaClass | None:
        """Return the class that comes next, if any; all its bases must be there."""
        content = self.content()
        if content is None or (isinstance(content, JavaClass) and content.lineage):
            return content
        raise ConversionError("The file is damaged: something else stands where a class should.")

    def _class_as_value(self) -> JavaClass:
        description: JavaClass = self._keep(self._required_class())
        return description

    def _required_class(self) -> JavaClass:
        description = self._class_named()
        if description is None:
            raise ConversionError("The file is damaged: an object has no class.")
        return description

    def _object(self) -> JavaObject:
        of = self._required_class()
        # As with classes, its handle comes before its fields.
        instance: JavaObject = self._keep(JavaObject(of.name))
        # Fields of the base class come first in the stream.
        for declared in of.lineage:
            for code, name in declared.fields:
                instance.fields[name] = (
                    self.content() if code == "L" else self.number(_PRIMITIVES[code])
                )
        return instance


def _text(data: bytes) -> str:
    r"""Decode Java's variant of UTF-8: zero takes two bytes, and so does each half of a pair.

    Examples
    --------
    >>> _text(b"a\xc0\x80\xed\xa0\xbd\xed\xb8\x80") == "a\0\N{GRINNING FACE}"
    True
    """
    # UTF-16 joins the two halves of a pair, which surrogatepass let through.
    halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


@stage("LightGBMRegressionModel", "LightGBMRankerModel")
def read_lightgbm_regressor(at: SparkStage) -> None:
    """Predict what the booster does."""
    answers = _outputs(at)
    n_outputs = answers["predict"].node.type.width
    if n_outputs > 1:
        hint = "Its booster was trained on classes: load it as LightGBMClassificationModel."
        raise at.refuse("lightGBMBooster", f"{n_outputs} classes", hint)
    at.frame.answers = {name: answers[name] for name in answers if name != "raw_scores"}


@stage("LightGBMClassificationModel")
def read_lightgbm_classifier(at: SparkStage) -> None:
    """Put what the booster predicts of one class beside that of the other: 1 - p, and -score."""
    answers = _outputs(at)
    scores = answers["raw_scores"].node
    p = answers["predict"].node
    if scores.type.width == 1:
        scores = Concat((Map(scores, "neg"), scores))
        p = beside_complement(p)
    at.frame.answers = answers | {
        "predict": class_output(_class(at, scores, p), p.type.width),
        "predict_proba": Output(p),
        "raw_scores": Output(scores),
    }


def _outputs(at: SparkStage) -> dict[str, Output]:
    """Return what the booster answers.

    Leaves are the column ``leafPredictionCol``, contributions the column ``featuresShapCol``.
    SynapseML leaves memory as it was in the leaves of trees that are not asked.
    It has too little of it for the contributions to two columns of scores.
    """
    model, all_iterations = read_booster(at.model)
    x = Cast(at.column(at.inputs()[0]), "float64")
    if x.type.width != len(model.names):
        hint = f"The booster was trained on {len(model.names)} features."
        raise at.refuse("featuresCol", f"{at.inputs()[0]} of {x.type.width} columns", hint)
    answers = booster_outputs(x, model)
    if not all_iterations:
        del answers["apply"]
    if answers["predict"].node.type.width == 2:
        answers.pop("contributions", None)
    return answers


def _class(at: SparkStage, scores: Node, p: Node) -> Node:
    """Return the class of the greatest score.

    Thresholds divide probabilities, and without a column of scores these decide too.
    A threshold and a probability of 0 never win.
    """
    thresholds = at.get("thresholds")
    by_probability = bool(at.get("probabilityCol"))
    if not thresholds:
        by_score = bool(at.get("rawPredictionCol")) or not by_probability
        return ArgMax(scores if by_score else p)
    if not by_probability:
        raise at.refuse("thresholds", thresholds, "Name a probabilityCol, which they divide.")
    if len(thresholds) != at.get("actualNumClasses") or len(thresholds) != p.type.width:
        hint = f"SynapseML wants one for each of {at.get('actualNumClasses')} classes."
        raise at.refuse("thresholds", thresholds, hint)
    # 0 / 0 is NaN, which ArgMax would take; minus infinity never wins.
    never = Array(np.full(p.type.width, -np.inf))
    return ArgMax(Impute(Affine.of(p, div=np.array(thresholds, np.float64)), never))
