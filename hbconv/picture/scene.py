"""Scene: what a picture of a graph shows, before anything has a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hbconv.containers import Codes, Columns, ConstantRows, Entries, Graph, Node, Together
from hbconv.picture.fold import fold, join_steps, pattern
from hbconv.picture.kinds import kind_of
from hbconv.picture.labels import detail_of, facts_of, title_of, type_of
from hbconv.picture.shares import predicted_shares
from hbconv.target import Target

__all__ = ["Box", "Cluster", "Scene", "make_scene"]

MOST_SEGMENTS = 2
"""Parts of a step's path that are written, the last ones."""


MOST_WAYS = 20_000
"""Boxes, and ways kept open for lines, of a picture: those of 20,000 take some five seconds."""


@dataclass(frozen=True)
class Box:
    """What stands for equal members, or for an answer.

    Parameters
    ----------
    title, detail : str
    kind : str
        One of ``KINDS``.
    returns : str
        Type of the values, for the lines that leave it.
    count : int
        How many members it stands for.
    share : float
        Of the predicted time.
    facts : mapping of str to str
        Told on request.
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
        Where it stands in the pipeline.
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
    """Boxes, the clusters that hold them, and lines between boxes as pairs of positions."""

    boxes: tuple[Box, ...]
    clusters: tuple[Cluster, ...]
    lines: tuple[tuple[int, int], ...]

    @property
    def ways(self) -> int:
        """Count the boxes, and the layers that lines pass between the two that they join."""
        depth = [0] * len(self.boxes)
        for before, behind in sorted(self.lines, key=lambda line: line[1]):
            depth[behind] = max(depth[behind], depth[before] + 1)
        passed = sum(depth[behind] - depth[before] - 1 for before, behind in self.lines)
        return len(self.boxes) + passed


def make_scene(graph: Graph, target: Target, remarks: Mapping[Node, str] | None = None) -> Scene:
    """Fold the equal members of a graph, and gather what is left by step.

    Nodes that compute nothing (``Together``) are left out.

    Parameters
    ----------
    graph : Graph
    target : Target
        For the predicted shares of the time.
    remarks : mapping of Node to str, optional
        More facts, such as the rules that made a node.
    """
    nodes = [node for node in graph.nodes() if not isinstance(node, Together)]
    place = {node: i for i, node in enumerate(nodes)}
    inputs = {i: [place[_computed(n)] for n in _read(node)] for i, node in enumerate(nodes)}
    answers = {name: place[_computed(output.node)] for name, output in graph.outputs.items()}
    names = {i: ", ".join(n for n, j in answers.items() if i == j) for i in answers.values()}
    classes = fold(nodes, inputs, names)
    box_of = {i: b for b, members in enumerate(classes) for i in members}
    shares = predicted_shares(graph, nodes, target)
    boxes = [_box([nodes[i] for i in c], sum(shares[i] for i in c), remarks or {}) for c in classes]
    lines = {(box_of[n], box_of[i]): None for i, given in inputs.items() for n in given}
    clusters = _gather(nodes, classes, list(lines))
    return _with_answers(boxes, clusters, list(lines), {n: box_of[i] for n, i in answers.items()})


def _computed(node: Node) -> Node:
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
    given: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for before, behind in lines:
        given.setdefault(behind, []).append(before)
        readers.setdefault(before, []).append(behind)
    for box in range(len(classes)):  # inputs come first
        for before in given.get(box, ()):
            rank[box] = max(rank[box], rank[before] + (key[before] != key[box]))
    for box in range(len(classes)):  # constants stand right above what reads them
        if rank[box] == 1 and box not in given:
            rank[box] = max(1, min((rank[b] for b in readers.get(box, ())), default=2) - 1)
    found: dict[tuple[str, int, int, int], list[int]] = {}
    for box in range(len(classes)):
        alone = box if key[box][1] == 0 else -1
        found.setdefault((*key[box], rank[box], alone), []).append(box)
    return [
        Cluster(*_heading(steps[path]) if size else ("", ""), tuple(boxes), place)
        for (path, size, place, _), boxes in found.items()
    ]


def _is_leaf(node: Node) -> bool:
    return isinstance(node, Codes | Columns | Entries)


def _key(node: Node, members: int) -> tuple[str, int]:
    """Return what boxes of one cluster share; leaves, marked by 0, stand alone."""
    return (pattern(node.step), 0 if _is_leaf(node) else members)


def _heading(steps: Sequence[str]) -> tuple[str, str]:
    """Return the class of a step, and its place in the pipeline."""
    *path, title = join_steps(steps).split("/")
    if path and path[-1] == title.lower():  # as make_pipeline names its steps
        path.pop()
    return title or "model", " › ".join(path[-MOST_SEGMENTS:])


def _with_answers(
    boxes: list[Box],
    clusters: list[Cluster],
    lines: list[tuple[int, int]],
    answers: Mapping[str, int],
) -> Scene:
    """Add a box for each answer, below all others."""
    last = max((cluster.rank for cluster in clusters), default=0) + 1
    for name, box in answers.items():
        lines.append((box, len(boxes)))
        clusters.append(Cluster("", "", (len(boxes),), last))
        boxes.append(Box(name, "", "output", facts={"answers": name}))
    scene = Scene(tuple(boxes), tuple(clusters), tuple(lines))
    return scene if scene.ways <= MOST_WAYS else _left_out(scene)


def _left_out(scene: Scene) -> Scene:
    """Return one box that says why there is no picture."""
    told = f"{len(scene.boxes):,} boxes, and too many lines to draw"
    return Scene((Box("no picture", told, "output"),), (Cluster("", "", (0,), 0),), ())
