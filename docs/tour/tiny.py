"""A complete compiler on one page: StandardScaler and DecisionTreeClassifier to numpy.

Each section below is one stage of hbconv, and one page of the tour. Rows are float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

# ---- 1. Parse: a table of parsers by public name, so that no library is imported ----

PARSERS: dict[str, Callable[[Any, Node, list[Check]], dict[str, Output]]] = {}


def parses(name: str) -> Callable[..., Any]:
    """Register the decorated function as the parser of the class with this dotted name."""
    return lambda parser: PARSERS.setdefault(name, parser)


def find_parser(estimator: Any) -> Callable[..., dict[str, Output]]:
    """Return the parser whose name leads to the estimator's class; refuse other classes."""
    for name, parser in PARSERS.items():
        module, _, attribute = name.rpartition(".")
        if getattr(sys.modules.get(module), attribute, None) is type(estimator):
            return parser
    raise NotImplementedError(f"tiny has no parser for {type(estimator).__name__}.")


@parses("sklearn.pipeline.Pipeline")
def parse_pipeline(est: Any, x: Node, checks: list[Check]) -> dict[str, Output]:
    """Give the output of each step to the next one."""
    *transformers, last = (step for _, step in est.steps)
    for transformer in transformers:
        x = find_parser(transformer)(transformer, x, checks)["transform"].node
    return find_parser(last)(last, x, checks)


@parses("sklearn.preprocessing.StandardScaler")
def parse_scaler(est: Any, x: Node, checks: list[Check]) -> dict[str, Output]:
    """Subtract ``mean_``, then divide by ``scale_``, in the source's order."""
    checks.append(Check(x, "float64"))
    mean = est.mean_ if est.with_mean else np.zeros(x.width)
    scale = est.scale_ if est.with_std else np.ones(x.width)
    return {"transform": Output(Affine(x, mean, scale))}


@parses("sklearn.tree.DecisionTreeClassifier")
def parse_tree(est: Any, x: Node, checks: list[Check]) -> dict[str, Output]:
    """Read the fitted tree; a leaf leads to itself, so that walking on changes nothing."""
    if est.n_outputs_ != 1:
        raise NotImplementedError(f"tiny reads trees of one output, not {est.n_outputs_}.")
    checks.append(Check(x, "float32"))
    fitted = est.tree_
    itself = np.arange(fitted.node_count)
    leaf = fitted.children_left < 0
    tree = Tree(
        feature=np.where(leaf, max(fitted.feature[0], 0), fitted.feature),
        threshold=fitted.threshold,
        left=np.where(leaf, itself, fitted.children_left),
        right=np.where(leaf, itself, fitted.children_right),
        value=fitted.value[:, 0, :],
        depth=fitted.max_depth,
    )
    scores = TreeScores(x, tree)
    return {"predict_proba": Output(scores), "predict": Output(ArgMax(scores), est.classes_)}


def parse(estimator: Any) -> Graph:
    """Turn a fitted estimator into a graph."""
    checks: list[Check] = []
    columns = Columns(np.arange(estimator.n_features_in_))
    return Graph(find_parser(estimator)(estimator, columns, checks), tuple(checks))


# ---- 2. Graph: an immutable DAG of nodes that say what is computed ----


@dataclass(frozen=True, eq=False)
class Node:
    """One operation on all rows. Fields that hold nodes are inputs, the others constants."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that this one reads."""
        return tuple(value for value in vars(self).values() if isinstance(value, Node))

    def with_inputs(self, new: dict[Node, Node]) -> Node:
        """Return the node over other inputs; itself where none changes."""
        changes = {name: new[v] for name, v in vars(self).items() if isinstance(v, Node)}
        changed = any(value is not getattr(self, name) for name, value in changes.items())
        return replace(self, **changes) if changed else self

    def lower(self, b: Builder, *inputs: int) -> int:
        """Append the primitives that compute the node; return the position of the last."""
        raise NotImplementedError

    def narrowed(self, columns: np.ndarray) -> Node | None:
        """Return a node that computes these output columns alone; None where that cannot be."""


