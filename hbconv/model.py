"""Model: what the user holds. It predicts like the source model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from hbconv.containers import FrameFormat, Graph, Schema
from hbconv.cost_model.tuning_record import Tuning
from hbconv.errors import BackendError, OptionError, StoreError
from hbconv.names import INVERSE, unknown
from hbconv.runtime.call.bind import bind_method
from hbconv.runtime.call.page import Method, group_rows
from hbconv.runtime.call.session import run_session
from hbconv.runtime.inputs.read import is_table, over_arrays, read_table
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.options import (
    change_target,
    check_options,
    check_values,
    find_runnable,
    take_options,
)
from hbconv.runtime.program import Key, StoredProgram, answering, digest_of
from hbconv.runtime.program_choice import OnNewDtypes, check_on_new_dtypes
from hbconv.runtime.programs import CompiledProgram, Programs
from hbconv.runtime.storage import model_file as store
from hbconv.runtime.storage.export import WritesFiles
from hbconv.sources.arguments import find_answers
from hbconv.sources.sklearn_estimator import (
    SCORES,
    SklearnEstimator,
    compute_score,
    explain_absence,
)
from hbconv.target import Target

if TYPE_CHECKING:
    from hbconv.optimize.plan import Plan
    from hbconv.runtime.report.derivations import StageReport
    from hbconv.runtime.report.explanation import Explanation

__all__ = ["Model", "load"]

REPOSITORY_OPTIONS = ("name", "file", "device")


class Model(SklearnEstimator, WritesFiles):
    """A compiled model, as ``hbconv.convert`` and ``hbconv.load`` make it.

    It has the methods of its source model, such as ``predict`` and ``transform``, and only those.
    Each takes rows of shape (n_rows, n_features), in a table or an array of any kind, and returns
    what the source model does. No rows give an empty answer. Tensors of torch are answered by
    tensors, and those on a CUDA device may stay there (``docs/gpu.md``). ``n_features_in_``,
    ``feature_names_in_`` and ``classes_`` are those of the source model, if it has them.

    Parameters
    ----------
    parsed : Graph
        As the parsers made it.
    target : Target
        What it is compiled for.
    dtypes : tuple of str, optional
        Column dtypes that exports take and ``explain`` shows: those of the sample, else those that
        the source model was fitted on.
    stored : mapping, optional
        Programs compiled before.
    tuning : Tuning, optional
        Times measured, which decide where they are of this target and machine.
    on_new_dtypes : {"compile", "convert", "refuse"}
        What rows get that no program answers as the source model does; ``hbconv.convert`` has more.
    kept : Kept, optional
        Programs of its file that only other machines run.
    """

    def __init__(
        self,
        parsed: Graph,
        target: Target,
        dtypes: tuple[str, ...] | None = None,
        stored: Mapping[Key, StoredProgram] | None = None,
        tuning: Tuning | None = None,
        on_new_dtypes: OnNewDtypes = "compile",
        kept: store.Kept | None = None,
    ) -> None:
        check_on_new_dtypes(on_new_dtypes)
        self.parsed = parsed
        self.tuning = tuning
        self.on_new_dtypes = on_new_dtypes
        self.reads = Reads.of(parsed)
        self.dtypes = dtypes or self.reads.usual_dtypes
        self._compile_for(target, stored or {}, kept or store.Kept(target))

    def _compile_for(
        self, target: Target, stored: Mapping[Key, StoredProgram], kept: store.Kept
    ) -> None:
        """Begin again with the programs of a target."""
        self.target = target
        self.programs = self._programs_of(answering(self.parsed, stored))
        self._methods: dict[str, Method] = {}
        self._over_arrays: Model | None = None
        self._inverse: Model | None = None
        self._stored = stored
        self._kept = kept

    def _programs_of(self, stored: Mapping[Key, StoredProgram]) -> Programs:
        """Return the programs of the graph, with those that are stored."""
        graph = self.parsed
        if graph.schema.conventions.tables_only:
            # An array is read by another graph, which has programs of the same methods.
            stored = {k: stored[k] for k in stored if stored[k].digest == digest_of(graph, k[0])}
        return Programs(graph, self.target, stored, self.tuning, self.on_new_dtypes)

    # What it is.

    @property
    def graph(self) -> Graph:
        """The optimized graph with its strategies chosen, for columns of ``dtypes``."""
        return self.programs.planned(self.dtypes).graph

    @property
    def plan(self) -> Plan:
        """The strategies chosen, the costs of all, and why some were refused."""
        return self.programs.planned(self.dtypes).plan

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of its methods."""
        return tuple(self.parsed.outputs)

    @property
    def schema(self) -> Schema:
        """The input columns."""
        return self.parsed.schema

    @property
    def inverse(self) -> Model | None:
        """The model of ``inverse_transform``, whose columns are those that ``transform`` returns.

        It is explained, compiled, bound, saved and exported like any other. None where there is
        none: ``inverse_transform`` then raises AttributeError with the reason.
        """
        if self._inverse is None and self.parsed.inverse is not None:
            self._inverse = Model(
                self.parsed.inverse,
                self.target,
                stored=self._stored,
                on_new_dtypes=self.on_new_dtypes,
                kept=self._kept.only(self.parsed.inverse),
            )
        return self._inverse

    @property
    def compiled(self) -> tuple[CompiledProgram, ...]:
        """What is compiled, or stored: methods, dtypes of columns, and numbers of rows."""
        return self.programs.listed()

    @property
    def backend(self) -> str:
        """Name of the backend it is compiled for."""
        return self.target.backend

    @overload
    def explain(self, stage: None = None) -> Explanation: ...

    @overload
    def explain(self, stage: str) -> StageReport: ...

    def explain(self, stage: str | None = None) -> Explanation | StageReport:
        """Explain why it runs as it does: print the result, or read its ``to_dict()``.

        Parameters
        ----------
        stage : str, optional
            Run the compiler up to this stage, and show what it made: ``"parsed"``, ``"typed"``,
            ``"optimized"``, ``"planned"``, ``"guarded"``, ``"lowered"`` or ``"prepared"``.

        Raises
        ------
        OptionError
            There is no such stage.
        BackendError
            The model, of a damaged file, cannot be compiled.
        """
        from hbconv.pipeline import Planned
        from hbconv.runtime.report.derivations import report_stage
        from hbconv.runtime.report.explanation import Explanation

        with self.programs.compiling():
            if stage is not None:
                target = self.programs.target
                planned = Planned(self.parsed, self.dtypes, target, tuning=self.tuning)
                return report_stage(planned, stage)
            return Explanation.of(self.programs.planned(self.dtypes), self.backend)

    def __repr__(self) -> str:
        estimator = self.parsed.traits.estimator or "graph"
        return (
            f"<hbconv.Model of {estimator}: {', '.join(self.methods)}; {self.n_features_in_} "
            f"columns; {self.backend} on {self.target.device}>"
        )

    def _repr_html_(self) -> str:
        from hbconv.runtime.report.page import draw_graph, embed

        with self.programs.compiling():
            return embed(repr(self), draw_graph(self.programs.planned(self.dtypes)))

    # What it computes.

    if not TYPE_CHECKING:  # which knows the methods from SourceMethods, and no others

        def __getattr__(self, name: str) -> Callable[..., Any]:
            graph: Graph | None = self.__dict__.get("parsed")
            # ``copy`` and ``pickle`` ask a model for methods before it has any attribute.
            if graph is None:
                raise AttributeError(name)
            if name in graph.outputs:
                self.__dict__[name] = method = self._method(name)
                return method
            method = self._beside_outputs().get(name)
            if method is None:
                raise AttributeError(explain_absence(self, name))
            return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.methods, *self._beside_outputs()} - {"fit"})

    def _beside_outputs(self) -> dict[str, Callable[..., Any]]:
        """Return the methods of the source model that the graph has no output for."""
        traits = self.parsed.traits
        methods: dict[str, Callable[..., Any]] = {}
        if traits.names_out is not None:
            methods["get_feature_names_out"] = partial(self._feature_names_out, traits.names_out)
        if traits.frame_format is not None and traits.frame_format.names is not None:
            methods["set_output"] = partial(self._set_output, traits.frame_format)
        if traits.session is not None:
            methods["run"] = partial(run_session, self.parsed, self.programs, self.reads)
        if traits.metric in SCORES:
            methods["score"] = partial(compute_score, self)
        if self.inverse is not None:
            methods[INVERSE] = self.inverse.inverse_transform
        return methods

    def _method(self, name: str) -> Callable[..., Any]:
        def method(X: Any, *arguments: Any, **named: Any) -> Any:  # noqa: N803
            if arguments or named:
                names = find_answers(self.parsed, name, arguments, named)
                answers = tuple(getattr(self, each)(X) for each in names)
                return answers if len(answers) > 1 else answers[0]
            answering = self._methods.get(name)
            if answering is None:
                self._methods[name] = answering = Method(self, name)
            return answering.answer(X)

        method.__name__, method.__qualname__ = name, f"Model.{name}"
        method.__doc__ = (
            f"Answer like {name} of the source {self.parsed.traits.estimator}. "
            f"X has shape (n_rows, {self.n_features_in_}). Arguments of the source are answered, "
            "or refused by the name of what to use instead."
        )
        return method

    def reading(self, x: Any) -> Model:
        """Return the model that reads these rows.

        A model fitted on categories reads an array by another one, over the codes of categories.
        """
        arrays = self._reading_arrays()
        return self if arrays is self or is_table(x) else arrays

    def _reading_arrays(self) -> Model:
        if not self.schema.conventions.tables_only:
            return self
        if self._over_arrays is None:
            parsed = over_arrays(self.parsed)
            options = (None, self._stored, self.tuning, self.on_new_dtypes)
            self._over_arrays = self if parsed is None else Model(parsed, self.target, *options)
        return self._over_arrays

    def _set_output(self, frame_format: FrameFormat, *, transform: str | None = None) -> Model:
        """Choose what ``transform`` returns, as scikit-learn does; None changes nothing."""
        if transform not in (None, "default", "pandas", "polars"):
            raise OptionError(
                f"transform={transform!r} is no output that hbconv knows. Choose 'default', "
                "'pandas' or 'polars'."
            )
        if transform is None:
            return self
        frames = replace(frame_format, library=transform, renames=True)
        traits = replace(self.parsed.traits, frame_format=frames)
        self.parsed = replace(self.parsed, traits=traits)
        self._methods = {}
        arrays = self._over_arrays
        if arrays is not None and arrays is not self:
            arrays.set_output(transform=transform)
        return self

    def compile(self, sample: Any, methods: Iterable[str] = ()) -> Model:
        """Compile every method that returns a tensor now, rather than at the first call.

        Exports take the dtypes of the sample too.

        Parameters
        ----------
        sample : table or array
            A few rows as they will come. The loop for so few rows is compiled too.
        methods : iterable of str
            Those that take long, and else wait for their first call: ``"contributions"``.
        """
        if self.reading(sample) is not self:
            self.reading(sample).compile(sample, methods)
            return self
        table = read_table(sample, self.reads)
        self.dtypes = self.parsed.schema.with_dtypes(table.dtypes).dtypes
        for method in dict.fromkeys((*self.parsed.exported, *methods)):
            self._require_method(method)
            converted = self.programs.asked((method,), table)
            for _, part in group_rows(self.programs, (method,), converted):
                program = self.programs.program((method,), part.dtypes, part.padding)
                with self.programs.compiling():
                    program.artifact.compile_for(part.rows)
        self._methods = {}
        return self

    def bind(
        self, method: str = "predict", rows: int | None = None, dtype: str | None = None
    ) -> Callable[[Any], Any]:
        """Return a low-latency call of a method, for services that answer row by row.

        Its program is compiled now, so no call compiles. It checks names, shapes and dtypes, and
        raises InputError for others. It does not check values: rows that the source model refuses,
        such as those with NaN, give some answer.

        Parameters
        ----------
        method : str
        rows : int, optional
            Number of rows of each call. A matrix is then answered in the same array each time,
            unless the answer is labels: copy what is to last. Give each thread, signal handler and
            finalizer a call of its own. None allows any number of rows, threads and handlers, and
            answers in fresh arrays.
        dtype : str, optional
            Dtype that numbers are converted to: ``"float32"``, ``"float64"`` or ``"int64"``. By
            default the dtypes of the sample of ``compile``, else those of fitting.

        Returns
        -------
        callable
            Takes a matrix of shape (n_rows, n_features), and answers as the method does. Of a model
            that was fitted on named columns or reads categories, it takes records and tables too,
            and answers these in fresh arrays, in any thread.

        Raises
        ------
        OptionError
            The model reads text by its words, or rows that are no table.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> import hbconv
        >>> source = LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0])
        >>> predict = hbconv.convert(source, backend="reference").bind(rows=1)
        >>> predict(np.array([[2.0]], np.float32))
        array([5.])

        A model of named columns takes records:

        >>> import pandas as pd
        >>> named = LinearRegression().fit(pd.DataFrame({"age": [0.0, 1.0]}), [1.0, 3.0])
        >>> hbconv.convert(named, backend="reference").bind(rows=1)({"age": 2.0})
        array([5.])
        """
        is_inverse = isinstance(method, str) and method == INVERSE
        if is_inverse and self.inverse is not None:
            return self.inverse.bind(method, rows, dtype)
        self._require_method(method)
        if dtype not in (None, "float32", "float64", "int64"):
            raise unknown("dtype", dtype, ("float32", "float64", "int64"))
        return bind_method(self, self._reading_arrays(), method, rows, dtype)

    def check(self) -> Model:
        """Raise the errors of compiling, such as a strategy refused, without compiling."""
        self.programs.prepared(self.parsed.exported, self.dtypes)
        return self

    # Where it runs.

    @property
    def module(self) -> Any:
        """The model as a ``torch.nn.Module``, which returns a tensor, or a tuple of one a method.

        Classes are codes. It lacks what exports lack: answers that are no tensors, and
        ``contributions``. ``module.inputs`` has the dtypes of the sample, else of fitting.

        Raises
        ------
        BackendError
            The backend is not torch or torchscript.
        """
        if self.backend not in ("torch", "torchscript"):
            raise BackendError(
                f"Backend {self.backend!r} has no torch module: for_target(backend='torch') has."
            )
        from hbconv.backends.torch.kernel_module import make_module

        return make_module(self)

    def to(self, device: str) -> Model:
        """Move to a device; returns the model itself."""
        target = check_options(self.target.replace(device=str(device)))
        if target != self.target:
            self._compile_for(target, {}, store.Kept(target))
        return self

    def for_target(self, **changes: Any) -> Model:
        """Return the same model for another target, such as ``for_target(backend="onnx")``.

        Raises
        ------
        OptionError
            There is no such option or value; the nearest that exist are named.
        MissingPackageError
            The packages of the backend are not installed.
        """
        target = change_target(self.target, changes)
        return Model(self.parsed, target, self.dtypes, None, self.tuning, self.on_new_dtypes)

    # Where it is kept.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that ``hbconv.load`` reads: data only, complete or absent."""
        store.write(path, self._bytes())

    def _export_repository(self, path: Path, options: dict[str, Any]) -> None:
        """Write the next version of the model into a repository of the Triton server."""
        from hbconv.triton.export import export_repository

        export_repository(self, path, **take_options("triton", options, REPOSITORY_OPTIONS))

    def _only(self, methods: Iterable[str]) -> Model:
        """Return the model with some of its methods, or raise OptionError."""
        names = [methods] if isinstance(methods, str) else [*methods]
        if not names:
            raise OptionError(f"methods= names no method. Known: {', '.join(self.methods)}.")
        if names == [INVERSE] and self.inverse is not None:
            return self.inverse
        if INVERSE in names and self.inverse is not None:
            raise OptionError(
                f"{INVERSE} reads other columns than {names[names[0] == INVERSE]} does. Write a "
                f"file of its own, with methods=[{INVERSE!r}]."
            )
        for name in names:
            self._require_method(name)
        parsed = replace(self.parsed.only(*names), inverse=None)
        kept = self._kept.only(parsed)
        options = (self.dtypes, self._stored, self.tuning, self.on_new_dtypes, kept)
        model = Model(parsed, self.target, *options)
        model.programs = self.programs.only(parsed)
        arrays = self._over_arrays
        if arrays is not None and arrays is not self:
            model._over_arrays = Model._only(arrays, names)
        return model

    def _bytes(self) -> bytes:
        target, programs = self._kept.joined(self.target, self._all_stored())
        return store.pack(store.Stored(self.parsed, target, self.dtypes, programs, self.tuning))

    def _all_stored(self) -> dict[Key, StoredProgram]:
        """Return the programs of the model, and of those by which it reads arrays and inverts."""
        programs = self.programs.stored()
        for other in (self._inverse, self._over_arrays):
            if other is not None and other is not self:
                programs |= other.programs.stored()
        graphs = (self.parsed, *filter(None, [self.parsed.inverse]))
        unread = {
            key: held for graph in graphs for key, held in answering(graph, self._stored).items()
        }
        return {**unread, **programs}

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[bytes]]:
        # A pickle is trusted already.
        load = partial(_from_bytes, trusted=True, on_new_dtypes=self.on_new_dtypes)
        return load, (self._bytes(),)

    def __getstate__(self) -> dict[str, Any]:
        # skops writes this, and its files are read as saved models are: no stored code runs.
        return {"file": self._bytes(), "on_new_dtypes": self.on_new_dtypes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        model = _from_bytes(state["file"], on_new_dtypes=state["on_new_dtypes"])
        vars(self).update(vars(model))


def load(
    path: str | os.PathLike[str],
    backend: str | None = None,
    device: str | None = None,
    *,
    trusted: bool = False,
    on_new_dtypes: OnNewDtypes | None = None,
) -> Model:
    """Read a model that ``Model.save`` wrote; the library it was trained with is not needed.

    Parameters
    ----------
    path : path
    backend, device : str, optional
        Compile it again for these, instead of those it was saved for.
    trusted : bool
        Also run the programs that tvm, torchscript and onnx stored. They can do anything, so that
        you must trust the author. Otherwise the graph that ``explain`` shows is compiled again.
    on_new_dtypes : {"compile", "convert", "refuse"}, optional
        As ``hbconv.convert`` takes it. By default ``"refuse"`` where programs of the file are used,
        so that no request makes a service compile; else ``"compile"``.

    Raises
    ------
    StoreError
        No model file, damaged, truncated, or of a newer format.
    OptionError, MissingPackageError
        The backend or device is not there; name another.
    """
    if "\n" in str(path):
        raise StoreError("This is a text, not the path of a saved model. Call hbconv.convert.")
    data = Path(path).read_bytes()
    return _from_bytes(data, backend, device, trusted=trusted, on_new_dtypes=on_new_dtypes)


def _from_bytes(
    data: bytes,
    backend: str | None = None,
    device: str | None = None,
    *,
    trusted: bool = False,
    on_new_dtypes: OnNewDtypes | None = None,
) -> Model:
    stored = store.unpack(data, trusted=trusted)
    options = {"backend": backend, "device": device}
    changes = {k: v for k, v in options.items() if v not in (None, getattr(stored.target, k))}
    if changes:
        stored = replace(stored, programs={}, foreign={})
    target = stored.target.replace(**changes)
    if backend is None:
        target = check_values(find_runnable(target, stored=bool(stored.programs)))
    else:
        target = check_options(target)
    new = on_new_dtypes or ("refuse" if stored.programs else "compile")
    kept = store.Kept(stored.target, stored.foreign)
    return Model(stored.parsed, target, stored.dtypes, stored.programs, stored.tuning, new, kept)
