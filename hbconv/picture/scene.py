"""Scene: what a picture of a graph shows, before anything has a place.

Equal members are folded: fifty heads of one shape, between the same nodes, are drawn once.
Two nodes are equal members if they do the same with other constants, and so do all nodes before and
behind them. The classes are the coarsest stable partition, refined from the nodes' own looks (as
Hopcroft's algorithm does for automata).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hbconv.containers import (
    Affine,
    Cast,
    Codes,
    Columns,
    Compare,
    ConstantRows,
    Entries,
    Graph,
    Map,
    NearestPoints,
    Node,
    Polynomial,
    Together,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.errors import BackendError
from hbconv.lower import lower
from hbconv.optimize.program_cost import source_seconds
from hbconv.target import Target

__all__ = ["KINDS", "Box", "Cluster", "Scene", "asked_methods", "kind_of", "make_scene"]

MOST_SEGMENTS = 2
"""Parts of a step's path that are written, the last ones."""


MOST_WAYS = 20_000
"""Boxes, and ways kept open for lines, of a picture: those of 20,000 take some five seconds."""


@dataclass(frozen=True)
class Box:
    """What represents equal members, or an output.

    Parameters
    ----------
    title, detail : str
    kind : str
        One of ``KINDS``.
    returns : str
        Type of the values, for the lines that leave it.
    count : int
        How many members it represents.
    share : float
        Of the predicted time.
    facts : mapping of str to str
        Shown on request.
    """

    title: str
    detail: str
    kind: str
    returns: str = ""
    count: int = 1
    share: float = 0.0
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """Boxes of one step of the pipeline; a cluster without a title has no frame.

    Parameters
    ----------
    title : str
        The class of the estimator.
    path : str
        Its place in the pipeline.
    boxes : tuple of int
        Positions in ``Scene.boxes``.
    rank : int
        Clusters that it reads have smaller ranks.
    """

    title: str
    path: str
    boxes: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Scene:
    """Boxes, the clusters that hold them, and lines between boxes as pairs of positions.

    Shares of the time are those of ``methods``.
    """

    boxes: tuple[Box, ...]
    clusters: tuple[Cluster, ...]
    lines: tuple[tuple[int, int], ...]
    methods: tuple[str, ...] = ()

    @property
    def ways(self) -> int:
        """Count the boxes, and the layers that lines pass between the two that they join."""
        depth = [0] * len(self.boxes)
        for before, behind in sorted(self.lines, key=lambda line: line[1]):
            depth[behind] = max(depth[behind], depth[before] + 1)
        passed = sum(depth[behind] - depth[before] - 1 for before, behind in self.lines)
        return len(self.boxes) + passed


def asked_methods(graph: Graph) -> tuple[str, ...]:
    """Return what most calls ask for: predict and predict_proba, else the first method."""
    found = tuple(name for name in ("predict", "predict_proba") if name in graph.outputs)
    return found or tuple(graph.outputs)[:1]


def make_scene(
    graph: Graph,
    target: Target,
    remarks: Mapping[Node, str] | None = None,
    methods: Sequence[str] = (),
) -> Scene:
    """Fold the equal members of a graph, and gather what is left by step.

    Nodes that compute nothing (``Together``) are left out.

    Parameters
    ----------
    graph : Graph
    target : Target
        For the predicted shares of the time.
    remarks : mapping of Node to str, optional
        More facts, such as the rules that made a node.
    methods : sequence of str
        What the shares of the time are of, by default ``asked_methods``.
    """
    methods = tuple(methods) or asked_methods(graph)
    nodes = [node for node in graph.nodes() if not isinstance(node, Together)]
    place = {node: i for i, node in enumerate(nodes)}
    inputs = {i: [place[_skip_together(n)] for n in _read(node)] for i, node in enumerate(nodes)}
    answers = {name: place[_skip_together(output.node)] for name, output in graph.outputs.items()}
    names = {i: ", ".join(n for n, j in answers.items() if i == j) for i in answers.values()}
    classes = fold(nodes, inputs, names)
    box_of = {i: b for b, members in enumerate(classes) for i in members}
    shares = predicted_shares(graph.only(*methods), nodes, target)
    boxes = [_box([nodes[i] for i in c], sum(shares[i] for i in c), remarks or {}) for c in classes]
    lines = {(box_of[n], box_of[i]): None for i, sources in inputs.items() for n in sources}
    clusters = _gather(nodes, classes, list(lines))
    found = {name: box_of[i] for name, i in answers.items()}
    return replace(_with_answers(boxes, clusters, list(lines), found), methods=methods)


def _skip_together(node: Node) -> Node:
    while isinstance(node, Together):
        node = node.x
    return node


