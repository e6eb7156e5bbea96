"""Model: what the user holds. It answers as the fitted estimator does."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends import find_backend
from hbconv.containers import Graph, Schema
from hbconv.errors import BackendError, HbconvError
from hbconv.optimize.plan import Plan, make_plan
from hbconv.runtime import export, store
from hbconv.runtime.answers import answer, join
from hbconv.runtime.batching import chunks
from hbconv.runtime.explanation import Explanation
from hbconv.runtime.inputs import Reads, read_table
from hbconv.runtime.options import check_options
from hbconv.runtime.programs import Programs
from hbconv.target import Target

__all__ = ["Model", "load"]


class Model:
    """A compiled model, as ``hbconv.convert`` and ``hbconv.load`` make it.

    It has the methods of the estimator it came from (``predict``, ``predict_proba``, ``transform``...) and only those. Each
    takes rows of shape (n, columns), in a table or an array of any kind, and returns what the estimator does; no rows give an
    empty answer. ``n_features_in_``, ``feature_names_in_`` and ``classes_`` are the estimator's, where it has them.

    Parameters
    ----------
    graph : Graph
        Optimized and planned.
    target : Target
        What it is compiled for.
    plan : Plan
        The strategies chosen.
    parsed : Graph
        As the parsers made it.
    """

    def __init__(self, graph: Graph, target: Target, plan: Plan, parsed: Graph) -> None:
        self.graph, self.target, self.plan, self.parsed = graph, target, plan, parsed
        self.dtypes = tuple("string" if d == "string" else "float32" for d in graph.schema.dtypes)
        self.reads = Reads.of(parsed)
        self.programs = Programs(graph, target)

    # What it is.

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods it has."""
        return tuple(self.graph.outputs)

    @property
    def schema(self) -> Schema:
        """The input columns."""
        return self.graph.schema

    @property
    def backend(self) -> str:
        """Name of the backend it is compiled for."""
        return self.target.backend

    @property
    def n_features_in_(self) -> int:
        """Number of input columns."""
        return len(self.schema.columns)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the input columns, where the source was fitted on named ones."""
        if not self.schema.named:
            raise AttributeError("feature_names_in_")
        return np.array(self.schema.names, dtype=object)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Class labels of a classifier."""
        if self.graph.traits.classes is None:
            raise AttributeError("classes_")
        return self.graph.traits.classes.data.copy()

    def explain(self) -> Explanation:
        """Say why it runs as it does: print the result, or read its ``to_dict()``."""
        return Explanation.of(self.graph, self.parsed, self.target, self.plan)

    def __repr__(self) -> str:
        estimator = self.graph.traits.estimator or "graph"
        return f"<hbconv.Model of {estimator}: {', '.join(self.methods)}; {self.n_features_in_} columns; {self.backend} on {self.target.device}>"

    # What it computes.

    def __getattr__(self, name: str) -> Callable[..., Any]:
        graph: Graph | None = self.__dict__.get("graph")
        if graph is not None and name in graph.outputs:
            return partial(self._call, name)
        if graph is not None and name == "get_feature_names_out" and graph.traits.feature_names_out is not None:
            return self._feature_names_out
        of = f" of {graph.traits.estimator}" if graph is not None else ""
        raise AttributeError(f"This Model{of} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.methods})

    def _call(self, method: str, X: Any) -> Any:  # noqa: N803
        table = read_table(X, self.reads)
        program, check = self.programs.program((method,), table.dtypes), self.programs.checker(table.dtypes)
        answers = []
        for rows in chunks(table.rows, program.chunk):
            part = table.part(rows)
            check(part)
            answers.append(answer(self.graph.outputs[method], program.run(part)[method]))
        return join(answers)

    def _feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:  # noqa: ARG002
        return np.array(self.graph.traits.feature_names_out, dtype=object)

    def compile(self, sample: Any) -> Model:
        """Compile every method for the dtypes of a sample now, rather than at the first call; exports take its dtypes too.

        Parameters
        ----------
        sample : table or array
            A few rows as they will come.
        """
        table = read_table(sample, self.reads)
        self.dtypes = table.dtypes
        self.programs.checker(table.dtypes)
        for method in self.methods:
            self.programs.program((method,), table.dtypes)
        return self

    # Where it runs.

    @property
    def module(self) -> Any:
        """The model as a ``torch.nn.Module``: all methods as a tuple of tensors (one: a tensor), classes as codes.

        Its inputs are float32 unless ``compile`` was given a sample of another dtype; ``module.inputs`` lists them.

        Raises
        ------
        BackendError
            The backend is not torch or torchscript.
        """
        artifact = self.programs.program(self.methods, self.dtypes).artifact if self.backend in ("torch", "torchscript") else None
        if artifact is None:
            raise BackendError(f"Backend {self.backend!r} has no torch module. Convert with backend='torch', or use model.for_target(backend='torch').module.")
        return artifact.module  # type: ignore[attr-defined]

    def to(self, device: str) -> Model:
        """Move to a device; returns the model itself."""
        self.__dict__.update(self.for_target(device=str(device)).__dict__)
        return self

    def for_target(self, **changes: Any) -> Model:
        """Return the same model compiled for another target, such as ``for_target(backend="onnx", tree_ops="core")``."""
        target = check_options(self.target.replace(**changes))
        plan = plan_for(self.graph, target)
        model = Model(plan.apply(self.graph) if plan.choices else self.graph, target, plan, self.parsed)
        model.dtypes = self.dtypes
        return model

    # Where it is kept.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that ``hbconv.load`` reads: data only, complete or not there at all."""
        store.write(path, self._bytes())

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a file for another runtime, by its suffix.

        ``.onnx``; ``.pt`` (TorchScript); ``.pt2`` (``torch.export``); ``.hbc`` (as ``save``). Its numeric inputs are float32
        unless ``compile`` was given a sample of another dtype.

        Raises
        ------
        OptionError
            Another suffix.
        """
        if Path(path).suffix == ".hbc":
            return self.save(path)
        writer = export.find_writer(path)
        model = self.for_target(backend=writer.backend, device="cpu")
        return store.write(path, writer.write(model.programs, model.dtypes))

    def _bytes(self) -> bytes:
        return store.pack(store.Stored(self.graph, self.parsed, self.target, self.plan, self.dtypes, self.programs.files()))

    def __reduce__(self) -> tuple[Callable[[bytes], Model], tuple[bytes]]:
        return _from_bytes, (self._bytes(),)

    # What scikit-learn asks of an estimator.

    def fit(self, *_: object, **__: object) -> Model:
        """Refuse: a compiled model is not fitted again."""
        raise HbconvError("A compiled model cannot be fitted. Fit the estimator it came from, and convert that.")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Model:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags, TransformerTags

        kind = self.graph.traits.kind
        return Tags(
            estimator_type=kind if kind in ("classifier", "regressor") else None,
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            transformer_tags=TransformerTags() if "transform" in self.methods else None,
        )


def plan_for(graph: Graph, target: Target) -> Plan:
    """Choose the strategies of a graph's trees."""
    try:
        return make_plan(graph, target, find_backend(target.backend))
    except NotImplementedError:  # until the plan is written
        return Plan()


def load(path: str | os.PathLike[str], backend: str | None = None, device: str | None = None) -> Model:
    """Read a model that ``Model.save`` wrote; the library it was trained with is not needed.

    Parameters
    ----------
    path : path
    backend, device : str, optional
        Others than it was saved for: it is compiled again.

    Raises
    ------
    StoreError
        No model file, damaged, truncated, or of a newer format.
    OptionError, MissingPackageError
        The backend or device is not there; name another.
    """
    return _from_bytes(Path(path).read_bytes(), backend, device)


def _from_bytes(data: bytes, backend: str | None = None, device: str | None = None) -> Model:
    stored = store.unpack(data)
    model = Model(stored.graph, stored.target, stored.plan, stored.parsed)
    model.dtypes = stored.dtypes
    changes = {k: v for k, v in {"backend": backend, "device": device}.items() if v is not None and v != getattr(stored.target, k)}
    if changes:
        return model.for_target(**changes)
    check_options(stored.target)
    model.programs = Programs(stored.graph, stored.target, stored.programs)
    return model
