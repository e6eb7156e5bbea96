"""The container DAG: what a model computes, as a graph of nodes.

Each container is a small frozen class: its type rule, its lowering to primitives, and how it
prints. The classes stand by theme in ``nodes/``; all of them are imported from here.
"""

from hbconv.containers import nodes
from hbconv.containers.forms import (
    MATRIX,
    VECTOR,
    AsRows,
    Blocks,
    CategoryColumns,
    Cube,
    FlatRow,
    Form,
    LabelColumns,
    Labels,
    Layout,
    Matrix,
    MatrixList,
    MatrixTuple,
    Paths,
    Sparse,
    Stages,
    Vector,
    sparse_form,
)
from hbconv.containers.graph import Check, Graph, Traits, verify_graph
from hbconv.containers.interval import Trend
from hbconv.containers.node import (
    NODES,
    Node,
    at_step,
    container,
    current_step,
    rewrite,
    topological,
)
from hbconv.containers.nodes import *  # noqa: F403
from hbconv.containers.output import Output
from hbconv.containers.product_distances import (
    CosineDistances,
    Formula,
    ProductDistances,
    RootProducts,
    SharedProducts,
    SparseProducts,
    TermDistances,
    WholeProducts,
)
from hbconv.containers.row_forms import (
    AdjacencyLists,
    NameArrays,
    NamedValues,
    NameTuples,
    RowItems,
)
from hbconv.containers.schema import Column, Conventions, FrameFormat, NamesOut, Schema, Type
from hbconv.containers.searches import (
    HeapSearch,
    NearestSearch,
    PartitionSearch,
    TreeSearch,
    WrittenSearch,
    are_often_tied,
)
from hbconv.containers.session import InputPort, OutputPort, PassedPort, Session
from hbconv.containers.show import show, show_rule
from hbconv.containers.vocabulary import Missing, Vocabulary, missing_of

__all__ = [
    "MATRIX",
    "NODES",
    "VECTOR",
    "AdjacencyLists",
    "AsRows",
    "Blocks",
    "CategoryColumns",
    "Check",
    "Column",
    "Conventions",
    "CosineDistances",
    "Cube",
    "FlatRow",
    "Form",
    "Formula",
    "FrameFormat",
    "Graph",
    "HeapSearch",
    "InputPort",
    "LabelColumns",
    "Labels",
    "Layout",
    "Matrix",
    "MatrixList",
    "MatrixTuple",
    "Missing",
    "NameArrays",
    "NameTuples",
    "NamedValues",
    "NamesOut",
    "NearestSearch",
    "Node",
    "Output",
    "OutputPort",
    "PartitionSearch",
    "PassedPort",
    "Paths",
    "ProductDistances",
    "RootProducts",
    "RowItems",
    "Schema",
    "Session",
    "SharedProducts",
    "Sparse",
    "SparseProducts",
    "Stages",
    "TermDistances",
    "Traits",
    "TreeSearch",
    "Trend",
    "Type",
    "Vector",
    "Vocabulary",
    "WholeProducts",
    "WrittenSearch",
    "are_often_tied",
    "at_step",
    "container",
    "current_step",
    "missing_of",
    "rewrite",
    "show",
    "show_rule",
    "sparse_form",
    "topological",
    "verify_graph",
]
__all__ += nodes.__all__
