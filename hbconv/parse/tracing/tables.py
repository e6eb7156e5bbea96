"""Trace a function of tables, judge the trace, and put it in the place of the function.

A column counts as text where the function compares it with texts or looks it up in a dict of them.
Others are numbers, or are passed on as they come.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    MATRIX,
    AreNarrow,
    AreNullable,
    Cast,
    ChooseText,
    ChosenText,
    Codes,
    Columns,
    Concat,
    ConstantRows,
    EditedVocabulary,
    EditText,
    FillObjects,
    Form,
    IsOtherDtype,
    JoinText,
    Labels,
    Node,
    NumberText,
    OfTexts,
    Output,
    Schema,
    TextEdit,
    Vocabulary,
    rewrite,
    topological,
)
from hbconv.containers.vocabulary import DateCodes, DateReading
from hbconv.errors import ConversionError, HbconvError
from hbconv.parse.common.edited_texts import EditedColumn, edited_text, follow_text
from hbconv.parse.schema import transform_frame
from hbconv.parse.step import Conditions, Step, select
from hbconv.parse.tracing.answers import as_output, hand_on, is_column
from hbconv.parse.tracing.arrays import TracedMatrix
from hbconv.parse.tracing.frames import TracedFrame
from hbconv.parse.tracing.functions import NARROW
from hbconv.parse.tracing.judge import (
    arguments_of,
    compute,
    draw_dates,
    draw_rows,
    draw_texts,
    find_slack,
    find_special,
)
from hbconv.parse.tracing.rebuild import run_function
from hbconv.parse.tracing.trace import (
    FunctionRefusal,
    Kind,
    Learnt,
    Trace,
    refuse,
    refuse_step,
    say_way_out,
    tracing,
)

__all__ = ["trace_table"]


@dataclass(frozen=True)
class _TracedTable:
    """What a function makes of columns of a schema of its own: by name, or as one array."""

    names: tuple[str, ...]
    nodes: tuple[Node, ...]
    checks: tuple[tuple[Node, str], ...]
    conditions: Conditions
    form: Form | None = None
    """Of an array; None of a frame."""
    narrow: frozenset[Node] = frozenset()
    """Those that pandas keeps as narrow ints."""

    @property
    def refusing(self) -> tuple[Node, ...]:
        """Conditions that refuse rows."""
        inner = (check.node for check in self.conditions.checks)
        return (*(check for check, _ in self.checks), *inner)

    @property
    def roots(self) -> tuple[Node, ...]:
        """All nodes."""
        return (*self.nodes, *self.refusing)

    @property
    def texts(self) -> dict[int, tuple[Any, ...]]:
        """Columns that are texts, and those that the function knows."""
        found: dict[int, tuple[Any, ...]] = {}
        for node in topological(self.roots):
            if isinstance(node, Codes) and isinstance(node.vocabulary, Vocabulary):
                known = (*node.vocabulary.values, *arguments_of(node.vocabulary))
                found[node.column] = (*found.get(node.column, ()), *known)
            elif isinstance(node, OfTexts) and node.type.dtype == "string":
                for part in node.parts:
                    if isinstance(part, Columns):
                        found.setdefault(part.columns[0], ())
        return found

    @property
    def edits(self) -> dict[int, set[tuple[TextEdit, ...]]]:
        """What edits the texts of each column, in all places."""
        found: dict[int, set[tuple[TextEdit, ...]]] = {}
        for node in topological(self.roots):
            if isinstance(node, Codes) and isinstance(node.vocabulary, EditedVocabulary):
                found.setdefault(node.column, set()).add(node.vocabulary.edits)
            column = EditedColumn.of(node) if isinstance(node, EditText) else None
            if column is not None:
                found.setdefault(column.column, set()).add(column.edits)
        return found

    @property
    def dates(self) -> dict[int, DateReading]:
        """Columns that are dates, and how they are read."""
        found: dict[int, DateReading] = {}
        for node in topological(self.roots):
            if isinstance(node, Codes) and isinstance(node.vocabulary, DateCodes):
                found[node.column] = node.vocabulary.reading
        return found

    @property
    def numbers(self) -> frozenset[int]:
        """Columns that something computes with."""
        read: set[int] = set()
        for node in topological(self.roots):
            moves = isinstance(node, Columns | ConstantRows)
            parts = node.parts if isinstance(node, OfTexts) else ()
            for x in () if moves else (x for x in node.inputs if x not in parts):
                read.update(x.columns if isinstance(x, Columns) else ())
        return frozenset(read)


def trace_table(step: Step, parameter: str, x: Node, keywords: Mapping[str, Any]) -> Output:
    """Return what the function that a parameter holds makes of a table of input columns."""
    func = getattr(step.estimator, parameter)
    names = _names(step, parameter, x)
    schema, made = _schema(names, x)
    kinds = {} if made else _kinds(step, names)
    try:
        traced = _run(step, func, keywords, schema, kinds)
    except FunctionRefusal as refusal:
        raise refuse_step(step, parameter, f"{refusal.sentence} {say_way_out(step)}") from None
    _refuse_two_kinds(step, parameter, traced, names)
    for column in sorted(made & traced.numbers):
        dtype = select(x, [column]).type.dtype
        if dtype not in ("float64", "float32", "int64"):
            hint = f"It computes with column {names[column]!r}, which a step before makes {dtype}."
            raise refuse_step(step, parameter, hint)
    judge = _Judge(lambda table: func(table, **keywords), traced, schema, made, kinds)
    what = judge.find_difference("float64")
    if what:
        hint = f"What hbconv made of it differs from it: {what}. {say_way_out(step)}"
        raise refuse_step(step, parameter, hint)
    for column in sorted(traced.numbers - made):
        _refuse_rows(step, "nullable", names[column], select(x, [column]))
    failing = {kind: judge.find_failing(dtypes) for kind, dtypes in _KINDS.items()}
    if traced.numbers and not failing["float32"] and judge.find_mixed():
        failing["float32"] = judge.numbers
    for kind, columns in failing.items():
        for column in columns:
            _refuse_rows(step, kind, names[column], select(x, [column]))
    over = _Over(step, x, traced)
    for column in sorted(traced.numbers | traced.texts.keys()):
        # Of NA pandas makes NA, which arithmetic hands on and conditions raise at.
        read = select(x, [column])
        if isinstance(read, Columns):
            why = f"{step.name} applies a function to it."
            step.conditions.without_na.setdefault(read.columns[0], why)
    for check, why in traced.checks:
        step.check(over(check), f"{why} The function of {step.name} ({step.place}) meets it.")
    hand_on(step, traced.conditions, over, lambda column: select(x, [column]))
    nodes = [over(node) for node in traced.nodes]
    if traced.form is None:
        return transform_frame(nodes)["transform"]
    return Output(Concat(tuple(nodes)) if len(nodes) > 1 else nodes[0], traced.form)


def _refuse_two_kinds(
    step: Step, parameter: str, traced: _TracedTable, names: Sequence[str]
) -> None:
    kinds = {"text": traced.texts.keys(), "date": traced.dates.keys(), "number": traced.numbers}
    for (one, columns), (other, others) in combinations(kinds.items(), 2):
        if both := sorted(columns & others):
            hint = f"It reads column {names[both[0]]!r} both as {one} and as {other}."
            raise refuse_step(step, parameter, hint)


_KINDS = {
    "float32": ("float32",),
    "int64": ("int64",),
    "narrow": ("bool", "int8", "int16", "int32"),
}


def _names(step: Step, parameter: str, x: Node) -> tuple[str, ...]:
    """Return the names of the columns, by which the function finds them."""
    columns = [select(x, [place]) for place in range(x.type.width)]
    if all(isinstance(column, Columns) for column in columns):
        return tuple(c.schema.names[c.columns[0]] for c in columns if isinstance(c, Columns))
    fitted = getattr(step.estimator, "feature_names_in_", ())
    if len(fitted) != len(columns):
        hint = (
            "It is given a table that a step before makes, and does not keep the names of its "
            "columns, feature_names_in_. Call validate_data in fit."
        )
        raise refuse_step(step, parameter, hint)
    return tuple(map(str, fitted))


def _schema(names: Sequence[str], x: Node) -> tuple[Schema, frozenset[int]]:
    """Return columns of these names, and which of them a step before makes, in one type."""
    columns = [select(x, [place]) for place in range(len(names))]
    made = [place for place, column in enumerate(columns) if not isinstance(column, Columns)]
    dtypes = [c.type.dtype if place in made else "float64" for place, c in enumerate(columns)]
    known = ["float64" if dtype in ("string", "bool") else dtype for dtype in dtypes]
    return Schema.table(names).with_dtypes(known), frozenset(made)


def _kinds(step: Step, names: Sequence[str]) -> dict[int, str]:
    """Return what the columns held in the rows that the user gave."""
    return {place: step.kinds[name] for place, name in enumerate(names) if step.kinds.get(name)}


def _run(
    step: Step, func: Any, keywords: Mapping[str, Any], schema: Schema, kinds: Mapping[int, str]
) -> _TracedTable:
    """Run the function, again and again while it shows what a column holds."""
    leaf = Columns.of(schema)
    held: dict[int, Kind] = {place: "date" for place, kind in kinds.items() if kind == "date"}
    held.update((place, "text") for place, kind in kinds.items() if kind == "text")
    while True:
        inner = replace(step.over(step.estimator, leaf), conditions=Conditions())
        trace = Trace(leaf, inner, held=held, given=kinds)
        with suppress(Learnt):
            traced = _run_once(trace, func, keywords, schema)
            if not trace.learnt:
                return traced
        held = {**held, **trace.learnt}


def _run_once(trace: Trace, func: Any, keywords: Mapping[str, Any], schema: Schema) -> _TracedTable:
    given = {name: select(trace.x, [place]) for place, name in enumerate(schema.names)}
    with tracing(trace):
        result = run_function(func, TracedFrame(given, is_argument=True), keywords)
        form: Form | None = None
        if isinstance(result, TracedMatrix):
            form = MATRIX
            names = map(str, range(result.width))
            result = TracedFrame({n: result.column(j).node for j, n in enumerate(names)})
        elif is_column(result):
            output = as_output(result)
            form, result = output.form, TracedFrame({"0": output.node})
        if hasattr(result, "refuse"):
            result.refuse()
        if not isinstance(result, TracedFrame):
            refuse(
                f"returns {'None' if result is None else 'one column without a table'}",
                "Return a frame: pd.DataFrame({'a': ...}) or s.to_frame().",
            )
        if not all(isinstance(name, str) for name in result.nodes):
            refuse("returns columns whose names are no texts", "Name the columns.")
        if any(
            trace.kind_of(node) in ("date", "span") and not isinstance(node, Columns)
            for node in result.nodes.values()
        ):
            refuse("returns dates", "Return their parts, or days since a constant date.")
    columns, checks = tuple(result.nodes.values()), tuple(trace.checks)
    narrow = frozenset(node for node in columns if trace.kind_of(node) == "narrow")
    return _TracedTable(tuple(result.nodes), columns, checks, trace.conditions, form, narrow)


_WORDS = {"narrow": "of bools or narrow ints", "nullable": "of a nullable type"}


def _refuse_rows(step: Step, kind: str, name: str, x: Node) -> None:
    message = (
        f"The function of {step.name} ({step.place}) computes otherwise where column {name!r} is "
        f"{_WORDS.get(kind, kind)}. Give float64: df.astype(float)."
    )
    conditions = {
        "float32": IsOtherDtype(Cast(x, "float"), "float64"),
        "int64": IsOtherDtype(x, "float"),
        "narrow": AreNarrow(x),
        "nullable": AreNullable(x),
    }
    step.check(conditions[kind], message)


@dataclass(frozen=True)
class _Over:
    """Puts the nodes of a trace over the columns that the step reads."""

    step: Step
    x: Node
    traced: _TracedTable

    def __call__(self, node: Node) -> Node:
        return rewrite((node,), self._visit)[node]

    @property
    def _codes(self) -> Node | None:
        return next((n for n in topological(self.traced.roots) if isinstance(n, Codes)), None)

    def _visit(self, node: Node) -> Node:
        if isinstance(node, Columns):
            return select(self.x, node.columns)
        if isinstance(node, Codes):
            column = select(self.x, [node.column])
            if not isinstance(column, Columns):
                hint = "It reads texts of a table that a step before makes. Encode them there."
                raise self.step.refuse(None, None, hint)
            return Codes(column.schema, column.columns[0], node.vocabulary)
        if isinstance(node, ConstantRows):
            # Any column gives the number of rows but one of texts, which no program is given.
            leaf = self._codes if not self.traced.numbers else None
            if leaf is not None:
                return replace(node, x=self._visit(leaf))
            width = range(self.x.type.width)
            numbers = [j for j in width if j in self.traced.numbers or not self.traced.numbers]
            return replace(node, x=select(self.x, numbers[:1]))
        return node


Table = Any


@dataclass(frozen=True)
class _Judge:
    """Compares a trace with its function on tables of drawn columns."""

    function: Callable[[Table], Any]
    traced: _TracedTable
    schema: Schema
    made: frozenset[int]
    """Columns that a step before makes, whose types are known."""
    kinds: Mapping[int, str]
    """What columns held in the rows that the user gave."""

    @property
    def numbers(self) -> list[int]:
        """Columns of the input that something computes with."""
        return sorted(self.traced.numbers - self.made)

    @cached_property
    def texts(self) -> dict[int, tuple[Any, ...]]:
        """Columns of texts, and those that the function knows."""
        return {**{j: () for j, kind in self.kinds.items() if kind == "text"}, **self.traced.texts}

    @cached_property
    def dates(self) -> dict[int, DateReading]:
        """Columns of dates, and how they are read."""
        given = [j for j, kind in self.kinds.items() if kind == "date"]
        return {**dict.fromkeys(given, DateReading(naive=True)), **self.traced.dates}

    def find_failing(self, dtypes: Sequence[str]) -> list[int]:
        """Return the columns that the function answers otherwise in some of the dtypes.

        All of them, where it does not fail in one alone, and yet in all at once.
        """
        numbers = self.numbers
        if not numbers or not any(self.find_difference(dtype, numbers) for dtype in dtypes):
            return []
        failing = [j for j in numbers if any(self.find_difference(d, [j]) for d in dtypes)]
        rest = [j for j in numbers if j not in failing]
        if failing and not any(self.find_difference(d, rest) for d in dtypes):
            return failing
        return numbers

    def find_mixed(self) -> str | None:
        """Return how they differ where float32 stands beside ints."""
        numbers = self.numbers
        pairs = [(d, numbers[start::2]) for d in ("int64", "int8") for start in (0, 1)]
        found = (self.find_difference(d, chosen, "float32") for d, chosen in pairs)
        return next(filter(None, found), None)

    def find_difference(
        self, dtype: str, columns: Sequence[int] = (), others: str = "float64"
    ) -> str | None:
        """Return how they differ where some columns have a dtype, and the others another."""
        several = self.texts or self.dates
        for as_objects in (True, False) if several else (False,):
            try:
                what = self._compare(self._draw(dtype, columns, others, as_objects=as_objects))
            except HbconvError as error:
                return str(error)
            if what:
                return what
        return None

    def _draw(self, dtype: str, columns: Sequence[int], others: str, *, as_objects: bool) -> Table:
        special = find_special(self.traced.roots)
        width = len(self.schema.names)
        floats = draw_rows(width, others, special)
        chosen = draw_rows(width, dtype, special)
        drawn: dict[str, Any] = {}
        texts, dates, edits = self.texts, self.dates, self.traced.edits
        for j, name in enumerate(self.schema.names):
            drawn[name] = floats[:, j]
            if j in self.made:
                own = draw_rows(width, self.schema.dtypes[j], special)[:, j]
                drawn[name] = np.resize(own, len(floats))
            if j in columns:
                drawn[name] = np.resize(chosen[:, j], len(floats))
            elif j not in self.traced.numbers and self.kinds.get(j) == "bool":
                drawn[name] = floats[:, j] > 0
            if j in texts:
                drawn[name] = draw_texts(
                    texts[j], edits.get(j, ()), len(floats), as_objects=as_objects
                )
            if j in dates:
                drawn[name] = draw_dates(dates[j], len(floats), j, as_objects=as_objects)
        return sys.modules["pandas"].DataFrame(drawn)

    def _compare(self, table: Table) -> str | None:
        rng = np.random.default_rng(1)
        typed = self._typed(table)
        if self.traced.refusing:
            checks = [typed[check] for check in self.traced.refusing]
            refused = compute(checks, _columns_of(table))
            table = table[~np.concatenate(refused, axis=1).any(axis=1)]
        table = table.reset_index(drop=True)
        computed = [node for node in self.traced.nodes if not _is_moved(node)]
        computed += [node for moved in self.traced.nodes for node in _deciding(moved)]
        answers = compute([typed[node] for node in computed], _columns_of(table))
        values = dict(zip(computed, answers, strict=True))
        order = rng.integers(0, len(table), len(table) + 3)
        alone = rng.choice(len(table), min(5, len(table)), replace=False)
        for places in (np.arange(len(table)), order, np.arange(len(table)), *(alone[:, None])):
            given = table.iloc[places]
            what = self._ask(given, {node: v[places] for node, v in values.items()})
            if what:
                return what
        return None

    def _typed(self, table: Table) -> dict[Node, Node]:
        """Return the nodes over columns of the dtypes that a table has."""
        kinds = [str(dtype) for dtype in table.dtypes]
        dtypes = ["float64" if d == "float64" else d if d == "float32" else "int64" for d in kinds]
        coded = self.texts.keys() | self.dates.keys()
        is_text = [j in coded for j in range(len(kinds))]
        named = ["float64" if text else dtype for text, dtype in zip(is_text, dtypes, strict=True)]
        schema = self.schema.with_dtypes(named)

        def visit(node: Node) -> Node:
            return replace(node, schema=schema) if isinstance(node, Columns) else node

        return rewrite(self.traced.roots, visit)

    def _ask(self, given: Table, values: Mapping[Node, npt.NDArray[Any]]) -> str | None:
        argument = given.copy()
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = self.function(argument)
            # The code of a user may raise anything.
            except Exception as error:
                shown = " ".join(str(error).split())[:120]
                return f"it raises {type(error).__name__} for some rows ({shown})"
        if not argument.equals(given):
            return "it writes into its argument. Begin with df = df.copy()"
        form = self.traced.form
        if form is not None and isinstance(answer, np.ndarray):
            if answer.ndim != (2 if form == MATRIX else 1):
                return f"it returns {answer.ndim} dimensions"
            columns = answer.reshape(len(answer), -1)
            names = list(map(str, range(columns.shape[1])))
            answer = sys.modules["pandas"].DataFrame(columns, columns=names)
        names = list(getattr(answer, "columns", ()))
        if names != list(self.traced.names) or len(answer) != len(given):
            return f"it returns columns {names}, and its trace {list(self.traced.names)}"
        for place, (name, node) in enumerate(
            zip(self.traced.names, self.traced.nodes, strict=True)
        ):
            want = answer.iloc[:, place]
            if isinstance(form, Labels):
                texts = form.classes.data[values[node][:, 0]].tolist()
                what = None if list(want) == texts else f"it returns {want[:3]}, not {texts[:3]}"
            elif node in values:
                wide = want.astype(np.int64) if _is_narrowed(want, node, self.traced) else want
                what = _compare_numbers(wide.to_numpy(), values[node][:, 0], find_slack(node))
            else:
                what = _compare_moved(list(want), _moved_values(node, given, values))
            if what:
                return f"in column {name!r} {what}"
        return None


def _is_narrowed(want: Any, node: Node, traced: _TracedTable) -> bool:
    """Tell whether a column is of narrow ints, as its trace says."""
    return node in traced.narrow and str(want.dtype) in NARROW


def _columns_of(table: Table) -> list[npt.NDArray[Any]]:
    return [table.iloc[:, j].to_numpy() for j in range(table.shape[1])]


def _is_moved(node: Node) -> bool:
    return isinstance(node, Columns | OfTexts)


def _deciding(node: Node) -> list[Node]:
    """Return what is computed to choose the texts of a column."""
    node = follow_text(node) if isinstance(node, OfTexts) else node
    if not isinstance(node, OfTexts):
        return []
    own = [x for x in node.inputs if x not in node.parts]
    return own + [found for part in node.parts for found in _deciding(part)]


def _moved_values(node: Node, given: Table, values: Mapping[Node, npt.NDArray[Any]]) -> list[Any]:
    """Return a column that is passed on, or of texts that are made."""
    if isinstance(node, Columns):
        return list(given.iloc[:, node.columns[0]])
    node = follow_text(node)
    if isinstance(node, ChosenText):
        return [node.texts[code + 1] for code in values[node.x][:, 0].tolist()]
    if isinstance(node, ChooseText | JoinText):
        first, second = (_moved_values(part, given, values) for part in node.parts)
        if isinstance(node, ChooseText):
            return [a if held else b for held, a, b in zip(
                values[node.condition][:, 0].tolist(), first, second, strict=True
            )]  # fmt: skip
        pairs = zip(first, second, strict=True)
        return [None if _is_missing(a) or _is_missing(b) else a + b for a, b in pairs]
    if isinstance(node, NumberText):
        return [repr(number) for number in values[node.x][:, 0].tolist()]
    if isinstance(node, FillObjects | EditText) and isinstance(node.x, JoinText | NumberText):
        return [edited_text(node, value) for value in _moved_values(node.x, given, values)]
    column = EditedColumn.of(node)
    if column is None:
        raise ConversionError("it fills what is computed with a text")
    return [column.apply(value) for value in given.iloc[:, column.column]]


def _compare_moved(want: list[Any], values: list[Any]) -> str | None:
    for a, b in zip(want, values, strict=True):
        if not (a == b or (_is_missing(a) and _is_missing(b))):
            return f"it returns {a!r}, and its trace {b!r}"
    return None


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def _compare_numbers(want: npt.NDArray[Any], got: npt.NDArray[Any], slack: float) -> str | None:
    """Compare numbers; of ints and floats the next step makes the same numbers."""
    if want.dtype.kind not in "biuf" and not all(
        v is None or isinstance(v, bool | int | float | np.number) for v in want.tolist()
    ):
        return f"it returns {want.dtype}"
    if (want.dtype == np.float32) != (got.dtype == np.float32):
        return f"it returns {want.dtype}, and its trace {got.dtype}"
    # Parts of dates are int32, until one is missing.
    if want.dtype.kind in "iu" and want.dtype not in (np.int64, np.int32):
        return f"it returns {want.dtype}, and its trace {got.dtype}"
    both_ints = want.dtype.kind in "biu" and got.dtype.kind in "biu"
    w, g = (want, got) if both_ints else (want.astype(np.float64), got.astype(np.float64))
    slack = max(slack, 1e-6) if slack and want.dtype == np.float32 else slack
    with np.errstate(all="ignore"):
        same = (w == g) | ((w != w) & (g != g))
        if slack:
            same |= np.abs(w - g) <= slack * np.abs(w)
    if same.all():
        return None
    row = int(np.flatnonzero(~same)[0])
    return f"it returns {want[row]!r}, and its trace {got[row]!r}"