@dataclass(frozen=True, eq=False)
class Columns(Node):
    """Columns of the input."""

    indices: np.ndarray
    width = property(lambda self: len(self.indices))

    def narrowed(self, columns: np.ndarray) -> Node:
        return Columns(self.indices[columns])

    def lower(self, b: Builder) -> int:
        return b.op("take", b.op("input"), b.constant(self.indices))


@dataclass(frozen=True, eq=False)
class Affine(Node):
    """``(x - sub) / div``, column by column, rounded after each step as the source rounds."""

    x: Node
    sub: np.ndarray
    div: np.ndarray
    width = property(lambda self: self.x.width)

    def narrowed(self, columns: np.ndarray) -> Node:
        return Affine(self.x.narrowed(columns), self.sub[columns], self.div[columns])

    def lower(self, b: Builder, x: int) -> int:
        return b.op("div", b.op("sub", x, b.constant(self.sub)), b.constant(self.div))


@dataclass(frozen=True)
class Tree:
    """A tree as flat arrays, one entry for each node: its split, its children, its value."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    depth: int

    @property
    def is_leaf(self) -> np.ndarray:
        """Whether each node is a leaf."""
        return self.left == self.right

    def __str__(self) -> str:
        return f"{(~self.is_leaf).sum()} splits, depth {self.depth}"


@dataclass(frozen=True, eq=False)
class TreeScores(Node):
    """The value of the leaf that each row reaches. The plan fills in ``strategy``."""

    x: Node
    tree: Tree
    strategy: str = "undecided"

    def lower(self, b: Builder, x: int) -> int:
        leaf = STRATEGIES[self.strategy](b, self.tree, b.op("float32", x))
        return b.op("lookup", b.constant(self.tree.value), leaf)


@dataclass(frozen=True, eq=False)
class ArgMax(Node):
    """The position of the largest value of each row, as one column."""

    x: Node

    def lower(self, b: Builder, x: int) -> int:
        return b.op("argmax", x)


@dataclass(frozen=True)
class Output:
    """What one method answers: values of a node, or the labels that its positions name."""

    node: Node
    classes: np.ndarray | None = None


@dataclass(frozen=True)
class Check:
    """Rows for which the node is not finite in this dtype are refused, as the source does."""

    node: Node
    dtype: str


@dataclass(frozen=True)
class Graph:
    """The outputs by method, and the checks."""

    outputs: dict[str, Output]
    checks: tuple[Check, ...]

    def nodes(self) -> list[Node]:
        """Return each node of the outputs once, inputs first."""
        return topological([output.node for output in self.outputs.values()])

    def rewritten(self, visit: Callable[[Node], Node]) -> Graph:
        """Rebuild the outputs from the inputs up; the checks keep reading what the user gives."""
        new: dict[Node, Node] = {}
        for node in self.nodes():
            new[node] = visit(node.with_inputs(new))
        outputs = {m: replace(o, node=new[o.node]) for m, o in self.outputs.items()}
        return replace(self, outputs=outputs)


def topological(roots: list[Node]) -> list[Node]:
    """Return each node once, inputs before the nodes that read them."""
    order: dict[Node, None] = {}
    for root in roots:
        order |= dict.fromkeys([*topological(list(root.inputs)), root])
    return list(order)


def show_graph(graph: Graph) -> str:
    """Print a graph, a node a line."""
    number = {node: f"%{i}" for i, node in enumerate(graph.nodes(), 1)}
    lines = []
    for node in graph.nodes():
        values = vars(node).values()
        shown = (number[v] if isinstance(v, Node) else show_value(v) for v in values)
        lines.append(f"{number[node]} {type(node).__name__} {', '.join(shown)}")
    for method, output in graph.outputs.items():
        shown = number[output.node]
        lines.append(f"{method} = {shown if output.classes is None else f'classes[{shown}]'}")
    return "\n".join(lines)


def show_value(value: Any) -> str:
    """Print a constant in short."""
    if not isinstance(value, np.ndarray):
        return str(value)
    return np.array2string(value, precision=2, separator=", ", threshold=12).replace("\n", "")


# ---- 3. Optimize: rules from node to node, applied until none changes anything ----


def drop_unused_columns(node: Node) -> Node | None:
    """Compute only the columns that a tree reads. Exact: columns do not mix before the tree.

    tree_scores(affine(columns(a, b, c))) that reads c -> tree_scores(affine(columns(c)))
    """
    if not isinstance(node, TreeScores):
        return None
    used = np.unique(node.tree.feature)
    if len(used) == node.x.width:
        return None
    feature = np.searchsorted(used, node.tree.feature)
    return replace(node, x=node.x.narrowed(used), tree=replace(node.tree, feature=feature))


RULES = (drop_unused_columns,)


def optimize(graph: Graph) -> Graph:
    """Apply each rule at each node, bottom-up, until the graph stays as it is."""
    while True:
        after = graph
        for rule in RULES:
            after = after.rewritten(lambda node, rule=rule: rule(node) or node)
        if after.nodes() == graph.nodes():
            return after
        graph = after


# ---- 4. Plan: a strategy for each tree, the one with the least predicted work ----


def walk(b: Builder, tree: Tree, x: int) -> int:
    """Let each row go down one level at a time."""
    arrays = (tree.feature, tree.threshold, tree.left, tree.right)
    feature, threshold, left, right = (b.constant(array) for array in arrays)
    root = b.op("take", x, b.constant(tree.feature[:1]))
    goes_left = b.op("le", root, b.constant(tree.threshold[:1]))
    at = b.op("where", goes_left, b.constant(tree.left[:1]), b.constant(tree.right[:1]))
    for _ in range(tree.depth - 1):
        value = b.op("gather", x, b.op("lookup", feature, at))
        goes_left = b.op("le", value, b.op("lookup", threshold, at))
        at = b.op("where", goes_left, b.op("lookup", left, at), b.op("lookup", right, at))
    return at


def gemm(b: Builder, tree: Tree, x: int) -> int:
    """Decide all splits at once; a row reaches the leaf whose path agrees."""
    splits = np.flatnonzero(~tree.is_leaf)
    tested = b.op("take", x, b.constant(tree.feature[splits]))
    goes_left = b.op("le", tested, b.constant(tree.threshold[splits]))
    agree = b.op("matmul", goes_left, b.constant(paths(tree)))
    wanted = b.constant(np.sum(paths(tree) > 0, axis=0))
    leaf = b.op("argmax", b.op("sub", agree, wanted))
    return b.op("lookup", b.constant(np.flatnonzero(tree.is_leaf)), leaf)


def paths(tree: Tree) -> np.ndarray:
    """Return (n_splits, n_leaves): 1 for a leaf left of the split, -1 for one right of it."""
    path = np.zeros((len(tree.left), len(tree.left)), np.float32)
    for node in np.flatnonzero(~tree.is_leaf):  # parents have smaller numbers than children
        for child, side in ((tree.left[node], 1), (tree.right[node], -1)):
            path[:, child] = path[:, node]
            path[node, child] = side
    return path[~tree.is_leaf][:, tree.is_leaf]


STRATEGIES = {"tree_traversal": walk, "gemm": gemm}


CALL = 1000
"""A call of numpy takes about as long as computing this many numbers (measured: 400 to 3,000)."""


def costs(tree: Tree, rows: int) -> dict[str, int]:
    """Predict the work of each strategy: its calls of numpy, and the numbers of each row."""
    leaves = int(tree.is_leaf.sum())
    splits = leaves - 1
    steps = 7 * tree.depth - 4
    numbers = 2 * splits + splits * leaves + 2 * leaves + 1
    return {"tree_traversal": steps * CALL + steps * rows, "gemm": 6 * CALL + numbers * rows}


def plan(graph: Graph, rows: int) -> Graph:
    """Write the cheapest strategy into each tree node."""

    def choose(node: Node) -> Node:
        if not isinstance(node, TreeScores):
            return node
        cost = costs(node.tree, rows)
        return replace(node, strategy=min(cost, key=cost.get))

    return graph.rewritten(choose)


# ---- 5. Lower: the DAG becomes a flat list of primitives ----


@dataclass
class Builder:
    """Appends instructions; the position of an instruction is its name."""

    instructions: list[tuple[str, tuple[int, ...], Any]] = field(default_factory=list)

    def op(self, primitive: str, *operands: int, value: Any = None) -> int:
        """Append an instruction, and return its position."""
        self.instructions.append((primitive, operands, value))
        return len(self.instructions) - 1

    def constant(self, value: np.ndarray) -> int:
        """Append a constant."""
        return self.op("constant", value=value)


@dataclass(frozen=True)
class Program:
    """Instructions in order, and the positions of the results."""

    instructions: list[tuple[str, tuple[int, ...], Any]]
    results: dict[Any, int]

    def __str__(self) -> str:
        lines = []
        for i, (primitive, operands, value) in enumerate(self.instructions):
            shown = [f"%{o}" for o in operands] if value is None else [show_value(value)]
            lines.append(" ".join([f"%{i} =", primitive, *shown]))
        return "\n".join(lines)


def lower(nodes: dict[Any, Node]) -> Program:
    """Write named nodes as one program that shares what they have in common."""
    b = Builder()
    position: dict[Node, int] = {}
    for node in topological(list(nodes.values())):
        position[node] = node.lower(b, *(position[n] for n in node.inputs))
    return Program(b.instructions, {name: position[node] for name, node in nodes.items()})


# ---- 6. Backend: what each primitive means in numpy, ten in all ----

EMITS: dict[str, Callable[..., np.ndarray]] = {
    "take": lambda x, columns: x[:, columns],
    "sub": np.subtract,
    "div": np.divide,
    "float32": lambda x: x.astype(np.float32),
    "le": np.less_equal,
    "where": np.where,
    "lookup": lambda table, index: table[index].reshape(len(index), -1),
    "gather": lambda x, index: np.take_along_axis(x, index, axis=1),
    "matmul": np.matmul,
    "argmax": lambda x: np.argmax(x, axis=1)[:, None],
}


def run(program: Program, x: np.ndarray) -> dict[Any, np.ndarray]:
    """Compute the results, an instruction at a time."""
    values: list[np.ndarray] = []
    for primitive, operands, value in program.instructions:
        if primitive in ("input", "constant"):
            values.append(x if primitive == "input" else value)
        else:
            values.append(EMITS[primitive](*(values[i] for i in operands)))
    return {name: values[i] for name, i in program.results.items()}


# ---- The compiler: the stages in a row ----


@dataclass(frozen=True)
class Model:
    """A compiled model: checks the rows, runs the program, and names the classes."""

    graph: Graph
    program: Program
    checks: Program

    def call(self, method: str, x: np.ndarray) -> np.ndarray:
        """Answer as the source's method does, or refuse the rows as the source does."""
        if x.dtype != np.float64:
            raise TypeError(f"tiny takes rows of float64, not {x.dtype}.")
        with np.errstate(over="ignore"):  # what exceeds float32 is infinite, and refused
            for check, value in run(self.checks, x).items():
                if not np.isfinite(value.astype(check.dtype)).all():
                    raise ValueError(f"A row holds NaN, or a value that exceeds {check.dtype}.")
        values = run(self.program, x)[method]
        classes = self.graph.outputs[method].classes
        return values if classes is None else classes[values[:, 0]]


def convert(estimator: Any, rows: int = 1000) -> Model:
    """Compile a fitted estimator for calls of about so many rows."""
    graph = parse(estimator)
    graph = optimize(graph)
    graph = plan(graph, rows)
    program = lower({method: output.node for method, output in graph.outputs.items()})
    return Model(graph, program, lower({check: check.node for check in graph.checks}))