def _read(node: Node) -> tuple[Node, ...]:
    """Return the inputs whose values a node reads; constants only need to know how many rows."""
    return () if isinstance(node, ConstantRows) else node.inputs


def _box(members: Sequence[Node], share: float, remarks: Mapping[Node, str]) -> Box:
    node = members[0]
    facts = {"step": join_steps([member.step for member in members]), **facts_of(members)}
    if node in remarks:
        facts["rules"] = remarks[node]
    if share:
        facts["predicted"] = f"{share:.1%} of the time"
    leaf = isinstance(node, Codes | Columns | Entries)
    return Box(
        title_of(members),
        detail_of(members),
        kind_of(node),
        type_of(node),
        1 if leaf else len(members),
        share,
        facts,
    )


def _gather(
    nodes: Sequence[Node], classes: Sequence[tuple[int, ...]], lines: Sequence[tuple[int, int]]
) -> list[Cluster]:
    """Make a cluster of the boxes of one step that need no other step in between.

    The rank of a box is the number of times that the step changes on the longest way to it.
    """
    steps: dict[str, list[str]] = {}
    for node in nodes:
        steps.setdefault(pattern(node.step), []).append(node.step)
    key = [_key(nodes[members[0]], len(members)) for members in classes]
    rank = [0 if _is_leaf(nodes[members[0]]) else 1 for members in classes]
    sources: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for before, behind in lines:
        sources.setdefault(behind, []).append(before)
        readers.setdefault(before, []).append(behind)
    # Inputs are before their users, so one pass settles all ranks.
    for box in range(len(classes)):
        for before in sources.get(box, ()):
            rank[box] = max(rank[box], rank[before] + (key[before] != key[box]))
    # Constants are drawn right above what reads them.
    for box in range(len(classes)):
        if rank[box] == 1 and box not in sources:
            rank[box] = max(1, min((rank[b] for b in readers.get(box, ())), default=2) - 1)
    groups: dict[tuple[str, int, int, int], list[int]] = {}
    for box in range(len(classes)):
        alone = box if key[box][1] == 0 else -1
        groups.setdefault((*key[box], rank[box], alone), []).append(box)
    return [
        Cluster(*_heading(steps[path]) if size else ("", ""), tuple(boxes), place)
        for (path, size, place, _), boxes in groups.items()
    ]


def _is_leaf(node: Node) -> bool:
    return isinstance(node, Codes | Columns | Entries)


def _key(node: Node, members: int) -> tuple[str, int]:
    """Return what boxes of one cluster share; leaves, marked by 0, are alone."""
    return (pattern(node.step), 0 if _is_leaf(node) else members)


def _heading(steps: Sequence[str]) -> tuple[str, str]:
    """Return the class of a step, and its place in the pipeline."""
    *path, title = join_steps(steps).split("/")
    # make_pipeline names steps by their class in lower case.
    if path and path[-1] == title.lower():
        path.pop()
    return title or "model", " › ".join(path[-MOST_SEGMENTS:])


def _with_answers(
    boxes: list[Box],
    clusters: list[Cluster],
    lines: list[tuple[int, int]],
    answers: Mapping[str, int],
) -> Scene:
    """Add a box for each output, below all others."""
    last = max((cluster.rank for cluster in clusters), default=0) + 1
    for name, box in answers.items():
        lines.append((box, len(boxes)))
        clusters.append(Cluster("", "", (len(boxes),), last))
        boxes.append(Box(name, "", "output", facts={"answers": name}))
    scene = Scene(tuple(boxes), tuple(clusters), tuple(lines))
    return scene if scene.ways <= MOST_WAYS else _without_picture(scene)


def _without_picture(scene: Scene) -> Scene:
    """Return one box that says why there is no picture."""
    why = f"{len(scene.boxes):,} boxes, and too many lines to draw"
    return Scene((Box("no picture", why, "output"),), (Cluster("", "", (0,), 0),), ())


Edges = Mapping[int, Sequence[int]]


def fold(nodes: Sequence[Node], inputs: Edges, names: Mapping[int, str]) -> list[tuple[int, ...]]:
    """Return the classes of equal members, in the order of their first ones.

    Parameters
    ----------
    nodes : sequence of Node
    inputs : mapping of int to sequence of int
        Positions of the inputs of each node, which come before it.
    names : mapping of int to str
        Of nodes that are outputs; these stay apart.
    """
    users = defaultdict(list)
    for node, sources in inputs.items():
        for before in sources:
            users[before].append(node)
    colours = _number_colours([(_look(node), names.get(i, "")) for i, node in enumerate(nodes)])
    count = 0
    while len(set(colours)) > count:
        count = len(set(colours))
        # Along the inputs and back: a chain of 3,000 took 3,000 passes when each went one step.
        colours = _refine(colours, inputs, range(len(nodes)), tuple)
        colours = _refine(colours, users, range(len(nodes) - 1, -1, -1), frozenset)
    classes = defaultdict(list)
    for i, colour in enumerate(colours):
        classes[colour].append(i)
    return [tuple(members) for members in classes.values()]


def pattern(step: str) -> str:
    """Return the path of a step without its numbers, which distinguish equal members.

    Examples
    --------
    >>> pattern("estimators_[12]/SVC")
    'estimators_[#]/SVC'
    """
    return re.sub(r"\d+", "#", step)


def join_steps(steps: Sequence[str]) -> str:
    """Return one path for steps of one pattern, with the range of each number that differs.

    Examples
    --------
    >>> join_steps(["estimators_[0]/SVC", "estimators_[1]/SVC", "estimators_[12]/SVC"])
    'estimators_[0…12]/SVC'
    """
    cut = [re.split(r"(\d+)", step) for step in steps]
    joined = []
    for parts in zip(*cut, strict=True):
        numbers = sorted({int(part) for part in parts if part.isdecimal()})
        joined.append(f"{numbers[0]}…{numbers[-1]}" if len(numbers) > 1 else parts[0])
    return "".join(joined)


def _number_colours(colours: Sequence[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(colour, len(numbers)) for colour in colours]


def _refine(
    colours: Sequence[int],
    nearest: Edges,
    order: Iterable[int],
    gather: Callable[[Iterable[int]], Any],
) -> list[int]:
    """Tell nodes apart by the colours of those nearest, which come before them in the order."""
    refined = list(colours)
    numbers: dict[Any, int] = {}
    for i in order:
        key = (colours[i], gather(refined[n] for n in nearest[i]))
        refined[i] = numbers.setdefault(key, len(numbers))
    return refined


def _look(node: Node) -> tuple[Any, ...]:
    """Return what must be equal of equal members: class, type, step, and plain settings."""
    kind = (type(node).__name__, node.type.width, node.type.dtype, pattern(node.step))
    if isinstance(node, Codes | Columns | Entries):
        return kind
    plain = [
        getattr(node, field.name) for field in dataclasses.fields(node) if field.name != "step"
    ]
    return (*kind, *(repr(value) for value in plain if isinstance(value, str | bool | int)))


def predicted_shares(graph: Graph, nodes: Sequence[Node], target: Target) -> tuple[float, ...]:
    """Return the share of each node in the predicted time of a graph's outputs together.

    The graph is lowered with the position of each node in place of its step, which operators carry
    on. Zeros mean that a graph has no predicted time, such as one that a backend refuses.
    """
    number = {node: str(i) for i, node in enumerate(nodes)}
    tagged = graph.rewritten(lambda node: replace(node, step=number.get(node, "")))
    try:
        seconds = source_seconds(lower(tagged, target.precision).program, target)
    except BackendError:
        return (0.0,) * len(nodes)
    total = sum(seconds.values())
    # Trees that no strategy can take cost infinity.
    if not 0 < total < math.inf:
        return (0.0,) * len(nodes)
    return tuple(seconds.get(str(i), 0.0) / total for i in range(len(nodes)))


MOST_NAMES = 3
"""Columns that are named one by one."""
MOST_TOLD = 400
"""Characters of a node's constants that are shown on request."""

_SIGNS = {"add": "+", "sub": "−", "mul": "×", "div": "÷"}
_OPERATORS = {"gt": "> ", "ge": "≥ ", "lt": "< ", "le": "≤ ", "eq": "= ", "ne": "≠ "}


def title_of(members: Sequence[Node]) -> str:
    """Return the heading of equal members: names of columns, or what the nodes do."""
    node = members[0]
    if isinstance(node, Codes | Columns | Entries):
        return name_columns(_columns(members))
    if isinstance(node, Map):
        return node.function.replace("_", " ")
    return node.name.replace("_", " ")


def detail_of(members: Sequence[Node]) -> str:
    """Return the line below the heading: what all members have in common, without long constants.

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.containers import Affine, Columns, Schema
    >>> detail_of([Affine.of(Columns.of(Schema.table(["a", "b"])), sub=[1.0, 2.0], div=[2.0, 3.0])])
    '(x − a) ÷ b'
    """
    parts = [_parts(node) for node in members]
    return ", ".join(part for part in parts[0] if all(part in others for others in parts))


def type_of(node: Node) -> str:
    """Return the type of a node's values, as they are written on lines."""
    return node.type.dtype if node.type.width == 1 else f"{node.type.dtype}[{node.type.width}]"


def name_columns(names: Sequence[str]) -> str:
    """Return names of columns on one line: all of a few, the first and the last of many.

    Examples
    --------
    >>> name_columns(["age", "fare"]), name_columns(["x0", "x1", "x2", "x3"])
    ('age, fare', 'x0 … x3')
    """
    plain = [shorten(name, 60) for name in names]
    return ", ".join(plain) if len(plain) <= MOST_NAMES else f"{plain[0]} … {plain[-1]}"


def shorten(text: str, most: int) -> str:
    """Return a text of so many characters at most, on one line, without control characters."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def facts_of(members: Sequence[Node]) -> dict[str, str]:
    """Return what is shown of equal members on request, by heading."""
    node = members[0]
    facts = {"node": node.name, "returns": type_of(node)}
    if len(members) > 1:
        facts["members"] = f"{len(members)} of one shape; constants of the first"
    if isinstance(node, Codes | Columns | Entries):
        facts["columns"] = shorten(", ".join(_columns(members)), MOST_TOLD)
    if isinstance(node, TreeEnsemble | TreeLeaves):
        facts["strategy"] = node.strategy
    if node.detail:
        facts["constants"] = shorten(node.detail, MOST_TOLD)
    return facts


def _columns(leaves: Sequence[Node]) -> list[str]:
    """Return the names of the columns that leaves read."""
    column_leaves = [leaf for leaf in leaves if isinstance(leaf, Codes | Columns | Entries)]
    return [leaf.schema.columns[place].name for leaf in column_leaves for place in leaf.columns]


def _parts(node: Node) -> list[str]:
    """Return the facts on one node that are short enough to be read in passing."""
    if isinstance(node, Columns):
        count = f", {node.type.width} columns" if node.type.width > MOST_NAMES else ""
        return [f"{node.type.dtype}{count}"]
    if isinstance(node, Codes):
        return ["text", str(node.vocabulary)]
    if isinstance(node, Entries):
        return ["text", f"{node.type.width:,} words"]
    if isinstance(node, TreeEnsemble | TreeLeaves):
        return [f"{node.forest.n_trees:,} trees", f"{node.forest.n_tests:,} tests"]
    if isinstance(node, Compare):
        return [_comparison(node.detail)]
    if isinstance(node, Affine):
        return [_formula(node)]
    return _plain_parts(node.detail) if isinstance(node, Cast | Polynomial | NearestPoints) else []


def _comparison(detail: str) -> str:
    operator, _, rest = detail.partition(" ")
    values = re.match(r"\[([^\],]*)\]", rest)
    return f"{_OPERATORS.get(operator, operator)}{values[1] if values else ''}".strip()


def _formula(node: Affine) -> str:
    """Return what is computed of x, with a letter for each constant."""
    formula = "x"
    for letter, step in zip("abcdefgh", node.steps, strict=False):
        # A product of a sum needs brackets.
        binds = step.op in ("mul", "div") and set(formula) & set("+−")
        formula = f"{f'({formula})' if binds else formula} {_SIGNS[step.op]} {letter}"
    return formula


def _plain_parts(detail: str) -> list[str]:
    """Return a detail without widths, which lines have, cut at its commas."""
    parts = re.sub(r"\bwidth \d+", "", detail).split(",")
    return [part.strip() for part in parts if part.strip()]


@dataclass(frozen=True)
class BoxKind:
    """A kind of nodes.

    Parameters
    ----------
    name : str
        In the legend.
    tint, strong : str
        Colours of nodes that take no time and all of it, as ``#rrggbb``.
    """

    name: str
    tint: str
    strong: str


KINDS = {
    "input": BoxKind("input", "#e9f0fb", "#4078c8"),
    "prepare": BoxKind("preparation", "#e2f5f1", "#14a08c"),
    "linear": BoxKind("linear", "#f0eafc", "#8257d8"),
    "trees": BoxKind("trees", "#e6f5e3", "#46a83c"),
    "distances": BoxKind("distances", "#fdf1dd", "#e0951f"),
    "decide": BoxKind("decision", "#fce9f1", "#d8487f"),
    "wiring": BoxKind("arithmetic", "#f2f4f7", "#8a94a6"),
    "output": BoxKind("answer", "#273043", "#273043"),
}
"""By name, in the order of the legend."""

_THEMES = {
    "input": "inputs",
    "prepare": ("affine basis_functions calendar codes missing power_transforms"),
    "linear": ("least_angles linear sparse_codes"),
    "trees": "trees",
    "distances": "distances donors neighbors",
    "decide": "decisions probabilities",
    "wiring": "arithmetic column_wise conditions elementwise pairs row_statistics wiring",
}
"""Kind of the nodes of each file of ``hbconv.containers.nodes``."""

_KIND_OF = {theme: kind for kind, themes in _THEMES.items() for theme in themes.split()}


def kind_of(node: Node) -> str:
    """Return the kind of a node; arithmetic for containers of other packages."""
    return _KIND_OF.get(type(node).__module__.rpartition(".")[2], "wiring")
